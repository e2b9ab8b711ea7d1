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
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ardm.depth import check_classes
from ardm.model import ARDM, Context, evaluating
from ardm.objective import Corrupted, corrupt, step_loss, stratified_passes, stratified_places
from ardm.orders import check_orders, given_first, random_orders, random_stage_orders, ranks
from ardm.profile import Profile
from ardm.schedule import Schedule, check_fits

T = TypeVar("T")
Batch = TypeVar("Batch", bound=tuple[Any, ...])
OnBatch = Callable[[int], None]
Weigh = Callable[[Tensor, Tensor, Tensor], Tensor]
Z_95 = 1.959964
MIN_COMPARABLE = 8
"""So many pairs of draws tell the variance; fewer may be alike by chance."""
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
    item_bits: Float[Tensor, "N"]
    """The estimate for each item, in bits."""
    item_residuals: Float[Tensor, "N"]
    """The deviation of each item that `half_width` counts, in bits: see `stratified_residuals`."""
    draws_half_width: float
    """Half the 95% interval over draws of steps and orders for these very items; infinite after a single pass.

    See `stratified_draws_half_width`.
    """

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
    context: Context = None,
    num_passes: int = 1,
    batch_size: int = 64,
    on_batch: OnBatch = lambda num_items: None,
    team: Processes = ALONE,
) -> Bound:
    """An unbiased estimate of the bound: in each pass every item is scored at one (stage, step) in one random order.

    Steps are stratified over the items of a pass and over the passes of an item; intervals count only the spread that
    stratification leaves. The model is in eval mode meanwhile. The processes of a team share the batches, and each of
    them returns the result.

    >>> import ardm.build, ardm.presets, torch
    >>> model, x = ardm.build.build_ardm(ardm.presets.text8_small(), 4), torch.zeros(2, 250).long()
    >>> round(ardm.bound(model, x, torch.Generator(), num_passes=3).bits_per_dim, 3)  # untrained, so uniform
    2.0
    """
    check_items(x, model.num_variables, model.depth.num_classes, num_passes)
    steps = stratified_passes(num_passes, len(x), model.num_stages * model.num_variables, generator)
    batches = _batches(model, x, context, steps, generator, batch_size)
    with evaluating(model):
        results = evaluate_batches(batches, lambda batch: step_loss(model, batch), on_batch, team)
    profile, values = Profile.empty(model.num_stages, model.num_variables, x.device), []
    for result in results:
        loss = result.to(x.device)
        profile = profile.updated(loss)
        values.append(loss.bits_per_dim.double())
    bits = torch.cat(values).view(num_passes, len(x))
    return Bound(
        bits_per_dim=bits.mean().item(),
        half_width=stratified_half_width(bits, steps),
        num_items=len(x),
        is_exact=False,
        estimator=f"bound over random orders, stratified steps, {passes_in_words(num_passes)}",
        profile=profile,
        item_bits=bits.mean(0) * model.num_variables,
        item_residuals=stratified_residuals(bits, steps) * model.num_variables,
        draws_half_width=stratified_draws_half_width(bits, steps, model.num_stages, model.num_variables),
    )


