"""Packed data sets as corpora: the same items, splits, fingerprints and random draws as of the data that was packed.

Values stay on disk. What is held in memory is where each image or sound begins, its size and its number of places: some
32 bytes of each.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ardm.config import Augmentation
from ardm.data.alphabet import Alphabet
from ardm.data.corpus import Split
from ardm.data.images import augment, no_crops, no_tiles
from ardm.data.packed.description import SPLITS, Pack
from ardm.data.packed.places import Crops, Items, Windows
from ardm.data.packed.sampler import StreamSampler
from ardm.data.sounds import augmented_classes, classes_of, no_clips, no_training_windows, no_windows, noted_title
from ardm.data.text import too_short
from ardm.orders import Shape


@dataclass(frozen=True, kw_only=True)
class PackedCorpus:
    """What packed texts, images and sounds share."""

    pack: Pack

    @property
    def title(self) -> str:
        """Its name, as results are reported for it."""
        return self.pack.about.title

    @property
    def is_published(self) -> bool:
        """Whether its splits are those that everybody reports results for."""
        return self.pack.about.is_published

    @property
    def alphabet(self) -> Alphabet | None:
        """What the classes of a text stand for."""
        return self.pack.about.alphabet

    @property
    def sample_rate(self) -> int | None:
        """Samples in a second of sound."""
        return self.pack.about.sample_rate

    @property
    def fingerprint(self) -> str:
        """That of the data that was packed."""
        return self.pack.about.fingerprint


@dataclass(frozen=True, kw_only=True)
class PackedText(PackedCorpus):
    """A packed text; see `TextCorpus`."""

    @property
    def num_classes(self) -> int:
        """K: the size of the alphabet."""
        assert self.alphabet is not None
        return self.alphabet.num_classes

    def items(self, name: Split, shape: Shape) -> Items:
        """The split cut into items of D classes; a shorter rest at its end is left out."""
        (num_variables,) = shape
        windows = self._windows(name, num_variables, step=num_variables)
        if len(windows) == 0:
            raise too_short(self.title, name, int(windows.lengths[0]), num_variables)
        return Items(windows)

    def sampler(self, shape: Shape, device: torch.device) -> StreamSampler:
        """Random items of the training split, at any place of it."""
        (num_variables,) = shape
        return StreamSampler(self._windows("train", num_variables), device)

    def _windows(self, name: Split, num_variables: int, step: int = 1) -> Windows:
        chosen = bounds(self.pack.about.num_values(), name)
        first, length = np.array([chosen.start]), np.array([len(chosen)])
        return Windows(self.pack.values, first, length, num_variables, step=step, num_classes=self.num_classes)


@dataclass(frozen=True, kw_only=True)
class PackedImages(PackedCorpus):
    """Packed images; see `ImageCorpus`."""

    augmentation: Augmentation = "none"
    """What is done to training items at random."""
    holds_out: bool = True
    """Whether the validation images, which follow those of training, are for validation alone or trained on as well."""

    @property
    def num_classes(self) -> int:
        """K: the values of a sub-pixel."""
        return 256

    def items(self, name: Split, shape: Shape) -> Items:
        """The split cut into tiles of one size; rests at the right and at the bottom are left out."""
        crops = self._crops(name, shape, tiles=True)
        if len(crops) == 0:
            raise no_tiles(self.title, name, shape)
        return Items(crops)

    def sampler(self, shape: Shape, device: torch.device) -> StreamSampler:
        """Random crops of the training split, augmented."""
        crops = self._crops("train", shape)
        if len(crops) == 0:
            raise no_crops(shape)

        def augmented(pixels: Int[Tensor, "B D"], generator: torch.Generator) -> Int[Tensor, "B D"]:
            return augment(pixels.unflatten(1, shape), self.augmentation, generator).flatten(1)

        return StreamSampler(crops, device, augmented)

    @cached_property
    def fingerprint(self) -> str:
        """That of the data that was packed; with images in two splits it is of both."""
        if self.holds_out:
            return self.pack.about.fingerprint
        digest, channels = hashlib.sha256(), self.pack.about.channels or 0
        for i in self._chosen("all").tolist():
            (height, width), first = self._sizes[i].tolist(), int(self._firsts[i])
            digest.update(repr((height, width, channels)).encode())
            digest.update(self.pack.values.span(first, first + height * width * channels).tobytes())
        return digest.hexdigest()

    def _crops(self, name: Split, shape: Shape, *, tiles: bool = False) -> Crops:
        chosen = self._chosen(name)
        return Crops(self.pack.values, self._firsts[chosen], self._sizes[chosen], shape, tiles=tiles)

    def _chosen(self, name: Split) -> Int[np.ndarray, "N"]:
        """The images of a split."""
        train, valid, test = (np.array(bounds(self.pack.about.num_items(), split), np.int64) for split in SPLITS)
        if not self.holds_out:
            train = np.concatenate([train, valid])
        splits = {"train": train, "valid": valid, "test": test}
        return np.concatenate([train, valid, test]) if name == "all" else splits[name]

    @cached_property
    def _sizes(self) -> Int[np.ndarray, "N 2"]:
        return self.pack.sizes.span(0, len(self.pack.sizes)).astype(np.int64).reshape(-1, 2)

    @cached_property
    def _firsts(self) -> Int[np.ndarray, "N"]:
        assert self.pack.about.channels is not None
        return _firsts(self._sizes.prod(axis=1) * self.pack.about.channels)


@dataclass(frozen=True, kw_only=True)
class PackedSounds(PackedCorpus):
    """Packed sounds; see `AudioCorpus`."""

    window: int = 1
    """Samples of an item; the title says how many sounds are shorter."""
    augmentation: Augmentation = "none"

    @property
    def title(self) -> str:
        """Its name with what was done to its sounds that nobody asked for."""
        about = self.pack.about
        if about.is_published:
            return about.title
        return noted_title(about.title, self._lengths, about.num_mixed, self.window)

    @property
    def num_classes(self) -> int:
        """K: the values of a sample."""
        return 2**16

    def items(self, name: Split, shape: Shape) -> Items:
        """The split cut into windows of D samples, as classes; shorter rests of longer sounds are left out."""
        (num_samples,) = shape
        windows = self._windows(name, num_samples, step=num_samples)
        if len(windows) == 0:
            raise no_windows(self.title, name, num_samples)
        return Items(windows, classes_of)

    def sampler(self, shape: Shape, device: torch.device) -> StreamSampler:
        """Random windows of the training split, augmented."""
        (num_samples,) = shape
        windows = self._windows("train", num_samples)
        if len(windows) == 0:
            raise no_training_windows(num_samples)

        def augmented(samples: Int[Tensor, "B D"], generator: torch.Generator) -> Int[Tensor, "B D"]:
            return augmented_classes(samples, self.augmentation, generator)

        return StreamSampler(windows, device, augmented)

    def _windows(self, name: Split, num_samples: int, step: int = 1) -> Windows:
        chosen = bounds(self.pack.about.num_items(), name)
        if len(chosen) == 0:
            raise no_clips(self.title, name)
        part, pads = slice(chosen.start, chosen.stop), self.pack.about.pads
        return Windows(self.pack.values, self._firsts[part], self._lengths[part], num_samples, step=step, pads=pads)

    @cached_property
    def _lengths(self) -> Int[np.ndarray, "N"]:
        return self.pack.sizes.span(0, len(self.pack.sizes)).astype(np.int64)

    @cached_property
    def _firsts(self) -> Int[np.ndarray, "N"]:
        return _firsts(self._lengths)


def bounds(counts: list[int], name: Split) -> range:
    """Where a split begins and ends, given how much is in each."""
    if name == "all":
        return range(sum(counts))
    index = SPLITS.index(name)
    return range(sum(counts[:index]), sum(counts[: index + 1]))


def _firsts(lengths: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
    return lengths.cumsum() - lengths
