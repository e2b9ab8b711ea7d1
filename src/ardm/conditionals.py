"""Conditionals: bits, tables of probabilities and draws of some variables of an item, given others.

Notation (with that of `orders` and `depth`)
    B       the given variables; they come first in the order of every stage
    A       the target; it comes next. The rest, if any, follows
    P       number of particles
    island  one run of P particles, independent of all others

A one-stage model has these conditionals exactly. A model of several stages draws the coarse values of A before the
fine values of B are known, so that no chain follows p(x_A | x_B). Sequential Monte Carlo over the stages (a bootstrap
particle filter) does so in the limit. A particle holds values for all variables. In stage s = 0..S-1
    1. the particle's weight is w = p(x_B at level s+1 | the particle at level s), from the calls of B's groups;
    2. P particles are drawn from the old ones in proportion to their weights;
    3. the other variables are drawn at level s+1 from the model, in the calls of their groups.
The product over stages of the mean weight is an unbiased estimate of p(x_B), and the draws converge to x_U | x_B of
the unknown variables U as P grows. The error of a draw, and the variance of the estimate, fall as 1/P.

Particles are resampled in every stage, never "when the effective number falls below half": there are only S - 1
occasions, all known variables together weigh so much that the rule would nearly always apply, and systematic
resampling keeps each particle once, at no cost, where the weights are alike. All particles are alike in the first
stage, whose weight is thus the same for all and is only computed where p(x_B) itself is asked for.

With one order for each stage and one schedule, p(x_B) and p(x_A, x_B) belong to one distribution over items, that of
`exact_bits`: a group is cut where B or A ends, and the variables of a group are independent given all that came before.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from ardm.distributions import ChildDistribution, Children, LogisticMixture, invert_cdf
from ardm.likelihood import check_items, exact_bits, student_95
from ardm.model import ARDM, Context, evaluating
from ardm.orders import check_orders, given_first, ranks, revealed
from ardm.sample import Given, check_chain, refine, sample_chain
from ardm.schedule import Schedule, check_fits, full_schedule

PARTICLES = 32
"""Default number of particles of an island."""
REPETITIONS = 8
"""Default number of islands of an estimate; its interval comes from their spread."""
BATCH_SIZE = 64
"""Default number of particles that share a call; those of one island always do."""


@dataclass(frozen=True, kw_only=True)
class Conditional:
    """-log2 p(x_A | x_B) of each item, in bits, with half the width of its 95% interval: see `conditional_bits`.

    >>> import torch
    >>> from ardm.conditionals import Conditional
    >>> Conditional(bits=torch.tensor([3.0]), half_width=torch.tensor([0.5])).bits.exp2().tolist()
    [8.0]
    """

    bits: Float[Tensor, "N"]
    half_width: Float[Tensor, "N"]
    """0 where the bits are exact; infinite for an estimate from a single repetition."""


@dataclass(frozen=True, kw_only=True)
class ConditionalTable:
    """p(x_d = k | x_B) of each item, place d and class k, with half the width of its 95% interval.

    See `conditional_table`.

    >>> import torch
    >>> from ardm.conditionals import ConditionalTable
    >>> probs = torch.tensor([[[0.25, 0.75]]])
    >>> ConditionalTable(probs=probs, half_width=torch.zeros(1, 1, 2)).probs.argmax(-1).tolist()
    [[1]]
    """

    probs: Float[Tensor, "N M K"]
    half_width: Float[Tensor, "N M K"]
    """0 where the probabilities are exact; infinite for estimates from a single repetition."""


class Sharpening(TypedDict, total=False):
    """How draws are sharpened."""

    temperature: float
    top_p: float


@dataclass(frozen=True, kw_only=True)
class _Known:
    """Items of which the first variables in every order, as many in each item, are known; the others hold class 0."""

    x: Int[Tensor, "N D"]
    orders: Int[Tensor, "N S D"]
    count: int
    schedule: Schedule
    context: Context = None

    def at(self, rows: Int[Tensor, "B"]) -> "_Known":
        """Some of the items, perhaps repeatedly."""
        context = None if self.context is None else self.context[rows]
        return replace(self, x=self.x[rows], orders=self.orders[rows], context=context)

    def known_groups(self, stage: int) -> list[tuple[int, int]]:
        """The groups of known variables."""
        return [(start, stop) for start, stop in self.schedule.groups(stage) if stop <= self.count]

    def unknown_schedule(self) -> Schedule:
        """The groups of the other variables, as a schedule that begins after the known ones."""
        starts = (tuple(start for start in starts if start >= self.count) for starts in self.schedule.starts)
        return replace(self.schedule, starts=tuple(starts))


@dataclass(frozen=True, kw_only=True)
class _Weighted:
    """Particles of N items before the last stage's draws; the known variables are at level S-1 like all others."""

    values: Int[Tensor, "N P D"]
    log_weights: Float64[Tensor, "N P"]
    """log p(x_B | particle) of the last stage."""
    log_evidence: Float64[Tensor, "N"]
    """The logarithm of the product of the earlier stages' mean weights."""

    def log_p(self) -> Float64[Tensor, "N"]:
        """The logarithm of the estimate of p(x_B)."""
        return self.log_evidence + _log_mean_exp(self.log_weights)


