"""`Model`: a trained ARDM, or one around a network of your own, with a method for every command.

| command | method | function below it |
|---|---|---|
| `ardm eval` | `model.score(items)` | `ardm.bound`, `ardm.exact_bits`, `ardm.schedule_bits_bound` |
| `ardm sample` | `model.sample(n)`, `model.chain(n)` | `ardm.sample_chain` |
| `ardm infill` | `model.infill(item, mask)` | `ardm.sample_chain`, `ardm.fill_particles` |
| `ardm plan` | `model.plan(calls)` | `ardm.plan` |
| `ardm compress` | `model.compress(x)` | `ardm.compress` |
| `ardm decompress` | `model.decompress(data)` | `ardm.decompress` |
| | `model.conditional(items, target, given)` | `ardm.conditional_bits` |
| | `model.table(item, mask)` | `ardm.conditional_table` |
| `ardm train` | `model.loss(x)`, `ardm.fit(model, data)` | `ardm.objective.sample_step_loss` |

Items go in and come out in the medium's own types, as `ardm.library.items` describes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ardm.checkpoint import TrainedModel
from ardm.codec.format.options import OrderChoice
from ardm.compression.api import compress, decompress
from ardm.conditionals import PARTICLES, REPETITIONS, Conditional, conditional_bits, conditional_table
from ardm.errors import DataError, UsageError
from ardm.library.context import check_context, fresh_generator
from ardm.library.items import AnyShape, Items, Rows, TokenItems, as_array, as_shape
from ardm.library.limited import LimitedClasses
from ardm.library.scores import Score, ScoreHow, given_of, score_rows
from ardm.likelihood import bound
from ardm.media import medium_of
from ardm.model import ARDM, Context
from ardm.names import MEASURED, ORDER_NAMES, ProfileSource, ScheduleKind, Shape
from ardm.objective import StepLoss, sample_step_loss
from ardm.planner import Plan, plan
from ardm.profile import Profile
from ardm.runtime.device import Runtime
from ardm.sample import BATCH_SIZE
from ardm.tasks.draw import Drawn, DrawOptions, draw, states_to_show
from ardm.tasks.fill import fill
from ardm.tasks.plan import default_order, make_orders, make_schedule, planning_losses, profile_warning
from ardm.tasks.score import passes_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ardm.library.networks import OwnConfig

STATES_TO_SHOW = 5
"""States of a chain of many calls by default, for a network of your own."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelPlan(Plan):
    """A plan with the losses that it was made from.

    >>> import ardm
    >>> plan = ardm.load("text").plan(calls=20)
    >>> plan.schedule.num_calls, round(plan.lost_share, 2)
    (20, 0.05)
    """

    losses: Float[np.ndarray, "S D"] = field(repr=False)
    warning: str = ""
    """A line about losses that were not measured with the model's own weights; empty if they were."""

    def plot(self, path: str | Path | None = None) -> "Figure":
        """The paper's Figure 3: losses by step, with a call for each step and as planned; also written to `path`.

        The warning is written above.
        """
        from ardm.library.plots import draw_plan, plan_figure

        if path is not None:
            draw_plan(self.losses, self, Path(path), self.warning)
        return plan_figure(self.losses, self, self.warning)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingRows:
    """A batch to train on."""

    x: Int[Tensor, "B D"]
    missing: Bool[Tensor, "B D"] | None = None
    """Variables whose values are unknown."""
    given: Bool[Tensor, "B D"] | None = None
    """Variables that are revealed from the start, and not predicted."""
    context: Context = None

    def losses(self, ardm: ARDM, generator: torch.Generator) -> StepLoss:
        """The losses of one step for each item; a part of an item has the step of a whole one by its share revealed."""
        options: Any = {"context": self.context, "missing": self.missing, "given": self.given}
        losses = sample_step_loss(ardm, self.x, generator, **options)
        if self.missing is None and self.given is None:
            return losses
        missing, given = (0 if part is None else part.sum(1) for part in (self.missing, self.given))
        size = self.x.shape[1]
        return replace(losses, t=(losses.t - given) * size // (size - missing - given))

    @property
    def share_scored(self) -> float:
        """The share of variables that are predicted."""
        unscored = sum(int(part.sum()) for part in (self.missing, self.given) if part is not None)
        return 1 - unscored / self.x.numel()


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Items while they are drawn: their states after some of the calls.

    >>> import ardm
    >>> ardm.load("text").chain(calls=4).calls
    [1, 2, 3, 4]
    """

    calls: Sequence[int]
    """The number of calls made when each state was reached."""
    states: Sequence[Any]
    """The items in each state, hidden variables shown as such; the last are the items themselves."""


class Model(nn.Module):
    """A model with a method for every command; `ardm.load`, `ardm.order_agnostic` and `ardm.upscale` return one.

    >>> import ardm
    >>> model = ardm.load("text")
    >>> model
    Model of text: 250 variables, 27 classes, 1 stage, exact
    """

    ardm: ARDM
    """The ARDM itself, for the functions of the library."""

    def __init__(
        self,
        ardm: ARDM,
        items: Items,
        *,
        profile: Profile | None = None,
        profile_source: ProfileSource = MEASURED,
        trained: TrainedModel | None = None,
        own: "OwnConfig | None" = None,
    ) -> None:
        super().__init__()
        self.ardm, self.items, self.trained, self.own = ardm, items, trained, own
        self.profile = profile or Profile.empty(ardm.num_stages, ardm.num_variables)
        self.profile_source: ProfileSource = profile_source

    def __repr__(self) -> str:
        model, stages = self.ardm, self.ardm.num_stages
        number = sum(p.numel() for p in self.parameters())
        facts = [
            f"{model.num_variables} variables",
            f"{model.num_classes} classes",
            f"{stages} stage{'s' * (stages > 1)}",
            "exact" if self.is_exact else f"{number:,} parameters",
        ]
        return f"Model of {self.items.title}: {', '.join(facts)}"

    @property
    def network(self) -> nn.Module:
        """The network itself."""
        network = self.ardm.network
        return network.network if isinstance(network, LimitedClasses) else network

    @property
    def is_exact(self) -> bool:
        """Whether the network computes in integers, so that it can compress."""
        return self.trained is not None and self.trained.exact is not None

    @property
    def shape(self) -> Shape:
        """The shape of an item."""
        return self.ardm.shape

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.ardm.depth.levels.device

    @property
    def runtime(self) -> Runtime:
        """The device and precision of the verbs: those of the commands for trained models, float32 for others."""
        return Runtime(device=self.device, full_precision=self.trained is None)

    def for_shape(self, shape: Shape) -> "Model":
        """This model with its weights for items of another shape, if the network takes it."""
        if shape == self.shape:
            return self
        if len(shape) != len(self.shape) or shape[2:] != self.shape[2:]:
            raise UsageError(f"expected a shape like {self.shape}, got {shape}")
        return self._around(ARDM(self.ardm.network, self.ardm.parametrization, shape))

    def _around(self, ardm: ARDM) -> "Model":
        """This model around an ARDM of another shape."""
        facts: Any = {"profile": self.profile, "profile_source": self.profile_source}
        return Model(ardm, self.items, trained=self.trained, own=self.own, **facts)

    # Training

    def loss(
        self,
        x: Any,
        *,
        context: Any = None,
        cross_entropy_weight: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, ""]:
        """The training loss of a batch, one step of the bound in bits per dimension (Alg. 2 and 4).

        Values of NaN in a batch of floats are missing. `cross_entropy_weight` adds the authors' CE term, which has less
        variance. Random draws come from the generator, by default one seeded by PyTorch's own.
        """
        losses = self.batch(x, context).losses(self.ardm, generator or fresh_generator(self.device))
        bits, cross_entropy = losses.bits_per_dim.mean(), losses.cross_entropy.mean()
        return bits + cross_entropy_weight * cross_entropy if cross_entropy_weight else bits

    def batch(self, x: Any, context: Any = None) -> "TrainingRows":
        """A batch to train on, as rows of classes on the device."""
        is_checked_by_device = isinstance(self.items, TokenItems) and isinstance(x, Tensor) and x.is_cuda
        if is_checked_by_device and not x.is_floating_point() and x.shape[1:] == self.shape:
            # a look at the values would wait for the device
            return TrainingRows(x=x.flatten(1).long(), context=self._context(context, len(x)))
        rows, *others = self.items.rows(x)
        if others or rows.shape != self.shape or given_of(rows).any():
            raise DataError(f"a batch to train on holds items of shape {self.shape}; cut larger ones to it")
        missing = None if rows.scored is None else ~rows.scored.to(self.device)
        return TrainingRows(x=rows.x.to(self.device), missing=missing, context=self._context(context, len(rows.x)))

    def prepared(self, data: Any, valid: Any) -> tuple["Model", Any, Any]:
        """The model that `ardm.fit` trains, and its data in arrays: by default this model and the data as they came."""
        return self, data, valid

    def measured_profile(self, batches: Sequence[TrainingRows], wanted: int, seed: int) -> Profile | None:
        """The loss profile from about this many observations of items without missing values; None without any."""
        known = [None if rows.missing is None else ~rows.missing.any(1) for rows in batches]
        x = torch.cat([rows.x if own is None else rows.x[own] for rows, own in zip(batches, known, strict=True)])
        if not len(x):
            return None
        contexts = [
            rows.context if own is None else rows.context[own]
            for rows, own in zip(batches, known, strict=True)
            if rows.context is not None
        ]
        generator, context = torch.Generator(self.device).manual_seed(seed), torch.cat(contexts) if contexts else None
        return bound(self.ardm, x, generator, context=context, num_passes=math.ceil(wanted / len(x))).profile

    # The commands

    def score(
        self,
        items: Any,
        order: str = "random",
        calls: int | None = None,
        *,
        passes: int | None = None,
        schedule: ScheduleKind = "planned",
        context: Any = None,
        seed: int = 0,
        batch_size: int = 64,
        on_batch: Callable[[int], None] | None = None,
    ) -> Score:
        """The bits of each item, and their mean with its 95% interval.

        In random orders this is a bound, by default estimated from single steps in enough passes for the network to see
        at least 128 rows. With `calls`, whole schedules in random orders are scored; in any other order the bits are
        exact, by default with one variable per call. Texts shorter than an item are scored as marginals, longer ones in
        windows that see each other, and values of NaN in a table are left out. `on_batch` is called with the number of
        rows after each batch, a row being one item in one pass or in one call.

        >>> import ardm
        >>> model = ardm.load("text")
        >>> score = model.score("the cat sat on the mat", order="raster", calls=5)
        >>> score.is_exact, score.num_variables.tolist()
        (True, [22])
        """
        self._check_numbers(calls, passes=passes, batch_size=batch_size)
        _check_order(order)
        scored = self.items.rows(items)
        count = sum(len(rows.x) for rows in scored)
        how = ScoreHow(
            order=order,
            calls=calls,
            passes=passes or passes_for(count),
            schedule=schedule,
            seed=seed,
            batch_size=batch_size,
            **({} if on_batch is None else {"on_batch": on_batch}),
        )
        checked = self._context(context, 1 + max(int(rows.owner.max()) for rows in scored))
        return score_rows([(self.for_shape(rows.shape), rows) for rows in scored], how, checked, self.items.unit)

    def measure(self, items: Any, **options: Any) -> Score:
        """The bound of items; the loss profile measured on the way becomes the model's own, to plan calls from.

        >>> import ardm
        >>> model = ardm.load("text")
        >>> _ = model.measure(["the cat sat on the mat and looked at the dog"], passes=50)
        >>> model.plan(calls=20).schedule.num_calls
        20
        """
        score = self.score(items, **options)
        if score.profile is None:
            raise UsageError("a profile is measured by the bound: leave out order= and calls=")
        self.profile, self.profile_source = score.profile, MEASURED
        return score

    def sample(
        self,
        n: int = 1,
        calls: int | None = None,
        order: str | None = None,
        *,
        schedule: ScheduleKind = "planned",
        temperature: float = 1.0,
        top_p: float = 1.0,
        context: Any = None,
        seed: int = 0,
        shape: AnyShape | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> Any:
        """New items, by default with one variable per call, in the model's own order if it is exact.

        >>> import ardm
        >>> [len(text) for text in ardm.load("text").sample(2, calls=5)]
        [250, 250]
        """
        self._check_numbers(calls, n=n, batch_size=batch_size)
        options = DrawOptions(
            num_items=n,
            order=_check_order(order) or self._own_order(),
            temperature=temperature,
            top_p=top_p,
            batch_size=batch_size,
            seed=seed,
        )
        return self._last(self._draw(options, calls, schedule, shape, context))

    def chain(
        self,
        n: int = 1,
        calls: int | None = None,
        order: str | None = None,
        *,
        states: int | None = None,
        schedule: ScheduleKind = "planned",
        temperature: float = 1.0,
        top_p: float = 1.0,
        context: Any = None,
        seed: int = 0,
        shape: AnyShape | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> Chain:
        """New items with the states that led to them: after the first call, the last, and some between.

        By default these are the states that `ardm sample --chain` shows: all of up to eight calls, else a few.

        >>> import ardm
        >>> chain = ardm.load("text").chain(calls=10, states=3)
        >>> [text[0].count("_") for text in chain.states][-1]
        0
        """
        self._check_numbers(calls, n=n, states=states, batch_size=batch_size)
        model = self.for_shape(self.shape if shape is None else as_shape(shape))
        chosen = make_schedule(model, calls, schedule)
        usual = STATES_TO_SHOW if self.trained is None else medium_of(self.trained).num_states
        options = DrawOptions(
            num_items=n,
            order=_check_order(order) or self._own_order(),
            temperature=temperature,
            top_p=top_p,
            batch_size=batch_size,
            seed=seed,
            num_states=states or states_to_show(chosen.num_calls, usual),
        )
        drawn = draw(model, chosen, options, context=self._context(context, n))
        shown = [self.items.shown(state, drawn.shape) for state in drawn.states]
        return Chain(calls=list(drawn.calls), states=shown)

    def infill(
        self,
        item: Any,
        mask: Any = None,
        n: int = 1,
        calls: int | None = None,
        order: str | None = None,
        *,
        schedule: ScheduleKind = "planned",
        temperature: float = 1.0,
        top_p: float = 1.0,
        particles: int = 1,
        context: Any = None,
        seed: int = 0,
        batch_size: int = BATCH_SIZE,
    ) -> Any:
        """An item with its gaps filled, `n` times.

        A one-stage model draws from p(gaps | the rest); an upscale model does so in the limit of many `particles`.

        The mask is True where to fill; it may also be a list of indices or of ranges (start, stop), for a text the
        character that marks its gaps (by default _), and for an image a box (left, top, right, bottom).

        >>> import ardm
        >>> ardm.load("text").infill("the c_t sat", calls=1)[0][:5]
        'the c'
        """
        self._check_numbers(calls, n=n, batch_size=batch_size, particles=particles)
        if order == "strands":
            raise UsageError("strands order whole items only; choose another order to fill gaps")
        gaps = self.items.gaps(item, mask)
        options = DrawOptions(
            num_items=n,
            order=_check_order(order) or self._own_order(for_gaps=True),
            temperature=temperature,
            top_p=top_p,
            batch_size=batch_size,
            seed=seed,
            particles=particles,
        )
        model = self.for_shape(gaps.shape)
        checked = self._context(context, n)
        chosen = make_schedule(model, calls, schedule, *gaps.steps(self.ardm.num_stages))
        return self._last(fill(model, gaps, chosen, options, checked), gaps.length)

    def conditional(
        self,
        items: Any,
        target: Any,
        given: Any = None,
        calls: int | None = None,
        order: str = "raster",
        *,
        particles: int = PARTICLES,
        repetitions: int = REPETITIONS,
        context: Any = None,
        seed: int = 0,
    ) -> Conditional:
        """-log2 p(target | given) of each item, in bits: exact in a one-stage model, else with an interval.

        Target and given are masks, indices, slices or lists of ranges (start, stop) of variables; boolean arrays may
        have a row for each item. By default everything else is given; `given=[]` asks for the marginal.

        >>> import ardm
        >>> model = ardm.load("text")
        >>> sat, sad = model.conditional(["the cat sat on", "the cat sad on"], target=[10]).bits.tolist()
        >>> sat < sad
        True
        """
        self._check_numbers(calls, particles=particles, repetitions=repetitions)
        rows, model = self._rows_of_one_shape(items)
        known = torch.ones_like(rows.x, dtype=torch.bool) if rows.scored is None else rows.scored
        wanted = self._masks(target, rows, "target") & known
        others = known & ~wanted if given is None else self._masks(given, rows, "given") & known
        generator = torch.Generator(self.device).manual_seed(seed)
        chosen = _check_order(order) or "raster"
        orders, schedule = make_orders(chosen, make_schedule(model, calls), len(rows.x), rows.shape, generator)
        with self.runtime.autocast():
            return conditional_bits(
                model.ardm,
                rows.x.to(self.device),
                wanted.to(self.device),
                others.to(self.device),
                orders,
                schedule=schedule,
                context=self._context(context, len(rows.x), rows),
                particles=particles,
                repetitions=repetitions,
                generator=generator,
            )

    def table(
        self,
        item: Any,
        mask: Any = None,
        calls: int | None = None,
        *,
        particles: int = PARTICLES,
        repetitions: int = REPETITIONS,
        context: Any = None,
        seed: int = 0,
    ) -> Float[np.ndarray, "M K"]:
        """The probabilities of all classes for each hidden place of an item, given what is not hidden.

        One call for a one-stage model; an estimate from particles for others. The mask is that of `infill`.

        >>> import ardm
        >>> model = ardm.load("text")
        >>> table = model.table("the c_t")
        >>> table.shape, model.items.alphabet.characters[table[0].argmax()]  # the city
        ((1, 27), 'i')
        """
        self._check_numbers(calls, particles=particles, repetitions=repetitions)
        gaps = self.items.gaps(item, mask)
        model = self.for_shape(gaps.shape)
        hidden = torch.from_numpy(np.flatnonzero(~gaps.known[: gaps.length]))
        values, known = (torch.from_numpy(array).to(self.device)[None] for array in (gaps.values, gaps.known))
        generator = torch.Generator(self.device).manual_seed(seed)
        orders, schedule = make_orders("raster", make_schedule(model, calls), 1, gaps.shape, generator)
        with self.runtime.autocast():
            found = conditional_table(
                model.ardm,
                values,
                hidden.to(self.device),
                known,
                orders,
                schedule=schedule,
                context=self._context(context, 1),
                particles=particles,
                repetitions=repetitions,
                generator=generator,
            )
        return found.probs[0].cpu().numpy()

    def _rows_of_one_shape(self, items: Any) -> tuple[Rows, "Model"]:
        """The rows of items that are alike, none of them in pieces, and the model for their shape."""
        rows, *others = self.items.rows(items)
        if others or (rows.given is not None and rows.given.any()):
            raise UsageError("give items of one shape, none longer than the model's own")
        return rows, self.for_shape(rows.shape)

    def _masks(self, which: Any, rows: Rows, name: str) -> Bool[Tensor, "N D"]:
        """The variables that a user names, for each row."""
        shapes = self.items.own_shapes(rows)
        array = None if isinstance(which, slice) else as_array(which)
        is_by_row = array is not None and array.dtype == bool and array.ndim == len(rows.shape) + 1
        if is_by_row and array is not None and len(array) != len(shapes):
            raise DataError(f"the {name} has rows for {len(array)} items, expected {len(shapes)}")
        masks = torch.zeros_like(rows.x, dtype=torch.bool)
        for row, shape in enumerate(shapes):
            own = array[row] if is_by_row and array is not None else which
            named = self.items.places(own, shape, name).ravel()
            masks[row, : len(named)] = torch.from_numpy(named.copy())
        return masks

    def plan(self, calls: int) -> ModelPlan:
        """The best schedule for a number of calls, from the model's loss profile, and what it costs.

        >>> import ardm
        >>> [round(ardm.load("text").plan(calls).bits / 250, 1) for calls in (10, 50)]
        [1.9, 1.8]
        """
        self._check_numbers(calls)
        losses = planning_losses(self)
        warning = profile_warning(self.profile_source)
        return ModelPlan(**vars(plan(losses, calls)), losses=losses, warning=warning)

    def compress(self, x: Any, **options: Any) -> bytes:
        """A compressed file of a text, bytes, an image or a sound; `ardm.compress` lists the options.

        >>> import ardm
        >>> model = ardm.load("text")
        >>> model.decompress(model.compress("the cat sat on the mat", calls=5))
        'the cat sat on the mat'
        """
        return compress(self._for_codec(), x, **options)

    def decompress(self, data: bytes, **options: Any) -> Any:
        """The value in a compressed file of this model; `ardm.decompress` lists the options."""
        return decompress(data, self._for_codec(), **options)

    def _for_codec(self) -> TrainedModel:
        if self.trained is None or self.trained.exact is None:
            raise UsageError(
                "only an exact model compresses: `ardm export RUN -o my.model` makes one, and ardm.load reads it"
            )
        return self.trained

    def _check_numbers(self, calls: int | None, **numbers: int | None) -> None:
        """Raise a UsageError for a number that is not positive, or for fewer calls than stages."""
        for name, number in {"calls": calls, **numbers}.items():
            if number is not None and not isinstance(number, int | np.integer):
                raise UsageError(f"{name} must be a whole number, got {number!r}")
            if number is not None and number < 1:
                raise UsageError(f"{name} must be positive, got {number}")
        if calls is not None and calls < self.ardm.num_stages:
            raise UsageError(f"calls must be at least {self.ardm.num_stages}, one for each stage; got {calls}")

    def _own_order(self, *, for_gaps: bool = False) -> str | OrderChoice:
        """The order of an exact model; random orders for others, and for gaps where its own needs whole items."""
        return default_order(self.trained, for_gaps=for_gaps)

    def _draw(
        self, options: DrawOptions, calls: int | None, kind: ScheduleKind, shape: AnyShape | None, context: Any
    ) -> Drawn:
        checked = self._context(context, options.num_items)
        model = self.for_shape(self.shape if shape is None else as_shape(shape))
        return draw(model, make_schedule(model, calls, kind), options, context=checked)

    def _context(self, context: Any, num_items: int, rows: Rows | None = None) -> Context:
        """The context of a number of items, checked; that of rows of different lengths is these lengths."""
        return check_context(self.network, context, num_items, self.device)

    def _last(self, drawn: Drawn, length: int | None = None) -> Any:
        return self.items.shown(drawn.samples, drawn.shape, length)


def _check_order(order: str | None) -> str | None:
    """The order; a UsageError if there is none of this name."""
    if order is not None and order not in ("random", *ORDER_NAMES):
        raise UsageError(f"the order must be one of random, {', '.join(ORDER_NAMES)}, got {order!r}")
    return order
