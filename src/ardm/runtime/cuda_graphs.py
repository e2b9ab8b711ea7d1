"""Network calls captured as CUDA graphs: one launch instead of hundreds.

A call is captured once its input sizes repeat, and only on a stream that belongs to the thread (`own_stream`). The
default stream cannot be captured, and PyTorch hands out the same few streams again and again: work that another thread
submits to a stream during capture would be captured instead of executed.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

CALLS_BEFORE = 2
"""Ordinary calls of a size before one is captured, since capturing takes as long as several calls."""
MAX_CAPTURED = 24
"""Captured calls that a thread keeps; the least recently used one is dropped first."""
MIN_VARIABLES = 64
"""Smallest number of variables that a captured call computes."""
_CAPTURE_LOCK = threading.Lock()
"""Held by the one thread that captures."""
_STREAMS = threading.local()
"""The streams that belong to a thread, by the name of their device."""

Key = tuple[torch.Size, ...]


class CapturedCall:
    """One call, captured on the current stream with its own input tensors."""

    def __init__(self, function: Callable[..., Tensor], arguments: Sequence[Tensor], pool: Any) -> None:
        self._arguments = [x.clone() for x in arguments]
        self._graph = torch.cuda.CUDAGraph()
        with _CAPTURE_LOCK:
            self._graph.capture_begin(pool, capture_error_mode="relaxed")  # other threads keep working meanwhile
            try:
                self._result = function(*self._arguments)
            except BaseException:
                with suppress(RuntimeError):  # the failure is already raised
                    self._graph.capture_end()
                raise
            self._graph.capture_end()

    def replay(self, arguments: Sequence[Tensor]) -> Tensor:
        """The function's result for other arguments of the same sizes."""
        torch._foreach_copy_(self._arguments, list(arguments))
        self._graph.replay()
        return self._result.clone()


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Compute on this thread's own stream of a CUDA device, and synchronise it at the end."""
    if device.type != "cuda":
        yield
        return
    streams: dict[str, torch.cuda.Stream] = vars(_STREAMS)
    if str(device) not in streams:  # PyTorch reuses a pool of 32
        streams[str(device)] = torch.cuda.Stream(device)
    stream = streams[str(device)]
    stream.wait_stream(torch.cuda.current_stream(device))
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        stream.synchronize()


@dataclass
class _CallsOfThread(threading.local):
    """The captured calls of a thread; they share memory, since they never run at the same time."""

    num_calls: Counter[Key] = field(default_factory=Counter)
    captured: OrderedDict[Key, CapturedCall] = field(default_factory=OrderedDict)
    refused: set[Key] = field(default_factory=set)
    """Sizes that could not be captured, for example for lack of memory."""
    pool: Any = None


class Recorded:
    """A function of GPU tensors, captured by input size; its Python code must not depend on their values."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self._function, self._own = function, _CallsOfThread()

    def __call__(self, *arguments: Tensor) -> Tensor:
        """The function's result, replayed from a captured call once its sizes repeat."""
        device = arguments[0].device
        if torch.cuda.current_stream(device) == torch.cuda.default_stream(device):
            return self._function(*arguments)
        call = self._captured_call(tuple(x.shape for x in arguments), arguments)
        return self._function(*arguments) if call is None else call.replay(arguments)

    def _captured_call(self, key: Key, arguments: Sequence[Tensor]) -> CapturedCall | None:
        """The captured call for these sizes, captured now if they have occurred often enough; None if not captured."""
        own = self._own
        if key in own.captured:
            own.captured.move_to_end(key)
            return own.captured[key]
        own.num_calls[key] += 1
        if own.num_calls[key] <= CALLS_BEFORE or key in own.refused:
            return None
        own.pool = own.pool or torch.cuda.graph_pool_handle()
        try:
            own.captured[key] = CapturedCall(self._function, arguments, own.pool)
        except RuntimeError:
            own.refused.add(key)
            return None
        if len(own.captured) > MAX_CAPTURED:
            oldest, _ = own.captured.popitem(last=False)
            own.num_calls[oldest] = 0
        return own.captured[key]


def padded(where: Int[Tensor, "B N"]) -> Int[Tensor, "B M"]:
    """Indices padded to a power of two in number, so that few sizes occur."""
    num_wanted = where.shape[1]
    return F.pad(where, (0, max(MIN_VARIABLES, 1 << (num_wanted - 1).bit_length()) - num_wanted))
