"""Mean and median times of functions, and the time spent in a network without waiting for a GPU."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

Span = tuple[float, float]


class Stopwatch:
    """Measures the time that threads spend in a context or, on CUDA, that the GPU spends on work started there."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.reset()

    def reset(self) -> None:
        """Forget the time so far."""
        self._spans: list[Span] = []
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """A context whose time is measured."""
        if self._device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            yield
            end.record()
            self._events.append((begin, end))
        else:
            started = time.perf_counter()
            yield
            self._spans.append((started, time.perf_counter()))

    @property
    def seconds(self) -> float:
        """The time so far, counting overlaps once; waits for a GPU. No thread may be in the context."""
        if not self._events:
            return covered(self._spans)
        torch.cuda.synchronize(self._device)
        first = self._events[0][0]
        return covered([(first.elapsed_time(begin), first.elapsed_time(end)) for begin, end in self._events]) / 1000


def covered(spans: Sequence[Span]) -> float:
    """The length of the union of spans."""
    total, reached = 0.0, -math.inf
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, reached))
        reached = max(reached, stop)
    return total


def synchronize(device: torch.device) -> None:
    """Wait for a CUDA device to finish its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_per_step(
    step: Callable[[], object], device: torch.device, seconds: float, *, steps_at_once: int = 5
) -> float:
    """The mean time of steps, taken for about this many seconds; the clock is read after every few of them."""
    synchronize(device)
    started, steps = time.perf_counter(), 0
    while steps == 0 or time.perf_counter() - started < seconds:
        for _ in range(steps_at_once):
            step()
        steps += steps_at_once
        synchronize(device)
    return (time.perf_counter() - started) / steps


def median_seconds(
    runs: Sequence[Callable[[], object]], device: torch.device, *, min_rounds: int, seconds: float = 0.0
) -> list[float]:
    """The median time of each function; they take turns for about `seconds`, so that disturbances affect all alike."""
    times: list[list[float]] = []
    started = time.perf_counter()
    while len(times) < min_rounds or time.perf_counter() - started < seconds:
        times.append([seconds_per_step(run, device, 0.0, steps_at_once=1) for run in runs])
    return list(map(statistics.median, zip(*times, strict=True)))
