"""Networks, one a file. `NETWORKS` names them for configurations and checkpoints."""

from typing import NamedTuple

from torch import nn

from ardm.nn.paper_transformer import PaperTransformer, PaperTransformerConfig
from ardm.nn.paper_unet import PaperUNet, PaperUNetConfig
from ardm.nn.transformer import Transformer, TransformerConfig
from ardm.nn.unet import UNet, UNetConfig

__all__ = [
    "NETWORKS",
    "NetworkConfig",
    "PaperTransformer",
    "PaperTransformerConfig",
    "PaperUNet",
    "PaperUNetConfig",
    "Transformer",
    "TransformerConfig",
    "UNet",
    "UNetConfig",
    "network_kind",
]

NetworkConfig = TransformerConfig | PaperTransformerConfig | UNetConfig | PaperUNetConfig


class NetworkKind(NamedTuple):
    """A network with the configuration it takes."""

    config: type[NetworkConfig]
    module: type[nn.Module]
    takes_images: bool = False


NETWORKS = {
    "transformer": NetworkKind(TransformerConfig, Transformer),
    "paper-transformer": NetworkKind(PaperTransformerConfig, PaperTransformer),
    "unet": NetworkKind(UNetConfig, UNet, takes_images=True),
    "paper-unet": NetworkKind(PaperUNetConfig, PaperUNet, takes_images=True),
}


def network_kind(config: NetworkConfig) -> str:
    """The name of the network that a configuration describes."""
    return next(name for name, kind in NETWORKS.items() if kind.config is type(config))
