"""An archive: many entries under one header, each restored alone.

    header | group | bodies | group | bodies | ... | index | trailer [ | group | bodies | ... | index | trailer ]

The trailer at the end locates the index, which lists every entry. The groups repeat the index in parts, each before
its bodies, for the day the index is damaged (`recovery`). Appending adds groups, bodies and a new index of everything
behind the old trailer and changes no byte that is there. The bytes are specified in docs/format.md.
"""

import io
from collections.abc import Iterator, Mapping
from types import MappingProxyType, TracebackType

from ardm.codec.format.blocks import (
    ARCHIVE_MAGIC,
    ARCHIVE_VERSION,
    Index,
    Source,
    encode_archive_header,
    encode_group,
    encode_index,
    read_index,
)
from ardm.codec.format.directory import Listing, entry_check
from ardm.codec.format.entries import Entry, Header, Limits, damage_in, pack, unpack
from ardm.codec.format.names import name_problem
from ardm.codec.format.options import Options
from ardm.codec.format.recovery import recover
from ardm.codec.format.single import check_start
from ardm.errors import DamagedError, DataError

ARCHIVE_SUFFIX = ".ardma"
GROUP_ENTRIES = 64
GROUP_BYTES = 2**20
"""A group is written when it has so many entries or bytes; the writer holds one in memory."""


def is_archive(start: bytes) -> bool:
    """Whether a file that starts so is an archive of any version."""
    return start.startswith(ARCHIVE_MAGIC)


class ArchiveReader:
    """The entries of an archive in a seekable file; only the index and what is asked for is read."""

    listings: Mapping[str, Listing]
    """By name, in the order of their places."""
    options: Options | None
    """Those of every entry that has none of its own."""
    recovered: bool
    """Whether the index was damaged or missing, and the entries were found by a scan of the file."""

    def __init__(self, file: io.BufferedIOBase, limits: Limits | None = None) -> None:
        self._source = Source(file)
        self._limits = limits or Limits()
        start = self._source.read_up_to(0, len(ARCHIVE_MAGIC) + 1)
        check_start(start, ARCHIVE_MAGIC, ARCHIVE_VERSION, "archive")
        index, self.recovered = self._index()
        self.options = index.options
        self.listings = MappingProxyType({listing.name: listing for listing in index.listings})

    def __len__(self) -> int:
        return len(self.listings)

    def __contains__(self, name: str) -> bool:
        return name in self.listings

    def __iter__(self) -> Iterator[str]:
        return iter(self.listings)

    def read(self, name: str) -> Entry:
        """One entry; a DamagedError or TooLargeError concerns this entry alone."""
        if name not in self.listings:
            raise DataError(f"the archive holds no entry {name!r}")
        listing = self.listings[name]
        with damage_in(f"entry {name!r}"):
            return unpack(listing.header, self._body(listing), self._limits)

    def _index(self) -> tuple[Index, bool]:
        try:
            return read_index(self._source, self._limits), False
        except DamagedError:
            return recover(self._source, self._limits), True

    def _body(self, listing: Listing) -> bytes:
        self._limits.check("content_bytes", max(listing.length, listing.header.fields.content_bytes))
        body = self._source.read(listing.offset, listing.length)
        if entry_check(listing.name, listing.header, listing.offset, body) != listing.check:
            raise DamagedError("its check does not match its bytes")
        return body


class ArchiveWriter:
    """Entries added to an archive. The file is complete when the writer is closed, as leaving its `with` block does.

    Where the block fails, the file is cut back to what it was.
    """

    def __init__(self, file: io.BufferedIOBase, index: Index, length: int, recoverable: bool) -> None:
        """For `create` and `append`: a file that holds an archive of that length up to its header or trailer."""
        self._file = file
        self._options = index.options
        self._listings = {listing.name: listing for listing in index.listings}
        self._start = self._offset = length
        self._recoverable = recoverable
        self._pending: dict[str, tuple[Header, bytes]] = {}

    @classmethod
    def create(
        cls, file: io.BufferedIOBase, options: Options | None = None, recoverable: bool = True
    ) -> "ArchiveWriter":
        """A writer of a new archive at the start of an empty file.

        Entries with the options given here need not state them. Without `recoverable` the groups are left out, which
        saves about half of the bytes besides the bodies; entries are then lost with the index.
        """
        writer = cls(file, Index(options=options, listings=()), 0, recoverable)
        writer._write(encode_archive_header(options))
        return writer

    @classmethod
    def append(cls, file: io.BufferedIOBase, limits: Limits | None = None, recoverable: bool = True) -> "ArchiveWriter":
        """A writer that adds to the archive in a file open for reading and writing; a damaged index is made anew."""
        reader = ArchiveReader(file, limits)
        index = Index(options=reader.options, listings=tuple(reader.listings.values()))
        return cls(file, index, file.seek(0, io.SEEK_END), recoverable)

    def add(self, name: str, entry: Entry) -> None:
        """Add an entry; a DataError if the name is taken or not allowed."""
        problem = name_problem(name)
        if problem:
            raise DataError(f"the archive cannot hold an entry {name!r}: {problem}")
        if name in self._listings or name in self._pending:
            raise DataError(f"the archive already holds an entry {name!r}")
        self._pending[name] = pack(entry)
        num_bytes = sum(len(body) for _, body in self._pending.values())
        if len(self._pending) >= GROUP_ENTRIES or num_bytes >= GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Write what is pending, the index and the trailer."""
        if self._pending:
            self._write_group()
        self._write(encode_index(Index(options=self._options, listings=tuple(self._listings.values())), self._offset))
        self._file.flush()

    def __enter__(self) -> "ArchiveWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._file.truncate(self._start)

    def _write_group(self) -> None:
        listings = self._placed(self._offset)
        if self._recoverable:
            # Neither the offsets nor the checks change the length of a group.
            start = self._offset + len(encode_group(listings, self._offset, self._options, self._offset))
            listings = self._placed(start)
            self._write(encode_group(listings, start, self._options, self._offset))
        self._write(b"".join(body for _, body in self._pending.values()))
        self._listings |= {listing.name: listing for listing in listings}
        self._pending = {}

    def _placed(self, start: int) -> list[Listing]:
        """The pending entries as they lie from an offset on."""
        listings = []
        for name, (header, body) in self._pending.items():
            check = entry_check(name, header, start, body)
            listings.append(Listing(name=name, header=header, offset=start, length=len(body), check=check))
            start = listings[-1].end
        return listings

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._offset += len(data)
