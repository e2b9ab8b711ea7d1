"""Exact sampling from categorical rows.

Sampling inverts the cumulative distribution in float64. The usual Gumbel trick in float32 starves the tail:
its noise has 2^-24 granularity, so classes rarer than about 1e-7 are drawn at the wrong rate.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

NEGATIVE_INFINITY = float("-inf")


def sample_categorical(log_probs: Float[Tensor, "*B C"], generator: torch.Generator) -> Int[Tensor, "*B"]:
    """An index drawn from each row, exact to float64: p = 1e-12 is drawn once in 1e12.

    Rows need not be normalised; -inf entries are never drawn.
    """
    uniform = torch.rand(log_probs.shape[:-1], generator=generator, device=log_probs.device, dtype=torch.float64)
    return invert_cdf(log_probs, uniform)


def invert_cdf(log_probs: Float[Tensor, "*B C"], uniform: Float[Tensor, "*B"]) -> Int[Tensor, "*B"]:
    """The class whose cumulative interval [F(c-1), F(c)) holds uniform * F(last), for uniform in [0, 1)."""
    probs = log_probs.double().softmax(-1)
    cumulative = probs.cumsum(-1)
    threshold = uniform.double()[..., None] * cumulative[..., -1:]
    index = torch.searchsorted(cumulative, threshold, right=True)[..., 0]
    return index.minimum(_last_reachable(probs))


def _last_reachable(probs: Float[Tensor, "*B C"]) -> Int[Tensor, "*B"]:
    """The last class of positive probability: where rounding of u * F(last) up to F(last) must end."""
    num_classes = probs.shape[-1]
    return num_classes - 1 - (probs > 0).flip(-1).to(torch.uint8).argmax(-1)


def sharpen(log_probs: Float[Tensor, "*B C"], *, temperature: float = 1.0, top_p: float = 1.0) -> Float[Tensor, "*B C"]:
    """The row at a temperature, cut to the smallest set of likeliest classes with mass >= top_p.

    With the defaults the row is returned as it is. Samples from a sharpened row have no likelihood under the model.
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
