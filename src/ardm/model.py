"""A model: a network, the shape of its items, and how its outputs become probabilities."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from ardm.distributions import ChildDistribution
from ardm.parametrizations import Parametrization

Values = Int[Tensor, "B *shape"]
Mask = Bool[Tensor, "B *shape"]
PerItem = Int[Tensor, "B"]
Where = Int[Tensor, "B N"]
Outputs = Float[Tensor, "B *shape O"]
Context = Shaped[Tensor, "B *context"] | None
"""Facts about each item that a conditional model is given, such as a label or an embedding; None without any."""


class Network(Protocol):
    """theta = f(i, m, s, t): O outputs for every variable from what is revealed so far.

    Items keep their shape: (B, D) for text, (B, height, width, channels) for images. `inputs` holds the value at
    level stage+1 where `mask` is True and at level stage elsewhere. `t` counts the revealed variables of this stage.
    A network may ignore the mask, the stage or the step. That of a conditional model takes the context after them.
    """

    def __call__(self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem) -> Outputs: ...


@runtime_checkable
class SelectiveNetwork(Protocol):
    """A network that can compute the outputs of a few variables at less cost than those of all."""

    def outputs_at(
        self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem, where: Where
    ) -> Float[Tensor, "B N O"]:
        """The outputs of N variables of each item."""


class NetworkModel(nn.Module):
    """A network, how its outputs become probabilities, and the shape of the items it takes."""

    def __init__(self, network: nn.Module, parametrization: Parametrization, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.network = network
        self.parametrization = parametrization
        self.depth = parametrization.depth
        self.shape = shape
        self.num_variables = math.prod(shape)

    @property
    def num_classes(self) -> int:
        """The number of data classes K."""
        return self.depth.num_classes


class ARDM(NetworkModel):
    """An autoregressive diffusion model over items of D variables.

    Only the network sees items in their `shape`; everywhere else an item is a row of D = `num_variables` variables.
    A network that takes several shapes may serve several models, which then share its weights.
    `depth` holds the classes and stages (`depth.num_classes`).

    >>> from ardm import build, presets
    >>> model = build.build_ardm(presets.text8_small(), num_classes=4)
    >>> model.num_stages, model.num_variables, model.num_classes
    (1, 250, 4)
    """

    @property
    def num_stages(self) -> int:
        """The number of stages S; 1 for order-agnostic models."""
        return self.depth.num_stages

    def outputs(
        self,
        inputs: Values,
        mask: Mask,
        stage: PerItem,
        t: PerItem,
        where: Where | None = None,
        context: Context = None,
    ) -> Float[Tensor, "B M O"]:
        """The network's outputs for all or some variables, in float32 (float64 if it computes in that). One call."""
        shape = (-1, *self.shape)
        outputs = self._network_outputs(inputs.view(shape), mask.view(shape), stage, t, where, context)
        return outputs if outputs.dtype.itemsize >= 4 else outputs.float()

    def _network_outputs(
        self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem, where: Where | None, context: Context = None
    ) -> Float[Tensor, "B M O"]:
        if where is not None and context is None and isinstance(self.network, SelectiveNetwork):
            return self.network.outputs_at(inputs, mask, stage, t, where)
        more = () if context is None else (context,)
        outputs: Tensor = self.network(inputs, mask, stage, t, *more)
        if not isinstance(outputs, Tensor):
            raise ValueError(f"the network returned a {type(outputs).__name__}, expected a tensor of outputs")
        if outputs.shape != (*inputs.shape, self.parametrization.num_outputs):
            raise ValueError(
                f"the network returned shape {tuple(outputs.shape)}, expected "
                f"{(*inputs.shape, self.parametrization.num_outputs)}: a row of outputs for each variable"
            )
        outputs = outputs.flatten(1, -2)
        return outputs if where is None else rows_at(outputs, where)

    def forward(
        self,
        inputs: Values,
        mask: Mask,
        stage: PerItem,
        t: PerItem,
        parent: Values,
        child: Values,
        context: Context = None,
    ) -> Float[Tensor, "B D"]:
        """log p(child | inputs) in nats of every variable, revealed ones included. One call."""
        outputs = self.outputs(inputs, mask, stage, t, context=context)
        return self.parametrization.log_prob(outputs, parent, child, stage)

    def predict(
        self, inputs: Values, mask: Mask, stage: int, t: int, where: Where, context: Context = None
    ) -> ChildDistribution:
        """The distributions of N variables of each item, at one stage and step for all items. One call.

        Stage and step are Python integers: reading them from tensors would wait for the device.
        """
        stages, steps = (torch.full(inputs.shape[:1], number, device=inputs.device) for number in (stage, t))
        outputs = self.outputs(inputs, mask, stages, steps, where, context)
        return self.parametrization.children(outputs, inputs.gather(1, where), stage)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """A context in which all modules are in eval mode, without dropout; each gets its own mode back at the end.

    >>> from torch import nn
    >>> from ardm.model import evaluating
    >>> model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    >>> with evaluating(model):
    ...     [module.training for module in model]
    [False, False]
    >>> [module.training for module in model]
    [True, False]
    """
    trained = [module for module in model.modules() if module.training]
    for module in trained:
        module.training = False
    try:
        yield
    finally:
        for module in trained:
            module.training = True


def rows_at(x: Float[Tensor, "B D C"], where: Int[Tensor, "B N"]) -> Float[Tensor, "B N C"]:
    """The rows of N variables of each item."""
    return x.gather(1, where[..., None].expand(-1, -1, x.shape[-1]))
