"""The exact form of `nn.CodingTransformer`, with the same blocks on integers.

Rows are the characters of the next ranks of some items. What later rows need of them is kept in a memory: turned keys
(7 bits), values (8 bits), and the norms that the convolution sees (12 bits). A full pass is a continuation of empty
memories, so every way of splitting a text into calls gives the same integers.

The angles by which a position turns queries and keys are fractions of a turn in units of 2^-32, which wrap around by
themselves: positions have no limit.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int, Int8, Int16, Int32
from torch import Tensor, nn

from ardm.config import TransformerConfig
from ardm.errors import ExactError
from ardm.exact.layers import (
    BYTE,
    NORM,
    WEIGHT,
    WORD,
    ExactDepthwise,
    ExactHead,
    ExactLayer,
    ExactNorm,
    ExactProduct,
    require,
)
from ardm.exact.operations import Operations, Places
from ardm.exact.transformer import ANGLE_ONE, ExactAttention, ExactEmbedding, exponential_table, require_exponential
from ardm.exact.vector_product import TILE_COLUMNS

TURN_BITS = 32
"""Angles are in units of 2^-32 of a turn."""
TABLE_BITS = 12
"""A turn has 2^12 cosines."""
MAX_VISIBLE = 2048
"""The largest number of rows of a memory: sums of half weights times values stay below 2^24."""
CAPACITY_STEP = 64
"""Memories grow to multiples of this, and to twice their size at least."""

Rotation = tuple[Int16[Tensor, "R F"], Int16[Tensor, "R F"]]
"""The cosines and sines of each row."""


class ExactCodingTransformer(nn.Module):
    """A Transformer on integers that follows strands; `start` is the value that stands for no character before."""

    def __init__(
        self, config: TransformerConfig, *, num_values: int, num_outputs: int, start: int, max_length: int
    ) -> None:
        super().__init__()
        width = config.width
        self.config, self.start, self.max_length = config, start, max_length
        self.embedding = ExactEmbedding(width, num_values, 1)
        self.rotation = ExactTurns(max_length, config.head_width)
        self.blocks = nn.ModuleList(ExactStrandBlock(config) for _ in range(config.num_layers))
        self.head_norm = ExactNorm(width, limit=WORD)
        self.head = ExactHead(width, 1, num_outputs)

    def forward(
        self, before: Int[Tensor, "R"], rows: "NewRows", memory: "ExactMemory", ops: Operations
    ) -> Int32[Tensor, "R O"]:
        """The outputs of rows that the memory has already placed, from the character before each."""
        x = ops.embed(before[:, None], self.embedding.values)
        rotation = self.rotation.at(rows.positions)
        for block, state in zip(self.blocks, memory.layers, strict=True):
            x = block(x, rows.places, rotation, self.rotation.exponential, state, ops)
        group = torch.zeros(len(x), dtype=torch.long, device=x.device)
        return self.head(self.head_norm(x, ops), group, ops)

    def new_memory(self, num_items: int, capacity: int = CAPACITY_STEP) -> "ExactMemory":
        """Empty memories of items, with room for some rows each; they grow when they must."""
        return ExactMemory(self.config, num_items, capacity, self.embedding.values.device)


class ExactStrandBlock(nn.Module):
    """stream + attention(norm), then stream + contract(relu(expand(norm))^2); a kernel above 1 convolves this norm."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, hidden = config.width, config.mlp_ratio * config.width
        self.attention = ExactStrandAttention(width, config.head_width)
        self.norm = ExactNorm(width, limit=BYTE if config.kernel == 1 else NORM)
        self.depthwise = ExactDepthwise(width, (1, config.kernel)) if config.kernel > 1 else None
        self.expand = ExactProduct(width, hidden)
        self.contract = ExactProduct(hidden, width)

    def forward(
        self,
        x: Int32[Tensor, "R C"],
        places: Places,
        rotation: Rotation,
        exponential: Int32[Tensor, "L"],
        state: "LayerMemory",
        ops: Operations,
    ) -> Int32[Tensor, "R C"]:
        """The block's output, of which the layer's memory keeps what later rows need; x may be overwritten."""
        x = self.attention(x, places, rotation, exponential, state, ops)
        hidden = ops.squared_activations(self._mixed(x, places, state, ops), self.expand.weight, self.expand.scale)
        return self.contract.add_to(x, hidden, ops)

    def _mixed(
        self, x: Int32[Tensor, "R C"], places: Places, state: "LayerMemory", ops: Operations
    ) -> Int8[Tensor, "R C"]:
        """The feed-forward part's input."""
        normed = self.norm(x, ops)
        if self.depthwise is None:
            return normed.to(torch.int8)
        state.seen[places.item, places.number] = normed
        return ops.depthwise_before(state.seen, places, self.depthwise.weight, self.depthwise.scale)


