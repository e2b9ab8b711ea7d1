"""Speed and memory of sampling, as `ardm sample` does it: batches of items, a schedule of calls for each."""

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
from ardm.orders import random_stage_orders
from ardm.runtime.device import Runtime
from ardm.sample import BATCH_SIZE, batch_generator, batch_sizes, sample_chain
from ardm.schedule import Schedule

WARMUP_CALLS = 3
"""Calls of each size of batch that are not timed: memory is taken and kernels are chosen in them."""
WARMUP_BATCHES = 3
"""Whole batches of each size that are not timed on CUDA, where calls of sizes that come again are recorded."""


@dataclass(frozen=True, kw_only=True)
class SampleTiming:
    """So many items, drawn in so many calls each."""

    model: str
    num_parameters: int
    num_items: int
    num_calls: int
    """For each item."""
    batch_size: int
    """Items of a call at most."""
    seconds: float
    """For all items, orders and the copy to the host included."""
    items_per_second: float
    call_seconds: float
    """For a batch, everything included."""
    item_call_seconds: float
    """For an item and a call: the same in all rows where the cost is linear in both."""
    network_share: float
    """The part of the time that was spent in the network."""
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
    """Passes over all items for about so many seconds, at least one."""
    sizes = batch_sizes(num_items, batch_size)
    how: Any = {"num_items": num_items, "batch_size": batch_size, "compiles": runtime.compile}
    with runtime.autocast(), for_many_calls(model, num_calls=schedule.num_calls, **how) as called:
        watched = WatchedModel(called, runtime.device)
        warm_up(watched, schedule, {*sizes})
        synchronize(runtime.device)
        watched.watch.reset()
        reset_peak(runtime)
        pass_seconds, passes = _seconds_a_pass(lambda: draw_batches(watched, schedule, sizes), seconds)
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
    """A preset's model with the weights that training begins with."""
    return build_ardm(config, random_corpus(config).num_classes).to(runtime.device).eval()


def warm_up(model: "WatchedModel", schedule: Schedule, sizes: set[int]) -> None:
    """Begin to draw a batch of each size, on CUDA to the end and again."""
    on_cuda = model.device.type == "cuda"
    for size in sizes:
        for batch in range(WARMUP_BATCHES if on_cuda else 1):
            generator = batch_generator(0, batch, model.device)
            draw_batch(model, schedule, size, generator, None if on_cuda else WARMUP_CALLS)


def draw_batches(model: "WatchedModel", schedule: Schedule, sizes: list[int]) -> None:
    """Draw the batches one after the other and bring the items to the host."""
    for batch, size in enumerate(sizes):
        draw_batch(model, schedule, size, batch_generator(0, batch, model.device))


def draw_batch(
    model: "WatchedModel", schedule: Schedule, size: int, generator: torch.Generator, most_calls: int | None = None
) -> None:
    """Draw items in random orders, or begin to, and bring them to the host."""
    orders = random_stage_orders(size, model.num_stages, model.num_variables, generator)
    for call, step in enumerate(sample_chain(model, orders, schedule, generator), start=1):
        if call in (schedule.num_calls, most_calls):
            step.shown(model.depth).cpu()
            return


def _seconds_a_pass(draw: Callable[[], None], seconds: float) -> tuple[float, int]:
    """The mean time of a pass, and of how many; a pass ends with items on the host, so that nothing is under way."""
    started, passes = time.perf_counter(), 0
    while passes == 0 or time.perf_counter() - started < seconds:
        draw()
        passes += 1
    return (time.perf_counter() - started) / passes, passes


class WatchedModel(ARDM):
    """A model with the same network, whose calls are timed."""

    def __init__(self, model: ARDM, device: torch.device) -> None:
        super().__init__(model.network, model.parametrization, model.shape)
        self._model, self.device, self.watch = model, device, Stopwatch(device)

    def outputs(self, *arguments: Tensor | None) -> Tensor:
        """The network's outputs."""
        with self.watch.running():
            return self._model.outputs(*arguments)  # type: ignore[arg-type]
