"""Integer weights of symbols from the integer outputs of a network, by integer arithmetic alone.

A row of weights belongs to one symbol to code. If n symbols are reachable, its first n entries are at
least 1 and sum to exactly 2^24; the others are 0. All rows follow one rule from *shares* e_0, ..., e_{n-1},
integers that are not all zero:

    free = 2^24 - n,    f_i = floor(e_i free / sum e),    w_i = f_i + 1,
    and any shortfall from 2^24 is added to the symbol of the largest share, the first one if tied.

Shares (tables in `tables`; all divisions and shifts round down):

    softmax    e_i = EXPONENTIAL[max l - l_i] for logits l in 1/64 nat, zero beyond the table's end; the maximum is
               over the reachable symbols
    grouped    e_i = the sum of EXPONENTIAL[max l - l_k] over the classes k below child i; the maximum is over all
               classes below the parent
    mixture    e_i = ((C(x_{i+1}) - C(x_i)) >> shift) + 1 with C the cumulative distribution of a mixture of
               logistics, x_0 < ... < x_n the borders of a digit, and the least shift with
               (C(x_n) - C(x_0)) >> shift < 2^38

The mixture has M components with logits l_m in 1/64 nat, means u_m in 1/64 of a class and log-scales g_m (of a width
in classes) in 1/64 nat. Its outputs are l_1..l_M, u_1..u_M, g_1..g_M. Then

    C(x) = sum over m of EXPONENTIAL[max l - l_m] * s(z_m(x)),    C(0) = 0,  C(K) = 2^32 * sum of EXPONENTIAL[...]
    z_m(x) = ((64 x - 32 - u_m) * INVERSE_SCALE[g_m - LEAST_LOG_SCALE]) >> 11, the distance of the lower border of
             class x from the mean, in widths, with 27 fractional bits
    s(-z) = tail(z) and s(z) = 2^32 - tail(z) for z >= 0, where z = j 2^20 + r with 0 <= r < 2^20 and
             tail(z) = T[j] - (((T[j] - T[j+1]) r) >> 20),  T = LOGISTIC_TAIL, zero beyond its end

with u_m clamped to -2^24..2^24 and g_m to the table. No product reaches 2^63. Companded means are given as v_m, in
2^-18 nat, clamped to +-2621439 (10 nats): with |v_m| = 512 j + r, 0 <= r < 512, and G = GROWTH,

    u_m = 32 (K - 1) +- ((G[j] + (((G[j+1] - G[j]) r) >> 9) - G[0]) >> 16), the sign that of v_m
"""

from decimal import Context, Decimal, localcontext
from typing import no_type_check

import numpy as np
from jaxtyping import Int, Int32, Integer

from ardm.codec.tables import (
    EXPONENTIAL,
    GREATEST_LOG_SCALE,
    GROWTH,
    GROWTH_STEPS_PER_NAT,
    INVERSE_SCALE,
    LEAST_LOG_SCALE,
    LOGISTIC_TAIL,
    TAIL_BITS,
    WEIGHT_BITS,
)
from ardm.exact.outputs import COMPANDED_PER_NAT, MEANS_PER_CLASS, UNITS_PER_NAT
from ardm.parametrizations import MAX_LOG_SCALE, LogisticMixtureParametrization
from ardm.runtime.jit import compiled

# `no_type_check` keeps the tests' import hook from wrapping functions that Numba compiles.

TOTAL_WEIGHT = 1 << WEIGHT_BITS
MAX_COMPONENTS = 64
"""Keeps the cumulative distribution below 2^62."""
DIGIT_BASE = 16

_SHARE_BITS = 38
_MEAN_LIMIT = 1 << 24
_DISTANCE_SHIFT = 11
_REMAINDER_BITS = 20
_GROWTH_STEP = COMPANDED_PER_NAT // GROWTH_STEPS_PER_NAT
_GROWTH_SHIFT = 16

Weights = Int32[np.ndarray, "N C"]