class ExactStrandAttention(ExactAttention):
    """Attention to the rows of lower or equal rank, added to the stream. Keys have 7 bits, as a product's weights."""

    turn_limits = (BYTE, WEIGHT)

    def forward(  # type: ignore[override]
        self,
        x: Int32[Tensor, "R C"],
        places: Places,
        rotation: Rotation,
        exponential: Int32[Tensor, "L"],
        state: "LayerMemory",
        ops: Operations,
    ) -> Int32[Tensor, "R C"]:
        """The stream plus the attention's output; keys and values go into the memory. x may be overwritten."""
        rows = self.norm(x, ops).to(torch.int8)
        query, key = (self._turned(part, rows, rotation, ops) for part in range(2))
        value = ops.activations(rows, self.value.weight, self.value.scale, -BYTE).view(query.shape)
        ops.remember(state.keys, state.values, places, key, value)
        constants = (exponential, self.score_scale, self.mean_scale)
        mixed = ops.attend_visible(query, state.keys, state.values, places, *constants)
        return self.output.add_to(x, mixed.flatten(1), ops)

    def _turned(
        self, part: int, rows: Int8[Tensor, "R C"], rotation: Rotation, ops: Operations
    ) -> Int8[Tensor, "R H E"]:
        """Queries (0) or keys (1)."""
        product, norm = ((self.query, self.query_norm), (self.key, self.key_norm))[part]
        heads = norm(product.new_stream(rows, ops).view(len(rows), -1, self.head_width), ops)
        return ops.rotate(heads[None], *rotation, self.turn_scale[part], self.turn_limits[part])[0]


