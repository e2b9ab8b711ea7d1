"""The paper's audio network (App. C): DiffWave (Kong et al. 2021), a WaveNet that looks both ways.

    x = relu(input of n, m, s)
    x, skip = block(x)            num_blocks times, dilations 1, 2, 4, ... repeating
    outputs = dense(relu(dense(sum of skips / sqrt(num_blocks))))

Every block sees an embedding of the step s*D + t. Notation beyond that of `model`: F features.

Where the text is silent it follows the authors' code: the relu after the input, a linear map after the embedding
table, a swish after both dense layers of the step, zeros beyond the ends of a clip, and the same number of skip and
residual features. LeCun initialisation for the input and the step, He's for the others (plain normals here), zero for
the last layer. No weight norm, unlike DiffWave. The last block's residual half is computed but not used, as in both
codes, so that all blocks are alike.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from ardm.config import PaperWaveNetConfig
from ardm.model import Mask, PerItem, Values
from ardm.nn.layers import PointwiseHead, StepEmbedding, full_precision, linear


class PaperWaveNet(PointwiseHead):
    """A WaveNet from V input values to O outputs for every sample of a clip of any length."""

    def __init__(self, config: PaperWaveNetConfig, *, num_values: int, num_outputs: int, num_stages: int = 1) -> None:
        super().__init__()
        self.input = SoundInput(config.width, num_values=num_values, num_stages=num_stages)
        self.step = StepEmbedding(config.width, num_stages=num_stages)
        self.blocks = nn.ModuleList(GatedBlock(config.width, dilation) for dilation in config.dilations)
        self.last = he_linear(config.width, config.width)
        self.head = linear(config.width, num_outputs, bias=True, zero=True)

    def features(self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem) -> Float[Tensor, "B D F"]:
        """The sum of all skips."""
        x = F.relu(self.input(inputs, mask, stage))
        step = self.step(stage, t, inputs.shape[1])
        total = torch.zeros_like(x)
        for block in self.blocks:
            x, skip = block(x, step)
            total = total + skip
        return total

    def read_out(self, features: Float[Tensor, "B N F"]) -> Float[Tensor, "B N O"]:
        return full_precision(self.head, F.relu(self.last(features / math.sqrt(len(self.blocks)))))


class SoundInput(nn.Module):
    """Features of every sample from the values, the mask and the stage.

    A convolution of width 3 makes three quarters of them from the value 2n / V - 1, the mask (1 where revealed) and,
    in an upscale model, S one-hot planes of the stage. Hidden values are 0 after the normalisation in an order-agnostic
    model, and keep their coarse value in an upscale model. The last quarter comes from the integers: a table of V
    rows of F/4, then a linear map.
    """

    def __init__(self, width: int, *, num_values: int, num_stages: int, causal: bool = False) -> None:
        super().__init__()
        quarter = width // 4
        self.num_values, self.num_stages = num_values, num_stages
        self.convolution = Convolution(2 + (num_stages if num_stages > 1 else 0), 3 * quarter, causal=causal)
        # One-hot rows of 65,536 would not fit. The gradient of a look-up is a scatter-add, which PyTorch does not
        # promise to be deterministic on CUDA: its own kernel sorts first, but compiled code adds atomically unless
        # torch.use_deterministic_algorithms is set. Hence it lies outside the blocks, as only these are compiled.
        self.embedding = nn.Embedding(num_values, quarter)
        nn.init.normal_(self.embedding.weight, std=quarter**-0.5)
        self.projection = linear(quarter, quarter, bias=True)

    def forward(self, inputs: Values, mask: Mask, stage: PerItem) -> Float[Tensor, "B D F"]:
        return self.joined(full_precision(self.convolution, self.planes(inputs, mask, stage)), inputs)

    def joined(self, features: Float[Tensor, "B D G"], inputs: Int[Tensor, "B D"]) -> Float[Tensor, "B D F"]:
        """The convolution's features, then the embedding's."""
        return torch.cat((features, self.projection(self.embedding(inputs)).to(features.dtype)), dim=-1)

    def planes(self, inputs: Values, mask: Mask, stage: PerItem) -> Float[Tensor, "B D P"]:
        """The convolution's input for every sample."""
        values = inputs.to(self.embedding.weight.dtype) * (2 / self.num_values) - 1
        if self.num_stages == 1:
            return torch.stack((values * mask, mask.to(values.dtype)), dim=-1)
        one_hot = stage[:, None] == torch.arange(self.num_stages, device=stage.device)
        stages = one_hot[:, None].expand(-1, inputs.shape[1], -1)
        return torch.cat((values[..., None], mask[..., None], stages), dim=-1)


