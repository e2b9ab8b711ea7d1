"""Fields: what an entry restores to, in a few small numbers; one class per kind of content."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from ardm.codec.format.wire import Cursor, varint

ImageMode = Literal["L", "RGB", "LA", "RGBA"]

MAX_LENGTH = 2**63 - 1
MAX_SIDE = 2**31 - 1
MAX_RATE = 2**32 - 1

_MODES: tuple[ImageMode, ...] = get_args(ImageMode)


class _Fields:
    """The base class of the fields of every kind."""

    kind: ClassVar[str]

    @property
    def content_bytes(self) -> int:
        """The size of the raw content in bytes; for a text an upper bound."""
        raise NotImplementedError

    def fit(self, raw: bytes) -> bool:
        """Whether raw content has the stated size."""
        return len(raw) == self.content_bytes


@dataclass(frozen=True, kw_only=True)
class TextFields(_Fields):
    """A Unicode text; its raw content is UTF-8."""

    kind = "text"
    length: int
    """Number of characters."""

    def __post_init__(self) -> None:
        check_range("a text's length", self.length, 0, MAX_LENGTH)

    @property
    def content_bytes(self) -> int:
        return 4 * self.length

    def fit(self, raw: bytes) -> bool:
        try:
            return len(raw.decode()) == self.length
        except UnicodeDecodeError:
            return False


@dataclass(frozen=True, kw_only=True)
class BytesFields(_Fields):
    """Arbitrary bytes."""

    kind = "bytes"
    length: int

    def __post_init__(self) -> None:
        check_range("a number of bytes", self.length, 0, MAX_LENGTH)

    @property
    def content_bytes(self) -> int:
        return self.length


@dataclass(frozen=True, kw_only=True)
class ImageFields(_Fields):
    """An image of 8-bit values; its raw content is ordered by row, then pixel, then channel."""

    kind = "image"
    width: int
    height: int
    mode: ImageMode

    def __post_init__(self) -> None:
        check_range("an image's width", self.width, 1, MAX_SIDE)
        check_range("an image's height", self.height, 1, MAX_SIDE)
        if self.mode not in _MODES:
            raise ValueError(f"an image's mode is one of {', '.join(_MODES)}, got {self.mode}")

    @property
    def num_channels(self) -> int:
        """Number of channels: one per letter of the mode."""
        return len(self.mode)

    @property
    def content_bytes(self) -> int:
        return self.width * self.height * self.num_channels


@dataclass(frozen=True, kw_only=True)
class SoundFields(_Fields):
    """A sound of 16-bit values; its raw content is ordered by sample, then channel, low byte first."""

    kind = "sound"
    num_samples: int
    """Samples per channel."""
    num_channels: int
    """Channels: 1 or 2."""
    sample_rate: int
    """Samples per second."""

    def __post_init__(self) -> None:
        check_range("a sound's number of samples", self.num_samples, 0, MAX_LENGTH)
        check_range("a sound's number of channels", self.num_channels, 1, 2)
        check_range("a sample rate", self.sample_rate, 1, MAX_RATE)

    @property
    def content_bytes(self) -> int:
        return 2 * self.num_samples * self.num_channels


Fields = TextFields | BytesFields | ImageFields | SoundFields


def kind_code(fields: Fields) -> int:
    """The number of the kind in files, 0..7."""
    match fields:
        case TextFields():
            return 0
        case BytesFields():
            return 1
        case ImageFields():
            return 2 + _MODES.index(fields.mode)
        case SoundFields():
            return 5 + fields.num_channels


def encode_fields(fields: Fields) -> bytes:
    """The fields' numbers; the kind's code is stored in the flags."""
    match fields:
        case TextFields() | BytesFields():
            return varint(fields.length)
        case ImageFields():
            return varint(fields.width) + varint(fields.height)
        case SoundFields():
            return varint(fields.num_samples) + varint(fields.sample_rate)


def decode_fields(code: int, cursor: Cursor) -> Fields:
    """The fields of the kind with a code, from the numbers that come next."""
    if code == 0:
        return TextFields(length=cursor.varint(0, MAX_LENGTH))
    if code == 1:
        return BytesFields(length=cursor.varint(0, MAX_LENGTH))
    if code < 6:
        width, height = cursor.varint(1, MAX_SIDE), cursor.varint(1, MAX_SIDE)
        return ImageFields(width=width, height=height, mode=_MODES[code - 2])
    num_samples, sample_rate = cursor.varint(0, MAX_LENGTH), cursor.varint(1, MAX_RATE)
    return SoundFields(num_samples=num_samples, num_channels=code - 5, sample_rate=sample_rate)


def check_range(what: str, number: int, minimum: int, maximum: int) -> None:
    """Raise a ValueError unless the number lies in minimum..maximum."""
    if not minimum <= number <= maximum:
        raise ValueError(f"{what} must lie in {minimum}..{maximum}, got {number}")