class ExactTurns(ExactLayer):
    """Cosines and sines of positions, from a table of one turn, and the exponential of attention as a table."""

    steps: Int32[Tensor, "F"]
    """The angle of each pair of channels between neighbouring positions."""
    cos: Int16[Tensor, "L"]
    sin: Int16[Tensor, "L"]
    exponential: Int32[Tensor, "E"]

    def __init__(self, max_length: int, head_width: int) -> None:
        super().__init__()
        self.max_length = max_length
        frequencies = 10_000.0 ** -torch.linspace(0, 1, head_width // 2, dtype=torch.float64)
        turn = 2 * torch.pi
        self.register_buffer("steps", (frequencies * (2**TURN_BITS / turn)).round().int())
        angles = torch.arange(2**TABLE_BITS, dtype=torch.float64) * (turn / 2**TABLE_BITS)
        for name, table in (("cos", angles.cos()), ("sin", angles.sin())):
            self.register_buffer(name, (table * ANGLE_ONE).round().to(torch.int16))
        self.register_buffer("exponential", exponential_table())

    def at(self, positions: Int[Tensor, "R"]) -> Rotation:
        """The cosines and sines of positions."""
        angles = (positions[:, None] % 2**TURN_BITS) * self.steps % 2**TURN_BITS
        index = angles >> (TURN_BITS - TABLE_BITS)
        return self.cos[index], self.sin[index]

    def check_bounds(self, name: str) -> None:
        """Check that turned values fit int32, and that halves of weighted sums stay below 2^24."""
        largest = max(int(table.int().abs().max()) for table in (self.cos, self.sin))
        require(2 * NORM * largest < 2**31, name, f"a cosine or sine of {largest} is too large")
        require(int(self.steps.min()) >= 0, name, "a step is negative")
        require(self.max_length <= MAX_VISIBLE, name, f"{self.max_length} positions are too many")
        require_exponential(self.exponential, name)


@dataclass
class LayerMemory:
    """The state that one layer keeps of the rows of each item."""

    keys: Int8[Tensor, "B H E M"]
    values: Int8[Tensor, "B H M E1"]
    """With channels up to a multiple of a tile's columns."""
    seen: Int16[Tensor, "B M C"]
    """The inputs of the convolution."""

    def taken(self, rows: Int[Tensor, "B N"]) -> "LayerMemory":
        """The memory of some rows of each item."""
        keys = self.keys.take_along_dim(rows[:, None, None, :], 3)
        values = self.values.take_along_dim(rows[:, None, :, None], 2)
        return LayerMemory(
            keys, values, self.seen.take_along_dim(rows[..., None], 1) if self.seen.numel() else self.seen
        )

    def grown(self, capacity: int) -> "LayerMemory":
        """The memory with room for more rows."""
        more = capacity - self.values.shape[2]
        pad = nn.functional.pad
        return LayerMemory(
            pad(self.keys, (0, more)), pad(self.values, (0, 0, 0, more)), pad(self.seen, (0, 0, 0, more))
        )


@dataclass(frozen=True)
class NewRows:
    """Rows of the next ranks of some items: their places in the memories, and their positions in the texts."""

    places: Places
    positions: Int[Tensor, "R"]


class ExactMemory:
    """The state that a network keeps of the characters of some items, each with a layout of its own."""

    def __init__(self, config: TransformerConfig, num_items: int, capacity: int, device: torch.device) -> None:
        heads, size = config.width // config.head_width, config.head_width
        self.kernel, self.capacity = config.kernel, _rounded_up(capacity)
        width = config.width if config.kernel > 1 else 0

        def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(num_items, *shape, dtype=dtype, device=device)

        self.layers = [
            LayerMemory(
                keys=zeros(heads, size, self.capacity, dtype=torch.int8),
                values=zeros(heads, self.capacity, -(-size // TILE_COLUMNS) * TILE_COLUMNS, dtype=torch.int8),
                seen=zeros(self.capacity, width, dtype=torch.int16),
            )
            for _ in range(config.num_layers)
        ]
        self.counts = zeros(dtype=torch.int64)
        """The number of rows of each item."""
        self.first = zeros(dtype=torch.int64)
        """The first position of each item that is kept."""
        self.positions = zeros(self.capacity, dtype=torch.int64)
        """The position of each row."""
        self.number_at = zeros(self.capacity, dtype=torch.int64)
        """The row of each position, counted from the first one."""

    def add(self, item: Int[Tensor, "R"], positions: Int[Tensor, "R"], num_before: Int[Tensor, "R"]) -> NewRows:
        """Places for rows of the next ranks; those of an item must be neighbours, by rising rank."""
        added = torch.bincount(item, minlength=len(self.counts))
        start = added.cumsum(0) - added
        number = self.counts[item] + torch.arange(len(item), device=item.device) - start[item]
        self.counts = self.counts + added
        offset = positions - self.first[item]
        self._make_room(int(self.counts.max()), int(offset.max()) + 1)
        self.positions[item, number] = positions
        self.number_at[item, offset] = number
        return NewRows(Places(item, number, self._taps(item, offset, num_before)), positions)

    def _taps(
        self, item: Int[Tensor, "R"], offset: Int[Tensor, "R"], num_before: Int[Tensor, "R"]
    ) -> Int[Tensor, "R K"]:
        """The rows of the characters before each in its strand, as far as they are kept, and of itself."""
        near = torch.arange(self.kernel - 1, -1, -1, device=item.device)
        wanted = offset[:, None] - near
        is_seen = (near <= num_before[:, None]) & (wanted >= 0)
        return torch.where(is_seen, self.number_at[item[:, None], wanted.clamp(min=0)], -1)

    def _make_room(self, num_rows: int, num_positions: int) -> None:
        if num_rows > MAX_VISIBLE:
            raise ExactError(f"{num_rows} characters are more than an exact network sees at a time, {MAX_VISIBLE}")
        if num_rows > self.capacity:
            more = _rounded_up(max(num_rows, 2 * self.capacity)) - self.capacity
            self.capacity += more
            self.layers = [layer.grown(self.capacity) for layer in self.layers]
            self.positions = nn.functional.pad(self.positions, (0, more))
        if num_positions > self.number_at.shape[1]:
            self.number_at = nn.functional.pad(self.number_at, (0, num_positions - self.number_at.shape[1]))

    def forget_before(self, position: int) -> None:
        """Drop all characters before a position."""
        if position <= int(self.first.min()):
            return
        is_row = torch.arange(self.capacity, device=self.counts.device) < self.counts[:, None]
        is_kept = is_row & (self.positions >= position)
        rows = (~is_kept).to(torch.int8).argsort(dim=1, stable=True)
        self.layers = [layer.taken(rows) for layer in self.layers]
        self.positions = self.positions.take_along_dim(rows, 1)
        self.counts = is_kept.sum(1)
        self.first = self.first.clamp(min=position)
        is_row = torch.arange(self.capacity, device=self.counts.device) < self.counts[:, None]
        item, number = is_row.nonzero().unbind(1)
        self.number_at[item, self.positions[item, number] - self.first[item]] = number


def _rounded_up(number: int) -> int:
    return -(-number // CAPACITY_STEP) * CAPACITY_STEP
