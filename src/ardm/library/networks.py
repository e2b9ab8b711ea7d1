"""Models around a network of your own.

A network is a module `(inputs, mask, stage, t) -> outputs`; that of a conditional model takes a fifth argument, the
context. For a batch of B items of some shape:

| | |
|---|---|
| `inputs` | (B, *shape) integers: the value of each revealed variable, and K, the number of classes, where one is hidden; in an upscale model the digits that are known so far |
| `mask` | (B, *shape): True where a variable is revealed, in this stage |
| `stage`, `t` | (B,): the stage, 0 in an order-agnostic model, and the number of revealed variables |
| `context` | (B, ...): what the model is conditioned on, such as labels |
| outputs | (B, *shape, O): a row of numbers for each variable, by default a logit for each class |

A network may ignore the mask, the stage and the step.
"""  # noqa: E501

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from ardm.build import MIXTURES
from ardm.config import MIXTURE_NAMES, ParametrizationName
from ardm.depth import BaseDepthMap, absorbing
from ardm.errors import UsageError
from ardm.library.items import AnyShape, TokenItems, as_integers, as_shape
from ardm.library.limited import LimitedClasses
from ardm.library.model import Model
from ardm.model import ARDM
from ardm.names import Shape
from ardm.parametrizations import DataParametrization, DirectParametrization, Parametrization

NumClasses = int | Sequence[int] | Int[np.ndarray, "..."] | Int[Tensor, "..."]
"""The number of classes of all variables, or of each."""


@dataclass(frozen=True, kw_only=True)
class OwnConfig:
    """Description of a model around a network of one's own, without the network."""

    num_classes: tuple[int, ...]
    """The number of classes of all variables, or of each."""
    shape: Shape
    base: int | None = None
    """The base of an upscale model; None for an order-agnostic one."""
    parametrization: ParametrizationName = "data"
    num_components: int = 10
    """Logistics of a mixture."""
    min_log_scale: float = -14.0
    """Minimum logarithm of the scale of a mixture's logistics."""

    def __post_init__(self) -> None:
        most = max(self.num_classes, default=0)
        if most < 2 or min(self.num_classes) < 1:
            raise UsageError(f"every variable needs a class, and some variable two; got {self.num_classes}")
        if not self.shape or min(self.shape) < 1:
            raise UsageError(f"an item's shape has axes of at least 1, got {self.shape}")
        if len(self.num_classes) not in (1, math.prod(self.shape)):
            raise UsageError(
                f"num_classes must be one number or one for each of {math.prod(self.shape)} variables, "
                f"got {len(self.num_classes)}"
            )
        if self.base is not None and not 2 <= self.base < most:
            raise UsageError(f"the base must lie in 2..{most - 1} for {most} classes, got {self.base}")
        if self.parametrization not in (choices := ("direct", "data") if self.base else ("data", *MIXTURE_NAMES)):
            raise UsageError(f"the parametrization must be one of {', '.join(choices)}, got {self.parametrization!r}")
        if min(self.num_classes) < most and self.parametrization != "data":
            raise UsageError(
                "variables with different numbers of classes need the data parametrization, "
                f"not {self.parametrization!r}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "OwnConfig":
        """The configuration that `to_dict` wrote."""
        lists: dict[str, Any] = {name: tuple(values[name]) for name in ("num_classes", "shape")}
        return cls(**(values | lists))


def order_agnostic(
    network: nn.Module,
    num_classes: NumClasses,
    shape: AnyShape,
    *,
    parametrization: ParametrizationName = "data",
    num_components: int = 10,
    min_log_scale: float = -14.0,
) -> Model:
    """An order-agnostic model of items of a shape around a network, which keeps its weights.

    `num_classes` may be a list with a number for each variable; the network still gives as many logits as the largest
    one. With "logistic" or "companded", for many classes in order, the network gives 3 numbers for each of the
    mixture's components instead: weight, mean and log-scale.

    >>> import ardm
    >>> from torch import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.values, self.layer = nn.Embedding(3, 8), nn.Linear(40, 10)
    ...     def forward(self, inputs, mask, stage, t):
    ...         return self.layer(self.values(inputs).flatten(1)).view(-1, 5, 2)
    >>> model = ardm.order_agnostic(Net(), num_classes=2, shape=5)
    >>> model
    Model of tokens: 5 variables, 2 classes, 1 stage, 434 parameters
    """
    config = OwnConfig(
        num_classes=_counts(num_classes),
        shape=as_shape(shape),
        parametrization=parametrization,
        num_components=num_components,
        min_log_scale=min_log_scale,
    )
    return model_around(network, config)


def upscale(
    network: nn.Module,
    num_classes: NumClasses,
    base: int,
    shape: AnyShape,
    *,
    parametrization: ParametrizationName = "direct",
) -> Model:
    """An upscale model around a network: values are drawn digit by digit in a base, most significant first.

    With "direct" the network gives `base` logits for each of the S stages, with "data" a logit for each class.

    >>> import ardm
    >>> from torch import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.values = nn.Embedding(4, 4)
    ...     def forward(self, inputs, mask, stage, t):
    ...         return self.values(inputs)
    >>> ardm.upscale(Net(), num_classes=4, base=2, shape=(2, 2))
    Model of tokens: 4 variables, 4 classes, 2 stages, 16 parameters
    """
    config = OwnConfig(
        num_classes=_counts(num_classes), shape=as_shape(shape), base=base, parametrization=parametrization
    )
    return model_around(network, config)


def model_around(network: nn.Module, config: OwnConfig) -> Model:
    """The model of a configuration around a network."""
    if not isinstance(network, nn.Module):
        raise UsageError(f"a network is a torch.nn.Module, got {type(network).__name__}{_advice(network)}")
    parametrization, counts = _parametrization(config), np.array(config.num_classes)
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    if counts.min() < counts.max():
        network = LimitedClasses(network, torch.from_numpy(counts.reshape(config.shape)), int(counts.max()))
    return Model(ARDM(network, parametrization, config.shape).to(device), TokenItems(config.shape, counts), own=config)


def _parametrization(config: OwnConfig) -> Parametrization:
    most = max(config.num_classes)
    if config.base is not None:
        digits = BaseDepthMap(most, config.base)
        return DirectParametrization(digits) if config.parametrization == "direct" else DataParametrization(digits)
    depth = absorbing(most)
    if config.parametrization == "data":
        return DataParametrization(depth)
    return MIXTURES[config.parametrization](depth, config.num_components, config.min_log_scale)


def _advice(network: Any) -> str:
    return "; call the class to make one" if isinstance(network, type) else ""


def _counts(num_classes: NumClasses) -> tuple[int, ...]:
    return tuple(as_integers(num_classes, "num_classes"))
