"""The paper's image network (App. C): the U-Net of VDM (Kingma et al. 2021), all of it at full resolution.

    x = input of n, m, s                               the first skip
    x = block(x)                  num_blocks times     each result is a skip
    x = block(attention(block(x)))
    x = block([x, last skip])     num_blocks + 1 times
    outputs = convolution(swish(norm(x)))

Every block sees an embedding of the step s*D + t. Notation beyond that of `model`: C sub-pixels per pixel, F features.

Where the text is silent it follows VDM's code: 32 groups in a norm, epsilon 1e-6, one attention head, LeCun
initialisation (a plain normal here), zero for layers that end a residual branch, take the step, or end the network.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ardm.config import PaperUNetConfig
from ardm.model import Mask, Outputs, PerItem, Values
from ardm.nn.layers import StepEmbedding, embed, initialise, linear

NORM_EPSILON = 1e-6


class PaperUNet(nn.Module):
    """A U-Net without resampling from V input values to O outputs for every sub-pixel of an image of any size."""

    def __init__(
        self, config: PaperUNetConfig, *, num_values: int, num_outputs: int, num_stages: int = 1, num_channels: int = 3
    ) -> None:
        super().__init__()
        width, groups = config.width, config.num_groups
        self.num_blocks, self.num_outputs = config.num_blocks, num_outputs
        self.input = ImageInput(width, num_values=num_values, num_stages=num_stages, num_channels=num_channels)
        self.step = StepEmbedding(width, num_stages=num_stages)
        before = [ResBlock(width, width, groups) for _ in range(config.num_blocks + 2)]
        after = [ResBlock(2 * width, width, groups) for _ in range(config.num_blocks + 1)]
        self.blocks = nn.ModuleList(before + after)  # in order of use
        self.attention = PixelAttention(width, groups)
        self.norm = group_norm(width, groups)
        self.head = convolution(width, num_channels * num_outputs, 3, zero=True)

    def forward(self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem) -> Outputs:
        x = self.input(inputs, mask, stage)
        step = self.step(stage, t, inputs[0].numel())
        outputs: Tensor = self.head(F.silu(self.norm(self._body(x, step))))
        return outputs.permute(0, 2, 3, 1).unflatten(-1, (-1, self.num_outputs))

    def _body(self, x: Float[Tensor, "B F H W"], step: Float[Tensor, "B E"]) -> Float[Tensor, "B F H W"]:
        blocks, skips = iter(self.blocks), [x]
        for _ in range(self.num_blocks):
            skips.append(next(blocks)(skips[-1], step))
        x = next(blocks)(skips[-1], step)
        x = next(blocks)(self.attention(x), step)
        for block in blocks:
            x = block(x, step, skips.pop())
        return x


class ImageInput(nn.Module):
    """Features of every pixel from the values, the mask and the stage, as a channels-last tensor.

    A 3x3 convolution makes three quarters of them from C values n / V - 1/2, C mask planes (1 where revealed) and,
    in an upscale model, S one-hot planes of the stage. Hidden values are 0 after the normalisation in an order-agnostic
    model, and keep their coarse value in an upscale model. The last quarter comes from the integers, as in the
    authors' code: one table of V rows of F/4 for all sub-pixels, and a linear map from a pixel's C rows to F/4.
    """

    def __init__(self, width: int, *, num_values: int, num_stages: int, num_channels: int) -> None:
        super().__init__()
        quarter = width // 4
        self.num_values, self.num_stages = num_values, num_stages
        num_planes = 2 * num_channels + (num_stages if num_stages > 1 else 0)
        self.convolution = convolution(num_planes, 3 * quarter, 3)
        self.embedding = nn.Parameter(torch.randn(num_values, quarter) * quarter**-0.5)
        self.projection = linear(num_channels * quarter, quarter, bias=True)

    def forward(self, inputs: Values, mask: Mask, stage: PerItem) -> Float[Tensor, "B F H W"]:
        planes = self._planes(inputs, mask, stage).permute(0, 3, 1, 2)
        rows = embed(self.embedding, inputs.flatten(1))  # (B, H W C, F/4)
        embedded = self.projection(rows.view(*inputs.shape[:3], -1)).permute(0, 3, 1, 2)
        return torch.cat((self.convolution(planes), embedded), dim=1)

    def _planes(self, inputs: Values, mask: Mask, stage: PerItem) -> Float[Tensor, "B H W P"]:
        values = inputs.to(self.embedding.dtype) / self.num_values - 0.5
        if self.num_stages == 1:
            return torch.cat((values * mask, mask), dim=-1)
        one_hot = stage[:, None] == torch.arange(self.num_stages, device=stage.device)
        stages = one_hot[:, None, None].expand(-1, *inputs.shape[1:3], -1)
        return torch.cat((values, mask, stages), dim=-1)


class ResBlock(nn.Module):
    """shortcut(x) + conv(swish(norm(conv(swish(norm x)) + dense step))), the shortcut 1x1 where widths differ."""

    def __init__(self, num_inputs: int, width: int, num_groups: int) -> None:
        super().__init__()
        self.first_norm, self.second_norm = group_norm(num_inputs, num_groups), group_norm(width, num_groups)
        self.first, self.second = convolution(num_inputs, width, 3), convolution(width, width, 3, zero=True)
        self.step = linear(4 * width, width, zero=True)
        self.shortcut = convolution(num_inputs, width, 1) if num_inputs != width else nn.Identity()

    def forward(
        self, x: Float[Tensor, "B F H W"], step: Float[Tensor, "B E"], skip: Float[Tensor, "B F H W"] | None = None
    ) -> Float[Tensor, "B F H W"]:
        """The block's output for x, or for x joined with a skip."""
        if skip is not None:
            x = torch.cat((x, skip), dim=1)
        h = self.first(F.silu(self.first_norm(x))) + self.step(step)[..., None, None]
        h = self.second(F.silu(self.second_norm(h)))
        output: Tensor = self.shortcut(x) + h
        return output


