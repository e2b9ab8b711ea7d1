"""How a variable's next value is spelled in symbols, and the weights of each symbol, for every parametrization.

| spelling | parametrization | symbols of one variable |
|---|---|---|
| `Classes` | data, one stage | its class |
| `Siblings` | data, several stages | the number of its child among the children of its parent, by rising value |
| `Digits` | direct | the digit of the stage |
| `Nibbles` | mixture of logistics | the hexadecimal digits of its class, most significant first |

Symbols that no class can reach have no weight (see `frequencies`). R rows, one for each variable: stages, parents and
children are where the network is, weights where they are computed best, and symbols where they were read.
"""

from collections.abc import Sequence
from functools import cache
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, Int32, Integer
from torch import Tensor

from ardm.codec.frequencies import (
    DIGIT_BASE,
    MAX_COMPONENTS,
    grouped_weights,
    log_scale_range,
    mixture_weights,
)
from ardm.codec.softmax import softmax_weights
from ardm.depth import BaseDepthMap, DepthMap
from ardm.parametrizations import (
    CompandedMixtureParametrization,
    DataParametrization,
    DirectParametrization,
    LogisticMixtureParametrization,
    Parametrization,
)

Column = Int[Tensor, "R"]
RowsOfWeights = Int32[Tensor, "R C"]

MAX_CLASSES = 1 << 16
"""As many fit in the coarse weights of the coder's last symbols."""
MAX_GROUPED_CLASSES = 1 << 14
"""As many classes keep the share of a child within 2^38."""


@runtime_checkable
class Spelling(Protocol):
    """A variable's child, given its parent and the stage, as a word of `length` symbols."""

    length: int
    gpu_width: int
    """Weights of a row if a GPU may read it: words are of one symbol, by a softmax in which all are reachable. Or 0."""

    def symbols(self, stage: Column, parent: Column, child: Column) -> list[Column]:
        """The symbols of children, all first ones, then all second ones and so on."""

    def weights(
        self, outputs: Integer[Tensor, "R O"], stage: Column, parent: Column, before: Sequence[Column]
    ) -> RowsOfWeights:
        """The weights of the next symbols after those `before`."""

    def child(self, stage: Column, parent: Column, symbols: Sequence[Column]) -> Column:
        """The children that symbols spell."""


def spelling_of(parametrization: Parametrization) -> Spelling:
    """The spelling for a parametrization."""
    match parametrization:
        case DirectParametrization(depth=BaseDepthMap() as depth):
            return Digits(depth)
        case LogisticMixtureParametrization():
            return Nibbles(parametrization)
        case DataParametrization(depth=depth) if depth.num_stages == 1:
            return Classes(depth.num_classes)
        case DataParametrization(depth=depth):
            return Siblings(depth)
    raise ValueError(f"no exact weights are defined for a {type(parametrization).__name__}")


class Classes:
    """All K classes in one row."""

    length = 1

    def __init__(self, num_classes: int) -> None:
        if num_classes > MAX_CLASSES:
            raise ValueError(f"exact rows have up to {MAX_CLASSES} classes, got {num_classes}")
        self._num_classes = self.gpu_width = num_classes

    def symbols(self, stage: Column, parent: Column, child: Column) -> list[Column]:
        """The classes themselves."""
        return [child]

    def weights(
        self, outputs: Integer[Tensor, "R O"], stage: Column, parent: Column, before: Sequence[Column]
    ) -> RowsOfWeights:
        """A softmax over all outputs."""
        first, count = torch.zeros_like(stage), torch.full_like(stage, self._num_classes)
        return softmax_weights(outputs, first, count, self._num_classes)

    def child(self, stage: Column, parent: Column, symbols: Sequence[Column]) -> Column:
        """The classes themselves."""
        return symbols[0].to(parent.device)


class Siblings:
    """The children of a parent, each with the sum of the classes below it."""

    length = 1
    gpu_width = 0

    def __init__(self, depth: DepthMap) -> None:
        if depth.num_classes > MAX_GROUPED_CLASSES:
            raise ValueError(f"exact upscaling takes up to {MAX_GROUPED_CLASSES} classes, got {depth.num_classes}")
        levels = depth.levels.cpu().numpy()
        families = [_sorted_families(*levels[stage : stage + 2]) for stage in range(depth.num_stages)]
        parents, children, classes, siblings = np.stack(families, axis=1)
        stages = np.arange(depth.num_stages)[:, None]
        values = np.arange(depth.num_values)
        first = stages * depth.num_classes
        self._begin = first + np.stack([row.searchsorted(values, "left") for row in parents])
        self._end = first + np.stack([row.searchsorted(values, "right") for row in parents])
        self._classes, self._siblings = classes.ravel(), siblings.ravel()
        self._number = np.zeros((depth.num_stages, depth.num_values), np.int64)
        self._number[stages, children] = siblings
        self._values = np.zeros((depth.num_stages, depth.num_values, siblings.max() + 1), np.int64)
        self._values[stages, parents, siblings] = children

    def symbols(self, stage: Column, parent: Column, child: Column) -> list[Column]:
        """The numbers of children among their siblings; a value has one parent only."""
        return [torch.from_numpy(self._number[_numpy(stage), _numpy(child)])]

    def weights(
        self, outputs: Integer[Tensor, "R O"], stage: Column, parent: Column, before: Sequence[Column]
    ) -> RowsOfWeights:
        """Sums over the classes below each child."""
        place = _numpy(stage), _numpy(parent)
        begin, end = self._begin[place], self._end[place]
        width = self._values.shape[2]
        return torch.from_numpy(grouped_weights(_numpy(outputs), begin, end, self._classes, self._siblings, width))

    def child(self, stage: Column, parent: Column, symbols: Sequence[Column]) -> Column:
        """The values of the numbered children."""
        values = self._values[_numpy(stage), _numpy(parent), _numpy(symbols[0])]
        return torch.from_numpy(values).to(parent.device)


