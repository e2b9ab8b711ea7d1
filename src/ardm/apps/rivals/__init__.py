"""Codecs to compare ours with, by medium, with strong settings.

Files are as small as possible: without zlib's header and checksum, zstd's magic number and FLAC's padding.
"""

from collections.abc import Sequence
from dataclasses import replace

from ardm.apps.bench.items import Item, Media, has_alpha
from ardm.apps.rivals.packages import PNG, WEBP, Brotli, Deflate, SoundfileFlac, Zstandard
from ardm.apps.rivals.ppmd import Ppmd
from ardm.apps.rivals.rival import Rival
from ardm.apps.rivals.tools import FLAC, FLIF, JPEG_XL, WAVPACK, Tool


def rivals_for(media: Media, items: Sequence[Item], *, has_training: bool = True) -> list[Rival]:
    """The codecs for items of this kind; if all texts have the same length, PPMd's files omit it."""
    if media == "images":
        return suited([PNG, WEBP, JPEG_XL, FLIF], items)
    if media == "audio":
        return [SoundfileFlac(), FLAC, WAVPACK]
    lengths = {len(item) for item in items if isinstance(item, bytes)}
    item_length = lengths.pop() if len(lengths) == 1 else None
    zstandard, ppmd = Zstandard(), Ppmd(item_length=item_length)
    if not has_training:
        zstandard, ppmd = replace(zstandard, name="zstd (level 19)"), replace(ppmd, name="PPMd (order 8)")
    return [Deflate(), Brotli(is_text=media == "text"), zstandard, ppmd]


def suited(rivals: Sequence[Rival], items: Sequence[Item]) -> list[Rival]:
    """The codecs adapted to the items: for images with alpha, tools read PNG files."""
    if not any(map(has_alpha, items)):
        return list(rivals)
    return [replace(rival, plain_suffix=".png") if isinstance(rival, Tool) else rival for rival in rivals]
