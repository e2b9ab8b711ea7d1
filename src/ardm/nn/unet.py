"""Our network for images and sound: depthwise and pointwise blocks at several resolutions, with skips.

Every part has an exact integer form (products, one square root and one division for a norm), which the codec needs,
and depthwise + pointwise blocks are the cheapest exact ones on a CPU. The network is fully convolutional and takes
items of any size; it sees neither the step t, which follows from the mask, nor where a pixel or a sample lies.

Sound is an image one pixel high, with one sub-pixel: where images are folded 2 x 2, sound is folded 1 x 4.
"""

import itertools
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Num
from torch import Tensor, nn

from ardm.config import UNetConfig
from ardm.model import Mask, Outputs, PerItem, Values, Where, rows_at
from ardm.nn.layers import full_precision, linear, relu_of, rms_norm


class UNet(nn.Module):
    """A network from variables of V values to O outputs for each of them.

    With `num_channels` items are images (H, W, C); without, they are sequences (D,).
    """

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
        widths, depths = config.widths, config.depths
        self.num_levels, self.depths = len(widths), depths
        self.embedding = SubPixelEmbedding(widths[0], num_values, num_stages, self.num_channels)
        sequence = [*range(len(widths)), *range(len(widths) - 1)[::-1]]  # down to the lowest resolution and up again
        self.blocks = nn.ModuleList(
            Block(widths[i], kernel, config.mlp_ratio) for i in sequence for _ in range(depths[i])
        )
        self.down_blocks = nn.ModuleList(linear(4 * a, b) for a, b in itertools.pairwise(widths))
        self.up_blocks = nn.ModuleList(linear(b, 4 * a, zero=True) for a, b in itertools.pairwise(widths))
        self.head = nn.Linear(widths[0], self.num_channels * num_outputs)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem) -> Outputs:
        outputs = self._read_out(self._pixels(inputs, mask, stage))  # (B, H, W, C, O)
        return outputs if self.takes_images else outputs[:, 0, :, 0]

    def outputs_at(
        self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem, where: Where
    ) -> Float[Tensor, "B N O"]:
        """Outputs for some variables; all sub-pixels of their pixels are computed."""
        pixels = self._pixels(inputs, mask, stage).flatten(1, 2)
        if where.shape[1] >= pixels.shape[1]:  # selecting pixels would save nothing
            return rows_at(self._read_out(pixels).flatten(1, 2), where)
        outputs = self._read_out(rows_at(pixels, where // self.num_channels))  # (B, N, C, O)
        channel = (where % self.num_channels)[..., None, None].expand(-1, -1, 1, outputs.shape[-1])
        return outputs.gather(2, channel)[:, :, 0]

    def _pixels(self, inputs: Values, mask: Mask, stage: PerItem) -> Float[Tensor, "B H W F"]:
        """The head's input for every pixel; sound has one row of them."""
        if self.takes_images:
            return self._body(inputs, mask, stage)
        return self._body(inputs[:, None, :, None], mask[:, None, :, None], stage)

    def _read_out(self, pixels: Float[Tensor, "*B F"]) -> Float[Tensor, "*B C O"]:
        """The outputs of pixels, for each of their sub-pixels."""
        last = rms_norm(pixels)
        outputs = self.head(last) if self.takes_images else full_precision(self.head, last)
        return outputs.unflatten(-1, (self.num_channels, -1))

    def _body(self, inputs: Values, mask: Mask, stage: PerItem) -> Float[Tensor, "B H W F"]:
        height, width = inputs.shape[1:3]
        rows, columns = (factor ** (self.num_levels - 1) for factor in self.fold)
        x = pad_to_multiple(self.embedding(inputs, mask, stage), rows, columns)
        blocks, skips = iter(self.blocks), []
        for level in range(self.num_levels):
            if level > 0:
                skips.append(x)
                x = self.down_blocks[level - 1](rms_norm(space_to_depth(x, self.fold)))
            for _ in range(self.depths[level]):
                x = next(blocks)(x)
        for level in reversed(range(self.num_levels - 1)):
            x = skips.pop() + depth_to_space(self.up_blocks[level](rms_norm(x)), self.fold)
            for _ in range(self.depths[level]):
                x = next(blocks)(x)
        return x[:, :height, :width]


class Block(nn.Module):
    """x + mlp(depthwise convolution(norm x))."""

    def __init__(self, width: int, kernel: tuple[int, int], mlp_ratio: int) -> None:
        super().__init__()
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.depthwise = nn.Conv2d(width, width, kernel, padding=padding, groups=width, bias=False)
        nn.init.normal_(self.depthwise.weight, std=0.5 * math.prod(kernel) ** -0.5)
        with torch.no_grad():
            self.depthwise.weight[:, 0, kernel[0] // 2, kernel[1] // 2] += 0.8  # at first mostly the pixel itself
        self.expand = linear(width, mlp_ratio * width)
        self.contract = linear(mlp_ratio * width, width, zero=True)

    def forward(self, x: Float[Tensor, "B H W C"]) -> Float[Tensor, "B H W C"]:
        mixed = self.depthwise(rms_norm(x).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return x + self.contract(relu_of(self.expand, mixed))


class SubPixelEmbedding(nn.Module):
    """A linear map of the features of the sub-pixels of a pixel: cosines of each value, mask and stage.

    Thanks to the cosines the map is a table of values in which close values start with close rows. Hidden values of a
    one-stage model have no features.
    """

    features: Float[Tensor, "V J"]

    def __init__(self, width: int, num_values: int, num_stages: int, num_channels: int) -> None:
        super().__init__()
        self.num_stages = num_stages
        self.register_buffer("features", cosine_features(num_values), persistent=False)
        num_features = self.features.shape[1] + 2 * num_stages
        self.weight = nn.Parameter(torch.randn(width, num_channels * num_features) * (num_channels * 4) ** -0.5)

    def forward(self, inputs: Values, mask: Mask, stage: PerItem) -> Float[Tensor, "B H W width"]:
        features = self.features[inputs]
        if self.num_stages == 1:
            features = features * mask[..., None]
        state = 2 * stage[:, None, None, None] + mask
        one_hot = state[..., None] == torch.arange(2 * self.num_stages, device=state.device)
        known = torch.cat((features, one_hot.to(features.dtype)), dim=-1)
        return F.linear(known.flatten(-2), self.weight)


def cosine_features(num_values: int) -> Float[Tensor, "V J"]:
    """cos(pi j (v + 1/2) / V) of each value v, weighted down as the frequency j rises to a wavelength of 8 values.

    j = 1..64 for up to 257 values; beyond, the sines too and j in steps of half an octave.
    """
    angle = math.pi * (torch.arange(num_values)[:, None] + 0.5) / num_values
    if num_values <= 257:
        j = torch.arange(1, 65)
        return torch.cos(angle * j) / j.sqrt()
    j = wave_frequencies(num_values)
    return torch.cat((torch.cos(angle * j), torch.sin(angle * j)), dim=1) * wave_weights(num_values)


def wave_frequencies(num_values: int) -> Float[Tensor, "F"]:
    """Frequencies j of `cosine_features` for many values."""
    return 2 ** torch.arange(0, math.log2(num_values / 4) + 0.5, 0.5)


def wave_weights(num_values: int) -> Float[Tensor, "J"]:
    """Weights of the cosines at `wave_frequencies`, then of the sines."""
    return wave_frequencies(num_values).sqrt().sqrt().reciprocal().repeat(2)


def space_to_depth(x: Num[Tensor, "B H W C"], fold: tuple[int, int]) -> Num[Tensor, "B H1 W1 C1"]:
    """Each block of rows x columns pixels as one pixel with all their channels."""
    (batch, height, width, channels), (rows, columns) = x.shape, fold
    blocks = x.reshape(batch, height // rows, rows, width // columns, columns, channels)
    return blocks.permute(0, 1, 3, 2, 4, 5).flatten(3)


def depth_to_space(x: Num[Tensor, "B H W C"], fold: tuple[int, int]) -> Num[Tensor, "B H1 W1 C1"]:
    """The inverse of `space_to_depth`."""
    (batch, height, width, _), (rows, columns) = x.shape, fold
    blocks = x.reshape(batch, height, width, rows, columns, -1)
    return blocks.permute(0, 1, 3, 2, 4, 5).reshape(batch, height * rows, width * columns, -1)


def pad_to_multiple(x: Num[Tensor, "B H W C"], rows: int, columns: int) -> Num[Tensor, "B H1 W1 C"]:
    """The image padded with zeros on the right and at the bottom, up to multiples of a size."""
    bottom, right = -x.shape[1] % rows, -x.shape[2] % columns
    return F.pad(x, (0, 0, 0, right, 0, bottom)) if bottom or right else x
