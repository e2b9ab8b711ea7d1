"""The models that the page offers: loaded, timed, and what their profiles promise for each number of calls."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from ardm.checkpoint import TrainedModel, load_model
from ardm.compression.content_codec import ContentCodec
from ardm.errors import DataError, UsageError
from ardm.planner import plan_gaps, schedule_bits
from ardm.pretrained import bundled_models, find_model
from ardm.profile import monotone
from ardm.runtime.device import Runtime
from ardm.schedule import Schedule, full_schedule, uniform_schedule

BUDGETS = 32
"""Numbers of calls on a slider."""
MEMORY = 0.7
"""The weight of earlier timings in the running mean."""


@dataclass
class Speed:
    """Seconds that one call takes for each variable of each item: a running mean of what was measured."""

    seconds: float

    def learn(self, seconds: float, num_variables: int) -> None:
        """Calls of so many variables in all took so long."""
        if num_variables > 0:
            self.seconds = MEMORY * self.seconds + (1 - MEMORY) * seconds / num_variables


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A number of calls, and what it is expected to cost."""

    calls: int
    bits: float | None
    """In all; None where the model's losses have not been measured."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedModel:
    """A model that the page offers."""

    key: str
    """How pages name it."""
    title: str
    trained: TrainedModel
    device: torch.device
    autocast: Callable[[], AbstractContextManager[Any]]
    speed: Speed = field(default_factory=lambda: Speed(seconds=0.0))
    """Of sampling."""
    coding_speed: Speed = field(default_factory=lambda: Speed(seconds=0.0))
    """Of the codec."""

    @property
    def medium(self) -> str:
        """images, text or sound."""
        return str(self.trained.config.data.medium)

    @cached_property
    def codec(self) -> ContentCodec | None:
        """The codec of an exact model."""
        return None if self.trained.exact is None else ContentCodec(self.trained)

    @property
    def exact_codec(self) -> ContentCodec:
        """The same; a UsageError where the model has none."""
        if self.codec is None:
            raise UsageError(f"{self.title} holds trained weights; `ardm export` makes an exact model that compresses")
        return self.codec

    @cached_property
    def losses(self) -> Float[np.ndarray, "S D"] | None:
        """The profile for planning; None where it has not been measured."""
        profile = self.trained.profile
        if not profile.counts.any(dim=1).all():
            return None
        return monotone(profile.bits.cpu().numpy(), profile.counts.cpu().numpy(), method="smooth")

    def seconds_for(self, num_calls: int, num_items: int, num_variables: int) -> float:
        """What so many calls for each of so many items are expected to take."""
        return self.speed.seconds * num_calls * num_items * num_variables

    def schedule(self, num_calls: int, first: int, last: int) -> Schedule:
        """The best schedule of the steps first..last, or a uniform one without a profile."""
        num_stages = self.trained.model.num_stages
        num_calls = min(max(num_calls, num_stages), num_stages * (last - first))
        if num_calls == num_stages * (last - first):
            return full_schedule(last, num_stages=num_stages, first_step=first)
        if self.losses is None:
            return uniform_schedule(last, num_calls, num_stages=num_stages, first_step=first)
        return plan_gaps(self.losses, num_calls, first, last).schedule

    def budgets(self, first: int, last: int) -> list[Budget]:
        """Numbers of calls from the fewest to one for each variable, each with what it is expected to cost."""
        least = self.trained.model.num_stages
        most = least * (last - first)
        counts = sorted({round(c) for c in np.geomspace(least, most, BUDGETS)})
        return [Budget(calls=c, bits=self._bits(c, first, last)) for c in counts]

    def _bits(self, num_calls: int, first: int, last: int) -> float | None:
        if self.losses is None:
            return None
        return plan_gaps(self.losses, num_calls, first, last).bits

    def coding_budgets(self) -> list[Budget]:
        """The schedules that the codec has, with the expected bits of a window; none for trained weights.

        The profile is one of random orders, and says nothing of strands.
        """
        if self.trained.exact is None:
            return []
        schedules = self.trained.exact.coding.schedules
        losses = None if self.trained.exact.coding.order.name == "strands" else self.losses
        bits = [None if losses is None else schedule_bits(losses, schedule) for schedule in schedules]
        return [Budget(calls=s.num_calls, bits=b) for s, b in zip(schedules, bits, strict=True)]

    def time_calls(self) -> None:
        """Learn how long a call takes, from a few."""
        self._call()  # compiles and chooses what to compute with
        self.speed.seconds = self.coding_speed.seconds = min(self._call() for _ in range(3))

    def _call(self) -> float:
        """The seconds for each variable of one call."""
        model = self.trained.model
        inputs = torch.full((1, model.num_variables), model.depth.absorbing_value, device=self.device)
        zero = torch.zeros(1, dtype=torch.long, device=self.device)
        start = time.perf_counter()
        with torch.no_grad(), self.autocast():
            model.outputs(inputs, torch.zeros_like(inputs, dtype=torch.bool), zero, zero).sum().item()
        return (time.perf_counter() - start) / model.num_variables


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelStore:
    """All models of a server, by the names that pages use."""

    models: dict[str, LoadedModel]

    def find(self, key: str) -> LoadedModel:
        """The model of a name; a DataError if there is none."""
        if key not in self.models:
            raise DataError(f"there is no model {key[:20]!r} here; reload the page")
        return self.models[key]

    @property
    def codecs(self) -> list[ContentCodec]:
        """Of the exact ones."""
        return [served.codec for served in self.models.values() if served.codec is not None]


def find_models(paths: Sequence[Path]) -> list[Path]:
    """The models to offer: those given by path or name, or all bundled models."""
    found = [find_model(path) for path in paths] or list(bundled_models().values())
    if not found:
        raise UsageError(
            "give the models to play with: `ardm serve MODEL...`, exact models (`ardm export` makes them) or runs"
        )
    return found


def load_shelf(paths: Sequence[Path], device: str | None = None) -> ModelStore:
    """Load models and time them."""
    runtime = Runtime.choose(device)
    served = [
        LoadedModel(
            key=str(number),
            title=path.resolve().name,
            trained=load_model(path, runtime.device),
            device=runtime.device,
            autocast=runtime.autocast,
        )
        for number, path in enumerate(find_models(paths), start=1)
    ]
    for one in served:
        one.time_calls()
    return ModelStore(models={one.key: one for one in served})
