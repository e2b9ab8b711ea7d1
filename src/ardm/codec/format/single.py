"""A single compressed file: one entry, one check over everything before it.

    magic AD 52 | version | header | body | CRC-32

The length of the last chunk follows from the file's. The bytes are specified in docs/format.md.
"""

from ardm.codec.format.entries import Entry, Limits, damage_in, decode_header, encode_header, pack, unpack
from ardm.codec.format.wire import CHECK_BYTES, Cursor, check_of, uint32
from ardm.errors import DamagedError, UnknownVersionError

SINGLE_MAGIC = b"\xadR"
SINGLE_VERSION = 1
SINGLE_SUFFIX = ".ardm"


def is_single(start: bytes) -> bool:
    """Whether a file that starts so is a single compressed file of any version."""
    return start.startswith(SINGLE_MAGIC)


def write_single(entry: Entry) -> bytes:
    """The file that holds one entry."""
    header, body = pack(entry)
    content = SINGLE_MAGIC + bytes([SINGLE_VERSION]) + encode_header(header) + body
    return content + uint32(check_of(content))


def read_single(data: bytes, limits: Limits | None = None) -> Entry:
    """The entry that a file holds; a DamagedError, UnknownVersionError or TooLargeError where there is none."""
    check_start(data, SINGLE_MAGIC, SINGLE_VERSION, "compressed file")
    with damage_in("the file"):
        content = data[:-CHECK_BYTES]
        if uint32(check_of(content)) != data[-CHECK_BYTES:]:
            raise DamagedError("its check does not match its bytes")
        cursor = Cursor(content)
        cursor.take(len(SINGLE_MAGIC) + 1)
        return unpack(decode_header(cursor), cursor.rest(), limits or Limits())


def check_start(start: bytes, magic: bytes, version: int, what: str) -> None:
    """A DamagedError or an UnknownVersionError unless a file starts with the magic and the version."""
    if start[: len(magic)] != magic or len(start) == len(magic):
        raise DamagedError(f"this is no ardm {what}, or its first bytes are damaged")
    if start[len(magic)] != version:
        raise UnknownVersionError(
            f"this ardm {what} has format version {start[len(magic)]}; this software reads version {version}"
        )
