"""Softmax weights and payload readers on the network's device: Triton kernels on a GPU, if these pass a test.

The rules for weights are in `frequencies`, and so is the loop for CPUs.
"""

import threading
import warnings
from collections.abc import Sequence
from functools import cache

import torch
from jaxtyping import Int, Int32, Integer
from torch import Tensor

from ardm.codec import frequencies
from ardm.codec.decoder import Streams
from ardm.codec.frequencies import TOTAL_WEIGHT
from ardm.codec.tables import EXPONENTIAL

MAX_WIDTH = 1024
"""Maximum number of symbols per row that the kernels support."""
_TEST_LOCK = threading.Lock()


def softmax_weights(
    outputs: Integer[Tensor, "N O"], first: Int[Tensor, "N"], count: Int[Tensor, "N"], width: int
) -> Int32[Tensor, "N C"]:
    """Rows of `width` weights for the softmax of outputs[first : first + count], on the device of the outputs."""
    if has_kernels(outputs.device, width):
        from ardm.codec import gpu_kernels

        return gpu_kernels.softmax_weights(outputs, first, count, width, exponential(outputs.device))
    if outputs.device.type == "cpu":
        return torch.from_numpy(frequencies.softmax_weights(outputs.numpy(), first.numpy(), count.numpy(), width))
    return tensor_weights(outputs, first, count, width)


def tensor_weights(
    outputs: Integer[Tensor, "N O"], first: Int[Tensor, "N"], count: Int[Tensor, "N"], width: int
) -> Int[Tensor, "N C"]:
    """`softmax_weights` by PyTorch operations on 64-bit integers, for GPUs without kernels."""
    symbol = torch.arange(width, device=outputs.device)
    is_reachable = symbol < count[:, None]
    index = (first[:, None] + symbol).clamp(max=outputs.shape[1] - 1)
    logits = outputs.gather(1, index).long().masked_fill(~is_reachable, torch.iinfo(torch.int32).min)
    table = exponential(outputs.device)
    distance = (logits.amax(1, keepdim=True) - logits).clamp(max=len(table) - 1)
    shares = table[distance].masked_fill(~is_reachable, 0)
    weights = shares * (TOTAL_WEIGHT - count[:, None]) // shares.sum(1, keepdim=True) + is_reachable
    largest = (shares * width - symbol).argmax(1, keepdim=True)  # the first one on ties
    return weights.scatter_add(1, largest, TOTAL_WEIGHT - weights.sum(1, keepdim=True)).int()


@cache
def exponential(device: torch.device) -> Int[Tensor, "E"]:
    """The table `EXPONENTIAL` on a device."""
    return torch.from_numpy(EXPONENTIAL).to(device)


def streams_for(payloads: Sequence[bytes], num_symbols: Sequence[int], device: torch.device, gpu_width: int) -> Streams:
    """A reader of payloads for weights on a device; see `SymbolMap.gpu_width`."""
    if not (gpu_width and has_kernels(device, gpu_width)):
        return Streams(payloads, num_symbols)
    from ardm.codec.gpu_streams import GpuStreams

    return GpuStreams(payloads, num_symbols, device)


def has_kernels(device: torch.device, width: int) -> bool:
    """Whether a device is a GPU on which the kernels give the results of a CPU for rows of this width."""
    if device.type != "cuda" or width > MAX_WIDTH:
        return False
    with _TEST_LOCK:
        return _pass_test(device, width)


@cache
def _pass_test(device: torch.device, width: int) -> bool:
    """Whether the kernels pass; any error, such as a missing Triton, means the slower fallback."""
    try:
        from ardm.codec.gpu_streams import kernels_pass_test

        if kernels_pass_test(device, width):
            return True
        reason = "their results differ from a CPU's"
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    warnings.warn(f"kernels that read rows of {width} symbols on {device} are not used ({reason})", stacklevel=2)
    return False
