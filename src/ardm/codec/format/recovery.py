"""Recovery of an archive whose last trailer or index is damaged or was never written.

The file is scanned once for the markers of groups and indices; blocks with a wrong checksum are ignored. Bodies that
end at the next block or at the end of the file are skipped; otherwise (a cut, a damaged block) the scan continues
inside them. The entries are those of the last valid index and of the groups after it. Later groups override earlier
ones: after a crash and a new attempt the file may hold both.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from ardm.codec.format.blocks import (
    GROUP,
    INDEX,
    Block,
    Index,
    RangeReader,
    decode_group,
    decode_index,
    read_archive_header,
    read_block,
)
from ardm.codec.format.directory import Listing, total_length
from ardm.codec.format.entries import Limits
from ardm.errors import DamagedError, TooLargeError

_MARKER = re.compile(b"|".join(map(re.escape, (GROUP, INDEX))))
_WINDOW = 2**20
_MAX_READS = 16
"""Bytes read per byte of the file: enough for any archive, and a bound for one made to waste time."""


def recover(source: RangeReader, limits: Limits) -> Index:
    """An index of the entries that valid blocks describe; a DamagedError if there is no valid block."""
    blocks = list(_blocks(source, limits))
    if not blocks:
        raise DamagedError("the archive is damaged: neither its index nor any group of entries is left")
    index, later_blocks = _last_index(source, blocks, limits)
    latest = {listing.name: (0, listing) for listing in index.listings}
    for age, block in enumerate(later_blocks, start=1):
        for listing in decode_group(block, index.options, limits):
            latest[listing.name] = (age, listing)
        limits.check("entries", len(latest))
    whole = [(age, listing) for age, listing in latest.values() if listing.end <= source.length]
    return Index(options=index.options, listings=tuple(_without_overlaps(whole)))


def _last_index(source: RangeReader, blocks: list[Block], limits: Limits) -> tuple[Index, list[Block]]:
    """The last valid index, or an empty one, and the groups after it."""
    for place in reversed(range(len(blocks))):
        if blocks[place].marker == INDEX:
            return decode_index(blocks[place], limits), blocks[place + 1 :]
    options = None  # if they are lost, reading an entry that shares them says so
    with suppress(DamagedError):
        options = read_archive_header(source)
    return Index(options=options, listings=()), blocks


def _blocks(source: RangeReader, limits: Limits) -> Iterator[Block]:
    """The valid groups and indices in the order of the file."""
    resume = 0
    for offset in _markers(source):
        if offset < resume:
            continue
        try:
            block = read_block(source, offset, limits)
            resume = _end_of_bodies(source, block, limits)
        except (DamagedError, TooLargeError):
            continue
        finally:
            if source.num_read > _MAX_READS * source.length:
                raise DamagedError("the archive is damaged: it holds more false blocks than any archive should")
        yield block


def _markers(source: RangeReader) -> Iterator[int]:
    """The offsets of all bytes that may begin a block."""
    for start in range(0, source.length, _WINDOW):
        window = source.read_up_to(start, _WINDOW + len(GROUP) - 1)
        yield from (start + match.start() for match in _MARKER.finditer(window))


def _end_of_bodies(source: RangeReader, block: Block, limits: Limits) -> int:
    """The offset at which to resume the scan: after a block's bodies if they are complete."""
    if block.marker == INDEX:
        return block.end
    end = block.end + total_length(block.content, limits)
    whole = end == source.length or _MARKER.match(source.read_up_to(min(end, source.length), len(GROUP)))
    return end if whole else block.end


def _without_overlaps(aged: Iterable[tuple[int, Listing]]) -> list[Listing]:
    """The listings ordered by offset; of two that overlap, the one in the later block."""
    kept: list[tuple[int, Listing]] = []
    for age, listing in sorted(aged, key=lambda pair: (pair[1].offset, pair[1].end)):
        while kept and kept[-1][1].end > listing.offset and kept[-1][0] < age:
            kept.pop()
        if not kept or kept[-1][1].end <= listing.offset:
            kept.append((age, listing))
    return [listing for _, listing in kept]
