"""Entries: one user's file as the codec stores it, and its bytes apart from the file around them.

    entry     fields (what it restores to) and content: coded chunks, or raw bytes where coding would expand
    header    flags, options and fields: what a body's bytes mean
    body      side bytes and chunks; or the raw content, deflated where that is shorter

A single file is a header and a body (`single`); an archive lists the headers in directories (`directory`).
The bytes are specified in docs/format.md.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum

from ardm.codec.format.fields import Fields, decode_fields, encode_fields
from ardm.codec.format.options import MODEL_BYTES, Options, decode_options, encode_options
from ardm.codec.format.wire import Cursor, deflate, inflate, varint
from ardm.errors import DamagedError, TooLargeError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that a reader accepts, checked before memory is taken."""

    content_bytes: int = 2**30
    """Of one entry, stored or restored; a text counts four bytes a character."""
    chunks: int = 2**20
    """Of one entry."""
    entries: int = 2**20
    """Of one archive."""
    directory_bytes: int = 2**26
    """Of an archive's directory when inflated."""

    def check(self, name: str, stated: int) -> None:
        """A TooLargeError where a file states more than the limit of that name."""
        most: int = getattr(self, name)
        if stated > most:
            raise TooLargeError(f"too large: {stated} {name.replace('_', ' ')}, where the limit is {most}")


@dataclass(frozen=True, kw_only=True)
class Coded:
    """Content under a model."""

    options: Options
    chunks: tuple[bytes, ...]
    """One payload or more: a text's chunks, an image's tiles."""
    side: bytes = b""
    """What the chunks leave out, such as escaped symbols."""

    def __post_init__(self) -> None:
        if not self.chunks:
            raise ValueError("coded content has one chunk or more, got none")


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Content as it is."""

    content: bytes


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One user's file."""

    fields: Fields
    content: Coded | Raw

    def __post_init__(self) -> None:
        if isinstance(self.content, Raw) and not self.fields.fit(self.content.content):
            raise ValueError(f"{len(self.content.content)} bytes of raw content do not fit {self.fields}")


class Method(IntEnum):
    """How a body holds the content."""

    ONE_CHUNK = 0
    SEVERAL_CHUNKS = 1
    STORED = 2
    DEFLATED = 3


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a body's bytes mean."""

    fields: Fields
    method: Method
    has_side: bool = False
    options: Options | None = None
    """None where content is raw; in a directory, also where the archive's own are meant."""

    @property
    def raw(self) -> bool:
        """Whether the body needs no model."""
        return self.method >= Method.STORED


def or_raw(entry: Entry, content: bytes, file_of: Callable[[Entry], bytes]) -> Entry:
    """The entry, or its raw content where that makes a file no longer."""
    raw = Entry(fields=entry.fields, content=Raw(content=content))
    return min(raw, entry, key=lambda one: len(file_of(one)))


@contextmanager
def damage_in(what: str) -> Iterator[None]:
    """DamagedErrors of the block, telling what is damaged."""
    try:
        yield
    except DamagedError as error:
        raise DamagedError(f"{what} is damaged: {error}") from None


# Headers: bits 0-2 of the flags are the kind's code, bits 3-4 the method.

_HAS_SIDE = 1 << 5
_HAS_OPTIONS = 1 << 6
_RESERVED = 1 << 7


def encode_header(header: Header) -> bytes:
    """The header in a single file: the model, and its options only where they are not the default."""
    if header.options is None or not header.options.by_default:
        return encode_listed_header(header)
    return bytes([_flags(header)]) + header.options.model + encode_fields(header.fields)


def decode_header(cursor: Cursor) -> Header:
    """The header of a single file."""
    flags = _decode_flags(cursor)
    header = _decode_rest(flags, cursor, needs_model=True)
    if flags & _HAS_OPTIONS and header.options is not None and header.options.by_default:
        raise DamagedError("it states default options")
    return header


def encode_listed_header(header: Header) -> bytes:
    """The header in a directory: options whole or, where they are the archive's, not at all."""
    if header.options is None:
        return bytes([_flags(header)]) + encode_fields(header.fields)
    return bytes([_flags(header) | _HAS_OPTIONS]) + encode_options(header.options) + encode_fields(header.fields)


def decode_listed_header(cursor: Cursor) -> Header:
    """The header in a directory; options None where they are the archive's."""
    return _decode_rest(_decode_flags(cursor), cursor, needs_model=False)


def _flags(header: Header) -> int:
    return header.fields.code | header.method << 3 | (_HAS_SIDE if header.has_side else 0)


def _decode_flags(cursor: Cursor) -> int:
    flags = cursor.byte()
    forbidden = _RESERVED | (_HAS_SIDE | _HAS_OPTIONS if _method(flags) >= Method.STORED else 0)
    if flags & forbidden:
        raise DamagedError(f"its flags have no meaning: {flags:#04x}")
    return flags


def _decode_rest(flags: int, cursor: Cursor, needs_model: bool) -> Header:
    options, method = None, _method(flags)
    if flags & _HAS_OPTIONS:
        options = decode_options(cursor)
    elif needs_model and method < Method.STORED:
        options = Options(model=cursor.take(MODEL_BYTES))
    fields = decode_fields(flags & 7, cursor)
    return Header(fields=fields, method=method, has_side=bool(flags & _HAS_SIDE), options=options)


def _method(flags: int) -> Method:
    return Method(flags >> 3 & 3)


# Bodies


def pack(entry: Entry) -> tuple[Header, bytes]:
    """The header and the body of an entry."""
    if isinstance(entry.content, Coded):
        return _pack_coded(entry.fields, entry.content)
    content = entry.content.content
    deflated = deflate(content)
    if len(deflated) < len(content):
        return Header(fields=entry.fields, method=Method.DEFLATED), deflated
    return Header(fields=entry.fields, method=Method.STORED), content


def unpack(header: Header, body: bytes, limits: Limits) -> Entry:
    """The entry of a header and a body; a DamagedError or TooLargeError before more than the body is in memory."""
    limits.check("content_bytes", header.fields.content_bytes)
    if not header.raw:
        return Entry(fields=header.fields, content=_unpack_coded(header, Cursor(body), limits))
    content = inflate(body, header.fields.content_bytes) if header.method is Method.DEFLATED else body
    if not header.fields.fit(content):
        raise DamagedError(f"{len(content)} bytes of raw content do not fit {header.fields}")
    return Entry(fields=header.fields, content=Raw(content=content))


def _pack_coded(fields: Fields, content: Coded) -> tuple[Header, bytes]:
    chunks, side = content.chunks, content.side
    method = Method.ONE_CHUNK if len(chunks) == 1 else Method.SEVERAL_CHUNKS
    parts = [varint(len(side)), side] if side else []
    if method is Method.SEVERAL_CHUNKS:
        parts += [varint(len(chunks)), *(varint(len(chunk)) for chunk in chunks[:-1])]
    header = Header(fields=fields, method=method, has_side=bool(side), options=content.options)
    return header, b"".join([*parts, *chunks])


def _unpack_coded(header: Header, body: Cursor, limits: Limits) -> Coded:
    if header.options is None:
        raise DamagedError("the model it was made with is lost")
    side = body.take(body.varint(least=1)) if header.has_side else b""
    lengths: list[int] = []
    if header.method is Method.SEVERAL_CHUNKS:
        num_chunks = body.varint(least=2)
        limits.check("chunks", num_chunks)
        lengths = [body.varint() for _ in range(num_chunks - 1)]
    chunks = [body.take(length) for length in lengths]
    return Coded(options=header.options, chunks=(*chunks, body.rest()), side=side)