# Conditional bits


@torch.no_grad()
def conditional_bits(
    model: ARDM,
    x: Int[Tensor, "N D"],
    target: Bool[Tensor, "..."],
    given: Bool[Tensor, "..."],
    order: Int[Tensor, "..."],
    *,
    schedule: Schedule | None = None,
    context: Context = None,
    particles: int = PARTICLES,
    repetitions: int = REPETITIONS,
    generator: torch.Generator | None = None,
    batch_size: int = BATCH_SIZE,
) -> Conditional:
    """-log2 p(x_A | x_B) of each item for A = target and B = given; with nothing given, the marginal of x_A.

    B is revealed first, then A, both in the order's sequence. Masks have shape (D,) or (N, D), with any number of
    variables in each row; the order (D,), (S, D) or (N, S, D). The schedule runs over whole items (by default with one
    variable per call), and its groups are cut where B and A end. Values outside A and B are ignored.

    Exact in a one-stage model. With several stages it is -log2 of the ratio of two estimates, of p(x_A, x_B) and
    p(x_B), each the mean over repetitions of independent particles, without bias; the logarithm's own bias is of the
    order of the squared half-width. Exact are p(x_A, x_B) where A and B are everything, and p(x_B) where B is nothing.
    The interval is Student's, from the spread of the repetitions. It cannot know of values that no particle found, and
    too few particles mostly make p(x_B), and with it the bits, come out too small, and the interval too narrow:
    where it is wider than about a bit, repeat with more particles until the result stays. Where no particle explains
    the given values, which may be impossible, both bits and half-width are infinite.
    The default generator has seed 0.

    >>> import ardm.build, ardm.presets, torch
    >>> model, d = ardm.build.build_ardm(ardm.presets.text8_small(), 4), torch.arange(250)
    >>> ardm.conditional_bits(model, torch.zeros(1, 250).long(), d == 7, d < 7, order=d).bits.round().tolist()
    [2.0]
    """
    target, given = _masks(model, x, target, "target"), _masks(model, x, given, "given")
    if (target & given).any() or not target.any(1).all():
        raise ValueError("the target must name at least one variable and none that is given; change the masks")
    orders = given_first(given_first(_orders(model, x, order), given | target), given)
    x, schedule = _conditioned(model, x, given | target, orders, schedule)
    islands = _islands(model, particles, repetitions, generator, batch_size)
    log_p = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    variance = torch.zeros_like(log_p)
    for rows, (first, last) in _rows_alike(given.sum(1), (given | target).sum(1)):
        joint = _Known(x=x, orders=orders, count=last, schedule=_cut(schedule, first, last), context=context).at(rows)
        log_p[rows], variance[rows] = _conditional_nats(islands, joint, first)
    half_width = torch.where(variance > 0, student_95(repetitions - 1) * variance.sqrt(), 0.0)
    return Conditional(bits=-log_p / math.log(2), half_width=half_width / math.log(2))


