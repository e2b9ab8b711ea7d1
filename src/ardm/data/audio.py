"""Sounds as items: 16-bit mono clips, cut into windows of D samples.

Class k stands for the sample k - 32768, so that neighbouring classes are neighbouring amplitudes. Files are read
exactly or refused: WAV by the standard library alone, FLAC by soundfile.
"""

import hashlib
import io
import struct
import wave
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int, Int16, UInt16
from torch import Tensor

from ardm.data.corpus import Split, on_device_if_it_fits
from ardm.data.folders import FileSplits, split_folder
from ardm.errors import DataError
from ardm.files import written_whole
from ardm.orders import Shape

AudioKind = Literal["sc09", "audio"]
Samples = Int16[np.ndarray, "_"]
"""A mono clip; clips of one collection may differ in length."""

ZERO_CLASS = 2**15
"""The class of silence."""
AUDIO_SUFFIXES = {".wav", ".flac"}
FOLDER_HOLDS = "WAV and FLAC files"

WAV_PCM, WAV_EXTENSIBLE = 1, 0xFFFE
WAV_ENCODINGS = {2: "ADPCM", 3: "floating-point", 6: "A-law", 7: "mu-law", 17: "ADPCM", 85: "MP3"}
"""What is refused, by the number that a WAV file gives it."""
WAV_GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")
"""Ends the encoding of an extensible WAV file; the plain encoding comes before it."""


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
    train: Sequence[Samples]
    valid: Sequence[Samples]
    test: Sequence[Samples]
    sample_rate: int
    """Samples in a second."""
    pads: bool = False
    """Whether a clip shorter than an item becomes one, with zeros at its end, or is left out."""

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
            raise DataError(
                f"{self.title}: no clip of the {name} split is as long as {num_samples} samples; "
                "use longer clips, or train with a smaller --item-length"
            )
        # The top bit flipped adds 32768 modulo 65536.
        return np.concatenate(windows).view(np.uint16) ^ np.uint16(ZERO_CLASS)

    def lengths(self, name: Split, shape: Shape) -> Int[np.ndarray, "N"]:
        """How many samples of each item are sound; the rest is padding."""
        (num_samples,) = shape
        lengths = np.array([len(clip) for clip in self.split(name)], dtype=np.int64)
        num_windows = np.maximum(lengths // num_samples, int(self.pads))
        return np.minimum(lengths, num_samples).repeat(num_windows)

    def sampler(self, shape: Shape, device: torch.device) -> "AudioSampler":
        """Random windows of the training split."""
        (num_samples,) = shape
        return AudioSampler(self._long_enough("train", num_samples), num_samples, device)

    def _long_enough(self, name: Split, num_samples: int) -> list[Samples]:
        """The clips of a split that hold a window, short ones padded to hold it if this corpus pads."""
        clips = self.split(name)
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


def _padded(clip: Samples, num_samples: int) -> Samples:
    return clip if len(clip) >= num_samples else np.pad(clip, (0, num_samples - len(clip)))


def _windows(clip: Samples, num_samples: int) -> Int16[np.ndarray, "N D"]:
    num_windows = len(clip) // num_samples
    return clip[: num_windows * num_samples].reshape(num_windows, num_samples)


class AudioSampler:
    """Random windows of clips of any lengths, held as one run of samples, on the device if they fit.

    Every place where a window fits is equally likely.
    """

    def __init__(self, clips: Sequence[Samples], num_samples: int, device: torch.device) -> None:
        fitting = [clip for clip in clips if len(clip) >= num_samples]
        if not fitting:
            raise DataError(
                f"no clip is as long as an item of {num_samples} samples; train with a smaller --item-length"
            )
        self.num_samples = num_samples
        self.samples = on_device_if_it_fits(torch.from_numpy(np.concatenate(fitting)), device)
        lengths = torch.tensor([len(clip) for clip in fitting], device=self.samples.device)
        self.places = (lengths - num_samples + 1).cumsum(0)
        self.num_places = int(self.places[-1])

    def draw(self, num_items: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
        """Windows at uniformly random places, as classes, on the generator's device."""
        device = self.samples.device
        place = torch.randint(0, self.num_places, (num_items,), generator=generator, device=generator.device).to(device)
        clip = torch.searchsorted(self.places, place, right=True)
        start = place + clip * (self.num_samples - 1)  # each clip before it has D - 1 more samples than places
        index = start[:, None] + torch.arange(self.num_samples, device=device)
        return self.samples[index].to(generator.device).long() + ZERO_CLASS


def load_audio(path: Path) -> AudioCorpus:
    """Sounds to score: a single file as the test split, or a folder as for training, which may also hold fewer."""
    if path.is_file():
        return _read_splits(path, FileSplits(train=[], valid=[], test=[path]))
    return _read_splits(path, split_folder(path, AUDIO_SUFFIXES, FOLDER_HOLDS, to_score=True))


def load_audio_folder(path: Path) -> AudioCorpus:
    """All WAV and FLAC files below a folder, mixed down to mono: 90% train, 5% valid, 5% test, by their names."""
    return _read_splits(path, split_folder(path, AUDIO_SUFFIXES, FOLDER_HOLDS))


def _read_splits(path: Path, splits: FileSplits) -> AudioCorpus:
    files = sorted([*splits.train, *splits.valid, *splits.test])
    clips = {file: read_audio(file, mix_down=True) for file in files}
    return AudioCorpus(
        title=_title(path, clips.values()),
        train=[clips[file].samples for file in splits.train],
        valid=[clips[file].samples for file in splits.valid],
        test=[clips[file].samples for file in splits.test],
        sample_rate=_common_rate(clips, path),
    )


def _title(path: Path, clips: Collection[Clip]) -> str:
    num_mixed = sum(clip.num_channels > 1 for clip in clips)
    name = path.absolute().name
    return f"{name} ({num_mixed} of {len(clips)} files mixed down to mono)" if num_mixed else name


def _common_rate(clips: Mapping[Path, Clip], path: Path) -> int:
    first, *others = clips
    rate = clips[first].rate
    for other in others:
        if clips[other].rate != rate:
            raise DataError(
                f"{path} mixes sample rates: {first} has {rate} Hz and {other} has {clips[other].rate} Hz; "
                "resample them to one rate"
            )
    return rate


def read_audio(path: Path, *, mix_down: bool = False) -> Clip:
    """A WAV or FLAC file of 16-bit samples, exactly; nothing that would lose information is done unasked.

    Several channels are refused, or with `mix_down` averaged, halves rounded to the even neighbour.
    """
    recording = read_recording(path)
    num_frames, num_channels = recording.frames.shape
    if num_frames == 0:
        raise DataError(f"{path} holds no samples; leave it out")
    if num_channels > 1 and not mix_down:
        raise DataError(f"{path} has {num_channels} channels; mono is handled, mix it down first")
    samples = np.rint(recording.frames.mean(axis=1)).astype(np.int16) if num_channels > 1 else recording.frames[:, 0]
    return Clip(samples=samples, rate=recording.rate, num_channels=num_channels)


def write_wav(path: Path, samples: Int16[np.ndarray, "N"], rate: int) -> None:
    """Write samples to a 16-bit mono WAV file as a whole."""
    with written_whole(path) as temporary, wave.open(str(temporary), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2", copy=False).tobytes())


def wav_file(frames: Int16[np.ndarray, "N C"], rate: int) -> bytes:
    """A 16-bit WAV file of these samples, with the shortest header that there is."""
    data, frame_bytes = frames.astype("<i2", copy=False).tobytes(), 2 * frames.shape[1]
    bytes_a_second = rate * frame_bytes & 0xFFFFFFFF  # for players only; the highest rates do not fit
    header = struct.pack("<HHIIHH", WAV_PCM, frames.shape[1], rate, bytes_a_second, frame_bytes, 16)
    chunks = b"".join(
        name + struct.pack("<I", len(chunk)) + chunk for name, chunk in ((b"fmt ", header), (b"data", data))
    )
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What a file holds."""

    frames: Int16[np.ndarray, "N C"]
    rate: int


def read_recording(path: Path) -> Recording:
    """A WAV or FLAC file of 16-bit samples, exactly, with all of its channels."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from None
    if not content:
        raise DataError(f"{path} is empty")
    if content[:4] == b"RIFF" and content[8:12] == b"WAVE":
        return _read_wav(content, path)
    if content[:4] == b"fLaC":
        return _read_flac(content, path)
    raise DataError(f"{path} is neither a WAV nor a FLAC file; convert it to one of them")


def _unfit(path: Path, kind: str) -> DataError:
    return DataError(f"{path} holds {kind} samples; 16-bit PCM is handled, convert it first")


def _damaged(path: Path, what: str) -> DataError:
    return DataError(f"{path} is damaged: {what}; fetch or save it again")


def _read_wav(content: bytes, path: Path) -> Recording:
    """Python's own reader takes cut files for shorter ones, and extensible ones only since 3.12; this one is exact."""
    chunks = _wav_chunks(content, path)
    header, data = chunks.get(b"fmt ", b""), chunks[b"data"]
    if len(header) < 16:
        raise _damaged(path, "it does not say what its samples are")
    encoding, num_channels, rate, _, frame_bytes, bits = struct.unpack_from("<HHIIHH", header)
    if encoding == WAV_EXTENSIBLE and header[26:40] == WAV_GUID_TAIL:
        (encoding,) = struct.unpack_from("<H", header, 24)
    if encoding != WAV_PCM:
        raise _unfit(path, WAV_ENCODINGS.get(encoding, f"compressed (WAV encoding {encoding})"))
    if bits != 16:
        raise _unfit(path, f"{bits}-bit")
    if rate == 0 or num_channels == 0 or frame_bytes != 2 * num_channels:
        raise _damaged(path, f"it claims {num_channels} channels in {frame_bytes} bytes at {rate} Hz")
    if len(data) % frame_bytes:
        raise _damaged(path, f"{len(data)} bytes of samples are no whole number of {frame_bytes} bytes")
    return Recording(frames=np.frombuffer(data, "<i2").astype(np.int16).reshape(-1, num_channels), rate=rate)


def _wav_chunks(content: bytes, path: Path) -> dict[bytes, bytes]:
    """The chunks up to the samples, which must be there to the last byte; what follows them is not needed."""
    chunks: dict[bytes, bytes] = {}
    start = 12
    while b"data" not in chunks:
        if len(content) < start + 8:
            raise _damaged(path, "it ends before its samples")
        name, size = struct.unpack_from("<4sI", content, start)
        chunks[name] = content[start + 8 : start + 8 + size]
        if len(chunks[name]) < size:
            raise _damaged(path, f"it promises {size} bytes where {len(chunks[name])} are left")
        start += 8 + size + size % 2
    return chunks


def _read_flac(content: bytes, path: Path) -> Recording:
    """The samples, checked against the length and the MD5 that the file's header gives for them."""
    try:
        import soundfile
    except (ImportError, OSError):  # OSError where the library that it wraps is missing
        raise DataError("reading FLAC needs soundfile: pip install 'ardm[audio]'") from None
    fields, md5 = int.from_bytes(content[18:26], "big"), content[26:42]
    bits, num_frames = (fields >> 36) % 2**5 + 1, fields % 2**36
    if len(md5) < 16:
        raise _damaged(path, "it ends before its samples")
    if bits != 16:
        raise _unfit(path, f"{bits}-bit")
    if num_frames == 0:
        raise DataError(f"{path} holds no samples or does not say how many; leave it out or encode it again")
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            frames, rate = file.read(dtype="int16", always_2d=True), file.samplerate
    except (soundfile.SoundFileError, MemoryError):
        raise _damaged(path, "its samples cannot be decoded") from None
    if len(frames) != num_frames:
        raise _damaged(path, f"it promises {num_frames} samples and holds {len(frames)}")
    if any(md5) and hashlib.md5(frames.astype("<i2", copy=False).tobytes()).digest() != md5:
        raise _damaged(path, "its samples are not those that its MD5 was made from")
    return Recording(frames=frames, rate=rate)
