"""Calls of networks on a GPU as recorded graphs: one launch instead of hundreds.

Calls are recorded where sizes come again, and only on a stream that is a thread's own (`own_stream`). The default
stream cannot be recorded, and PyTorch deals out the same few streams over and over: work that another thread gave to a
stream while it is being recorded would not be done, but recorded as well.
"""

import copy
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from ardm.model import ARDM
from ardm.runtime import compile_blocks

CALLS_BEFORE = 2
"""Calls of a size before it is recorded, which takes as long as some calls."""
MOST_RECORDINGS = 24
"""Recordings that a thread keeps; the one that was used longest ago goes first."""
CALLS_TO_COMPILE = 1000
"""So many calls are made sooner if a network is compiled first, which takes some ten seconds."""
FEWEST_WANTED = 64
"""At least so many variables are computed in a recorded call."""
_RECORDING = threading.Lock()
"""One thread records at a time."""

Key = tuple[torch.Size, ...]


class Recording:
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
    stream = _STREAMS.by_device.setdefault(device, torch.cuda.Stream(device))
    stream.wait_stream(torch.cuda.default_stream(device))
    with torch.cuda.stream(stream):
        yield
    stream.synchronize()


@dataclass
class _OfThread(threading.local):
    """The recordings of a thread, which may share memory as they never play at once."""

    num_calls: Counter[Key] = field(default_factory=Counter)
    recordings: OrderedDict[Key, Recording] = field(default_factory=OrderedDict)
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

    def _recording(self, key: Key, arguments: Sequence[Tensor]) -> Recording | None:
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
            own.recordings[key] = Recording(self._function, arguments, own.pool)
        except RuntimeError:
            own.refused.add(key)
            return None
        if len(own.recordings) > MOST_RECORDINGS:
            oldest, _ = own.recordings.popitem(last=False)
            own.num_calls[oldest] = 0
        return own.recordings[key]


def padded(where: Int[Tensor, "B N"]) -> Int[Tensor, "B M"]:
    """As many wanted variables as a power of two, so that few sizes come again and again."""
    num_wanted = where.shape[1]
    return F.pad(where, (0, max(FEWEST_WANTED, 1 << (num_wanted - 1).bit_length()) - num_wanted))


@contextmanager
def for_many_calls(model: ARDM, num_calls: int, batch_size: int, *, compiles: bool = True) -> Iterator[ARDM]:
    """A context in which to call a model often, without gradients, and the model to call: the same, sooner on a GPU.

    So many calls are expected, for so many items each at most. The context must lie within the autocast, if any, that
    they are to have. Exact networks record by themselves.
    """
    device = model.depth.levels.device
    is_exact = next(model.network.parameters(), None) is None
    with own_stream(device):
        if device.type == "cpu" or is_exact:
            yield model
        else:
            yield RecordedModel(model, batch_size if compiles and num_calls >= CALLS_TO_COMPILE else None)


class RecordedModel(ARDM):
    """A model as another, whose calls for some variables a GPU plays from recordings.

    Under autocast the matrices of its blocks are rounded once, and not in every call. With a batch size the blocks are
    compiled, for batches of this size: smaller ones are filled up.
    """

    def __init__(self, model: ARDM, compiled_size: int | None = None) -> None:
        network = copy.deepcopy(model.network).requires_grad_(False)
        if compiled_size is not None:
            compile_blocks(network)
        if torch.is_autocast_enabled(model.depth.levels.device.type):
            round_blocks(network)
        super().__init__(network, model.parametrization, model.shape)
        self._recorded, self._compiled_size = Recorded(super()._network_outputs), compiled_size

    def _network_outputs(
        self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor, where: Tensor | None
    ) -> Float[Tensor, "B M O"]:
        if where is None:
            return super()._network_outputs(inputs, mask, stage, t, None)
        num_items, num_wanted = where.shape
        arguments = [with_rows(x, self._compiled_size or num_items) for x in (inputs, mask, stage, t, padded(where))]
        return self._recorded(*arguments)[:num_items, :num_wanted]


def with_rows(x: Shaped[Tensor, "B *C"], num_rows: int) -> Shaped[Tensor, "N *C"]:
    """The tensor with as many rows, the last of zeros."""
    return F.pad(x, (0, 0) * (x.ndim - 1) + (0, num_rows - len(x)))


def round_blocks(network: nn.Module) -> None:
    """Turn the matrices inside a network's blocks to bfloat16, as autocast does in every call."""
    for name, parameter in network.named_parameters():
        if "blocks." in name and parameter.ndim > 1:
            parameter.data = parameter.bfloat16()
