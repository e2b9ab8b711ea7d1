"""The paper's text Transformer (App. C): pre-LayerNorm, GELU, sinusoidal positions, untied output, no time input.

With several stages, which the paper does not use for text, it also embeds the stage and the mask.
Where the text is silent it follows the authors' code: no biases in attention, GELU in its tanh form, epsilon 1e-6.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ardm.config import PaperTransformerConfig
from ardm.model import Mask, PerItem, Values
from ardm.nn.layers import PointwiseHead, ReadOut, embed, gelu, sinusoids

NORM_EPSILON = 1e-6


class PaperTransformer(PointwiseHead):
    """A bidirectional Transformer from V input values to O outputs for every variable."""

    def __init__(
        self, config: PaperTransformerConfig, *, num_values: int, num_outputs: int, num_stages: int = 1
    ) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(num_values, config.width))
        self.blocks = nn.ModuleList(PaperBlock(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.width, eps=NORM_EPSILON)
        self.head = ReadOut(config.width, num_outputs)
        states = 2 * num_stages if num_stages > 1 else 0
        self.state_embedding = nn.Parameter(torch.randn(states, config.width)) if states else None
        initialise_like_the_paper(self)

    def read_out(self, features: Float[Tensor, "B N C"]) -> Float[Tensor, "B N O"]:
        outputs: Tensor = self.head(self.norm(features))
        return outputs

    def features(self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem) -> Float[Tensor, "B D C"]:
        x = embed(self.embedding, inputs)
        x = x + sinusoids(torch.arange(x.shape[1], device=x.device).float(), x.shape[2]).to(x.dtype)
        if self.state_embedding is not None:
            x = x + embed(self.state_embedding, 2 * stage[:, None] + mask)
        return run_blocks(self.blocks, x)


class PaperBlock(nn.Module):
    """x + attention(norm x), then x + mlp(norm x). A causal block lets a variable see itself and those before."""

    def __init__(self, config: PaperTransformerConfig, *, causal: bool = False) -> None:
        super().__init__()
        width = config.width
        self.num_heads, self.causal = config.num_heads, causal
        self.attention_norm, self.mlp_norm = (nn.LayerNorm(width, eps=NORM_EPSILON) for _ in range(2))
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.expand, self.contract = nn.Linear(width, config.mlp_width), nn.Linear(config.mlp_width, width)

    def forward(
        self, x: Float[Tensor, "B D C"], update: Float[Tensor, "B D C"]
    ) -> tuple[Float[Tensor, "B D C"], Float[Tensor, "B D C"]]:
        """The block's output for x + update, again as two terms, which the next norm can add in its own pass."""
        x = x + update
        x = x + self._attend(self.attention_norm(x))
        return x, self.contract(gelu(self.expand(self.mlp_norm(x))))

    def _attend(self, x: Float[Tensor, "B D C"]) -> Float[Tensor, "B D C"]:
        query, key, value = (
            part(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )  # each (B, heads, D, C / heads)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return output


def run_blocks(blocks: Iterable[nn.Module], x: Float[Tensor, "B D C"]) -> Float[Tensor, "B D C"]:
    """The output of paper blocks in sequence."""
    update = torch.zeros_like(x)
    for block in blocks:
        x, update = block(x, update)
    return x + update


def initialise_like_the_paper(network: nn.Module) -> None:
    """Draw the weights of all linear maps by Glorot's rule, and tiny biases, in place."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.normal_(module.bias, std=1e-6)
