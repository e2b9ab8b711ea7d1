"""Causal Transformers with the blocks of the ARDMs' networks: left to right, and in any order.

Both take tokens as `causal` defines them: a start value, then at each place d of the order the value at place d-1. For
any order a network must know two positions: that of the token, order[d-1], and that of the target, order[d] (XLNet:
Yang et al., 2019; the paper's OA-Transformer).

    the paper's blocks   sinusoids of the target and of the token, half the width each, are added to the embedding
    our blocks           in addition, queries are turned by the target's position and keys by the token's

Rotations alone would not do: the first query sees only the start value, wherever its target lies. As in the authors'
code the start value has no sinusoids; to a rotation it lies at position -1.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from ardm.config import PaperTransformerConfig, TransformerConfig
from ardm.nn.layers import ReadOut, embed, linear, rms_norm, sinusoids
from ardm.nn.paper_transformer import NORM_EPSILON, PaperBlock, initialise_like_the_paper, run_blocks
from ardm.nn.transformer import Block, Rotation, rotary_angles, rotary_angles_at

Config = TransformerConfig | PaperTransformerConfig


class ShiftedTransformer(nn.Module):
    """The parts that both Transformers share: embedding, causal blocks of either configuration, head."""

    def __init__(self, config: Config, *, num_values: int, num_outputs: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.randn(num_values, config.width))
        if isinstance(config, TransformerConfig):
            self.blocks = nn.ModuleList(Block(config, causal=True) for _ in range(config.num_layers))
            self.norm = None
            self.head = linear(config.width, num_outputs, bias=True, zero=True)
        else:
            self.blocks = nn.ModuleList(PaperBlock(config, causal=True) for _ in range(config.num_layers))
            self.norm = nn.LayerNorm(config.width, eps=NORM_EPSILON)
            self.head = ReadOut(config.width, num_outputs)
            initialise_like_the_paper(self)

    def trunk(self, x: Float[Tensor, "B D C"], *rotations: Rotation) -> Float[Tensor, "B D O"]:
        """Outputs from embedded tokens; our blocks take rotations, the paper's take none."""
        if self.norm is not None:
            last: Tensor = self.norm(run_blocks(self.blocks, x))
        else:
            for block in self.blocks:
                x = block(x, *rotations)
            last = rms_norm(x)
        outputs: Tensor = self.head(last)
        return outputs


class CausalTransformer(ShiftedTransformer):
    """A Transformer that goes from left to right, with the position codes of the ARDM that has its blocks."""

    is_permuted: ClassVar[bool] = False

    def forward(self, tokens: Int[Tensor, "B D"], order: Int[Tensor, "B D"]) -> Float[Tensor, "B D O"]:
        x, length = embed(self.embedding, tokens), tokens.shape[1]
        if isinstance(self.config, TransformerConfig):
            return self.trunk(x, rotary_angles(length, self.config.head_width, x))
        return self.trunk(x + sinusoids(torch.arange(length, device=x.device).float(), x.shape[2]).to(x.dtype))


class OATransformer(ShiftedTransformer):
    """A Transformer that goes through the variables in any order."""

    is_permuted: ClassVar[bool] = True

    def __init__(self, config: Config, *, num_values: int, num_outputs: int) -> None:
        if isinstance(config, TransformerConfig) and config.kernel > 1:
            raise ValueError(f"neighbours in an order are far apart: the kernel must be 1, got {config.kernel}")
        if config.width % 4:
            raise ValueError(f"two position codes need a width that is a multiple of 4, got {config.width}")
        super().__init__(config, num_values=num_values, num_outputs=num_outputs)

    def forward(self, tokens: Int[Tensor, "B D"], order: Int[Tensor, "B D"]) -> Float[Tensor, "B D O"]:
        x = embed(self.embedding, tokens)
        x = x + position_codes(order, self.config.width).to(x.dtype)
        if not isinstance(self.config, TransformerConfig):
            return self.trunk(x)
        positions = (order, F.pad(order[:, :-1], (1, 0), value=-1))
        # cosines and sines (B, 1, D, C), the same for all heads
        return self.trunk(x, *(rotary_angles_at(p[:, None], self.config.head_width, x) for p in positions))


def position_codes(order: Int[Tensor, "B D"], width: int) -> Float[Tensor, "B D C"]:
    """Sinusoids of each target's position, then those of its token's, which are zero for the first."""
    target = sinusoids(order.float(), width // 2)
    return torch.cat((target, F.pad(target[:, :-1], (0, 0, 1, 0))), dim=-1)
