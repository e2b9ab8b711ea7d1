"""The exact form of `nn.Transformer`, with the same blocks on integers.

stream = embedding                                           int32, 2^-k of a unit
block:   stream += output(attention(norm)), then stream += contract(relu(expand(norm))^2);
         with a kernel above 1, expand(depthwise(norm in 12 bits))
attention: queries and keys normalised in 12 bits, turned by integer cosines, then bytes; scores become weights
           of 12 bits by a table of the exponential; the weighted mean of values is one division
outputs  = head(norm in 16 bits), for the requested variables only
"""

from typing import cast

import torch
from jaxtyping import Float32, Float64, Int, Int8, Int16, Int32
from torch import Tensor, nn

from ardm.config import TransformerConfig
from ardm.exact.layers import BYTE, NORM, WORD, ExactDepthwise, ExactHead, ExactLayer, ExactNorm, ExactProduct, require
from ardm.exact.operations import STREAM_LIMIT, ChosenOutputs, Operations, chosen_rows
from ardm.model import Mask, PerItem, Values, Where
from ardm.nn.transformer import rotary_angles

ANGLE_ONE = 2**14
"""Cosines and sines are in units of 2^-14."""
EXPONENTIAL_ONE = 4095
SCORES_PER_NAT = 64


class ExactTransformer(nn.Module):
    """A Transformer on integers, which computes the outputs of chosen variables."""

    def __init__(
        self, config: TransformerConfig, *, num_values: int, num_outputs: int, num_stages: int = 1, max_length: int
    ) -> None:
        super().__init__()
        width = config.width
        self.embedding = ExactEmbedding(width, num_values, num_stages)
        self.rotation = ExactRotation(max_length, config.head_width)
        self.blocks = nn.ModuleList(ExactBlock(config) for _ in range(config.num_layers))
        self.head_norm = ExactNorm(width, limit=WORD)
        self.head = ExactHead(width, 1, num_outputs)

    def forward(self, inputs: Values, mask: Mask, stage: PerItem, where: Where, ops: Operations) -> ChosenOutputs:
        """The outputs of N variables of each item."""
        x = self.embedding(inputs, mask, stage, ops)
        for block in self.blocks[:-1]:
            x = block(x, self.rotation, ops)
        last = cast(ExactBlock, self.blocks[-1])
        rows = last.rows_at(x, where, self.rotation, ops).flatten(0, 1)
        group = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
        return self.head(self.head_norm(rows, ops), group, ops).unflatten(0, where.shape)


class ExactBlock(nn.Module):
    """stream + attention(norm), then stream + contract(relu(expand(norm))^2); a kernel above 1 convolves this norm."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, hidden = config.width, config.mlp_ratio * config.width
        self.attention = ExactAttention(width, config.head_width)
        self.norm = ExactNorm(width, limit=BYTE if config.kernel == 1 else NORM)
        self.depthwise = ExactDepthwise(width, (1, config.kernel)) if config.kernel > 1 else None
        self.expand = ExactProduct(width, hidden)
        self.contract = ExactProduct(hidden, width)
        self.radius = config.kernel // 2

    def forward(self, x: Int32[Tensor, "B D C"], rotation: "ExactRotation", ops: Operations) -> Int32[Tensor, "B D C"]:
        """The block's output; x may be overwritten."""
        x = self.attention(x, rotation, ops)
        normed = self.norm(x, ops)
        mixed = normed.to(torch.int8) if self.depthwise is None else self.depthwise(normed[:, None], ops)[:, 0]
        return self._feed_forward(x, mixed, ops)

    def rows_at(
        self, x: Int32[Tensor, "B D C"], where: Int[Tensor, "B N"], rotation: "ExactRotation", ops: Operations
    ) -> Int32[Tensor, "B N C"]:
        """The block's output for some variables, from only the rows in their kernels; x may be overwritten."""
        around = torch.arange(self.radius * 2 + 1, device=where.device) - self.radius
        if where.shape[1] * len(around) >= x.shape[1]:
            return chosen_rows(self(x, rotation, ops), where)
        window = where[..., None] + around
        is_inside = (window >= 0) & (window < x.shape[1])
        x = self.attention(x, rotation, ops, where=window.clamp(0, x.shape[1] - 1).flatten(1))
        normed = self.norm(x, ops)
        x, normed = (rows.unflatten(1, window.shape[1:]) for rows in (x, normed))  # (B, N, window, C)
        normed = normed.masked_fill(~is_inside[..., None], 0)
        mixed = normed.to(torch.int8) if self.depthwise is None else self.depthwise(normed, ops)
        return self._feed_forward(x[:, :, self.radius].contiguous(), mixed[:, :, self.radius].contiguous(), ops)

    def _feed_forward(
        self, x: Int32[Tensor, "B N C"], mixed: Int8[Tensor, "B N C"], ops: Operations
    ) -> Int32[Tensor, "B N C"]:
        hidden = ops.squared_activations(mixed.flatten(0, 1), self.expand.weight, self.expand.scale)
        return self.contract.add_to(x.flatten(0, 1), hidden, ops).view(x.shape)


