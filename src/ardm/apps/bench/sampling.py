"""Time and memory of sampling in batches, as `ardm sample` does it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ardm.apps.bench.stopwatch import Stopwatch
from ardm.apps.bench.training import peak_bytes, random_corpus, reset_peak, synchronize
from ardm.build import build_ardm
from ardm.config import RunConfig
from ardm.model import ARDM
from ardm.nn.recorded import for_many_calls
from ardm.runtime.device import Runtime
from ardm.sample import BATCH_SIZE, batch_generator, batch_sizes
from ardm.schedule import Schedule
from ardm.tasks.draw import chain, keep_states

WARMUP_CALLS = 3
"""Untimed calls per batch size, which allocate memory and choose kernels."""
WARMUP_BATCHES = 3
"""Untimed batches per batch size on CUDA, where calls are captured once their sizes repeat."""


@dataclass(frozen=True, kw_only=True)
class SampleTiming:
    """The time and memory that drawing some items took."""

    model: str
    num_parameters: int
    num_items: int
    num_calls: int
    """Per item."""
    batch_size: int
    """Most items per call."""
    seconds: float
    """For all items, with their orders and the copy to the host."""
    items_per_second: float
    call_seconds: float
    """Per call of a batch, everything included."""
    item_call_seconds: float
    """Per item and call: the same in all rows if the cost is linear in both."""
    network_share: float
    """Fraction of the time spent in the network."""
    peak_bytes: int | None
    """Most memory held at once on a CUDA device."""


def time_sampling(
    model: ARDM,
    schedule: Schedule,
    runtime: Runtime,
    *,
    name: str,
    num_parameters: int,
    num_items: int,
    batch_size: int = BATCH_SIZE,
    seconds: float = 10.0,
) -> SampleTiming:
    """Time passes over all items for about this many seconds, at least one."""
    sizes = batch_sizes(num_items, batch_size)
    how: Any = {"num_items": num_items, "batch_size": batch_size, "compiles": runtime.compile}
    with runtime.autocast(), for_many_calls(model, num_calls=schedule.num_calls, **how) as called:
        watched = WatchedModel(called, runtime.device)
        warm_up(watched, schedule, {*sizes})
        synchronize(runtime.device)
        watched.watch.reset()
        reset_peak(runtime)
        pass_seconds, passes = _seconds_per_pass(lambda: draw_batches(watched, schedule, sizes), seconds)
    num_calls = schedule.num_calls
    return SampleTiming(
        model=name,
        num_parameters=num_parameters,
        num_items=num_items,
        num_calls=num_calls,
        batch_size=min(batch_size, num_items),
        seconds=pass_seconds,
        items_per_second=num_items / pass_seconds,
        call_seconds=pass_seconds / (num_calls * len(sizes)),
        item_call_seconds=pass_seconds / (num_calls * num_items),
        network_share=watched.watch.seconds / (passes * pass_seconds),
        peak_bytes=peak_bytes(runtime),
    )


def random_model(config: RunConfig, runtime: Runtime) -> ARDM:
    """A preset's model with its initial weights."""
    return build_ardm(config, random_corpus(config).num_classes).to(runtime.device).eval()


def warm_up(model: "WatchedModel", schedule: Schedule, sizes: set[int]) -> None:
    """Begin to draw a batch of each size; on CUDA draw several to the end."""
    on_cuda = model.device.type == "cuda"
    num_calls = schedule.num_calls if on_cuda else min(WARMUP_CALLS, schedule.num_calls)
    for size in sizes:
        for batch in range(WARMUP_BATCHES if on_cuda else 1):
            draw_batch(model, schedule, batch, size, num_calls)


def draw_batches(model: "WatchedModel", schedule: Schedule, sizes: list[int]) -> None:
    """Draw the batches one after the other and bring the items to the host."""
    for batch, size in enumerate(sizes):
        draw_batch(model, schedule, batch, size, schedule.num_calls)


def draw_batch(model: "WatchedModel", schedule: Schedule, batch: int, size: int, num_calls: int) -> None:
    """Draw items in random orders, or begin to, and bring them to the host."""
    keep_states(chain(model, schedule, size, batch_generator(0, batch, model.device)), [num_calls])


def _seconds_per_pass(draw: Callable[[], None], seconds: float) -> tuple[float, int]:
    """The mean time of a pass, and their number; a pass ends with items on the host, so that no work is pending."""
    started, passes = time.perf_counter(), 0
    while passes == 0 or time.perf_counter() - started < seconds:
        draw()
        passes += 1
    return (time.perf_counter() - started) / passes, passes


class WatchedModel(ARDM):
    """A model whose calls of the network are timed."""

    def __init__(self, model: ARDM, device: torch.device) -> None:
        super().__init__(model.network, model.parametrization, model.shape)
        self._model, self.device, self.watch = model, device, Stopwatch(device)

    def outputs(self, *arguments: Tensor | None) -> Tensor:
        """The network's outputs."""
        with self.watch.running():
            return self._model.outputs(*arguments)  # type: ignore[arg-type]
