"""The entropy coder: rANS with 24-bit weights, 32-bit words and a 64-bit state, by the `constriction` library.

A symbol i of a row of weights w (see `frequencies`) has the interval [c, c + w_i) with c = w_0 + ... + w_{i-1}. The
coder is a stack, so the encoder pushes symbols in the reverse of the decoder's sequence. It has two parts.

The last 16 symbols of the decoder, or all if they are fewer, are kept in one number X of any size, with weights of 16
bits v_i = floor(w_i (2^16 - n) / 2^24) + 1; what is missing to 2^16 is added to the first of the largest w_i. A small
X wastes bits on intervals that are much longer than itself: 24-bit weights would cost about 5 bits an item.

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
bytes at the end. So it is one number again, and the decoder finds X = 1 + check in the end.

Symbols come in groups, as many as their weights are known for at once. A group that holds some of the last 16 symbols
is cut there. Of the others in a group those with the fewest reachable symbols come first, in the group's own sequence
among equals. A symbol with no alternative changes nothing, and is left out.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import constriction
import numpy as np
from jaxtyping import Float64, Int, Int64

from ardm.codec.frequencies import Weights
from ardm.codec.tables import WEIGHT_BITS
from ardm.errors import DamagedError

CHECK_BITS = 16
NUM_LAST = 16
"""How many symbols are kept in one number."""
LAST_WEIGHT_BITS = 16

_FAMILY = constriction.stream.model.Categorical(perfect=False)
"""Its weight of symbol i is 1 more than entry i of a float64 row of whole numbers that sum to 2^24 - n."""


class Encoder:
    """Collects groups of symbols in the decoder's sequence."""

    def __init__(self) -> None:
        self._groups: list[tuple[np.ndarray, Weights]] = []

    def write(self, symbols: Int[np.ndarray, "N"], weights: Weights) -> None:
        """Add a group; every symbol must be reachable."""
        if not np.take_along_axis(weights, symbols[:, None], axis=1).all():
            raise ValueError("a symbol without weight cannot be coded")
        self._groups.append((symbols, weights))

    def finish(self, check: int) -> bytes:
        """The payload, which hands the check back to the decoder."""
        if not 0 <= check < 1 << CHECK_BITS:
            raise ValueError(f"the check must lie in 0..{(1 << CHECK_BITS) - 1}, got {check}")
        number, num_last = 1 + check, NUM_LAST
        while self._groups and num_last:
            symbols, weights = self._groups.pop()
            cut = max(0, len(symbols) - num_last)
            number = _push(number, symbols[cut:], weights[cut:])
            num_last -= len(symbols) - cut
            if cut:
                self._groups.append((symbols[:cut], weights[:cut]))
        return self._encode_others(number)

    def _encode_others(self, number: int) -> bytes:
        coder = constriction.stream.stack.AnsCoder(_words(number.to_bytes((number.bit_length() + 7) // 8, "little")))
        for symbols, weights in reversed(self._groups):
            for rows, num_reachable in reversed(list(_blocks(weights))):
                free_weights = _free_weights(weights[rows], num_reachable)
                coder.encode_reverse(symbols[rows].astype(np.int32), _FAMILY, free_weights)
        return _bytes(coder.get_compressed())


class Decoder:
    """Reads groups of symbols back from a payload. Damage raises a `DamagedError` or gives wrong symbols."""

    def __init__(self, payload: bytes, num_symbols: int) -> None:
        """`num_symbols` is how many symbols the payload holds, those with no alternative included."""
        if not payload or payload[-1] == 0:
            raise DamagedError("the payload is empty or ends in a zero byte, as none does")
        self._coder = constriction.stream.stack.AnsCoder(_words(payload))
        self._num_others = max(0, num_symbols - NUM_LAST)
        self._number: int | None = None

    def read(self, weights: Weights) -> Int[np.ndarray, "N"]:
        """The next group of symbols, one for each row of weights."""
        cut = min(len(weights), self._num_others)
        self._num_others -= cut
        symbols = np.zeros(len(weights), np.int64)
        if cut:
            self._decode_others(weights[:cut], symbols[:cut])
        if cut < len(weights):
            self._number, symbols[cut:] = _pop(self._last_number(), weights[cut:])
        return symbols

    def finish(self) -> int:
        """The check that the encoder was given."""
        check = self._last_number() - 1
        if not 0 <= check < 1 << CHECK_BITS:
            raise DamagedError("the payload does not end where its symbols do")
        return check

    def _decode_others(self, weights: Weights, symbols: Int64[np.ndarray, "N"]) -> None:
        with _panics_as_damage():
            for rows, num_reachable in _blocks(weights):
                symbols[rows] = self._coder.decode(_FAMILY, _free_weights(weights[rows], num_reachable))
        if self._coder.is_empty():
            raise DamagedError("the payload ends before its symbols")

    def _last_number(self) -> int:
        if self._number is None:
            self._number = int.from_bytes(_bytes(self._coder.get_compressed()), "little")
        return self._number


def _words(payload: bytes) -> np.ndarray:
    return np.frombuffer(payload + bytes(-len(payload) % 4), "<u4").astype(np.uint32)


def _bytes(words: np.ndarray) -> bytes:
    return words.astype("<u4").tobytes().rstrip(b"\0")


def _blocks(weights: Weights) -> Iterator[tuple[slice | Int64[np.ndarray, "n"], int]]:
    """The rows with each number of reachable symbols from 2 on, and that number."""
    width = weights.shape[1]
    if width > 1 and weights[:, -1].all():
        yield slice(None), width
        return
    num_reachable = np.count_nonzero(weights, axis=1)
    for number in np.unique(num_reachable):
        if number > 1:
            yield np.flatnonzero(num_reachable == number), int(number)


def _free_weights(weights: Weights, num_reachable: int) -> Float64[np.ndarray, "N n"]:
    """What the library takes for these weights: it adds 1 to each by itself."""
    return np.subtract(weights[:, :num_reachable], 1, dtype=np.float64, order="C")


def _push(number: int, symbols: Int[np.ndarray, "N"], weights: Weights) -> int:
    """The number with these symbols on top, the first one outermost."""
    rows = np.arange(len(symbols))
    coarse = _coarse_weights(weights)
    ends = coarse.cumsum(1)[rows, symbols].tolist()
    for end, weight in zip(ends[::-1], coarse[rows, symbols][::-1].tolist(), strict=True):
        quotient, remainder = divmod(number, weight)
        number = (quotient << LAST_WEIGHT_BITS) + end - weight + remainder
    return number


def _pop(number: int, weights: Weights) -> tuple[int, Int64[np.ndarray, "N"]]:
    """What is left of a number, and the symbols that were on top of it."""
    symbols = np.empty(len(weights), np.int64)
    coarse = _coarse_weights(weights)
    for row, ends in enumerate(coarse.cumsum(1)):
        quantile = number & ((1 << LAST_WEIGHT_BITS) - 1)
        symbol = symbols[row] = ends.searchsorted(quantile, "right")
        weight = int(coarse[row, symbol])
        number = (number >> LAST_WEIGHT_BITS) * weight + quantile - (int(ends[symbol]) - weight)
    return number, symbols


def _coarse_weights(weights: Weights) -> Int64[np.ndarray, "N C"]:
    """Weights of 16 bits; unreachable symbols have none."""
    is_reachable = weights > 0
    free = (1 << LAST_WEIGHT_BITS) - is_reachable.sum(1, keepdims=True)
    coarse = ((weights * free) >> WEIGHT_BITS) + is_reachable  # 64-bit, as the counts are
    coarse[np.arange(len(weights)), weights.argmax(1)] += (1 << LAST_WEIGHT_BITS) - coarse.sum(1)
    return coarse


@contextmanager
def _panics_as_damage() -> Iterator[None]:
    """A failure inside the library, which Python sees as a BaseException of a class that cannot be imported."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise DamagedError(f"the entropy decoder failed: {error}") from error
        raise
