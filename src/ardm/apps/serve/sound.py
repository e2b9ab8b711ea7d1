"""Sound on the page: a file and a range of time in, WAV files and spectrograms out."""

from typing import Any

import numpy as np
from jaxtyping import Int16

from ardm.apps.serve.inputs import PageRequest, as_file, encoded, plain_name
from ardm.apps.serve.medium import Start, States, png, rounded
from ardm.apps.serve.models import LoadedModel
from ardm.data.sound_files import wav_file
from ardm.data.sounds import ZERO_CLASS, Clip, read_audio
from ardm.errors import DataError
from ardm.media.medium import GappedItem
from ardm.media.sounds.spectrograms import spectrogram

PEAKS = 400
"""Columns in which a waveform is drawn."""


class SoundPage:
    """Sounds of a model."""

    def __init__(self, served: LoadedModel) -> None:
        assert served.trained.sample_rate is not None
        self._rate, self._shape = served.trained.sample_rate, served.trained.model.shape

    def facts(self) -> dict[str, Any]:
        """Samples a second, and the length that it was trained on."""
        return {"rate": self._rate, "samples": self._shape[0]}

    def start(self, asked: PageRequest) -> Start:
        """A file and a range of time in it to fill; without a file nothing but the model's own length."""
        if not asked.has("file"):
            return Start(shape=self._shape, gaps=None, length=self._shape[0])
        samples = self._clip(asked).samples
        first, last = self._range(asked, len(samples))
        known = np.ones(len(samples), bool)
        known[first:last] = False
        values = np.where(known, samples.astype(np.int64) + ZERO_CLASS, 0)
        gaps = GappedItem(values=values, known=known, shape=(len(samples),), length=len(samples))
        return Start(shape=gaps.shape, gaps=gaps if known.any() else None, length=gaps.length)

    def _clip(self, asked: PageRequest) -> Clip:
        data = asked.content("file")
        check_sound(data, asked.limits.sound_samples)
        with as_file(data, plain_name(asked.text("name", 1000), "sound.wav")) as path:
            clip = read_audio(path)
        if clip.rate != self._rate:
            raise DataError(f"it has {clip.rate} samples a second, and this model is for {self._rate}; resample it")
        if len(clip.samples) > asked.limits.sound_samples:
            raise DataError(f"it has {len(clip.samples):,} samples; this page takes {asked.limits.sound_samples:,}")
        return clip

    def _range(self, asked: PageRequest, num_samples: int) -> tuple[int, int]:
        seconds = num_samples / self._rate
        start, stop = (asked.number(name, 0.0, seconds) for name in ("start", "stop"))
        first, last = round(start * self._rate), round(stop * self._rate)
        if not first < last:
            raise DataError(f"nothing to fill: choose a range of time, got {start:g} to {stop:g} seconds")
        return first, last

    def preview(self, asked: PageRequest) -> dict[str, Any]:
        """How a file looks."""
        clip = self._clip(asked)
        return {"seconds": len(clip.samples) / clip.rate, "samples": len(clip.samples)} | looks(clip.samples)

    def shown(self, states: States, start: Start) -> dict[str, Any]:
        """Spectrograms; what is hidden is silent."""
        return {"spectrograms": [png(spectrogram(_samples(state))) for state in states]}

    def finished(self, states: States, start: Start) -> dict[str, Any]:
        """WAV files, and how they look."""
        sounds = [_samples(state) for state in states]
        files = [encoded(wav_file(sound[:, None], self._rate)) for sound in sounds]
        return self.shown(states, start) | {"files": files, "peaks": [peaks(sound) for sound in sounds]}


def looks(samples: Int16[np.ndarray, "N"]) -> dict[str, Any]:
    """A sound's waveform and spectrogram."""
    return {"peaks": peaks(samples), "spectrogram": png(spectrogram(samples))}


def peaks(samples: Int16[np.ndarray, "N"]) -> list[float]:
    """The loudest sample of each column of a drawn waveform, from 0 to 1."""
    parts = np.array_split(np.abs(samples.astype(np.int64)), min(PEAKS, len(samples)))
    return rounded([part.max() / 2**15 for part in parts])


def check_sound(data: bytes, most: int) -> None:
    """A DataError for a FLAC file that would unfold to more samples than are taken; WAV files hold what they hold."""
    if data[:4] == b"fLaC":
        fields = int.from_bytes(data[18:26], "big")
        count = fields % 2**36 * ((fields >> 41) % 8 + 1)
        if count > most:
            raise DataError(f"it has {count:,} samples; this page takes {most:,}")


def _samples(state: np.ndarray) -> Int16[np.ndarray, "N"]:
    return np.where(state < 2 * ZERO_CLASS, state - ZERO_CLASS, 0).astype(np.int16)
