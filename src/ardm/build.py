"""Models from configurations: networks, parametrizations and baselines, freshly initialised."""

from collections.abc import Callable, Mapping

from torch import nn

from ardm.baselines.causal import Autoregressive
from ardm.baselines.d3pm import D3PM
from ardm.baselines.methods import Baseline, build_causal_network, noise_process, num_noise_levels
from ardm.coding import CodingModel
from ardm.config import (
    MIXTURE_NAMES,
    DepthConfig,
    ImageData,
    PaperWaveNetConfig,
    ParametrizationName,
    RunConfig,
    TransformerConfig,
)
from ardm.depth import BaseDepthMap, absorbing
from ardm.errors import ExactError, UsageError
from ardm.exact.coding_transformer import ExactCodingTransformer
from ardm.exact.transformer import ExactTransformer
from ardm.exact.unet import ExactUNet
from ardm.exact.wavenet import ExactWaveNet
from ardm.model import ARDM
from ardm.nn import NETWORKS
from ardm.nn.coding_transformer import CodingTransformer
from ardm.parametrizations import (
    CompandedMixtureParametrization,
    DataParametrization,
    DirectParametrization,
    LogisticMixtureParametrization,
    Parametrization,
)

MAX_LOGITS = 4096
"""Maximum number of classes of the data parametrization, which needs a logit for each."""
EXACT_NETWORKS = {"unet": ExactUNet, "transformer": ExactTransformer, "paper-wavenet": ExactWaveNet}
MIXTURES: dict[ParametrizationName, type[LogisticMixtureParametrization]] = {
    "logistic": LogisticMixtureParametrization,
    "companded": CompandedMixtureParametrization,
}


def build_model(config: RunConfig, num_classes: int) -> ARDM | CodingModel | Baseline:
    """A freshly initialised model of the configured method for K classes."""
    if config.method.is_ardm:
        return build_ardm(config, num_classes)
    parametrization, method, shape = build_parametrization(config.depth, num_classes), config.method, config.data.shape
    if method.is_diffusion:
        num_levels = num_noise_levels(method, config.network)
        network = _build_network(config, NETWORKS, parametrization, num_stages=num_levels)
        process = noise_process(method, num_classes, config.depth.absorbing_value)
        return D3PM(network, process, shape, weighted=not method.is_absorbing, num_levels=num_levels)
    if method.is_coding:
        return _build_coding_model(config, parametrization)
    network = build_causal_network(
        config.network,
        num_values=parametrization.depth.num_values,
        num_outputs=parametrization.num_outputs,
        is_permuted=method.is_permuted,
    )
    return Autoregressive(network, parametrization, shape)


def _build_coding_model(config: RunConfig, parametrization: Parametrization) -> CodingModel:
    assert isinstance(config.network, TransformerConfig)
    network = CodingTransformer(
        config.network, num_values=parametrization.depth.num_values, num_outputs=parametrization.num_outputs
    )
    return CodingModel(network, parametrization, config.data.shape)


def build_ardm(config: RunConfig, num_classes: int) -> ARDM:
    """A freshly initialised ARDM for K classes, whatever the configured method."""
    parametrization = build_parametrization(config.depth, num_classes)
    return ARDM(_build_network(config, NETWORKS, parametrization), parametrization, config.data.shape)


def build_parametrization(config: DepthConfig, num_classes: int) -> Parametrization:
    """The parametrization, with its depth map, for K classes."""
    if config.parametrization == "data" and num_classes > MAX_LOGITS:
        raise UsageError(
            f"{num_classes} classes are too many for a logit each; use the companded parametrization, or direct "
            "with a base"
        )
    if config.base is None:
        depth = absorbing(num_classes, config.absorbing_value)
        if config.parametrization in MIXTURE_NAMES:
            return MIXTURES[config.parametrization](depth, config.num_components, config.min_log_scale)
        return DataParametrization(depth)
    if not 2 <= config.base < num_classes:
        raise UsageError(
            f"the base must lie in 2..{num_classes - 1} for {num_classes} classes, got {config.base}; "
            "leave it out for an order-agnostic model"
        )
    digits = BaseDepthMap(num_classes, config.base)
    return DataParametrization(digits) if config.parametrization == "data" else DirectParametrization(digits)


def build_exact_core(config: RunConfig, parametrization: Parametrization) -> nn.Module:
    """The exact form of the configured network, with all integers set to zero."""
    if config.method.is_coding:
        return build_exact_coding_core(config, parametrization)
    if config.network.kind not in EXACT_NETWORKS:
        kinds = ", ".join(EXACT_NETWORKS)
        raise ExactError(f"a {config.network.kind} network has no exact form; these have one: {kinds}")
    knows_length = isinstance(config.network, TransformerConfig | PaperWaveNetConfig)
    lengths = {"max_length": config.data.num_variables} if knows_length else {}
    return _build_network(config, EXACT_NETWORKS, parametrization, **lengths)


def build_exact_coding_core(config: RunConfig, parametrization: Parametrization) -> ExactCodingTransformer:
    """The exact form of a coding model's network, with all integers set to zero."""
    if not isinstance(config.network, TransformerConfig):
        raise ExactError(f"a {config.network.kind} network is not that of a coding model")
    return ExactCodingTransformer(
        config.network,
        num_values=parametrization.depth.num_values,
        num_outputs=parametrization.num_outputs,
        start=parametrization.depth.absorbing_value,
        max_length=config.data.num_variables,
    )


def _build_network(
    config: RunConfig, networks: Mapping[str, Callable[..., nn.Module]], parametrization: Parametrization, **sizes: int
) -> nn.Module:
    channels = {"num_channels": config.data.shape[-1]} if isinstance(config.data, ImageData) else {}
    stages = {"num_stages": parametrization.depth.num_stages}
    return networks[config.network.kind](
        config.network,
        num_values=parametrization.depth.num_values,
        num_outputs=parametrization.num_outputs,
        **channels,
        **stages | sizes,
    )
