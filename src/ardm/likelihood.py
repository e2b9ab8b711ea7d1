"""Bits of items under a model: a bound over random orders with its interval, and exact values for given orders.

Three numbers must not be confused; each result says which one it is.
    bound            an unbiased estimate, from a few calls per item, of the average over all orders of
                     -log2 p(x | order), which bounds -log2 of the mixture over orders from above.
    schedule bound   that average when variables are revealed in groups, as a schedule says.
    exact            -log2 p(x) of the distribution that one order and one schedule define: what a codec pays.
Intervals are 95% normal intervals over items.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ardm.model import ARDM
from ardm.objective import Corrupted, corrupt, step_loss, stratified_steps
from ardm.orders import check_orders, random_orders, random_stage_orders, ranks
from ardm.profile import Profile
from ardm.schedule import Schedule, check_fits

T = TypeVar("T")
Batch = TypeVar("Batch", bound=tuple[Any, ...])
OnBatch = Callable[[int], None]
Weigh = Callable[[Tensor, Tensor, Tensor], Tensor]
Z_95 = 1.959964
MIN_ITEMS_PER_STEP = 4
"""Each step is a stratum if it has at least this many items per pass on average."""


@runtime_checkable
class Processes(Protocol):
    """Processes that share the items of one estimate; `runtime.team.Team` is the one for torchrun."""

    def has(self, number: int) -> bool:
        """Whether this process does the piece of work with this number."""

    def all_gather_in_order(self, pieces: Sequence[tuple[int, T]]) -> list[T]:
        """The numbered results of all processes, sorted by number."""

    def sendable(self, value: Any) -> Any:
        """A tensor, or losses, in a form that can travel between processes."""


class OneProcess:
    """A single process, which does all the work."""

    def has(self, number: int) -> bool:
        return True

    def all_gather_in_order(self, pieces: Sequence[tuple[int, T]]) -> list[T]:
        return [piece for _, piece in sorted(pieces, key=lambda numbered: numbered[0])]

    def sendable(self, value: Any) -> Any:
        return value


ALONE = OneProcess()


def evaluate_batches(
    batches: Iterable[Batch], evaluate: Callable[[Batch], T], on_batch: OnBatch, team: Processes
) -> list[T]:
    """The results of all batches in order, for every process; each process evaluates its share.

    All processes iterate over all batches, so that they draw the same random numbers.
    """
    own: list[tuple[int, T]] = []
    for number, batch in enumerate(batches):
        if team.has(number):
            own.append((number, team.sendable(evaluate(batch))))
        on_batch(len(batch[0]))
    return team.all_gather_in_order(own)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Mean bits per dimension of items, with half the width of the 95% interval.

    >>> import ardm, torch
    >>> ardm.mean_bits(torch.tensor([10.0]), 4, "by hand", is_exact=True).to_dict()
    {'bits_per_dim': 2.5, 'half_width': None, 'num_items': 1, 'is_exact': True, 'estimator': 'by hand'}
    """

    bits_per_dim: float
    half_width: float
    num_items: int
    is_exact: bool
    """True for the bits of one distribution, False for a bound on average over orders."""
    estimator: str
    """The method of estimation, in words."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an unknown interval is None."""
        plain = {field.name: getattr(self, field.name) for field in fields(Estimate)}
        return plain | {"half_width": _finite(self.half_width)}


