"""Batches in threads: a GPU computes for some while the symbols of others are read."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import torch

from ardm.runtime.cuda_graphs import own_stream

Result = TypeVar("Result")

BATCHES_AT_A_TIME = {"cpu": 1, "cuda": 4}
"""Batches that are coded at a time, by the kind of device; exact networks have threads of their own on a CPU."""
LEAST_ROWS = 256
"""Rows below which a batch is not split for more threads."""


def rows_of_a_batch(num_rows: int, batch_size: int, device: torch.device) -> int:
    """How many rows of all to take at once, so that those of the batches under way are no more than `batch_size`."""
    num_threads = BATCHES_AT_A_TIME[device.type]
    return max(1, min(batch_size // num_threads, max(LEAST_ROWS, -(-num_rows // num_threads))))


def in_threads(device: torch.device, function: Callable[..., Result], *columns: Iterable[Any]) -> Iterator[Result]:
    """What a function makes of each row of the columns, in turn, several at a time where the device is a GPU."""
    num_threads = BATCHES_AT_A_TIME[device.type]
    if num_threads == 1:
        yield from map(function, *columns)
        return
    under_way: deque[Future[Result]] = deque()
    for row in zip(*columns, strict=True):
        if len(under_way) == num_threads:
            yield under_way.popleft().result()
        under_way.append(_pool(num_threads).submit(_on_own_stream, device, function, *row))
    yield from (future.result() for future in under_way)


@cache
def _pool(num_threads: int) -> ThreadPoolExecutor:
    """Threads that stay, as they keep recordings of calls (see `recordings`)."""
    return ThreadPoolExecutor(num_threads)


def _on_own_stream(device: torch.device, function: Callable[..., Result], *arguments: Any) -> Result:
    """What a function gives, computed where no other thread's computing is waited for."""
    with own_stream(device):
        return function(*arguments)
