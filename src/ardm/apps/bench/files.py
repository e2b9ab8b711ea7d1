"""Users' own files for the benchmark: taken whole, as `ardm compress` takes them."""

from collections.abc import Sequence
from pathlib import Path

from ardm.apps.bench.items import spread_places
from ardm.codec.format.archive import ARCHIVE_SUFFIX
from ardm.codec.format.entries import Limits
from ardm.codec.format.single import SINGLE_SUFFIX
from ardm.compression.content_codec import ContentCodec
from ardm.compression.sources import find_sources
from ardm.errors import DataError, TooLargeError
from ardm.media.contents import Content


def read_files(arguments: Sequence[str], codec: ContentCodec, num_files: int, seed: int | None = None) -> list[Content]:
    """The contents of so many files, spread over those that arguments mean (see `spread_places`), or of all.

    Empty files are left out. A DataError or a TooLargeError for one that the model cannot code.
    """
    sources = find_sources(arguments, codec.layout.suffixes, without=(SINGLE_SUFFIX, ARCHIVE_SUFFIX))
    paths = [source.path for source in sources if source.path.stat().st_size]
    if not paths:
        raise DataError(f"{', '.join(arguments)}: nothing to code, all files are empty")
    return [_read(paths[place], codec) for place in spread_places(len(paths), num_files, seed)]


def _read(path: Path, codec: ContentCodec) -> Content:
    try:
        Limits().check("content_bytes", path.stat().st_size)
        content = codec.layout.read(path)
        codec.place(content)
    except TooLargeError as error:
        raise TooLargeError(f"{path} is {error}") from None
    if not content.num_variables:
        raise DataError(f"{path} holds nothing to code; leave it out")
    return content
