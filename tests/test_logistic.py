"""Mixtures of discretized logistics: normalised exactly, stable, sampled exactly, coded without rows of classes."""

import math

import pytest
import torch

from ardm.depth import BaseDepthMap, absorbing
from ardm.distributions import LogisticMixture
from ardm.parametrizations import LogisticMixtureParametrization


def random_mixture(
    generator: torch.Generator,
    num_classes: int,
    log_scale: float = 0.0,
    *,
    rows: int = 4,
    dtype: torch.dtype = torch.float64,
) -> LogisticMixture:
    shape = (rows, 1, 3)
    logits, means, spread = torch.randn(3, *shape, generator=generator, dtype=torch.float64)
    return LogisticMixture(
        log_weights=logits.log_softmax(-1).to(dtype),
        means=(means * 0.7).to(dtype),
        log_scales=(log_scale + 0.5 * spread).to(dtype),
        num_classes=num_classes,
    )


def all_log_probs(mixture: LogisticMixture) -> torch.Tensor:
    """log p of every class for each row, (rows, K)."""
    rows, classes = len(mixture.means), torch.arange(mixture.num_classes)
    wide = LogisticMixture(
        log_weights=mixture.log_weights.expand(rows, mixture.num_classes, -1),
        means=mixture.means.expand(rows, mixture.num_classes, -1),
        log_scales=mixture.log_scales.expand(rows, mixture.num_classes, -1),
        num_classes=mixture.num_classes,
    )
    return wide.log_prob(classes.expand(rows, -1))


@pytest.mark.parametrize("num_classes", [2, 3, 256, 65536])
@pytest.mark.parametrize("log_scale", [2.0, -3.0, -8.0, -14.0])
def test_class_probabilities_sum_to_one(num_classes, log_scale, generator):
    mixture = random_mixture(generator, num_classes, log_scale)
    total = all_log_probs(mixture).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-11, atol=0)


def test_probabilities_are_differences_of_the_cumulative_distribution(generator):
    mixture = random_mixture(generator, 16, -1.0)
    edges = (2 * torch.arange(1, 16).double() - 1) / 15 - 1
    scales = mixture.log_scales.exp()
    cumulative = ((edges[:, None] - mixture.means) / scales).sigmoid()  # (rows, 15, components)
    zero, one = torch.zeros(4, 1, 3).double(), torch.ones(4, 1, 3).double()
    steps = torch.cat((zero, cumulative, one), dim=1).diff(dim=1)
    expected = (mixture.log_weights.exp() * steps).sum(-1)
    torch.testing.assert_close(all_log_probs(mixture).exp(), expected)


def test_far_tails_and_narrow_scales_stay_finite_in_float32(generator):
    mixture = random_mixture(generator, 65536, -14.0, dtype=torch.float32)
    tensors = [t.detach().requires_grad_() for t in (mixture.log_weights, mixture.means, mixture.log_scales)]
    mixture = LogisticMixture(log_weights=tensors[0], means=tensors[1], log_scales=tensors[2], num_classes=65536)
    for x in (0, 1, 12345, 65534, 65535):
        log_prob = mixture.log_prob(torch.full((4, 1), x))
        assert log_prob.isfinite().all()
        log_prob.sum().backward()
    assert all(t.grad.isfinite().all() for t in tensors)


def test_float32_agrees_with_float64(generator):
    exact = random_mixture(generator, 65536, -9.0, rows=50)
    single = LogisticMixture(
        log_weights=exact.log_weights.float(),
        means=exact.means.float(),
        log_scales=exact.log_scales.float(),
        num_classes=65536,
    )
    rounded = LogisticMixture(
        log_weights=single.log_weights.double(),
        means=single.means.double(),
        log_scales=single.log_scales.double(),
        num_classes=65536,
    )
    x = ((exact.means[..., 0] + 1) * 32767.5).clamp(0, 65535).long()
    torch.testing.assert_close(single.log_prob(x).double(), rounded.log_prob(x), atol=0.02, rtol=0)


