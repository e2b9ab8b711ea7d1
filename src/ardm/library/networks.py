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

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import nn

from ardm.build import MIXTURES
from ardm.config import MIXTURE_NAMES, ParametrizationName
from ardm.depth import BaseDepthMap, absorbing
from ardm.errors import UsageError
from ardm.library.items import TokenItems
from ardm.library.limited import LimitedClasses
from ardm.library.model import Model
from ardm.model import ARDM
from ardm.names import Shape
from ardm.parametrizations import DataParametrization, DirectParametrization, Parametrization

NumClasses = int | Sequence[int] | Int[np.ndarray, "..."]
"""The number of classes of all variables, or of each."""


def order_agnostic(
    network: nn.Module,
    num_classes: NumClasses,
    shape: Shape | int,
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
    shape = _as_shape(shape)
    counts = _as_counts(num_classes, shape)
    depth = absorbing(int(counts.max()))
    if parametrization in MIXTURE_NAMES:
        _require_one_count(counts, parametrization)
        chosen: Parametrization = MIXTURES[parametrization](depth, num_components, min_log_scale)
        return _model(network, chosen, counts, shape)
    if parametrization != "data":
        raise UsageError(f"an order-agnostic model is one of data, logistic or companded, got {parametrization!r}")
    return _model(network, DataParametrization(depth), counts, shape)


def upscale(
    network: nn.Module,
    num_classes: NumClasses,
    base: int,
    shape: Shape | int,
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
    shape = _as_shape(shape)
    counts = _as_counts(num_classes, shape)
    if not 2 <= base < counts.max():
        raise UsageError(f"the base must lie in 2..{counts.max() - 1} for {counts.max()} classes, got {base}")
    depth = BaseDepthMap(int(counts.max()), base)
    if parametrization == "direct":
        _require_one_count(counts, parametrization)
        return _model(network, DirectParametrization(depth), counts, shape)
    if parametrization != "data":
        raise UsageError(f"an upscale model is direct or data, got {parametrization!r}")
    return _model(network, DataParametrization(depth), counts, shape)


def _model(network: nn.Module, parametrization: Parametrization, counts: np.ndarray, shape: Shape) -> Model:
    if not isinstance(network, nn.Module):
        raise UsageError(f"a network is a torch.nn.Module, got {type(network).__name__}")
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    if (counts != counts.max()).any():
        limits = torch.from_numpy(np.ascontiguousarray(counts))
        network = LimitedClasses(network, limits, parametrization.depth.num_classes)
    ardm = ARDM(network, parametrization, shape).to(device)
    return Model(ardm, TokenItems(shape, counts.ravel()))


def _as_shape(shape: Shape | int) -> Shape:
    axes = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
    if not axes or min(axes) < 1:
        raise UsageError(f"an item's shape has axes of at least 1, got {axes}")
    return axes


def _as_counts(num_classes: NumClasses, shape: Shape) -> Int[np.ndarray, "*shape"]:
    counts = np.asarray(num_classes, dtype=np.int64)
    if counts.ndim == 1 and counts.size == np.prod(shape):
        counts = counts.reshape(shape)
    if counts.shape not in ((), shape):
        raise UsageError(f"num_classes must be a number or one for each variable of {shape}, got {counts.shape}")
    if counts.min() < 2 and counts.max() < 2:
        raise UsageError("a variable needs at least 2 classes")
    if counts.min() < 1:
        raise UsageError(f"every variable needs a class, got {counts.min()}")
    return np.array(np.broadcast_to(counts, shape))


def _require_one_count(counts: np.ndarray, parametrization: str) -> None:
    if (counts != counts.max()).any():
        raise UsageError(
            f"variables with different numbers of classes need the data parametrization, not {parametrization!r}"
        )