def _conditional_nats(islands: "_Islands", joint: _Known, num_given: int) -> tuple[Float64[Tensor, "N"], ...]:
    """log p(x_A | x_B) of items whose first variables are B and then A, with the variance of its estimate."""
    model, size = islands.filter.model, islands.batch_size
    if model.num_stages == 1:
        starts = tuple(start for start, _ in joint.known_groups(0) if start >= num_given)
        schedule = Schedule(starts=(starts,), num_steps=joint.count)
        bits = exact_bits(model, joint.x, joint.orders, schedule, context=joint.context, batch_size=size)
        return -bits * math.log(2), torch.zeros_like(bits)
    if joint.count == model.num_variables:
        bits = exact_bits(model, joint.x, joint.orders, joint.schedule, context=joint.context, batch_size=size)
        log_p = -bits * math.log(2)
        variance = torch.zeros_like(log_p)
    else:
        log_p, variance = islands.log_p(joint)
    if num_given > 0:
        log_given, given_variance = islands.log_p(replace(joint, count=num_given))
        is_unexplained = log_given.isneginf()
        log_p = torch.where(is_unexplained, -math.inf, log_p - log_given)
        variance = torch.where(is_unexplained, math.inf, variance + given_variance)
    return log_p, variance


# Tables


@torch.no_grad()
def conditional_table(
    model: ARDM,
    x: Int[Tensor, "N D"],
    places: Int[Tensor, "..."],
    given: Bool[Tensor, "..."],
    order: Int[Tensor, "..."],
    *,
    schedule: Schedule | None = None,
    context: Context = None,
    particles: int = PARTICLES,
    repetitions: int = REPETITIONS,
    generator: torch.Generator | None = None,
    batch_size: int = BATCH_SIZE,
) -> ConditionalTable:
    """p(x_d = k | x_B) for M hidden places d of each item and all K classes k, where B = given.

    Each of the places, (M,) or (N, M) indices, is revealed right after B in a group of its own, so that its table is
    what `conditional_bits` gives with this place alone as the target. Masks, order and schedule are those of
    `conditional_bits`.

    Exact, with one call for all places, in a one-stage model. With several stages every place has particles of its own,
    so the cost grows with M. Each particle contributes the exact probabilities of its last stage (Rao-Blackwell),
    weighted as in the draws of `fill_particles`; repetitions count in proportion to their estimates of p(x_B). The
    table converges as particles grow, but a class whose coarse value no particle holds has probability 0: for a rare
    class, use `conditional_bits` with the place as the target. A ValueError says that no particle explains the given
    values of an item.

    >>> import ardm.build, ardm.presets, torch
    >>> model, d = ardm.build.build_ardm(ardm.presets.text8_small(), 4), torch.arange(250)
    >>> table = ardm.conditional_table(model, torch.zeros(1, 250).long(), torch.tensor([7, 9]), d < 7, order=d)
    >>> table.probs.shape, table.probs[0, 0].round(decimals=3).tolist()  # untrained, so uniform
    (torch.Size([1, 2, 4]), [0.25, 0.25, 0.25, 0.25])
    """
    given, where = _masks(model, x, given, "given"), _places(model, x, places)
    num_places = where.shape[1]
    hidden = torch.zeros_like(given).scatter(1, where, True)
    if (hidden & given).any() or (hidden.sum(1) != num_places).any():
        raise ValueError("places must be hidden and all different; leave out those that are given or repeated")
    orders = given_first(_orders(model, x, order), given)
    x, schedule = _conditioned(model, x, given, orders, schedule)
    islands = _islands(model, particles, repetitions, generator, batch_size)
    probs = torch.zeros(*where.shape, model.num_classes, dtype=torch.float64, device=x.device)
    half_width = torch.zeros_like(probs)
    for rows, (count,) in _rows_alike(given.sum(1)):
        known = _Known(x=x, orders=orders, count=count, schedule=_cut(schedule, count, count + 1), context=context)
        probs[rows], half_width[rows] = _tables(islands, known.at(rows), where[rows])
    return ConditionalTable(probs=probs, half_width=half_width)


