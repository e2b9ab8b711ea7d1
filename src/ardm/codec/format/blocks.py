"""Blocks: the parts of an archive that are not bodies, each with a checksum that includes its offset.

    header     magic AD 'ARC' | version | options | CRC-32
    group      AD 'GRP' | length | directory of the bodies that follow | CRC-32
    index      AD 'IDX' | length | options | directory of all bodies | CRC-32
    trailer    AD 'END' | length of the index before it | CRC-32

The checksums of groups, indices and trailers begin with the block's offset in the file, so that an archive inside an
archive, or bytes that have moved, are never mistaken for blocks.
"""

import io
from dataclasses import dataclass

from ardm.codec.format.directory import Listing, decode_directory, encode_directory
from ardm.codec.format.entries import Limits
from ardm.codec.format.options import Options, decode_options, encode_options
from ardm.codec.format.wire import CHECK_BYTES, MAX_VARINT, Cursor, check_of, uint32, uint64, varint
from ardm.errors import DamagedError

ARCHIVE_MAGIC = b"\xadARC"
ARCHIVE_VERSION = 1
GROUP = b"\xadGRP"
INDEX = b"\xadIDX"
TRAILER = b"\xadEND"
TRAILER_BYTES = len(TRAILER) + 8 + CHECK_BYTES

_MAX_HEADER = 64
_MAX_BLOCK_START = len(GROUP) + len(varint(MAX_VARINT))


class RangeReader:
    """Reads exact ranges of a seekable file."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file = file
        self.length = file.seek(0, io.SEEK_END)
        self.num_read = 0
        """Bytes read so far."""

    def read(self, offset: int, num_bytes: int) -> bytes:
        """The bytes of a range; a DamagedError if it exceeds the file."""
        self.check_range(offset, num_bytes)
        self._file.seek(offset)
        data = self._file.read(num_bytes)
        self.num_read += len(data)
        if len(data) != num_bytes:
            raise DamagedError("it is shorter than when it was opened")
        return data

    def check_range(self, offset: int, num_bytes: int) -> None:
        """Raise a DamagedError if a range exceeds the file."""
        if not 0 <= offset <= offset + num_bytes <= self.length:
            raise DamagedError(f"bytes {offset}..{offset + num_bytes} are expected, but it has {self.length}")

    def read_up_to(self, offset: int, num_bytes: int) -> bytes:
        """The bytes of a range up to the end of the file."""
        return self.read(offset, max(0, min(num_bytes, self.length - offset)))


@dataclass(frozen=True, kw_only=True)
class Index:
    """The listings of all entries of an archive, and their shared options."""

    options: Options | None
    """The options of all entries that do not state any."""
    listings: tuple[Listing, ...]


@dataclass(frozen=True, kw_only=True)
class Block:
    """A group or an index with a correct checksum."""

    marker: bytes
    content: bytes
    offset: int
    end: int
    """The offset after the block, where a group's bodies begin."""


def encode_archive_header(options: Options | None) -> bytes:
    """The header of an archive."""
    header = ARCHIVE_MAGIC + bytes([ARCHIVE_VERSION]) + _encode_shared(options)
    return header + uint32(check_of(header))


def read_archive_header(source: RangeReader) -> Options | None:
    """The options in an archive's header."""
    start = source.read_up_to(0, _MAX_HEADER)
    cursor = Cursor(start)
    cursor.take(len(ARCHIVE_MAGIC) + 1)
    options = _decode_shared(cursor)
    if check_of(start[: len(start) - cursor.remaining]) != cursor.uint32():
        raise DamagedError("the check of the header does not match")
    return options


def encode_group(listings: list[Listing], start: int, options: Options | None, offset: int) -> bytes:
    """The group to write at `offset` before its bodies, which begin at `start`."""
    return _encode_block(GROUP, encode_directory(listings, start, options), offset)


def decode_group(block: Block, options: Options | None, limits: Limits) -> list[Listing]:
    """The listings of the bodies that follow a group."""
    listings = decode_directory(Cursor(block.content), block.end, options, limits)
    if listings and listings[-1].end - block.end != sum(listing.length for listing in listings):
        raise DamagedError("the bodies of a group must follow each other")
    return listings


def encode_index(index: Index, offset: int) -> bytes:
    """The index and the trailer that end an archive, written at an offset."""
    content = _encode_shared(index.options) + encode_directory(index.listings, 0, index.options)
    block = _encode_block(INDEX, content, offset)
    trailer = TRAILER + uint64(len(block))
    return block + trailer + uint32(check_of(uint64(offset + len(block)), trailer))


def decode_index(block: Block, limits: Limits) -> Index:
    """The index in a block, whose bodies must be in order before it and have distinct names."""
    cursor = Cursor(block.content)
    options = _decode_shared(cursor)
    listings = tuple(decode_directory(cursor, 0, options, limits))
    if listings and listings[-1].end > block.offset:
        raise DamagedError("the index names places beyond itself")
    if len({listing.name for listing in listings}) < len(listings):
        raise DamagedError("the index has a name twice")
    return Index(options=options, listings=listings)


def read_index(source: RangeReader, limits: Limits) -> Index:
    """The index that the trailer at the end of the file locates."""
    offset = source.length - TRAILER_BYTES
    cursor = Cursor(source.read(offset, TRAILER_BYTES))
    trailer = cursor.take(TRAILER_BYTES - CHECK_BYTES)
    if not trailer.startswith(TRAILER) or check_of(uint64(offset), trailer) != cursor.uint32():
        raise DamagedError("it does not end in a trailer")
    length = int.from_bytes(trailer[len(TRAILER) :], "little")
    block = read_block(source, offset - length, limits)
    if block.marker != INDEX or block.end != offset:
        raise DamagedError("the trailer does not locate an index")
    return decode_index(block, limits)


def read_block(source: RangeReader, offset: int, limits: Limits) -> Block:
    """The group or index at an offset."""
    start = source.read_up_to(offset, _MAX_BLOCK_START)
    cursor = Cursor(start)
    marker, length = cursor.take(len(GROUP)), cursor.varint()
    if marker not in (GROUP, INDEX):
        raise DamagedError("there is no block")
    num_bytes = len(start) - cursor.remaining + length
    source.check_range(offset, num_bytes + CHECK_BYTES)
    limits.check("directory_bytes", length)
    block = source.read(offset, num_bytes + CHECK_BYTES)
    if uint32(check_of(uint64(offset), block[:num_bytes])) != block[num_bytes:]:
        raise DamagedError("the check of a block does not match")
    content = block[num_bytes - length : num_bytes]
    return Block(marker=marker, content=content, offset=offset, end=offset + len(block))


def _encode_block(marker: bytes, content: bytes, offset: int) -> bytes:
    block = marker + varint(len(content)) + content
    return block + uint32(check_of(uint64(offset), block))


def _encode_shared(options: Options | None) -> bytes:
    return b"\0" if options is None else b"\1" + encode_options(options)


def _decode_shared(cursor: Cursor) -> Options | None:
    return decode_options(cursor) if cursor.byte(maximum=1) else None
