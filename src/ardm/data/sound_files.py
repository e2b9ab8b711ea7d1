"""Sound files of 16-bit samples, read exactly or refused; WAV needs no library, FLAC needs soundfile."""

import hashlib
import io
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int16

from ardm.errors import DataError
from ardm.runtime.files import write_file

SOUND_SUFFIXES = {".wav", ".flac"}

WAV_PCM, WAV_EXTENSIBLE = 1, 0xFFFE
WAV_ENCODINGS = {2: "ADPCM", 3: "floating-point", 6: "A-law", 7: "mu-law", 17: "ADPCM", 85: "MP3"}
"""Encodings that are refused, by their numbers in WAV files."""
WAV_GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")
"""The end of the encoding of an extensible WAV file, after the plain encoding."""


@dataclass(frozen=True, kw_only=True)
class Sound:
    """The content of a sound file."""

    frames: Int16[np.ndarray, "N C"]
    rate: int


def read_sound(path: Path) -> Sound:
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


def write_wav(path: Path, samples: Int16[np.ndarray, "N"], rate: int) -> None:
    """Write samples to a 16-bit mono WAV file, atomically."""
    write_file(path, wav_file(samples[:, None], rate))


def wav_file(frames: Int16[np.ndarray, "N C"], rate: int) -> bytes:
    """A 16-bit WAV file with the shortest possible header."""
    data, frame_bytes = frames.astype("<i2", copy=False).tobytes(), 2 * frames.shape[1]
    bytes_per_second = rate * frame_bytes & 0xFFFFFFFF  # for players only; the highest rates do not fit
    header = struct.pack("<HHIIHH", WAV_PCM, frames.shape[1], rate, bytes_per_second, frame_bytes, 16)
    chunks = b"".join(
        name + struct.pack("<I", len(chunk)) + chunk for name, chunk in ((b"fmt ", header), (b"data", data))
    )
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def _unsupported(path: Path, kind: str) -> DataError:
    return DataError(f"{path} holds {kind} samples; convert it to 16-bit PCM first")


def _damaged(path: Path, what: str) -> DataError:
    return DataError(f"{path} is damaged: {what}; fetch or save it again")


def _read_wav(content: bytes, path: Path) -> Sound:
    """The samples of a WAV file; Python's own reader accepts truncated files, and extensible ones only since 3.12."""
    chunks = _wav_chunks(content, path)
    header, data = chunks.get(b"fmt ", b""), chunks[b"data"]
    if len(header) < 16:
        raise _damaged(path, "it has no description of its samples")
    encoding, num_channels, rate, _, frame_bytes, bits = struct.unpack_from("<HHIIHH", header)
    if encoding == WAV_EXTENSIBLE and header[26:40] == WAV_GUID_TAIL:
        (encoding,) = struct.unpack_from("<H", header, 24)
    if encoding != WAV_PCM:
        raise _unsupported(path, WAV_ENCODINGS.get(encoding, f"compressed (WAV encoding {encoding})"))
    if bits != 16:
        raise _unsupported(path, f"{bits}-bit")
    if rate == 0 or num_channels == 0 or frame_bytes != 2 * num_channels:
        raise _damaged(path, f"it claims {num_channels} channels in {frame_bytes} bytes at {rate} Hz")
    if len(data) % frame_bytes:
        raise _damaged(path, f"{len(data)} bytes of samples are not a multiple of {frame_bytes}")
    return Sound(frames=np.frombuffer(data, "<i2").astype(np.int16).reshape(-1, num_channels), rate=rate)


def _wav_chunks(content: bytes, path: Path) -> dict[bytes, bytes]:
    """The chunks up to the samples, which must be complete; later ones are ignored."""
    chunks: dict[bytes, bytes] = {}
    start = 12
    while b"data" not in chunks:
        if len(content) < start + 8:
            raise _damaged(path, "it ends before its samples")
        name, size = struct.unpack_from("<4sI", content, start)
        chunks[name] = content[start + 8 : start + 8 + size]
        if len(chunks[name]) < size:
            raise _damaged(path, f"it promises {size} bytes, but {len(chunks[name])} are left")
        start += 8 + size + size % 2
    return chunks


def _read_flac(content: bytes, path: Path) -> Sound:
    """The samples of a FLAC file, checked against the length and the MD5 in its header."""
    try:
        import soundfile
    except (ImportError, OSError):  # OSError where the library that it wraps is missing
        raise DataError("reading FLAC needs soundfile: pip install 'ardm[audio]'") from None
    fields, md5 = int.from_bytes(content[18:26], "big"), content[26:42]
    bits, num_frames = (fields >> 36) % 2**5 + 1, fields % 2**36
    if len(md5) < 16:
        raise _damaged(path, "it ends before its samples")
    if bits != 16:
        raise _unsupported(path, f"{bits}-bit")
    if num_frames == 0:
        raise DataError(f"{path} holds no samples or does not say how many; leave it out or encode it again")
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            frames, rate = file.read(dtype="int16", always_2d=True), file.samplerate
    except (soundfile.SoundFileError, MemoryError):
        raise _damaged(path, "its samples cannot be decoded") from None
    if len(frames) != num_frames:
        raise _damaged(path, f"it promises {num_frames} samples, but holds {len(frames)}")
    if any(md5) and hashlib.md5(frames.astype("<i2", copy=False).tobytes()).digest() != md5:
        raise _damaged(path, "its samples do not match its MD5")
    return Sound(frames=frames, rate=rate)
