"""Packed data sets as corpora, with the items, splits, fingerprints and random draws of the data that was packed.

Values stay on disk. Memory holds where each image or sound begins, its size and its number of places: some 32 bytes
each.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Int

from ardm.config import Augmentation
from ardm.data.alphabet import Alphabet
from ardm.data.corpus import SPLITS, update_digest
from ardm.data.images import augment_flat, no_tiles
from ardm.data.packed.description import Pack
from ardm.data.packed.places import Crops, Items, Windows
from ardm.data.packed.sampler import StreamSampler
from ardm.data.sounds import augmented_classes, classes_of, no_clips, no_windows, noted_title
from ardm.data.text import too_short
from ardm.names import Shape, Split


@dataclass(frozen=True, kw_only=True)
class PackedCorpus:
    """A packed data set of any medium; see `Corpus`."""

    pack: Pack

    @property
    def title(self) -> str:
        return self.pack.about.title

    @property
    def is_published(self) -> bool:
        return self.pack.about.is_published

    @property
    def alphabet(self) -> Alphabet | None:
        return self.pack.about.alphabet

    @property
    def sample_rate(self) -> int | None:
        return self.pack.about.sample_rate

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the data that was packed."""
        return self.pack.about.fingerprint


@dataclass(frozen=True, kw_only=True)
class PackedText(PackedCorpus):
    """A packed text; see `TextCorpus`."""

    @property
    def num_classes(self) -> int:
        assert self.alphabet is not None
        return self.alphabet.num_classes

    def items(self, name: Split, shape: Shape) -> Items:
        (num_variables,) = shape
        windows = self._windows(name, num_variables, step=num_variables)
        if len(windows) == 0:
            raise too_short(self.title, name, int(windows.lengths[0]), num_variables)
        return Items(windows)

    def sampler(self, shape: Shape, device: torch.device) -> StreamSampler:
        return StreamSampler(self._windows("train", *shape), device)

    def _windows(self, name: Split, num_variables: int, step: int = 1) -> Windows:
        chosen = bounds(self.pack.about.counts, name)
        first, length = np.array([chosen.start]), np.array([len(chosen)])
        return Windows(self.pack.values, first, length, num_variables, step=step, num_classes=self.num_classes)


@dataclass(frozen=True, kw_only=True)
class PackedImages(PackedCorpus):
    """Packed images; see `ImageCorpus`."""

    num_classes: ClassVar[int] = 256

    augmentation: Augmentation = "none"
    """Random changes to training items."""
    holds_out: bool = True
    """Whether the validation images, which follow those of training, are for validation alone or trained on as well."""

    def items(self, name: Split, shape: Shape) -> Items:
        return Items(self._crops(name, shape, tiles=True))

    def sampler(self, shape: Shape, device: torch.device) -> StreamSampler:
        finish = partial(augment_flat, shape=shape, augmentation=self.augmentation)
        return StreamSampler(self._crops("train", shape), device, finish)

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the data that was packed, counting images in two splits twice."""
        if self.holds_out:
            return self.pack.about.fingerprint
        digest, channels = hashlib.sha256(), self.pack.about.channels or 0
        for i in self._chosen("all").tolist():
            (height, width), first = self.pack.sizes[i].tolist(), int(self.pack.firsts[i])
            pixels = self.pack.values.span(first, first + height * width * channels)
            update_digest(digest, pixels.reshape(height, width, channels))
        return digest.hexdigest()

    def _crops(self, name: Split, shape: Shape, *, tiles: bool = False) -> Crops:
        chosen = self._chosen(name)
        crops = Crops(self.pack.values, self.pack.firsts[chosen], self.pack.sizes[chosen], shape, tiles=tiles)
        if len(crops) == 0:
            raise no_tiles(self.title, name, shape)
        return crops

    def _chosen(self, name: Split) -> Int[np.ndarray, "N"]:
        """The images of a split."""
        train, valid, test = (np.array(bounds(self.pack.about.counts, split), np.int64) for split in SPLITS)
        if not self.holds_out:
            train = np.concatenate([train, valid])
        splits = {"train": train, "valid": valid, "test": test}
        return np.concatenate([train, valid, test]) if name == "all" else splits[name]


@dataclass(frozen=True, kw_only=True)
class PackedSounds(PackedCorpus):
    """Packed sounds; see `SoundCorpus`."""

    num_classes: ClassVar[int] = 2**16

    window: int = 1
    """Samples of an item; the title notes how many sounds are shorter."""
    augmentation: Augmentation = "none"

    @property
    def title(self) -> str:
        """The name, with notes on clips that were mixed down or are left out."""
        about = self.pack.about
        if about.is_published:
            return about.title
        return noted_title(about.title, self.pack.sizes[:, 0], about.num_mixed, self.window)

    def items(self, name: Split, shape: Shape) -> Items:
        (num_samples,) = shape
        return Items(self._windows(name, num_samples, step=num_samples), classes_of)

    def sampler(self, shape: Shape, device: torch.device) -> StreamSampler:
        finish = partial(augmented_classes, augmentation=self.augmentation)
        return StreamSampler(self._windows("train", *shape), device, finish)

    def _windows(self, name: Split, num_samples: int, step: int = 1) -> Windows:
        chosen = bounds(self.pack.about.counts, name)
        if len(chosen) == 0:
            raise no_clips(self.title, name)
        part, pads = slice(chosen.start, chosen.stop), self.pack.about.pads
        firsts, lengths = self.pack.firsts[part], self.pack.sizes[part, 0]
        windows = Windows(self.pack.values, firsts, lengths, num_samples, step=step, pads=pads)
        if len(windows) == 0:
            raise no_windows(self.title, name, num_samples)
        return windows


def bounds(counts: list[int], name: Split) -> range:
    """The range of a split, given the number of elements in each."""
    if name == "all":
        return range(sum(counts))
    index = SPLITS.index(name)
    return range(sum(counts[:index]), sum(counts[: index + 1]))
