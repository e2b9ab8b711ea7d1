"""Weights sharded among processes (FSDP2), for models whose training does not fit one device.

Each process keeps a shard of every parameter, gradient, momentum and averaged weight. Whole tensors exist only while
needed: a block's weights while it computes, averages while they are evaluated or saved, matrices of one shape in Muon.
Runs save whole tensors, so checkpoints do not depend on the sharding.
"""

from collections.abc import Iterable

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor


def shard_weights(module: nn.Module, blocks: Iterable[nn.Module], mesh: DeviceMesh) -> None:
    """Shard a module's weights, block by block and then the rest, over the devices of the mesh."""
    size = mesh.size()

    def placement(parameter: nn.Parameter) -> Shard | None:
        """The placement: along the rows of small stacks of matrices if these divide evenly, else None (first axis)."""
        is_stack = parameter.ndim == 3 and parameter.shape[0] < size and parameter.shape[1] % size == 0
        return Shard(1) if is_stack else None

    for part in (*blocks, module):
        fully_shard(part, mesh=mesh, shard_placement_fn=placement)


def whole(tensor: Tensor) -> Tensor:
    """The whole tensor, gathered from all processes, which must all call this."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor sharded like the parameter of its shape; unchanged if the parameter is not sharded."""
    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)


def gathered(tensors: dict[str, Tensor], *, keep: bool) -> dict[str, Tensor]:
    """The whole tensors, on the CPU if they were sharded; an empty dict for a process that does not keep them."""
    found = {}
    for name, tensor in tensors.items():
        full = whole(tensor)
        if keep:
            found[name] = full.cpu() if isinstance(tensor, DTensor) else full
    return found
