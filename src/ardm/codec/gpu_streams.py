"""The entropy decoder on a GPU, which waits for the CPU only near the end of a stream; and the test of its kernels."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int, Int32, Int64
from torch import Tensor

from ardm.codec import frequencies, gpu_kernels
from ardm.codec.calls import to_device
from ardm.codec.decoder import Streams, rows_between
from ardm.codec.encoder import Encoder
from ardm.codec.gpu import exponential


class GpuStreams(Streams):
    """`Streams` for rows in which all symbols are reachable. Damage is found at the end of a stream."""

    def __init__(self, payloads: Sequence[bytes], num_symbols: Sequence[int], device: torch.device) -> None:
        super().__init__(payloads, num_symbols)
        arrays = (self._state.view(np.int64), self._words.view(np.int32), self._begin, self._end)
        self._arrays = [torch.from_numpy(array).to(device) for array in arrays]

    def read(
        self, weights: Int32[Tensor, "N C"], bounds: Int[np.ndarray, "G 2"], streams: Int[np.ndarray, "G"]
    ) -> Int64[Tensor, "N"]:
        """See `Streams.read`; the groups of a stream must be consecutive."""
        firsts = np.flatnonzero(np.diff(streams, prepend=-1))
        stream, begin = streams[firsts], bounds[firsts, 0]
        end = np.append(begin[1:], bounds[-1:, 1])
        cut = np.minimum(end, begin + self._num_before_last[stream])
        self._num_before_last[stream] -= cut - begin
        symbols = gpu_kernels.read(weights, *to_device([stream, begin, cut], weights.device), *self._arrays)
        is_last = cut < end
        if is_last.any():
            rows = rows_between(cut[is_last], end[is_last])
            self._state, self._end = (self._arrays[i].cpu().numpy() for i in (0, 3))
            self._state = self._state.view(np.uint64)
            self._note_damage()
            index = torch.from_numpy(rows).to(weights.device)
            last = self._read_last(weights[index].cpu().numpy(), stream[is_last], (end - cut)[is_last])
            symbols[index] = torch.from_numpy(last).to(weights.device)
        return symbols


def kernels_pass_test(device: torch.device, width: int) -> bool:
    """Whether a device gives the weights of a CPU for random rows of more than a tile, and reads symbols back."""
    rng, num_rows = np.random.default_rng(0), 100 + 2 * gpu_kernels.TILE // width
    logits = rng.integers(-(2**23), 2**23, (num_rows, 2 * width)) >> rng.integers(0, 22, (num_rows, 1))
    logits, first = logits.astype(np.int32), rng.integers(0, width, num_rows)
    for count in (rng.integers(1, width + 1, num_rows), np.full(num_rows, width)):
        weights = frequencies.softmax_weights(logits, first, count, width)
        outputs, begin, size = (torch.from_numpy(array).to(device) for array in (logits, first, count))
        moved = gpu_kernels.softmax_weights(outputs, begin, size, width, exponential(device))
        if not np.array_equal(moved.cpu().numpy(), weights):
            return False
    return _reads_back(rng.integers(0, width, num_rows), weights, moved)


def _reads_back(
    symbols: Int64[np.ndarray, "N"], weights: Int32[np.ndarray, "N C"], moved: Int32[Tensor, "N C"]
) -> bool:
    """Whether two streams written with these weights give their symbols and checks back."""
    bounds = np.array([[0, len(symbols) // 4], [len(symbols) // 4, len(symbols)]])
    payloads = []
    for begin, end in bounds:
        encoder = Encoder()
        encoder.write(symbols[begin:end], weights[begin:end])
        payloads.append(encoder.finish(check=1))
    streams = GpuStreams(payloads, np.diff(bounds).ravel().tolist(), moved.device)
    found = streams.read(moved, bounds, np.arange(2)).cpu().numpy()
    return np.array_equal(found, symbols) and [streams.check(stream) for stream in range(2)] == [1, 1]
