"""The weights of softmax rows where a network's outputs are: from a GPU there is less to copy, and the CPU is free.

The rule is in `frequencies`, and so is the loop that serves on a CPU.
"""

from functools import cache

import torch
from jaxtyping import Int, Int32, Integer
from torch import Tensor

from ardm.codec import frequencies
from ardm.codec.frequencies import TOTAL_WEIGHT
from ardm.codec.gpu import has_kernels
from ardm.codec.tables import EXPONENTIAL


def softmax_weights(
    outputs: Integer[Tensor, "N O"], first: Int[Tensor, "N"], count: Int[Tensor, "N"], width: int
) -> Int32[Tensor, "N C"]:
    """Rows of `width` weights for the softmax of outputs[first : first + count], one count for each row."""
    if has_kernels(outputs.device, width):
        from ardm.codec import gpu_reading

        return gpu_reading.softmax_weights(outputs, first, count, width, exponential(outputs.device))
    if outputs.device.type == "cpu":
        return torch.from_numpy(frequencies.softmax_weights(outputs.numpy(), first.numpy(), count.numpy(), width))
    return tensor_weights(outputs, first, count, width)


def tensor_weights(
    outputs: Integer[Tensor, "N O"], first: Int[Tensor, "N"], count: Int[Tensor, "N"], width: int
) -> Int[Tensor, "N C"]:
    """The same by operations on tensors of 64-bit integers."""
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
    """The table of that name, on a device."""
    return torch.from_numpy(EXPONENTIAL).to(device)