def _tables(islands: "_Islands", known: _Known, where: Int[Tensor, "N M"]) -> tuple[Float64[Tensor, "N M K"], ...]:
    """The tables of the places with their half-widths; with several stages, each place comes first in its own order."""
    if islands.filter.model.num_stages == 1:
        return islands.table(known, where)
    (num_items, num_places), num_variables = where.shape, known.x.shape[1]
    each = known.at(torch.arange(num_items, device=where.device).repeat_interleave(num_places))
    place = where.reshape(-1, 1)
    variables = torch.arange(num_variables, device=place.device)
    is_known = revealed(ranks(each.orders[:, 0]), known.count)
    orders = given_first(given_first(each.orders, is_known | (variables == place)), is_known)
    tables = islands.table(replace(each, orders=orders), place)
    probs, half_width = (table.view(num_items, num_places, -1) for table in tables)
    return probs, half_width


def _class_probs(children: ChildDistribution, num_classes: int) -> Float64[Tensor, "B M K"]:
    """The probabilities of all classes at the last stage."""
    if isinstance(children, Children):
        probs = children.log_probs.double().exp()
        zeros = probs.new_zeros(*probs.shape[:-1], num_classes)
        return zeros.scatter_add(-1, children.values.clamp(max=num_classes - 1), probs)  # none beyond the last class
    assert isinstance(children, LogisticMixture)
    shape, device = children.means.shape[:-1], children.means.device
    log_probs = [children.log_prob(torch.full(shape, k, device=device)) for k in range(num_classes)]
    return torch.stack(log_probs, -1).double().exp()


# Draws


@torch.no_grad()
def fill_particles(
    model: ARDM,
    orders: Int[Tensor, "B S D"],
    schedule: Schedule,
    generator: torch.Generator,
    *,
    given: Given,
    context: Context = None,
    particles: int = PARTICLES,
    temperature: float = 1.0,
    top_p: float = 1.0,
    on_call: Callable[[], None] = lambda: None,
) -> Int[Tensor, "B D"]:
    """Items with the given variables and the others drawn from p(x_U | x_B), independent of each other.

    Each item has its own particles, one of which, chosen by weight, goes through the last stage. Exact in a one-stage
    model, whatever the number of particles. With several stages the draws converge to the conditional as particles
    grow; a single particle is the approximation of `sample_chain`, draw for draw.

    Given variables must come first in every order (see `given_first`). The schedule runs over whole items: the groups
    of given variables weigh the particles, in all stages but the first, and those of the others draw. Weights are the
    model's own; `temperature` and `top_p` sharpen the draws alone. `on_call` is called after each call that draws.

    >>> import ardm.build, ardm.presets, torch
    >>> model, orders = ardm.build.build_ardm(ardm.presets.text8_small(), 4), torch.arange(250).view(1, 1, -1)
    >>> given = ardm.Given(values=torch.ones(1, 250).long(), mask=torch.arange(250).view(1, -1) < 240)
    >>> schedule = ardm.uniform_schedule(250, 25)
    >>> ardm.fill_particles(model, orders, schedule, torch.Generator(), given=given).shape
    torch.Size([1, 250])
    """
    known = replace(_given_items(model, orders, schedule, given, particles), context=context)
    sharpening: Sharpening = {"temperature": temperature, "top_p": top_p}
    if particles == 1 or model.num_stages == 1:
        values = given.values
        kwargs: Any = {"given": given, "context": context, **sharpening}
        for step in sample_chain(model, orders, known.unknown_schedule(), generator, **kwargs):
            values = step.values
            on_call()
        return values
    filter_ = _Filter(model=model, particles=particles, generator=generator, sharpening=sharpening, on_call=on_call)
    weighted = filter_.weighted(known, weighs_first=False)
    chosen = _resample(weighted.values, weighted.log_weights, 1, generator)
    return filter_.draw(known, chosen, model.num_stages - 1)[:, 0]


