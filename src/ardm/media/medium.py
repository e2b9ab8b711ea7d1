"""What every medium offers the command line."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ardm.data.corpus import Corpus
from ardm.orders import Shape
from ardm.sample import Given, given_first


@dataclass(frozen=True, kw_only=True)
class GappedItem:
    """An item of which some variables are known and others are to be filled."""

    values: Int[np.ndarray, "D"]
    """Classes where known, 0 elsewhere."""
    known: Bool[np.ndarray, "D"]
    shape: Shape
    length: int
    """Variables from here on are neither known nor filled (a text shorter than the model's items)."""

    def given(self, count: int, device: torch.device) -> Given:
        """What is known, for so many samples."""
        values, known = (torch.from_numpy(a).to(device).expand(count, -1) for a in (self.values, self.known))
        return Given(values=values, mask=known)

    def sorted(self, orders: Int[Tensor, "B S D"]) -> Int[Tensor, "B S D"]:
        """Orders with what is known first, and last what is neither known nor wanted."""
        inside = torch.arange(orders.shape[-1], device=orders.device) < self.length
        known = torch.from_numpy(self.known).to(orders.device)
        for first in (inside, known):
            orders = given_first(orders, first.expand(len(orders), -1))
        return orders


def steps_to_fill(gaps: GappedItem | None, num_variables: int, num_stages: int) -> tuple[int, int]:
    """The first step of what is to be filled and the one after its last; without gaps all variables are.

    Stages after the first need all of an item, so that only a single one stops at its length.
    """
    if gaps is None:
        return 0, num_variables
    return int(gaps.known.sum()), gaps.length if num_stages == 1 else num_variables


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Samples, or for each the states on the way to it."""

    chains: Sequence[Sequence[Int[np.ndarray, "_"]]]
    """For each sample its states in turn, the sample itself last; hidden variables of one-stage models have value K."""
    shape: Shape
    calls: Sequence[int]
    """The number of calls made when each state was reached."""
    is_chain: bool
    """Whether to show all states, or the last alone."""


@runtime_checkable
class Medium(Protocol):
    """One kind of data around one model."""

    unit: str
    """The unit of bits for each variable."""
    budgets: tuple[int, ...]
    """Numbers of calls for tables."""
    num_states: int
    """States of a chain to show."""
    orders: tuple[str, ...]
    """Orders whose exact bits, one variable a call, are worth their time in tables."""

    def corpus(self, path: Path) -> Corpus:
        """The data at a path, to be scored."""

    def shape(self, size: str | None) -> Shape:
        """The shape of items of a size that the user gave, or the model's own."""

    def gapped_item(self, source: str, mask: str | None) -> GappedItem:
        """A user's item and what to fill of it."""

    def check_output(self, path: Path | None, count: int, *, as_json: bool) -> None:
        """A usage error, before any work is done, where so many samples cannot be written."""

    def write(self, samples: Samples, path: Path | None, *, as_json: bool) -> None:
        """Show samples or write them to a file."""
