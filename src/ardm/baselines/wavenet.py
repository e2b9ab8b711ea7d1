"""A WaveNet (van den Oord et al., 2016) that goes from left to right, with the blocks of the paper's audio network.

    x = relu(input of the samples before)
    x, skip = block(x)            num_blocks times, dilations 1, 2, 4, ... repeating
    outputs = dense(relu(dense(sum of skips / sqrt(num_blocks))))

The input sees tokens as `causal` defines them: each sample's predecessor, and before the first a hidden value.
Sampling goes from sample to sample, and each convolution keeps the inputs that it will need again.
"""

import math
from collections import deque
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ardm.config import PaperWaveNetConfig
from ardm.nn.layers import full_precision, linear
from ardm.nn.paper_wavenet import Convolution, GatedBlock, SoundInput, he_linear


class CausalWaveNet(nn.Module):
    """A causal WaveNet from V input values to O outputs for every sample of a clip of any length."""

    is_permuted: ClassVar[bool] = False

    def __init__(self, config: PaperWaveNetConfig, *, num_values: int, num_outputs: int) -> None:
        super().__init__()
        self.input = SoundInput(config.width, num_values=num_values, num_stages=1, causal=True)
        self.blocks = nn.ModuleList(GatedBlock(config.width, dilation, causal=True) for dilation in config.dilations)
        self.last = he_linear(config.width, config.width)
        self.head = linear(config.width, num_outputs, bias=True, zero=True)

    def forward(self, tokens: Int[Tensor, "B D"], order: Int[Tensor, "B D"]) -> Float[Tensor, "B D O"]:
        is_real = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens) > 0
        x = F.relu(self.input(tokens, is_real, torch.zeros_like(tokens[:, 0])))
        total = torch.zeros_like(x)
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        return self.read_out(total)

    def read_out(self, total: Float[Tensor, "B D F"]) -> Float[Tensor, "B D O"]:
        """Outputs from the sum of skips."""
        return full_precision(self.head, F.relu(self.last(total / math.sqrt(len(self.blocks)))))

    def incremental(self) -> "IncrementalWaveNet":
        """The network in a form that takes one sample after another, from the start of a clip."""
        return IncrementalWaveNet(self)


class IncrementalWaveNet:
    """A causal WaveNet that takes one token of each item at a time."""

    def __init__(self, network: CausalWaveNet) -> None:
        self.network = network
        self.blocks = cast(list[GatedBlock], list(network.blocks))
        self.input_convolution = IncrementalConvolution(network.input.convolution)
        self.convolutions = [IncrementalConvolution(block.convolution) for block in self.blocks]
        self.num_seen = 0

    @torch.no_grad()
    def __call__(self, token: Int[Tensor, "B"]) -> Float[Tensor, "B O"]:
        tokens = token[:, None]
        x = F.relu(self._input(tokens, torch.full_like(tokens, self.num_seen > 0, dtype=torch.bool)))
        total = torch.zeros_like(x)
        for block, convolution in zip(self.blocks, self.convolutions, strict=True):
            x, skip = block.gated(x, convolution(x))
            total = total + skip
        self.num_seen += 1
        return self.network.read_out(total)[:, 0]

    def _input(self, tokens: Int[Tensor, "B 1"], is_real: Bool[Tensor, "B 1"]) -> Float[Tensor, "B 1 F"]:
        layer = self.network.input
        planes = layer.planes(tokens, is_real, torch.zeros_like(tokens[:, 0]))
        return layer.joined(full_precision(self.input_convolution, planes), tokens)


class IncrementalConvolution:
    """A causal convolution that takes one sample of each item at a time and keeps those that it will need again."""

    def __init__(self, convolution: Convolution) -> None:
        self.weight, self.bias = convolution.weight.detach()[:, :, 0].mT.flatten(1), convolution.bias  # (F, 3 I), (F)
        self.dilation = convolution.dilation[1]
        self.past: deque[Tensor] = deque(maxlen=2 * self.dilation)

    def __call__(self, x: Float[Tensor, "B 1 I"]) -> Float[Tensor, "B 1 F"]:
        if not self.past:
            self.past.extend([torch.zeros_like(x)] * 2 * self.dilation)
        seen = torch.cat((self.past[0], self.past[self.dilation], x), dim=-1)  # (B, 1, 3 I)
        self.past.append(x)
        return F.linear(seen, self.weight, self.bias)
