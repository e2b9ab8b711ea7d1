"""The training objective: one step of the bound for each item (Alg. 2 and 4).

The bound over all orders is a sum over S stages and D steps,

    -log p(x) <= E_sigma sum_s sum_t -log p(x_sigma(t) | x_sigma(<t)) = S D E_{s,t}[ L_{s,t} ],
    L_{s,t} = E_sigma 1/(D - t) sum of -log p(x_k | x_sigma(<t)) over the D - t variables k not yet revealed,

with t = 0..D-1 revealed variables (the paper's t is ours + 1) and, for upscale models, x at level s+1 where
revealed and at level s elsewhere. Drawing (s, t) uniformly and sigma uniformly gives an unbiased estimate.

Variables that are missing from an item of a one-stage model are never revealed and never scored: the estimate is then
that of the n observed ones alone, n E_t[ L_t ] with t = 0..n-1, a bound on -log p of their marginal. Given variables
are revealed before the first step, and not scored either.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from ardm.depth import DepthMap
from ardm.model import ARDM, Context, Mask, PerItem, Values
from ardm.orders import given_first, random_orders, ranks, revealed

Missing = Bool[Tensor, "B D"] | None
"""True at variables whose values are unknown; None where all are known."""


class Corrupted(NamedTuple):
    """Items as the network sees them at a stage and a step, with their targets: the arguments of `ARDM.forward`."""

    inputs: Values
    mask: Mask
    stage: PerItem
    t: PerItem
    parent: Values
    child: Values
    context: Context = None


def corrupt(depth: DepthMap, x: Values, stage: PerItem, t: PerItem, rank: Values, context: Context = None) -> Corrupted:
    """The input i = m x^(s+1) + (1 - m) x^(s) of Alg. 4 and its targets; `rank` is the order's inverse."""
    mask = revealed(rank, t)
    parent, child = depth.at_level(x, stage), depth.at_level(x, stage + 1)
    return Corrupted(torch.where(mask, child, parent), mask, stage, t, parent, child, context)


def stratified_steps(num_items: int, num_steps: int, generator: torch.Generator) -> Int[Tensor, "B"]:
    """One step in 0..num_steps-1 for each item: uniform for each, spread evenly over the items.

    Each of `num_items` equal strata goes to a random item, whose step is drawn uniformly within it.
    """
    return stratified_passes(1, num_items, num_steps, generator)[0]


def stratified_passes(
    num_passes: int, num_items: int, num_steps: int, generator: torch.Generator
) -> Int[Tensor, "P N"]:
    """Steps in 0..num_steps-1 for P passes over N items: uniform for each, spread evenly in three ways.

    The steps are cut into P N equal cells, and each cell is drawn from once. A pass has one step in each N-th of the
    steps, as in `stratified_steps`, and an item has one in each P-th, at places that are nearly independent.

    >>> import torch
    >>> from ardm.objective import stratified_passes
    >>> steps = stratified_passes(3, 4, num_steps=12, generator=torch.Generator())
    >>> (steps // 3).sort(dim=1).values.tolist(), (steps // 4).sort(dim=0).values.T.tolist()
    ([[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]], [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]])
    """
    steps = (_jittered_cells(num_passes, num_items, generator) * (num_steps / (num_passes * num_items))).long()
    return steps.clamp_(max=num_steps - 1)


def stratified_places(num_passes: int, num_items: int, generator: torch.Generator) -> Float64[Tensor, "P N"]:
    """Places in [0, 1) for P passes over N items: uniform for each, spread evenly as the steps of `stratified_passes`.

    >>> import torch
    >>> from ardm.objective import stratified_places
    >>> places = stratified_places(3, 4, torch.Generator())
    >>> (places * 12).long().flatten().sort().values.tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    """
    return _jittered_cells(num_passes, num_items, generator) / (num_passes * num_items)


def _jittered_cells(num_passes: int, num_items: int, generator: torch.Generator) -> Float64[Tensor, "P N"]:
    """Numbers in 0..P N: the cells in random places, and uniform within each."""
    cells = _spread_cells(num_passes, num_items, generator)
    return cells + torch.rand(cells.shape, generator=generator, device=generator.device, dtype=torch.float64)


