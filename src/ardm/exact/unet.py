"""The exact form of `nn.UNet`, with the same blocks on integers.

stream = embedding                                           int32, 2^-k of a unit
block:   stream += contract(relu(expand(depthwise(norm))))   norm in 12 bits, everything else in bytes
down:    stream = down(norm(2 x 2 pixels folded into one))
up:      stream = skip + up(norm)
outputs  = head(norm in 16 bits), for the requested variables only
"""

import itertools
import math

import torch
from jaxtyping import Float64, Int16, Int32
from torch import Tensor, nn

from ardm.config import UNetConfig
from ardm.exact.layers import BYTE, NORM, WORD, ExactDepthwise, ExactHead, ExactLayer, ExactNorm, ExactProduct, require
from ardm.exact.operations import STREAM_LIMIT, ChosenOutputs, Operations
from ardm.model import Mask, PerItem, Values, Where
from ardm.nn.unet import depth_to_space, pad_to_multiple, space_to_depth, wave_frequencies, wave_weights

MAX_ROWS = 4096
"""Maximum number of values for which the file holds a row each."""
FINE_VALUES = 256
ANGLE_ONE = 2**14
WEIGHT_BITS = 22


class ExactUNet(nn.Module):
    """A U-Net on integers, which computes the outputs of chosen variables."""

    def __init__(
        self,
        config: UNetConfig,
        *,
        num_values: int,
        num_outputs: int,
        num_stages: int = 1,
        num_channels: int | None = None,
    ) -> None:
        super().__init__()
        self.takes_images, self.num_channels = num_channels is not None, num_channels or 1
        self.fold = (2, 2) if self.takes_images else (1, 4)
        kernel = (config.kernel if self.takes_images else 1, config.kernel)
        widths, self.depths = config.widths, config.depths
        self.embedding = make_embedding(widths[0], num_values, num_stages, self.num_channels)
        sequence = [*range(len(widths)), *range(len(widths) - 1)[::-1]]
        self.blocks = nn.ModuleList(
            ExactBlock(widths[i], kernel, config.mlp_ratio) for i in sequence for _ in range(self.depths[i])
        )
        self.down_blocks = nn.ModuleList(ExactDown(a, b, self.fold) for a, b in itertools.pairwise(widths))
        self.up_blocks = nn.ModuleList(ExactUp(a, b, self.fold) for a, b in itertools.pairwise(widths))
        self.head_norm = ExactNorm(widths[0], limit=WORD)
        self.head = ExactHead(widths[0], self.num_channels, num_outputs)

    def forward(self, inputs: Values, mask: Mask, stage: PerItem, where: Where, ops: Operations) -> ChosenOutputs:
        """The outputs of N variables of each item."""
        if not self.takes_images:
            inputs, mask = inputs[:, None, :, None], mask[:, None, :, None]
        stream = self.stream(inputs, mask, stage, ops)[:, : inputs.shape[1], : inputs.shape[2]].flatten(1, 2)
        pixels = (where // self.num_channels)[..., None].expand(-1, -1, stream.shape[-1])
        rows = self.head_norm(stream.gather(1, pixels).flatten(0, 1), ops)
        return self.head(rows, (where % self.num_channels).flatten(), ops).unflatten(0, where.shape)

    def stream(self, inputs: Values, mask: Mask, stage: PerItem, ops: Operations) -> Int32[Tensor, "B H1 W1 F"]:
        """The final residual stream, still padded."""
        num_levels = len(self.depths)
        rows, columns = (factor ** (num_levels - 1) for factor in self.fold)
        x = pad_to_multiple(self.embedding(inputs, mask, stage, ops), rows, columns)
        blocks, skips = iter(self.blocks), []
        for level in range(num_levels):
            if level > 0:
                skips.append(x)
                x = self.down_blocks[level - 1](x, ops)
            for _ in range(self.depths[level]):
                x = next(blocks)(x, ops)
        for level in reversed(range(num_levels - 1)):
            x = self.up_blocks[level](x, skips.pop(), ops)
            for _ in range(self.depths[level]):
                x = next(blocks)(x, ops)
        return x


class ExactDown(nn.Module):
    """A step to the next lower resolution: pixels folded into one, a norm, a product."""

    def __init__(self, width: int, next_width: int, fold: tuple[int, int]) -> None:
        super().__init__()
        self.fold = fold
        self.norm = ExactNorm(4 * width, limit=BYTE)
        self.product = ExactProduct(4 * width, next_width)

    def forward(self, x: Int32[Tensor, "B H W C"], ops: Operations) -> Int32[Tensor, "B H1 W1 C1"]:
        """The stream of the lower resolution."""
        folded = space_to_depth(x, self.fold).contiguous()
        rows = self.norm(folded, ops).to(torch.int8).flatten(0, 2)
        return self.product.new_stream(rows, ops).view(*folded.shape[:3], -1)


class ExactUp(nn.Module):
    """A step back up to a resolution: norm and product of the lower one, unfolded and added to the skip connection."""

    def __init__(self, width: int, next_width: int, fold: tuple[int, int]) -> None:
        super().__init__()
        self.fold = fold
        self.norm = ExactNorm(next_width, limit=BYTE)
        self.product = ExactProduct(next_width, 4 * width)

    def forward(
        self, x: Int32[Tensor, "B H W C"], skip: Int32[Tensor, "B H1 W1 C1"], ops: Operations
    ) -> Int32[Tensor, "B H1 W1 C1"]:
        """The stream of the higher resolution."""
        rows = self.norm(x, ops).to(torch.int8).flatten(0, 2)
        folded = space_to_depth(skip, self.fold).contiguous()
        added = self.product.add_to(folded.flatten(0, 2), rows, ops)
        return depth_to_space(added.view(folded.shape), self.fold).contiguous()


class ExactBlock(nn.Module):
    """stream + contract(relu(expand(depthwise(norm))))."""

    def __init__(self, width: int, kernel: tuple[int, int], mlp_ratio: int) -> None:
        super().__init__()
        self.norm = ExactNorm(width, limit=NORM)
        self.depthwise = ExactDepthwise(width, kernel)
        self.expand = ExactProduct(width, mlp_ratio * width)
        self.contract = ExactProduct(mlp_ratio * width, width)

    def forward(self, x: Int32[Tensor, "B H W C"], ops: Operations) -> Int32[Tensor, "B H W C"]:
        """The block's output; x may be overwritten."""
        mixed = self.depthwise(self.norm(x, ops), ops).flatten(0, 2)
        hidden = ops.activations(mixed, self.expand.weight, self.expand.scale, 0)
        return self.contract.add_to(x.flatten(0, 2), hidden, ops).view(x.shape)


class ExactSubPixelEmbedding(ExactLayer):
    """An embedding of the sub-pixels of a pixel, as a sum of rows of tables.

    Each has a row for its value and one for its stage and mask; hidden values of one-stage models have the row of zeros
    at the end.
    """

    values: Int32[Tensor, "G V1 C"]
    states: Int32[Tensor, "G S2 C"]

    def __init__(
        self, width: int, num_values: int, num_stages: int, num_channels: int, *, in_file: bool = True
    ) -> None:
        super().__init__()
        self.num_stages = num_stages
        values = torch.zeros(num_channels, num_values + 1, width, dtype=torch.int32)
        self.register_buffer("values", values, persistent=in_file)
        self.register_buffer("states", torch.zeros(num_channels, 2 * num_stages, width, dtype=torch.int32))

    def forward(self, inputs: Values, mask: Mask, stage: PerItem, ops: Operations) -> Int32[Tensor, "B H W F"]:
        """The initial values of the stream."""
        if self.num_stages == 1:
            inputs = inputs.masked_fill(~mask, self.values.shape[1] - 1)
        state = 2 * stage[:, None, None, None] + mask
        x = ops.embed(inputs.flatten(0, -2), self.values) + ops.embed(state.flatten(0, -2), self.states)
        return x.view(*inputs.shape[:-1], -1)

    def check_bounds(self, name: str) -> None:
        """Check that sums of rows stay within the stream's limit."""
        largest = sum(table.abs().amax((1, 2)).sum() for table in (self.values.long(), self.states.long()))
        require(int(largest) < STREAM_LIMIT, name, f"a sum of rows may reach {int(largest)}, beyond 2^23")

    def set_float(self, weight: Float64[Tensor, "G J C"], features: Float64[Tensor, "V F"], units: float) -> None:
        """Set the tables by rounding a float layer's outputs for each value and state, for a stream in these units."""
        num_features = features.shape[1]
        self.values[:, :-1].copy_((features @ weight[:, :num_features] * units).round())
        self.states.copy_((weight[:, num_features:] * units).round())


class ExactWaveEmbedding(ExactSubPixelEmbedding):
    """An embedding with too many values for a table in the file: loading computes rows from cosines and sines.

    Value v = 256 a + b has the angle pi j (v + 1/2) / V = alpha_j(a) + beta_j(b) for each frequency j. The file holds
    cosines and sines of alpha and beta in 2^-14; those of their sum follow by multiplication, rounded to 2^-14 again,
    and a row is their product with integer weights in 2^-shift of the stream's unit. All of this is exact in float64.
    """

    coarse: Int16[Tensor, "2 A F"]
    """Cosines and sines of alpha."""
    fine: Int16[Tensor, "2 256 F"]
    """Cosines and sines of beta."""
    weight: Int32[Tensor, "F2 C"]
    shift: Int32[Tensor, ""]

    def __init__(self, width: int, num_values: int, num_stages: int) -> None:
        super().__init__(width, num_values, num_stages, 1, in_file=False)
        frequencies = wave_frequencies(num_values)
        num_coarse = -(-num_values // FINE_VALUES)
        self.register_buffer("coarse", torch.zeros(2, num_coarse, len(frequencies), dtype=torch.int16))
        self.register_buffer("fine", torch.zeros(2, FINE_VALUES, len(frequencies), dtype=torch.int16))
        self.register_buffer("weight", torch.zeros(2 * len(frequencies), width, dtype=torch.int32))
        self.register_buffer("shift", torch.zeros((), dtype=torch.int32))
        self.register_load_state_dict_post_hook(lambda module, keys: module.make_values())

    def make_values(self) -> None:
        """Compute the table of values from the integers in the file."""
        require(0 <= int(self.shift) < 63, "embedding", f"its shift {int(self.shift)} is out of range")
        largest = max(int(table.int().abs().max()) for table in (self.coarse, self.fine))
        require(largest <= ANGLE_ONE, "embedding", f"a cosine or sine of {largest} is too large")
        cos_a, sin_a, cos_b, sin_b = (part.double() for table in (self.coarse, self.fine) for part in table)
        cosines = cos_a[:, None] * cos_b - sin_a[:, None] * sin_b
        sines = sin_a[:, None] * cos_b + cos_a[:, None] * sin_b
        waves = torch.cat((cosines, sines), dim=-1).flatten(0, 1)[: self.values.shape[1] - 1]
        rows = (waves / ANGLE_ONE).round() @ self.weight.double()
        self.values[0, :-1].copy_((rows * 2.0 ** -int(self.shift)).round())

    def check_bounds(self, name: str) -> None:
        """Check that products of waves and weights stay below 2^53, and the bounds of the resulting table."""
        largest = 2 * ANGLE_ONE * int(self.weight.long().abs().sum(0).max())
        require(largest < 2**53, name, f"a sum may reach {largest}, beyond 2^53")
        super().check_bounds(name)

    def set_float(self, weight: Float64[Tensor, "G J C"], features: Float64[Tensor, "V F"], units: float) -> None:
        """Set the tables by rounding a float layer's outputs for each value and state, for a stream in these units."""
        num_features, num_values = features.shape[1], features.shape[0]
        angle = math.pi * wave_frequencies(num_values).double() / num_values
        for table, values in (
            (self.coarse, FINE_VALUES * torch.arange(self.coarse.shape[1])),
            (self.fine, torch.arange(FINE_VALUES) + 0.5),
        ):
            turned = values.double()[:, None] * angle
            table.copy_((torch.stack((turned.cos(), turned.sin())) * ANGLE_ONE).round())
        scaled = weight[0, :num_features] * wave_weights(num_values).double()[:, None] * units / ANGLE_ONE
        self.shift.fill_(WEIGHT_BITS - math.frexp(float(scaled.abs().max()))[1])
        self.weight.copy_((scaled * 2.0 ** int(self.shift)).round())
        self.states.copy_((weight[:, num_features:] * units).round())
        self.make_values()


def make_embedding(width: int, num_values: int, num_stages: int, num_channels: int) -> ExactSubPixelEmbedding:
    """An embedding with a table of all values or, for many values, one that computes it."""
    if num_values > MAX_ROWS and num_channels == 1:
        return ExactWaveEmbedding(width, num_values, num_stages)
    return ExactSubPixelEmbedding(width, num_values, num_stages, num_channels)
