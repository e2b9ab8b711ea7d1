"""Our image network: depthwise and pointwise blocks at several resolutions, with skips.

Every part has an exact integer form (products, one square root and one division for a norm), which the codec needs,
and depthwise + pointwise blocks are the cheapest exact ones on a CPU. The network is fully convolutional and takes
images of any size; it sees neither the step t, which follows from the mask, nor where a pixel lies.
"""

import itertools
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ardm.nn.transformer import linear, rms_norm


@dataclass(frozen=True, kw_only=True)
class UNetConfig:
    """Size of a `UNet`. Resolutions go from the full one down, each half as high and as wide as the one before."""

    widths: tuple[int, ...]
    """Channels at each resolution."""
    depths: tuple[int, ...]
    """Blocks at each resolution: before the halving and again after the doubling; the lowest has them once."""
    kernel: int = 5
    """Height and width of the depthwise convolutions."""
    mlp_ratio: int = 4
    """Hidden channels of a block's pointwise part, as a multiple of the width."""

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.depths) or not self.widths:
            raise ValueError(f"widths and depths must list the same resolutions, got {self.widths} and {self.depths}")
        if min(*self.widths, *self.depths, self.mlp_ratio) < 1:
            raise ValueError(f"widths, depths and mlp_ratio must be at least 1, got {self}")
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise ValueError(f"the kernel must be odd and positive, got {self.kernel}")


class UNet(nn.Module):
    """A network from images of V values a sub-pixel to O outputs for every sub-pixel."""

    def __init__(
        self, config: UNetConfig, *, num_values: int, num_outputs: int, num_stages: int = 1, num_channels: int = 3
    ) -> None:
        super().__init__()
        widths, depths = config.widths, config.depths
        self.num_levels, self.depths = len(widths), depths
        self.embedding = SubPixelEmbedding(widths[0], num_values, num_stages, num_channels)
        sequence = [*range(len(widths)), *range(len(widths) - 1)[::-1]]  # down to the lowest resolution and up again
        self.blocks = nn.ModuleList(Block(config, widths[i]) for i in sequence for _ in range(depths[i]))
        self.down_blocks = nn.ModuleList(linear(4 * a, b) for a, b in itertools.pairwise(widths))
        self.up_blocks = nn.ModuleList(linear(b, 4 * a) for a, b in itertools.pairwise(widths))
        self.head = nn.Linear(widths[0], num_channels * num_outputs)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(
        self,
        inputs: Int[Tensor, "B H W C"],
        mask: Bool[Tensor, "B H W C"],
        stage: Int[Tensor, "B"],
        t: Int[Tensor, "B"],
    ) -> Float[Tensor, "B H W C O"]:
        """Outputs for every sub-pixel."""
        height, width, num_channels = inputs.shape[1:]
        x = pad_to_multiple(self.embedding(inputs, mask, stage), 2 ** (self.num_levels - 1))
        blocks, skips = iter(self.blocks), []
        for level in range(self.num_levels):
            if level > 0:
                skips.append(x)
                x = self.down_blocks[level - 1](rms_norm(space_to_depth(x)))
            for _ in range(self.depths[level]):
                x = next(blocks)(x)
        for level in reversed(range(self.num_levels - 1)):
            x = skips.pop() + depth_to_space(self.up_blocks[level](rms_norm(x)))
            for _ in range(self.depths[level]):
                x = next(blocks)(x)
        outputs: Tensor = self.head(rms_norm(x[:, :height, :width]))
        return outputs.unflatten(-1, (num_channels, -1))


class Block(nn.Module):
    """x + mlp(depthwise convolution(norm x))."""

    def __init__(self, config: UNetConfig, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, config.kernel, padding=config.kernel // 2, groups=width, bias=False)
        nn.init.normal_(self.depthwise.weight, std=1 / config.kernel)
        self.expand = linear(width, config.mlp_ratio * width)
        self.contract = linear(config.mlp_ratio * width, width, zero=True)

    def forward(self, x: Float[Tensor, "B H W C"]) -> Float[Tensor, "B H W C"]:
        """The block's output."""
        mixed = self.depthwise(rms_norm(x).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return x + self.contract(F.relu(self.expand(mixed)).square())


class SubPixelEmbedding(nn.Module):
    """A linear map of what is known about the sub-pixels of a pixel: smooth features of each value, mask, stage.

    The features of a value v are cosines of v up to wavelengths of eight values; a value beyond the classes (the
    mask's) has none. As a function of v this is a table, in which close values begin with close rows.
    """

    features: Float[Tensor, "V J"]

    def __init__(self, width: int, num_values: int, num_stages: int, num_channels: int) -> None:
        super().__init__()
        self.num_states = 2 * num_stages
        self.register_buffer("features", cosine_features(num_values), persistent=False)
        num_features = self.features.shape[1] + self.num_states
        self.weight = nn.Parameter(torch.randn(width, num_channels * num_features) * (num_channels * 4) ** -0.5)

    def forward(
        self, inputs: Int[Tensor, "B H W C"], mask: Bool[Tensor, "B H W C"], stage: Int[Tensor, "B"]
    ) -> Float[Tensor, "B H W width"]:
        """The channels of every pixel."""
        state = 2 * stage[:, None, None, None] + mask
        one_hot = state[..., None] == torch.arange(self.num_states, device=state.device)
        known = torch.cat((self.features[inputs], one_hot.to(self.features.dtype)), dim=-1)
        return F.linear(known.flatten(-2), self.weight)


def cosine_features(num_values: int) -> Float[Tensor, "V J"]:
    """cos(pi j (v + 1/2) / 256) for each value v < 256 and j = 1..64, weighted down as frequencies rise."""
    num_classes = min(num_values, 256)
    j = torch.arange(1, 65)
    v = torch.arange(num_classes)[:, None] + 0.5
    features = torch.cos(math.pi * j * v / 256) / j.sqrt()
    return F.pad(features, (0, 0, 0, num_values - num_classes))


def space_to_depth(x: Float[Tensor, "B H W C"]) -> Float[Tensor, "B H//2 W//2 4*C"]:
    """Each 2 x 2 block of pixels as one pixel with four times the channels."""
    batch, height, width, channels = x.shape
    blocks = x.reshape(batch, height // 2, 2, width // 2, 2, channels)
    return blocks.permute(0, 1, 3, 2, 4, 5).flatten(3)


def depth_to_space(x: Float[Tensor, "B H W C"]) -> Float[Tensor, "B 2*H 2*W C//4"]:
    """The inverse of `space_to_depth`."""
    batch, height, width, channels = x.shape
    blocks = x.reshape(batch, height, width, 2, 2, channels // 4)
    return blocks.permute(0, 1, 3, 2, 4, 5).reshape(batch, 2 * height, 2 * width, channels // 4)


def pad_to_multiple(x: Float[Tensor, "B H W C"], multiple: int) -> Float[Tensor, "B H1 W1 C"]:
    """The image with zeros at the right and at the bottom, up to a multiple of a size."""
    bottom, right = -x.shape[1] % multiple, -x.shape[2] % multiple
    return F.pad(x, (0, 0, 0, right, 0, bottom)) if bottom or right else x