@dataclass(frozen=True, kw_only=True)
class Bound(Estimate):
    """A bound over random orders, with the profile measured on the way: see `bound`.

    >>> import ardm.build, ardm.presets, torch
    >>> model, x = ardm.build.build_ardm(ardm.presets.text8_small(), 4), torch.zeros(2, 250).long()
    >>> ardm.bound(model, x, torch.Generator()).profile.counts.sum().item()
    2
    """

    profile: Profile
    draws_half_width: float
    """Half the 95% interval over draws of steps and orders for these very items; infinite after a single pass."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; unknown intervals are None."""
        return super().to_dict() | {"draws_half_width": _finite(self.draws_half_width)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@torch.no_grad()
def bound(
    model: ARDM,
    x: Int[Tensor, "N D"],
    generator: torch.Generator,
    *,
    num_passes: int = 1,
    batch_size: int = 64,
    on_batch: OnBatch = lambda num_items: None,
    team: Processes = ALONE,
) -> Bound:
    """An unbiased estimate of the bound: in each pass every item is scored at one (stage, step) in one random order.

    Steps are stratified over the items of a pass; the interval counts only the spread that stratification leaves.
    The processes of a team share the batches, and each of them returns the result.

    >>> import ardm.build, ardm.presets, torch
    >>> model, x = ardm.build.build_ardm(ardm.presets.text8_small(), 4), torch.zeros(2, 250).long()
    >>> round(ardm.bound(model, x, torch.Generator(), num_passes=3).bits_per_dim, 3)  # untrained, so uniform
    2.0
    """
    check_items(x, model.num_variables, model.depth.num_classes, num_passes)
    batches = _batches(model, x, generator, num_passes, batch_size)
    profile = Profile.empty(model.num_stages, model.num_variables, x.device)
    steps, values = [], []
    for result in evaluate_batches(batches, lambda batch: step_loss(model, batch), on_batch, team):
        loss = result.to(x.device)
        profile = profile.updated(loss)
        steps.append(loss.stage * model.num_variables + loss.t)
        values.append(loss.bits_per_dim.double())
    bits = torch.cat(values).view(num_passes, len(x))
    return Bound(
        bits_per_dim=bits.mean().item(),
        half_width=stratified_half_width(bits, torch.cat(steps).view(num_passes, len(x))),
        num_items=len(x),
        is_exact=False,
        estimator=f"bound over random orders, stratified steps, {passes_in_words(num_passes)}",
        profile=profile,
        draws_half_width=_half_width(bits.mean(1)),
    )


def _batches(
    model: ARDM, x: Tensor, generator: torch.Generator, num_passes: int, batch_size: int
) -> Iterator[Corrupted]:
    num_items, num_variables = x.shape
    for _ in range(num_passes):
        steps = stratified_steps(num_items, model.num_stages * num_variables, generator)
        for rows in torch.arange(num_items, device=x.device).split(batch_size):
            stage, t = steps[rows] // num_variables, steps[rows] % num_variables
            rank = random_orders(len(rows), num_variables, generator)
            yield corrupt(model.depth, x[rows], stage, t, rank)


def passes_in_words(num_passes: int) -> str:
    """The number of passes in words, such as "16 passes", for the name of an estimator."""
    return "1 pass" if num_passes == 1 else f"{num_passes} passes"


def _half_width(values: Float[Tensor, "N"]) -> float:
    """Half the 95% interval of the mean."""
    return Z_95 * values.std().item() / len(values) ** 0.5 if len(values) > 1 else math.inf


def stratified_half_width(bits: Float[Tensor, "P N"], steps: Int[Tensor, "P N"]) -> float:
    """Half the 95% interval of the mean, from the residual of each item after its step's expected loss is removed.

    The expected loss is the mean of the values at the step or, where steps have few values, of a run of neighbouring
    steps: about sqrt(P N) runs, each with several items.
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
    freedom = (counts / (counts - 1).clamp(min=1)).sqrt()[stratum]  # each mean was fitted to these values
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
    on_batch: OnBatch = lambda num_calls: None,
    team: Processes = ALONE,
) -> Float[Tensor, "N"]:
    """-log2 p(x) of each item, in bits, for its order and the schedule: exact, one row of a batched call per group.

    A schedule that begins at step n takes the first n variables of the order as given and scores the others; one
    that ends before D leaves the last ones out (see `conditionals.conditional_bits`).

    >>> import ardm.build, ardm.presets, torch
    >>> model, x = ardm.build.build_ardm(ardm.presets.text8_small(), 4), torch.zeros(1, 250).long()
    >>> ardm.exact_bits(model, x, torch.arange(250).view(1, 1, -1), ardm.uniform_schedule(250, 2)).round().tolist()
    [500.0]
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
    on_batch: OnBatch = lambda num_calls: None,
) -> Float[Tensor, "N D"]:
    """The share of each variable in `exact_bits`, over all stages; 0 for those that the schedule leaves out."""
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
    on_batch: OnBatch = lambda num_calls: None,
    team: Processes = ALONE,
) -> Float[Tensor, "N"]:
    """An unbiased estimate, in bits for each item, of its average cost over random orders under a schedule.

    A group of k that begins at step t scores all D - t hidden variables with weight k / (D - t), which has less
    variance than its own k members.

    >>> import ardm.build, ardm.presets, torch
    >>> model, x = ardm.build.build_ardm(ardm.presets.text8_small(), 4), torch.zeros(1, 250).long()
    >>> ardm.schedule_bits_bound(model, x, ardm.uniform_schedule(250, 2), torch.Generator()).round().tolist()
    [500.0]
    """
    orders = random_stage_orders(len(x), model.num_stages, x.shape[1], generator)
    return _score(model, x, orders, schedule, _all_hidden, batch_size, on_batch, team)