def softmax_weights(
    outputs: Integer[np.ndarray, "N O"], first: Int[np.ndarray, "N"], count: Int[np.ndarray, "N"], width: int
) -> Weights:
    """Rows of `width` weights for the softmax of outputs[first : first + count], with `first` and `count` per row."""
    weights = np.empty((len(outputs), width), np.int32)
    _fill_softmax(outputs, first, count, weights)
    return weights


@compiled(nogil=True)
@no_type_check
def _fill_softmax(outputs, first, count, weights):
    shares = np.empty(weights.shape[1], np.int64)
    last = EXPONENTIAL.size - 1
    for row in range(len(outputs)):
        n = count[row]
        logits = outputs[row, first[row] : first[row] + n]
        peak = logits.max()
        for i in range(n):
            shares[i] = EXPONENTIAL[min(np.int64(peak) - logits[i], last)]
        _share_out(shares[:n], weights[row])


@compiled(nogil=True)
@no_type_check
def _share_out(shares, weights):
    """Fill one row of weights. No share may exceed 2^38.

    The quotient by a reciprocal is exact or one too small, as the reciprocal falls short by less than 2^-38.
    """
    n = shares.size
    free = TOTAL_WEIGHT - n
    total = shares.sum()
    reciprocal = (free << _SHARE_BITS) // total
    missing = TOTAL_WEIGHT
    for i in range(n):
        quotient = (shares[i] * reciprocal) >> _SHARE_BITS
        quotient += shares[i] * free - quotient * total >= total
        weights[i] = quotient + 1
        missing -= quotient + 1
    weights[shares.argmax()] += missing
    weights[n:] = 0


def grouped_weights(
    outputs: Integer[np.ndarray, "N K"],
    begin: Int[np.ndarray, "N"],
    end: Int[np.ndarray, "N"],
    classes: Int[np.ndarray, "J"],
    siblings: Int[np.ndarray, "J"],
    width: int,
) -> Weights:
    """Rows of `width` weights for the children of parents whose classes are classes[begin:end].

    siblings[j] is the number, from 0 and rising in begin..end, of the child that classes[j] lies below.
    """
    weights = np.empty((len(outputs), width), np.int32)
    _fill_grouped(outputs, begin, end, classes, siblings, weights)
    return weights


@compiled(nogil=True)
@no_type_check
def _fill_grouped(outputs, begin, end, classes, siblings, weights):
    last = EXPONENTIAL.size - 1
    shares = np.empty(weights.shape[1], np.int64)
    for row in range(len(outputs)):
        members = range(begin[row], end[row])
        peak = np.int64(outputs[row, classes[begin[row]]])
        for j in members:
            peak = max(peak, np.int64(outputs[row, classes[j]]))
        shares[:] = 0
        for j in members:
            shares[siblings[j]] += EXPONENTIAL[min(peak - outputs[row, classes[j]], last)]
        _share_out(shares[: siblings[end[row] - 1] + 1], weights[row])


def mixture_weights(
    outputs: Integer[np.ndarray, "N O"],
    first: Int[np.ndarray, "N"],
    size: int,
    num_classes: int,
    log_scale_range: tuple[int, int],
    *,
    is_companded: bool = False,
) -> Weights:
    """Rows of 16 weights: for the classes first..first+size-1, for the next `size` classes, and so on.

    Symbols that begin at class K = `num_classes` or beyond are not reachable. Log-scales are clamped to a range.
    """
    weights = np.empty((len(outputs), DIGIT_BASE), np.int32)
    least, greatest = np.clip(log_scale_range, LEAST_LOG_SCALE, GREATEST_LOG_SCALE)
    _fill_mixture(outputs, first, size, num_classes, least, greatest, is_companded, weights)
    return weights