def _spread_cells(num_passes: int, num_items: int, generator: torch.Generator) -> Int[Tensor, "P N"]:
    """The cells 0..P N - 1 in random places: each row has one in each N-th of them, each column one in each P-th.

    A lattice has these properties: floor(cell / P) = n + const modulo N in a pass, for the item in place n, and
    floor(cell / N) = m + const modulo P for an item, for the pass in place m. Two kinds of exchange keep them and make
    the places of an item nearly independent: among the items that a pass has in one P-th, and among the cells that lie
    in one P-th and one N-th.
    """
    device, num_cells = generator.device, num_passes * num_items
    item = torch.randperm(num_items, generator=generator, device=device)
    if num_passes == 1:
        return item[None]
    turn = torch.randperm(num_passes, generator=generator, device=device)[:, None]
    common = math.gcd(num_passes, num_items)
    cells = (num_passes * item + num_items * turn + turn * common // num_passes) % num_cells
    cells = _shuffled_within(cells, cells // num_items * num_passes + turn, generator)
    return _shuffled_within(cells, cells // num_items * num_items + cells // num_passes, generator)


def _shuffled_within(values: Int[Tensor, "P N"], group: Int[Tensor, "P N"], generator: torch.Generator) -> Tensor:
    """The values with a random permutation of those in each group."""
    keys = torch.rand(values.numel(), generator=generator, device=values.device, dtype=torch.float64)
    shuffled, by_group = keys.argsort(), group.flatten().argsort(stable=True)
    places = shuffled[group.flatten()[shuffled].argsort(stable=True)]
    return torch.empty_like(values.flatten()).scatter_(0, places, values.flatten()[by_group]).view_as(values)


@dataclass(frozen=True, kw_only=True)
class Losses:
    """The losses that training minimises, for each item."""

    bits_per_dim: Float[Tensor, "B"]
    """An unbiased estimate of the bound in bits per dimension; S L_{s,t} for an ARDM."""
    cross_entropy: Float[Tensor, "B"]
    """The authors' CE term: the bits of all masked variables together, divided by D."""

    def map(self: "L", function: Callable[[Tensor], Tensor]) -> "L":
        """The losses with a function applied to each tensor."""
        return type(self)(**{f.name: function(getattr(self, f.name)) for f in fields(self)})

    def to(self: "L", device: torch.device | str) -> "L":
        """The losses on a device."""
        return self.map(lambda tensor: tensor.to(device))


L = TypeVar("L", bound=Losses)


def joined(parts: Sequence[L]) -> L:
    """The losses of several batches joined into one, without gradients."""
    kind = type(parts[0])
    return kind(**{f.name: torch.cat([getattr(part, f.name) for part in parts]).detach() for f in fields(kind)})


@dataclass(frozen=True, kw_only=True)
class StepLoss(Losses):
    """The losses of one step for each item."""

    stage: Int[Tensor, "B"]
    t: Int[Tensor, "B"]
    nats: Float[Tensor, "B"]
    """L_{s,t} in nats: the mean over the variables not yet revealed."""


def step_loss(model: ARDM, corrupted: Corrupted, missing: Missing = None, given: Missing = None) -> StepLoss:
    """L_{s,t} of each item from one call of the network; the bits of missing and given variables are 0."""
    c, num_variables = corrupted, corrupted.inputs.shape[1]
    total = -model(*c).masked_fill(c.mask if missing is None else c.mask | missing, 0.0).sum(dim=1)
    num_observed = num_variables if missing is None else num_variables - missing.sum(dim=1)
    nats = total / (num_observed - c.t)
    unscored = [part.to(nats.dtype).mean(dim=1) for part in (missing, given) if part is not None]
    share = 1.0 - torch.stack(unscored).sum(dim=0) if unscored else 1.0
    return StepLoss(
        stage=c.stage,
        t=c.t,
        nats=nats,
        bits_per_dim=nats * share * (model.num_stages / math.log(2)),
        cross_entropy=total / (num_variables * math.log(2)),
    )


def sample_step_loss(
    model: ARDM,
    x: Values,
    generator: torch.Generator,
    rank: Values | None = None,
    *,
    context: Context = None,
    missing: Missing = None,
    given: Missing = None,
) -> StepLoss:
    """Alg. 2 and 4: a stratified (stage, step) and a uniform order for each item, then its loss.

    Ranks, if given, replace the uniform orders. The loss, a mean over all hidden variables, is then not a bound, but a
    network trained on it gets better at these orders. Given variables are revealed before all others. Every item must
    have a variable that is neither missing nor given.
    """
    if missing is None and given is None:
        return step_loss(model, sample_corruption(model.depth, x, generator, rank)._replace(context=context))
    if model.num_stages > 1:
        raise ValueError("an upscale model sees the coarse digits of all variables, so none may be missing or given")
    num_items, num_variables = x.shape
    missing = torch.zeros_like(x, dtype=torch.bool) if missing is None else missing
    first = torch.zeros_like(x[:, 0]) if given is None else given.sum(dim=1)
    count = num_variables - missing.sum(dim=1) - first
    t = first + (stratified_places(1, num_items, generator)[0] * count).long().minimum(count - 1)
    orders = given_first(
        (random_orders(num_items, num_variables, generator) if rank is None else ranks(rank))[:, None], ~missing
    )
    orders = orders if given is None else given_first(orders, given)
    x, stage = x.masked_fill(missing, 0), torch.zeros_like(t)
    corrupted = corrupt(model.depth, x, stage, t, ranks(orders[:, 0]), context)
    return step_loss(model, corrupted, missing, given)


def sample_corruption(depth: DepthMap, x: Values, generator: torch.Generator, rank: Values | None = None) -> Corrupted:
    """Items corrupted as in Alg. 2 and 4: random stages, steps and, unless ranks are given, orders."""
    num_items, num_variables = x.shape
    steps = stratified_steps(num_items, depth.num_stages * num_variables, generator)
    stage, t = steps // num_variables, steps % num_variables
    if rank is None:
        rank = random_orders(num_items, num_variables, generator)
    return corrupt(depth, x, stage, t, rank)
