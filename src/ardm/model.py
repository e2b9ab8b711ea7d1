"""A model: a network, the items it is made for, and how its outputs become probabilities."""

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ardm.distributions import ChildDistribution
from ardm.parametrizations import Parametrization


class Network(Protocol):
    """theta = f(i, m, s, t): O outputs for every variable from what is revealed so far.

    Items come in their shape: (B, D) for text, (B, height, width, channels) for images. `inputs` holds the value at
    level stage+1 where `mask` is True and at level stage elsewhere. `t` counts the revealed variables of this stage.
    A network may ignore the mask, the stage or the step.
    """

    def __call__(
        self,
        inputs: Int[Tensor, "B *shape"],
        mask: Bool[Tensor, "B *shape"],
        stage: Int[Tensor, "B"],
        t: Int[Tensor, "B"],
    ) -> Float[Tensor, "B *shape O"]: ...


@runtime_checkable
class SelectiveNetwork(Protocol):
    """A network that can end with the variables that are wanted, which costs less than all of them."""

    def outputs_at(
        self,
        inputs: Int[Tensor, "B *shape"],
        mask: Bool[Tensor, "B *shape"],
        stage: Int[Tensor, "B"],
        t: Int[Tensor, "B"],
        where: Int[Tensor, "B N"],
    ) -> Float[Tensor, "B N O"]:
        """The outputs of N variables of each item."""


class ARDM(nn.Module):
    """An autoregressive diffusion model over items of D variables.

    `shape` is the shape of an item for the network alone; everywhere else an item is a row of D variables. A
    network that takes other shapes may serve in several models, which share its weights.
    `depth` tells its classes and stages (`depth.num_classes`), `num_variables` is D.
    """

    def __init__(self, network: nn.Module, parametrization: Parametrization, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.network = network
        self.parametrization = parametrization
        self.depth = parametrization.depth
        self.shape = shape
        self.num_variables = math.prod(shape)

    @property
    def num_classes(self) -> int:
        """K."""
        return self.depth.num_classes

    @property
    def num_stages(self) -> int:
        """S: 1 for order-agnostic models."""
        return self.depth.num_stages

    def outputs(
        self,
        inputs: Int[Tensor, "B D"],
        mask: Bool[Tensor, "B D"],
        stage: Int[Tensor, "B"],
        t: Int[Tensor, "B"],
        where: Int[Tensor, "B N"] | None = None,
    ) -> Float[Tensor, "B M O"]:
        """The network's outputs for all variables or some, in float32 (float64 if it computes so). One call."""
        shape = (-1, *self.shape)
        outputs = self._network_outputs(inputs.view(shape), mask.view(shape), stage, t, where)
        return outputs if outputs.dtype.itemsize >= 4 else outputs.float()

    def _network_outputs(
        self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor, where: Tensor | None
    ) -> Float[Tensor, "B M O"]:
        if where is not None and isinstance(self.network, SelectiveNetwork):
            return self.network.outputs_at(inputs, mask, stage, t, where)
        outputs: Tensor = self.network(inputs, mask, stage, t).flatten(1, -2)
        return outputs if where is None else rows_at(outputs, where)

    def forward(
        self,
        inputs: Int[Tensor, "B D"],
        mask: Bool[Tensor, "B D"],
        stage: Int[Tensor, "B"],
        t: Int[Tensor, "B"],
        parent: Int[Tensor, "B D"],
        child: Int[Tensor, "B D"],
    ) -> Float[Tensor, "B D"]:
        """log p(child | inputs) in nats of every variable, revealed ones included. One call."""
        outputs = self.outputs(inputs, mask, stage, t)
        return self.parametrization.log_prob(outputs, parent, child, stage)

    def predict(
        self,
        inputs: Int[Tensor, "B D"],
        mask: Bool[Tensor, "B D"],
        stage: int,
        t: int,
        where: Int[Tensor, "B N"],
    ) -> ChildDistribution:
        """The distributions of N variables of each item at a stage and a step, the same for all items. One call.

        Whole numbers, and not tensors that would have to be asked for theirs: the device need not be waited for.
        """
        stages, steps = (torch.full(inputs.shape[:1], number, device=inputs.device) for number in (stage, t))
        outputs = self.outputs(inputs, mask, stages, steps, where)
        return self.parametrization.children(outputs, inputs.gather(1, where), stage)


def rows_at(x: Float[Tensor, "B D C"], where: Int[Tensor, "B N"]) -> Float[Tensor, "B N C"]:
    """The rows of some variables of each item."""
    return x.gather(1, where[..., None].expand(-1, -1, x.shape[-1]))
