"""Integer weights against their rule in Python's unbounded integers, and against the distributions they approximate."""

import hashlib
import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ardm import parametrizations
from ardm.codec import frequencies, tables
from ardm.codec.frequencies import (
    TOTAL_WEIGHT,
    grouped_weights,
    log_scale_range,
    mixture_weights,
    softmax_weights,
)
from ardm.codec.gpu import exponential, tensor_weights
from ardm.codec.symbols import Nibbles, Rows
from ardm.depth import absorbing
from ardm.exact.outputs import OutputUnits
from ardm.parametrizations import CompandedMixtureParametrization, LogisticMixtureParametrization

try:
    from ardm.codec import gpu_kernels
except ImportError:  # Triton is for Linux
    gpu_kernels = None

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
LOGITS = st.lists(st.integers(-(2**23), 2**23) | st.integers(-300, 300), min_size=1, max_size=40)


def shared_out(shares):
    """The rule of the module's docstring."""
    free, total = TOTAL_WEIGHT - len(shares), sum(shares)
    weights = [share * free // total + 1 for share in shares]
    weights[shares.index(max(shares))] += TOTAL_WEIGHT - sum(weights)
    return weights


def exponentials(logits):
    table, peak = tables.EXPONENTIAL.tolist(), max(logits)
    return [table[peak - logit] if peak - logit < len(table) else 0 for logit in logits]


def softmax_row(logits, first=0, count=None, width=None):
    """A row of weights by the compiled loop, equal to those of tensor operations and of the GPU kernel."""
    count = len(logits) if count is None else count
    arrays, width = (np.array([logits], np.int32), np.array([first]), np.array([count])), width or len(logits)
    rows = softmax_weights(*arrays, width)
    tensors = [torch.from_numpy(array) for array in arrays]
    np.testing.assert_array_equal(rows, tensor_weights(*tensors, width))
    if gpu_kernels is not None:
        tensors = [x.to(DEVICE) for x in tensors]
        np.testing.assert_array_equal(rows, gpu_kernels.softmax_weights(*tensors, width, exponential(DEVICE)).cpu())
    return rows[0].tolist()


def test_every_entry_of_the_tables_is_the_nearest_whole_number():
    with localcontext(prec=60):
        exps = [Decimal(2) ** 24 * (Decimal(-d) / 64).exp() for d in range(tables.EXPONENTIAL.size)]
        inverses = [Decimal(2) ** 32 * (Decimal(-g) / 64).exp() for g in range(-256, 1025)]
        tails = [Decimal(2) ** 32 / (1 + (Decimal(j) / 128).exp()) for j in range(tables.LOGISTIC_TAIL.size)]
        for table, exact in (
            (tables.EXPONENTIAL, exps),
            (tables.INVERSE_SCALE, inverses),
            (tables.LOGISTIC_TAIL, tails),
        ):
            assert table.tolist() == [int(value.to_integral_value()) for value in exact]


def test_tables_end_in_their_first_zero():
    for table in (tables.EXPONENTIAL, tables.LOGISTIC_TAIL):
        assert table[-1] == 0 < table[-2]
        assert (np.diff(table) <= 0).all()


@given(LOGITS)
def test_softmax_weights_follow_the_rule(logits):
    assert softmax_row(logits) == shared_out(exponentials(logits))


@given(LOGITS, st.data())
def test_only_the_reachable_part_of_a_row_counts(logits, data):
    first = data.draw(st.integers(0, len(logits) - 1))
    count = data.draw(st.integers(1, len(logits) - first))
    expected = shared_out(exponentials(logits[first : first + count])) + [0] * 3
    assert softmax_row(logits, first, count, count + 3) == expected


def test_one_reachable_symbol_has_all_the_weight():
    assert softmax_row([5]) == [TOTAL_WEIGHT]


def test_what_is_missing_goes_to_the_first_of_the_likeliest():
    assert softmax_row([-9, 0, 0, 0]) == shared_out(exponentials([-9, 0, 0, 0]))
    assert softmax_row([0, 0, 0]) == [5592406, 5592405, 5592405]


def test_wide_rows():
    logits = np.random.default_rng(0).integers(-500, 500, 2**16).tolist()
    assert softmax_row(logits) == shared_out(exponentials(logits))


@pytest.mark.parametrize("num_symbols", [2, 4, 27, 256])
def test_weights_lose_next_to_nothing_against_the_softmax(num_symbols):
    rng = np.random.default_rng(0)
    for spread in (20, 200, 500):
        logits = rng.normal(0, spread, (500, num_symbols)).astype(np.int32)
        p = torch.from_numpy(logits / 64).softmax(-1).numpy()
        weights = softmax_weights(logits, np.zeros(500, int), np.full(500, num_symbols), num_symbols)
        lost_bits = (p * np.log2(p / (weights / TOTAL_WEIGHT))).sum(1)
        assert lost_bits.max() <= 1e-4


@given(st.lists(st.lists(st.integers(-(2**23), 2**23) | st.integers(-300, 300), min_size=1, max_size=9), min_size=1))
def test_grouped_weights_sum_over_the_classes_below_each_child(families):
    logits = [logit for family in families for logit in family]
    shares = iter(exponentials(logits))
    expected = shared_out([sum(next(shares) for _ in family) for family in families])
    siblings = np.repeat(np.arange(len(families)), list(map(len, families)))
    everything = (np.array([0]), np.array([len(logits)]), np.arange(len(logits)), siblings, len(families) + 2)
    assert grouped_weights(np.array([logits], np.int32), *everything)[0].tolist() == [*expected, 0, 0]


def test_grouped_weights_look_below_the_parent_only():
    """A likely class elsewhere takes nothing, not even resolution."""
    outputs = np.array([[10**6, 3, -5, 10**6]], np.int32)
    below = (np.array([1]), np.array([3]), np.arange(4), np.array([0, 0, 1, 1]), 2)
    assert grouped_weights(outputs, *below)[0].tolist() == shared_out(exponentials([3, -5]))


def cumulative(outputs, x, num_classes):
    """C(x) of the module's docstring."""
    num_components = len(outputs) // 3
    logits, means, log_scales = (outputs[i * num_components : (i + 1) * num_components] for i in range(3))
    tails = [*tables.LOGISTIC_TAIL.tolist(), 0]
    total = 0
    for share, mean, log_scale in zip(exponentials(logits), means, log_scales, strict=True):
        mean = max(-(2**24), min(2**24, mean))
        inverse = int(tables.INVERSE_SCALE[max(-256, min(1024, log_scale)) + 256])
        z = ((64 * x - 32 - mean) * inverse) >> 11
        j, r = min(abs(z) >> 20, len(tails) - 2), abs(z) % 2**20
        tail = tails[j] - ((tails[j] - tails[j + 1]) * r >> 20)
        total += share * (0 if x == 0 else 2**32 if x == num_classes else tail if z < 0 else 2**32 - tail)
    return total


@given(st.data(), st.integers(1, 4), st.sampled_from([2, 16, 17, 300, 2**16]))
def test_mixture_weights_follow_the_rule(data, num_components, num_classes):
    logits = data.draw(st.lists(st.integers(-500, 500), min_size=num_components, max_size=num_components))
    places = st.integers(-100, 64 * num_classes + 100) | st.integers(-(2**31), 2**31 - 1)
    means = data.draw(st.lists(places, min_size=num_components, max_size=num_components))
    log_scales = data.draw(st.lists(st.integers(-400, 1100), min_size=num_components, max_size=num_components))
    size = data.draw(st.sampled_from([1, 16, 256, 4096]))
    first = data.draw(st.integers(0, (num_classes - 1) // (16 * size))) * 16 * size
    outputs = logits + means + log_scales
    borders = [min(first + i * size, num_classes) for i in range(17)]
    borders = [x for x, before in zip(borders, [-1, *borders], strict=False) if x > before]
    below = [cumulative(outputs, x, num_classes) for x in borders]
    shift = max(0, (below[-1] - below[0]).bit_length() - 38)
    expected = shared_out([((b - a) >> shift) + 1 for a, b in itertools.pairwise(below)])
    rows = mixture_weights(np.array([outputs], np.int32), np.array([first]), size, num_classes, (-256, 1024))
    assert rows[0].tolist() == expected + [0] * (16 - len(expected))


def test_the_widest_mixtures_stay_in_bounds():
    """64 likely components at the ends of their ranges: no product or sum passes 63 bits."""
    outputs = np.array([[0] * 64 + [-(2**31), 2**31 - 1] * 32 + [-(2**31)] * 32 + [2**31 - 1] * 32], np.int64)
    for first in (0, 0xFFF0):
        rows = mixture_weights(outputs.astype(np.int32), np.array([first]), 1, 2**16, (-256, 1024))
        assert rows.min() >= 1
        assert rows.sum() == TOTAL_WEIGHT


def class_probabilities(nibbles, outputs, num_classes):
    """The probability of every class, as the product over its digits."""
    stage = torch.zeros(num_classes, dtype=torch.long)
    rows = Rows(outputs=torch.from_numpy(np.tile(outputs, (num_classes, 1))), stage=stage, parent=stage)
    symbols = nibbles.symbols(rows, torch.arange(num_classes))
    probabilities = np.ones(num_classes)
    for i in range(nibbles.length):
        weights = nibbles.weights(rows, symbols[:i])
        probabilities *= weights[torch.arange(num_classes), symbols[i]].numpy() / TOTAL_WEIGHT
    return probabilities


@pytest.mark.parametrize(("num_classes", "num_components"), [(2**16, 10), (2**16, 1), (300, 3), (256, 5)])
@pytest.mark.parametrize("log_scale", [-3.0, 0.0, 2.0])
@pytest.mark.parametrize("kind", [LogisticMixtureParametrization, CompandedMixtureParametrization])
def test_mixtures_lose_next_to_nothing(kind, num_classes, num_components, log_scale, generator):
    parametrization = kind(absorbing(num_classes), num_components, -14.0)
    noise = torch.randn(1, 1, 3 * num_components, generator=generator, dtype=torch.float64)
    outputs = noise * 0.3 + torch.tensor([0.0, 0.0, log_scale]).repeat_interleave(num_components)
    classes = torch.arange(num_classes)[None]
    mixture = parametrization.children(outputs.expand(1, num_classes, -1), classes, 0)
    p = mixture.log_prob(classes)[0].exp().clamp(min=1e-300).numpy()
    q = class_probabilities(
        Nibbles(parametrization), OutputUnits.of(parametrization).to_integers(outputs).numpy()[0, 0], num_classes
    )
    assert q.sum() == pytest.approx(1, abs=1e-9)
    assert (p * np.log2(p / q)).sum() <= 2e-4


@pytest.mark.parametrize("distance", [0, 300, 5000, -15_000, 32_000])
@pytest.mark.parametrize("scale", [0.3, 1.0, 10.0])
def test_companded_means_are_fine_enough_everywhere(distance, scale):
    """A single sharp component on a class, near the middle and at the loud ends."""
    parametrization = CompandedMixtureParametrization(absorbing(2**16), 1, -14.0)
    centre = 2**15 + distance
    place = math.copysign(math.log1p(abs(centre - 32767.5) / 8) / parametrization.reach, centre - 32767.5)
    log_scale = math.log(scale / 32767.5) - float(parametrization.first_log_scales(torch.zeros(1))[0])
    outputs = torch.tensor([[[0.0, place, log_scale]]], dtype=torch.float64)
    classes = torch.arange(centre - 30, min(centre + 30, 2**16))[None]
    mixture = parametrization.children(outputs.expand(1, classes.shape[1], -1), classes, 0)
    p = mixture.log_prob(classes)[0].exp().numpy()
    integers = OutputUnits.of(parametrization).to_integers(outputs).numpy()[0, 0]
    q = class_probabilities(Nibbles(parametrization), integers, 2**16)[classes[0].numpy()]
    assert (p * np.log2(p.clip(1e-300) / q)).sum() < 0.01


def test_narrow_mixtures_are_nearly_certain():
    """A width of e^-14 half ranges, as for silence: the class of the mean takes all, wherever it is."""
    parametrization = LogisticMixtureParametrization(absorbing(2**16), 1, -14.0)
    mean = 2 * 40_000 / (2**16 - 1) - 1
    outputs = torch.tensor([0.0, mean, -20.0], dtype=torch.float64)
    q = class_probabilities(
        Nibbles(parametrization), OutputUnits.of(parametrization).to_integers(outputs).numpy(), 2**16
    )
    assert q.argmax() == 40_000
    assert q.max() > 1 - 1e-5


def test_clamps_of_log_scales_are_those_of_the_parametrization():
    parametrization = LogisticMixtureParametrization(absorbing(2**16), 10, -14.0)
    offset = math.log((2**16 - 1) / 2)
    assert log_scale_range(parametrization) == (round(64 * (-14 + offset)), round(64 * (5 + offset)))


def test_weights_never_change():
    """Files of every release must decode: if this fails, the format has changed."""
    logits = (np.arange(200 * 60, dtype=np.int32).reshape(200, 60) * 7919) % 1401 - 700
    logits[:, 20:40] *= 90
    everything = (np.zeros(200, int), np.full(200, 60))
    first = np.arange(200) * 256
    digest = hashlib.sha256()
    for table in (tables.EXPONENTIAL, tables.INVERSE_SCALE, tables.LOGISTIC_TAIL):
        digest.update(table.astype("<i8").tobytes())
    for weights in (
        softmax_weights(logits, *everything, 60),
        grouped_weights(logits, *everything, np.arange(60), np.arange(60) // 7, 9),
        mixture_weights(logits, first, 16, 2**16, (-200, 900)),
    ):
        digest.update(weights.astype("<i4").tobytes())
    assert digest.hexdigest()[:16] == "cf94f0c0c277bc8b"
    digest.update(tables.GROWTH.astype("<i8").tobytes())
    companded = mixture_weights(logits * 3000, first, 16, 2**16, (-200, 900), is_companded=True)
    digest.update(companded.astype("<i4").tobytes())
    assert digest.hexdigest()[:16] == "e445ffa24bd0e7ca"


def test_constants_named_in_the_rule():
    assert (frequencies.MEANS_PER_CLASS, tables.UNITS_PER_NAT, tables.WEIGHT_BITS) == (64, 64, 24)
    assert tables.GROWTH_NATS == parametrizations.MAX_NATS
    assert 1 << tables.GROWTH_BITS == frequencies.MEANS_PER_CLASS * parametrizations.COMPANDED_UNIT << 16
