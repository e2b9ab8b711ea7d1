"""Media around a model: data to score, gaps to fill, samples to write."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int, Integer
from torch import Tensor

from ardm.checkpoint import AnyTrained
from ardm.codec.format.fields import Fields
from ardm.data.corpus import Corpus
from ardm.media.layout import Layout
from ardm.orders import Shape
from ardm.sample import Given, given_first


@dataclass(frozen=True, kw_only=True)
class GappedItem:
    """An item with known variables and variables to fill."""

    values: Int[np.ndarray, "D"]
    """Classes where known, 0 elsewhere."""
    known: Bool[np.ndarray, "D"]
    shape: Shape
    length: int
    """End of the variables that are known or filled (a text may be shorter than the model's items)."""

    def given(self, count: int, device: torch.device) -> Given:
        """The known variables, for a number of samples."""
        values, known = (torch.from_numpy(a).to(device).expand(count, -1) for a in (self.values, self.known))
        return Given(values=values, mask=known)

    def sorted(self, orders: Int[Tensor, "B S D"]) -> Int[Tensor, "B S D"]:
        """Orders with known variables first, and those beyond the length last."""
        inside = torch.arange(orders.shape[-1], device=orders.device) < self.length
        known = torch.from_numpy(self.known).to(orders.device)
        for first in (inside, known):
            orders = given_first(orders, first.expand(len(orders), -1))
        return orders


def gapped(values: Integer[np.ndarray, "..."], known: Bool[np.ndarray, "..."]) -> GappedItem:
    """An item with the values that are known, of their shape."""
    shown = np.where(known, values, 0).astype(np.int64).ravel()
    return GappedItem(values=shown, known=known.ravel(), shape=known.shape, length=known.size)


def steps_to_fill(gaps: GappedItem | None, num_variables: int, num_stages: int) -> tuple[int, int]:
    """The first step that fills gaps and the end of the last one; all steps if there are no gaps.

    Stages after the first need whole items, so that only models of one stage stop at the item's length.
    """
    if gaps is None:
        return 0, num_variables
    return int(gaps.known.sum()), gaps.length if num_stages == 1 else num_variables


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Samples, each with states on the way to it."""

    chains: Sequence[Sequence[Int[np.ndarray, "_"]]]
    """The states of each sample, the sample itself last; hidden variables of one-stage models have value K."""
    shape: Shape
    calls: Sequence[int]
    """Number of calls before each state."""
    is_chain: bool
    """Whether to show all states, or only the last."""


class Medium:
    """One kind of data around one model."""

    data: Any
    """The configuration of the data."""
    unit: str
    """Unit of bits per variable."""
    budgets: tuple[int, ...]
    """Numbers of calls for tables."""
    num_states: int
    """Number of states of a chain to show."""
    orders: tuple[str, ...]
    """Orders to score exactly, one variable per call, in tables."""
    layout: Layout[Any]
    """The codec's layout of contents for the model."""
    item_fields: Fields
    """Fields of a content of exactly one item."""

    def __init__(self, trained: AnyTrained) -> None:
        self.data = trained.config.data
        self.own_shape = trained.model.shape

    @staticmethod
    def load(data: Any, path: Path) -> Corpus:
        """The data set to train on that a configuration names, in its original files or packed."""
        raise NotImplementedError

    def corpus(self, path: Path) -> Corpus:
        """The data at a path, to be scored."""
        raise NotImplementedError

    def shape(self, size: str | None) -> Shape:
        """The shape of items of a size that the user gave, or the model's own."""
        raise NotImplementedError

    def gapped_item(self, source: str, mask: str | None) -> GappedItem:
        """A user's item and what to fill in it."""
        raise NotImplementedError

    def check_output(self, path: Path | None, count: int, *, as_json: bool) -> None:
        """Raise a UsageError, before any work is done, if that many samples cannot be written there."""
        raise NotImplementedError

    def write(self, samples: Samples, path: Path | None, *, as_json: bool) -> None:
        """Print samples or write them to a file."""
        raise NotImplementedError