def _given_items(model: ARDM, orders: Tensor, schedule: Schedule, given: Given, particles: int) -> _Known:
    """The items to fill, checked."""
    _check_at_least(1, particles=particles)
    _check_whole(model, schedule)
    count = int(given.mask[:1].sum())
    if count == model.num_variables:
        raise ValueError("every variable is given, so that none is left to draw; hide some")
    x = torch.where(given.mask, given.values, 0)
    known = _Known(x=x, orders=orders, count=count, schedule=_cut(schedule, count))
    check_chain(model, orders, known.unknown_schedule(), given)
    return known


# Particles


@dataclass(frozen=True, kw_only=True)
class _Filter:
    """A bootstrap particle filter over the stages of a model."""

    model: ARDM
    particles: int
    generator: torch.Generator
    sharpening: Sharpening = field(default_factory=Sharpening)
    on_call: Callable[[], None] = lambda: None
    """Called after each call that draws."""

    def weighted(self, known: _Known, *, weighs_first: bool) -> _Weighted:
        """The particles of each item with the weights of the last stage.

        The first stage, where all particles of an item are still one, is weighed only if p(x_B) is asked for.
        """
        values = torch.full_like(known.x, self.model.depth.absorbing_value)[:, None]  # (N, 1, D)
        log_evidence = known.x.new_zeros(len(known.x), dtype=torch.float64)
        for stage in range(self.model.num_stages):
            weighs = weighs_first or stage > 0
            log_weights = self._weigh(known, values, stage) if weighs else log_evidence.new_zeros(len(known.x), 1)
            if stage == self.model.num_stages - 1:
                break
            log_evidence = log_evidence + _log_mean_exp(log_weights)
            values = self.draw(known, _resample(values, log_weights, self.particles, self.generator), stage)
        return _Weighted(values=values, log_weights=log_weights, log_evidence=log_evidence)

    def _weigh(self, known: _Known, values: Int[Tensor, "N P D"], stage: int) -> Float64[Tensor, "N P"]:
        """log p(x_B at level stage+1 | particle at level stage)."""
        rows, each = self._flat(known, values)
        order, child = each.orders[:, stage], self.model.depth.at_level(each.x, stage + 1)
        rank, nats = ranks(order), rows.new_zeros(len(rows), dtype=torch.float64)
        for start, stop in known.known_groups(stage):
            mask, where = revealed(rank, start), order[:, start:stop]
            stages, steps = (torch.full_like(rows[:, 0], number) for number in (stage, start))
            shown = torch.where(mask, child, rows)
            with evaluating(self.model):
                outputs = self.model.outputs(shown, mask, stages, steps, where, each.context)
            parts = (outputs, rows.gather(1, where), child.gather(1, where), stages)
            nats += self.model.parametrization.log_prob(*parts).double().sum(1)
        return nats.view(values.shape[:2])

    def draw(self, known: _Known, values: Int[Tensor, "N P D"], stage: int) -> Int[Tensor, "N P D"]:
        """The particles at level stage+1: known variables as they are, the others drawn."""
        rows, each = self._flat(known, values)
        order = each.orders[:, stage]
        rows = self._with_known(each, rows, stage)
        groups = known.unknown_schedule().groups(stage)
        how: Any = {"context": each.context, **self.sharpening}
        for step in refine(self.model, rows, order, stage, groups, self.generator, **how):
            rows = step.values
            self.on_call()
        return rows.view_as(values)

    def last_probs(self, known: _Known, values: Int[Tensor, "N P D"], where: Int[Tensor, "N M"]) -> Tensor:
        """The probabilities (N, P, M, K) of the classes of hidden places, right after the known variables."""
        rows, each = self._flat(known, values)
        last = self.model.num_stages - 1
        mask = revealed(ranks(each.orders[:, last]), known.count)
        places = where.repeat_interleave(values.shape[1], 0)
        shown = self._with_known(each, rows, last)
        with evaluating(self.model):
            children = self.model.predict(shown, mask, last, known.count, places, each.context)
        return _class_probs(children, self.model.num_classes).unflatten(0, values.shape[:2])

    def _with_known(self, known: _Known, rows: Int[Tensor, "R D"], stage: int) -> Int[Tensor, "R D"]:
        is_known = revealed(ranks(known.orders[:, stage]), known.count)
        return torch.where(is_known, self.model.depth.at_level(known.x, stage + 1), rows)

    def _flat(self, known: _Known, values: Int[Tensor, "N P D"]) -> tuple[Int[Tensor, "R D"], _Known]:
        """A row for each particle, and the item of each row."""
        items = torch.arange(len(values), device=values.device).repeat_interleave(values.shape[1])
        return values.flatten(0, 1), known.at(items)


