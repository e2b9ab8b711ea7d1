"""Time spent in some place, such as a network, without waiting for a GPU there: CUDA notes the times itself."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

Span = tuple[float, float]


class Stopwatch:
    """Counts the seconds in which some thread is in a place, or a GPU computes what it was given there."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.reset()

    def reset(self) -> None:
        """Begin at zero."""
        self._spans: list[Span] = []
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count what happens in this context."""
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
        """What was counted, once where several threads were there; a GPU is waited for, no thread may be there."""
        if not self._events:
            return covered(self._spans)
        torch.cuda.synchronize(self._device)
        first = self._events[0][0]
        return covered([(first.elapsed_time(begin), first.elapsed_time(end)) for begin, end in self._events]) / 1000


def covered(spans: Sequence[Span]) -> float:
    """The length of what spans cover together."""
    total, reached = 0.0, -math.inf
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, reached))
        reached = max(reached, stop)
    return total
