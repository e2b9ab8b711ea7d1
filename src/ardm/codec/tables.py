"""Integer tables of exp and the logistic function: the same numbers on every machine.

Every entry is the integer nearest to a real number, so that another implementation may compute it in its own way. Here
Python's unbounded integers do, with 128 fractional bits and no floating point.

| table | entry |
|---|---|
| `EXPONENTIAL[d]` | 2^24 exp(-d/64), d = 0..; zero from its last entry on |
| `INVERSE_SCALE[i]` | 2^32 exp(-(i + LEAST_LOG_SCALE)/64), for log-scales LEAST..GREATEST_LOG_SCALE |
| `LOGISTIC_TAIL[j]` | 2^32 / (1 + exp(j/128)), j = 0..; zero from its last entry on |
| `GROWTH[j]` | 2^25 exp(j/512), j = 0..5120: companded means |

They are part of the format and must never change. (Compiled functions in `frequencies` hold copies, which Numba's cache
keeps until that file changes too.)
"""

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
    values = [first]
    for _ in range(count - 1):
        values.append(values[-1] * ratio >> _POINT)
    return values


def _rounded(value: int, bits: int) -> int:
    """The integer nearest to 2^bits times a number with 128 fractional bits."""
    return ((value >> (_POINT - bits - 1)) + 1) >> 1


def _exponential() -> Int64[np.ndarray, "E"]:
    powers = _powers(_ONE, _exp_minus(1, UNITS_PER_NAT), 18 * UNITS_PER_NAT)
    return _until_zero([_rounded(power, WEIGHT_BITS) for power in powers])


def _inverse_scale() -> Int64[np.ndarray, "L"]:
    widest = _ONE * _ONE // _exp_minus(-LEAST_LOG_SCALE, UNITS_PER_NAT)
    powers = _powers(widest, _exp_minus(1, UNITS_PER_NAT), GREATEST_LOG_SCALE - LEAST_LOG_SCALE + 1)
    return np.array([_rounded(power, INVERSE_SCALE_BITS) for power in powers], np.int64)


def _logistic_tail() -> Int64[np.ndarray, "J"]:
    powers = _powers(_ONE, _exp_minus(1, TAIL_STEPS_PER_UNIT), 24 * TAIL_STEPS_PER_UNIT)
    return _until_zero([_rounded(power * _ONE // (_ONE + power), TAIL_BITS) for power in powers])


def _growth() -> Int64[np.ndarray, "J"]:
    powers = _powers(_ONE, _exp_minus(1, GROWTH_STEPS_PER_NAT), GROWTH_NATS * GROWTH_STEPS_PER_NAT + 1)
    return np.array([_rounded(_ONE * _ONE // power, GROWTH_BITS) for power in powers], np.int64)


def _until_zero(values: list[int]) -> Int64[np.ndarray, "E"]:
    """The values up to and including the first zero."""
    return np.array(values[: values.index(0) + 1], np.int64)


EXPONENTIAL = _exponential()
INVERSE_SCALE = _inverse_scale()
LOGISTIC_TAIL = _logistic_tail()
GROWTH = _growth()
