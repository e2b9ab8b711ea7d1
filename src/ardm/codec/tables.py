"""Integer tables of exp and the logistic function: the same numbers on every machine.

Every entry is the integer nearest to a real number, so that another implementation may compute it in its own way. Here
Python's unbounded integers are used, with 128 fractional bits and no floating point.

| table | entry |
|---|---|
| `EXPONENTIAL[d]` | 2^24 exp(-d/64), d = 0..; zero from its last entry on |
| `INVERSE_SCALE[i]` | 2^32 exp(-(i + LEAST_LOG_SCALE)/64), for log-scales LEAST..GREATEST_LOG_SCALE |
| `LOGISTIC_TAIL[j]` | 2^32 / (1 + exp(j/128)), j = 0..; zero from its last entry on |
| `GROWTH[j]` | 2^25 exp(j/512), j = 0..5120: companded means |

They are part of the format and must never change. (Compiled functions in `frequencies` hold copies, which Numba's cache
keeps until that file changes too.)
"""

from itertools import accumulate

import numpy as np
from jaxtyping import Int64

from ardm.exact.outputs import UNITS_PER_NAT

WEIGHT_BITS = 24
"""The weights of a row sum to 2^24, which is also the largest exponential."""
LEAST_LOG_SCALE, GREATEST_LOG_SCALE = -4 * UNITS_PER_NAT, 16 * UNITS_PER_NAT
"""Widths of logistics: from e^-4 to e^16 classes."""
INVERSE_SCALE_BITS = 32
TAIL_BITS = 32
GROWTH_BITS = 25
"""2^9, a companded unit of 8 classes in 64ths of a class, with 16 fractional bits."""
GROWTH_STEPS_PER_NAT = 512
GROWTH_NATS = 10
TAIL_STEPS_PER_UNIT = 128

_POINT = 128
_ONE = 1 << _POINT


def _exp_minus(numerator: int, denominator: int) -> int:
    """2^128 exp(-numerator/denominator) by its Taylor series, to within a few units."""
    total, term, k = 0, _ONE, 0
    while term:
        total += -term if k % 2 else term
        k += 1
        term = term * numerator // (denominator * k)
    return total


def _powers(first: int, ratio: int, count: int) -> list[int]:
    """first, first * ratio, first * ratio^2, ...: `count` numbers with 128 fractional bits."""
    return list(accumulate(range(count - 1), lambda value, _: value * ratio >> _POINT, initial=first))


def _table(values: list[int], bits: int) -> Int64[np.ndarray, "L"]:
    """The integers nearest to 2^bits times numbers with 128 fractional bits, up to and including the first zero."""
    rounded = np.array([((value >> (_POINT - bits - 1)) + 1) >> 1 for value in values], np.int64)
    return rounded[: np.count_nonzero(rounded) + 1]


_STEP = _exp_minus(1, UNITS_PER_NAT)
EXPONENTIAL = _table(_powers(_ONE, _STEP, 18 * UNITS_PER_NAT), WEIGHT_BITS)
_WIDEST = _ONE * _ONE // _exp_minus(-LEAST_LOG_SCALE, UNITS_PER_NAT)
INVERSE_SCALE = _table(_powers(_WIDEST, _STEP, GREATEST_LOG_SCALE - LEAST_LOG_SCALE + 1), INVERSE_SCALE_BITS)
_TAILS = _powers(_ONE, _exp_minus(1, TAIL_STEPS_PER_UNIT), 24 * TAIL_STEPS_PER_UNIT)
LOGISTIC_TAIL = _table([tail * _ONE // (_ONE + tail) for tail in _TAILS], TAIL_BITS)
_SHRINKING = _powers(_ONE, _exp_minus(1, GROWTH_STEPS_PER_NAT), GROWTH_NATS * GROWTH_STEPS_PER_NAT + 1)
GROWTH = _table([_ONE * _ONE // power for power in _SHRINKING], GROWTH_BITS)
