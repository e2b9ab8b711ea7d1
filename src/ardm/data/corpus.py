"""Corpora: data sets in three splits, with items to score and random items to train on."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from ardm.config import Augmentation
from ardm.data.alphabet import Alphabet
from ardm.names import Shape, Split

SPLITS: tuple[Literal["train", "valid", "test"], ...] = ("train", "valid", "test")

Piece = Integer[np.ndarray, "..."]
"""An image or a sound."""
Finish = Callable[[Int[Tensor, "B D"], torch.Generator], Int[Tensor, "B D"]]
"""Turns stored values into classes, perhaps with random changes."""


@runtime_checkable
class Items(Protocol):
    """Items of one shape, one per row: an array, or rows that are read from disk on access."""

    def __len__(self) -> int:
        """The number of items N."""

    def __getitem__(self, index: Any, /) -> Any:
        """Rows for a slice or a list of numbers, one row for a number."""


@runtime_checkable
class Sampler(Protocol):
    """A source of random training items."""

    def draw(self, num_items: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
        """Items on the generator's device."""


@runtime_checkable
class Corpus(Protocol):
    """A data set in three splits."""

    @property
    def title(self) -> str:
        """The name that results are reported under."""

    @property
    def is_published(self) -> bool:
        """Whether its splits are those that everybody reports results for."""

    @property
    def num_classes(self) -> int:
        """The number of classes K."""

    @property
    def alphabet(self) -> Alphabet | None:
        """The symbols of a text; None for other data."""

    @property
    def sample_rate(self) -> int | None:
        """Samples per second of sound; None for other data."""

    @property
    def fingerprint(self) -> str:
        """A hash of the content, by which a model recognises the data it was trained on."""

    def items(self, name: Split, shape: Shape) -> Items:
        """The split cut into items of one shape."""

    def sampler(self, shape: Shape, device: torch.device) -> Sampler:
        """Random items of the training split."""


@dataclass(frozen=True, kw_only=True)
class PieceCorpus:
    """Images or sounds of any sizes, held in memory."""

    title: str
    is_published: bool = False
    """Whether its splits are those that everybody reports results for."""
    train: Sequence[Piece]
    valid: Sequence[Piece]
    test: Sequence[Piece]
    augmentation: Augmentation = "none"
    """Random changes to training items."""
    alphabet: ClassVar[None] = None

    def split(self, name: Split) -> Sequence[Piece]:
        """The pieces of a split."""
        return [*self.train, *self.valid, *self.test] if name == "all" else getattr(self, name)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all sizes and values."""
        digest = self.new_digest()
        for piece in self.split("all"):
            update_digest(digest, piece)
        return digest.hexdigest()

    def new_digest(self) -> "hashlib._Hash":
        """The hash object that a fingerprint starts from."""
        return hashlib.sha256()


def update_digest(digest: "hashlib._Hash", piece: Piece) -> None:
    """Add the size and the values of an image or a sound to a fingerprint."""
    digest.update(repr(piece.shape).encode())
    digest.update(piece.astype(piece.dtype.newbyteorder("<"), copy=False).tobytes())


class PieceSampler:
    """Random items cut from larger pieces, held in memory as one run: windows of D values, or crops of images.

    Every place where an item fits is equally likely.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        shape: Shape,
        device: torch.device,
        finish: Finish = lambda values, generator: values,
    ) -> None:
        is_window = len(shape) == 1
        self.finish = finish
        self.height, self.width, self.channels = (1, *shape, 1) if is_window else shape
        self.values = on_device_if_it_fits(torch.from_numpy(np.concatenate([p.ravel() for p in pieces])), device)
        sizes = torch.tensor([(1, len(p), 1) if is_window else p.shape for p in pieces], device=self.values.device)
        self.rows, self.columns = sizes[:, 0] - self.height + 1, sizes[:, 1] - self.width + 1
        self.widths, self.firsts = sizes[:, 1], sizes.prod(1).cumsum(0) - sizes.prod(1)
        self.places = (self.rows * self.columns).cumsum(0)
        self.num_places = int(self.places[-1])

    def draw(self, num_items: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
        """Items at uniformly random places, on the generator's device."""
        device = self.values.device
        place = torch.randint(0, self.num_places, (num_items,), generator=generator, device=generator.device).to(device)
        piece = torch.searchsorted(self.places, place, right=True)
        within = place - (self.places[piece] - self.rows[piece] * self.columns[piece])
        top, left = within // self.columns[piece], within % self.columns[piece]
        corner = self.firsts[piece] + (top * self.widths[piece] + left) * self.channels
        row = torch.arange(self.height, device=device)[:, None] * self.widths[piece][:, None, None]
        column = torch.arange(self.width * self.channels, device=device)
        index = corner[:, None, None] + row * self.channels + column  # (B, height, width * channels)
        return self.finish(self.values[index].to(generator.device).long().flatten(1), generator)


def spread(count: int, total: int) -> list[int]:
    """The indices of `count` of `total` items, evenly spread, starting with the first."""
    return [i * total // count for i in range(count)]


def on_device_if_it_fits(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device, or where it is if it would take more than half of the device's free memory."""
    if device.type == "cuda" and tensor.nbytes > torch.cuda.mem_get_info(device)[0] // 2:
        return tensor
    return tensor.to(device)


def compact_tensor(classes: Integer[np.ndarray, "..."]) -> Integer[Tensor, "..."]:
    """A tensor of uint8 if the classes are stored in single bytes, else of int32."""
    compact = classes if classes.dtype.itemsize == 1 else classes.astype("int32")
    return torch.from_numpy(compact.copy())
