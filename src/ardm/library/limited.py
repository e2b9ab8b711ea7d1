"""Networks whose variables have different numbers of classes."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class LimitedClasses(nn.Module):
    """A network whose variables have different numbers of classes: logits beyond a variable's own are minus infinity.

    >>> import torch
    >>> from torch import nn
    >>> from ardm.library.limited import LimitedClasses
    >>> class Flat(nn.Module):
    ...     def forward(self, inputs, mask, stage, t):
    ...         return torch.zeros(*inputs.shape, 3)
    >>> inputs, step = torch.zeros(1, 2).long(), torch.zeros(1)
    >>> LimitedClasses(Flat(), torch.tensor([2, 3]), 3)(inputs, inputs > 0, step, step)[0, 0].tolist()
    [0.0, 0.0, -inf]
    """

    beyond: Tensor

    def __init__(self, network: nn.Module, num_classes: Int[Tensor, "*shape"], most: int) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("beyond", torch.arange(most) >= num_classes[..., None], persistent=False)

    def forward(
        self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor, *context: Tensor
    ) -> Float[Tensor, "B *shape O"]:
        """The network's outputs, without classes that a variable does not have."""
        return self.network(inputs, mask, stage, t, *context).masked_fill(self.beyond, float("-inf"))
