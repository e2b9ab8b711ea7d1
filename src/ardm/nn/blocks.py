"""The blocks of networks: identical parts in sequence."""

import torch
from torch import nn


def blocks_of(network: nn.Module) -> list[nn.Module]:
    """The blocks of a network, in order."""
    return list(network.get_submodule("blocks").children())


def compile_blocks(network: nn.Module) -> None:
    """Compile the network's blocks in place; identical blocks share one compilation, which takes seconds."""
    blocks = blocks_of(network)
    limit = torch._dynamo.config.recompile_limit
    torch._dynamo.config.recompile_limit = max(limit, 2 * len(blocks))  # with and without gradients
    for block in blocks:
        block.compile(dynamic=False)