class ExactAttention(ExactLayer):
    """Bidirectional attention with rotary positions and normalised queries and keys, added to the stream."""

    turn_limits = (BYTE, BYTE)
    """The largest turned queries and keys."""
    turn_scale: Float64[Tensor, "2"]
    """Scales from turned queries and keys to bytes."""
    score_scale: Float32[Tensor, ""]
    """Scale from products of queries and keys to 64ths of a nat."""
    mean_scale: Float64[Tensor, "H C"]
    """Scales from means of values to the units of the output's inputs."""

    def __init__(self, width: int, head_width: int) -> None:
        super().__init__()
        self.head_width, num_heads = head_width, width // head_width
        self.norm = ExactNorm(width, limit=BYTE)
        self.query, self.key, self.value = (ExactProduct(width, width) for _ in range(3))
        self.query_norm, self.key_norm = (ExactNorm(head_width, limit=NORM) for _ in range(2))
        self.output = ExactProduct(width, width)
        self.register_buffer("turn_scale", torch.zeros(2, dtype=torch.float64))
        self.register_buffer("score_scale", torch.zeros(()))
        self.register_buffer("mean_scale", torch.zeros(num_heads, head_width, dtype=torch.float64))

    def forward(
        self,
        x: Int32[Tensor, "B D C"],
        rotation: "ExactRotation",
        ops: Operations,
        *,
        where: Int[Tensor, "B M"] | None = None,
    ) -> Int32[Tensor, "B M C"]:
        """The stream plus the attention's output, for all variables or those of `where`; x may be overwritten."""
        rows = self.norm(x, ops).to(torch.int8).flatten(0, 1)
        heads = (*x.shape[:2], -1, self.head_width)
        sides = zip((self.query, self.key), (self.query_norm, self.key_norm), self.turn_scale, strict=True)
        query, key = (
            rotation(norm(product.new_stream(rows, ops).view(heads), ops), scale, ops) for product, norm, scale in sides
        )
        value = ops.activations(rows, self.value.weight, self.value.scale, -BYTE).view(heads)
        if where is not None:
            x, query = chosen_rows(x, where), chosen_rows(query, where)
        mixed = ops.attend(query, key, value, rotation.exponential, self.score_scale, self.mean_scale)
        return self.output.add_to(x.flatten(0, 1), mixed.flatten(2).flatten(0, 1).contiguous(), ops).view(x.shape)

    def check_bounds(self, name: str) -> None:
        """Check that products of bytes stay below 2^24, and that scales are finite."""
        require(BYTE * BYTE * self.head_width < 2**24, name, f"{self.head_width} channels per head are too many")
        scales = torch.cat((self.turn_scale, self.score_scale.double().view(1), self.mean_scale.flatten()))
        require(bool(scales.isfinite().all()) and float(scales.min()) >= 0, name, "a scale is not a finite number")


class ExactRotation(ExactLayer):
    """Cosines and sines of the rotary position code, and the exponential of attention, as tables."""

    cos: Int16[Tensor, "D F"]
    sin: Int16[Tensor, "D F"]
    exponential: Int32[Tensor, "L"]

    def __init__(self, max_length: int, head_width: int) -> None:
        super().__init__()
        angles = rotary_angles(max_length, head_width, torch.zeros(1, dtype=torch.float64))
        for name, table in zip(("cos", "sin"), angles, strict=True):
            self.register_buffer(name, (table * ANGLE_ONE).round().to(torch.int16))
        self.register_buffer("exponential", exponential_table())

    def forward(
        self, x: Int16[Tensor, "B D H C"], scale: Float64[Tensor, ""], ops: Operations
    ) -> Int8[Tensor, "B D H C"]:
        """x turned by the angles of its positions, as bytes."""
        return ops.rotate(x, self.cos[: x.shape[1]], self.sin[: x.shape[1]], scale)

    def check_bounds(self, name: str) -> None:
        """Check that turned values fit int32, and that halves of weighted sums stay below 2^24."""
        largest = max(int(table.int().abs().max()) for table in (self.cos, self.sin))
        require(2 * NORM * largest < 2**31, name, f"a cosine or sine of {largest} is too large")
        require(len(self.cos) * 64 * BYTE < 2**24, name, f"{len(self.cos)} positions are too many")
        require_exponential(self.exponential, name)


def exponential_table() -> Int32[Tensor, "L"]:
    """The weights of scores by their distance to the largest one, in 64ths of a nat."""
    steps = torch.arange(SCORES_PER_NAT * 9 + 1, dtype=torch.float64) / SCORES_PER_NAT
    return (EXPONENTIAL_ONE * (-steps).exp()).round().int()


def require_exponential(table: Int32[Tensor, "L"], name: str) -> None:
    """Raise an error that names the layer unless weights have 12 bits, and that of the largest score is the largest."""
    is_fine = int(table[0]) == int(table.max()) <= EXPONENTIAL_ONE and int(table.min()) >= 0 and int(table[0]) > 0
    require(is_fine, name, "the table of the exponential is out of range")


class ExactEmbedding(ExactLayer):
    """A row for each value, plus one for the stage and mask in models of several stages."""

    values: Int32[Tensor, "1 V C"]
    states: Int32[Tensor, "1 S2 C"]

    def __init__(self, width: int, num_values: int, num_stages: int) -> None:
        super().__init__()
        self.register_buffer("values", torch.zeros(1, num_values, width, dtype=torch.int32))
        num_states = 2 * num_stages if num_stages > 1 else 0
        self.register_buffer("states", torch.zeros(1, num_states, width, dtype=torch.int32))

    def forward(self, inputs: Values, mask: Mask, stage: PerItem, ops: Operations) -> Int32[Tensor, "B D C"]:
        """The initial values of the stream."""
        x = ops.embed(inputs.reshape(-1, 1), self.values)
        if self.states.shape[1]:
            x = x + ops.embed((2 * stage[:, None] + mask).reshape(-1, 1), self.states)
        return x.view(*inputs.shape, -1)

    def check_bounds(self, name: str) -> None:
        """Check that sums of rows stay within the stream's limit."""
        largest = sum(int(table.long().abs().max()) for table in (self.values, self.states) if table.numel())
        require(largest < STREAM_LIMIT, name, f"a sum of rows may reach {largest}, beyond 2^23")
