"""Single compressed files: one entry and one checksum.

    magic AD 52 | version | header | body | CRC-32

The length of the last chunk follows from the length of the file. The bytes are specified in docs/format.md.
"""

from ardm.codec.format.entries import Entry, Limits, damage_in, decode_header, encode_header, unpack
from ardm.codec.format.wire import CHECK_BYTES, Cursor, check_of, uint32
from ardm.errors import DamagedError, UnknownVersionError

SINGLE_MAGIC = b"\xadR"
SINGLE_VERSION = 1


def is_single(start: bytes) -> bool:
    """Whether the first bytes of a file are those of a single compressed file of any version."""
    return start.startswith(SINGLE_MAGIC)


def write_single(entry: Entry) -> bytes:
    """The single compressed file of an entry."""
    header, body = entry.packed
    content = SINGLE_MAGIC + bytes([SINGLE_VERSION]) + encode_header(header) + body
    return content + uint32(check_of(content))


def single_length(entry: Entry) -> int:
    """The number of bytes of `write_single`."""
    header, body = entry.packed
    return len(SINGLE_MAGIC) + 1 + len(encode_header(header)) + len(body) + CHECK_BYTES


def read_single(data: bytes, limits: Limits | None = None) -> Entry:
    """The entry in a file; a DamagedError, UnknownVersionError or TooLargeError if there is none."""
    check_start(data, SINGLE_MAGIC, SINGLE_VERSION, "compressed file")
    with damage_in("the file"):
        content = data[:-CHECK_BYTES]
        if uint32(check_of(content)) != data[-CHECK_BYTES:]:
            raise DamagedError("its check does not match its bytes")
        cursor = Cursor(content)
        cursor.take(len(SINGLE_MAGIC) + 1)
        return unpack(decode_header(cursor), cursor.rest(), limits or Limits())


def check_start(start: bytes, magic: bytes, version: int, what: str) -> None:
    """Raise a DamagedError or UnknownVersionError unless a file starts with the magic bytes and the version."""
    if start[: len(magic)] != magic or len(start) == len(magic):
        raise DamagedError(f"this is not an ardm {what}, or its first bytes are damaged")
    if start[len(magic)] != version:
        raise UnknownVersionError(
            f"this ardm {what} has format version {start[len(magic)]}; this software reads version {version}"
        )
