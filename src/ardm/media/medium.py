"""The interface of a medium (text, images, sound): loads data to score, parses gaps to fill, writes samples."""

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
from ardm.names import Shape
from ardm.orders import given_first
from ardm.sample import Given


@dataclass(frozen=True, kw_only=True)
class GappedItem:
    """An item with known variables and variables to fill."""

    values: Int[np.ndarray, "D"]
    """Classes where known, 0 elsewhere."""
    known: Bool[np.ndarray, "D"]
    shape: Shape
    length: int
    """End of the variables that are known or filled (a text may be shorter than the model's items)."""

    def steps(self, num_stages: int) -> tuple[int, int]:
        """The start and the end of the range of steps that fill the gaps.

        Stages after the first need whole items, so only models of one stage stop at the item's length.
        """
        return int(self.known.sum()), self.length if num_stages == 1 else self.known.size

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
    """An item with these values where they are known, in the shape of the arrays."""
    shown = np.where(known, values, 0).astype(np.int64).ravel()
    return GappedItem(values=shown, known=known.ravel(), shape=known.shape, length=known.size)


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Samples, each with the intermediate states that led to it."""

    chains: Sequence[Sequence[Int[np.ndarray, "_"]]]
    """The states of each sample, the sample itself last; hidden variables of one-stage models have value K."""
    shape: Shape
    calls: Sequence[int]
    """Number of calls made when each state was reached."""
    is_chain: bool
    """Whether to show all states, or only the last."""


class Medium:
    """One kind of data (text, images or sound), as one model uses it."""

    data: Any
    """The configuration of the data."""
    unit: str
    """Unit of bits per variable."""
    budgets: tuple[int, ...]
    """Numbers of calls for tables."""
    num_states: int
    """Number of states of a chain to show, if there are many calls."""
    orders: tuple[str, ...]
    """Orders to score exactly, one variable per call, in tables."""
    layout: Layout[Any]
    """The codec's layout of contents for the model."""
    item_fields: Fields
    """Fields of a content that is exactly one item."""

    def __init__(self, trained: AnyTrained) -> None:
        self.data = trained.config.data
        self.own_shape = trained.model.shape

    @staticmethod
    def load(data: Any, path: Path) -> Corpus:
        """The training data that a configuration names, read from its original files or from a packed data set."""
        raise NotImplementedError

    def corpus(self, path: Path) -> Corpus:
        """The data at a path, for scoring."""
        raise NotImplementedError

    def shape(self, size: str | None) -> Shape:
        """The shape of items of the user's size, or the model's own shape."""
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
