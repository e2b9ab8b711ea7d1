"""Users' texts, images, sounds and tables as rows of classes, and back.

Each kind of item reads a user's values into `Rows`, finds the gaps to fill in one of them, and shows classes as such
values again. Text and bytes may be shorter or longer than the model's items, images and sounds of other sizes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int, Integer, Real, Shaped
from PIL import Image
from torch import Tensor

from ardm.checkpoint import TrainedModel
from ardm.codec.windows import Canvas, cut, windows
from ardm.data.alphabet import Alphabet, check_utf8
from ardm.data.image_files import unpacked
from ardm.data.sounds import ZERO_CLASS
from ardm.errors import DataError, UsageError
from ardm.media.images.medium import visible
from ardm.media.medium import GappedItem, gapped
from ardm.media.sounds.medium import audible
from ardm.media.text.gaps import gap_positions
from ardm.names import Shape

AnyShape = int | Sequence[int] | Int[np.ndarray, "..."] | np.integer[Any]
"""The number of variables of an item, or the sizes of its axes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Items of one shape as rows of classes, and which of their variables are scored and which are given.

    An item longer than the model's makes several rows, which score it piece by piece.
    """

    x: Int[Tensor, "R D"]
    shape: Shape
    owner: Int[Tensor, "R"]
    """The number of the item that a row belongs to."""
    scored: Bool[Tensor, "R D"] | None = None
    """None: all variables."""
    given: Bool[Tensor, "R D"] | None = None
    """None: no variable. What is neither scored nor given is missing."""
    lengths: Int[Tensor, "R"] | None = None
    """The length of each item, for networks that take items of any length: they see nothing of what is beyond."""

    def cut_to(self, size: int) -> "Rows":
        """The first variables of each row."""
        scored, given = (None if part is None else part[:, :size] for part in (self.scored, self.given))
        return replace(self, x=self.x[:, :size], shape=(size,), scored=scored, given=given)

    @property
    def num_scored(self) -> Int[Tensor, "R"]:
        """The number of scored variables of each row."""
        if self.scored is None:
            return torch.full((len(self.x),), self.x.shape[1])
        return self.scored.sum(1)


class Items:
    """One kind of item: how a user's values become classes, and the other way round."""

    title: str
    """Name of such items."""
    unit = "bits/dim"
    """Unit of bits per variable."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def rows(self, items: Any) -> list[Rows]:
        """The items as rows of classes, those of one shape together."""
        raise NotImplementedError

    def gaps(self, item: Any, mask: Any) -> GappedItem:
        """An item with its gaps, from a user's item and mask."""
        raise NotImplementedError

    def own_shapes(self, rows: Rows) -> list[Shape]:
        """The shape of each row's item, within which users name places."""
        return [rows.shape] * len(rows.x)

    def places(self, which: Any, shape: Shape, name: str) -> Bool[np.ndarray, "*shape"]:
        """The places of an item that a user names: see `places`."""
        return places(which, shape, name)

    def shown(self, classes: Integer[np.ndarray, "N D"], shape: Shape, length: int | None = None) -> Any:
        """Classes as values of the user's kind; a value beyond the last class stands for a hidden variable."""
        raise NotImplementedError


