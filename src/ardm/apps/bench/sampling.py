"""Time and memory of sampling in batches, as `ardm sample` does."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ardm.apps.bench.stopwatch import Stopwatch, seconds_per_step, synchronize
from ardm.apps.bench.training import peak_bytes, random_corpus, reset_peak
from ardm.build import build_ardm
from ardm.config import RunConfig
from ardm.model import ARDM
from ardm.nn.recorded import recorded
from ardm.runtime.device import Runtime
from ardm.sample import BATCH_SIZE, batch_generator, batch_sizes
from ardm.schedule import Schedule, uniform_schedule
from ardm.tasks.draw import DrawOptions, chain, draw_batches, keep_states

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
    """Calls per item."""
    batch_size: int
    """Maximum number of items per call."""
    seconds: float
    """Seconds for all items, with their orders and the copy to the host."""
    items_per_second: float
    call_seconds: float
    """Seconds per call of a batch, everything included."""
    item_call_seconds: float
    """Seconds per item and call: the same in all rows if the cost is linear in both."""
    network_share: float
    """Fraction of the time spent in the network."""
    peak_bytes: int | None
    """Peak memory of a CUDA device."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A model to draw items from."""

    name: str
    model: ARDM
    num_parameters: int
    schedule_of: Callable[[int], Schedule]
    """The schedule with a number of calls."""


def random_source(config: RunConfig, runtime: Runtime) -> Source:
    """A preset's model with its initial weights and uniform schedules."""
    model = build_ardm(config, random_corpus(config).num_classes).to(runtime.device).eval()
    return Source(
        name=config.preset,
        model=model,
        num_parameters=sum(p.numel() for p in model.parameters()),
        schedule_of=partial(uniform_schedule, model.num_variables, num_stages=model.num_stages),
    )


def time_sampling(
    source: Source,
    schedule: Schedule,
    runtime: Runtime,
    *,
    num_items: int,
    batch_size: int = BATCH_SIZE,
    seconds: float = 10.0,
) -> SampleTiming:
    """The timing of at least one pass over all items, repeated for about this many seconds."""
    sizes, num_calls = batch_sizes(num_items, batch_size), schedule.num_calls
    kwargs: Any = {"num_items": num_items, "batch_size": batch_size}
    ready = recorded(source.model, num_calls=num_calls, compiles=runtime.compile, **kwargs)
    with runtime.autocast(), ready as called:
        model = WatchedModel(called, runtime.device)
        warm_up(model, schedule, {*sizes})
        synchronize(runtime.device)
        model.watch.reset()
        reset_peak(runtime)
        started = time.perf_counter()
        start, options = partial(chain, model, schedule), DrawOptions(**kwargs)
        draw = partial(draw_batches, start, num_calls, model.shape, runtime, options)
        pass_seconds = seconds_per_step(draw, runtime.device, seconds, steps_at_once=1)
        network_share = model.watch.seconds / (time.perf_counter() - started)
    return SampleTiming(
        model=source.name,
        num_parameters=source.num_parameters,
        num_items=num_items,
        num_calls=num_calls,
        batch_size=min(batch_size, num_items),
        seconds=pass_seconds,
        items_per_second=num_items / pass_seconds,
        call_seconds=pass_seconds / (num_calls * len(sizes)),
        item_call_seconds=pass_seconds / (num_calls * num_items),
        network_share=network_share,
        peak_bytes=peak_bytes(runtime),
    )


def warm_up(model: "WatchedModel", schedule: Schedule, sizes: set[int]) -> None:
    """Make the first few calls for a batch of each size; on CUDA draw several whole batches."""
    on_cuda = model.device.type == "cuda"
    num_calls = schedule.num_calls if on_cuda else min(WARMUP_CALLS, schedule.num_calls)
    for size in sizes:
        for batch in range(WARMUP_BATCHES if on_cuda else 1):
            keep_states(chain(model, schedule, size, batch_generator(0, batch, model.device)), [num_calls])


class WatchedModel(ARDM):
    """A model whose calls of the network are timed."""

    def __init__(self, model: ARDM, device: torch.device) -> None:
        super().__init__(model.network, model.parametrization, model.shape)
        self._model, self.device, self.watch = model, device, Stopwatch(device)

    def outputs(self, *arguments: Tensor | None) -> Tensor:
        with self.watch.running():
            return self._model.outputs(*arguments)  # type: ignore[arg-type]
