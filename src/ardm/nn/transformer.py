"""Our Transformer: RoPE, QK-norm, squared ReLU, RMS norms without gains, residual outputs that start at zero.

With a kernel above 1, feed-forward parts see their neighbours through a depthwise convolution.

Every block has an exact integer form (products, one square root and one division for a norm, a table for the
softmax's exponential), which the codec needs. The network sees neither the step t nor, where the mask is a class,
the mask: both follow from the input.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from ardm.config import TransformerConfig
from ardm.model import Mask, PerItem, Values
from ardm.nn.layers import PointwiseHead, ReadOut, embed, linear, rms_norm


class Transformer(PointwiseHead):
    """A bidirectional Transformer from V input values to O outputs for every variable."""

    def __init__(self, config: TransformerConfig, *, num_values: int, num_outputs: int, num_stages: int = 1) -> None:
        super().__init__()
        self.num_stages = num_stages
        self.embedding = nn.Parameter(torch.randn(num_values, config.width))
        states = 2 * num_stages if num_stages > 1 else 0
        self.state_embedding = nn.Parameter(torch.randn(states, config.width) * 0.1) if states else None
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.head = ReadOut(config.width, num_outputs)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.head_width = config.head_width

    def read_out(self, features: Float[Tensor, "B N C"]) -> Float[Tensor, "B N O"]:
        outputs: Tensor = self.head(rms_norm(features))
        return outputs

    def features(self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem) -> Float[Tensor, "B D C"]:
        x = embed(self.embedding, inputs)
        if self.state_embedding is not None:
            x = x + embed(self.state_embedding, 2 * stage[:, None] + mask)
        rotation = rotary_angles(inputs.shape[1], self.head_width, x)
        for block in self.blocks:
            x = block(x, rotation)
        return x


Rotation = tuple[Tensor, Tensor]
"""Cosines and sines of the angles by which positions turn queries and keys."""


Heads = Float[Tensor, "B H _ E"]


class Block(nn.Module):
    """x + attention(norm x), then x + mlp(norm x), this norm mixed with that of neighbours if the kernel is above 1.

    A causal block lets a variable see itself and those before.
    """

    def __init__(self, config: TransformerConfig, *, causal: bool = False) -> None:
        super().__init__()
        width, hidden = config.width, config.mlp_ratio * config.width
        self.attention = Attention(width, config.head_width, causal=causal)
        self.depthwise = Depthwise(width, config.kernel, causal=causal) if config.kernel > 1 else None
        self.expand = linear(width, hidden)
        self.contract = linear(hidden, width, zero=True)

    def forward(
        self, x: Float[Tensor, "B D C"], rotation: Rotation, key_rotation: Rotation | None = None
    ) -> Float[Tensor, "B D C"]:
        """The block's output; keys are turned like queries unless they have another rotation."""
        x = x + self.attention(rms_norm(x), rotation, key_rotation)
        seen = rms_norm(x) if self.depthwise is None else self.depthwise(rms_norm(x))
        return x + self.feed_forward(seen)

    def feed_forward(self, seen: Float[Tensor, "B D C"]) -> Float[Tensor, "B D C"]:
        """The pointwise layers."""
        output: Tensor = self.contract(F.relu(self.expand(seen)).square())
        return output


class Depthwise(nn.Module):
    """A depthwise convolution along the variables, padded with zeros, as a sum that PyTorch compiles to one pass."""

    def __init__(self, width: int, kernel: int, *, causal: bool = False) -> None:
        super().__init__()
        self.num_before = kernel - 1 if causal else kernel // 2
        self.weight = nn.Parameter(torch.randn(kernel, width) * 0.5 * kernel**-0.5)
        with torch.no_grad():
            self.weight[self.num_before] += 0.8  # at first mostly the variable itself

    def forward(self, x: Float[Tensor, "B D C"]) -> Float[Tensor, "B D C"]:
        """Each variable mixed with its neighbours, channel by channel."""
        num_after, length = len(self.weight) - 1 - self.num_before, x.shape[1]
        padded, taps = F.pad(x, (0, 0, self.num_before, num_after)), self.weight.to(x.dtype)
        return torch.stack([padded[:, k : k + length] * tap for k, tap in enumerate(taps)]).sum(0)


class Attention(nn.Module):
    """Attention with rotary positions and normalised queries and keys, bidirectional unless it is causal."""

    def __init__(self, width: int, head_width: int, *, causal: bool = False) -> None:
        super().__init__()
        self.query_key_value = nn.Parameter(torch.randn(3, width, width) * width**-0.5)
        self.output = linear(width, width, zero=True)
        self.head_width, self.causal = head_width, causal

    def forward(
        self, x: Float[Tensor, "B D C"], rotation: Rotation, key_rotation: Rotation | None = None
    ) -> Float[Tensor, "B D C"]:
        query, key, value = self.project(x, rotation, key_rotation)
        return self.mix(query, key, value, is_causal=self.causal)

    def project(
        self, x: Float[Tensor, "B D C"], rotation: Rotation, key_rotation: Rotation | None = None
    ) -> tuple[Heads, Heads, Heads]:
        """Queries and keys, normalised and turned, and values."""
        query, key, value = (
            F.linear(x, weight).unflatten(-1, (-1, self.head_width)).transpose(1, 2) for weight in self.query_key_value
        )  # each (B, heads, D, head_width); one product for all three takes longer on an H200
        return rotate(rms_norm(query), *rotation), rotate(rms_norm(key), *(key_rotation or rotation)), value

    def mix(self, query: Heads, key: Heads, value: Heads, **options: Any) -> Float[Tensor, "B D C"]:
        """The output from the values, weighed by queries and keys; options are those of PyTorch's attention."""
        mixed = F.scaled_dot_product_attention(query, key, value, **options)
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return output


def rotary_angles(length: int, head_width: int, like: Tensor) -> Rotation:
    """Cosines and sines of the rotary position code, (length, head_width / 2) each."""
    return rotary_angles_at(torch.arange(length, device=like.device), head_width, like)


def rotary_angles_at(positions: Int[Tensor, "*B D"], head_width: int, like: Tensor) -> Rotation:
    """Cosines and sines of the rotary code of given positions, (*B, D, head_width / 2) each."""
    frequencies = 10_000.0 ** -torch.linspace(0, 1, head_width // 2, device=like.device)
    angles = positions[..., None] * frequencies
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def rotate(x: Float[Tensor, "B H D C"], cos: Tensor, sin: Tensor) -> Float[Tensor, "B H D C"]:
    """Pairs (first half, second half of the channels) turned by the angles of their position."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
