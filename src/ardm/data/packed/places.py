"""Places of a run that items are cut from: all, for random items, or those that tile each image, sound or text."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int, Integer

from ardm.data.packed.shards import Run
from ardm.errors import DataError
from ardm.orders import Shape

Rows = Integer[np.ndarray, "B D"]


@runtime_checkable
class Places(Protocol):
    """Numbered places that an item can be cut from."""

    def __len__(self) -> int:
        """How many there are."""

    def read(self, places: Int[np.ndarray, "B"]) -> Rows:
        """The values at some of them."""


class Windows:
    """Windows of D values within the pieces of a run (a split of a text, or sounds), at every `step`-th place of each.

    A piece shorter than D has none or, if it is padded, one with zeros at its end. With a number of classes, other
    values are an error.
    """

    def __init__(
        self,
        run: Run,
        firsts: Int[np.ndarray, "N"],
        lengths: Int[np.ndarray, "N"],
        num_variables: int,
        *,
        step: int = 1,
        pads: bool = False,
        num_classes: int | None = None,
    ) -> None:
        self.run, self.firsts, self.lengths, self.num_classes = run, firsts, lengths, num_classes
        self.num_variables, self.step = num_variables, step
        counts = np.maximum((np.maximum(lengths, num_variables * pads) - num_variables) // step + 1, 0)
        self.ends = counts.cumsum()

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def read(self, places: Int[np.ndarray, "B"]) -> Rows:
        """The windows at these places, in any shards."""
        piece, within = located(self.ends, places)
        starts = self.firsts[piece] + within * self.step
        stops = starts + np.minimum(self.lengths[piece], self.num_variables)
        rows = np.zeros((len(places), self.num_variables), self.run.dtype)
        for row, start, stop in zip(rows, starts.tolist(), stops.tolist(), strict=True):
            row[: stop - start] = self.run.span(start, stop)
        if self.num_classes is not None and rows.max(initial=0) >= self.num_classes:
            raise DataError(
                f"{self.run.folder} is damaged: it has a class {rows.max()} of {self.num_classes}; "
                f"ardm data packed --root {self.run.folder} says in which file"
            )
        return rows


class Crops:
    """Crops of one size of the images of a run, at every place of each or (`tiles`) at those that do not overlap."""

    def __init__(
        self,
        run: Run,
        firsts: Int[np.ndarray, "N"],
        sizes: Int[np.ndarray, "N 2"],
        shape: Shape,
        *,
        tiles: bool = False,
    ) -> None:
        self.run, self.firsts, self.sizes, self.shape = run, firsts, sizes, shape
        self.steps = shape[:2] if tiles else (1, 1)
        rows, self.columns = (np.maximum((sizes[:, axis] - shape[axis]) // self.steps[axis] + 1, 0) for axis in (0, 1))
        self.ends = (rows * self.columns).cumsum()

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def read(self, places: Int[np.ndarray, "B"]) -> Rows:
        """The crops at these places, row by row, pixel by pixel."""
        image, within = located(self.ends, places)
        tops, lefts = within // self.columns[image] * self.steps[0], within % self.columns[image] * self.steps[1]
        height, width, channels = self.shape
        crops = np.empty((len(places), height, width, channels), self.run.dtype)
        full_widths = self.sizes[image, 1]
        starts = self.firsts[image] + tops * full_widths * channels
        corners = zip(crops, starts.tolist(), full_widths.tolist(), lefts.tolist(), strict=True)
        for crop, start, full_width, left in corners:
            lines = self.run.span(start, start + height * full_width * channels)
            crop[:] = lines.reshape(height, full_width, channels)[:, left : left + width]
        return crops.reshape(len(places), -1)


def located(
    ends: Int[np.ndarray, "N"], places: Int[np.ndarray, "B"]
) -> tuple[Int[np.ndarray, "B"], Int[np.ndarray, "B"]]:
    """Of places numbered through all pieces the piece and the number within it, given where each piece's end."""
    piece = np.searchsorted(ends, places, side="right")
    return piece, places - np.where(piece > 0, ends[piece - 1], 0)


class Items:
    """The items at all places, each read when it is asked for: an array of rows that is not in memory."""

    def __init__(self, places: Places, to_classes: Callable[[Rows], Rows] = lambda rows: rows) -> None:
        self.places, self.to_classes = places, to_classes

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: Any) -> Any:
        """Rows, or one row, as of an array: by a number, a slice, or a list of numbers."""
        chosen = np.arange(*index.indices(len(self))) if isinstance(index, slice) else np.asarray(index)
        if chosen.size and chosen.dtype.kind not in "iu":
            raise IndexError(f"items are taken by their numbers, not by {chosen.dtype}")
        if chosen.size and not -len(self) <= chosen.min() <= chosen.max() < len(self):
            raise IndexError(f"there are {len(self)} items, and one of {chosen.min()}..{chosen.max()} was asked for")
        rows = self.to_classes(self.places.read(chosen.astype(np.int64).reshape(-1) % max(len(self), 1)))
        return rows if chosen.ndim else rows[0]
