"""The codecs that ours is compared with, by medium. Settings are strong and files small:

zlib's header and checksum, zstd's magic number and FLAC's padding are left out.
"""

from collections.abc import Sequence

from ardm.bench.items import Item, Media
from ardm.bench.rivals.images import PNG, WEBP
from ardm.bench.rivals.ppmd import Ppmd
from ardm.bench.rivals.rival import Rival
from ardm.bench.rivals.sound import SoundfileFlac
from ardm.bench.rivals.text import Brotli, Deflate, Zstandard
from ardm.bench.rivals.tools import FLAC, FLIF, JPEG_XL, WAVPACK


def rivals_for(media: Media, items: Sequence[Item]) -> list[Rival]:
    """The rivals for items of this kind; where all have one length, PPMd's files need not tell it."""
    if media == "images":
        return [PNG, WEBP, JPEG_XL, FLIF]
    if media == "audio":
        return [SoundfileFlac(), FLAC, WAVPACK]
    lengths = {len(item) for item in items if isinstance(item, bytes)}
    item_length = lengths.pop() if len(lengths) == 1 else None
    return [Deflate(), Brotli(is_text=media == "text"), Zstandard(), Ppmd(item_length=item_length)]
