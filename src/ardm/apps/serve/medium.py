"""What every medium offers the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from ardm.apps.serve.inputs import PageRequest, encoded
from ardm.media.images.pictures import Picture, quick_png
from ardm.media.medium import GappedItem
from ardm.orders import Shape

States = Int[np.ndarray, "N D"]
"""Classes of N samples; a variable that is not revealed yet has a class beyond the last one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """What samples begin with."""

    shape: Shape
    gaps: GappedItem | None
    """None: with nothing."""
    length: int
    """Variables from here on are left out; without gaps there are none."""


@runtime_checkable
class PageMedium(Protocol):
    """One kind of data around one model, as the page shows it."""

    def facts(self) -> dict[str, Any]:
        """What the page must know of the model."""

    def start(self, asked: PageRequest) -> Start:
        """What to begin with."""

    def shown(self, states: States, start: Start) -> dict[str, Any]:
        """States on the way."""

    def finished(self, states: States, start: Start) -> dict[str, Any]:
        """The samples themselves."""


def png(picture: Picture) -> str:
    """A PNG file of a grey or colour picture, in base64."""
    return encoded(quick_png(picture))


def rounded(values: Sequence[float] | np.ndarray) -> list[float]:
    """Numbers with two digits, for JSON."""
    return np.round(np.asarray(values, np.float64), 2).tolist()