class TextItems(Items):
    """Texts (str) for a model of characters, bytes for a model of bytes."""

    title = "text"

    def __init__(self, shape: Shape, alphabet: Alphabet) -> None:
        super().__init__(shape)
        self.alphabet, self.is_bytes = alphabet, alphabet.characters is None
        self.unit = "bits/byte" if self.is_bytes else "bits/char"

    def rows(self, items: Any) -> list[Rows]:
        """Texts, one per row if they fit, in windows that see each other if they are longer."""
        is_several = isinstance(items, Iterable) and not isinstance(items, str | bytes | bytearray)
        texts: list[Any] = list(items) if is_several else [items]
        pieces = [piece for owner, text in enumerate(texts) for piece in self._pieces(owner, text)]
        if not pieces:
            raise DataError("expected at least one text, got none")
        owner, x, scored, given = zip(*pieces, strict=True)
        stacked = [torch.from_numpy(np.stack(part)) for part in (x, scored, given)]
        is_whole = bool(stacked[1].all())
        return [
            Rows(
                x=stacked[0],
                shape=self.shape,
                owner=torch.tensor(owner),
                scored=None if is_whole else stacked[1],
                given=None if is_whole else stacked[2],
            )
        ]

    def _pieces(self, owner: int, text: Any) -> list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        classes = self.alphabet.encode(as_text_bytes(text), "the text").astype(np.int64)
        if not len(classes):
            raise DataError("the text is empty")
        canvas, pieces = Canvas(values=classes), []
        for window in windows(classes.shape, self.shape):
            item = cut(canvas, window, self.shape)
            pieces.append((owner, item.x, ~(item.given | item.absent), item.given))
        return pieces

    def own_shapes(self, rows: Rows) -> list[Shape]:
        """The length of each text."""
        if rows.scored is None:
            return super().own_shapes(rows)
        return [(int(length),) for length in rows.num_scored]

    def gaps(self, item: Any, mask: Any = None) -> GappedItem:
        """A text with gaps where it has the mark `mask` (by default _), in ranges, or where an array is True."""
        content = as_text_bytes(item)
        if not self.is_bytes:
            check_utf8(content, "the text")
        symbols = [bytes([b]) for b in content] if self.is_bytes else [c.encode() for c in content.decode()]
        if not 0 < len(symbols) <= self.shape[0]:
            raise DataError(f"the text has {len(symbols)} characters; this model fills 1 to {self.shape[0]}")
        marks = "_" if mask is None else mask
        is_gap = gap_positions(symbols, marks) if isinstance(marks, str) else places(marks, (len(symbols),), "mask")
        if not is_gap.any():
            raise DataError("nothing to fill: mark each gap with _, or give a mask")
        kept = b"".join(symbol for symbol, gap in zip(symbols, is_gap, strict=True) if not gap)
        known, values = np.zeros(self.shape, bool), np.zeros(self.shape, np.int64)
        known[: len(symbols)] = ~is_gap
        if kept:
            values[known] = self.alphabet.encode(kept, "the text without its gaps")
        return GappedItem(values=values, known=known, shape=self.shape, length=len(symbols))

    def shown(
        self, classes: Integer[np.ndarray, "N D"], shape: Shape, length: int | None = None
    ) -> list[str] | list[bytes]:
        """Texts, or bytes; a hidden character is shown as _."""
        if self.is_bytes and (classes < self.alphabet.num_classes).all():
            return [self.alphabet.decode(row[:length]) for row in classes]
        if (classes < self.alphabet.num_classes).all():
            return [self.alphabet.decode(row[:length]).decode() for row in classes]
        return [self.alphabet.show(row[:length]) for row in classes]


class ArrayItems(Items):
    """Items in arrays of one or of several shapes."""

    def rows(self, items: Any) -> list[Rows]:
        """The items by shape, in the order in which the shapes first occur."""
        by_shape: dict[Shape, list[tuple[int, np.ndarray]]] = {}
        for owner, item in enumerate(self.split(items)):
            classes = self.classes(item)
            by_shape.setdefault(classes.shape, []).append((owner, classes))
        if not by_shape:
            raise DataError("expected at least one item, got none")
        return [self._rows(shape, members) for shape, members in by_shape.items()]

    def _rows(self, shape: Shape, members: Sequence[tuple[int, np.ndarray]]) -> Rows:
        owners, classes = zip(*members, strict=True)
        return Rows(
            x=torch.from_numpy(np.stack(classes).reshape(len(owners), -1)), shape=shape, owner=torch.tensor(owners)
        )

    def split(self, items: Any) -> Sequence[Any]:
        """A batch, a list or a single item as a list of items."""
        raise NotImplementedError

    def classes(self, item: Any) -> Int[np.ndarray, "*shape"]:
        """The classes of one item, in its shape."""
        raise NotImplementedError


