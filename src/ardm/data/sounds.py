"""Sounds as items: 16-bit mono clips, cut into windows of D samples.

Class k stands for the sample k - 32768, so that neighbouring classes are neighbouring amplitudes.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, Int16, UInt16
from numpy.typing import ArrayLike
from torch import Tensor

from ardm.config import Augmentation
from ardm.data.corpus import Split, on_device_if_it_fits
from ardm.data.folders import FileSplits, split_folder
from ardm.data.sound_files import AUDIO_SUFFIXES, read_sound
from ardm.errors import DataError
from ardm.orders import Shape

Samples = Int16[np.ndarray, "_"]
"""A mono clip; clips of one collection may differ in length."""

ZERO_CLASS = 2**15
"""The class of silence."""
FOLDER_HOLDS = "WAV and FLAC files"


@dataclass(frozen=True, kw_only=True)
class Clip:
    """A mono sound."""

    samples: Int16[np.ndarray, "N"]
    rate: int
    """Samples in a second."""
    num_channels: int = 1
    """Channels of its file; several were mixed down."""


@dataclass(frozen=True, kw_only=True)
class AudioCorpus:
    """Clips of one sample rate in three splits; they may differ in length."""

    title: str
    is_published: bool = False
    """Whether its splits are those that everybody reports results for."""
    train: Sequence[Samples]
    valid: Sequence[Samples]
    test: Sequence[Samples]
    sample_rate: int
    """Samples in a second."""
    pads: bool = False
    """Whether a clip shorter than an item becomes one, with zeros at its end, or is left out."""
    augmentation: Augmentation = "none"

    @property
    def num_classes(self) -> int:
        """K: the values of a sample."""
        return 2**16

    @property
    def alphabet(self) -> None:
        """Sounds have none."""
        return None

    def split(self, name: Split) -> Sequence[Samples]:
        """The clips of a split."""
        splits = {"train": self.train, "valid": self.valid, "test": self.test}
        return [*self.train, *self.valid, *self.test] if name == "all" else splits[name]

    def items(self, name: Split, shape: Shape) -> UInt16[np.ndarray, "N D"]:
        """The split cut into windows of D samples, as classes; shorter rests of longer clips are left out."""
        (num_samples,) = shape
        windows = [_windows(clip, num_samples) for clip in self._long_enough(name, num_samples)]
        if not windows:
            raise no_windows(self.title, name, num_samples)
        return classes_of(np.concatenate(windows))

    def lengths(self, name: Split, shape: Shape) -> Int[np.ndarray, "N"]:
        """How many samples of each item are sound; the rest is padding."""
        (num_samples,) = shape
        lengths = np.array([len(clip) for clip in self.split(name)], dtype=np.int64)
        num_windows = np.maximum(lengths // num_samples, int(self.pads))
        return np.minimum(lengths, num_samples).repeat(num_windows)

    def sampler(self, shape: Shape, device: torch.device) -> "AudioSampler":
        """Random windows of the training split, augmented."""
        (num_samples,) = shape
        return AudioSampler(self._long_enough("train", num_samples), num_samples, device, self.augmentation)

    def _long_enough(self, name: Split, num_samples: int) -> list[Samples]:
        """The clips of a split that hold a window, short ones padded to hold it if this corpus pads."""
        clips = self.split(name)
        if not clips:
            raise no_clips(self.title, name)
        if self.pads:
            clips = [_padded(clip, num_samples) for clip in clips]
        return [clip for clip in clips if len(clip) >= num_samples]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the rate and of all lengths and samples, to recognise the data a model was trained on."""
        digest = hashlib.sha256(repr(self.sample_rate).encode())
        for clip in self.split("all"):
            digest.update(repr(clip.shape).encode())
            digest.update(clip.astype("<i2", copy=False).tobytes())
        return digest.hexdigest()


def classes_of(samples: Int16[np.ndarray, "N D"]) -> UInt16[np.ndarray, "N D"]:
    """Samples as classes: the top bit flipped adds 32768 modulo 65536."""
    return samples.view(np.uint16) ^ np.uint16(ZERO_CLASS)


def no_clips(title: str, split: Split) -> DataError:
    """What to say of an empty split."""
    return DataError(f"{title}: the {split} split has no clips; add some, or score another with --split")


def no_windows(title: str, split: Split, num_samples: int) -> DataError:
    """What to say of a split without a clip as long as an item."""
    of_split = "" if split == "all" else f" of the {split} split"
    return DataError(
        f"{title}: no clip{of_split} is as long as {num_samples} samples; "
        "use longer clips, or train with a smaller --item-length"
    )


def no_training_windows(num_samples: int) -> DataError:
    """The same of clips to train on."""
    return DataError(f"no clip is as long as an item of {num_samples} samples; train with a smaller --item-length")


def _padded(clip: Samples, num_samples: int) -> Samples:
    return clip if len(clip) >= num_samples else np.pad(clip, (0, num_samples - len(clip)))


def _windows(clip: Samples, num_samples: int) -> Int16[np.ndarray, "N D"]:
    num_windows = len(clip) // num_samples
    return clip[: num_windows * num_samples].reshape(num_windows, num_samples)


