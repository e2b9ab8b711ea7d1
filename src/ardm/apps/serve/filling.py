"""Samples for the page: gaps filled, or items from nothing, with the states on the way."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from ardm.apps.serve.inputs import PageRequest
from ardm.apps.serve.jobs import Event, Job
from ardm.apps.serve.limits import STATES
from ardm.apps.serve.medium import PageMedium, Start, States, rounded
from ardm.apps.serve.models import LoadedModel
from ardm.apps.serve.text import TextPage
from ardm.config import MAX_VARIABLES
from ardm.errors import UsageError
from ardm.likelihood import variable_bits
from ardm.media.medium import steps_to_fill
from ardm.orders import NAMED_ORDERS, random_stage_orders
from ardm.sample import Given, given_first, sample_chain
from ardm.schedule import Schedule

ORDERS = ("random", "halton", "spaced", "raster")
MAX_CALLS = 2 * MAX_VARIABLES
SCORING_ROWS = 16
"""Calls that are made at once where all characters are known already."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Filling:
    """Samples that a page asks for."""

    served: LoadedModel
    medium: PageMedium
    start: Start
    num_samples: int
    num_calls: int
    order: str
    temperature: float
    seed: int

    @classmethod
    def of(cls, served: LoadedModel, medium: PageMedium, asked: PageRequest) -> "Filling":
        """What a request asks for; an error if that is too much."""
        filling = cls(
            served=served,
            medium=medium,
            start=medium.start(asked),
            num_samples=asked.whole("samples", 1, asked.limits.samples),
            num_calls=asked.whole("calls", 1, MAX_CALLS),
            order=asked.choice("order", ORDERS),
            temperature=asked.number("temperature", 0.1, 2.0),
            seed=asked.whole("seed", 0, 2**31),
        )
        filling._check(asked)
        return filling

    def _check(self, asked: PageRequest) -> None:
        model, num_variables = self.served.trained.model, math.prod(self.start.shape)
        asked.limits.check_memory(self.num_samples * num_variables, model.parametrization.num_outputs)
        first, last = steps(self.served, self.start)
        num_calls = min(self.num_calls, model.num_stages * (last - first))
        seconds = self.served.seconds_for(num_calls, self.num_samples, num_variables)
        asked.limits.check_seconds(seconds * num_passes(self.served))

    @property
    def schedule(self) -> Schedule:
        """How the calls are spread over what is to be filled."""
        first, last = steps(self.served, self.start)
        return self.served.schedule(self.num_calls, first, last)

    def run(self, job: Job) -> Event:
        """Draw the samples, telling states on the way, and return them."""
        schedule, started = self.schedule, time.perf_counter()
        num_calls = schedule.num_calls
        job.expect(num_calls * self.num_samples * num_passes(self.served))
        shown = {(num_calls - 1) * i // max(1, STATES - 1) for i in range(STATES)}
        states: States | None = None
        for call, states in enumerate(self._states(job, schedule)):
            if call in shown:
                job.tell("state", call=call + 1, calls=num_calls, **self.medium.shown(states, self.start))
            job.advance(self.num_samples)
        assert states is not None
        self.served.speed.learn(time.perf_counter() - started, num_calls * states.size)
        return {
            "calls": num_calls,
            "seed": self.seed,
            "bits": self._bits(job, schedule, states) if num_passes(self.served) > 1 else None,
            "seconds": round(time.perf_counter() - started, 3),
            **self.medium.finished(states, self.start),
        }

    def _states(self, job: Job, schedule: Schedule) -> Iterator[States]:
        """The classes after each call, as they are shown."""
        model = self.served.trained.for_shape(self.start.shape).model
        generator = torch.Generator(self.served.device).manual_seed(self.seed)
        orders, given = self._orders(generator), self._given()
        with self.served.autocast():
            chain = sample_chain(model, orders, schedule, generator, given=given, temperature=self.temperature)
            for step in chain:
                job.check()
                yield step.shown(model.depth).cpu().numpy()

    def _orders(self, generator: torch.Generator) -> Int[Tensor, "N S D"]:
        """Orders with what is known first and what is left out last."""
        start, num_stages = self.start, self.served.trained.model.num_stages
        if self.order == "random":
            orders = random_stage_orders(self.num_samples, num_stages, math.prod(start.shape), generator)
        else:
            order = torch.from_numpy(NAMED_ORDERS[self.order](start.shape)).to(generator.device)
            orders = order.expand(self.num_samples, num_stages, -1)
        return sorted_orders(orders, start)

    def _given(self) -> Given | None:
        gaps = self.start.gaps
        return None if gaps is None else gaps.given(self.num_samples, self.served.device)

    def _bits(self, job: Job, schedule: Schedule, states: States) -> list[list[float]]:
        """The bits of each filled character when its turn came."""
        orders = self._orders(torch.Generator(self.served.device).manual_seed(self.seed))
        return _text_bits(self.served, job, states, orders, schedule, self.start.length)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scoring:
    """The bits of each character of a text that is known."""

    served: LoadedModel
    medium: TextPage
    start: Start
    num_calls: int

    @classmethod
    def of(cls, served: LoadedModel, medium: PageMedium, asked: PageRequest) -> "Scoring":
        """What a request asks for."""
        if not isinstance(medium, TextPage):
            raise UsageError("only texts are scored here; drop other files on the tab that compresses")
        if served.trained.model.num_stages > 1:
            raise UsageError(f"{served.title} has several stages, which score whole items only")
        scoring = cls(
            served=served,
            medium=medium,
            start=medium.whole(asked),
            num_calls=asked.whole("calls", 1, MAX_CALLS),
        )
        calls = min(scoring.num_calls, scoring.start.length)
        asked.limits.check_seconds(served.seconds_for(calls, 1, math.prod(scoring.start.shape)))
        return scoring

    def run(self, job: Job) -> Event:
        """The bits, in the order that spreads characters best."""
        start, started = self.start, time.perf_counter()
        assert start.gaps is not None
        schedule = self.served.schedule(self.num_calls, 0, start.length)
        job.expect(schedule.num_calls)
        order = torch.from_numpy(NAMED_ORDERS["spaced"](start.shape)).to(self.served.device)
        inside = torch.arange(math.prod(start.shape), device=self.served.device)[None] < start.length
        orders = given_first(order.expand(1, 1, -1), inside)
        bits = _text_bits(self.served, job, start.gaps.values[None], orders, schedule, start.length)
        finished = self.medium.finished(start.gaps.values[None], start)
        return {
            "calls": schedule.num_calls,
            "seconds": round(time.perf_counter() - started, 3),
            "bits": bits,
        } | finished


def num_passes(served: LoadedModel) -> int:
    """How often the calls of samples are made: those of texts of one stage are scored too, as the page shades them."""
    return 2 if served.medium == "text" and served.trained.model.num_stages == 1 else 1


def steps(served: LoadedModel, start: Start) -> tuple[int, int]:
    """The first step of what is to be filled and the one after its last."""
    return steps_to_fill(start.gaps, math.prod(start.shape), served.trained.model.num_stages)


def sorted_orders(orders: Int[Tensor, "N S D"], start: Start) -> Int[Tensor, "N S D"]:
    """The orders with what is known first and what is left out last."""
    return orders if start.gaps is None else start.gaps.sorted(orders)


def _text_bits(
    served: LoadedModel, job: Job, states: States, orders: Tensor, schedule: Schedule, length: int
) -> list[list[float]]:
    model = served.trained.model
    x = torch.from_numpy(states).to(served.device)
    x = torch.where(x < model.depth.num_classes, x, 0)  # what is left out
    job.title = "scoring"
    with served.autocast():
        bits: Any = variable_bits(model, x, orders, schedule, batch_size=SCORING_ROWS, on_batch=job.advance)
    return [rounded(row[:length].cpu().numpy()) for row in bits]