class ImageItems(ArrayItems):
    """Images: uint8 arrays of shape (height, width) or (height, width, channels), stacks of them, or PIL images."""

    title = "images"

    def split(self, items: Any) -> Sequence[Any]:
        if isinstance(items, Image.Image):
            return [items]
        if isinstance(items, list | tuple) and not (items and isinstance(items[0], list | tuple | int)):
            return items
        array, channels = _narrowed(items, np.uint8), self.shape[2]
        is_one = array.ndim in (0, 2) or (array.ndim == 3 and array.shape[2] == channels)
        return [array] if is_one else list(array)

    def classes(self, item: Any) -> Int[np.ndarray, "H W C"]:
        array = np.asarray(unpacked(item)) if isinstance(item, Image.Image) else _narrowed(item, np.uint8)
        array = array[..., None] if array.ndim == 2 else array
        channels, kind = self.shape[2], "grey" if self.shape[2] == 1 else "colour"
        if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != channels or array.size == 0:
            raise DataError(
                f"this model takes {kind} images as uint8 arrays (height, width, {channels}), "
                f"got {array.dtype} of shape {np.shape(item)}"
            )
        return array.astype(np.int64)

    def gaps(self, item: Any, mask: Any) -> GappedItem:
        """An image to fill where a mask is True: (height, width), or with channels; or in a box of pixels."""
        classes = self.classes(item)
        return gapped(classes, ~_some(self.places(mask, classes.shape, "mask")))

    def places(self, which: Any, shape: Shape, name: str) -> Bool[np.ndarray, "H W C"]:
        """The sub-pixels of a box (left, top, right, bottom), of a mask of pixels, or as in `places`."""
        if isinstance(which, tuple | list) and len(which) == 4 and all(isinstance(edge, int) for edge in which):
            which = _box(tuple(which), shape)
        array = None if isinstance(which, slice) else as_array(which)
        if array is not None and array.dtype == bool and array.shape == shape[:2]:
            which = np.broadcast_to(array[..., None], shape)
        return places(which, shape, name)

    def shown(self, classes: Integer[np.ndarray, "N D"], shape: Shape, length: int | None = None) -> np.ndarray:
        """A uint8 array (N, height, width[, channels]); hidden sub-pixels are grey."""
        pixels = visible(classes).reshape(-1, *shape)
        return pixels[..., 0] if shape[2] == 1 else pixels


class SoundItems(ArrayItems):
    """Sounds: int16 arrays of samples, at the model's rate."""

    title, unit = "sounds", "bits/sample"

    def split(self, items: Any) -> Sequence[Any]:
        if isinstance(items, list | tuple):
            return [items] if items and all(isinstance(item, int) for item in items) else items
        array = as_array(items)
        return [array] if array.ndim < 2 else list(array)

    def classes(self, item: Any) -> Int[np.ndarray, "N"]:
        array = _narrowed(item, np.int16)
        if array.dtype != np.int16 or array.ndim != 1 or array.size == 0:
            raise DataError(f"sounds are int16 arrays of samples, got {array.dtype} of shape {array.shape}")
        return array.astype(np.int64) + ZERO_CLASS

    def gaps(self, item: Any, mask: Any) -> GappedItem:
        """A sound to fill where a mask is True, or in ranges of samples."""
        classes = self.classes(item)
        return gapped(classes, ~_some(places(mask, classes.shape, "mask")))

    def shown(self, classes: Integer[np.ndarray, "N D"], shape: Shape, length: int | None = None) -> np.ndarray:
        """An int16 array (N, samples); hidden samples are silent."""
        return audible(classes)


