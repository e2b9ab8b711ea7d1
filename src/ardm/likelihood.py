"""Bits of items under a model: a bound over random orders with its interval, and exact values for given orders.

Three numbers must not be confused; each result says which one it is.
    bound            an unbiased estimate, from a few calls an item, of the average over all orders of
                     -log2 p(x | order), which bounds -log2 of the mixture over orders from above.
    schedule bound   the same average when variables are revealed in groups, as a schedule says.
    exact            -log2 p(x) of the distribution that one order and one schedule define: what a codec pays.
Intervals are 95% normal intervals over items.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ardm.model import ARDM
from ardm.objective import Corrupted, StepLoss, corrupt, step_loss, stratified_steps
from ardm.orders import check_orders, random_orders, random_stage_orders, ranks
from ardm.profile import Profile
from ardm.schedule import Schedule, check_fits

T = TypeVar("T")
Z_95 = 1.959964
MIN_ITEMS_PER_STEP = 4
"""Items at a step in a pass, on average, that make it a stratum of its own."""


@runtime_checkable
class Processes(Protocol):
    """Processes that share the items of one estimate; `runtime.team.Team` is the one for torchrun."""

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""

    @property
    def size(self) -> int:
        """The number of processes."""

    def has(self, number: int) -> bool:
        """Whether a numbered piece of work is this process's."""

    def all_gather_in_order(self, pieces: Sequence[tuple[int, T]]) -> list[T]:
        """The numbered results of all processes, by their numbers."""

    def sendable(self, value: Any) -> Any:
        """A tensor, or losses, in a form that can travel between processes."""


class OneProcess:
    """A process that does all the work itself."""

    rank, size = 0, 1

    def has(self, number: int) -> bool:
        """True: every piece of work is its own."""
        return True

    def all_gather_in_order(self, pieces: Sequence[tuple[int, T]]) -> list[T]:
        """The results by their numbers."""
        return [piece for _, piece in sorted(pieces, key=lambda numbered: numbered[0])]

    def sendable(self, value: Any) -> Any:
        """The value itself, which need not travel."""
        return value


ALONE = OneProcess()


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Mean bits for each variable over items, with half the width of its 95% interval."""

    bits_per_dim: float
    half_width: float
    num_items: int
    is_exact: bool
    """Whether the bits are those of one distribution, or bound them on average over orders."""
    estimator: str
    """How they were found, in words."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an unknown interval is None."""
        return {
            "bits_per_dim": self.bits_per_dim,
            "half_width": self.half_width if math.isfinite(self.half_width) else None,
            "num_items": self.num_items,
            "is_exact": self.is_exact,
            "estimator": self.estimator,
        }


@dataclass(frozen=True, kw_only=True)
class Bound(Estimate):
    """A bound over random orders with the profile that was measured on the way."""

    profile: Profile
    draws_half_width: float
    """Half the 95% interval over draws of steps and orders for these very items; infinite after a single pass."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; unknown intervals are None."""
        draws = self.draws_half_width if math.isfinite(self.draws_half_width) else None
        return super().to_dict() | {"draws_half_width": draws}


@torch.no_grad()
def bound(
    model: ARDM,
    x: Int[Tensor, "N D"],
    generator: torch.Generator,
    *,
    num_passes: int = 1,
    batch_size: int = 64,
    on_batch: Callable[[int], None] = lambda num_items: None,
    team: Processes = ALONE,
) -> Bound:
    """An unbiased estimate of the bound: in each pass every item meets one (stage, step) and one random order.

    Steps are stratified over the items of a pass; the interval counts only the spread that stratification leaves. A
    team shares the batches out, and each of its processes has the result.
    """
    check_items(x, model.num_variables, model.depth.num_classes)
    if num_passes < 1:
        raise ValueError(f"the bound needs at least one pass, got {num_passes}")
    losses: list[tuple[int, StepLoss]] = []
    for number, corrupted in enumerate(_batches(model, x, generator, num_passes, batch_size)):
        if team.has(number):
            losses.append((number, team.sendable(step_loss(model, corrupted))))
        on_batch(len(corrupted.t))
    profile = Profile.empty(model.num_stages, model.num_variables, x.device)
    steps, values = [], []
    for loss in (one.to(x.device) for one in team.all_gather_in_order(losses)):
        profile = profile.updated(loss)
        steps.append(loss.stage * model.num_variables + loss.t)
        values.append(loss.bits_per_dim.double())
    bits = torch.cat(values).view(num_passes, len(x))
    half_width = stratified_half_width(bits, torch.cat(steps).view(num_passes, len(x)))
    return Bound(
        bits_per_dim=bits.mean().item(),
        half_width=half_width,
        num_items=len(x),
        is_exact=False,
        estimator=f"bound over random orders, stratified steps, {num_passes} pass(es)",
        profile=profile,
        draws_half_width=_half_width(bits.mean(1)),
    )


