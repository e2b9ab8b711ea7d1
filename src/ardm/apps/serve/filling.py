"""Samples for the page: gaps filled, or items from nothing, with states on the way; and the bits of texts."""

import time
from dataclasses import dataclass, replace
from functools import partial

from ardm.apps.serve.inputs import PageRequest
from ardm.apps.serve.jobs import Event, Job
from ardm.apps.serve.limits import STATES
from ardm.apps.serve.medium import PageMedium, rounded
from ardm.apps.serve.models import PageModel
from ardm.apps.serve.text import TextPage
from ardm.config import MAX_VARIABLES
from ardm.errors import UsageError
from ardm.media.medium import GappedItem
from ardm.sample import batch_generator
from ardm.schedule import Schedule
from ardm.tasks.draw import DrawOptions, States
from ardm.tasks.fill import fill, steps_of_gaps
from ardm.tasks.plan import make_orders
from ardm.tasks.score import ScoreOptions, bits_by_variable

ORDERS = ("random", "halton", "spaced", "raster")
MAX_CALLS = 2 * MAX_VARIABLES
SCORING_ROWS = 16
"""Calls computed at once when all characters are known."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Filling:
    """Samples that a page asks for."""

    model: PageModel
    medium: PageMedium
    gaps: GappedItem
    num_calls: int
    options: DrawOptions

    @classmethod
    def of(cls, model: PageModel, medium: PageMedium, request: PageRequest) -> "Filling":
        """The samples of a request; an error if they are too many."""
        gaps, num_samples = medium.start(request), request.integer("samples", 1, request.limits.samples)
        filling = cls(
            model=model,
            medium=medium,
            gaps=gaps,
            num_calls=request.integer("calls", 1, MAX_CALLS),
            options=DrawOptions(
                num_items=num_samples,
                order=request.choice("order", ORDERS),
                temperature=request.number("temperature", 0.1, 2.0),
                batch_size=num_samples,
                seed=request.integer("seed", 0, 2**31),
                num_states=STATES,
            ),
        )
        filling._check(request)
        return filling

    def _check(self, request: PageRequest) -> None:
        num_samples, num_variables = self.options.num_items, len(self.gaps.values)
        request.limits.check_memory(num_samples * num_variables, self.model.ardm.parametrization.num_outputs)
        first, last = steps_of_gaps(self.model, self.gaps)
        num_calls = min(self.num_calls, self.model.ardm.num_stages * (last - first))
        seconds = self.model.seconds_for(num_calls, num_samples, num_variables)
        request.limits.check_seconds(seconds * num_passes(self.model))

    @property
    def schedule(self) -> Schedule:
        """The schedule of the steps to fill."""
        return self.model.schedule(self.num_calls, *steps_of_gaps(self.model, self.gaps))

    def run(self, job: Job) -> Event:
        """Draw the samples, sending states on the way, and return them."""
        schedule, started = self.schedule, time.perf_counter()
        num_calls, num_samples = schedule.num_calls, self.options.num_items
        job.expect(num_calls * num_samples * num_passes(self.model))

        def send(call: int, states: States) -> None:
            job.send("state", call=call, calls=num_calls, **self.medium.show_states(states, self.gaps))

        options = replace(self.options, on_call=partial(job.advance, num_samples), on_state=send)
        drawn = fill(self.model, self.gaps, schedule, options)
        self.model.speed.learn(drawn.seconds, num_calls * drawn.samples.size)
        return {
            "calls": num_calls,
            "seed": self.options.seed,
            "bits": self._bits(job, schedule, drawn.samples),
            "seconds": round(time.perf_counter() - started, 3),
            **self.medium.show_samples(drawn.samples, self.gaps),
        }

    def _bits(self, job: Job, schedule: Schedule, samples: States) -> list[list[float]] | None:
        if num_passes(self.model) == 1:
            return None
        return text_bits(self.model, job, samples, self.gaps, schedule, self.options)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scoring:
    """The bits of each character of a known text."""

    model: PageModel
    medium: TextPage
    text: GappedItem
    num_calls: int

    @classmethod
    def of(cls, model: PageModel, medium: PageMedium, request: PageRequest) -> "Scoring":
        """The scores of a request; an error if they take too long."""
        if not isinstance(medium, TextPage):
            raise UsageError("only texts are scored here; drop other files on the tab that compresses")
        if model.ardm.num_stages > 1:
            raise UsageError(f"{model.title} has several stages, which score whole items only")
        text, num_calls = medium.whole(request), request.integer("calls", 1, MAX_CALLS)
        request.limits.check_seconds(model.seconds_for(min(num_calls, text.length), 1, len(text.values)))
        return cls(model=model, medium=medium, text=text, num_calls=num_calls)

    def run(self, job: Job) -> Event:
        """The bits, in the order that spreads characters best."""
        started = time.perf_counter()
        schedule = self.model.schedule(self.num_calls, 0, self.text.length)
        job.expect(schedule.num_calls)
        items = self.text.values[None]
        bits = text_bits(self.model, job, items, self.text, schedule, DrawOptions(order="spaced"))
        return {
            "calls": schedule.num_calls,
            "seconds": round(time.perf_counter() - started, 3),
            "bits": bits,
            **self.medium.show_samples(items, self.text),
        }


def num_passes(model: PageModel) -> int:
    """How often the calls of samples are made: texts of one stage are scored too, to be shaded."""
    return 2 if model.medium == "text" and model.ardm.num_stages == 1 else 1


def text_bits(
    model: PageModel, job: Job, items: States, gaps: GappedItem, schedule: Schedule, options: DrawOptions
) -> list[list[float]]:
    """The bits of each character, in the orders of these options; 0 for what the schedule takes as given."""
    job.title = "scoring"
    generator = batch_generator(options.seed, 0, model.runtime.device)
    orders, schedule = make_orders(options.order, schedule, len(items), gaps.shape, generator)
    scoring = ScoreOptions(batch_size=SCORING_ROWS, on_batch=job.advance)
    bits = bits_by_variable(model, items, gaps.sorted(orders), schedule, scoring)
    return [rounded(row[: gaps.length].cpu().numpy()) for row in bits]