class TokenItems(ArrayItems):
    """Integers in an array of the model's shape, and stacks of them; NaN in an array of floats is a missing value."""

    title = "tokens"

    def __init__(self, shape: Shape, num_classes: Int[np.ndarray, "D"]) -> None:
        super().__init__(shape)
        self.num_classes = num_classes

    def places(self, which: Any, shape: Shape, name: str) -> Bool[np.ndarray, "*shape"]:
        """The variables of a box (left, top, right, bottom), if items have rows and columns, or as in `places`."""
        is_box = len(shape) > 1 and isinstance(which, tuple) and len(which) == 4
        return places(_spread_box(which, shape) if is_box else which, shape, name)

    @cached_property
    def _limits(self) -> Int[np.ndarray, "D"]:
        return np.broadcast_to(self.num_classes, (int(np.prod(self.shape)),))

    def rows(self, items: Any) -> list[Rows]:
        """All items in one stack of rows."""
        x, known = self._read(items)
        if not (has_values := known.any(1)).all():
            raise DataError(f"every value of item {has_values.argmin()} is missing (NaN); leave such items out")
        scored = None if known.all() else torch.from_numpy(known)
        return [Rows(x=torch.from_numpy(x), shape=self.shape, owner=torch.arange(len(x)), scored=scored)]

    def _read(self, items: Any) -> tuple[Int[np.ndarray, "N D"], Bool[np.ndarray, "N D"]]:
        """The classes of items, 0 where they are missing, and which are known."""
        array = as_array(items)
        if array.shape[1:] != self.shape and array.shape == self.shape:
            array = array[None]
        if array.shape[1:] != self.shape or array.size == 0:
            raise DataError(f"expected items of shape {self.shape}, one or a stack of them, got shape {array.shape}")
        if array.dtype.kind not in "iufb":
            raise DataError(f"expected whole numbers, got {array.dtype}; number the classes from 0")
        values = array.reshape(len(array), -1)
        known = ~np.isnan(values) if array.dtype.kind == "f" else np.ones(values.shape, bool)
        values = np.where(known, values, 0)
        self._check(values)
        x = values.astype(np.int64)
        if (x != values).any():
            raise DataError(f"expected whole numbers, got {values[x != values][0]}; round or bin other values first")
        return x, known

    def _check(self, values: Real[np.ndarray, "N D"] | Bool[np.ndarray, "N D"]) -> None:
        wrong = np.argwhere((values < 0) | (values >= self._limits))
        if wrong.size:
            row, place = wrong[0]
            raise DataError(
                f"item {row} has the value {values[row, place]} at variable {place}, "
                f"whose classes are 0..{self._limits[place] - 1}"
            )

    def gaps(self, item: Any, mask: Any) -> GappedItem:
        """An item to fill where a mask is True or, without one, where a value is missing (NaN)."""
        x, known = self._read(item)
        if len(x) != 1:
            raise DataError(f"expected one item to fill, got {len(x)}")
        if mask is None and known.all():
            raise DataError("nothing to fill: give a mask that is True where to fill, or an item with NaN")
        is_known = known.reshape(self.shape)
        if mask is not None:
            is_known = is_known & ~_some(self.places(mask, self.shape, "mask"))
        return gapped(x.reshape(self.shape), is_known)

    def shown(self, classes: Integer[np.ndarray, "N D"], shape: Shape, length: int | None = None) -> np.ndarray:
        """An int64 array (N, *shape); a hidden variable has the number of classes as its value."""
        return classes.reshape(-1, *shape)


def items_of(trained: TrainedModel) -> Items:
    """The kind of item that a trained model takes."""
    shape = trained.model.shape
    match trained.config.data.medium:
        case "text":
            assert trained.alphabet is not None
            return TextItems(shape, trained.alphabet)
        case "images":
            return ImageItems(shape)
    return SoundItems(shape)


def as_array(values: Any) -> Shaped[np.ndarray, "..."]:
    """A tensor, an array or nested lists as an array on the host.

    >>> from ardm.library.items import as_array
    >>> as_array([[0, 1], [2, 3]]).shape
    (2, 2)
    """
    if isinstance(values, Tensor):
        host = values.detach().cpu()
        return (host.float() if host.dtype == torch.bfloat16 else host).numpy()
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError("expected items of one shape, got lists of different lengths") from None


