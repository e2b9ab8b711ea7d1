"""The methods that a run can train: ARDMs and what they are compared with."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from ardm.baselines import causal, d3pm
from ardm.baselines.causal import Autoregressive
from ardm.baselines.d3pm import D3PM
from ardm.baselines.noise import Absorbing, Gaussian, NoiseProcess, Uniform, cosine_alpha_bar, linear_betas
from ardm.baselines.transformers import CausalTransformer, OATransformer
from ardm.baselines.wavenet import CausalWaveNet
from ardm.likelihood import Estimate
from ardm.nn import NetworkConfig, PaperTransformerConfig, PaperUNetConfig, PaperWaveNetConfig, TransformerConfig
from ardm.team import ALONE, Team

Baseline = D3PM | Autoregressive
"""A model of a method other than ARDMs."""

MethodName = Literal["ardm", "d3pm-absorbing", "d3pm-uniform", "d3pm-gaussian", "permuted", "causal"]
MOST_STEPS = 10**6
MOST_GAUSSIAN_STEPS = 10_000
"""Steps of noise that a model may have; each of Gaussian noise is a product of matrices when a model is made."""
NOISE_LEVELS = 64
"""Levels of noise that a network without a step input is told apart."""


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """What is trained: an ARDM, or a baseline."""

    name: MethodName = "ardm"
    num_steps: int = 1000
    """T, steps of noise of a D3PM; the others have no use for it."""

    def __post_init__(self) -> None:
        if self.name not in get_args(MethodName):
            raise ValueError(f"the method must be one of {', '.join(get_args(MethodName))}, got {self.name}")
        most = MOST_GAUSSIAN_STEPS if self.name == "d3pm-gaussian" else MOST_STEPS
        if type(self.num_steps) is not int or not 1 <= self.num_steps <= most:
            raise ValueError(f"a {self.name} model has 1 to {most} steps of noise, got {self.num_steps}")

    @property
    def is_ardm(self) -> bool:
        """Whether it is no baseline."""
        return self.name == "ardm"

    @property
    def is_diffusion(self) -> bool:
        """Whether it is a D3PM."""
        return self.name.startswith("d3pm-")

    @property
    def is_absorbing(self) -> bool:
        """Whether it is a D3PM with the absorbing process, which needs to know no noise level."""
        return self.name == "d3pm-absorbing"

    @property
    def has_cross_entropy(self) -> bool:
        """Whether there is a cross-entropy beside the bound; what is autoregressive has no other loss."""
        return self.is_ardm or self.is_diffusion

    @property
    def is_permuted(self) -> bool:
        """Whether it is autoregressive in random orders."""
        return self.name == "permuted"

    def takes(self, network: NetworkConfig) -> bool:
        """Whether there is a form of the network for the method."""
        if self.is_permuted:
            return isinstance(network, TransformerConfig | PaperTransformerConfig)
        if self.name == "causal":
            return isinstance(network, TransformerConfig | PaperTransformerConfig | PaperWaveNetConfig)
        return True

    def num_levels(self, network: NetworkConfig) -> int:
        """Noise levels that a D3PM's network is told, beside the step that some take."""
        return 1 if self.is_absorbing or isinstance(network, PaperUNetConfig) else NOISE_LEVELS

    def process(self, num_classes: int, mask_value: int | None) -> NoiseProcess:
        """The noise of a D3PM, with the schedule of its authors."""
        if self.name == "d3pm-uniform":
            return Uniform(num_classes, cosine_alpha_bar(self.num_steps))
        if self.name == "d3pm-gaussian":
            return Gaussian(num_classes, linear_betas(self.num_steps))
        return Absorbing(num_classes, self.num_steps, mask_value)


ARDM_METHOD = MethodConfig()


def build_causal_network(
    network: NetworkConfig, *, num_values: int, num_outputs: int, is_permuted: bool
) -> OATransformer | CausalTransformer | CausalWaveNet:
    """The causal form of a network, freshly initialised."""
    if isinstance(network, PaperWaveNetConfig):
        return CausalWaveNet(network, num_values=num_values, num_outputs=num_outputs)
    if not isinstance(network, TransformerConfig | PaperTransformerConfig):
        raise TypeError(f"there is no causal form of {type(network).__name__}")
    make = OATransformer if is_permuted else CausalTransformer
    return make(network, num_values=num_values, num_outputs=num_outputs)


def score(
    model: Baseline,
    x: Int[Tensor, "N D"],
    generator: torch.Generator,
    *,
    num_passes: int = 1,
    batch_size: int = 64,
    on_batch: Callable[[int], None] = lambda num_items: None,
    team: Team = ALONE,
) -> Estimate:
    """Bits of items: the bound of a D3PM, the exact bits of an autoregressive model or their mean over orders."""
    how: Any = {"num_passes": num_passes, "batch_size": batch_size, "on_batch": on_batch, "team": team}
    if isinstance(model, D3PM):
        return d3pm.bound(model, x, generator, **how)
    return causal.score(model, x, generator, **how)


def sample_chain(model: Baseline, num_items: int, generator: torch.Generator) -> Iterator[Int[Tensor, "B D"]]:
    """The state of new items after each call, K where a variable is not there yet; the last one are the items."""
    if isinstance(model, D3PM):
        return d3pm.sample_chain(model, num_items, generator)
    return causal.sample_chain(model, num_items, generator)
