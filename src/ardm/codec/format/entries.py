"""Entries: the compressed form of one user's file, and its header and body as bytes.

    entry     fields (what it restores to) and content: coded chunks, or raw bytes if coding would expand them
    header    flags, options and fields: how to read the body
    body      side bytes and chunks; or the raw content, deflated if that is shorter

A single file is a header and a body (`single`); an archive lists the headers in directories (`directory`).
The bytes are specified in docs/format.md.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from ardm.codec.format.fields import Fields, decode_fields, encode_fields, kind_code
from ardm.codec.format.options import MODEL_BYTES, Options, decode_options, encode_options
from ardm.codec.format.wire import Cursor, deflate, inflate, varint
from ardm.errors import DamagedError, TooLargeError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Upper bounds on what a reader accepts, checked before memory is allocated.

    >>> from ardm.codec.format.entries import Limits
    >>> Limits(content_bytes=1000).check("content_bytes", 2000)
    Traceback (most recent call last):
    ardm.errors.TooLargeError: too large: 2000 content bytes, where the limit is 1000
    """

    content_bytes: int = 2**30
    """Bytes of one entry, stored or restored; a text counts four bytes per character."""
    chunks: int = 2**20
    """Chunks of one entry."""
    entries: int = 2**20
    """Entries of one archive."""
    directory_bytes: int = 2**26
    """Bytes of an archive's inflated directory."""

    def check(self, name: str, stated: int) -> None:
        """Raise a TooLargeError if a file states more than the named limit."""
        limit: int = getattr(self, name)
        if stated > limit:
            raise TooLargeError(f"too large: {stated} {name.replace('_', ' ')}, where the limit is {limit}")


@dataclass(frozen=True, kw_only=True)
class Coded:
    """Content coded with a model."""

    options: Options
    chunks: tuple[bytes, ...]
    """At least one payload."""
    side: bytes = b""
    """Information that the chunks leave out, such as escaped symbols."""

    def __post_init__(self) -> None:
        if not self.chunks:
            raise ValueError("coded content needs at least one chunk, got none")


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Content stored without a model."""

    content: bytes


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The compressed form of one user's file."""

    fields: Fields
    content: Coded | Raw

    def __post_init__(self) -> None:
        if isinstance(self.content, Raw) and not self.fields.fit(self.content.content):
            raise ValueError(f"{len(self.content.content)} bytes of raw content do not fit {self.fields}")

    @cached_property
    def packed(self) -> "Packed":
        """The header and body that files store, computed once."""
        if isinstance(self.content, Coded):
            return _pack_coded(self.fields, self.content)
        raw, deflated = self.content.content, deflate(self.content.content)
        method, body = (Method.DEFLATED, deflated) if len(deflated) < len(raw) else (Method.STORED, raw)
        return Packed(Header(fields=self.fields, method=method), body)


class Method(IntEnum):
    """How a body stores the content."""

    ONE_CHUNK = 0
    SEVERAL_CHUNKS = 1
    STORED = 2
    DEFLATED = 3


@dataclass(frozen=True, kw_only=True)
class Header:
    """How to read a body."""

    fields: Fields
    method: Method
    has_side: bool = False
    options: Options | None = None
    """The coding options; None for raw content and, in a directory, for the archive's shared options."""

    @property
    def raw(self) -> bool:
        """Whether the body needs no model."""
        return self.method >= Method.STORED


class Packed(NamedTuple):
    """The header and body that files store for an entry."""

    header: Header
    body: bytes


def coded_or_raw(entry: Entry, content: bytes, file_length: Callable[[Entry], int]) -> Entry:
    """The coded entry, or its raw content if that makes a file of at most the same length."""
    return min(Entry(fields=entry.fields, content=Raw(content=content)), entry, key=file_length)


@contextmanager
def damage_in(what: str) -> Iterator[None]:
    """A context that prefixes DamagedErrors with the name of what is damaged."""
    try:
        yield
    except DamagedError as error:
        raise DamagedError(f"{what} is damaged: {error}") from None


# Headers: bits 0-2 of the flags are the kind's code, bits 3-4 the method.

_HAS_SIDE = 1 << 5
_HAS_OPTIONS = 1 << 6
_RESERVED = 1 << 7


def encode_header(header: Header, *, is_listed: bool = False) -> bytes:
    """The header as bytes.

    A single file states the model, and the other options if they are not the defaults. A directory (`is_listed`) states
    all options, or none if they are the archive's.
    """
    flags = kind_code(header.fields) | header.method << 3 | (_HAS_SIDE if header.has_side else 0)
    if header.options is None:
        options = b""
    elif is_listed or not header.options.is_default:
        flags, options = flags | _HAS_OPTIONS, encode_options(header.options)
    else:
        options = header.options.model
    return bytes([flags]) + options + encode_fields(header.fields)


def decode_header(cursor: Cursor, *, is_listed: bool = False) -> Header:
    """The header that comes next; in a directory its options are None if they are the archive's."""
    flags = cursor.byte()
    method, has_options = Method(flags >> 3 & 3), bool(flags & _HAS_OPTIONS)
    is_raw = method >= Method.STORED
    if flags & (_RESERVED | (_HAS_SIDE | _HAS_OPTIONS if is_raw else 0)):
        raise DamagedError(f"its flags have no meaning: {flags:#04x}")
    options = decode_options(cursor) if has_options else None
    if options is None and not is_raw and not is_listed:
        options = Options(model=cursor.take(MODEL_BYTES))
    fields = decode_fields(flags & 7, cursor)
    if has_options and not is_listed and options is not None and options.is_default:
        raise DamagedError("it repeats default options, which must be left out")
    return Header(fields=fields, method=method, has_side=bool(flags & _HAS_SIDE), options=options)


def unpack(header: Header, body: bytes, limits: Limits) -> Entry:
    """The entry of a header and a body; DamagedErrors and TooLargeErrors come before large memory is allocated."""
    limits.check("content_bytes", header.fields.content_bytes)
    if not header.raw:
        return Entry(fields=header.fields, content=_unpack_coded(header, Cursor(body), limits))
    content = inflate(body, header.fields.content_bytes) if header.method is Method.DEFLATED else body
    if not header.fields.fit(content):
        raise DamagedError(f"{len(content)} bytes of raw content do not fit {header.fields}")
    return Entry(fields=header.fields, content=Raw(content=content))


def _pack_coded(fields: Fields, content: Coded) -> Packed:
    chunks, side = content.chunks, content.side
    method = Method.ONE_CHUNK if len(chunks) == 1 else Method.SEVERAL_CHUNKS
    parts = [varint(len(side)), side] if side else []
    if method is Method.SEVERAL_CHUNKS:
        parts += [varint(len(chunks)), *(varint(len(chunk)) for chunk in chunks[:-1])]
    header = Header(fields=fields, method=method, has_side=bool(side), options=content.options)
    return Packed(header, b"".join([*parts, *chunks]))


def _unpack_coded(header: Header, body: Cursor, limits: Limits) -> Coded:
    if header.options is None:
        raise DamagedError("the model it was made with is lost")
    side = body.take(body.varint(minimum=1)) if header.has_side else b""
    lengths: list[int] = []
    if header.method is Method.SEVERAL_CHUNKS:
        num_chunks = body.varint(minimum=2)
        limits.check("chunks", num_chunks)
        lengths = [body.varint() for _ in range(num_chunks - 1)]
    chunks = [body.take(length) for length in lengths]
    return Coded(options=header.options, chunks=(*chunks, body.rest()), side=side)