def places(which: Any, shape: Shape, name: str) -> Bool[np.ndarray, "*shape"]:
    """The places of an item that a user names, True in an array of the item's shape.

    A boolean array, flat or in that shape, a slice, the index of one variable, a list of indices, or a list of ranges
    (start, stop). Indices count variables row by row.

    >>> from ardm.library.items import places
    >>> places([(1, 3)], (4,), "mask").tolist()
    [False, True, True, False]
    """
    size = int(np.prod(shape))
    chosen = np.zeros(size, bool)
    if isinstance(which, slice):
        chosen[which] = True
        return chosen.reshape(shape)
    array = as_array(which)
    if array.dtype == bool:
        if array.shape not in (shape, (size,)):
            raise DataError(f"the {name} has shape {array.shape}, but the item has shape {shape}")
        return array.reshape(shape)
    if not array.size:
        return chosen.reshape(shape)
    if array.dtype.kind not in "iu" or array.ndim > 2 or (array.ndim == 2 and array.shape[1] != 2):
        came = type(which).__name__ if array.dtype == object else f"{array.dtype} of shape {array.shape}"
        raise DataError(f"the {name} must be a boolean array, indices or ranges (start, stop), got {came}")
    if not (-size <= array.min() and array.max() <= size - (array.ndim < 2)):
        raise DataError(f"the {name} must lie in 0..{size - 1}, got {array.min()}..{array.max()}")
    if array.ndim == 2:
        if not all(isinstance(pair, tuple) for pair in which):
            raise DataError(f"ranges of the {name} are tuples (start, stop); masks by item are boolean arrays")
        for start, stop in array:
            chosen[start:stop] = True
    else:
        chosen[array] = True
    return chosen.reshape(shape)


def as_shape(shape: AnyShape) -> Shape:
    """A shape from a user's numbers, or from a single one.

    >>> from ardm.library.items import as_shape
    >>> as_shape(5), as_shape([2, 3])
    ((5,), (2, 3))
    """
    return tuple(as_integers(shape, "an item's shape"))


def as_integers(values: Any, name: str) -> list[int]:
    """A user's whole numbers, or a single one, as a list; a UsageError that names them for others."""
    array = as_array(values)
    if array.size and array.dtype.kind not in "iu":
        raise UsageError(f"{name} must be a whole number or several, got {array.dtype}")
    return array.ravel().tolist()


def _narrowed(values: Any, dtype: type[np.integer[Any]]) -> Shaped[np.ndarray, "..."]:
    """An array, from lists of small integers in this type."""
    array = as_array(values)
    if isinstance(values, list | tuple) and array.dtype == np.int64 and (array == array.astype(dtype)).all():
        return array.astype(dtype)
    return array


def _spread_box(box: tuple[int, ...], shape: Shape) -> Bool[np.ndarray, "*shape"]:
    """A box of rows and columns, whole along any other axis."""
    inside = _box(box, shape)
    return np.broadcast_to(inside.reshape(*inside.shape, *(1 for _ in shape[2:])), shape)


def _box(box: tuple[int, ...], shape: Shape) -> Bool[np.ndarray, "H W"]:
    left, top, right, bottom = box
    height, width = shape[:2]
    if not (0 <= left < right <= width and 0 <= top < bottom <= height):
        raise DataError(f"the box {box} is not (left, top, right, bottom) within {width} x {height} pixels")
    inside = np.zeros((height, width), bool)
    inside[top:bottom, left:right] = True
    return inside


def _some(mask: Bool[np.ndarray, "*shape"]) -> Bool[np.ndarray, "*shape"]:
    if not mask.any():
        raise DataError("nothing to fill: the mask names no place")
    return mask


def as_text_bytes(text: Any) -> bytes:
    """A text (str) in UTF-8, or bytes as they are."""
    if isinstance(text, bytes | bytearray):
        return bytes(text)
    if not isinstance(text, str):
        raise DataError(f"expected a text as str or bytes, got {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the text has a surrogate at position {error.start}, which is no character") from None
