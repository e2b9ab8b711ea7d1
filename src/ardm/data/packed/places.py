"""Places of a run that items are cut from: all of them, or those that tile each image, sound or text."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Int, Integer

from ardm.data.packed.shards import Run
from ardm.errors import DataError
from ardm.names import Shape

Rows = Integer[np.ndarray, "B D"]


class Places:
    """Numbered places of a run that items can be cut from, given how many each piece (an image or a sound) has."""

    def __init__(self, run: Run, counts: Int[np.ndarray, "N"]) -> None:
        self.run, self.ends = run, counts.cumsum()

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def read(self, places: Int[np.ndarray, "B"]) -> Rows:
        """The values at some places."""
        raise NotImplementedError

    def locate(self, places: Int[np.ndarray, "B"]) -> tuple[Int[np.ndarray, "B"], Int[np.ndarray, "B"]]:
        """The piece of each place, and its number within the piece."""
        piece = np.searchsorted(self.ends, places, side="right")
        return piece, places - np.where(piece > 0, self.ends[piece - 1], 0)


class Windows(Places):
    """Windows of D values within the pieces of a run (a split of a text, or sounds), at every `step`-th place of each.

    A piece shorter than D has none or, with `pads`, one with zeros at its end. Classes beyond the last are errors.
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
        super().__init__(run, np.maximum((np.maximum(lengths, num_variables * pads) - num_variables) // step + 1, 0))
        self.firsts, self.lengths, self.num_classes = firsts, lengths, num_classes
        self.num_variables, self.step = num_variables, step

    def read(self, places: Int[np.ndarray, "B"]) -> Rows:
        """The windows at these places, in any shards."""
        piece, within = self.locate(places)
        starts = self.firsts[piece] + within * self.step
        stops = starts + np.minimum(self.lengths[piece], self.num_variables)
        rows = np.zeros((len(places), self.num_variables), self.run.dtype)
        for row, start, stop in zip(rows, starts.tolist(), stops.tolist(), strict=True):
            row[: stop - start] = self.run.span(start, stop)
        if self.num_classes is not None and rows.max(initial=0) >= self.num_classes:
            raise DataError(
                f"{self.run.folder} is damaged: it holds class {rows.max()}, but has {self.num_classes} classes; "
                f"`ardm data packed --root {self.run.folder}` names the damaged file"
            )
        return rows


class Crops(Places):
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
        self.firsts, self.sizes, self.shape = firsts, sizes, shape
        self.steps = shape[:2] if tiles else (1, 1)
        rows, self.columns = (np.maximum((sizes[:, axis] - shape[axis]) // self.steps[axis] + 1, 0) for axis in (0, 1))
        super().__init__(run, rows * self.columns)

    def read(self, places: Int[np.ndarray, "B"]) -> Rows:
        """The crops at these places, row by row, pixel by pixel."""
        image, within = self.locate(places)
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


class Items:
    """The items at all places, read on access as if from an array of rows."""

    def __init__(self, places: Places, to_classes: Callable[[Rows], Rows] = lambda rows: rows) -> None:
        self.places, self.to_classes = places, to_classes

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: Any) -> Any:
        """Rows for a slice or a list of numbers, one row for a number."""
        chosen = np.arange(*index.indices(len(self))) if isinstance(index, slice) else np.asarray(index)
        if chosen.size and chosen.dtype.kind not in "iu":
            raise IndexError(f"items are indexed by integers, not by {chosen.dtype}")
        if chosen.size and not -len(self) <= chosen.min() <= chosen.max() < len(self):
            raise IndexError(f"there are {len(self)} items; got an index in {chosen.min()}..{chosen.max()}")
        rows = self.to_classes(self.places.read(chosen.astype(np.int64).reshape(-1) % max(len(self), 1)))
        return rows if chosen.ndim else rows[0]
