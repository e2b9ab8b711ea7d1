"""Autoregressive models: one call gives all conditionals of an item in one order.

    -log p(x | order) = sum over d = 0..D-1 of -log p(x_order[d] | x_order[0], ..., x_order[d-1])

From left to right the order is 0, 1, ..., D-1 and the sum exact. A permuted network takes any order and learns the mean
over all of them, as an order-agnostic ARDM does, with one difference: it is causal, so that it predicts each variable
only from those before it in the order.

Notation beyond that of `orders`: place d of an order is its d-th variable. The token at place d is the value at place
d-1; the first one is a start value, the depth map's absorbing value.
"""

import math
from collections.abc import Callable, Iterator
from typing import ClassVar, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from ardm.depth import checked_classes
from ardm.likelihood import (
    ALONE,
    Estimate,
    OnBatch,
    Processes,
    check_items,
    evaluate_batches,
    mean_bits,
    passes_in_words,
)
from ardm.model import NetworkModel, evaluating
from ardm.objective import Losses
from ardm.orders import check_orders, random_orders
from ardm.parametrizations import Parametrization


@runtime_checkable
class CausalNetwork(Protocol):
    """Outputs for every place of an order from the tokens at this place and before."""

    is_permuted: bool
    """Whether it takes any order; one that does not is always given 0, 1, ..., D-1 and may ignore it."""

    def __call__(self, tokens: Int[Tensor, "B D"], order: Int[Tensor, "B D"]) -> Float[Tensor, "B D O"]: ...


@runtime_checkable
class IncrementalNetwork(Protocol):
    """A network that can advance place by place, left to right, without evaluating earlier places again."""

    def incremental(self) -> Callable[[Int[Tensor, "B"]], Float[Tensor, "B O"]]:
        """A function to call with the tokens of each place in turn; it returns the outputs there."""


