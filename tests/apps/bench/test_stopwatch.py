"""Seconds in a place: added up, counted once where they overlap, and of a GPU by its own events."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from ardm.apps.bench.stopwatch import Stopwatch, covered

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("spans", "length"),
    [([], 0), ([(1.0, 3.0)], 2), ([(5.0, 6.0), (1.0, 3.0), (2.0, 4.0), (2.0, 3.0)], 4), ([(1.0, 2.0), (2.0, 4.0)], 3)],
)
def test_what_spans_cover(spans, length):
    assert covered(spans) == length


def test_seconds_add_up(monkeypatch):
    watch, clock = Stopwatch(CPU), iter([1.0, 1.25, 5.0, 7.5])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    for _ in range(2):
        with watch.running():
            pass
    assert watch.seconds == watch.seconds == 2.75
    watch.reset()
    assert watch.seconds == 0


def test_threads_count_once():
    watch, together = Stopwatch(CPU), threading.Barrier(3)

    def stay(_):
        with watch.running():
            together.wait()
            time.sleep(0.2)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(stay, range(3)))
    assert 0.2 <= watch.seconds < 0.6


def test_a_gpu_is_timed_by_its_events_and_waited_for_at_the_end(monkeypatch):
    """Two calls that overlap on it, told in milliseconds."""
    times, waits = iter([10.0, 30.0, 20.0, 50.0]), []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.time = next(times)

        def elapsed_time(self, later):
            assert waits
            return later.time - self.time

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", waits.append)
    watch = Stopwatch(CUDA)
    for _ in range(2):
        with watch.running():
            pass
    assert not waits
    assert watch.seconds == pytest.approx(0.04)
