"""Everything that the demo computes, model by model."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ardm.apps.demo import COMPRESSED, RESTORED
from ardm.apps.demo.coding import (
    CodedExample,
    PlaceBits,
    compare,
    compress_examples,
    measure_example,
    restore_examples,
)
from ardm.apps.demo.filling import Filled, fill_examples
from ardm.apps.demo.models import DemoModel, Example
from ardm.planner import Plan, plan
from ardm.tasks.draw import Drawn, DrawOptions, draw

SAMPLES = {"images": 5, "text": 3, "sound": 2}
"""Samples drawn from nothing, by medium."""
STATES = {"images": 8, "text": 5, "sound": 1}
"""States shown of each sample, by medium."""
MEASURED = {"images": 2, "text": 1, "sound": 0}
"""Files whose bits are shown at each place, by medium; measuring them takes as long as compressing."""
NUM_FILLED = {"images": 2, "text": 1}
"""Files with gaps to fill, by medium."""
NUM_FILLINGS = 3
"""Number of times that each gap is filled."""

Log = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelResults:
    """Everything done with one model."""

    model: DemoModel
    coded: Sequence[CodedExample]
    bits: Sequence[tuple[Example, PlaceBits]]
    """Bits by place of the files that were measured."""
    filled: Sequence[Filled]
    drawn: Drawn
    plan: Plan | None
    """The best schedule with the same number of calls, in random orders; None if the losses have not been measured."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DemoResults:
    """Everything done with all models."""

    parts: Sequence[ModelResults]
    left_out: Sequence[str]
    """A line about each model that is not bundled or has no files."""
    seed: int
    seconds: float

    def of(self, medium: str) -> list[ModelResults]:
        """The results of models of a medium."""
        return [part for part in self.parts if part.model.medium == medium]


def run_demo(models: Sequence[DemoModel], left_out: Sequence[str], folder: Path, seed: int, log: Log) -> DemoResults:
    """Compress, restore, compare, fill gaps and draw samples with each model; files go to a folder."""
    started = time.perf_counter()
    parts = [_run_model(model, folder, seed, log) for model in models]
    return DemoResults(parts=parts, left_out=left_out, seed=seed, seconds=time.perf_counter() - started)


def _run_model(model: DemoModel, folder: Path, seed: int, log: Log) -> ModelResults:
    coded = _code(model, folder, log)
    measured = [one.example for one in coded if not one.is_stored][: MEASURED[model.medium]]
    if measured:
        log(f"{model.key}: measuring where the bits go")
    bits = [(example, measure_example(model, example)) for example in measured]
    filled: list[Filled] = []
    if model.medium in NUM_FILLED:
        log(f"{model.key}: filling gaps")
        filled = fill_examples(model, NUM_FILLED[model.medium], NUM_FILLINGS, seed)
    count, order = SAMPLES[model.medium], model.exact.coding.order
    log(f"{model.key}: drawing {count} samples from nothing")
    kwargs: Any = {"num_items": count, "batch_size": count, "num_states": STATES[model.medium], "seed": seed}
    drawn = draw(model, model.coding_schedule, DrawOptions(order=order, **kwargs))
    best = None if model.losses is None else plan(model.losses, model.coding_schedule.num_calls)
    return ModelResults(model=model, coded=coded, bits=bits, filled=filled, drawn=drawn, plan=best)


def _code(model: DemoModel, folder: Path, log: Log) -> list[CodedExample]:
    log(f"{model.key}: compressing {', '.join(example.name for example in model.examples)}")
    compressed = compress_examples(model, folder / COMPRESSED)
    log(f"{model.key}: restoring and comparing")
    restored = restore_examples(model, compressed, folder / RESTORED)
    log(f"{model.key}: timing other codecs")
    return [compare(model, *one) for one in zip(model.examples, compressed, restored, strict=True)]