def _members(rank: Tensor, start: Tensor, stop: Tensor) -> Tensor:
    return ((rank >= start) & (rank < stop)).double()


def _all_hidden(rank: Tensor, start: Tensor, stop: Tensor) -> Tensor:
    return (rank >= start) * ((stop - start).double() / (rank.shape[1] - start))


def _score(
    model: ARDM,
    x: Tensor,
    orders: Tensor,
    schedule: Schedule,
    weigh: Weigh,
    batch_size: int,
    on_batch: OnBatch,
    team: Processes,
) -> Float[Tensor, "N"]:
    """Weighted bits of every call, summed over each item; a team shares the items."""
    check_items(x, model.num_variables, model.depth.num_classes)
    own = [number for number in range(len(x)) if team.has(number)]
    bits = []
    if own:
        scored = _scored_rows(model, x[own], orders[own], schedule, weigh, batch_size, on_batch)
        nats = torch.cat([weighted.sum(1) for _, weighted in scored])
        bits = (nats.view(len(own), schedule.num_calls).sum(1) / math.log(2)).tolist()
    shared = team.all_gather_in_order(list(zip(own, bits, strict=True)))
    return torch.tensor(shared, dtype=torch.float64, device=x.device)


def _scored_rows(
    model: ARDM, x: Tensor, orders: Tensor, schedule: Schedule, weigh: Weigh, batch_size: int, on_batch: OnBatch
) -> Iterator[tuple[Int[Tensor, "R"], Float[Tensor, "R D"]]]:
    """Items, and weighted nats of their variables, by rows (item, call); the batch size changes no value."""
    check_items(x, model.num_variables, model.depth.num_classes)
    check_orders(orders, (len(x), model.num_stages, model.num_variables))
    check_fits(schedule, model.num_stages, model.num_variables)
    if model.num_stages > 1 and schedule.first_step > 0:
        raise ValueError("a model of several stages scores only whole items; use a schedule that begins at step 0")
    groups = [(s, *group) for s in range(schedule.num_stages) for group in schedule.groups(s)]
    stages, starts, stops = torch.tensor(groups, device=x.device).T
    rank = ranks(orders)
    for rows in torch.arange(len(x) * len(groups), device=x.device).split(batch_size):
        item, call = rows // len(groups), rows % len(groups)
        stage, start, stop = stages[call], starts[call], stops[call]
        r = rank[item, stage]
        log_probs: Tensor = model(*corrupt(model.depth, x[item], stage, start, r))
        weights = weigh(r, start[:, None], stop[:, None])
        yield item, -(log_probs.double().masked_fill(weights == 0, 0.0) * weights)
        on_batch(len(rows))


def mean_bits(bits: Float[Tensor, "N"], num_variables: int, estimator: str, *, is_exact: bool) -> Estimate:
    """Mean bits per dimension of items from the bits of each, with the interval over items.

    >>> import ardm, torch
    >>> estimate = ardm.mean_bits(torch.tensor([8.0, 12.0]), 4, "by hand", is_exact=True)
    >>> estimate.bits_per_dim, round(estimate.half_width, 2)
    (2.5, 0.98)
    """
    per_dim = bits / num_variables
    return Estimate(
        bits_per_dim=per_dim.mean().item(),
        half_width=_half_width(per_dim),
        num_items=len(bits),
        is_exact=is_exact,
        estimator=estimator,
    )


def check_items(x: Tensor, num_variables: int, num_classes: int, num_passes: int = 1) -> None:
    """Raise a ValueError unless x holds items of this many variables whose values are classes, and there is a pass."""
    if num_passes < 1:
        raise ValueError(f"expected at least one pass, got {num_passes}")
    if x.ndim != 2 or x.shape[1] != num_variables or len(x) == 0:
        raise ValueError(f"expected at least one item of {num_variables} variables, got shape {tuple(x.shape)}")
    if int(x.min()) < 0 or int(x.max()) >= num_classes:
        raise ValueError(f"values must lie in 0..{num_classes - 1}, got {int(x.min())}..{int(x.max())}")
