"""Calls of networks on a GPU as recorded graphs: one launch instead of hundreds.

Calls are recorded where sizes come again, and only on a stream that is a thread's own (`own_stream`). The default
stream cannot be recorded, and PyTorch deals out the same few streams over and over: work that another thread gave to a
stream while it is being recorded would not be done, but recorded as well.
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
"""Calls of a size before it is recorded, which takes as long as some calls."""
MAX_RECORDINGS = 24
"""Recordings that a thread keeps; the one that was used longest ago goes first."""
MIN_WANTED = 64
"""At least so many variables are computed in a recorded call."""
_RECORDING = threading.Lock()
"""One thread records at a time."""

Key = tuple[torch.Size, ...]


class CapturedCall:
    """One call, recorded on the current stream with tensors of its own."""

    def __init__(self, function: Callable[..., Tensor], arguments: Sequence[Tensor], pool: Any) -> None:
        self._arguments = [x.clone() for x in arguments]
        self._graph = torch.cuda.CUDAGraph()
        with _RECORDING:
            self._graph.capture_begin(pool, capture_error_mode="relaxed")  # other threads go on meanwhile
            try:
                self._result = function(*self._arguments)
            except BaseException:
                with suppress(RuntimeError):  # that it failed is known
                    self._graph.capture_end()
                raise
            self._graph.capture_end()

    def replay(self, arguments: Sequence[Tensor]) -> Tensor:
        """What the function gives for other arguments of the same sizes."""
        torch._foreach_copy_(self._arguments, list(arguments))
        self._graph.replay()
        return self._result.clone()


@dataclass
class _StreamsOfThread(threading.local):
    """The streams that are a thread's own, by device."""

    by_device: dict[torch.device, torch.cuda.Stream] = field(default_factory=dict)


_STREAMS = _StreamsOfThread()


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Compute on this thread's own stream of a CUDA device; what is computed there is done when the context ends."""
    if device.type != "cuda":
        yield
        return
    if device not in _STREAMS.by_device:  # PyTorch has only 32, and deals them out again
        _STREAMS.by_device[device] = torch.cuda.Stream(device)
    stream = _STREAMS.by_device[device]
    stream.wait_stream(torch.cuda.current_stream(device))
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        stream.synchronize()


@dataclass
class _OfThread(threading.local):
    """The recordings of a thread, which may share memory as they never play at once."""

    num_calls: Counter[Key] = field(default_factory=Counter)
    recordings: OrderedDict[Key, CapturedCall] = field(default_factory=OrderedDict)
    refused: set[Key] = field(default_factory=set)
    """Sizes that could not be recorded, for want of memory or for another reason."""
    pool: Any = None


class Recorded:
    """A function of tensors on a GPU that does not look at their values."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self._function, self._own = function, _OfThread()

    def __call__(self, *arguments: Tensor) -> Tensor:
        """The function's result, by a recording of a call of these sizes if they come again."""
        device = arguments[0].device
        if torch.cuda.current_stream(device) == torch.cuda.default_stream(device):
            return self._function(*arguments)
        recording = self._recording(tuple(x.shape for x in arguments), arguments)
        return self._function(*arguments) if recording is None else recording.replay(arguments)

    def _recording(self, key: Key, arguments: Sequence[Tensor]) -> CapturedCall | None:
        """The recording of calls of these sizes, a new one if they have come often enough; None if there is none."""
        own = self._own
        if key in own.recordings:
            own.recordings.move_to_end(key)
            return own.recordings[key]
        own.num_calls[key] += 1
        if own.num_calls[key] <= CALLS_BEFORE or key in own.refused:
            return None
        own.pool = own.pool or torch.cuda.graph_pool_handle()
        try:
            own.recordings[key] = CapturedCall(self._function, arguments, own.pool)
        except RuntimeError:
            own.refused.add(key)
            return None
        if len(own.recordings) > MAX_RECORDINGS:
            oldest, _ = own.recordings.popitem(last=False)
            own.num_calls[oldest] = 0
        return own.recordings[key]


def padded(where: Int[Tensor, "B N"]) -> Int[Tensor, "B M"]:
    """As many wanted variables as a power of two, so that few sizes come again and again."""
    num_wanted = where.shape[1]
    return F.pad(where, (0, max(MIN_WANTED, 1 << (num_wanted - 1).bit_length()) - num_wanted))
