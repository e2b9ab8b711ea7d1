"""A short file: one item of exactly the model's own shape, coded in the model's own way.

    magic AC | the first 2 bytes of the model's identity | payload | CRC-16

The model tells what it restores to, so that 5 bytes are enough besides the payload. Specified in docs/format.md.
"""

from binascii import crc_hqx
from dataclasses import dataclass

from ardm.container.entries import damage_in
from ardm.container.fields import check_range
from ardm.errors import DamagedError

SHORT_MAGIC = b"\xac"
SHORT_MODEL_BYTES = 2
_START_BYTES = len(SHORT_MAGIC) + SHORT_MODEL_BYTES
_CHECK_BYTES = 2


@dataclass(frozen=True, kw_only=True)
class Short:
    """What a short file holds."""

    model: bytes
    """The first SHORT_MODEL_BYTES of the model's identity."""
    payload: bytes

    def __post_init__(self) -> None:
        check_range("the bytes of a short file's model", len(self.model), SHORT_MODEL_BYTES, SHORT_MODEL_BYTES)
        if not self.payload:
            raise ValueError("a payload is never empty")


def is_short(start: bytes) -> bool:
    """Whether a file that starts so is a short one."""
    return start.startswith(SHORT_MAGIC)


def write_short(short: Short) -> bytes:
    """The file."""
    content = SHORT_MAGIC + short.model + short.payload
    return content + _check(content)


def read_short(data: bytes) -> Short:
    """What a file holds; a DamagedError where it is none."""
    with damage_in("the file"):
        content = data[:-_CHECK_BYTES]
        if not is_short(content) or len(content) <= _START_BYTES:
            raise DamagedError("it is cut short, or no ardm file")
        if _check(content) != data[-_CHECK_BYTES:]:
            raise DamagedError("its check does not match its bytes")
    return Short(model=content[len(SHORT_MAGIC) : _START_BYTES], payload=content[_START_BYTES:])


def _check(content: bytes) -> bytes:
    return crc_hqx(content, 0xFFFF).to_bytes(_CHECK_BYTES, "little")
