"""Weights that the processes of a team share out among themselves (FSDP2), where training does not fit one device.

Each process keeps a piece of every parameter, of its gradient, momenta and average; a block's whole weights are there
only while it computes, those of the average while it is evaluated or saved, and the matrices of one shape in Muon.
What a run saves is whole tensors, so it does not depend on how weights were kept.
"""

from collections.abc import Iterable

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor


def share_out(module: nn.Module, blocks: Iterable[nn.Module], mesh: DeviceMesh) -> None:
    """Share out the weights of a module, those of each block and the rest, and move them to the mesh's devices."""
    size = mesh.size()

    def placement(parameter: nn.Parameter) -> Shard | None:
        """Stacks of a few matrices are cut along their rows, if that is even; anything else along its first axis."""
        is_stack = parameter.ndim == 3 and parameter.shape[0] < size and parameter.shape[1] % size == 0
        return Shard(1) if is_stack else None

    for part in (*blocks, module):
        fully_shard(part, mesh=mesh, shard_placement_fn=placement)


def add_gradients_up(module: nn.Module, now: bool) -> None:
    """Whether the next gradients of a shared-out module become the team's, or are only added to this process's."""
    assert isinstance(module, FSDPModule)
    module.set_requires_gradient_sync(now)


def whole(tensor: Tensor) -> Tensor:
    """A tensor with the pieces of all processes, which must all ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def piece_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor as the parameter of its shape is kept: this process's piece, if that is shared out."""
    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)


def gathered(tensors: dict[str, Tensor], *, keep: bool) -> dict[str, Tensor]:
    """Whole tensors, in main memory where pieces were shared out; nothing for a process that does not keep them."""
    found = {}
    for name, tensor in tensors.items():
        full = whole(tensor)
        if keep:
            found[name] = full.cpu() if isinstance(tensor, DTensor) else full
    return found
