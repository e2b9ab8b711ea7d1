"""The medium of sound: WAV and FLAC files and ranges of time in, WAV files and spectrograms out."""

import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int, Int16

from ardm.checkpoint import AnyTrained
from ardm.codec.format.fields import SoundFields
from ardm.config import MAX_VARIABLES, SoundData
from ardm.data.corpus import Corpus
from ardm.data.packed.corpora import PackedSounds
from ardm.data.packed.description import is_packed, open_kind, open_medium
from ardm.data.sc09 import find_sc09, load_sc09
from ardm.data.sound_files import write_wav
from ardm.data.sounds import ZERO_CLASS, load_sounds, read_clip
from ardm.errors import UsageError
from ardm.media.images.pictures import Picture, write_png
from ardm.media.medium import GappedItem, Medium, Samples, gapped
from ardm.media.sounds.layout import SoundLayout
from ardm.media.sounds.spectrograms import Panel, draw_spectrograms
from ardm.names import Shape
from ardm.runtime.files import check_writable, to_json, write_output

BUDGETS_PER_STAGE = (1000, 500, 100, 50)
MAX_COLUMNS = 4
"""Columns of spectrograms in a picture of several samples."""

Sound = Int16[np.ndarray, "_"]


class SoundMedium(Medium):
    """The samples of a model of 16-bit sound."""

    data: SoundData
    unit = "bits/sample"
    num_states = 5
    orders = ()

    def __init__(self, trained: AnyTrained) -> None:
        super().__init__(trained)
        assert trained.sample_rate is not None
        self.rate = trained.sample_rate
        self.budgets = tuple(trained.model.num_stages * calls for calls in BUDGETS_PER_STAGE)
        self.layout = SoundLayout()
        self.item_fields = SoundFields(num_samples=self.own_shape[0], num_channels=1, sample_rate=self.rate)

    @staticmethod
    def load(data: SoundData, path: Path) -> Corpus:
        """The sounds to train on."""
        if is_packed(path):
            pack = open_kind(path, data.kind)
            return PackedSounds(pack=pack, window=data.num_variables, augmentation=data.augmentation)
        if data.kind == "sc09":
            return load_sc09(path, data.augmentation)
        return load_sounds(path, data.num_variables, data.augmentation)

    def corpus(self, path: Path) -> Corpus:
        """SC09 if it is there, or a sound file or a folder of them, perhaps packed."""
        (num_samples,) = self.own_shape
        if is_packed(path):
            corpus: Corpus = PackedSounds(pack=open_medium(path, "sound"), window=num_samples)
        else:
            is_sc09 = self.data.kind == "sc09" and find_sc09(path) is not None
            corpus = load_sc09(path) if is_sc09 else load_sounds(path, num_samples, to_score=True)
        assert corpus.sample_rate is not None
        self._check_rate(corpus.sample_rate, path)
        return corpus

    def shape(self, size: str | None) -> Shape:
        """A duration in seconds, or the model's own."""
        if size is None:
            return self.own_shape
        if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", size) or round(float(size) * self.rate) < 1:
            raise UsageError(f"--size must be a duration in seconds, such as 1.5; got {size!r}")
        return self._checked(round(float(size) * self.rate), f"--size {size}")

    def gapped_item(self, source: str, mask: str | None) -> GappedItem:
        """A sound file with ranges of time to fill, in seconds."""
        path = Path(source)
        clip = read_clip(path)
        self._check_rate(clip.rate, path)
        self._checked(len(clip.samples), str(path))
        if mask is None:
            raise UsageError("say what to fill: --mask START:STOP in seconds, such as --mask 0.25:0.5")
        known = ~time_ranges(mask, len(clip.samples), self.rate)
        return gapped(clip.samples.astype(np.int64) + ZERO_CLASS, known)

    def check_output(self, path: Path | None, count: int, *, as_json: bool) -> None:
        """Raise a UsageError unless sound goes to WAV files or JSON or, as a picture, to a PNG file."""
        if not as_json:
            if path is None:
                raise UsageError("sound goes to a file: give one with -o, such as -o sample.wav, or .png for a picture")
            if path.suffix.lower() not in {".wav", ".png"}:
                raise UsageError(f"give a name that ends in .wav for sound or .png for its picture, got {path.name}")
            if path.suffix.lower() == ".wav":
                check_numbered(path, count)
        check_writable(path)

    def write(self, samples: Samples, path: Path | None, *, as_json: bool) -> None:
        """Write a WAV file per sample (or state), or one picture of all."""
        chains = [[audible(state) for state in chain] for chain in samples.chains]
        if as_json:
            key = "chains" if samples.is_chain else "samples"
            values = [[s.tolist() for s in chain] if samples.is_chain else chain[-1].tolist() for chain in chains]
            calls = {"calls": samples.calls[-1]} | ({"state_calls": list(samples.calls)} if samples.is_chain else {})
            write_output(path, to_json(calls | {"rate": self.rate, key: values}, indent=None))
            return
        assert path is not None
        if path.suffix.lower() == ".png":
            picture = self._chains(chains, samples.calls) if samples.is_chain else self._sounds([c[-1] for c in chains])
            write_png(path, picture)
            return
        sounds = [sound for chain in chains for sound in chain]
        files = numbered(path, len(sounds))
        for file, sound in zip(files, sounds, strict=True):
            write_wav(file, sound, self.rate)
        if len(files) > 1:  # the user gave one name only
            states = f", {len(chains[0])} states of each sample in turn" if samples.is_chain else ""
            print(f"wrote {len(files)} files: {files[0]} to {files[-1].name}{states}", file=sys.stderr)

    def _sounds(self, sounds: Sequence[Sound]) -> Picture:
        """Spectrograms of samples, numbered like their WAV files."""
        titles = [f"sample {i}" for i in range(1, len(sounds) + 1)] if len(sounds) > 1 else [""]
        panels = [Panel(sound=sound, title=title) for sound, title in zip(sounds, titles, strict=True)]
        columns = len(panels) if len(panels) <= 3 else min(MAX_COLUMNS, math.ceil(len(panels) ** 0.5))
        return draw_spectrograms(panels, columns, self.rate)

    def _chains(self, chains: Sequence[Sequence[Sound]], calls: Sequence[int]) -> Picture:
        """A row of spectrograms per chain."""
        panels = [
            Panel(
                sound=sound,
                title=f"call {call}" if row == 0 else "",
                group=f"sample {row + 1}" if len(chains) > 1 else "",
            )
            for row, chain in enumerate(chains)
            for sound, call in zip(chain, calls, strict=True)
        ]
        return draw_spectrograms(panels, len(calls), self.rate)

    def _check_rate(self, rate: int, path: Path) -> None:
        if rate != self.rate:
            raise UsageError(f"{path} has {rate} samples per second, but this model is for {self.rate}; resample it")

    def _checked(self, num_samples: int, name: str) -> Shape:
        if num_samples > MAX_VARIABLES:
            raise UsageError(f"{name} has more than {MAX_VARIABLES} samples, too many for one item; shorten it")
        return (num_samples,)


