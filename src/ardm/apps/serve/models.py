"""The models that the page offers: loaded, timed, and their expected bits for each number of calls."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from ardm.codec.format.options import find_identity
from ardm.compression.content_codec import ContentCodec
from ardm.errors import DataError, UsageError
from ardm.names import ScheduleKind, Shape
from ardm.planner import plan_gaps, schedule_bits
from ardm.pretrained import bundled_models, find_model
from ardm.schedule import Schedule
from ardm.tasks.load import LoadedModel, load
from ardm.tasks.plan import Losses, is_measured, make_schedule, monotone_losses, planning_losses

BUDGETS = 32
"""Maximum number of positions of a slider for calls."""
MOMENTUM = 0.7
"""The weight of earlier timings in the running mean."""


@dataclass
class Speed:
    """A running mean of the seconds per call and variable."""

    seconds: float = 0.0

    def learn(self, seconds: float, num_variables: int) -> None:
        """Include calls that computed this many variables in all."""
        if num_variables > 0:
            self.seconds = MOMENTUM * self.seconds + (1 - MOMENTUM) * seconds / num_variables


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A number of calls with its expected cost."""

    calls: int
    bits: float | None
    """Bits per item; None if the model's losses have not been measured."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PageModel(LoadedModel):
    """A model that the page offers."""

    key: str
    """The name of the model in requests."""
    title: str
    speed: Speed = field(default_factory=Speed)
    """The speed of sampling."""
    coding_speed: Speed = field(default_factory=Speed)
    """The speed of the codec."""

    @property
    def medium(self) -> str:
        """images, text or sound."""
        return str(self.trained.config.data.medium)

    @cached_property
    def codec(self) -> ContentCodec | None:
        """The codec of an exact model; None for trained weights."""
        return None if self.trained.exact is None else ContentCodec(self.trained)

    @property
    def exact_codec(self) -> ContentCodec:
        """The codec of an exact model; a UsageError for trained weights."""
        if self.codec is None:
            raise UsageError(f"{self.title} holds trained weights; `ardm export` makes an exact model that compresses")
        return self.codec

    @cached_property
    def losses(self) -> Losses | None:
        """The monotone losses for planning; None if they have not been measured."""
        return monotone_losses(self.trained.profile) if is_measured(self.trained.profile) else None

    def seconds_for(self, num_calls: int, num_items: int, num_variables: int) -> float:
        """The expected time of these calls for each of these items, in seconds."""
        return self.speed.seconds * num_calls * num_items * num_variables

    def schedule(self, num_calls: int, shape: Shape, first: int, last: int) -> Schedule:
        """The best schedule of the steps first..last of items of a shape, or a uniform one without measured losses."""
        kind: ScheduleKind = "uniform" if self.losses is None else "planned"
        num_calls = max(num_calls, self.ardm.num_stages)
        return make_schedule(self.trained.for_shape(shape), num_calls, kind, first, last, self.losses)

    def budgets(self, shape: Shape, first: int, last: int) -> list[Budget]:
        """Budgets from the fewest calls to one call per variable."""
        num_stages = self.ardm.num_stages
        losses = None if self.losses is None else planning_losses(self.trained.for_shape(shape), self.losses)
        counts = sorted({round(c) for c in np.geomspace(num_stages, num_stages * (last - first), BUDGETS)})
        bits = [None if losses is None else plan_gaps(losses, calls, first, last).bits for calls in counts]
        return [Budget(calls=c, bits=b) for c, b in zip(counts, bits, strict=True)]

    def coding_budgets(self) -> list[Budget]:
        """The codec's schedules with the expected bits of a window; none for trained weights.

        The profile is measured in random orders, and says nothing about strands.
        """
        if self.trained.exact is None:
            return []
        coding = self.trained.exact.coding
        losses = None if coding.order.name == "strands" else self.losses
        bits = [None if losses is None else schedule_bits(losses, schedule) for schedule in coding.schedules]
        return [Budget(calls=s.num_calls, bits=b) for s, b in zip(coding.schedules, bits, strict=True)]

    def time_calls(self) -> None:
        """Measure the time of a call."""
        self._call()  # compiles, and chooses kernels
        self.speed.seconds = self.coding_speed.seconds = min(self._call() for _ in range(3))

    def _call(self) -> float:
        """The seconds per variable of one call."""
        model, device = self.ardm, self.runtime.device
        inputs = torch.full((1, model.num_variables), model.depth.absorbing_value, device=device)
        zero = torch.zeros(1, dtype=torch.long, device=device)
        start = time.perf_counter()
        with torch.no_grad(), self.runtime.autocast():
            model.outputs(inputs, torch.zeros_like(inputs, dtype=torch.bool), zero, zero).sum().item()
        return (time.perf_counter() - start) / model.num_variables


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelStore:
    """All models of a server, by their keys in requests."""

    models: dict[str, PageModel]

    def find(self, key: str) -> PageModel:
        """The model with this key; a DataError if there is none."""
        if key not in self.models:
            raise DataError(f"there is no model {key[:20]!r} here; reload the page")
        return self.models[key]

    def find_by_identity(self, short_identity: bytes) -> PageModel:
        """The exact model with an identity that begins with these bytes; an UnknownModelError if there is none."""
        owners = {model.codec.identity: model for model in self.models.values() if model.codec is not None}
        return owners[find_identity(short_identity.hex(), owners)]

    @property
    def codecs(self) -> list[ContentCodec]:
        """The codecs of the exact models."""
        return [model.codec for model in self.models.values() if model.codec is not None]


def find_models(paths: Sequence[Path]) -> list[Path]:
    """The files of the named models, or of all bundled ones."""
    found = [find_model(path) for path in paths] or list(bundled_models().values())
    if not found:
        raise UsageError(
            "give the models to serve: `ardm serve MODEL...`, exact models (`ardm export` makes them) or runs"
        )
    return found


def load_models(paths: Sequence[Path], device: str | None = None) -> ModelStore:
    """The models at these paths, loaded and timed."""
    models = {}
    for number, path in enumerate(find_models(paths), start=1):
        loaded, key = load(path, device), str(number)
        models[key] = PageModel(key=key, title=path.resolve().name, trained=loaded.trained, runtime=loaded.runtime)
        models[key].time_calls()
    return ModelStore(models=models)
