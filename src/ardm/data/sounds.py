"""Sounds as items: 16-bit mono clips, cut into windows of D samples.

Class k stands for the sample k - 32768, so that neighbouring classes are neighbouring amplitudes.
"""

import hashlib
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Int, Int16, UInt16
from numpy.typing import ArrayLike
from torch import Tensor

from ardm.config import Augmentation
from ardm.data.corpus import PieceCorpus, PieceSampler
from ardm.data.folders import split_folder
from ardm.data.sound_files import SOUND_SUFFIXES, read_sound
from ardm.errors import DataError
from ardm.names import Shape, Split

Samples = Int16[np.ndarray, "_"]
"""A mono clip."""

ZERO_CLASS = 2**15
"""The class of silence."""
FOLDER_HOLDS = "WAV and FLAC files"


@dataclass(frozen=True, kw_only=True)
class Clip:
    """A mono sound."""

    samples: Int16[np.ndarray, "N"]
    rate: int
    """Samples per second."""
    num_channels: int = 1
    """Channels of its file, mixed down to one."""


@dataclass(frozen=True, kw_only=True)
class SoundCorpus(PieceCorpus):
    """Clips of one sample rate in three splits; they may differ in length."""

    num_classes: ClassVar[int] = 2**16

    sample_rate: int
    """Samples per second."""
    pads: bool = False
    """Whether clips shorter than an item are padded with zeros at the end rather than left out."""

    def items(self, name: Split, shape: Shape) -> UInt16[np.ndarray, "N D"]:
        """The split cut into windows of D samples, as classes; remainders of longer clips are dropped."""
        (num_samples,) = shape
        clips = self._long_enough(name, num_samples)
        windows = [clip[: len(clip) // num_samples * num_samples].reshape(-1, num_samples) for clip in clips]
        return classes_of(np.concatenate(windows))

    def sampler(self, shape: Shape, device: torch.device) -> PieceSampler:
        """Random windows of the training split, augmented."""
        finish = partial(augmented_classes, augmentation=self.augmentation)
        return PieceSampler(self._long_enough("train", *shape), shape, device, finish)

    def _long_enough(self, name: Split, num_samples: int) -> list[Samples]:
        """The clips of a split that hold a window, short ones padded to hold it if this corpus pads."""
        clips = self.split(name)
        if not clips:
            raise no_clips(self.title, name)
        if self.pads:
            clips = [np.pad(c, (0, num_samples - len(c))) if len(c) < num_samples else c for c in clips]
        clips = [clip for clip in clips if len(clip) >= num_samples]
        if not clips:
            raise no_windows(self.title, name, num_samples)
        return clips

    def new_digest(self) -> "hashlib._Hash":
        """The hash object that a fingerprint starts from."""
        return rate_digest(self.sample_rate)


def rate_digest(rate: int) -> "hashlib._Hash":
    """The hash object that fingerprints of sounds of this rate start from."""
    return hashlib.sha256(repr(rate).encode())


def classes_of(samples: Int16[np.ndarray, "..."]) -> UInt16[np.ndarray, "..."]:
    """Samples as classes: the top bit flipped adds 32768 modulo 65536."""
    return samples.view(np.uint16) ^ np.uint16(ZERO_CLASS)


def no_clips(title: str, split: Split) -> DataError:
    """The error for an empty split."""
    return DataError(f"{title}: the {split} split has no clips; add some, or score another with --split")


def no_windows(title: str, split: Split, num_samples: int) -> DataError:
    """The error for a split without a clip as long as an item."""
    of_split = "" if split == "all" else f" of the {split} split"
    return DataError(
        f"{title}: no clip{of_split} is as long as {num_samples} samples; "
        "use longer clips, or train with a smaller --item-length"
    )


def augmented_classes(
    samples: Int[Tensor, "B D"], generator: torch.Generator, augmentation: Augmentation
) -> Int[Tensor, "B D"]:
    """The classes of samples; with flips, each sound is inverted, inaudibly, with probability 1/2."""
    if augmentation == "flips":
        draws = torch.randint(0, 2, (len(samples), 1), generator=generator, device=generator.device)
        samples = torch.where(draws == 1, (-samples).clamp(max=ZERO_CLASS - 1), samples)
    return samples + ZERO_CLASS


def load_sounds(
    path: Path, num_samples: int = 1, augmentation: Augmentation = "none", *, to_score: bool = False
) -> SoundCorpus:
    """All WAV and FLAC files below a folder, or one file to score, mixed down to mono and split by their names.

    The title notes how many clips are shorter than a window of `num_samples`.
    """
    splits = split_folder(path, SOUND_SUFFIXES, FOLDER_HOLDS, to_score=to_score)
    clips = {file: read_clip(file, mix_down=True) for file in sorted(chain(*splits))}
    first = min(clips)
    for file, clip in clips.items():
        check_rate(clip.rate, file, clips[first].rate, first, path)
    train, valid, test = ([clips[file].samples for file in files] for files in splits)
    lengths, num_mixed = [len(clip.samples) for clip in clips.values()], sum(c.num_channels > 1 for c in clips.values())
    return SoundCorpus(
        title=noted_title(path.absolute().name, lengths, num_mixed, num_samples),
        train=train,
        valid=valid,
        test=test,
        sample_rate=clips[first].rate,
        augmentation=augmentation,
    )


def noted_title(name: str, lengths: ArrayLike, num_mixed: int, num_samples: int) -> str:
    """The name of a collection, with notes on clips that were mixed down or are left out."""
    is_short, notes = np.asarray(lengths) < num_samples, []
    if num_mixed:
        notes.append(f"{num_mixed} of {len(is_short)} files mixed down to mono")
    if 0 < is_short.sum() < len(is_short):  # where all are short, nothing is left and an error says so
        notes.append(f"{is_short.sum()} of {len(is_short)} clips shorter than a window left out")
    return f"{name} ({', '.join(notes)})" if notes else name


def check_rate(rate: int, file: Path, first_rate: int, first: Path, folder: Path) -> None:
    """Raise a DataError unless a file has the rate of the first one of its folder."""
    if rate != first_rate:
        raise DataError(
            f"{folder} mixes sample rates: {first} has {first_rate} Hz and {file} has {rate} Hz; "
            "resample them to one rate"
        )


def read_clip(path: Path, *, mix_down: bool = False) -> Clip:
    """The samples of a 16-bit WAV or FLAC file, exactly; no conversion that loses information is made unasked.

    Several channels are refused or, with `mix_down`, averaged, with halves rounded to the even neighbour.
    """
    sound = read_sound(path)
    num_frames, num_channels = sound.frames.shape
    if num_frames == 0:
        raise DataError(f"{path} holds no samples; leave it out")
    if num_channels > 1 and not mix_down:
        raise DataError(f"{path} has {num_channels} channels; mix it down to mono first")
    samples = np.rint(sound.frames.mean(axis=1)).astype(np.int16) if num_channels > 1 else sound.frames[:, 0]
    return Clip(samples=samples, rate=sound.rate, num_channels=num_channels)
