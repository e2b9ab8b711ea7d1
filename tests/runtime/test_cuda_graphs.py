"""Recorded calls; what is recorded itself is tested on a GPU, in `test_cuda`."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import count

import pytest
import torch

from ardm.runtime.cuda_graphs import own_stream, padded


@pytest.mark.parametrize(("wanted", "computed"), [(1, 64), (64, 64), (65, 128), (300, 512)])
def test_few_sizes_come_again(wanted, computed):
    where = torch.arange(wanted).expand(2, -1)
    assert padded(where).shape == (2, computed)
    assert torch.equal(padded(where)[:, :wanted], where)


class FakeStream:
    """One of the streams that PyTorch deals out in turn."""

    def __init__(self, number):
        self.number, self.events = number, []

    def wait_stream(self, other):
        self.events.append(f"wait for {other}")

    def synchronize(self):
        self.events.append("synchronize")


def test_a_thread_has_one_stream_of_its_own(monkeypatch):
    numbers, used = count(), []
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: FakeStream(next(numbers) % 32))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "the caller's")
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: used.append(stream) or nullcontext())

    def use(times):
        for _ in range(times):
            with own_stream(torch.device("cuda", 0)):
                used[-1].events.append("compute")
        return used[-1]

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        first, second = one.submit(use, 32).result(), other.submit(use, 1).result()
    assert (first.number, second.number) == (0, 1)
    assert second.events == ["wait for the caller's", "compute", "synchronize"]


def test_what_fails_is_waited_for_too(monkeypatch):
    stream = FakeStream(0)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "the caller's")
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    with ThreadPoolExecutor(1) as thread, pytest.raises(ZeroDivisionError):
        thread.submit(fail_on_own_stream).result()
    assert stream.events == ["wait for the caller's", "synchronize"]


def fail_on_own_stream():
    with own_stream(torch.device("cuda", 0)):
        raise ZeroDivisionError
