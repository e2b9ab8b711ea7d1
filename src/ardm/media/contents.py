"""Contents: what users compress, as raw bytes and the fields that describe them.

An entry stores the raw bytes if coding would make them longer (docs/format.md, Fields).
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from jaxtyping import Int16, UInt8

from ardm.codec.format.fields import BytesFields, Fields, ImageFields, SoundFields, TextFields
from ardm.data.sound_files import wav_file
from ardm.errors import DataError
from ardm.media.images.pictures import png_file

MODES = {2: "LA", 3: "RGB", 4: "RGBA"}
"""Modes of images by their number of channels."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """One text, image, sound or string of bytes."""

    fields: Fields
    raw: bytes

    @property
    def num_variables(self) -> int:
        """The number of characters, bytes, sub-pixels or samples."""
        return num_variables(self.fields)

    @property
    def digest(self) -> bytes:
        """A hash of fields and raw bytes, to compare with the restored content."""
        return blake2b(repr(self.fields).encode() + b"\0" + self.raw).digest()


def num_variables(fields: Fields) -> int:
    """The number of characters, bytes, sub-pixels or samples."""
    match fields:
        case TextFields() | BytesFields():
            return fields.length
        case ImageFields():
            return fields.content_bytes
        case SoundFields():
            return fields.content_bytes // 2


def content_of(value: object, sample_rate: int | None = None) -> Content:
    """The content of a str, bytes, a uint8 array (an image) or an int16 array (a sound).

    Images have shape (height, width) or (height, width, channels) with 2 (grey and alpha), 3 or 4 channels. Sounds
    have shape (samples,) or (samples, 2) and the given rate.
    """
    match value:
        case str():
            return text_content(value)
        case bytes():
            return bytes_content(value)
        case np.ndarray() if value.dtype == np.uint8:
            return image_content(value)
        case np.ndarray() if value.dtype == np.int16 and sample_rate is not None:
            return sound_content(value, sample_rate)
    kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise DataError(
        f"{kind} cannot be compressed with this model; give text as str, bytes, an image as uint8 array, "
        "a sound as int16 array, or a Path"
    )


def value_of(content: Content) -> str | bytes | np.ndarray:
    """The value that `content_of` made the content from."""
    match content.fields:
        case TextFields():
            return content.raw.decode()
        case BytesFields():
            return content.raw
        case ImageFields(mode="L"):
            return pixels_of(content)[:, :, 0]
        case ImageFields():
            return pixels_of(content)
        case SoundFields(num_channels=1):
            return frames_of(content)[:, 0]
    return frames_of(content)


def restored_file(content: Content) -> bytes:
    """The file that a content is restored to: a PNG, a WAV, or the exact bytes of a text or any other file."""
    match content.fields:
        case ImageFields():
            return png_file(pixels_of(content))
        case SoundFields(sample_rate=rate):
            return wav_file(frames_of(content), rate)
    return content.raw


def restored_suffix(fields: Fields) -> str | None:
    """The suffix that the names of restored files must have; None for any."""
    match fields:
        case ImageFields():
            return ".png"
        case SoundFields():
            return ".wav"
    return None


def text_content(text: str) -> Content:
    """The content of a text."""
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the text has a lone surrogate at position {error.start}, which UTF-8 cannot hold") from None
    return Content(fields=TextFields(length=len(text)), raw=raw)


def bytes_content(raw: bytes) -> Content:
    """The content of arbitrary bytes."""
    return Content(fields=BytesFields(length=len(raw)), raw=raw)


def image_content(pixels: UInt8[np.ndarray, "..."]) -> Content:
    """The content of an image, which is grey if it has two axes."""
    mode = "L" if pixels.ndim == 2 else MODES.get(pixels.shape[2]) if pixels.ndim == 3 else None
    if mode is None or pixels.size == 0:
        raise DataError(
            f"an image has shape (height, width) or (height, width, 2..4), each at least 1; got {pixels.shape}"
        )
    fields = ImageFields(width=pixels.shape[1], height=pixels.shape[0], mode=mode)  # type: ignore[arg-type]
    return Content(fields=fields, raw=pixels.tobytes())


def pixels_of(content: Content) -> UInt8[np.ndarray, "H W C"]:
    """The values of an image."""
    fields = content.fields
    assert isinstance(fields, ImageFields)
    return np.frombuffer(content.raw, np.uint8).reshape(fields.height, fields.width, fields.num_channels)


def sound_content(frames: Int16[np.ndarray, "..."], sample_rate: int) -> Content:
    """The content of a sound, which is mono if it has one axis."""
    num_channels = 1 if frames.ndim == 1 else frames.shape[-1]
    if frames.ndim not in (1, 2) or num_channels not in (1, 2):
        raise DataError(f"a sound has shape (samples,) or (samples, 2); got {frames.shape}")
    fields = SoundFields(num_samples=len(frames), num_channels=num_channels, sample_rate=sample_rate)
    return Content(fields=fields, raw=frames.astype("<i2").tobytes())


def frames_of(content: Content) -> Int16[np.ndarray, "N C"]:
    """The samples of a sound."""
    assert isinstance(content.fields, SoundFields)
    return np.frombuffer(content.raw, "<i2").astype(np.int16).reshape(-1, content.fields.num_channels)
