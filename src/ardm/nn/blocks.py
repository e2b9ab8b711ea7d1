"""The blocks of networks: parts that are alike, one after another."""

import torch
from torch import nn


def blocks_of(network: nn.Module) -> list[nn.Module]:
    """The parts of a network that are alike, one after another."""
    return list(network.get_submodule("blocks").children())


def compile_blocks(network: nn.Module) -> None:
    """Compile the network's blocks in place: alike blocks share one compilation, which takes seconds."""
    blocks = blocks_of(network)
    limit = torch._dynamo.config.recompile_limit
    torch._dynamo.config.recompile_limit = max(limit, 2 * len(blocks))  # with and without gradients
    for block in blocks:
        block.compile(dynamic=False)
