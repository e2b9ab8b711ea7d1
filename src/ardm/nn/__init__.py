"""Networks, one a file. `NETWORKS` names them for configurations and checkpoints."""

from typing import NamedTuple

from torch import nn

from ardm.nn.paper_transformer import PaperTransformer, PaperTransformerConfig
from ardm.nn.paper_unet import PaperUNet, PaperUNetConfig
from ardm.nn.paper_wavenet import PaperWaveNet, PaperWaveNetConfig
from ardm.nn.transformer import Transformer, TransformerConfig
from ardm.nn.unet import UNet, UNetConfig

__all__ = [
    "NETWORKS",
    "NetworkConfig",
    "PaperTransformer",
    "PaperTransformerConfig",
    "PaperUNet",
    "PaperUNetConfig",
    "PaperWaveNet",
    "PaperWaveNetConfig",
    "Transformer",
    "TransformerConfig",
    "UNet",
    "UNetConfig",
    "network_kind",
]

NetworkConfig = TransformerConfig | PaperTransformerConfig | UNetConfig | PaperUNetConfig | PaperWaveNetConfig


class NetworkKind(NamedTuple):
    """A network with the configuration it takes."""

    config: type[NetworkConfig]
    module: type[nn.Module]
    takes: tuple[str, ...]
    """The media of items that it can be used with: see the configurations of data."""


NETWORKS = {
    "transformer": NetworkKind(TransformerConfig, Transformer, ("text",)),
    "paper-transformer": NetworkKind(PaperTransformerConfig, PaperTransformer, ("text",)),
    "unet": NetworkKind(UNetConfig, UNet, ("images", "sound")),
    "paper-unet": NetworkKind(PaperUNetConfig, PaperUNet, ("images",)),
    "paper-wavenet": NetworkKind(PaperWaveNetConfig, PaperWaveNet, ("sound",)),
}


def network_kind(config: NetworkConfig) -> str:
    """The name of the network that a configuration describes."""
    return next(name for name, kind in NETWORKS.items() if kind.config is type(config))
