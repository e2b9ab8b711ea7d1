"""Networks, one a file. `NETWORKS` names them for configurations and checkpoints."""

from typing import NamedTuple

from torch import nn

from ardm.nn.paper_transformer import PaperTransformer, PaperTransformerConfig
from ardm.nn.transformer import Transformer, TransformerConfig

__all__ = [
    "NETWORKS",
    "NetworkConfig",
    "PaperTransformer",
    "PaperTransformerConfig",
    "Transformer",
    "TransformerConfig",
    "network_kind",
]

NetworkConfig = TransformerConfig | PaperTransformerConfig


class NetworkKind(NamedTuple):
    """A network with the configuration it takes."""

    config: type[TransformerConfig] | type[PaperTransformerConfig]
    module: type[nn.Module]


NETWORKS = {
    "transformer": NetworkKind(TransformerConfig, Transformer),
    "paper-transformer": NetworkKind(PaperTransformerConfig, PaperTransformer),
}


def network_kind(config: NetworkConfig) -> str:
    """The name of the network that a configuration describes."""
    return next(name for name, kind in NETWORKS.items() if kind.config is type(config))
