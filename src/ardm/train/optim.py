"""Muon for the matrices inside a network, AdamW for everything else.

Muon (Jordan et al., 2024) replaces a matrix's momentum with the nearest semi-orthogonal matrix. PyTorch's Muon takes
one matrix at a time; this one orthogonalises all matrices of a shape in one batch, divided among the processes.
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ardm.runtime.fsdp import shard_like, whole
from ardm.runtime.team import ALONE, Team

NEWTON_SCHULZ = (
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
)
"""Coefficients of x, x x^T x and x (x^T x)^2 in each of five iterations, tuned for fast convergence."""


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum of matrices or stacks of them, scaled by sqrt(max(1, rows / columns)) times the rate."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        *,
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        team: Team = ALONE,
    ) -> None:
        """Every process of the team must have the same parameters and gradients."""
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self._team = team

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient; gradients are overwritten."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[p.shape].append(p)
            for params in by_shape.values():
                self._update(params, group["lr"], group["momentum"], group["weight_decay"])

    def _update(self, params: list[Tensor], lr: float, momentum: float, weight_decay: float) -> None:
        for p in params:
            if "momentum" not in self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        grads = [p.grad for p in params if p.grad is not None]
        buffers = [self.state[p]["momentum"] for p in params]
        torch._foreach_lerp_(buffers, grads, 1 - momentum)
        torch._foreach_lerp_(grads, buffers, momentum)  # Nesterov momentum
        nesterov = torch.stack([whole(matrix) for matrix in grads])
        rows, columns = nesterov.shape[-2:]
        updates = orthogonalise_together(nesterov.view(-1, rows, columns), self._team).view_as(nesterov)
        torch._foreach_mul_(params, 1 - lr * weight_decay)
        scale = max(1.0, rows / columns) ** 0.5
        pieces = [shard_like(update, p) for update, p in zip(updates.to(params[0].dtype), params, strict=True)]
        torch._foreach_add_(params, pieces, alpha=-lr * scale)


def orthogonalise_together(matrices: Float[Tensor, "N R C"], team: Team) -> Float[Tensor, "N R C"]:
    """`orthogonalise` of matrices that all processes have, divided evenly among them."""
    if team.size == 1:
        return orthogonalise(matrices)
    count = -(-len(matrices) // team.size)
    own = matrices[team.rank * count : (team.rank + 1) * count]
    filled = F.pad(own, (0, 0, 0, 0, 0, count - len(own)))
    return team.all_gather_rows(orthogonalise(filled))[: len(matrices)]


def orthogonalise(matrices: Float[Tensor, "N R C"]) -> Float[Tensor, "N R C"]:
    """U V^T of each matrix U S V^T, approximately: singular values end up near 1 (Newton-Schulz; bfloat16 on CUDA)."""
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) * 1.01 + 1e-7)
    for a, b, c in NEWTON_SCHULZ:
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)  # a x + (b g + c g^2) x
    return x.mT.contiguous() if tall else x


def is_hidden_matrix(name: str, parameter: nn.Parameter) -> bool:
    """Whether Muon should update a parameter: a matrix, or a stack of them, inside a block."""
    return parameter.ndim in (2, 3) and "blocks." in name and "depthwise" not in name