def audible(classes: Int[np.ndarray, "*N T"]) -> Int16[np.ndarray, "*N T"]:
    """The samples of classes, silent where hidden."""
    return np.where(classes < 2 * ZERO_CLASS, classes - ZERO_CLASS, 0).astype(np.int16)


def time_ranges(mask: str, num_samples: int, rate: int) -> Bool[np.ndarray, "T"]:
    """True at each sample to fill: ranges of time such as 0.25:0.5,0.8:1."""
    number = r"(?:\d{1,7}(?:\.\d*)?|\.\d+)"
    parts = [part.strip() for part in mask.split(",")]
    if not all(re.fullmatch(f"{number}:{number}", part) for part in parts):
        raise UsageError(f"--mask must be ranges of time in seconds such as 0.25:0.5,0.8:1; got {mask!r}")
    gaps = np.zeros(num_samples, bool)
    for part in parts:
        start, stop = (round(float(seconds) * rate) for seconds in part.split(":"))
        if start > stop:
            raise UsageError(f"--mask {part} ends before it begins")
        if stop > num_samples:
            raise UsageError(f"--mask {part} does not lie within the clip's {num_samples / rate:g} seconds")
        if start == stop:
            raise UsageError(f"--mask {part} holds no sample; samples are {1 / rate:g} seconds apart, widen it")
        gaps[start:stop] = True
    return gaps


def check_numbered(path: Path, count: int) -> None:
    """Raise a UsageError if one of several numbered files, whose names the user did not give, already exists."""
    taken = [file for file in numbered(path, count) if count > 1 and file.exists()]
    if taken:
        raise UsageError(f"{taken[0]} already exists; remove it or choose a name other than {path.name}")


def numbered(path: Path, count: int) -> Sequence[Path]:
    """The path itself for one file; name-1, name-2, ... for several."""
    if count == 1:
        return [path]
    return [path.with_name(f"{path.stem}-{i}{path.suffix}") for i in range(1, count + 1)]
