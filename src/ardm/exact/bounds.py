"""The proof that an exact network's sums stay in bounds."""

from torch import nn

from ardm.exact.layers import ExactLayer


def check_bounds(network: nn.Module) -> None:
    """An error that names the layer if any sum of an exact network could leave its bounds."""
    for name, module in network.named_modules():
        if isinstance(module, ExactLayer):
            module.check_bounds(name)