class GatedBlock(nn.Module):
    """(x + r) / sqrt 2 and s, where [r, s] = dense(tanh(u) * sigmoid(v)) and [u, v] = conv(x + dense step).

    A causal block has no step, as one call serves all steps.
    """

    def __init__(self, width: int, dilation: int, *, causal: bool = False) -> None:
        super().__init__()
        self.step = None if causal else linear(4 * width, width, bias=True)
        self.convolution = Convolution(width, 2 * width, dilation=dilation, gain=2.0, causal=causal)
        self.output = he_linear(width, 2 * width)

    def forward(
        self, x: Float[Tensor, "B D F"], step: Float[Tensor, "B E"] | None = None
    ) -> tuple[Float[Tensor, "B D F"], Float[Tensor, "B D F"]]:
        """The input of the next block, and the skip."""
        seen = x if self.step is None else x + self.step(step)[:, None]
        return self.gated(x, self.convolution(seen))

    def gated(
        self, x: Float[Tensor, "B D F"], sums: Float[Tensor, "B D G"]
    ) -> tuple[Float[Tensor, "B D F"], Float[Tensor, "B D F"]]:
        """The input of the next block, and the skip, from the sums of the convolution."""
        signal, gate = sums.chunk(2, dim=-1)
        residual, skip = self.output(signal.tanh() * gate.sigmoid()).chunk(2, dim=-1)
        return (x + residual) / math.sqrt(2), skip


class Convolution(nn.Conv2d):
    """A convolution of width 3 along the samples that keeps their number and, at first, multiplies power by a gain.

    A sample sees itself and its two neighbours at the distance of the dilation; if causal, itself and those one and two
    dilations before. To PyTorch the samples are a picture of height 1 in channels-last memory, a layout that Conv1d
    lacks. A causal one is a product with the three samples side by side: cuDNN is slow with one-sided padding
    (docs/LOG.md).
    """

    def __init__(
        self, num_inputs: int, num_outputs: int, *, dilation: int = 1, gain: float = 1.0, causal: bool = False
    ) -> None:
        padding = (0, 0 if causal else dilation)
        super().__init__(num_inputs, num_outputs, (1, 3), padding=padding, dilation=(1, dilation))
        self.num_before = 2 * dilation if causal else 0
        nn.init.normal_(self.weight, std=(gain / (3 * num_inputs)) ** 0.5)
        assert self.bias is not None
        nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "B D I"]) -> Float[Tensor, "B D F"]:
        if not self.num_before:
            return super().forward(x.mT[:, :, None])[:, :, 0].mT
        padded, length = F.pad(x, (0, 0, self.num_before, 0)), x.shape[1]
        taps = [padded[:, start : start + length] for start in range(0, self.num_before + 1, self.num_before // 2)]
        return F.linear(torch.cat(taps, dim=-1), self.weight[:, :, 0].mT.flatten(1), self.bias)


def he_linear(num_inputs: int, num_outputs: int) -> nn.Linear:
    """A linear map that keeps the scale through a relu."""
    layer = linear(num_inputs, num_outputs, bias=True)
    nn.init.kaiming_normal_(layer.weight)
    return layer
