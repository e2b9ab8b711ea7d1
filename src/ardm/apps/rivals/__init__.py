"""The codecs that ours is compared with, by medium. Settings are strong and files small:

zlib's header and checksum, zstd's magic number and FLAC's padding are left out.
"""

from collections.abc import Sequence
from dataclasses import replace

from ardm.apps.bench.items import Item, Media, has_alpha
from ardm.apps.rivals.images import PNG, WEBP
from ardm.apps.rivals.ppmd import Ppmd
from ardm.apps.rivals.rival import Rival
from ardm.apps.rivals.sound import SoundfileFlac
from ardm.apps.rivals.text import Brotli, Deflate, Zstandard
from ardm.apps.rivals.tools import FLAC, FLIF, JPEG_XL, WAVPACK, Tool


def rivals_for(media: Media, items: Sequence[Item], *, has_training: bool = True) -> list[Rival]:
    """The rivals for items of this kind, with training items or without.

    Where all texts have one length, PPMd's files need not tell it.
    """
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
    """The rivals as they suit the items: where images have alpha, tools get PNG files."""
    if not any(map(has_alpha, items)):
        return list(rivals)
    return [replace(rival, plain_suffix=".png") if isinstance(rival, Tool) else rival for rival in rivals]
