"""Mixtures of discretized logistics: normalised exactly, stable, sampled exactly, coded without rows of classes."""

import math

import pytest
import torch

from ardm.depth import BaseDepthMap, absorbing
from ardm.distributions import LogisticMixture
from ardm.parametrizations import CompandedMixtureParametrization, LogisticMixtureParametrization


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
    with pytest.raises(ValueError, match="top-p is unavailable for mixtures of logistics"):
        mixture.sample(generator, top_p=0.9)


def test_outputs_of_zero_are_nearly_uniform():
    parametrization = LogisticMixtureParametrization(absorbing(65536, 32768), 10, -14.0)
    mixture = parametrization.children(torch.zeros(1, 1, 30), torch.zeros(1, 1, dtype=torch.int64), 0)
    bits = -all_log_probs(mixture)[0, 3000:-3000] / math.log(2)
    assert 15.5 < bits.min() <= bits.max() < 16.8


@pytest.mark.parametrize("num_classes", [65536, 256])
def test_companded_means_are_logarithmic_in_classes(num_classes):
    """Outputs of zero have means at evenly spaced v with 8 (e^|v| - 1) classes around the middle, up to the last."""
    parametrization = CompandedMixtureParametrization(absorbing(num_classes), 4, -14.0)
    outputs = torch.zeros(1, 1, 12, dtype=torch.float64)
    outputs[..., 7] = 0.25  # from the last centre, 0.75, to the end
    mixture = parametrization.children(outputs, torch.zeros(1, 1, dtype=torch.int64), 0)
    half_range = (num_classes - 1) / 2
    reach = math.log(1 + half_range / 8)
    expected = [math.copysign(8 * (math.exp(reach * abs(p)) - 1), p) for p in (-0.75, -0.25, 0.25)] + [half_range]
    assert mixture.means[0, 0].tolist() == pytest.approx([e / half_range for e in expected])


def test_companded_scales_begin_as_wide_as_the_gaps_between_means():
    parametrization = CompandedMixtureParametrization(absorbing(65536), 4, -14.0)
    mixture = parametrization.children(torch.zeros(1, 1, 12), torch.zeros(1, 1, dtype=torch.int64), 0)
    beside = torch.tensor([-0.01, 0.01]) + parametrization.centres()[:, None]
    slopes = parametrization.means(beside[None])[0].diff(dim=-1)[:, 0] / 0.02
    half_gap = 1 / 4  # of the four centres in -1..1
    assert mixture.log_scales[0, 0].exp().tolist() == pytest.approx((half_gap * slopes).tolist(), rel=0.01)


@pytest.mark.parametrize("num_components", [1, 2, 3])
def test_every_output_of_a_companded_mixture_has_a_gradient(num_components):
    """Also where it is zero, as in the beginning, and a centre lies in the middle."""
    parametrization = CompandedMixtureParametrization(absorbing(65536), num_components, -14.0)
    outputs = torch.zeros(1, 1, 3 * num_components, requires_grad=True)
    x = torch.tensor([[32790]])
    parametrization.log_prob(outputs, x, x, x[0]).sum().backward()
    assert (outputs.grad[0, 0, num_components:] != 0).all()


def mean_gradient(kind, distance):
    """The gradient of a mean this many classes from the middle, of a tenth of that as its scale and one scale off."""
    parametrization = kind(absorbing(65536), 1, -14.0)
    mean = torch.tensor(distance / 32767.5)
    is_companded = kind is CompandedMixtureParametrization
    place = torch.log1p(torch.tensor(distance / 8)) / parametrization.reach if is_companded else mean
    log_scale = (mean / 10).log() - parametrization.first_log_scales(torch.zeros(1))[0]
    outputs = torch.tensor([[[0.0, place, log_scale]]], requires_grad=True)
    x = torch.tensor([[round(32767.5 + 1.1 * distance)]])
    parametrization.log_prob(outputs, x, x, x[0]).sum().backward()
    return outputs.grad[0, 0, 1].abs().item()


def test_companded_gradients_of_quiet_and_loud_samples_are_alike():
    """That of a linear mean grows as the scale falls."""
    linear, companded = (
        [mean_gradient(kind, distance) for distance in (50, 500, 5000)]
        for kind in (LogisticMixtureParametrization, CompandedMixtureParametrization)
    )
    assert linear[0] > 50 * linear[2]
    assert max(companded) < 2 * min(companded)


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