class Autoregressive(NetworkModel):
    """A causal network and how its outputs become probabilities. Items are rows of D variables.

    >>> import dataclasses
    >>> from ardm import build, config, presets
    >>> run = dataclasses.replace(presets.text8_small(), method=config.MethodConfig(name="causal"))
    >>> build.build_model(run, num_classes=27).is_permuted
    False
    """

    num_stages: ClassVar[int] = 1

    def __init__(self, network: nn.Module, parametrization: Parametrization, shape: tuple[int, ...]) -> None:
        if not isinstance(network, CausalNetwork):
            raise ValueError(f"an autoregressive model needs a causal network; {type(network).__name__} is not one")
        if parametrization.depth.num_stages != 1:
            raise ValueError(f"an autoregressive model has one stage, got {parametrization.depth.num_stages}")
        if not shape or min(shape) < 1:
            raise ValueError(f"an item needs a shape of at least one variable, got {shape}")
        super().__init__(network, parametrization, shape)

    @property
    def num_calls(self) -> int:
        """Calls per sample: D."""
        return self.num_variables

    @property
    def is_permuted(self) -> bool:
        """Whether the network takes items in any order."""
        return bool(self.network.is_permuted)

    def outputs(self, x: Int[Tensor, "B D"], order: Int[Tensor, "B D"]) -> Float[Tensor, "B D O"]:
        """The network's outputs for every place of the order, in float32 (float64 if it computes in that). One call."""
        values = x.gather(1, order)
        tokens = F.pad(values[:, :-1], (1, 0), value=self.depth.absorbing_value)
        outputs: Tensor = self.network(tokens, order)
        return outputs if outputs.dtype.itemsize >= 4 else outputs.float()

    def forward(self, x: Int[Tensor, "B D"], order: Int[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p of the value at every place of the order, given those before, in nats. One call."""
        stage = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        parent = torch.full_like(x, self.depth.absorbing_value)
        return self.parametrization.log_prob(self.outputs(x, order), parent, x.gather(1, order), stage)

    def bits(self, x: Int[Tensor, "B D"], order: Int[Tensor, "B D"] | None = None) -> Float[Tensor, "B"]:
        """-log2 p(x | order) of each item in bits, exact; left to right unless orders are given."""
        check_items(x, self.num_variables, self.num_classes)
        if order is None:
            order = torch.arange(self.num_variables, device=x.device).expand_as(x)
        elif not self.is_permuted:
            raise ValueError("this network goes from left to right and takes no orders; leave them out")
        else:
            check_orders(order[:, None], (len(x), 1, self.num_variables))
        return self._bits(x, order)

    def losses(self, x: Int[Tensor, "B D"], generator: torch.Generator) -> Losses:
        """Bits per dimension of each item, from one call; the cross-entropy term of ARDMs is 0.

        A permuted network takes each item in a fresh uniform order.
        """
        x = checked_classes(x, self.num_classes)
        bits = self._bits(x, self.draw_orders(len(x), generator)) / self.num_variables
        return Losses(bits_per_dim=bits, cross_entropy=torch.zeros_like(bits))

    def draw_orders(self, num_items: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
        """An order for each item: uniformly random for a permuted network, else left to right."""
        if self.is_permuted:
            return random_orders(num_items, self.num_variables, generator)
        return torch.arange(self.num_variables, device=generator.device).expand(num_items, -1)

    def _bits(self, x: Int[Tensor, "B D"], order: Int[Tensor, "B D"]) -> Float[Tensor, "B"]:
        return -self(x, order).sum(1) / math.log(2)


@torch.no_grad()
def score(
    model: Autoregressive,
    x: Int[Tensor, "N D"],
    generator: torch.Generator,
    *,
    num_passes: int = 1,
    batch_size: int = 64,
    on_batch: OnBatch = lambda num_items: None,
    team: Processes = ALONE,
) -> Estimate:
    """Mean bits per dimension: exact left to right, else an unbiased estimate of the mean over random orders.

    In each pass every item is scored in one order; left to right is a single order and takes a single pass. The
    processes of a team share the batches, and each of them returns the result.

    >>> import dataclasses, torch
    >>> from ardm import build, config, presets
    >>> from ardm.baselines.causal import score
    >>> run = dataclasses.replace(presets.text8_small(), method=config.MethodConfig(name="causal"))
    >>> model = build.build_model(run, num_classes=4)  # untrained: uniform
    >>> round(score(model, torch.zeros(1, 250).long(), torch.Generator()).bits_per_dim, 3)
    2.0
    """
    check_items(x, model.num_variables, model.num_classes, num_passes)
    num_passes = num_passes if model.is_permuted else 1
    batches = (
        (items, model.draw_orders(len(items), generator) if model.is_permuted else None)
        for _ in range(num_passes)
        for items in x.split(batch_size)
    )
    with evaluating(model):
        scores = evaluate_batches(batches, lambda batch: model.bits(*batch).double(), on_batch, team)
    bits = torch.cat(scores).view(num_passes, len(x)).mean(0).to(x.device)
    passes = passes_in_words(num_passes)
    estimator = f"mean over random orders, {passes}" if model.is_permuted else "exact, left to right"
    return mean_bits(bits, model.num_variables, estimator, is_exact=not model.is_permuted)


def sample(model: Autoregressive, num_items: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
    """Items drawn in D calls, in orders from `draw_orders`; exact.

    >>> import dataclasses, torch
    >>> from ardm import build, config, presets
    >>> from ardm.baselines.causal import sample
    >>> method, data = config.MethodConfig(name="causal"), config.TextData(kind="text8", num_variables=8)
    >>> run = dataclasses.replace(presets.text8_small(), method=method, data=data)
    >>> sample(build.build_model(run, num_classes=27), 3, torch.Generator()).shape
    torch.Size([3, 8])
    """
    *_, last = sample_chain(model, num_items, generator)
    return last


def sample_chain(model: Autoregressive, num_items: int, generator: torch.Generator) -> Iterator[Int[Tensor, "B D"]]:
    """The items of `sample` after each call, K where nothing is drawn yet."""
    order = model.draw_orders(num_items, generator)
    x = torch.full_like(order, model.depth.absorbing_value)
    is_hidden = torch.ones_like(x, dtype=torch.bool)
    next_outputs = _next_outputs(model, order)
    for d in range(model.num_variables):
        where = order[:, d : d + 1]
        parent = torch.full_like(where, model.depth.absorbing_value)
        with torch.no_grad(), evaluating(model):  # not around the yield, where the caller may train
            children = model.parametrization.children(next_outputs(x, d)[:, None], parent, 0)
        x = x.scatter(1, where, children.sample(generator))
        is_hidden = is_hidden.scatter(1, where, False)
        yield x.masked_fill(is_hidden, model.num_classes)


def _next_outputs(
    model: Autoregressive, order: Int[Tensor, "B D"]
) -> Callable[[Int[Tensor, "B D"], int], Float[Tensor, "B O"]]:
    """A function from items whose places before d are drawn, and d = 0, 1, ..., to the outputs at place d."""
    if not isinstance(model.network, IncrementalNetwork):
        return lambda x, d: model.outputs(x, order)[:, d]
    outputs_at = model.network.incremental()
    start = torch.full_like(order[:, 0], model.depth.absorbing_value)
    return lambda x, d: outputs_at(x[:, d - 1] if d else start)
