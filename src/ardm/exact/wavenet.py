"""The exact form of `nn.PaperWaveNet`, with the same blocks on integers.

stream = relu(input)                                         int32, 2^-k of a unit
block:   bytes of stream + step, at three taps a dilation apart -> one product: u and v
         h = tanh(u) sigmoid(v), bytes by a table of the logistic function
         total += skip(h), for the requested variables only; stream = (stream + residual(h)) / sqrt 2
outputs  = head(relu(last(total))), both in 16 bits, for the requested variables only

The step enters each block's stream as a row of a table. These rows also hold the biases of residual halves, and the
bias of `last` those of skips: both only add constants. The last block has no residual half, as nothing follows it.

A file of the paper's size takes 32.4 MB: blocks 19.1, embedded values 8.4, steps 4.7.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float32, Float64, Int, Int16, Int32, Shaped
from torch import Tensor, nn

from ardm.config import PaperWaveNetConfig
from ardm.exact.layers import WORD, ExactHead, ExactLayer, ExactProduct, require, require_sums
from ardm.exact.operations import GATE_ONE, GATE_RANGE, STREAM_LIMIT, ChosenOutputs, Operations, chosen_rows
from ardm.model import Mask, PerItem, Values, Where

MAX_LEVELS = 256
"""Rows of the step's table over all stages; outputs hardly change among the steps that share one."""
GATES_PER_NAT = 256
"""Units of v per nat; u has twice as many, since tanh(u) = 2 logistic(2u) - 1."""
INPUT_WEIGHT = 2**30
"""Largest weight of the input layer."""


class ExactWaveNet(nn.Module):
    """A WaveNet on integers, which computes the outputs of chosen variables."""

    def __init__(
        self, config: PaperWaveNetConfig, *, num_values: int, num_outputs: int, num_stages: int = 1, max_length: int
    ) -> None:
        super().__init__()
        width, dilations = config.width, config.dilations
        self.input = ExactSoundInput(width, num_values, num_stages)
        self.step = ExactStep(width, config.num_blocks, num_stages, max_length)
        self.gate = ExactGate()
        self.blocks = nn.ModuleList(ExactGatedBlock(width, dilation) for dilation in dilations[:-1])
        self.blocks.append(ExactGatedBlock(width, dilations[-1], is_last=True))
        self.last = ExactHead(width, 1, width)
        self.head = ExactHead(width, 1, num_outputs)

    def forward(self, inputs: Values, mask: Mask, stage: PerItem, where: Where, ops: Operations) -> ChosenOutputs:
        """The outputs of N variables of each item."""
        x = self.input(inputs, mask, stage)
        total = x.new_zeros(where.numel(), x.shape[-1])
        for block, step in zip(self.blocks, self.step(mask, stage).unbind(1), strict=True):
            x, total = block(x, step, total, where, self.gate.logistic, ops)
        group = torch.zeros(len(total), dtype=torch.long, device=total.device)
        hidden = self.last(words(total, low=-WORD), group, ops)
        return self.head(words(hidden, low=0), group, ops).unflatten(0, where.shape)


def words(x: Int32[Tensor, "N C"], *, low: int) -> Int16[Tensor, "N C"]:
    """16-bit values, clamped to low..32767."""
    return x.clamp(low, WORD).to(torch.int16)


class ExactGatedBlock(ExactLayer):
    """A block: (x + r) / sqrt 2 and the total + s, where [r, s] are products with tanh(u) * sigmoid(v)."""

    seen_scale: Float32[Tensor, "C"]
    """Scales from the stream to the bytes of the convolution's input."""
    gate_bias: Int32[Tensor, "C2"]
    """The biases of u and v, in their units."""
    gate_scale: Float32[Tensor, "C"]
    """Scales from products of tanh and sigmoid to bytes."""

    def __init__(self, width: int, dilation: int, *, is_last: bool = False) -> None:
        super().__init__()
        self.dilation = dilation
        self.convolution = ExactProduct(3 * width, 2 * width)
        self.residual = None if is_last else ExactProduct(width, width)
        self.skip = ExactProduct(width, width)
        self.register_buffer("seen_scale", torch.zeros(width))
        self.register_buffer("gate_bias", torch.zeros(2 * width, dtype=torch.int32))
        self.register_buffer("gate_scale", torch.zeros(width))

    def forward(
        self,
        x: Int32[Tensor, "B D C"],
        step: Int32[Tensor, "B C"],
        total: Int32[Tensor, "R C"],
        where: Int[Tensor, "B N"],
        logistic: Int16[Tensor, "L"],
        ops: Operations,
    ) -> tuple[Int32[Tensor, "B D C"], Int32[Tensor, "R C"]]:
        """The stream and the total after the block; both may be overwritten."""
        inputs = ops.rescale((x + step[:, None]).flatten(0, 1), self.seen_scale, -127).view(x.shape)
        rows = taps(inputs, self.dilation, where if self.residual is None else None).flatten(0, 1)
        sums = ops.product(rows, self.convolution.weight)
        hidden = ops.gate(sums, self.convolution.scale, self.gate_bias, logistic, self.gate_scale)
        if self.residual is None:
            return x, self.skip.add_to(total, hidden, ops)
        requested = chosen_rows(hidden.view(x.shape), where).flatten(0, 1)
        total = self.skip.add_to(total, requested, ops)
        return ops.halve_power(self.residual.add_to(x.flatten(0, 1), hidden, ops)).view(x.shape), total

    def check_bounds(self, name: str) -> None:
        """Check that u and v fit int32, and that scales are finite."""
        require(int(self.gate_bias.long().abs().max()) < 2**29, name, "a bias exceeds 2^29")
        for scale in (self.seen_scale, self.gate_scale):
            require_sums(torch.zeros(()), 0, scale, name)


