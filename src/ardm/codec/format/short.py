"""Short files: one item of exactly the model's shape, coded with the model's default options.

    half a byte B | the first 3 hexadecimal digits of the model's identity | payload | CRC-16

The model determines what the file restores to, so it takes only 4 bytes besides the payload. Version 1 began with a
byte AC and 4 digits. The bytes are specified in docs/format.md.
"""

from binascii import crc_hqx
from dataclasses import dataclass

from ardm.codec.format.entries import damage_in
from ardm.codec.format.fields import check_range
from ardm.errors import DamagedError

SHORT_VERSION = 2
SHORT_DIGITS = 3
_MAGIC, _FIRST_MAGIC = "b", "ac"
_START_BYTES, _FIRST_START_BYTES = 2, 3
_CHECK_BYTES = 2
SHORT_EXTRA_BYTES = _START_BYTES + _CHECK_BYTES
"""Bytes of a short file besides its payload."""


@dataclass(frozen=True, kw_only=True)
class Short:
    """The content of a short file."""

    model: str
    """The first hexadecimal digits of the model's identity."""
    payload: bytes
    version: int = SHORT_VERSION

    def __post_init__(self) -> None:
        if not self.payload:
            raise ValueError("a short file needs a payload, got an empty one")


def is_short(start: bytes) -> bool:
    """Whether the first bytes of a file may be those of a short one."""
    return start[:1].hex().startswith((_MAGIC, _FIRST_MAGIC))


def write_short(short: Short) -> bytes:
    """The short file, in the newest version."""
    check_range("the digits of a short file's model", len(short.model), SHORT_DIGITS, SHORT_DIGITS)
    content = bytes.fromhex(_MAGIC + short.model) + short.payload
    return content + _check(content)


def read_short(data: bytes) -> Short:
    """The content of a short file; a DamagedError if it is not one."""
    with damage_in("the file"):
        content, is_first = data[:-_CHECK_BYTES], data[:1].hex() == _FIRST_MAGIC
        magic, size = (_FIRST_MAGIC, _FIRST_START_BYTES) if is_first else (_MAGIC, _START_BYTES)
        if not is_short(content) or len(content) <= size:
            raise DamagedError("it is cut short, or not an ardm file")
        if _check(content) != data[-_CHECK_BYTES:]:
            raise DamagedError("its check does not match its bytes, or it is not an ardm file")
    model = content[:size].hex().removeprefix(magic)
    return Short(model=model, payload=content[size:], version=1 if is_first else SHORT_VERSION)


def _check(content: bytes) -> bytes:
    return crc_hqx(content, 0xFFFF).to_bytes(_CHECK_BYTES, "little")
