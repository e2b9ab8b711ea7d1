"""The methods that a run can train: ARDMs and what they are compared with."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from ardm.baselines import causal, d3pm
from ardm.baselines.causal import Autoregressive
from ardm.baselines.d3pm import D3PM
from ardm.baselines.noise import Absorbing, Gaussian, NoiseProcess, Uniform, cosine_alpha_bar, linear_betas
from ardm.baselines.transformers import CausalTransformer, OATransformer
from ardm.baselines.wavenet import CausalWaveNet
from ardm.config import (
    MethodConfig,
    NetworkConfig,
    PaperTransformerConfig,
    PaperUNetConfig,
    PaperWaveNetConfig,
    TransformerConfig,
)
from ardm.likelihood import Estimate

Baseline = D3PM | Autoregressive
"""A model of a method other than ARDMs."""

NOISE_LEVELS = 64
"""Levels of noise that a network without a step input can distinguish, given to it as stages."""


def num_noise_levels(method: MethodConfig, network: NetworkConfig) -> int:
    """The number of noise levels given to a D3PM's network as stages; 1 if it knows the level in another way."""
    return 1 if method.is_absorbing or isinstance(network, PaperUNetConfig) else NOISE_LEVELS


def noise_process(method: MethodConfig, num_classes: int, mask_value: int | None) -> NoiseProcess:
    """The noise process of a D3PM, with the schedule of its authors."""
    if method.name == "d3pm-uniform":
        return Uniform(num_classes, cosine_alpha_bar(method.num_steps))
    if method.name == "d3pm-gaussian":
        return Gaussian(num_classes, linear_betas(method.num_steps))
    return Absorbing(num_classes, method.num_steps, mask_value)


def build_causal_network(
    network: NetworkConfig, *, num_values: int, num_outputs: int, is_permuted: bool
) -> OATransformer | CausalTransformer | CausalWaveNet:
    """The causal form of a configured network, freshly initialised."""
    if isinstance(network, PaperWaveNetConfig):
        return CausalWaveNet(network, num_values=num_values, num_outputs=num_outputs)
    if not isinstance(network, TransformerConfig | PaperTransformerConfig):
        raise TypeError(f"there is no causal form of {type(network).__name__}")
    make = OATransformer if is_permuted else CausalTransformer
    return make(network, num_values=num_values, num_outputs=num_outputs)


def score(model: Baseline, x: Int[Tensor, "N D"], generator: torch.Generator, **options: Any) -> Estimate:
    """Bits per dimension: the bound of a D3PM, or the exact or mean bits of an autoregressive model.

    The options are those of `d3pm.bound` and `causal.score`.
    """
    if isinstance(model, D3PM):
        return d3pm.bound(model, x, generator, **options)
    return causal.score(model, x, generator, **options)


def sample_chain(model: Baseline, num_items: int, generator: torch.Generator) -> Iterator[Int[Tensor, "B D"]]:
    """The state of new items after each call, K where a variable is still unknown; the last state is the items."""
    if isinstance(model, D3PM):
        return d3pm.sample_chain(model, num_items, generator)
    return causal.sample_chain(model, num_items, generator)
