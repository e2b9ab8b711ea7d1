"""Models whose calls a GPU replays from recordings, for sampling and other work with many calls."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from ardm.model import ARDM, Context
from ardm.nn.blocks import compile_blocks
from ardm.runtime.cuda_graphs import Recorded, own_stream, padded

CALLS_TO_COMPILE = 10_000
"""A network is compiled for at least this many calls: compiling takes some ten seconds and saves at least a millisecond
per call of a full batch."""


@contextmanager
def recorded(model: ARDM, *, num_items: int, batch_size: int, num_calls: int, compiles: bool = True) -> Iterator[ARDM]:
    """A context with a faster form of a model on a GPU, to be called often and without gradients.

    Each batch of items takes `num_calls` calls. Enter the context inside the autocast, if any, that the calls use.
    Exact networks make their own recordings.
    """
    device = model.depth.levels.device
    is_exact = next(model.network.parameters(), None) is None
    size = size_to_compile(num_items, batch_size, num_calls) if compiles else None
    with own_stream(device):
        yield model if device.type == "cpu" or is_exact else RecordedModel(model, size)


def size_to_compile(num_items: int, batch_size: int, num_calls: int) -> int | None:
    """The batch size to compile a network for, the same on all processes of a team; None if the calls are too few."""
    num_batches = -(-num_items // batch_size)
    return min(num_items, batch_size) if num_batches * num_calls >= CALLS_TO_COMPILE else None


class RecordedModel(ARDM):
    """A copy of a model whose calls for some variables a GPU replays from recordings.

    Under autocast the matrices of its blocks are rounded once instead of in every call. With a compiled size the blocks
    are compiled for batches of this size, and smaller batches are padded.
    """

    def __init__(self, model: ARDM, compiled_size: int | None = None) -> None:
        network, device_type = copy.deepcopy(model.network).requires_grad_(False), model.depth.levels.device.type
        if compiled_size is not None:
            compile_blocks(network)
        if torch.is_autocast_enabled(device_type):
            round_blocks(network, torch.get_autocast_dtype(device_type))
        super().__init__(network, model.parametrization, model.shape)
        plain = ARDM(network, model.parametrization, model.shape)  # not self, which would keep itself alive
        self._recorded, self._compiled_size = Recorded(plain._network_outputs), compiled_size

    def _network_outputs(
        self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor, where: Tensor | None, context: Context = None
    ) -> Float[Tensor, "B M O"]:
        if where is None or context is not None:
            return super()._network_outputs(inputs, mask, stage, t, where, context)
        num_items, num_wanted = where.shape
        arguments = [with_rows(x, self._compiled_size or num_items) for x in (inputs, mask, stage, t, padded(where))]
        return self._recorded(*arguments)[:num_items, :num_wanted]


def with_rows(x: Shaped[Tensor, "B *C"], num_rows: int) -> Shaped[Tensor, "N *C"]:
    """The tensor padded with rows of zeros to `num_rows` rows."""
    if len(x) > num_rows:
        raise ValueError(f"expected at most {num_rows} items, got {len(x)}")
    if len(x) == num_rows:
        return x  # F.pad would copy it
    return F.pad(x, (0, 0) * (x.ndim - 1) + (0, num_rows - len(x)))


def round_blocks(network: nn.Module, dtype: torch.dtype) -> None:
    """Round the matrices of a network's blocks in place, as autocast does in every call."""
    for name, parameter in network.named_parameters():
        if "blocks." in name and parameter.ndim > 1:
            parameter.data = parameter.to(dtype)
