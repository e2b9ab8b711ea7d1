"""Fields: what an entry restores to, told in a few small numbers. One class a kind of media."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from ardm.codec.format.wire import Cursor, varint

ImageMode = Literal["L", "RGB", "LA", "RGBA"]

MAX_LENGTH = 2**63 - 1
MAX_SIDE = 2**31 - 1
MAX_RATE = 2**32 - 1

_MODES: tuple[ImageMode, ...] = get_args(ImageMode)


class _Fields:
    """What the kinds have in common."""

    kind: ClassVar[str]

    @property
    def code(self) -> int:
        """The number of the kind in files."""
        raise NotImplementedError

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers that files hold, in their order."""
        raise NotImplementedError

    @property
    def content_bytes(self) -> int:
        """The number of bytes of raw content; of a text, the most."""
        raise NotImplementedError

    def fit(self, raw: bytes) -> bool:
        """Whether raw content is of the stated size."""
        return len(raw) == self.content_bytes


@dataclass(frozen=True, kw_only=True)
class TextFields(_Fields):
    """A text of Unicode characters; its raw content is UTF-8."""

    kind = "text"
    length: int
    """In characters."""

    def __post_init__(self) -> None:
        check_range("a text's length", self.length, 0, MAX_LENGTH)

    @property
    def code(self) -> int:
        return 0

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.length,)

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
    """Bytes of any meaning."""

    kind = "bytes"
    length: int

    def __post_init__(self) -> None:
        check_range("a number of bytes", self.length, 0, MAX_LENGTH)

    @property
    def code(self) -> int:
        return 1

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def content_bytes(self) -> int:
        return self.length


@dataclass(frozen=True, kw_only=True)
class ImageFields(_Fields):
    """An image of 8-bit values; its raw content goes row by row, pixel by pixel, channel by channel."""

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
    def code(self) -> int:
        return 2 + _MODES.index(self.mode)

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.width, self.height)

    @property
    def num_channels(self) -> int:
        """One for each letter of the mode."""
        return len(self.mode)

    @property
    def content_bytes(self) -> int:
        return self.width * self.height * self.num_channels


@dataclass(frozen=True, kw_only=True)
class SoundFields(_Fields):
    """Sound of 16-bit values; its raw content goes sample by sample, channel by channel, the low byte first."""

    kind = "sound"
    num_samples: int
    """Of each channel."""
    num_channels: int
    """1 or 2."""
    sample_rate: int
    """Samples a second."""

    def __post_init__(self) -> None:
        check_range("a sound's number of samples", self.num_samples, 0, MAX_LENGTH)
        check_range("a sound's number of channels", self.num_channels, 1, 2)
        check_range("a sample rate", self.sample_rate, 1, MAX_RATE)

    @property
    def code(self) -> int:
        return 5 + self.num_channels

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.num_samples, self.sample_rate)

    @property
    def content_bytes(self) -> int:
        return 2 * self.num_samples * self.num_channels


Fields = TextFields | BytesFields | ImageFields | SoundFields


def encode_fields(fields: Fields) -> bytes:
    """The fields' numbers; the kind's code travels in the flags."""
    return b"".join(varint(number) for number in fields.numbers)


def decode_fields(code: int, cursor: Cursor) -> Fields:
    """The fields of the kind with that code, 0..7, from the numbers that come next."""
    if code == 0:
        return TextFields(length=cursor.varint(0, MAX_LENGTH))
    if code == 1:
        return BytesFields(length=cursor.varint(0, MAX_LENGTH))
    if code < 6:
        width, height = cursor.varint(1, MAX_SIDE), cursor.varint(1, MAX_SIDE)
        return ImageFields(width=width, height=height, mode=_MODES[code - 2])
    num_samples, sample_rate = cursor.varint(0, MAX_LENGTH), cursor.varint(1, MAX_RATE)
    return SoundFields(num_samples=num_samples, num_channels=code - 5, sample_rate=sample_rate)


def check_range(what: str, number: int, least: int, most: int) -> None:
    """A ValueError unless the number lies in least..most."""
    if not least <= number <= most:
        raise ValueError(f"{what} must lie in {least}..{most}, got {number}")
