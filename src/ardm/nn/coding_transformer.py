"""The coding network: a Transformer whose attention follows strands, so that calls share their work.

Its blocks are those of `transformer`. The input at a position is the character before it in its strand, or a start
class (see `strands`). Attention sees positions of lower or equal rank: in the sequence of ranks that is plain causal
attention, so the rows are put into that sequence before it and back after it. The depthwise convolution sees the
characters before a position in its strand only, so it works on the text as written.

    full pass      all positions at once: training, and the exact bits of a text
    continuation   positions of the next ranks only, with the keys, values and convolution inputs of all earlier ones
                   at hand: sampling and long texts; the outputs are the same
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ardm.config import TransformerConfig
from ardm.nn.layers import ReadOut, embed, rms_norm
from ardm.nn.transformer import Block, Depthwise, Rotation, rotary_angles_at
from ardm.strands import StrandLayout


class CodingTransformer(nn.Module):
    """A Transformer from the characters before to outputs for every character of strands."""

    def __init__(self, config: TransformerConfig, *, num_values: int, num_outputs: int) -> None:
        super().__init__()
        self.head_width = config.head_width
        self.embedding = nn.Parameter(torch.randn(num_values, config.width))
        self.blocks = nn.ModuleList(StrandBlock(config) for _ in range(config.num_layers))
        self.head = ReadOut(config.width, num_outputs)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, before: Int[Tensor, "B T"], layout: StrandLayout) -> Float[Tensor, "B T O"]:
        """Outputs for every position; `before` holds the character before each one in its strand."""
        x = embed(self.embedding, before)
        rows = torch.arange(len(before), device=before.device)[:, None] * before.shape[1]
        order, rank = (rows + layout.order).flatten(), (rows + layout.rank).flatten()
        rotation = rotary_angles_at(layout.order[:, None], self.head_width, x)  # the same for all heads
        for block in self.blocks:
            x = block(x, order, rank, layout.num_before, rotation)
        return self.read_out(x)

    def read_out(self, x: Float[Tensor, "B N C"]) -> Float[Tensor, "B N O"]:
        """Outputs from the last block's."""
        outputs: Tensor = self.head(rms_norm(x))
        return outputs

    def new_memory(self, num_items: int) -> "Memory":
        """The memory before the first character."""
        heads = self.embedding.new_zeros(num_items, self.embedding.shape[1] // self.head_width, 0, self.head_width)
        seen = self.embedding.new_zeros(num_items, 0, self.embedding.shape[1])
        states = [LayerState(heads, heads, seen) for _ in self.blocks]
        return Memory(states, torch.zeros(0, dtype=torch.int64, device=seen.device))

    def advance(
        self,
        before: Int[Tensor, "B N"],
        positions: Int[Tensor, "N"],
        num_before: Int[Tensor, "N"],
        memory: "Memory",
    ) -> Float[Tensor, "B N O"]:
        """Outputs for the positions of the next N ranks, in their sequence; the memory learns them."""
        x = embed(self.embedding, before)
        rotation = rotary_angles_at(positions, self.head_width, x)
        memory.extend(positions)
        for block, state in zip(self.blocks, memory.states, strict=True):
            assert isinstance(block, StrandBlock)
            x = block.advance(x, positions, num_before, rotation, memory, state)
        return self.read_out(x)


class StrandBlock(Block):
    """`Block` with attention by rank and a convolution within strands."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, causal=True)
        if config.kernel > 1:
            self.depthwise = StrandDepthwise(config.width, config.kernel, causal=True)

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "B T C"],
        order: Int[Tensor, "BT"],
        rank: Int[Tensor, "BT"],
        num_before: Int[Tensor, "B T"],
        rotation: Rotation,
    ) -> Float[Tensor, "B T C"]:
        """The block's output; `order` and `rank` number the rows of all texts."""
        by_rank = permute_rows(rms_norm(x), order, rank)
        x = x + permute_rows(self.attention(by_rank, rotation), rank, order)
        seen = rms_norm(x)
        if isinstance(self.depthwise, StrandDepthwise):
            seen = self.depthwise(seen, num_before)
        return x + self.feed_forward(seen)

    def advance(
        self,
        x: Float[Tensor, "B N C"],
        positions: Int[Tensor, "N"],
        num_before: Int[Tensor, "N"],
        rotation: Rotation,
        memory: "Memory",
        state: "LayerState",
    ) -> Float[Tensor, "B N C"]:
        """The block's output for the next ranks, which the layer's state learns."""
        query, key, value = self.attention.project(rms_norm(x), rotation)
        state.keys, state.values = _joined(state.keys, key, 2), _joined(state.values, value, 2)
        x = x + self.attention.mix(query, state.keys, state.values, attn_mask=memory.visible(len(positions)))
        seen = rms_norm(x)
        if isinstance(self.depthwise, StrandDepthwise):
            state.seen = _joined(state.seen, seen, 1)
            taps = memory.places_before(positions, num_before, len(self.depthwise.weight))
            seen = self.depthwise.at(state.seen, taps)
        return x + self.feed_forward(seen)


class StrandDepthwise(Depthwise):
    """A depthwise convolution over a character and those before it in its strand."""

    def forward(self, x: Float[Tensor, "B T C"], num_before: Int[Tensor, "B T"]) -> Float[Tensor, "B T C"]:  # type: ignore[override]
        """Each position mixed with those before it in its strand, channel by channel."""
        length, last = x.shape[1], len(self.weight) - 1
        padded, taps = F.pad(x, (0, 0, last, 0)), self.weight.to(x.dtype)
        near = [padded[:, k : k + length].masked_fill((num_before < last - k)[..., None], 0.0) for k in range(last)]
        return torch.stack([part * tap for part, tap in zip([*near, x], taps, strict=True)]).sum(0)

    def at(self, seen: Float[Tensor, "B M C"], taps: Int[Tensor, "N K"]) -> Float[Tensor, "B N C"]:
        """A few positions mixed; `taps` are the rows of what they see, and -1 where they see nothing."""
        rows = F.pad(seen, (0, 0, 0, 1))[:, taps]  # the row at -1 holds zeros
        return (rows * self.weight.to(seen.dtype)).sum(2)


@dataclass
class LayerState:
    """The state that one layer keeps of earlier positions, in the sequence of their ranks."""

    keys: Float[Tensor, "B H M E"]
    values: Float[Tensor, "B H M E"]
    seen: Float[Tensor, "B M C"]
    """The inputs of the convolution."""

    def kept(self, rows: Int[Tensor, "M"]) -> "LayerState":
        """The state of some of the positions."""
        return LayerState(self.keys[:, :, rows], self.values[:, :, rows], self.seen[:, rows])


@dataclass
class Memory:
    """The state that a network keeps of the positions so far, in the sequence of their ranks."""

    states: list[LayerState]
    positions: Int[Tensor, "M"]
    first: int = 0
    """The first position that is kept."""

    def extend(self, positions: Int[Tensor, "N"]) -> None:
        """Add the positions of the next ranks."""
        self.positions = torch.cat([self.positions, positions])

    def visible(self, num_new: int) -> Bool[Tensor, "N M"]:
        """Which of all positions each of the last ones sees: those of lower or equal rank."""
        total = len(self.positions)
        number = torch.arange(total, device=self.positions.device)
        return number <= number[total - num_new :, None]

    def places_before(
        self, positions: Int[Tensor, "N"], num_before: Int[Tensor, "N"], kernel: int
    ) -> Int[Tensor, "N K"]:
        """The rows of the K - 1 positions before each one and of itself; -1 where there is none in the strand."""
        near = torch.arange(kernel - 1, -1, -1, device=positions.device)
        wanted = positions[:, None] - near
        is_seen = (near <= num_before[:, None]) & (wanted >= self.first)
        sorted_positions, rows = self.positions.sort()
        found = torch.searchsorted(sorted_positions, wanted.clamp(min=self.first))
        return torch.where(is_seen, rows[found.clamp(max=len(rows) - 1)], -1)

    def forget_before(self, position: int) -> None:
        """Drop all positions before one."""
        if position <= self.first:
            return
        self.first = position
        rows = (self.positions >= position).nonzero()[:, 0]
        self.states = [state.kept(rows) for state in self.states]
        self.positions = self.positions[rows]


def _joined(earlier: Tensor, new: Tensor, dim: int) -> Tensor:
    """Earlier rows and new ones, in the precision of the new."""
    return torch.cat([earlier.to(new.dtype), new], dim)


class _PermutedRows(torch.autograd.Function):
    """Rows by number; the gradient takes them back, instead of adding up as that of indexing does."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return x.flatten(0, 1).index_select(0, rows).view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (inverse,) = ctx.saved_tensors
        return gradient.flatten(0, 1).index_select(0, inverse).view_as(gradient), None, None


def permute_rows(x: Float[Tensor, "B T C"], rows: Int[Tensor, "BT"], inverse: Int[Tensor, "BT"]) -> Tensor:
    """The rows of all texts in another sequence; `inverse` is the inverse permutation."""
    result: Tensor = _PermutedRows.apply(x, rows, inverse)
    return result
