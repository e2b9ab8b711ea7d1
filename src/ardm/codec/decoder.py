"""The entropy decoder: reads the next symbols of many payloads in one compiled call.

See `encoder` for the format of payloads. As long as words are left a state is at least 2^32, hence at least 2^8 after a
symbol and before the next word is added: a state of 0 means that a stream has run out, and gives only symbols 0.
"""

from collections.abc import Sequence
from typing import no_type_check

import numpy as np
import torch
from jaxtyping import Int, Int32, Int64
from torch import Tensor

from ardm.codec.encoder import CHECK_BITS, NUM_LAST, coarse_weights, pop_last
from ardm.codec.frequencies import Weights
from ardm.codec.tables import WEIGHT_BITS
from ardm.runtime.jit import compiled

# Unsigned, because Numba turns mixtures of signed and unsigned integers into floats.
_WEIGHT_BITS = np.uint64(WEIGHT_BITS)
_QUANTILES = np.uint64((1 << WEIGHT_BITS) - 1)
_WORD_BITS = np.uint64(32)


class Streams:
    """Reads groups of symbols from payloads. Damage ends a stream (see `damaged`) or gives wrong symbols."""

    def __init__(self, payloads: Sequence[bytes], num_symbols: Sequence[int]) -> None:
        """`num_symbols` counts the symbols of each payload, including those with no alternative."""
        if len(payloads) != len(num_symbols):
            raise ValueError(f"expected {len(num_symbols)} payloads, got {len(payloads)}")
        self.damaged: dict[int, str] = {}
        """The errors of damaged streams."""
        padded = [payload + bytes(-len(payload) % 4) for payload in payloads]
        for stream, payload in enumerate(payloads):
            if not payload or payload[-1] == 0:
                self.damaged[stream] = "the payload is empty or ends in a zero byte, as no valid one does"
                padded[stream] = b""
        self._state = np.array([int.from_bytes(payload[-8:], "little") for payload in padded], np.uint64)
        self._words = np.frombuffer(b"".join(payload[:-8] for payload in padded), "<u4").astype(np.uint32)
        num_words = np.array([len(payload[:-8]) // 4 for payload in padded], np.int64)
        self._end = num_words.cumsum()
        self._begin = self._end - num_words
        self._num_before_last = np.maximum(np.array(num_symbols, np.int64) - NUM_LAST, 0)
        self._numbers: dict[int, int] = {}

    def read(
        self, weights: Int32[Tensor, "N C"], bounds: Int[np.ndarray, "G 2"], streams: Int[np.ndarray, "G"]
    ) -> Int64[Tensor, "N"]:
        """The next symbols, one per row of weights: rows begin..end-1 are the next group of a stream.

        A stream may have several groups, one after another.
        """
        rows, symbols = weights.cpu().numpy(), np.zeros(len(weights), np.int64)
        arrays = (self._num_before_last, self._state, self._words, self._begin, self._end)
        cuts = _read_before_last(rows, bounds, streams, *arrays, symbols)
        self._note_damage()
        is_last = cuts < bounds[:, 1]
        last = rows_between(cuts[is_last], bounds[is_last, 1])
        if last.size:
            symbols[last] = self._read_last(rows[last], streams[is_last], (bounds[:, 1] - cuts)[is_last])
        return torch.from_numpy(symbols)

    def check(self, stream: int) -> int | None:
        """The check that the encoder wrote; None for a damaged stream."""
        if stream not in self.damaged and not 1 <= self._last_number(stream) <= 1 << CHECK_BITS:
            self.damaged[stream] = "the payload does not end where its symbols do"
        return None if stream in self.damaged else self._last_number(stream) - 1

    def _note_damage(self) -> None:
        """Mark streams that have run out as damaged."""
        for stream in np.flatnonzero(self._state == 0).tolist():
            self.damaged.setdefault(stream, "the payload ends before its symbols")

    def _read_last(
        self, weights: Weights, streams: Int[np.ndarray, "G"], sizes: Int[np.ndarray, "G"]
    ) -> Int64[np.ndarray, "N"]:
        """The next symbols among the last ones, `sizes` of each stream, one stream after another."""
        coarse = coarse_weights(weights)
        symbols = np.empty(len(weights), np.int64)
        ends = sizes.cumsum()
        for stream, begin, end in zip(streams.tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True):
            number = self._last_number(stream)
            self._numbers[stream], symbols[begin:end] = pop_last(number, coarse[begin:end])
        return symbols

    def _last_number(self, stream: int) -> int:
        """The number that holds the last symbols; at first the remaining words and state."""
        if stream not in self._numbers:
            words = self._words[self._begin[stream] : self._end[stream]].astype("<u4").tobytes()
            state = int(self._state[stream]).to_bytes(8, "little")
            self._numbers[stream] = int.from_bytes(words + state, "little")
        return self._numbers[stream]


def rows_between(begin: Int[np.ndarray, "G"], end: Int[np.ndarray, "G"]) -> Int64[np.ndarray, "N"]:
    """The indices begin..end-1 of each pair in turn."""
    sizes = end - begin
    return np.arange(sizes.sum()) + (begin - (sizes.cumsum() - sizes)).repeat(sizes)


@compiled(nogil=True)
@no_type_check
def _read_before_last(weights, bounds, streams, num_before_last, state, words, begin, end, symbols):
    """Fill in the symbols before each stream's last ones; returns the row in each group where the last ones begin."""
    cuts = np.empty(len(streams), np.int64)
    for group in range(len(streams)):
        stream = streams[group]
        first = bounds[group, 0]
        cut = min(bounds[group, 1], first + num_before_last[stream])
        left = words[begin[stream] : end[stream]]
        state[stream], num_left = _read_group(weights[first:cut], state[stream], left, symbols[first:cut])
        end[stream] = begin[stream] + num_left
        num_before_last[stream] -= cut - first
        cuts[group] = cut
    return cuts


@compiled(nogil=True)
@no_type_check
def _read_group(weights, state, words, symbols):
    """Fill in the symbols of a group; returns the state and the number of words left."""
    num_left = len(words)
    for row in _sequence(weights):
        quantile = np.int64(state & _QUANTILES)
        symbol = 0
        while quantile >= weights[row, symbol]:
            quantile -= weights[row, symbol]
            symbol += 1
        symbols[row] = symbol
        state = (state >> _WEIGHT_BITS) * np.uint64(weights[row, symbol]) + np.uint64(quantile)
        if state >> _WORD_BITS == 0 and num_left > 0:
            num_left -= 1
            state = (state << _WORD_BITS) + np.uint64(words[num_left])
    return state, num_left


@compiled(nogil=True)
@no_type_check
def _sequence(weights):
    """Rows sorted stably by reachable symbols; those with only one symbol are read too, which changes nothing."""
    num_reachable = np.full(len(weights), weights.shape[1])
    for row in range(len(weights)):
        while weights[row, num_reachable[row] - 1] == 0:
            num_reachable[row] -= 1
    if num_reachable.sum() == weights.size:
        return np.arange(len(weights))
    return num_reachable.argsort(kind="mergesort")  # a stable sort
