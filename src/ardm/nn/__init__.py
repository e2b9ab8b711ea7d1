"""Networks, one per file; `NETWORKS` holds them by the kind in their configurations."""

from torch import nn

from ardm.nn.paper_transformer import PaperTransformer
from ardm.nn.paper_unet import PaperUNet
from ardm.nn.paper_wavenet import PaperWaveNet
from ardm.nn.transformer import Transformer
from ardm.nn.unet import UNet

__all__ = ["NETWORKS", "PaperTransformer", "PaperUNet", "PaperWaveNet", "Transformer", "UNet"]

NETWORKS: dict[str, type[nn.Module]] = {
    "transformer": Transformer,
    "paper-transformer": PaperTransformer,
    "unet": UNet,
    "paper-unet": PaperUNet,
    "paper-wavenet": PaperWaveNet,
}
