import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from table_model import assert_follows

from ardm.distributions import invert_cdf, sample_categorical, sharpen

INF = math.inf
LARGEST_UNIFORM = 1 - 2.0**-53


def row(*probs):
    return torch.tensor(probs, dtype=torch.float64).log()


def classes_at(log_probs, *uniforms):
    u = torch.tensor(uniforms, dtype=torch.float64)
    return invert_cdf(log_probs.expand(len(u), -1), u).tolist()


def test_frequencies_follow_the_distribution(generator):
    probs = [0.5, 0.0, 0.3, 1e-3, 0.199, 0.0]
    draws = sample_categorical(row(*probs).expand(100, 400, -1), generator)
    assert draws.shape == (100, 400)
    assert_follows(draws.flatten().bincount(minlength=6), probs)


def test_rows_are_independent_and_unnormalised(generator):
    log_probs = torch.stack([row(0.1, 0.9) + 50.0, row(0.7, 0.3) - 900.0]).expand(20000, -1, -1)
    draws = sample_categorical(log_probs, generator)
    pairs = (2 * draws[:, 0] + draws[:, 1]).bincount(minlength=4)
    assert_follows(pairs, [0.07, 0.03, 0.63, 0.27])


RARE = 1e-12


@pytest.mark.parametrize(
    ("probs", "start"),
    [
        ((RARE, 0.25, 0.75 - RARE), 0.0),
        ((0.25, RARE, 0.75 - RARE), 0.25),
        ((0.25, 0.75 - RARE, RARE), 1 - RARE),
    ],
    ids=["first", "middle", "last"],
)
def test_rare_class_gets_exactly_its_interval(probs, start):
    rare = probs.index(RARE)
    inside = [start + part * RARE for part in (0.001, 0.5, 0.999)]
    assert classes_at(row(*probs), *inside) == [rare] * 3
    outside = [u for u in (start - 0.001 * RARE, start + 1.001 * RARE) if 0 <= u < 1]
    assert outside
    assert rare not in classes_at(row(*probs), *outside)


def test_float32_rows_keep_their_tails():
    log_probs = torch.tensor([math.log(1e-12), 0.0], dtype=torch.float32)
    assert classes_at(log_probs, 0.99e-12, 1.01e-12) == [0, 1]


@given(st.lists(st.one_of(st.just(-INF), st.floats(-800, 800)), min_size=1, max_size=8))
def test_impossible_classes_are_never_drawn(logits):
    logits.append(0.0)
    log_probs = torch.tensor(logits, dtype=torch.float64)
    for index in classes_at(log_probs, 0.0, 2.0**-53, 0.5, LARGEST_UNIFORM):
        assert logits[index] > -INF


@pytest.mark.parametrize("place", range(3))
def test_the_only_possible_class_is_always_drawn(place):
    log_probs = torch.full((3,), -INF)
    log_probs[place] = -5.0
    assert classes_at(log_probs, 0.0, 0.5, LARGEST_UNIFORM) == [place] * 3


def test_sharpen_leaves_the_row_alone_by_default():
    log_probs = torch.randn(3, 4)
    assert sharpen(log_probs) is log_probs


def softmax(weights):
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def nucleus(probs, top_p):
    """The smallest set of likeliest classes with mass >= top_p, renormalised."""
    kept, mass = set(), 0.0
    for k in sorted(range(len(probs)), key=lambda k: -probs[k]):
        if mass >= top_p:
            break
        kept.add(k)
        mass += probs[k]
    return softmax([p if k in kept else 0.0 for k, p in enumerate(probs)])


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("top_p", [1e-9, 0.3, 0.65, 0.9, 0.9999, 1.0])
def test_sharpen_against_plain_python(temperature, top_p, generator):
    probs = torch.rand(5, 7, generator=generator, dtype=torch.float64) + 0.01
    sharpened = sharpen(probs.log(), temperature=temperature, top_p=top_p).softmax(-1)
    for weights, result in zip(probs.tolist(), sharpened.tolist(), strict=True):
        expected = nucleus(softmax([w ** (1 / temperature) for w in weights]), top_p)
        assert result == pytest.approx(expected, rel=1e-12)


def test_nucleus_holds_at_least_its_mass():
    assert sharpen(row(0.25, 0.5, 0.25), top_p=0.5).isinf().tolist() == [True, False, True]
    assert sharpen(row(0.125, 0.5, 0.375), top_p=0.5001).isinf().tolist() == [True, False, False]


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-9, 1e9, 1e300])
def test_extreme_temperatures_stay_finite(temperature):
    probs = sharpen(row(0.3, 0.0, 0.7), temperature=temperature).softmax(-1)
    limit = [0.0, 0.0, 1.0] if temperature < 1 else [0.5, 0.0, 0.5]
    assert probs.tolist() == pytest.approx(limit, abs=1e-8)


@pytest.mark.parametrize("temperature", [0.0, -1.0, INF, math.nan])
def test_sharpen_rejects_absurd_temperatures(temperature):
    with pytest.raises(ValueError, match=f"temperature must be positive and finite, got {temperature}"):
        sharpen(row(0.5, 0.5), temperature=temperature)


@pytest.mark.parametrize("top_p", [0.0, -0.1, 1.0001, math.nan])
def test_sharpen_rejects_absurd_top_p(top_p):
    with pytest.raises(ValueError, match=rf"top-p must lie in \(0, 1\], got {top_p}"):
        sharpen(row(0.5, 0.5), top_p=top_p)
