"""Random items that threads read from memory maps ahead of the steps that need them.

A batch is a function of the state of the generator that it is drawn with. A caller who knows the seeds of coming
generators announces them with `expect`, and threads read what those generators will draw; `draw` then takes the batch
and advances the generator as drawing would. So batches, and all draws after them, equal those of a sampler that holds
the data in memory, to the bit, whether or not they were expected.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, Integer, UInt8
from torch import Tensor

from ardm.data.corpus import Finish
from ardm.data.packed.places import Places

AHEAD = 4
"""Batches to expect, including the next one."""
NUM_THREADS = 2


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Stored values, on the device, and the states of the generator before and after the draw."""

    values: Integer[Tensor, "B D"]
    before: UInt8[Tensor, "_"]
    after: UInt8[Tensor, "_"]
    copied: "torch.cuda.Event | None"
    """Recorded once the values have arrived on a CUDA device."""


class StreamSampler:
    """Items cut at uniformly random places, read from disk on demand.

    Every place is equally likely, wherever shards begin and end, up to the rounding of `torch.randint`, which among
    fewer than 2^28 places may prefer some by a sixteenth.
    """

    def __init__(self, places: Places, device: torch.device, finish: Finish = lambda values, generator: values) -> None:
        self.places, self.device, self.finish = places, device, finish
        self.num_places = len(places)
        self.waited_seconds = 0.0
        """Total time that callers have waited for batches."""
        self._expected: dict[int, Future[Batch]] = {}
        self._threads = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="ardm-data")
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def expect(self, seeds: Sequence[int], num_items: int) -> None:
        """Begin to read what generators with these seeds will draw, and cancel what is no longer expected.

        Errors are raised when the batch is drawn.
        """
        for seed in self._expected.keys() - {*seeds}:
            self._expected.pop(seed).cancel()
        for seed in seeds:
            if seed not in self._expected:
                generator = torch.Generator(self.device).manual_seed(seed)
                self._expected[seed] = self._threads.submit(self.read, num_items, generator)

    def draw(self, num_items: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
        """Items on the generator's device."""
        started = time.perf_counter()
        batch = self._batch(num_items, generator)
        self.waited_seconds += time.perf_counter() - started
        generator.set_state(batch.after)
        if batch.copied is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(batch.copied)
            batch.values.record_stream(stream)  # keeps its memory until this stream has read it
        return self.finish(batch.values.long(), generator)

    def _batch(self, num_items: int, generator: torch.Generator) -> Batch:
        """The expected batch if it is the one that this generator draws, else one that is read now."""
        expected = self._expected.pop(generator.initial_seed(), None)
        if expected is not None:
            batch = expected.result()
            if len(batch.values) == num_items and torch.equal(batch.before, generator.get_state()):
                return batch
        return self.read(num_items, generator)

    def read(self, num_items: int, generator: torch.Generator) -> Batch:
        """The batch that a generator draws; the generator is advanced."""
        before = generator.get_state()
        with torch.cuda.stream(self._stream) if self._stream is not None else nullcontext():
            place = torch.randint(0, self.num_places, (num_items,), generator=generator, device=generator.device)
            values = torch.from_numpy(self.places.read(place.cpu().numpy()))
            if self._stream is None:
                return Batch(values=values, before=before, after=generator.get_state(), copied=None)
            on_device = values.pin_memory().to(self.device, non_blocking=True)
            return Batch(
                values=on_device, before=before, after=generator.get_state(), copied=self._stream.record_event()
            )


def num_bytes(places: Places) -> int:
    """Bytes of a stored item."""
    return places.read(np.zeros(1, np.int64)).nbytes
