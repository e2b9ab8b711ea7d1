"""The interface of each medium's page: requests to items with gaps, and states of samples to JSON."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ardm.apps.serve.inputs import PageRequest, encoded
from ardm.media.images.pictures import Picture, quick_png
from ardm.media.medium import GappedItem, gapped
from ardm.names import Shape
from ardm.tasks.draw import States


@runtime_checkable
class PageMedium(Protocol):
    """One kind of data around one model, as the page shows it."""

    def facts(self) -> dict[str, Any]:
        """The facts about the model that the page needs."""

    def start(self, request: PageRequest) -> GappedItem:
        """The item to fill; if samples are drawn from nothing, all of it is a gap."""

    def show_states(self, states: States, gaps: GappedItem) -> dict[str, Any]:
        """Intermediate states of samples, for the page."""

    def show_samples(self, samples: States, gaps: GappedItem) -> dict[str, Any]:
        """Finished samples, for the page."""


def all_gaps(shape: Shape) -> GappedItem:
    """An item of which nothing is known."""
    return gapped(np.zeros(shape, np.int64), np.zeros(shape, bool))


def png(picture: Picture) -> str:
    """A PNG file of a grey or colour picture, in base64."""
    return encoded(quick_png(picture))


def rounded(values: Sequence[float] | np.ndarray) -> list[float]:
    """Numbers rounded to two decimals, for JSON."""
    return np.round(np.asarray(values, np.float64), 2).tolist()
