"""Directories: where an archive's entries lie, what they are, and their checks.

    number of entries | length and check of each | form | descriptions: gap, name and header of each

The descriptions repeat each other and are deflated where that is shorter. Lengths and checks stay outside: they do
not deflate, and so a directory of few bytes cannot claim many entries.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ardm.codec.format.entries import Header, Limits, decode_listed_header, encode_listed_header
from ardm.codec.format.fields import encode_fields
from ardm.codec.format.names import MAX_NAME_BYTES, name_problem
from ardm.codec.format.options import Options, encode_options
from ardm.codec.format.wire import Cursor, check_of, deflate, inflate, uint32, uint64, varint
from ardm.errors import DamagedError

_PLAIN, _DEFLATED = 0, 1
_MAX_DESCRIPTION = MAX_NAME_BYTES + 64
"""More bytes than the description of any entry takes."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """One entry of a directory."""

    name: str
    header: Header
    """Options None where content is raw, or where the archive's own are lost."""
    offset: int
    """Of the body, from the start of the file."""
    length: int
    """Of the body."""
    check: int
    """Of the body at this place and with this meaning."""

    @property
    def end(self) -> int:
        """The offset after the body."""
        return self.offset + self.length


def entry_check(name: str, header: Header, offset: int, body: bytes) -> int:
    """The CRC-32 of a body and of all that it depends on: its place, name, flags, options and fields."""
    flags = encode_listed_header(replace(header, options=None))[:1]
    options = encode_options(header.options) if header.options else b""
    meaning = _encode_name(name) + flags + options + encode_fields(header.fields)
    return check_of(uint64(offset), meaning, body)


def encode_directory(listings: Sequence[Listing], start: int, shared: Options | None) -> bytes:
    """The directory of bodies that follow each other from an offset on; shared options are left out."""
    places = b"".join(varint(listing.length) + uint32(listing.check) for listing in listings)
    starts = [start, *(listing.end for listing in listings)]
    plain = b"".join(
        varint(listing.offset - previous) + _encode_name(listing.name) + _encode_header(listing.header, shared)
        for listing, previous in zip(listings, starts, strict=False)
    )
    return varint(len(listings)) + places + _encode_descriptions(plain)


def decode_directory(cursor: Cursor, start: int, shared: Options | None, limits: Limits) -> list[Listing]:
    """The listings of a directory that ends where the bytes end."""
    places = _decode_places(cursor, limits)
    descriptions = _decode_descriptions(cursor, len(places), limits)
    listings: list[Listing] = []
    for length, check in places:
        offset = start + descriptions.varint()
        name, header = _decode_name(descriptions), _decode_header(descriptions, shared)
        listings.append(Listing(name=name, header=header, offset=offset, length=length, check=check))
        start = offset + length
    descriptions.finish()
    return listings


def total_length(directory: bytes, limits: Limits) -> int:
    """The number of bytes of all bodies together."""
    return sum(length for length, _ in _decode_places(Cursor(directory), limits))


def _decode_places(cursor: Cursor, limits: Limits) -> list[tuple[int, int]]:
    num_entries = cursor.varint()
    limits.check("entries", num_entries)
    return [(cursor.varint(), cursor.uint32()) for _ in range(num_entries)]


def _encode_descriptions(plain: bytes) -> bytes:
    deflated = varint(len(plain)) + deflate(plain)
    if len(deflated) < len(plain):
        return bytes([_DEFLATED]) + deflated
    return bytes([_PLAIN]) + plain


def _decode_descriptions(cursor: Cursor, num_entries: int, limits: Limits) -> Cursor:
    if cursor.byte(most=_DEFLATED) == _PLAIN:
        return Cursor(cursor.rest())
    num_bytes = cursor.varint(most=num_entries * _MAX_DESCRIPTION)
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
        raise DamagedError("a name is no valid UTF-8") from None
    problem = name_problem(name)
    if problem:
        raise DamagedError(f"the name {name!r} is not allowed: {problem}")
    return name


def _encode_header(header: Header, shared: Options | None) -> bytes:
    return encode_listed_header(replace(header, options=None) if header.options == shared else header)


def _decode_header(cursor: Cursor, shared: Options | None) -> Header:
    header = decode_listed_header(cursor)
    return replace(header, options=shared) if header.options is None and not header.raw else header
