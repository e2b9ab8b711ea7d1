"""Sound on the page: a file and a range of time in, WAV files and spectrograms out."""

from typing import Any

import numpy as np
from jaxtyping import Int16

from ardm.apps.serve.inputs import PageRequest, as_file, encoded, plain_name
from ardm.apps.serve.medium import all_gaps, png, rounded
from ardm.apps.serve.models import PageModel
from ardm.data.sound_files import wav_file
from ardm.data.sounds import ZERO_CLASS, Clip, read_clip
from ardm.errors import DataError
from ardm.media.medium import GappedItem, gapped
from ardm.media.sounds.medium import audible
from ardm.media.sounds.spectrograms import spectrogram
from ardm.tasks.draw import States

PEAKS = 400
"""Columns of a drawn waveform."""


class SoundPage:
    """The page's sounds for one model."""

    def __init__(self, model: PageModel) -> None:
        assert model.trained.sample_rate is not None
        self._rate, self._shape = model.trained.sample_rate, model.ardm.shape

    def facts(self) -> dict[str, Any]:
        """Samples per second, and the length that the model was trained on."""
        return {"rate": self._rate, "samples": self._shape[0]}

    def start(self, request: PageRequest) -> GappedItem:
        """A file with a range of time to fill, or without a file a sound of the model's length that is all gap."""
        if not request.has("file"):
            return all_gaps(self._shape)
        samples = self._clip(request).samples
        first, last = self._range(request, len(samples))
        known = np.ones(len(samples), bool)
        known[first:last] = False
        return gapped(samples.astype(np.int64) + ZERO_CLASS, known)

    def _clip(self, request: PageRequest) -> Clip:
        data = request.content("file")
        check_sound(data, request.limits.sound_samples)
        with as_file(data, plain_name(request.text("name", 1000), "sound.wav")) as path:
            clip = read_clip(path)
        if clip.rate != self._rate:
            raise DataError(f"it has {clip.rate} samples per second, but this model is for {self._rate}; resample it")
        if len(clip.samples) > request.limits.sound_samples:
            raise DataError(f"it has {len(clip.samples):,} samples; this page takes {request.limits.sound_samples:,}")
        return clip

    def _range(self, request: PageRequest, num_samples: int) -> tuple[int, int]:
        seconds = num_samples / self._rate
        start, stop = (request.number(name, 0.0, seconds) for name in ("start", "stop"))
        first, last = round(start * self._rate), round(stop * self._rate)
        if not first < last:
            raise DataError(f"nothing to fill: choose a range of time, got {start:g} to {stop:g} seconds")
        return first, last

    def preview(self, request: PageRequest) -> dict[str, Any]:
        """The length, the waveform and the spectrogram of a file."""
        clip = self._clip(request)
        return {"seconds": len(clip.samples) / clip.rate, "samples": len(clip.samples)} | pictures_of(clip.samples)

    def show_states(self, states: States, gaps: GappedItem) -> dict[str, Any]:
        """Spectrograms; hidden samples are silent."""
        return {"spectrograms": [png(spectrogram(audible(state))) for state in states]}

    def show_samples(self, samples: States, gaps: GappedItem) -> dict[str, Any]:
        """WAV files with their waveforms and spectrograms."""
        sounds = [audible(state) for state in samples]
        files = [encoded(wav_file(sound[:, None], self._rate)) for sound in sounds]
        return self.show_states(samples, gaps) | {"files": files, "peaks": [peaks(sound) for sound in sounds]}


def pictures_of(samples: Int16[np.ndarray, "N"]) -> dict[str, Any]:
    """The waveform and the spectrogram of a sound."""
    return {"peaks": peaks(samples), "spectrogram": png(spectrogram(samples))}


def peaks(samples: Int16[np.ndarray, "N"]) -> list[float]:
    """The loudest sample in each column of a drawn waveform, from 0 to 1."""
    parts = np.array_split(np.abs(samples.astype(np.int64)), min(PEAKS, len(samples)))
    return rounded([part.max() / 2**15 for part in parts])


def check_sound(data: bytes, max_samples: int) -> None:
    """Raise a DataError for a FLAC file that would decode to too many samples; a WAV file cannot grow."""
    if data[:4] == b"fLaC":
        fields = int.from_bytes(data[18:26], "big")
        count = fields % 2**36 * ((fields >> 41) % 8 + 1)
        if count > max_samples:
            raise DataError(f"it has {count:,} samples; this page takes {max_samples:,}")
