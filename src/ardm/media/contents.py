"""Contents: what users compress, as raw bytes with the fields that tell what they are.

The raw bytes are those that an entry stores where coding would expand (docs/format.md, Fields).
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from jaxtyping import Int16, UInt8

from ardm.codec.format.fields import BytesFields, Fields, ImageFields, SoundFields, TextFields
from ardm.errors import DataError

MODES = {2: "LA", 3: "RGB", 4: "RGBA"}
"""Of images with several channels."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """One text, image, sound or string of bytes."""

    fields: Fields
    raw: bytes

    @property
    def num_variables(self) -> int:
        """Characters, bytes, sub-pixels or samples."""
        return num_variables(self.fields)

    @property
    def digest(self) -> bytes:
        """A hash of all of it, to compare it with what is restored."""
        return blake2b(repr(self.fields).encode() + b"\0" + self.raw).digest()


def num_variables(fields: Fields) -> int:
    """Characters, bytes, sub-pixels or samples."""
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
    """The value of which `content_of` made the content."""
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


def text_content(text: str) -> Content:
    """A text."""
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the text has a lone surrogate at position {error.start}, which UTF-8 cannot hold") from None
    return Content(fields=TextFields(length=len(text)), raw=raw)


def bytes_content(raw: bytes) -> Content:
    """Bytes of any meaning."""
    return Content(fields=BytesFields(length=len(raw)), raw=raw)


def image_content(pixels: UInt8[np.ndarray, "..."]) -> Content:
    """An image, grey if it has two axes only."""
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
    """A sound, mono if it has one axis only."""
    num_channels = 1 if frames.ndim == 1 else frames.shape[-1]
    if frames.ndim not in (1, 2) or num_channels not in (1, 2):
        raise DataError(f"a sound has shape (samples,) or (samples, 2); got {frames.shape}")
    fields = SoundFields(num_samples=len(frames), num_channels=num_channels, sample_rate=sample_rate)
    return Content(fields=fields, raw=frames.astype("<i2").tobytes())


def frames_of(content: Content) -> Int16[np.ndarray, "N C"]:
    """The samples of a sound."""
    assert isinstance(content.fields, SoundFields)
    return np.frombuffer(content.raw, "<i2").astype(np.int16).reshape(-1, content.fields.num_channels)
