"""The reader of payloads on a GPU: decoding goes on there, and waits for a CPU only where a stream ends."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int, Int32, Int64
from torch import Tensor

from ardm.codec import frequencies, gpu_reading
from ardm.codec.calls import sent
from ardm.codec.coder import Encoder
from ardm.codec.streams import Streams, rows_between
from ardm.codec.tables import EXPONENTIAL


class GpuStreams(Streams):
    """Streams as `Streams`, for rows in which all symbols are reachable. Damage shows where a stream ends."""

    def __init__(self, payloads: Sequence[bytes], num_symbols: Sequence[int], device: torch.device) -> None:
        super().__init__(payloads, num_symbols)
        arrays = (self._state.view(np.int64), self._words.view(np.int32), self._begin, self._end)
        self._there = [torch.from_numpy(array).to(device) for array in arrays]

    def read(
        self, weights: Int32[Tensor, "N C"], bounds: Int[np.ndarray, "G 2"], streams: Int[np.ndarray, "G"]
    ) -> Int64[Tensor, "N"]:
        """See `Streams.read`; the groups of a stream must follow each other."""
        firsts = np.flatnonzero(np.diff(streams, prepend=-1))
        own, begin = streams[firsts], bounds[firsts, 0]
        end = np.append(begin[1:], bounds[-1:, 1])
        cut = np.minimum(end, begin + self._num_others[own])
        self._num_others[own] -= cut - begin
        symbols = gpu_reading.read(weights, *sent([own, begin, cut], weights.device), *self._there)
        is_last = cut < end
        if is_last.any():
            rows = rows_between(cut[is_last], end[is_last])
            self._fetch_states()
            there = torch.from_numpy(rows).to(weights.device)
            last = self._read_last(weights[there].cpu().numpy(), own[is_last], (end - cut)[is_last])
            symbols[there] = torch.from_numpy(last).to(weights.device)
        return symbols

    def _fetch_states(self) -> None:
        state, _, _, end = self._there
        self._state, self._end = state.cpu().numpy().view(np.uint64), end.cpu().numpy()
        self._note_damage()


def kernels_pass_test(device: torch.device, width: int) -> bool:
    """Whether random symbols of two streams come back on a device, by weights that are those of a CPU."""
    rng, num_rows = np.random.default_rng(0), 200
    logits = (rng.integers(-(2**23), 2**23, (num_rows, 2 * width)) >> rng.integers(0, 22, (num_rows, 1))).astype(
        np.int32
    )
    symbols, first = rng.integers(0, width, num_rows), rng.integers(0, width, num_rows)
    count = np.full(num_rows, width)
    weights = frequencies.softmax_weights(logits, first, count, width)
    bounds = np.array([[0, num_rows // 4], [num_rows // 4, num_rows]])
    payloads = []
    for begin, end in bounds:
        encoder = Encoder()
        encoder.write(symbols[begin:end], weights[begin:end])
        payloads.append(encoder.finish(check=1))
    outputs, *reach, table = (torch.from_numpy(array).to(device) for array in (logits, first, count, EXPONENTIAL))
    there = gpu_reading.softmax_weights(outputs, reach[0], reach[1], width, table)
    streams = GpuStreams(payloads, np.diff(bounds).ravel().tolist(), device)
    found = streams.read(there, bounds, np.arange(2)).cpu().numpy()
    checks = [streams.check(stream) for stream in range(2)]
    return np.array_equal(there.cpu().numpy(), weights) and np.array_equal(found, symbols) and checks == [1, 1]
