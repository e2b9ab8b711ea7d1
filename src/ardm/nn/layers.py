"""Layers that several networks share."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from ardm.model import Mask, Outputs, PerItem, Values, Where, rows_at

STEP_SCALE = 1000.0
MATRIX_UNIT = 8
"""GPUs multiply matrices several times faster if their sides are multiples of this."""


def linear(num_inputs: int, num_outputs: int, *, bias: bool = False, zero: bool = False) -> nn.Linear:
    """A linear map, initialised to unit gain over its inputs or to zero; the bias begins at zero."""
    layer = nn.Linear(num_inputs, num_outputs, bias=bias)
    initialise(layer, zero=zero)
    return layer


def initialise(layer: nn.Conv2d | nn.Linear, *, zero: bool = False) -> None:
    """Draw the weights for unit gain, or set them to zero."""
    if zero:
        nn.init.zeros_(layer.weight)
    else:
        nn.init.normal_(layer.weight, std=layer.weight[0].numel() ** -0.5)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def full_precision(layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The layer's output in float32, even under autocast: the 8 bits of bfloat16 cannot tell 2^16 values apart."""
    with torch.autocast(x.device.type, enabled=False):
        return layer(x.float() if x.dtype == torch.bfloat16 else x)


def embed(table: Float[Tensor, "V C"], index: Int[Tensor, "B D"]) -> Float[Tensor, "B D C"]:
    """Rows of the table, as a product with one-hot rows: its gradient is a product too, hence deterministic."""
    padded = F.pad(table, (0, 0, 0, -len(table) % MATRIX_UNIT))
    one_hot = index[..., None] == torch.arange(len(padded), device=index.device)
    return one_hot.to(table.dtype) @ padded


class PointwiseHead(nn.Module, ABC):
    """A network whose head maps the features of each variable to its outputs, so that a few cost less than all."""

    @abstractmethod
    def features(self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem) -> Float[Tensor, "B D C"]:
        """The head's input for every variable."""

    @abstractmethod
    def read_out(self, features: Float[Tensor, "B N C"]) -> Float[Tensor, "B N O"]:
        """The head: outputs from the features of variables."""

    def forward(self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem) -> Outputs:
        """Outputs for every variable."""
        return self.read_out(self.features(inputs, mask, stage, t))

    def outputs_at(
        self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem, where: Where
    ) -> Float[Tensor, "B N O"]:
        """Outputs for N variables of each item."""
        return self.read_out(rows_at(self.features(inputs, mask, stage, t), where))


class ReadOut(nn.Linear):
    """A linear map to outputs, padded to a number that GPUs multiply fast."""

    def __init__(self, num_inputs: int, num_outputs: int) -> None:
        super().__init__(num_inputs, num_outputs)

    def forward(self, x: Float[Tensor, "*B C"]) -> Float[Tensor, "*B O"]:
        extra = -self.out_features % MATRIX_UNIT
        outputs = F.linear(x, F.pad(self.weight, (0, 0, 0, extra)), F.pad(self.bias, (0, extra)))
        return outputs[..., : self.out_features]


def rms_norm(x: Tensor) -> Tensor:
    """x over its root mean square along the last axis; no gain, which the next layer can absorb."""
    return F.rms_norm(x, (x.shape[-1],)).to(x.dtype)  # autocast would continue in float32


def gelu(x: Tensor) -> Tensor:
    """GELU in its tanh form; compiled code writes the tanh as a logistic function, which costs half as much."""
    if not torch.compiler.is_compiling():
        return F.gelu(x, approximate="tanh")
    scale = 2 * math.sqrt(2 / math.pi)
    return x * torch.sigmoid(scale * (x + 0.044715 * x**3))


def relu_of(layer: nn.Linear, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
    """relu(layer(x)) of a layer without bias; compiled code applies the relu within the product."""
    assert layer.bias is None
    if not torch.compiler.is_compiling():
        return F.relu(layer(x))
    rows: Tensor = _ReluProduct.apply(x.flatten(0, -2), layer.weight.to(x.dtype))
    return rows.unflatten(0, x.shape[:-1])


class _ReluProduct(torch.autograd.Function):
    """relu(x weight^T)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        result = torch._addmm_activation(x.new_zeros(len(weight)), x, weight.T)
        ctx.save_for_backward(x, weight, result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight, result = ctx.saved_tensors
        gradient = torch.where(result > 0, gradient, 0)
        return gradient @ weight, gradient.T @ x


class StepEmbedding(nn.Module):
    """The step s*D + t out of S*D as a vector of 4F: sines and cosines, then two dense layers, a swish after each."""

    def __init__(self, width: int, *, num_stages: int) -> None:
        super().__init__()
        self.num_stages = num_stages
        self.first = linear(width, 4 * width, bias=True)
        self.second = linear(4 * width, 4 * width, bias=True)

    def forward(self, stage: Int[Tensor, "B"], t: Int[Tensor, "B"], num_variables: int) -> Float[Tensor, "B E"]:
        """The embedding of each item's step among its D variables."""
        step = (stage * num_variables + t) * (STEP_SCALE / (self.num_stages * num_variables))
        code = sinusoids(step, self.first.in_features).to(self.first.weight.dtype)
        return F.silu(self.second(F.silu(self.first(code))))


def sinusoids(positions: Float[Tensor, "*B"], width: int) -> Float[Tensor, "*B F"]:
    """sin and cos of position / 10000^(i / (half - 1)), half of the features each, i = 0..half-1."""
    half = width // 2
    frequencies = 10_000.0 ** (-torch.arange(half, device=positions.device) / max(half - 1, 1))
    angles = positions[..., None] * frequencies
    return torch.cat((angles.sin(), angles.cos()), dim=-1)