def taps(
    x: Shaped[Tensor, "B D C"], dilation: int, where: Int[Tensor, "B N"] | None = None
) -> Shaped[Tensor, "B N C3"]:
    """Each variable's row between those of its neighbours before and after, for all variables or those of `where`."""
    dilation = min(dilation, x.shape[1])  # beyond the ends there are only zeros
    padded = F.pad(x, (0, 0, dilation, dilation))
    if where is None:
        return torch.cat([padded[:, i * dilation :][:, : x.shape[1]] for i in range(3)], dim=-1)
    return torch.cat([chosen_rows(padded, where + i * dilation) for i in range(3)], dim=-1)


class ExactGate(ExactLayer):
    """A table of the logistic function in 2^-12, for arguments from -2048/256 to 2047/256."""

    logistic: Int16[Tensor, "L"]

    def __init__(self) -> None:
        super().__init__()
        arguments = torch.arange(-GATE_RANGE, GATE_RANGE, dtype=torch.float64) / GATES_PER_NAT
        self.register_buffer("logistic", (GATE_ONE * arguments.sigmoid()).round().to(torch.int16))

    def check_bounds(self, name: str) -> None:
        """Check that float32 holds products of two values."""
        is_fine = int(self.logistic.min()) >= 0 and int(self.logistic.max()) <= GATE_ONE
        require(is_fine, name, "the table of the logistic function is out of range")


class ExactStep(ExactLayer):
    """The rows that the step adds to each block's stream: one per stage and level, a range of the stage's steps."""

    rows: Int16[Tensor, "S L K C"]

    def __init__(self, width: int, num_blocks: int, num_stages: int, max_length: int) -> None:
        super().__init__()
        self.max_length = max_length
        num_levels = min(max_length + 1, max(1, MAX_LEVELS // num_stages))
        self.register_buffer("rows", torch.zeros(num_stages, num_levels, num_blocks, width, dtype=torch.int16))

    def forward(self, mask: Bool[Tensor, "B D"], stage: Int[Tensor, "B"]) -> Int32[Tensor, "B K C"]:
        """The rows for the number of revealed variables, 0..D."""
        level = mask.sum(1) * self.rows.shape[1] // (mask.shape[1] + 1)
        return self.rows[stage, level].int()


class ExactSoundInput(ExactLayer):
    """Features of every sample: a convolution of values and states, and a row of a table for the value.

    The value and each state, 2s + mask, have a weight per tap; hidden values of one-stage models count as 0.
    """

    weight: Int32[Tensor, "3 J C"]
    """Weights per tap, of the value and of the states."""
    bias: Int32[Tensor, "C"]
    scale: Float64[Tensor, "C"]
    values: Int16[Tensor, "V C"]
    """Rows for the last quarter of the features, after the ReLU."""

    def __init__(self, width: int, num_values: int, num_stages: int) -> None:
        super().__init__()
        quarter = width // 4
        self.num_stages = num_stages
        self.register_buffer("weight", torch.zeros(3, 1 + 2 * num_stages, 3 * quarter, dtype=torch.int32))
        self.register_buffer("bias", torch.zeros(3 * quarter, dtype=torch.int32))
        self.register_buffer("scale", torch.zeros(3 * quarter, dtype=torch.float64))
        self.register_buffer("values", torch.zeros(num_values, quarter, dtype=torch.int16))

    def forward(
        self, inputs: Int[Tensor, "B D"], mask: Bool[Tensor, "B D"], stage: Int[Tensor, "B"]
    ) -> Int32[Tensor, "B D C"]:
        """The initial values of the stream; float64 holds the sums of integers."""
        values = inputs * mask if self.num_stages == 1 else inputs
        states = (2 * stage[:, None] + mask)[..., None] == torch.arange(2 * self.num_stages, device=mask.device)
        planes = taps(torch.cat((values[..., None], states), dim=-1).double(), 1)
        total = planes @ self.weight.double().flatten(0, 1) + self.bias.double()
        features = (total * self.scale).round().clamp(0, STREAM_LIMIT).int()
        return torch.cat((features, self.values[inputs].int()), dim=-1)

    def check_bounds(self, name: str) -> None:
        """Check that sums stay below 2^53 (float64 holds them), and that rows are not negative."""
        weight = self.weight.long().abs()
        largest = (len(self.values) * weight[:, 0] + weight[:, 1:].amax(1)).sum(0) + self.bias.long().abs()
        require_sums(largest, 53, self.scale, name)
        require(int(self.values.min()) >= 0, name, "a row of values is negative")
