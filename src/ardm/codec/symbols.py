"""Maps of a variable's next value to symbols and back, with the symbols' weights, for every parametrization.

| map | parametrization | symbols of one variable |
|---|---|---|
| `Classes` | data, one stage | its class |
| `Siblings` | data, several stages | the number of its child among the children of its parent, by rising value |
| `Digits` | direct | the digit of the stage |
| `Nibbles` | mixture of logistics | the hexadecimal digits of its class, most significant first |

Symbols that no class can reach have no weight (see `frequencies`). There are R rows, one per variable: their stages,
parents and children are on the network's device, weights and symbols where they are computed and read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, Int32, Integer
from torch import Tensor

from ardm.codec.frequencies import DIGIT_BASE, MAX_COMPONENTS, grouped_weights, log_scale_range, mixture_weights
from ardm.codec.gpu import softmax_weights
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
"""Limit set by the 16-bit weights of the coder's last symbols."""
MAX_GROUPED_CLASSES = 1 << 14
"""Keeps the share of a child within 2^38."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """R variables to code: the network's outputs for them, their stages and their parents."""

    outputs: Integer[Tensor, "R O"]
    stage: Column
    parent: Column


@runtime_checkable
class SymbolMap(Protocol):
    """Maps each variable's child, given its parent and the stage, to `length` symbols and back."""

    length: int
    gpu_width: int
    """Width of rows if a GPU can read them: one symbol per variable, by a softmax that reaches all; else 0."""

    def symbols(self, rows: Rows, child: Column) -> list[Column]:
        """The symbols of children: all first ones, then all second ones and so on."""

    def weights(self, rows: Rows, before: Sequence[Column]) -> RowsOfWeights:
        """The weights of the symbols that follow those `before`."""

    def child(self, rows: Rows, symbols: Sequence[Column]) -> Column:
        """The children that the symbols stand for."""


def symbol_map(parametrization: Parametrization) -> SymbolMap:
    """The map for a parametrization."""
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

    def symbols(self, rows: Rows, child: Column) -> list[Column]:
        """The classes themselves."""
        return [child]

    def weights(self, rows: Rows, before: Sequence[Column]) -> RowsOfWeights:
        """A softmax over all outputs."""
        first, count = torch.zeros_like(rows.stage), torch.full_like(rows.stage, self._num_classes)
        return softmax_weights(rows.outputs, first, count, self._num_classes)

    def child(self, rows: Rows, symbols: Sequence[Column]) -> Column:
        """The classes themselves."""
        return symbols[0].to(rows.parent.device)


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

    def symbols(self, rows: Rows, child: Column) -> list[Column]:
        """The number of each child among its siblings; every value has only one parent."""
        return [torch.from_numpy(self._number[_numpy(rows.stage), _numpy(child)])]

    def weights(self, rows: Rows, before: Sequence[Column]) -> RowsOfWeights:
        """Sums over the classes below each child."""
        place = _numpy(rows.stage), _numpy(rows.parent)
        begin, end = self._begin[place], self._end[place]
        width = self._values.shape[2]
        return torch.from_numpy(grouped_weights(_numpy(rows.outputs), begin, end, self._classes, self._siblings, width))

    def child(self, rows: Rows, symbols: Sequence[Column]) -> Column:
        """The values of the children with these numbers."""
        values = self._values[_numpy(rows.stage), _numpy(rows.parent), _numpy(symbols[0])]
        return torch.from_numpy(values).to(rows.parent.device)


def _sorted_families(parents: Int[np.ndarray, "K"], children: Int[np.ndarray, "K"]) -> tuple[Int[np.ndarray, "K"], ...]:
    """Parents, children, classes and numbers among siblings, sorted by parent and child."""
    classes = np.lexsort((children, parents))
    parents, children = parents[classes], children[classes]
    running = np.cumsum(np.diff(children, prepend=-1) != 0)
    return parents, children, classes, running - running[parents.searchsorted(parents)]


class Digits:
    """The digit of a stage in base b; digits that lead beyond class K-1 are not reachable."""

    length = 1

    def __init__(self, depth: BaseDepthMap) -> None:
        self._base, self._num_classes = depth.base, depth.num_classes
        self._reaches_all = depth.base**depth.num_stages == depth.num_classes
        self.gpu_width = depth.base if self._reaches_all else 0
        self._scales = tuple(depth.base**power for power in reversed(range(depth.num_stages)))

    def symbols(self, rows: Rows, child: Column) -> list[Column]:
        """The digits (child - parent) / b^(S-1-stage)."""
        return [(child - rows.parent) // self._scale(rows.stage)]

    def weights(self, rows: Rows, before: Sequence[Column]) -> RowsOfWeights:
        """A softmax over the b outputs of the stage."""
        if self._reaches_all:
            count = torch.full_like(rows.stage, self._base)
        else:
            count = (-(-(self._num_classes - rows.parent) // self._scale(rows.stage))).clamp(max=self._base)
        return softmax_weights(rows.outputs, rows.stage * self._base, count, self._base)

    def child(self, rows: Rows, symbols: Sequence[Column]) -> Column:
        """The parents with the next digit added."""
        return rows.parent + symbols[0].to(rows.parent.device) * self._scale(rows.stage)

    def _scale(self, stage: Column) -> Column:
        """The place value of the stage's digit."""
        return _table(self._scales, stage.device)[stage]


class Nibbles:
    """The hexadecimal digits of a class, each weighted by differences of the mixture's cumulative distribution."""

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

    def symbols(self, rows: Rows, child: Column) -> list[Column]:
        """The digits, most significant first."""
        return [child // size % DIGIT_BASE for size in self._sizes]

    def weights(self, rows: Rows, before: Sequence[Column]) -> RowsOfWeights:
        """The weights of the next digit."""
        outputs, first = _numpy(rows.outputs), _numpy(self._class(before, rows.parent))
        bounds = (self._sizes[len(before)], self._num_classes, self._log_scale_range)
        return torch.from_numpy(mixture_weights(outputs, first, *bounds, is_companded=self._is_companded))

    def child(self, rows: Rows, symbols: Sequence[Column]) -> Column:
        """The classes with these digits."""
        return self._class(symbols, rows.parent)

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
