"""Distributions of a variable's next value: categorical rows, and mixtures of discretized logistics.

Rows are sampled by inverting the cumulative distribution in float64. The usual Gumbel trick in float32 starves the
tail: its noise has 2^-24 granularity, so classes rarer than about 1e-7 are drawn at the wrong rate.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

NEGATIVE_INFINITY = float("-inf")
LARGEST_UNIFORM = 1 - 2.0**-52
"""Largest u for which u * F stays below F however it is rounded, so that no class of probability 0 is drawn."""


@runtime_checkable
class ChildDistribution(Protocol):
    """The distributions of the next values of N variables of B items."""

    def sample(self, generator: torch.Generator, *, temperature: float = 1.0, top_p: float = 1.0) -> Int[Tensor, "B N"]:
        """A value drawn for each variable; exact with the defaults."""


class Children(NamedTuple):
    """Rows of candidate values with their log-probabilities, which are -inf for unreachable values."""

    log_probs: Float[Tensor, "B N C"]
    values: Int[Tensor, "B N C"]

    def sample(self, generator: torch.Generator, *, temperature: float = 1.0, top_p: float = 1.0) -> Int[Tensor, "B N"]:
        choice = sample_categorical(sharpen(self.log_probs, temperature=temperature, top_p=top_p), generator)
        return self.values.gather(-1, choice[..., None])[..., 0]


@dataclass(frozen=True, kw_only=True)
class LogisticMixture:
    """Mixtures of M discretized logistics over the classes 0..K-1 (Salimans et al., 2017).

    Class x covers the interval y(x) +- 1/(K-1) around y(x) = 2 x / (K-1) - 1; the first and the last class include
    the tails, so that the classes' probabilities sum to one exactly.
    """

    log_weights: Float[Tensor, "B N M"]
    means: Float[Tensor, "B N M"]
    log_scales: Float[Tensor, "B N M"]
    num_classes: int

    def log_prob(self, x: Int[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        """log p(x) in nats, without cancellation: s(a) - s(b) = s(a) s(-b) (1 - e^(b - a)) for the logistic s."""
        last = self.num_classes - 1
        inverse = (-self.log_scales).exp()
        centred = (2 * x.to(self.means.dtype) / last - 1)[..., None] - self.means
        log_below_upper = F.logsigmoid((centred + 1 / last) * inverse)
        log_above_lower = F.logsigmoid((1 / last - centred) * inverse)
        inside = log_below_upper + log_above_lower + _log_one_minus_exp(2 / last * inverse)
        edges = torch.where(x[..., None] == 0, log_below_upper, log_above_lower)
        at_edge = ((x == 0) | (x == last))[..., None]
        return (self.log_weights + torch.where(at_edge, edges, inside)).logsumexp(-1)

    def sample(self, generator: torch.Generator, *, temperature: float = 1.0, top_p: float = 1.0) -> Int[Tensor, "B N"]:
        """A class for each variable: a draw from a component, rounded to the class whose interval holds it.

        A temperature scales the logarithms of the weights and the widths of the components.
        """
        if top_p != 1:
            raise ValueError("top-p is unavailable for mixtures of logistics; use the temperature")
        component = sample_categorical(sharpen(self.log_weights, temperature=temperature), generator)[..., None]
        mean = self.means.gather(-1, component)[..., 0].double()
        scale = self.log_scales.gather(-1, component)[..., 0].double().exp() * temperature
        uniform = torch.rand(mean.shape, generator=generator, device=mean.device, dtype=torch.float64)
        y = mean + scale * uniform.logit()
        last = self.num_classes - 1
        return ((y + 1) * (last / 2)).clamp(0, last).round().long()


def _log_one_minus_exp(z: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """log(1 - e^-z) for z > 0, accurate for small and for large z; gradients are finite."""
    small = z < 0.7
    safe_small, safe_large = torch.where(small, z, 0.5), torch.where(small, 1.0, z)
    return torch.where(small, (-torch.expm1(-safe_small)).log(), torch.log1p(-torch.exp(-safe_large)))


def sample_categorical(log_probs: Float[Tensor, "*B C"], generator: torch.Generator) -> Int[Tensor, "*B"]:
    """An index drawn from each row, exact to float64: p = 1e-12 is drawn once in 1e12.

    Rows need not be normalised; -inf entries are never drawn.
    """
    uniform = torch.rand(log_probs.shape[:-1], generator=generator, device=log_probs.device, dtype=torch.float64)
    return invert_cdf(log_probs, uniform)


def invert_cdf(log_probs: Float[Tensor, "*B C"], uniform: Float[Tensor, "*B"]) -> Int[Tensor, "*B"]:
    """The class whose cumulative interval [F(c-1), F(c)) contains uniform * F(last), for uniform in [0, 1)."""
    cumulative = log_probs.double().softmax(-1).cumsum(-1)
    threshold = uniform.double().clamp(max=LARGEST_UNIFORM)[..., None] * cumulative[..., -1:]
    index = torch.searchsorted(cumulative, threshold, right=True)[..., 0]
    return index.clamp(max=log_probs.shape[-1] - 1)  # rows of NaN give an index beyond the last


def sharpen(log_probs: Float[Tensor, "*B C"], *, temperature: float = 1.0, top_p: float = 1.0) -> Float[Tensor, "*B C"]:
    """The rows at a temperature, each cut to the smallest set of likeliest classes with mass >= top_p.

    The defaults return the rows themselves. Samples from sharpened rows have no likelihood under the model.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"the temperature must be positive and finite, got {temperature}")
    if not 0 < top_p <= 1:
        raise ValueError(f"top-p must lie in (0, 1], got {top_p}")
    if temperature != 1:
        log_probs = (log_probs.double() - log_probs.amax(-1, keepdim=True)) / temperature
    return log_probs if top_p == 1 else _nucleus(log_probs, top_p)


def _nucleus(log_probs: Float[Tensor, "*B C"], top_p: float) -> Float[Tensor, "*B C"]:
    ordered, index = log_probs.double().log_softmax(-1).sort(-1, descending=True)
    mass_before = ordered.exp().cumsum(-1) - ordered.exp()
    dropped = torch.zeros_like(mass_before, dtype=torch.bool).scatter(-1, index, mass_before >= top_p)
    return log_probs.masked_fill(dropped, NEGATIVE_INFINITY)
