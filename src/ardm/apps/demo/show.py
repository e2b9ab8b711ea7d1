"""The demonstration itself: everything is done here, and told line by line."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ardm.apps.demo import COMPRESSED, RESTORED
from ardm.apps.demo.coding import (
    CodedExample,
    PlaceBits,
    compare,
    compress_examples,
    measure_example,
    restore_examples,
)
from ardm.apps.demo.drawing import Drawn, Filled, draw, fill_images, fill_texts
from ardm.apps.demo.exhibits import Exhibit, Exhibition
from ardm.planner import Plan, plan

SAMPLES = {"images": 5, "text": 3, "sound": 2}
STATES = {"images": 8, "text": 5, "sound": 1}
"""By medium the samples that are drawn from nothing, and the states of each that are shown."""
MEASURED = {"images": 2, "text": 1, "sound": 0}
"""Files of which is shown where the bits go, which takes as long as compressing them."""
FILLED_IMAGES, IMAGE_FILLINGS = 2, 3
FILLED_TEXTS, TEXT_FILLINGS = 1, 3

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """What was done with one model."""

    exhibit: Exhibit
    coded: Sequence[CodedExample]
    bits: Mapping[str, PlaceBits]
    """Where they go, by the names of files: of those that were measured."""
    filled: Sequence[Filled]
    drawn: Drawn
    plan: Plan | None
    """What the profile promises for the calls that were made; None where it has not been measured."""

    @property
    def medium(self) -> str:
        """images, text or sound."""
        return self.exhibit.served.medium


@dataclass(frozen=True, kw_only=True, eq=False)
class Show:
    """All that was done."""

    parts: Sequence[Part]
    left_out: Sequence[str]
    seed: int
    seconds: float

    def of(self, medium: str) -> list[Part]:
        """The parts of a medium."""
        return [part for part in self.parts if part.medium == medium]


def run_show(exhibition: Exhibition, folder: Path, seed: int, say: Say) -> Show:
    """Compress, restore, compare, fill gaps and draw samples with each model; files go to a folder."""
    started = time.perf_counter()
    parts = [run_part(exhibit, folder, seed, say) for exhibit in exhibition.exhibits]
    return Show(parts=parts, left_out=exhibition.left_out, seed=seed, seconds=time.perf_counter() - started)


def run_part(exhibit: Exhibit, folder: Path, seed: int, say: Say) -> Part:
    """All that one model does."""
    coded = _code(exhibit, folder, say)
    measured = [one.example for one in coded if not one.is_stored][: MEASURED[exhibit.served.medium]]
    if measured:
        say(f"{exhibit.name}: measuring where the bits go")
    bits = {one.path.name: measure_example(exhibit, one) for one in measured}
    filled = _fill(exhibit, seed, say)
    count = SAMPLES[exhibit.served.medium]
    say(f"{exhibit.name}: drawing {count} samples from nothing")
    drawn = draw(exhibit, count, STATES[exhibit.served.medium], seed)
    return Part(exhibit=exhibit, coded=coded, bits=bits, filled=filled, drawn=drawn, plan=promised(exhibit))


def _code(exhibit: Exhibit, folder: Path, say: Say) -> list[CodedExample]:
    names = ", ".join(example.path.name for example in exhibit.examples)
    say(f"{exhibit.name}: compressing {names}")
    compressed = compress_examples(exhibit, folder / COMPRESSED)
    say(f"{exhibit.name}: restoring and comparing")
    restored = restore_examples(exhibit, compressed, folder / RESTORED)
    say(f"{exhibit.name}: timing other codecs")
    return [compare(exhibit, *one) for one in zip(exhibit.examples, compressed, restored, strict=True)]


def _fill(exhibit: Exhibit, seed: int, say: Say) -> list[Filled]:
    if exhibit.served.medium == "sound":
        return []
    say(f"{exhibit.name}: filling gaps")
    if exhibit.served.medium == "images":
        return fill_images(exhibit, FILLED_IMAGES, IMAGE_FILLINGS, seed)
    return fill_texts(exhibit, FILLED_TEXTS, TEXT_FILLINGS, seed)


def promised(exhibit: Exhibit) -> Plan | None:
    """The best schedule of as many calls as are made for an item, in random orders, from the profile."""
    losses = exhibit.served.losses
    return None if losses is None else plan(losses, exhibit.schedule.num_calls)