def _batches(
    model: ARDM, x: Int[Tensor, "N D"], generator: torch.Generator, num_passes: int, batch_size: int
) -> Iterator[Corrupted]:
    num_items, num_variables = x.shape
    for _ in range(num_passes):
        steps = stratified_steps(num_items, model.num_stages * num_variables, generator)
        for rows in torch.arange(num_items, device=x.device).split(batch_size):
            stage, t = steps[rows] // num_variables, steps[rows] % num_variables
            rank = random_orders(len(rows), num_variables, generator)
            yield corrupt(model.depth, x[rows], stage, t, rank)


def _half_width(values: Float[Tensor, "N"]) -> float:
    """Half the 95% interval of the mean."""
    return Z_95 * values.std().item() / len(values) ** 0.5 if len(values) > 1 else math.inf


def stratified_half_width(bits: Float[Tensor, "P N"], steps: Int[Tensor, "P N"]) -> float:
    """Half the 95% interval of the mean, from what is left of each item after its step's expected loss is removed.

    That is the mean of the values at the step or, where steps have few values, of a run of neighbouring steps: about
    sqrt(P N) runs, each with several items.
    """
    num_passes, num_items = bits.shape
    if num_items < 2:
        return math.inf
    _, stratum, counts = steps.flatten().unique(return_inverse=True, return_counts=True)
    if len(counts) * MIN_ITEMS_PER_STEP > num_items:
        num_runs = max(1, min(int(bits.numel() ** 0.5), num_items // 4))
        place = steps.flatten().argsort(stable=True).argsort()
        stratum = place * num_runs // bits.numel()
        counts = stratum.bincount()
    sums = torch.zeros(len(counts), dtype=bits.dtype, device=bits.device).index_add_(0, stratum, bits.flatten())
    residual = bits.flatten() - (sums / counts)[stratum]
    freedom = (counts / (counts - 1).clamp(min=1)).sqrt()[stratum]  # a mean follows its own values
    by_item = (residual * freedom).view(num_passes, num_items).mean(0)
    return Z_95 * math.sqrt(by_item.square().mean().item() / num_items)


@torch.no_grad()
def exact_bits(
    model: ARDM,
    x: Int[Tensor, "N D"],
    orders: Int[Tensor, "N S D"],
    schedule: Schedule,
    *,
    batch_size: int = 64,
    on_batch: Callable[[int], None] = lambda num_calls: None,
    team: Processes = ALONE,
) -> Float[Tensor, "N"]:
    """-log2 p(x) of each item, in bits, for its order and the schedule: exact, one row of a call for each group.

    A schedule that begins at step n takes the first n variables of the order as given and scores the rest; one
    that ends before D leaves the last ones out (see `conditional_bits`).
    """
    return _score(model, x, orders, schedule, _members, batch_size, on_batch, team)


@torch.no_grad()
def variable_bits(
    model: ARDM,
    x: Int[Tensor, "N D"],
    orders: Int[Tensor, "N S D"],
    schedule: Schedule,
    *,
    batch_size: int = 64,
    on_batch: Callable[[int], None] = lambda num_calls: None,
) -> Float[Tensor, "N D"]:
    """What each variable adds to `exact_bits`, over all stages; 0 for those that the schedule leaves out."""
    nats = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for item, weighted in _scored_rows(model, x, orders, schedule, _members, batch_size, on_batch):
        nats.index_add_(0, item, weighted)
    return nats / math.log(2)


@torch.no_grad()
def schedule_bits_bound(
    model: ARDM,
    x: Int[Tensor, "N D"],
    schedule: Schedule,
    generator: torch.Generator,
    *,
    batch_size: int = 64,
    on_batch: Callable[[int], None] = lambda num_calls: None,
    team: Processes = ALONE,
) -> Float[Tensor, "N"]:
    """An unbiased estimate, in bits for each item, of its average cost over random orders under a schedule.

    A group of k that begins at step t scores all D - t hidden variables with weight k / (D - t), which has less
    variance than its own k members.
    """
    orders = random_stage_orders(len(x), model.num_stages, x.shape[1], generator)
    return _score(model, x, orders, schedule, _all_hidden, batch_size, on_batch, team)


Weigh = Callable[[Tensor, Tensor, Tensor], Tensor]


def _members(rank: Tensor, start: Tensor, stop: Tensor) -> Tensor:
    return ((rank >= start) & (rank < stop)).double()


def _all_hidden(rank: Tensor, start: Tensor, stop: Tensor) -> Tensor:
    return (rank >= start) * ((stop - start).double() / (rank.shape[1] - start))


def _score(
    model: ARDM,
    x: Int[Tensor, "N D"],
    orders: Int[Tensor, "N S D"],
    schedule: Schedule,
    weigh: Weigh,
    batch_size: int,
    on_batch: Callable[[int], None],
    team: Processes,
) -> Float[Tensor, "N"]:
    """Weighted bits of every call of every item; a team shares the items out."""
    check_items(x, model.num_variables, model.depth.num_classes)
    own = torch.arange(team.rank, len(x), team.size, device=x.device)
    bits = x.new_zeros(len(own), dtype=torch.float64)
    if len(own):
        scored = _scored_rows(model, x[own], orders[own], schedule, weigh, batch_size, on_batch)
        nats = torch.cat([weighted.sum(1) for _, weighted in scored])
        bits = nats.view(len(own), schedule.num_calls).sum(1) / math.log(2)
    shared = team.all_gather_in_order(list(zip(own.tolist(), bits.tolist(), strict=True)))
    return torch.tensor(shared, dtype=torch.float64, device=x.device)


def _scored_rows(
    model: ARDM,
    x: Int[Tensor, "N D"],
    orders: Int[Tensor, "N S D"],
    schedule: Schedule,
    weigh: Weigh,
    batch_size: int,
    on_batch: Callable[[int], None],
) -> Iterator[tuple[Int[Tensor, "R"], Float[Tensor, "R D"]]]:
    """Items, and weighted nats of their variables, of rows (item, call): evaluated in any grouping alike."""
    check_items(x, model.num_variables, model.depth.num_classes)
    check_orders(orders, (len(x), model.num_stages, model.num_variables))
    check_fits(schedule, model.num_stages, model.num_variables)
    if model.num_stages > 1 and schedule.first_step > 0:
        raise ValueError("a model of several stages is scored on whole items only")
    groups = [(s, *group) for s in range(schedule.num_stages) for group in schedule.groups(s)]
    stages, starts, stops = torch.tensor(groups, device=x.device).T
    rank = ranks(orders)
    for rows in torch.arange(len(x) * len(groups), device=x.device).split(batch_size):
        item, call = rows // len(groups), rows % len(groups)
        stage, start, stop = stages[call], starts[call], stops[call]
        r = rank[item, stage]
        log_probs = _log_probs(model, corrupt(model.depth, x[item], stage, start, r))
        weights = weigh(r, start[:, None], stop[:, None])
        yield item, -(log_probs.double().masked_fill(weights == 0, 0.0) * weights)
        on_batch(len(rows))


def _log_probs(model: ARDM, c: Corrupted) -> Float[Tensor, "B D"]:
    log_probs: Tensor = model(c.inputs, c.mask, c.stage, c.t, c.parent, c.child)
    return log_probs


def conditional_bits(
    model: ARDM,
    x: Int[Tensor, "N D"],
    target: Bool[Tensor, "D"],
    given: Bool[Tensor, "D"],
    order: Int[Tensor, "D"],
    *,
    schedule: Schedule | None = None,
    batch_size: int = 64,
) -> Float[Tensor, "N"]:
    """-log2 p(x_A | x_B) of each item for A = target and B = given; with nothing given, the marginal of x_A.

    Exact for the chosen order: B is revealed first, then A in the order's sequence; other variables stay hidden.
    The default schedule reveals one variable a call. Only for one stage: in an upscale model the
    coarse values of A are drawn before the fine values of B are known, so no chain gives p(x_A | x_B).
    """
    if model.num_stages > 1:
        raise ValueError(
            f"conditional probabilities need a one-stage model; this one has {model.num_stages} stages, "
            "which mix A and B. Score whole items with `exact_bits` instead"
        )
    if (target & given).any() or not target.any():
        raise ValueError("the target must name at least one variable and none that is given")
    first, last = int(given.sum()), int((given | target).sum())
    schedule = schedule or Schedule(starts=(tuple(range(first, last)),), num_steps=last)
    if (schedule.first_step, schedule.num_steps) != (first, last):
        raise ValueError(f"the schedule must run from step {first} to {last} for these variables")
    orders = conditional_order(order, target, given).expand(len(x), 1, -1)
    return exact_bits(model, x, orders, schedule, batch_size=batch_size)


def conditional_order(order: Int[Tensor, "D"], target: Bool[Tensor, "D"], given: Bool[Tensor, "D"]) -> Int[Tensor, "D"]:
    """The order with the given variables first, the target next and the rest last, otherwise as it was."""
    turn = torch.full_like(order, 2)
    turn[target] = 1
    turn[given] = 0
    return order[turn[order].argsort(stable=True)]


def mean_bits(bits: Float[Tensor, "N"], num_variables: int, estimator: str, *, is_exact: bool) -> Estimate:
    """Mean bits for each variable of per-item values, with the interval over items."""
    per_dim = bits / num_variables
    return Estimate(
        bits_per_dim=per_dim.mean().item(),
        half_width=_half_width(per_dim),
        num_items=len(bits),
        is_exact=is_exact,
        estimator=estimator,
    )


def check_items(x: Tensor, num_variables: int, num_classes: int) -> None:
    """A ValueError unless there are items of so many variables, all of them classes."""
    if x.ndim != 2 or x.shape[1] != num_variables or len(x) == 0:
        raise ValueError(f"expected at least one item of {num_variables} variables, got shape {tuple(x.shape)}")
    if int(x.min()) < 0 or int(x.max()) >= num_classes:
        raise ValueError(f"values must lie in 0..{num_classes - 1}, got {int(x.min())}..{int(x.max())}")