@compiled(nogil=True)
@no_type_check
def _fill_mixture(outputs, first, size, num_classes, least, greatest, is_companded, weights):
    num_components = outputs.shape[1] // 3
    components = np.empty((3, num_components), np.int64)
    below = np.empty(DIGIT_BASE + 1, np.int64)
    for row in range(len(outputs)):
        _read_components(outputs[row], least, greatest, num_classes, is_companded, components)
        n = min(DIGIT_BASE, (num_classes - first[row] + size - 1) // size)
        for i in range(n + 1):
            below[i] = _cumulative(components, min(first[row] + i * size, num_classes), num_classes)
        _share_out(_mixture_shares(below[: n + 1]), weights[row])


@compiled(nogil=True)
@no_type_check
def _read_components(outputs, least, greatest, num_classes, is_companded, components):
    """Fill the rows of `components`: weights, means and inverse scales."""
    num_components = components.shape[1]
    peak = np.int64(outputs[:num_components].max())
    for m in range(num_components):
        logit, mean, log_scale = outputs[m], outputs[num_components + m], outputs[2 * num_components + m]
        components[0, m] = EXPONENTIAL[min(peak - logit, EXPONENTIAL.size - 1)]
        mean = _expanded(mean, num_classes) if is_companded else np.int64(mean)
        components[1, m] = max(-_MEAN_LIMIT, min(_MEAN_LIMIT, mean))
        components[2, m] = INVERSE_SCALE[max(least, min(greatest, np.int64(log_scale))) - LEAST_LOG_SCALE]


@compiled(nogil=True)
@no_type_check
def _expanded(companded, num_classes):
    """A companded mean in 1/64 class, counted from class 0."""
    middle = MEANS_PER_CLASS * (num_classes - 1) // 2
    size = min(abs(np.int64(companded)), (GROWTH.size - 1) * _GROWTH_STEP - 1)
    j, r = size // _GROWTH_STEP, size % _GROWTH_STEP
    distance = (GROWTH[j] + (GROWTH[j + 1] - GROWTH[j]) * r // _GROWTH_STEP - GROWTH[0]) >> _GROWTH_SHIFT
    return middle + distance if companded >= 0 else middle - distance


@compiled(nogil=True)
@no_type_check
def _cumulative(components, x, num_classes):
    """C(x): the weight of the classes below x."""
    total = 0
    if x == 0:
        return total
    border = MEANS_PER_CLASS * x - MEANS_PER_CLASS // 2
    for m in range(components.shape[1]):
        distance = ((border - components[1, m]) * components[2, m]) >> _DISTANCE_SHIFT
        total += components[0, m] * (_logistic(distance) if x < num_classes else 1 << TAIL_BITS)
    return total


@compiled(nogil=True)
@no_type_check
def _logistic(distance):
    """2^32 / (1 + exp(-distance / 2^27)), interpolated linearly in the table; never decreasing."""
    magnitude = abs(distance)
    j, r = magnitude >> _REMAINDER_BITS, magnitude & ((1 << _REMAINDER_BITS) - 1)
    tail = 0
    if j < LOGISTIC_TAIL.size - 1:
        tail = LOGISTIC_TAIL[j] - (((LOGISTIC_TAIL[j] - LOGISTIC_TAIL[j + 1]) * r) >> _REMAINDER_BITS)
    return tail if distance < 0 else (1 << TAIL_BITS) - tail


@compiled(nogil=True)
@no_type_check
def _mixture_shares(below):
    """The shares between borders, shifted below 2^38; the added 1 keeps an interval of no weight uniform."""
    shift = 0
    while (below[-1] - below[0]) >> shift >> _SHARE_BITS:
        shift += 1
    return ((below[1:] - below[:-1]) >> shift) + 1


def log_scale_range(parametrization: LogisticMixtureParametrization) -> tuple[int, int]:
    """The least and the greatest log-scale, relative to a class, in 1/64 nat.

    Decimal arithmetic has a correctly rounded logarithm, the same on every machine.
    """
    with localcontext(Context(prec=60)):
        log_half_range = (Decimal(parametrization.depth.num_classes - 1) / 2).ln()
        bounds = (Decimal(parametrization.min_log_scale), Decimal(MAX_LOG_SCALE))
        least, greatest = (int(((bound + log_half_range) * UNITS_PER_NAT).to_integral_value()) for bound in bounds)
    return least, greatest
