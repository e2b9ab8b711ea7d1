"""The entropy coder, rANS with 24-bit weights, 32-bit words and a 64-bit state.

The encoder is that of the `constriction` library; the decoder is in `decoder`.

A symbol i of a row of weights w (see `frequencies`) has the interval [c, c + w_i) with c = w_0 + ... + w_{i-1}. The
coder is a stack, so the encoder pushes symbols in the reverse of the decoder's sequence. It has two parts.

The last 16 symbols of the decoder, or all if they are fewer, are kept in one number X of any size, with weights of 16
bits v_i = floor(w_i (2^16 - n) / 2^24) + 1; any shortfall from 2^16 is added to the first of the largest w_i. A small
X wastes bits on intervals much longer than itself: 24-bit weights would cost about 5 bits per item.

    X = 1 + check at first
    push:  X = ((X // v_i) << 16) + c + X % v_i
    pop:   q = X % 2^16, i the symbol whose interval holds q,  X = (X >> 16) v_i + q - c

All other symbols are kept in a state X and a list of words. At first the words are those of the number above, in
base 2^32 with the least significant first, and the state is its two most significant words (or the only one).

    push:  if X >= w_i 2^40: append the low 32 bits of X to the words, X = X >> 32
           X = ((X // w_i) << 24) + c + X % w_i
    pop:   q = X % 2^24, i the symbol whose interval holds q
           X = (X >> 24) w_i + q - c;  if X < 2^32 and words are left: X = (X << 32) + the last word, removed

The payload is the words and then the state (its low half first), each word as 4 little-endian bytes, without the zero
bytes at the end. So it is one number again, and the decoder finds X = 1 + check at the end.

Symbols come in groups whose weights are known at once. A group that holds some of the last 16 symbols is cut there. A
group's others are sorted by their number of reachable symbols, stably, fewest first. A symbol with no alternative
changes nothing, and is left out.
"""

from bisect import bisect_right
from collections.abc import Iterator

import constriction
import numpy as np
from jaxtyping import Int, Int64, UInt32

from ardm.codec.frequencies import Weights
from ardm.codec.tables import WEIGHT_BITS

CHECK_BITS = 16
NUM_LAST = 16
"""Symbols that are kept in one number."""
LAST_WEIGHT_BITS = 16

_FAMILY = constriction.stream.model.Categorical(perfect=False)
"""Takes float64 rows of integers that sum to 2^24 - n, and adds 1 to each for the weights."""


class Encoder:
    """Collects groups of symbols in the decoder's sequence, all with rows of one width."""

    def __init__(self) -> None:
        self._groups: list[tuple[np.ndarray, Weights]] = []

    def write(self, symbols: Int[np.ndarray, "N"], weights: Weights) -> None:
        """Add a group; every symbol must be reachable."""
        self._groups.append((symbols, weights))

    def finish(self, check: int) -> bytes:
        """The payload, from which the decoder recovers the check."""
        if not 0 <= check < 1 << CHECK_BITS:
            raise ValueError(f"the check must lie in 0..{(1 << CHECK_BITS) - 1}, got {check}")
        if not self._groups:
            return _bytes(_words(1 + check))
        symbols, weights = map(np.concatenate, zip(*self._groups, strict=True))
        if not weights[np.arange(len(symbols)), symbols].all():
            raise ValueError("a symbol without weight cannot be coded")
        group = np.arange(len(self._groups)).repeat([len(part) for part, _ in self._groups])
        cut = max(0, len(symbols) - NUM_LAST)
        coder = constriction.stream.stack.AnsCoder(_words(push_last(1 + check, symbols[cut:], weights[cut:])))
        for rows, num_reachable in reversed(list(_blocks(weights[:cut], group[:cut]))):
            free_weights = np.subtract(weights[rows, :num_reachable], 1, dtype=np.float64, order="C")
            coder.encode_reverse(symbols[rows].astype(np.int32), _FAMILY, free_weights)
        return _bytes(coder.get_compressed())


def _words(number: int) -> UInt32[np.ndarray, "W"]:
    num_words = -(-number.bit_length() // 32)
    return np.frombuffer(number.to_bytes(4 * num_words, "little"), "<u4").astype(np.uint32)


def _bytes(words: UInt32[np.ndarray, "W"]) -> bytes:
    return words.astype("<u4").tobytes().rstrip(b"\0")


def _blocks(weights: Weights, group: Int64[np.ndarray, "N"]) -> Iterator[tuple[slice | Int64[np.ndarray, "n"], int]]:
    """Runs of rows with one number of reachable symbols, above 1, and that number, in the decoder's sequence."""
    width = weights.shape[1]
    if width > 1 and weights[:, -1].all():
        yield slice(len(weights)), width
        return
    num_reachable = np.count_nonzero(weights, axis=1)
    sequence = np.lexsort((num_reachable, group))
    for rows in np.split(sequence, np.flatnonzero(np.diff(num_reachable[sequence])) + 1):
        if rows.size and num_reachable[rows[0]] > 1:
            yield rows, int(num_reachable[rows[0]])


def push_last(number: int, symbols: Int[np.ndarray, "N"], weights: Weights) -> int:
    """The number with these symbols pushed, so that the first is popped first."""
    rows = np.arange(len(symbols))
    coarse = coarse_weights(weights)
    ends = coarse.cumsum(1)[rows, symbols].tolist()
    for end, weight in zip(ends[::-1], coarse[rows, symbols][::-1].tolist(), strict=True):
        quotient, remainder = divmod(number, weight)
        number = (quotient << LAST_WEIGHT_BITS) + end - weight + remainder
    return number


def pop_last(number: int, coarse: Int64[np.ndarray, "N C"]) -> tuple[int, Int64[np.ndarray, "N"]]:
    """Pop symbols with these coarse weights; returns the remaining number and the symbols."""
    symbols = np.empty(len(coarse), np.int64)
    for row, ends in enumerate(coarse.cumsum(1)):
        quantile = number & ((1 << LAST_WEIGHT_BITS) - 1)
        symbol = symbols[row] = bisect_right(ends, quantile)
        weight = int(coarse[row, symbol])
        number = (number >> LAST_WEIGHT_BITS) * weight + quantile - (int(ends[symbol]) - weight)
    return number, symbols


def coarse_weights(weights: Weights) -> Int64[np.ndarray, "N C"]:
    """16-bit weights; those of unreachable symbols are 0."""
    is_reachable = weights > 0
    free = (1 << LAST_WEIGHT_BITS) - is_reachable.sum(1, keepdims=True)
    coarse = ((weights * free) >> WEIGHT_BITS) + is_reachable  # 64-bit, as the counts are
    coarse[np.arange(len(weights)), weights.argmax(1)] += (1 << LAST_WEIGHT_BITS) - coarse.sum(1)
    return coarse