class AudioSampler:
    """Random windows of clips of any lengths, held as one run of samples, on the device if they fit.

    Every place where a window fits is equally likely.
    """

    def __init__(
        self,
        clips: Sequence[Samples],
        num_samples: int,
        device: torch.device,
        augmentation: Augmentation = "none",
    ) -> None:
        fitting = [clip for clip in clips if len(clip) >= num_samples]
        if not fitting:
            raise no_training_windows(num_samples)
        self.num_samples, self.augmentation = num_samples, augmentation
        self.samples = on_device_if_it_fits(torch.from_numpy(np.concatenate(fitting)), device)
        lengths = torch.tensor([len(clip) for clip in fitting], device=self.samples.device)
        self.places = (lengths - num_samples + 1).cumsum(0)
        self.num_places = int(self.places[-1])

    def draw(self, num_items: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
        """Windows at uniformly random places, augmented, as classes, on the generator's device."""
        device = self.samples.device
        place = torch.randint(0, self.num_places, (num_items,), generator=generator, device=generator.device).to(device)
        clip = torch.searchsorted(self.places, place, right=True)
        start = place + clip * (self.num_samples - 1)  # each clip before it has D - 1 more samples than places
        index = start[:, None] + torch.arange(self.num_samples, device=device)
        return augmented_classes(self.samples[index].to(generator.device).long(), self.augmentation, generator)


def augmented_classes(
    samples: Int[Tensor, "B D"], augmentation: Augmentation, generator: torch.Generator
) -> Int[Tensor, "B D"]:
    """Samples as classes, perhaps flipped."""
    return (flipped(samples, generator) if augmentation == "flips" else samples) + ZERO_CLASS


def flipped(samples: Int[Tensor, "B D"], generator: torch.Generator) -> Int[Tensor, "B D"]:
    """Each sound upside down with probability 1/2, which no ear can tell; the least sample becomes the greatest."""
    draws = torch.randint(0, 2, (len(samples), 1), generator=generator, device=generator.device)
    return torch.where(draws == 1, (-samples).clamp(max=ZERO_CLASS - 1), samples)


def load_audio(path: Path, num_samples: int = 1) -> AudioCorpus:
    """Sounds to score: a single file as the test split, or a folder as for training, which may also hold fewer.

    The title says how many are shorter than a window of `num_samples`.
    """
    if path.is_file():
        return _read_splits(path, FileSplits(train=[], valid=[], test=[path]), num_samples)
    return _read_splits(path, split_folder(path, AUDIO_SUFFIXES, FOLDER_HOLDS, to_score=True), num_samples)


def load_audio_folder(path: Path, num_samples: int = 1, augmentation: Augmentation = "none") -> AudioCorpus:
    """All WAV and FLAC files below a folder, mixed down to mono: 90% train, 5% valid, 5% test, by their names.

    The title says how many are shorter than a window of `num_samples`.
    """
    return _read_splits(path, split_folder(path, AUDIO_SUFFIXES, FOLDER_HOLDS), num_samples, augmentation)


def _read_splits(path: Path, splits: FileSplits, num_samples: int, augmentation: Augmentation = "none") -> AudioCorpus:
    files = sorted([*splits.train, *splits.valid, *splits.test])
    clips = {file: read_audio(file, mix_down=True) for file in files}
    num_mixed = sum(clip.num_channels > 1 for clip in clips.values())
    lengths = [len(clip.samples) for clip in clips.values()]
    return AudioCorpus(
        title=noted_title(path.absolute().name, lengths, num_mixed, num_samples),
        train=[clips[file].samples for file in splits.train],
        valid=[clips[file].samples for file in splits.valid],
        test=[clips[file].samples for file in splits.test],
        sample_rate=_common_rate(clips, path),
        augmentation=augmentation,
    )


def noted_title(name: str, lengths: ArrayLike, num_mixed: int, num_samples: int) -> str:
    """The name of a collection with what was done to its clips that nobody asked for."""
    is_short, notes = np.asarray(lengths) < num_samples, []
    if num_mixed:
        notes.append(f"{num_mixed} of {len(is_short)} files mixed down to mono")
    if 0 < is_short.sum() < len(is_short):  # where all are short, nothing is left and an error says so
        notes.append(f"{is_short.sum()} of {len(is_short)} clips shorter than a window left out")
    return f"{name} ({', '.join(notes)})" if notes else name


def _common_rate(clips: Mapping[Path, Clip], path: Path) -> int:
    first, *others = clips
    rate = clips[first].rate
    for other in others:
        check_rate(clips[other].rate, other, rate, first, path)
    return rate


def check_rate(rate: int, file: Path, first_rate: int, first: Path, folder: Path) -> None:
    """A DataError unless a file has the rate of the first one of its folder."""
    if rate != first_rate:
        raise DataError(
            f"{folder} mixes sample rates: {first} has {first_rate} Hz and {file} has {rate} Hz; "
            "resample them to one rate"
        )


def read_audio(path: Path, *, mix_down: bool = False) -> Clip:
    """A WAV or FLAC file of 16-bit samples, exactly; nothing that would lose information is done unasked.

    Several channels are refused, or with `mix_down` averaged, halves rounded to the even neighbour.
    """
    recording = read_sound(path)
    num_frames, num_channels = recording.frames.shape
    if num_frames == 0:
        raise DataError(f"{path} holds no samples; leave it out")
    if num_channels > 1 and not mix_down:
        raise DataError(f"{path} has {num_channels} channels; mono is handled, mix it down first")
    samples = np.rint(recording.frames.mean(axis=1)).astype(np.int16) if num_channels > 1 else recording.frames[:, 0]
    return Clip(samples=samples, rate=recording.rate, num_channels=num_channels)