def test_samples_follow_the_probabilities(generator):
    mixture = random_mixture(generator, 12, -1.0, rows=1)
    many = LogisticMixture(
        log_weights=mixture.log_weights.expand(1, 200_000, -1),
        means=mixture.means.expand(1, 200_000, -1),
        log_scales=mixture.log_scales.expand(1, 200_000, -1),
        num_classes=12,
    )
    counts = many.sample(generator)[0].bincount(minlength=12).double()
    expected = all_log_probs(mixture)[0].exp() * 200_000
    chi_square = ((counts - expected).square() / expected).sum()
    assert chi_square < 35  # 11 degrees of freedom: exceeded once in 4000


def test_a_low_temperature_takes_the_likeliest(generator):
    mixture = random_mixture(generator, 65536, -6.0, rows=20)
    component = mixture.log_weights.argmax(-1, keepdim=True)
    expected = ((mixture.means.gather(-1, component)[..., 0] + 1) * 32767.5).clamp(0, 65535)
    assert (mixture.sample(generator, temperature=1e-6) - expected).abs().max() <= 1
    with pytest.raises(ValueError, match="top-p needs a list of classes"):
        mixture.sample(generator, top_p=0.9)


@pytest.mark.parametrize("log_scale", [0.0, -4.0, -20.0])
def test_intervals_tile_the_range(log_scale, generator):
    mixture, precision = random_mixture(generator, 256, log_scale, rows=1), 12
    classes = torch.arange(256)[None]
    wide = LogisticMixture(
        log_weights=mixture.log_weights.expand(1, 256, -1),
        means=mixture.means.expand(1, 256, -1),
        log_scales=mixture.log_scales.expand(1, 256, -1),
        num_classes=256,
    )
    start, size = wide.interval(classes, precision)
    assert start[0, 0] == 0
    assert (size >= 1).all()
    assert torch.equal(start[0, 1:], (start + size)[0, :-1])
    assert (start + size)[0, -1] == 2**precision
    for code in (0, 1, 100, 2048, 4095):
        x = wide.value_at(torch.full((1, 256), code), precision)
        low, count = wide.interval(x, precision)
        assert ((low <= code) & (code < low + count)).all()


def test_intervals_of_16_bits_are_close_to_the_probabilities(generator):
    mixture = random_mixture(generator, 65536, -6.0, rows=30)
    x = ((mixture.means[..., 0] + 1) * 32767.5).clamp(0, 65535).long()
    _, size = mixture.interval(x, 24)
    lost = mixture.log_prob(x) - (size.double() / 2**24).log()
    assert lost.max() < 0.01
    code = mixture.interval(x, 24)[0] + size - 1
    assert torch.equal(mixture.value_at(code, 24), x)
    with pytest.raises(ValueError, match="65536 classes need a precision of more than 12 bits"):
        mixture.interval(x, 12)


def test_outputs_of_zero_are_nearly_uniform():
    parametrization = LogisticMixtureParametrization(absorbing(65536, 32768), 10, -14.0)
    mixture = parametrization.children(torch.zeros(1, 1, 30), torch.zeros(1, 1, dtype=torch.int64), 0)
    bits = -all_log_probs(mixture)[0, 3000:-3000] / math.log(2)
    assert 15.5 < bits.min() <= bits.max() < 16.8


def test_the_authors_clip_keeps_every_class_dear(generator):
    """With log-scales of at least -7 no class costs less than 6.9 bits; without that clip they do."""
    outputs = torch.zeros(1, 1, 30)
    outputs[..., 20:] = -30.0
    x, zero = torch.full((1, 1), 32768), torch.zeros(1, 1, dtype=torch.int64)
    bits = {}
    for clip in (-7.0, -14.0):
        parametrization = LogisticMixtureParametrization(absorbing(65536, 32768), 10, clip)
        outputs[..., 0] = 50.0
        outputs[..., 10] = 0.9 + 2 * 32768 / 65535 - 1  # the first component's mean at the class
        bits[clip] = -parametrization.log_prob(outputs, zero, x, zero[0]).item() / math.log(2)
    assert bits[-7.0] == pytest.approx(6.9, abs=0.01)
    assert bits[-14.0] < 0.1


def test_several_stages_are_refused():
    with pytest.raises(ValueError, match="one stage"):
        LogisticMixtureParametrization(BaseDepthMap(256, 16), 10, -14.0)
    with pytest.raises(ValueError, match="at least one component"):
        LogisticMixtureParametrization(absorbing(256), 0, -14.0)
