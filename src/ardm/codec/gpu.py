"""Where symbols are weighed and payloads read: by a GPU itself, if its kernels pass a test, or otherwise."""

import threading
import warnings
from collections.abc import Sequence
from functools import cache

import torch

from ardm.codec.streams import Streams

WIDEST = 1024
"""Symbols of a row at most that kernels weigh and read."""
_TESTING = threading.Lock()


def streams_for(payloads: Sequence[bytes], num_symbols: Sequence[int], device: torch.device, gpu_width: int) -> Streams:
    """A reader of payloads whose weights are computed on a device; see `symbols.Spelling.gpu_width`."""
    if not (gpu_width and has_kernels(device, gpu_width)):
        return Streams(payloads, num_symbols)
    from ardm.codec.gpu_streams import GpuStreams

    return GpuStreams(payloads, num_symbols, device)


def has_kernels(device: torch.device, width: int) -> bool:
    """Whether a device is a GPU on which the kernels of `gpu_reading` give what a CPU gives, in rows of a width."""
    if device.type != "cuda" or width > WIDEST:
        return False
    with _TESTING:
        return _pass_test(device, width)


@cache
def _pass_test(device: torch.device, width: int) -> bool:
    """Any error will do for another way, which is slower: without Triton there are no kernels."""
    try:
        from ardm.codec.gpu_streams import kernels_pass_test

        if kernels_pass_test(device, width):
            return True
        reason = "they give other numbers than a CPU"
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    warnings.warn(f"kernels that read rows of {width} symbols on {device} are not used ({reason})", stacklevel=2)
    return False