def _resample(
    values: Int[Tensor, "N P D"], log_weights: Float64[Tensor, "N P"], count: int, generator: torch.Generator
) -> Int[Tensor, "N Q D"]:
    """Q particles of each item, each old one copied in proportion to its weight, rounded up or down (systematic)."""
    offset = torch.rand(len(values), 1, generator=generator, device=values.device, dtype=torch.float64)
    points = (torch.arange(count, device=values.device) + offset) / count
    source = invert_cdf(_even_if_zero(log_weights)[:, None].expand(-1, count, -1), points)
    return values.gather(1, source[..., None].expand(-1, -1, values.shape[-1]))


def _even_if_zero(log_weights: Float64[Tensor, "N P"]) -> Float64[Tensor, "N P"]:
    """The weights, or equal ones for an item whose particles all have weight 0."""
    return log_weights.masked_fill(log_weights.isneginf().all(1, keepdim=True), 0.0)


def _log_mean_exp(logs: Float64[Tensor, "N P"]) -> Float64[Tensor, "N"]:
    return logs.logsumexp(1) - math.log(logs.shape[1])


# Islands


@dataclass(frozen=True, kw_only=True)
class _Islands:
    """Repetitions of a filter, and what their spread says."""

    filter: _Filter
    repetitions: int
    batch_size: int

    def log_p(self, known: _Known) -> tuple[Float64[Tensor, "N"], Float64[Tensor, "N"]]:
        """The logarithm of the mean estimate of p(x_B), and the variance of this logarithm."""
        parts = [self.filter.weighted(known.at(rows), weighs_first=True).log_p() for rows in self._rows(known)]
        logs = torch.cat(parts).view(-1, self.repetitions)
        mean = _log_mean_exp(logs)
        if self.repetitions == 1:
            return mean, torch.full_like(mean, math.inf)
        variance = (logs - mean[:, None]).exp().var(1) / self.repetitions
        return mean, torch.where(mean.isneginf(), math.inf, variance)  # the logarithm of 0 is no estimate

    def table(
        self, known: _Known, where: Int[Tensor, "N M"]
    ) -> tuple[Float64[Tensor, "N M K"], Float64[Tensor, "N M K"]]:
        """The mean table of the places, islands counting by their estimates of p(x_B), with its half-width."""
        probs, logs = [], []
        for rows in self._rows(known):
            weighted = self.filter.weighted(known.at(rows), weighs_first=False)
            each = self.filter.last_probs(known.at(rows), weighted.values, where[rows])
            probs.append((_even_if_zero(weighted.log_weights).softmax(1)[..., None, None] * each).sum(1))
            logs.append(weighted.log_p())
        tables = torch.cat(probs).unflatten(0, (-1, self.repetitions))
        log_p = torch.cat(logs).view(-1, self.repetitions)
        if log_p.isneginf().all(1).any():
            raise ValueError(
                f"in all {self.filter.particles} x {self.repetitions} particles the given values have probability 0; "
                "ask for more particles, or give values that are possible under the model"
            )
        shares = log_p.softmax(1)[..., None, None]
        mean = (shares * tables).sum(1)
        if self.filter.model.num_stages == 1:
            return mean, torch.zeros_like(mean)
        freedom = self.repetitions - 1
        variance = (shares * (tables - mean[:, None])).square().sum(1) * self.repetitions / max(freedom, 1)
        return mean, variance.sqrt() * student_95(freedom) if freedom else torch.full_like(mean, math.inf)

    def _rows(self, known: _Known) -> Sequence[Int[Tensor, "B"]]:
        """The rows of items, each repeated, in batches."""
        items = torch.arange(len(known.x), device=known.x.device).repeat_interleave(self.repetitions)
        return items.split(max(1, self.batch_size // self.filter.particles))


# Arguments


def _islands(
    model: ARDM, particles: int, repetitions: int, generator: torch.Generator | None, batch_size: int
) -> _Islands:
    """The islands of an estimate; a model of one stage needs a single particle, as nothing is random."""
    _check_at_least(1, particles=particles, repetitions=repetitions, batch_size=batch_size)
    if model.num_stages == 1:
        particles, repetitions = 1, 1
    generator = generator or torch.Generator(model.depth.levels.device).manual_seed(0)
    filter_ = _Filter(model=model, particles=particles, generator=generator)
    return _Islands(filter=filter_, repetitions=repetitions, batch_size=batch_size)


def _conditioned(
    model: ARDM, x: Tensor, known: Tensor, orders: Tensor, schedule: Schedule | None
) -> tuple[Int[Tensor, "N D"], Schedule]:
    """Checked items with class 0 in unknown variables, and the schedule."""
    x = torch.where(known, x, 0)
    check_items(x, model.num_variables, model.num_classes)
    check_orders(orders, (len(x), model.num_stages, model.num_variables))
    schedule = schedule or full_schedule(model.num_variables, num_stages=model.num_stages)
    _check_whole(model, schedule)
    return x, schedule


def _masks(model: ARDM, x: Tensor, mask: Tensor, name: str) -> Bool[Tensor, "N D"]:
    """A mask for each item."""
    shape = (len(x), model.num_variables)
    if mask.dtype != torch.bool or tuple(mask.shape) not in (shape, shape[1:]):
        raise ValueError(
            f"{name} must be a mask of booleans of shape {shape[1:]} or {shape}, got {mask.dtype} {tuple(mask.shape)}"
        )
    return mask.expand(shape)


def _orders(model: ARDM, x: Tensor, order: Tensor) -> Int[Tensor, "N S D"]:
    """An order for each item and stage."""
    shape = (len(x), model.num_stages, model.num_variables)
    if tuple(order.shape) not in (shape, shape[1:], shape[2:]):
        raise ValueError(f"the order must have shape {shape[2:]}, {shape[1:]} or {shape}, got {tuple(order.shape)}")
    return order.expand(shape)


def _places(model: ARDM, x: Tensor, places: Tensor) -> Int[Tensor, "N M"]:
    """Places for each item."""
    if places.ndim not in (1, 2) or not places.numel() or (places.ndim == 2 and len(places) != len(x)):
        raise ValueError(f"places must have shape (M,) or ({len(x)}, M) with M at least 1, got {tuple(places.shape)}")
    if int(places.min()) < 0 or int(places.max()) >= model.num_variables:
        limits = f"{int(places.min())}..{int(places.max())}"
        raise ValueError(f"places must lie in 0..{model.num_variables - 1}, got {limits}; count from 0")
    return places.expand(len(x), -1)


def _check_whole(model: ARDM, schedule: Schedule) -> None:
    check_fits(schedule, model.num_stages, model.num_variables)
    if (schedule.first_step, schedule.num_steps) != (0, model.num_variables):
        came = f"{schedule.first_step} to {schedule.num_steps}"
        raise ValueError(f"the schedule must run from step 0 to {model.num_variables}, over whole items; got {came}")


def _check_at_least(least: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < least:
            raise ValueError(f"{name} must be at least {least}, got {number}")


def _rows_alike(*counts: Int[Tensor, "N"]) -> Iterator[tuple[Int[Tensor, "R"], list[int]]]:
    """The rows that have the same counts, with these counts."""
    kinds, kind = torch.stack(counts, 1).unique(dim=0, return_inverse=True)
    for number, numbers in enumerate(kinds.tolist()):
        yield (kind == number).nonzero()[:, 0], numbers


def _cut(schedule: Schedule, *steps: int) -> Schedule:
    """The schedule with groups that also begin at these steps."""
    cuts = {step for step in steps if 0 < step < schedule.num_steps}
    return replace(schedule, starts=tuple(tuple(sorted({*starts, *cuts})) for starts in schedule.starts))
