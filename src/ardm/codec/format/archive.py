"""Archives: many entries under one header, each of which can be restored on its own.

    header | group | bodies | group | bodies | ... | index | trailer [ | group | bodies | ... | index | trailer ]

The trailer at the end locates the index, which lists every entry. The groups repeat the index in parts, each before
its bodies, in case the index is damaged (`recovery`). Appending adds groups, bodies and a new index of everything
after the old trailer and changes no existing byte. The bytes are specified in docs/format.md.
"""

import io
from collections.abc import Mapping
from types import MappingProxyType

from ardm.codec.format.blocks import (
    ARCHIVE_MAGIC,
    ARCHIVE_VERSION,
    Index,
    RangeReader,
    encode_archive_header,
    encode_group,
    encode_index,
    read_index,
)
from ardm.codec.format.directory import Listing, entry_check
from ardm.codec.format.entries import Entry, Limits, Packed, damage_in, unpack
from ardm.codec.format.names import name_problem
from ardm.codec.format.options import Options
from ardm.codec.format.recovery import recover
from ardm.codec.format.single import check_start
from ardm.errors import DamagedError, DataError

GROUP_ENTRIES = 64
GROUP_BYTES = 2**20
"""A group is written once it has this many entries or bytes; the writer holds one group in memory."""


def is_archive(start: bytes) -> bool:
    """Whether the first bytes of a file are those of an archive of any version."""
    return start.startswith(ARCHIVE_MAGIC)


class ArchiveReader:
    """The entries of an archive in a seekable file; reads only the index and the requested entries."""

    listings: Mapping[str, Listing]
    """The entries' listings by name, ordered by position."""
    options: Options | None
    """The options of all entries that do not state any."""
    recovered: bool
    """Whether the index was damaged or missing, so that the entries were found by scanning the file."""

    def __init__(self, file: io.BufferedIOBase, limits: Limits | None = None) -> None:
        self._source = RangeReader(file)
        self._limits = limits or Limits()
        start = self._source.read_up_to(0, len(ARCHIVE_MAGIC) + 1)
        check_start(start, ARCHIVE_MAGIC, ARCHIVE_VERSION, "archive")
        try:
            index, self.recovered = read_index(self._source, self._limits), False
        except DamagedError:
            index, self.recovered = recover(self._source, self._limits), True
        self.options = index.options
        self.listings = MappingProxyType({listing.name: listing for listing in index.listings})

    def read(self, name: str) -> Entry:
        """The named entry; a DamagedError or TooLargeError concerns only this entry."""
        if name not in self.listings:
            raise DataError(f"the archive holds no entry {name!r}")
        listing = self.listings[name]
        with damage_in(f"entry {name!r}"):
            self._limits.check("content_bytes", max(listing.length, listing.header.fields.content_bytes))
            body = self._source.read(listing.offset, listing.length)
            if entry_check(name, listing.header, listing.offset, body) != listing.check:
                raise DamagedError("its check does not match its bytes")
            return unpack(listing.header, body, self._limits)


class ArchiveWriter:
    """Adds entries to an archive: complete once the `with` block ends, truncated to its former length if it fails."""

    writes_groups = True
    """The format allows archives without groups, whose entries are lost if the index is."""

    def __init__(self, file: io.BufferedIOBase, index: Index, length: int) -> None:
        self._file = file
        self._options = index.options
        self._listings = {listing.name: listing for listing in index.listings}
        self._start = self._offset = length
        self._pending: dict[str, Packed] = {}

    @classmethod
    def create(cls, file: io.BufferedIOBase, options: Options | None = None) -> "ArchiveWriter":
        """A writer of a new archive in an empty file, whose entries need not state the given options."""
        writer = cls(file, Index(options=options, listings=()), 0)
        writer._write(encode_archive_header(options))
        return writer

    @classmethod
    def append(cls, file: io.BufferedIOBase, limits: Limits | None = None) -> "ArchiveWriter":
        """A writer that adds to the archive in a file open for reading and writing; it replaces a damaged index."""
        reader = ArchiveReader(file, limits)
        index = Index(options=reader.options, listings=tuple(reader.listings.values()))
        return cls(file, index, file.seek(0, io.SEEK_END))

    def add(self, name: str, entry: Entry) -> None:
        """Add an entry; a DataError if its name is taken or not allowed."""
        problem = name_problem(name)
        if problem:
            raise DataError(f"the archive cannot hold an entry {name!r}: {problem}")
        if name in self._listings or name in self._pending:
            raise DataError(f"the archive already holds an entry {name!r}")
        self._pending[name] = entry.packed
        num_bytes = sum(len(body) for _, body in self._pending.values())
        if len(self._pending) >= GROUP_ENTRIES or num_bytes >= GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Write the pending entries, the index and the trailer."""
        if self._pending:
            self._write_group()
        self._write(encode_index(Index(options=self._options, listings=tuple(self._listings.values())), self._offset))
        self._file.flush()

    def __enter__(self) -> "ArchiveWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._file.truncate(self._start)

    def _write_group(self) -> None:
        listings = self._placed(self._offset)
        if self.writes_groups:
            # Neither the offsets nor the checks change the length of a group.
            start = self._offset + len(encode_group(listings, self._offset, self._options, self._offset))
            listings = self._placed(start)
            self._write(encode_group(listings, start, self._options, self._offset))
        self._write(b"".join(body for _, body in self._pending.values()))
        self._listings |= {listing.name: listing for listing in listings}
        self._pending = {}

    def _placed(self, start: int) -> list[Listing]:
        """The listings of the pending entries, whose bodies begin at an offset."""
        listings = []
        for name, (header, body) in self._pending.items():
            check = entry_check(name, header, start, body)
            listings.append(Listing(name=name, header=header, offset=start, length=len(body), check=check))
            start = listings[-1].end
        return listings

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._offset += len(data)
