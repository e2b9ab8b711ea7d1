"""Directories: the offsets, headers and checksums of an archive's entries.

    number of entries | length and check of each | form | descriptions: gap, name and header of each

The descriptions are repetitive and are deflated (form 1) if that is shorter than plain (form 0). Lengths and checks
do not deflate and stay outside, so that a directory of a few bytes cannot claim many entries.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ardm.codec.format.entries import Header, Limits, decode_header, encode_header
from ardm.codec.format.fields import encode_fields
from ardm.codec.format.names import MAX_NAME_BYTES, name_problem
from ardm.codec.format.options import Options, encode_options
from ardm.codec.format.wire import Cursor, check_of, deflate, inflate, uint32, uint64, varint
from ardm.errors import DamagedError

_MAX_DESCRIPTION = MAX_NAME_BYTES + 64
"""Upper bound on the bytes of one description."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """One entry of a directory."""

    name: str
    header: Header
    """The entry's header; its options are None for raw content, or if the archive's options are lost."""
    offset: int
    """Position of the body in the file."""
    length: int
    """Bytes of the body."""
    check: int
    """The `entry_check` of the entry."""

    @property
    def end(self) -> int:
        """The offset after the body."""
        return self.offset + self.length


def entry_check(name: str, header: Header, offset: int, body: bytes) -> int:
    """The CRC-32 of a body's offset, name, flags, options, fields and bytes."""
    flags = encode_header(replace(header, options=None), is_listed=True)[:1]
    options = encode_options(header.options) if header.options else b""
    meaning = _encode_name(name) + flags + options + encode_fields(header.fields)
    return check_of(uint64(offset), meaning, body)


def encode_directory(listings: Sequence[Listing], start: int, shared: Options | None) -> bytes:
    """The directory of bodies that begin at an offset; shared options are left out."""
    places = b"".join(varint(listing.length) + uint32(listing.check) for listing in listings)
    starts = [start, *(listing.end for listing in listings)]
    headers = (replace(h, options=None) if (h := one.header).options == shared else h for one in listings)
    plain = b"".join(
        varint(listing.offset - previous) + _encode_name(listing.name) + encode_header(header, is_listed=True)
        for listing, header, previous in zip(listings, headers, starts, strict=False)
    )
    deflated = varint(len(plain)) + deflate(plain)
    is_shorter = len(deflated) < len(plain)
    return varint(len(listings)) + places + (b"\1" + deflated if is_shorter else b"\0" + plain)


def decode_directory(cursor: Cursor, start: int, shared: Options | None, limits: Limits) -> list[Listing]:
    """The listings of the directory in the remaining bytes."""
    places = _decode_places(cursor, limits)
    descriptions = _decode_descriptions(cursor, len(places), limits)
    listings: list[Listing] = []
    for length, check in places:
        offset = start + descriptions.varint()
        name, header = _decode_name(descriptions), decode_header(descriptions, is_listed=True)
        if header.options is None and not header.raw:
            header = replace(header, options=shared)
        listings.append(Listing(name=name, header=header, offset=offset, length=length, check=check))
        start = offset + length
    descriptions.finish()
    return listings


def total_length(directory: bytes, limits: Limits) -> int:
    """The total bytes of a directory's bodies."""
    return sum(length for length, _ in _decode_places(Cursor(directory), limits))


def _decode_places(cursor: Cursor, limits: Limits) -> list[tuple[int, int]]:
    num_entries = cursor.varint()
    limits.check("entries", num_entries)
    return [(cursor.varint(), cursor.uint32()) for _ in range(num_entries)]


def _decode_descriptions(cursor: Cursor, num_entries: int, limits: Limits) -> Cursor:
    if cursor.byte(maximum=1) == 0:
        return Cursor(cursor.rest())
    num_bytes = cursor.varint(maximum=num_entries * _MAX_DESCRIPTION)
    limits.check("directory_bytes", num_bytes)
    plain = inflate(cursor.rest(), num_bytes)
    if len(plain) != num_bytes:
        raise DamagedError("the directory does not have its stated size")
    return Cursor(plain)


def _encode_name(name: str) -> bytes:
    encoded = name.encode()
    return varint(len(encoded)) + encoded


def _decode_name(cursor: Cursor) -> str:
    try:
        name = cursor.take(cursor.varint(1, MAX_NAME_BYTES)).decode()
    except UnicodeDecodeError:
        raise DamagedError("a name is not valid UTF-8") from None
    problem = name_problem(name)
    if problem:
        raise DamagedError(f"the name {name!r} is not allowed: {problem}")
    return name
