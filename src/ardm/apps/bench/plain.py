"""A plain PyTorch training loop of a preset's size, short enough for a page, to compare with ardm's training step.

It trains an order-agnostic model (Alg. 2) with AdamW, in bfloat16 by autocast on CUDA: a random step and order for each
item, and the cross-entropies of hidden variables in float32. The network for text is PyTorch's `TransformerEncoder` of
the preset's size; for images, where PyTorch has none, it is the preset's own. It has nothing else of ardm's step: no
second optimiser, no averaged weights, no profile of losses.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ardm.apps.bench.training import (
    COUNTED_ITEMS,
    MatrixRates,
    TrainTiming,
    random_corpus,
    time_training,
    timed_steps,
    training_flops,
)
from ardm.build import build_ardm, build_parametrization
from ardm.config import PaperTransformerConfig, RunConfig, TrainConfig, TransformerConfig
from ardm.errors import UsageError
from ardm.runtime.device import Runtime


class PlainTransformer(nn.Module):
    """PyTorch's Transformer between an embedding and a linear map, with learnt positions."""

    def __init__(self, num_layers: int, width: int, num_heads: int, hidden: int, *, length: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes + 1, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(
            width, num_heads, hidden, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, inputs: Int[Tensor, "B D"], revealed: Bool[Tensor, "B D"]) -> Float[Tensor, "B D K"]:
        """Logits of every variable; the mask is not needed, because hidden variables have a special class."""
        logits: Tensor = self.head(self.encoder(self.embedding(inputs) + self.positions))
        return logits


class OwnNetwork(nn.Module):
    """The preset's network."""

    def __init__(self, config: RunConfig, num_classes: int) -> None:
        super().__init__()
        model = build_ardm(config, num_classes)
        self.network, self.shape = model.network, model.shape

    def forward(self, inputs: Int[Tensor, "B D"], revealed: Bool[Tensor, "B D"]) -> Float[Tensor, "B D K"]:
        """Logits of every variable."""
        shape, stage = (-1, *self.shape), torch.zeros(len(inputs), dtype=torch.long, device=inputs.device)
        logits: Tensor = self.network(inputs.view(shape), revealed.view(shape), stage, revealed.sum(1))
        return logits.flatten(1, -2)


def check_plain(config: RunConfig) -> None:
    """Raise a UsageError for a model that the plain loop cannot train."""
    if config.depth.base is not None or config.data.medium == "sound":
        raise UsageError("the plain loop is for order-agnostic models of text and images: leave out --plain")


def plain_network(config: RunConfig, num_classes: int) -> nn.Module:
    """The plain loop's network for a preset."""
    sizes, length = config.network, config.data.num_variables
    if isinstance(sizes, TransformerConfig):
        num_heads, hidden = sizes.width // sizes.head_width, sizes.mlp_ratio * sizes.width
    elif isinstance(sizes, PaperTransformerConfig):
        num_heads, hidden = sizes.num_heads, sizes.mlp_width
    else:
        return OwnNetwork(config, num_classes)
    return PlainTransformer(sizes.num_layers, sizes.width, num_heads, hidden, length=length, classes=num_classes)


def plain_loss(network: nn.Module, x: Int[Tensor, "B D"], hidden_value: int) -> Tensor:
    """The mean cross-entropy of hidden variables, at a random step of a random order for each item."""
    num_items, num_variables = x.shape
    t = torch.randint(num_variables, (num_items, 1), device=x.device)
    revealed = torch.rand(x.shape, device=x.device).argsort(1) < t
    logits = network(torch.where(revealed, x, hidden_value), revealed)
    losses = F.cross_entropy(logits.float().flatten(0, 1), x.flatten(), reduction="none").view_as(x)
    return (losses.masked_fill(revealed, 0).sum(1, keepdim=True) / (num_variables - t)).mean()


@dataclass(frozen=True, kw_only=True)
class PlainComparison(TrainTiming):
    """The training steps of a preset and of the plain loop."""

    plain: TrainTiming
    speedup: float
    """Ratio of our items per second to those of the plain loop."""


def compare_with_plain(config: RunConfig, runtime: Runtime, *, seconds: float, compiled: bool) -> PlainComparison:
    """The timings of our steps and then of the plain loop's, taken for about this many seconds each."""
    ours = time_training(config, runtime, seconds=seconds)
    rates = MatrixRates(burst=ours.burst_teraflops, sustained=ours.matrix_teraflops)
    plain = time_plain(config, runtime, rates=rates, seconds=seconds, compiled=compiled)
    return PlainComparison(**asdict(ours), plain=plain, speedup=ours.items_per_second / plain.items_per_second)


def time_plain(
    config: RunConfig, runtime: Runtime, *, rates: MatrixRates, seconds: float = 10.0, compiled: bool = False
) -> TrainTiming:
    """The timing of the plain loop's steps, taken for about this many seconds."""
    corpus = random_corpus(config)
    hidden_value = build_parametrization(config.depth, corpus.num_classes).depth.absorbing_value
    network = plain_network(config, corpus.num_classes).to(runtime.device)
    items = torch.from_numpy(corpus.items("train", config.data.shape)).to(runtime.device).long()
    flops = training_flops(lambda x: plain_loss(network, x, hidden_value), items[:COUNTED_ITEMS], runtime)
    if compiled:
        network.compile()
    return timed_steps(
        "compiled loop" if compiled else "plain loop",
        _step_function(config.train, network, items, hidden_value, runtime),
        network,
        runtime,
        batch_size=config.train.batch_size,
        count_flops=lambda: flops,
        rates=rates,
        seconds=seconds,
    )


def _step_function(
    train: TrainConfig, network: nn.Module, items: Int[Tensor, "N D"], hidden_value: int, runtime: Runtime
) -> Callable[[], None]:
    """A function that takes a training step."""
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=train.learning_rate, betas=train.betas, weight_decay=train.weight_decay
    )

    def step() -> None:
        x = items[torch.randint(len(items), (train.batch_size,), device=items.device)]
        optimizer.zero_grad()
        with runtime.autocast():
            loss = plain_loss(network, x, hidden_value)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), train.clip_norm)
        optimizer.step()

    return step
