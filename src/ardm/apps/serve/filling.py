"""Samples for the page: gaps filled, or items from nothing, with intermediate states; and the bits of texts."""

import time
from dataclasses import replace
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
from ardm.tasks.fill import fill
from ardm.tasks.plan import make_orders
from ardm.tasks.score import ScoreOptions, bits_by_variable

ORDERS = ("random", "halton", "spaced", "raster")
MAX_CALLS = 2 * MAX_VARIABLES
SCORING_ROWS = 16
"""Calls computed at once when all characters are known."""


class Filling:
    """Samples that a page asks for; an error if there are too many."""

    def __init__(self, model: PageModel, medium: PageMedium, request: PageRequest) -> None:
        gaps, num_samples = medium.start(request), request.integer("samples", 1, request.limits.samples)
        num_calls, (first, last) = request.integer("calls", 1, MAX_CALLS), gaps.steps(model.ardm.num_stages)
        self.model, self.medium, self.gaps, self.num_calls = model, medium, gaps, num_calls
        self.options = DrawOptions(
            num_items=num_samples,
            order=request.choice("order", ORDERS),
            temperature=request.number("temperature", 0.1, 2.0),
            batch_size=num_samples,
            seed=request.integer("seed", 0, 2**31),
            num_states=STATES,
        )
        num_variables, max_calls = len(gaps.values), model.ardm.num_stages * (last - first)
        request.limits.check_memory(num_samples * num_variables, model.ardm.parametrization.num_outputs)
        seconds = model.seconds_for(min(num_calls, max_calls), num_samples, num_variables)
        request.limits.check_seconds(seconds * num_passes(model))

    def run(self, job: Job) -> Event:
        """Draw the samples, sending intermediate states, and return them."""
        started = time.perf_counter()
        schedule = self.model.schedule(self.num_calls, self.gaps.shape, *self.gaps.steps(self.model.ardm.num_stages))
        num_calls, num_samples = schedule.num_calls, self.options.num_items
        job.expect(num_calls * num_samples * num_passes(self.model))

        def send(call: int, states: States) -> None:
            job.send("state", call=call, calls=num_calls, **self.medium.show_states(states, self.gaps))

        options = replace(self.options, on_call=partial(job.advance, num_samples), on_state=send)
        drawn = fill(self.model, self.gaps, schedule, options)
        self.model.speed.learn(drawn.seconds, num_calls * drawn.samples.size)
        is_scored = num_passes(self.model) > 1
        bits = text_bits(self.model, job, drawn.samples, self.gaps, schedule, self.options) if is_scored else None
        return {
            "calls": num_calls,
            "seed": self.options.seed,
            "bits": bits,
            "seconds": round(time.perf_counter() - started, 3),
            **self.medium.show_samples(drawn.samples, self.gaps),
        }


class Scoring:
    """The bits of each character of a known text; an error if they take too long."""

    def __init__(self, model: PageModel, medium: PageMedium, request: PageRequest) -> None:
        if not isinstance(medium, TextPage):
            raise UsageError("only texts are scored here; drop other files on the Compress tab")
        if model.ardm.num_stages > 1:
            raise UsageError(f"{model.title} has several stages and can score only whole items")
        self.model, self.medium, self.text = model, medium, medium.whole(request)
        self.num_calls = request.integer("calls", 1, MAX_CALLS)
        num_calls, num_variables = min(self.num_calls, self.text.length), len(self.text.values)
        request.limits.check_seconds(model.seconds_for(num_calls, 1, num_variables))

    def run(self, job: Job) -> Event:
        """Score the text, in the order that spreads characters best."""
        started = time.perf_counter()
        schedule = self.model.schedule(self.num_calls, self.text.shape, 0, self.text.length)
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
    """The number of times that a sample's calls are made: 2 for one-stage texts, which are also scored for shading."""
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