def _batches(
    model: ARDM, x: Tensor, context: Context, steps: Int[Tensor, "P N"], generator: torch.Generator, batch_size: int
) -> Iterator[Corrupted]:
    """Items at their steps in fresh orders, pass after pass; a batch may hold rows of several passes."""
    num_items, num_variables = x.shape
    for rows in torch.arange(steps.numel(), device=x.device).split(batch_size):
        step, item = steps.flatten()[rows], rows % num_items
        rank, own = random_orders(len(rows), num_variables, generator), None if context is None else context[item]
        yield corrupt(model.depth, x[item], step // num_variables, step % num_variables, rank, own)


@dataclass(frozen=True, kw_only=True)
class PartialBound:
    """A bound on the bits of parts of items: see `partial_bound`.

    >>> import torch
    >>> from ardm.likelihood import PartialBound
    >>> from ardm.profile import Profile
    >>> one, none = torch.ones(1), Profile.empty(1, 1)
    >>> part = PartialBound(item_bits=one, item_residuals=one, draws_half_width=0.5, pass_bits=one[None], profile=none)
    >>> part.item_bits.tolist()
    [1.0]
    """

    item_bits: Float[Tensor, "N"]
    """The estimate for each item, in bits."""
    item_residuals: Float[Tensor, "N"]
    """Each item's bits less what its scored variables cost on average, and less what its steps have in common."""
    draws_half_width: float
    """Half the 95% interval of the sum of `item_bits` over draws of steps and orders; infinite after a single pass."""
    pass_bits: Float[Tensor, "P N"]
    """The estimates of single steps, each item's in rising order of its steps."""
    profile: Profile
    """The losses by the share of scored variables that are revealed, in as many steps as the most that an item has."""


@torch.no_grad()
def partial_bound(
    model: ARDM,
    x: Int[Tensor, "N D"],
    scored: Bool[Tensor, "N D"],
    given: Bool[Tensor, "N D"],
    generator: torch.Generator,
    *,
    context: Context = None,
    num_passes: int = 1,
    batch_size: int = 64,
    on_batch: OnBatch = lambda num_rows: None,
    team: Processes = ALONE,
) -> PartialBound:
    """Unbiased estimates, in bits, of the bound on -log2 p(x_A | x_B) with A = scored and B = given.

    In each pass every item is scored at one of its steps |B|..|A|+|B|-1 in one random order. Steps, as shares of the
    way through A, are stratified over the items of a pass and over the passes of an item, as in `bound`. Variables that
    are neither scored nor given stay hidden. The model must have one stage.

    >>> import ardm.build, ardm.presets, torch
    >>> model, d = ardm.build.build_ardm(ardm.presets.text8_small(), 4), torch.arange(250).expand(2, -1)
    >>> x, generator = torch.zeros(2, 250).long(), torch.Generator()
    >>> ardm.likelihood.partial_bound(model, x, d < 3, d > 9, generator, num_passes=2).item_bits.round().tolist()
    [6.0, 6.0]
    """
    if model.num_stages > 1:
        raise ValueError(f"parts of items need a one-stage model; this one has {model.num_stages} stages")
    (num_items, num_variables), device = x.shape, x.device
    first, count = given.sum(1), scored.sum(1)
    if bool((scored & given).any()) or not bool(count.all()):
        raise ValueError("each item must have a scored variable, and none that is both scored and given")
    x = torch.where(scored | given, x, 0)
    check_items(x, model.num_variables, model.depth.num_classes, num_passes)
    places = stratified_places(num_passes, num_items, generator)
    t = first + (places * count).long().minimum(count - 1)  # (P, N)

    def batches() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for rows in torch.arange(t.numel(), device=device).split(batch_size):
            item = rows % num_items
            orders = random_stage_orders(len(rows), 1, num_variables, generator)
            orders = given_first(given_first(orders, scored[item]), given[item])
            yield item, t.flatten()[rows], ranks(orders[:, 0])

    def estimate(batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        item, step, rank = batch
        own = None if context is None else context[item]
        log_probs: Tensor = model(*corrupt(model.depth, x[item], torch.zeros_like(step), step, rank, own))
        hidden = scored[item] & (rank >= step[:, None])
        total = -log_probs.double().masked_fill(~hidden, 0.0).sum(1)
        return total * count[item] / hidden.sum(1) / math.log(2)

    with evaluating(model):
        results = evaluate_batches(batches(), estimate, on_batch, team)
    bits = torch.cat([result.to(device) for result in results]).view(num_passes, num_items)
    return _partial_bound(bits, places, count)


def _partial_bound(bits: Float[Tensor, "P N"], places: Float[Tensor, "P N"], count: Int[Tensor, "N"]) -> PartialBound:
    """The result from estimates in bits, their places in [0, 1), and the number of scored variables of each item."""
    longest = int(count.max())
    shares = (places * longest).long()  # steps of the longest item, so that those of long and short items compare
    mean = bits.mean(0).sum() / count.sum()
    profile = Profile.empty(1, longest, bits.device).observed(shares.flatten(), (bits / count).flatten())
    return PartialBound(
        item_bits=bits.mean(0),
        item_residuals=stratified_residuals(bits - mean * count, shares),
        draws_half_width=stratified_draws_half_width(bits, shares, 1, longest) * bits.shape[1],
        pass_bits=bits.gather(0, places.argsort(dim=0)),
        profile=profile,
    )


def passes_in_words(num_passes: int) -> str:
    """The number of passes in words, such as "16 passes", for the name of an estimator."""
    return "1 pass" if num_passes == 1 else f"{num_passes} passes"


def _half_width(values: Float[Tensor, "N"]) -> float:
    """Half the 95% interval of the mean."""
    return Z_95 * values.std().item() / len(values) ** 0.5 if len(values) > 1 else math.inf


def stratified_half_width(bits: Float[Tensor, "P N"], steps: Int[Tensor, "P N"]) -> float:
    """Half the 95% interval of the mean over items, from the residual of each after its steps' expected losses.

    The expected loss is the mean of the values at the step or, where steps have few values, of a run of neighbouring
    steps: about sqrt(P N) runs, each with several items. The interval holds whether steps are stratified over the
    passes of an item or drawn independently.
    """
    if bits.shape[1] < 2:
        return math.inf
    return Z_95 * math.sqrt(stratified_residuals(bits, steps).square().mean().item() / bits.shape[1])


def stratified_residuals(bits: Float[Tensor, "P N"], steps: Int[Tensor, "P N"]) -> Float[Tensor, "N"]:
    """The residual of each item after its steps' expected losses, from which `stratified_half_width` comes.

    >>> import torch
    >>> from ardm.likelihood import stratified_residuals
    >>> bits, steps = torch.tensor([[1.0, 3.0, 1.0, 3.0]]), torch.tensor([[0, 1, 0, 1]])
    >>> stratified_residuals(bits.repeat(1, 2), steps.repeat(1, 2)).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    num_passes, num_items = bits.shape
    _, stratum, counts = steps.flatten().unique(return_inverse=True, return_counts=True)
    if len(counts) * MIN_ITEMS_PER_STEP > num_items:
        num_runs = max(1, min(int(bits.numel() ** 0.5), num_items // 4))
        place = steps.flatten().argsort(stable=True).argsort()
        stratum = place * num_runs // bits.numel()
        counts = stratum.bincount()
    residual = bits.flatten() - _means(bits.flatten(), stratum)
    distinct = _distinct_items(stratum, counts, num_items)
    corrections = (distinct / (distinct - 1).clamp(min=1)).sqrt()[stratum]  # each mean was fitted to its items
    return (residual * corrections).view(num_passes, num_items).mean(0)


def _means(values: Float[Tensor, "V"], group: Int[Tensor, "V"]) -> Float[Tensor, "V"]:
    """For each value the mean of its group."""
    counts = group.bincount()
    sums = torch.zeros(len(counts), dtype=values.dtype, device=values.device).index_add_(0, group, values)
    return (sums / counts)[group]


def _distinct_items(stratum: Int[Tensor, "V"], counts: Int[Tensor, "C"], num_items: int) -> Float[Tensor, "C"]:
    """The number of items in each stratum; fewer where some of them have more values there than others."""
    item = torch.arange(len(stratum), device=stratum.device) % num_items
    _, pair, num_values = (stratum * num_items + item).unique(return_inverse=True, return_counts=True)
    return counts.square() / torch.zeros_like(counts).index_add_(0, stratum, num_values[pair])


def stratified_draws_half_width(
    bits: Float[Tensor, "P N"], steps: Int[Tensor, "P N"], num_stages: int, num_variables: int
) -> float:
    """Half the 95% interval of the mean over draws for these very items; steps are stratified over passes and items.

    The variance of a draw is half the mean square of the differences between an item's losses in neighbouring strata,
    after the losses that items have in common there. It also counts how the item's own expected loss changes between
    the strata, so that few passes give a wide interval rather than a narrow one.
    """
    if len(bits) < 2:
        return math.inf
    sequence = steps.argsort(dim=0, stable=True)
    steps, bits = steps.gather(0, sequence), bits.gather(0, sequence)
    common, run, share = _in_common(bits, steps, num_variables)
    removed = (run[1:] != run[:-1]) * (share[1:] + share[:-1])  # of the variance, as the means hold the losses too
    chosen = _comparable(steps, num_stages, num_variables)
    squares = (bits - common).diff(dim=0)[chosen].square()
    variance = squares.sum().item() / (2 - removed[chosen]).sum().item()
    return student_95(max(len(squares) * 2 / 3, 1.0)) * math.sqrt(variance / bits.numel())


def _in_common(
    bits: Float[Tensor, "P N"], steps: Int[Tensor, "P N"], num_variables: int
) -> tuple[Float[Tensor, "P N"], Int[Tensor, "P N"], Float[Tensor, "P N"]]:
    """The mean loss of a run of neighbouring steps of a stage, where items are centred; its number; a value's share.

    A single item has nothing in common with others, nor has a value that is the only one of a stage: mean and share
    are 0.
    """
    stage, place = steps.flatten() // num_variables, steps.flatten().argsort(stable=True).argsort()
    counts = stage.bincount()
    num_runs = (counts // MIN_ITEMS_PER_STEP).clamp(min=1)
    place_in_stage = place - (counts.cumsum(0) - counts)[stage]
    run = stage * len(stage) + place_in_stage * num_runs[stage] // counts[stage]
    run = run.unique(return_inverse=True)[1]
    size = run.bincount()[run]
    is_alone = (size < 2) | (steps.shape[1] < 2)
    common = _means((bits - bits.mean(0)).flatten(), run).masked_fill(is_alone, 0.0)
    share = (1 / size).masked_fill(is_alone, 0.0)
    return common.view_as(bits), run.view_as(steps), share.view_as(bits)


def _comparable(steps: Int[Tensor, "P N"], num_stages: int, num_variables: int) -> Bool[Tensor, "M N"]:
    """Which neighbours in an item's sequence of steps tell the variance of a draw.

    Losses jump between stages, and a little between steps. Where no stratum reaches over the boundaries of stages (of
    steps), no draw varies by the jump, and neighbours count only if they are in one stage (at one step), as long as
    there are enough of them.
    """
    for size in (1, num_variables):
        alike = (steps // size).diff(dim=0) == 0
        if len(steps) * size % (num_stages * num_variables) == 0 and int(alike.sum()) >= MIN_COMPARABLE:
            return alike
    return torch.ones_like(steps[1:], dtype=torch.bool)


STUDENT_95 = (math.inf, 12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624)
"""The 97.5% quantiles of Student's distribution with 0, 1, 2... degrees of freedom."""


def student_95(freedom: float | int) -> float:
    """The 97.5% quantile of Student's distribution with any number of degrees of freedom, of which 0 have no interval.

    It comes from a table, and beyond that from its expansion in 1/freedom (Abramowitz & Stegun 26.7.5). Between the
    rows of the table, its logarithm is interpolated in 1/freedom.

    >>> from ardm.likelihood import student_95
    >>> [round(student_95(freedom), 2) for freedom in (0, 1, 2.5, 7, 1000)]
    [inf, 12.71, 3.59, 2.36, 1.96]
    """
    if freedom < 1:
        return math.inf
    low = int(freedom)
    if freedom > len(STUDENT_95) - 1:
        return _student_expansion(freedom)
    if freedom == low:
        return STUDENT_95[low]
    share = (1 / low - 1 / freedom) / (1 / low - 1 / (low + 1))
    return STUDENT_95[low] ** (1 - share) * STUDENT_95[low + 1] ** share


def _student_expansion(n: float | int) -> float:
    z = Z_95
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return math.fsum(term / n**power for power, term in enumerate(terms))


@torch.no_grad()
def exact_bits(
    model: ARDM,
    x: Int[Tensor, "N D"],
    orders: Int[Tensor, "N S D"],
    schedule: Schedule,
    *,
    context: Context = None,
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
    return _score(model, x, context, orders, schedule, _members, batch_size, on_batch, team)


@torch.no_grad()
def variable_bits(
    model: ARDM,
    x: Int[Tensor, "N D"],
    orders: Int[Tensor, "N S D"],
    schedule: Schedule,
    *,
    context: Context = None,
    batch_size: int = 64,
    on_batch: OnBatch = lambda num_calls: None,
) -> Float[Tensor, "N D"]:
    """The share of each variable in `exact_bits`, over all stages; 0 for those that the schedule leaves out."""
    nats = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for item, weighted in _scored_rows(model, x, context, orders, schedule, _members, batch_size, on_batch):
        nats.index_add_(0, item, weighted)
    return nats / math.log(2)


@torch.no_grad()
def schedule_bits_bound(
    model: ARDM,
    x: Int[Tensor, "N D"],
    schedule: Schedule,
    generator: torch.Generator,
    *,
    context: Context = None,
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
    return _score(model, x, context, orders, schedule, _all_hidden, batch_size, on_batch, team)


def _members(rank: Tensor, start: Tensor, stop: Tensor) -> Tensor:
    return ((rank >= start) & (rank < stop)).double()


def _all_hidden(rank: Tensor, start: Tensor, stop: Tensor) -> Tensor:
    return (rank >= start) * ((stop - start).double() / (rank.shape[1] - start))


def _score(
    model: ARDM,
    x: Tensor,
    context: Context,
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
        own_context = None if context is None else context[own]
        scored = _scored_rows(model, x[own], own_context, orders[own], schedule, weigh, batch_size, on_batch)
        nats = torch.cat([weighted.sum(1) for _, weighted in scored])
        bits = (nats.view(len(own), schedule.num_calls).sum(1) / math.log(2)).tolist()
    shared = team.all_gather_in_order(list(zip(own, bits, strict=True)))
    return torch.tensor(shared, dtype=torch.float64, device=x.device)


def _scored_rows(
    model: ARDM,
    x: Tensor,
    context: Context,
    orders: Tensor,
    schedule: Schedule,
    weigh: Weigh,
    batch_size: int,
    on_batch: OnBatch,
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
        own = None if context is None else context[item]
        with evaluating(model):  # not around the yield, where the caller may train
            log_probs: Tensor = model(*corrupt(model.depth, x[item], stage, start, r, own))
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
    check_classes(x, num_classes)
