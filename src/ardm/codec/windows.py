"""Windows: items of a model's shape over an array of any size, each of which sees neighbours already decoded.

Along an axis of N places, windows of n places start n - n // 8 apart, from place 0 on, until one reaches the end. The
even ones (0, 2, ...) code all of their places; they do not overlap. The odd ones code the places between, and are
given the n // 8 places on either side that they share with their neighbours. Over several axes a window codes the
product of what it codes along each. It waits only for windows that are odd along fewer axes: an image of any size is
decoded in three waves, each of which is one large batch.

Places of a window beyond the array are absent, as are hidden places of the array, which are not coded at all.

Windows of one wave share payloads in bundles (see `items`) of at most 2^14 places.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Integer

from ardm.names import Shape

OVERLAP_DIVISOR = 8
"""Neighbours share 1 / OVERLAP_DIVISOR of a window."""
BUNDLE_VARIABLES = 2**14
"""Maximum number of places in a bundle, unless it is a single window."""
MAX_CACHED_WINDOWS = 64
"""An array's windows are cached, by its size, if there are at most this many."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """A window along one axis."""

    start: int
    stop: int
    """The end of the window or, if smaller, of the array."""
    coded_start: int
    coded_stop: int
    is_odd: bool


@dataclass(frozen=True, kw_only=True)
class Window:
    """A window over an array, as slices of the array and of the window's item."""

    area: tuple[slice, ...]
    """The window's places in the array."""
    inside: tuple[slice, ...]
    """The places in the item that lie in the array."""
    coded_area: tuple[slice, ...]
    """The places in the array that the window codes."""
    coded: tuple[slice, ...]
    """The places in the item that the window codes."""
    wave: int
    """The number of axes along which the window is odd."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Canvas:
    """An array of classes to code with windows."""

    values: Integer[np.ndarray, "*size"]
    hidden: Bool[np.ndarray, "*#size"] | None = None
    """Places that are not coded."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Item:
    """The item of a window, as rows of variables."""

    x: Integer[np.ndarray, "D"]
    given: Bool[np.ndarray, "D"]
    absent: Bool[np.ndarray, "D"]


@lru_cache
def num_windows(size: Shape, shape: Shape) -> int:
    """The number of windows of a shape that cover an array of a size."""
    return math.prod(_num_spans(*axis) for axis in zip(size, shape, strict=True))


def windows(size: Shape, shape: Shape) -> Iterator[Window]:
    """The windows of a shape over an array, the last axis fastest."""
    axes = [_spans(*axis) for axis in zip(size, shape, strict=True)]
    return map(_window, itertools.product(*axes))


@lru_cache
def num_bundles(size: Shape, shape: Shape) -> int:
    """The number of bundles for an array of a size."""
    in_waves = [1]
    for axis in zip(size, shape, strict=True):
        count = _num_spans(*axis)
        even, odd = (count + 1) // 2, count // 2
        in_waves = [even * a + odd * b for a, b in zip([*in_waves, 0], [0, *in_waves], strict=True)]
    return sum(-(-count // _bundle_size(shape)) for count in in_waves)


def bundles(size: Shape, shape: Shape) -> Iterable[Sequence[Window]]:
    """The windows wave by wave, in bundles."""
    return _cached_bundles(size, shape) if num_windows(size, shape) <= MAX_CACHED_WINDOWS else _bundles(size, shape)


@lru_cache
def _cached_bundles(size: Shape, shape: Shape) -> tuple[tuple[Window, ...], ...]:
    return tuple(map(tuple, _bundles(size, shape)))


def _bundles(size: Shape, shape: Shape) -> Iterator[list[Window]]:
    for wave in range(len(shape) + 1):
        in_wave = (window for window in windows(size, shape) if window.wave == wave)
        yield from iter(lambda: list(itertools.islice(in_wave, _bundle_size(shape))), [])  # noqa: B023


def cut(canvas: Canvas, window: Window, shape: Shape) -> Item:
    """The item of a window, with 0 at places beyond the array."""
    x, given, absent = np.zeros(shape, np.int64), np.zeros(shape, bool), np.ones(shape, bool)
    hidden = False if canvas.hidden is None else np.broadcast_to(canvas.hidden, canvas.values.shape)[window.area]
    x[window.inside] = canvas.values[window.area]
    absent[window.inside] = hidden
    given[window.inside] = ~absent[window.inside]
    given[window.coded] = False
    return Item(x=x.ravel(), given=given.ravel(), absent=absent.ravel())


def paste(canvas: Canvas, window: Window, x: Integer[np.ndarray, "D"], shape: Shape) -> None:
    """Copy the places that a window codes into the canvas."""
    canvas.values[window.coded_area] = x.reshape(shape)[window.coded]


def _bundle_size(shape: Shape) -> int:
    return max(1, BUNDLE_VARIABLES // math.prod(shape))


def _num_spans(size: int, length: int) -> int:
    return 1 + max(0, -((length - size) // _stride(length)))


def _stride(length: int) -> int:
    return length - length // OVERLAP_DIVISOR


def _spans(size: int, length: int) -> Iterator[Span]:
    count = _num_spans(size, length)
    for number in range(count):
        start = number * _stride(length)
        stop = min(start + length, size)
        shared = length // OVERLAP_DIVISOR if number % 2 == 1 else 0
        coded_stop = stop if number == count - 1 else stop - shared
        yield Span(start=start, stop=stop, coded_start=start + shared, coded_stop=coded_stop, is_odd=number % 2 == 1)


def _window(spans: tuple[Span, ...]) -> Window:
    return Window(
        area=tuple(slice(s.start, s.stop) for s in spans),
        inside=tuple(slice(0, s.stop - s.start) for s in spans),
        coded_area=tuple(slice(s.coded_start, s.coded_stop) for s in spans),
        coded=tuple(slice(s.coded_start - s.start, s.coded_stop - s.start) for s in spans),
        wave=sum(s.is_odd for s in spans),
    )