class PixelAttention(nn.Module):
    """x + attention(norm x) of every pixel to every pixel, with one head."""

    def __init__(self, width: int, num_groups: int) -> None:
        super().__init__()
        self.norm = group_norm(width, num_groups)
        self.query_key_value = linear(width, 3 * width, bias=True)
        self.output = linear(width, width, bias=True, zero=True)

    def forward(self, x: Float[Tensor, "B F H W"]) -> Float[Tensor, "B F H W"]:
        pixels = self.norm(x).flatten(2).mT  # (B, H W, F)
        query, key, value = self.query_key_value(pixels)[:, None].chunk(3, dim=-1)
        mixed = F.scaled_dot_product_attention(query, key, value)[:, 0]
        output: Tensor = self.output(mixed)
        return x + output.mT.unflatten(2, x.shape[2:])


class GroupNorm(nn.GroupNorm):
    """`nn.GroupNorm`, which compiled code computes from the moments of channels.

    In a channels-last tensor these need no copy, while PyTorch rearranges it for every norm over groups.
    """

    def forward(self, x: Float[Tensor, "B F H W"]) -> Float[Tensor, "B F H W"]:
        """The features of each group with mean 0 and variance 1, then scaled and shifted."""
        if not torch.compiler.is_compiling():
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            scale, shift = (part.flatten(1)[..., None, None] for part in self._scale_and_shift(wide))
            return (wide * scale + shift).to(x.dtype)

    def _scale_and_shift(self, x: Float[Tensor, "B F H W"]) -> tuple[Tensor, Tensor]:
        """The scale and the shift of each feature, (B, groups, features of a group)."""
        variances, means = (
            moment.unflatten(1, (self.num_groups, -1)) for moment in torch.var_mean(x, dim=(2, 3), correction=0)
        )
        mean = means.mean(2, keepdim=True)
        variance = variances.mean(2, keepdim=True) + (means - mean).square().mean(2, keepdim=True)
        scale = (variance + self.eps).rsqrt() * self.weight.view(self.num_groups, -1)
        return scale, self.bias.view(self.num_groups, -1) - mean * scale


def group_norm(width: int, num_groups: int) -> GroupNorm:
    """A group norm with the epsilon of VDM's code."""
    return GroupNorm(num_groups, width, eps=NORM_EPSILON)


def convolution(num_inputs: int, num_outputs: int, size: int, *, zero: bool = False) -> nn.Conv2d:
    """A size x size convolution that keeps the resolution, initialised to unit gain or to zero."""
    layer = nn.Conv2d(num_inputs, num_outputs, size, padding=size // 2)
    initialise(layer, zero=zero)
    return layer