def _sorted_families(parents: Int[np.ndarray, "K"], children: Int[np.ndarray, "K"]) -> tuple[Int[np.ndarray, "K"], ...]:
    """Of the classes sorted by parent and child: parents, children, classes, and the number among the siblings."""
    classes = np.lexsort((children, parents))
    parents, children = parents[classes], children[classes]
    running = np.cumsum(np.diff(children, prepend=-1) != 0)
    return parents, children, classes, running - running[parents.searchsorted(parents)]


class Digits:
    """The digit of a stage in base b; those that lead beyond class K-1 are not reachable."""

    length = 1

    def __init__(self, depth: BaseDepthMap) -> None:
        self._base, self._num_classes = depth.base, depth.num_classes
        self._reaches_all = depth.base**depth.num_stages == depth.num_classes
        self.gpu_width = depth.base if self._reaches_all else 0
        self._scales = tuple(depth.base**power for power in reversed(range(depth.num_stages)))

    def symbols(self, stage: Column, parent: Column, child: Column) -> list[Column]:
        """The digits (child - parent) / b^(S-1-stage)."""
        return [(child - parent) // self._scale(stage)]

    def weights(
        self, outputs: Integer[Tensor, "R O"], stage: Column, parent: Column, before: Sequence[Column]
    ) -> RowsOfWeights:
        """A softmax over the b outputs of the stage."""
        if self._reaches_all:
            count = torch.full_like(stage, self._base)
        else:
            count = (-(-(self._num_classes - parent) // self._scale(stage))).clamp(max=self._base)
        return softmax_weights(outputs, stage * self._base, count, self._base)

    def child(self, stage: Column, parent: Column, symbols: Sequence[Column]) -> Column:
        """The parents with their next digit."""
        return parent + symbols[0].to(parent.device) * self._scale(stage)

    def _scale(self, stage: Column) -> Column:
        """What a digit of the stage counts."""
        return _table(self._scales, stage.device)[stage]


class Nibbles:
    """The hexadecimal digits of a class, each weighed by differences of the mixture's cumulative distribution."""

    gpu_width = 0

    def __init__(self, parametrization: LogisticMixtureParametrization) -> None:
        self._num_classes = parametrization.depth.num_classes
        if parametrization.num_components > MAX_COMPONENTS or not 2 <= self._num_classes <= 1 << 16:
            raise ValueError(
                f"exact mixtures have up to {MAX_COMPONENTS} components and 2..65536 classes, "
                f"got {parametrization.num_components} and {self._num_classes}"
            )
        self._log_scale_range = log_scale_range(parametrization)
        self._is_companded = isinstance(parametrization, CompandedMixtureParametrization)
        self.length = -(-(self._num_classes - 1).bit_length() // 4)
        self._sizes = [DIGIT_BASE**place for place in reversed(range(self.length))]

    def symbols(self, stage: Column, parent: Column, child: Column) -> list[Column]:
        """The digits, most significant first."""
        return [child // size % DIGIT_BASE for size in self._sizes]

    def weights(
        self, outputs: Integer[Tensor, "R O"], stage: Column, parent: Column, before: Sequence[Column]
    ) -> RowsOfWeights:
        """Those of the next digit."""
        first = self._class(before, parent)
        weights = mixture_weights(
            _numpy(outputs),
            _numpy(first),
            self._sizes[len(before)],
            self._num_classes,
            self._log_scale_range,
            is_companded=self._is_companded,
        )
        return torch.from_numpy(weights)

    def child(self, stage: Column, parent: Column, symbols: Sequence[Column]) -> Column:
        """The classes that digits spell."""
        return self._class(symbols, parent)

    def _class(self, symbols: Sequence[Column], parent: Column) -> Column:
        """The first class whose digits begin with these."""
        first = torch.zeros_like(parent)
        for digit, size in zip(symbols, self._sizes, strict=False):
            first += digit.to(parent.device) * size
        return first


def _numpy(x: Tensor) -> np.ndarray:
    return x.cpu().numpy()


@cache
def _table(values: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device)
