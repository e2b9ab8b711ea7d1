"""Batches of coding work: their size, the progress that they report, and threads that keep a GPU busy."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch

from ardm.names import Shape
from ardm.runtime.cuda_graphs import own_stream

Result = TypeVar("Result")
Element = TypeVar("Element")
OnBatch = Callable[[int], None]

BATCH_VARIABLES = {"cpu": 2**18, "cuda": 2**22}
"""Variables in a batch by default, by kind of device."""
CONCURRENT_BATCHES = {"cpu": 1, "cuda": 4}
"""Batches coded at a time, by kind of device; on a CPU exact networks start their own threads."""
MIN_ROWS = 256
"""Batches of fewer rows are not split among threads."""


def ignore(num_rows: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Batch size and progress callbacks; results do not depend on them."""

    batch_size: int | None = None
    """Rows that the network evaluates at once; None: a size that suits the device."""
    num_processes: int = 1
    """Processes that share the work."""
    on_start: OnBatch = ignore
    """Called before the work with an upper bound on its rows."""
    on_batch: OnBatch = ignore
    """Called after each batch with its number of rows."""

    def rows(self, shape: Shape, device: torch.device) -> int:
        """The batch size for items of a shape on a device."""
        return self.batch_size or max(1, BATCH_VARIABLES[device.type] // math.prod(shape))


DEFAULT_BATCHING = Batching()


def rows_per_batch(num_rows: int, batch_size: int, device: torch.device) -> int:
    """The size of batches such that all concurrent ones together hold at most `batch_size` rows."""
    num_threads = CONCURRENT_BATCHES[device.type]
    return max(1, min(batch_size // num_threads, max(MIN_ROWS, -(-num_rows // num_threads))))


def packed(elements: Iterable[Element], size: Callable[[Element], int], limit: int) -> Iterator[list[Element]]:
    """The elements in order, in lists whose sizes sum to at most the limit or that hold a single one."""
    held: list[Element] = []
    total = 0
    for element in elements:
        if held and total + size(element) > limit:
            yield held
            held, total = [], 0
        held.append(element)
        total += size(element)
    if held:
        yield held


def map_batches(device: torch.device, function: Callable[..., Result], *columns: Iterable[Any]) -> Iterator[Result]:
    """Like `map`, but on a GPU several calls run at a time: some compute while others read symbols on the CPU."""
    num_threads = CONCURRENT_BATCHES[device.type]
    if num_threads == 1:
        yield from map(function, *columns)
        return
    pending: deque[Future[Result]] = deque()
    for row in zip(*columns, strict=True):
        if len(pending) == num_threads:
            yield pending.popleft().result()
        pending.append(_pool(num_threads).submit(_on_own_stream, device, function, *row))
    yield from (future.result() for future in pending)


@cache
def _pool(num_threads: int) -> ThreadPoolExecutor:
    """Long-lived threads, because each keeps captured calls (see `cuda_graphs`)."""
    return ThreadPoolExecutor(num_threads)


def _on_own_stream(device: torch.device, function: Callable[..., Result], *arguments: Any) -> Result:
    """The function's result, computed on the thread's own CUDA stream."""
    with own_stream(device):
        return function(*arguments)
