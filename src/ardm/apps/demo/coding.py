"""Files compressed, restored and compared, and beside what other codecs make of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from ardm.apps.bench.codecs import CodecTiming, time_codec
from ardm.apps.bench.items import Media, item_of_content, media_of_content, num_bytes
from ardm.apps.demo.exhibits import Example, Exhibit
from ardm.apps.rivals import suited
from ardm.apps.rivals.images import PNG, WEBP
from ardm.apps.rivals.rival import Rival
from ardm.apps.rivals.sound import SoundfileFlac
from ardm.apps.rivals.text import Brotli, Deflate
from ardm.apps.rivals.tools import JPEG_XL, WAVPACK
from ardm.codec.batching import Batching
from ardm.codec.format.single import SINGLE_SUFFIX
from ardm.compression.compressor import Compressor
from ardm.compression.outcomes import Done, Outcome
from ardm.compression.restorer import Destination, Restorer
from ardm.compression.sources import Source
from ardm.errors import ArdmError
from ardm.media.contents import Content

RIVALS: dict[Media, tuple[Rival, ...]] = {
    "images": (PNG, WEBP, JPEG_XL),
    "text": (Deflate(), Brotli(is_text=True)),
    "bytes": (Deflate(), Brotli()),
    "audio": (SoundfileFlac(), WAVPACK),
}
"""Codecs that need no training."""
OURS, UNCODED = "ardm", "uncoded"

PlaceBits = Sequence[Float64[np.ndarray, "..."]]
"""Of every place of each canvas that a content lies on."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one codec makes of a file, or of several together."""

    codec: str
    num_bytes: int
    num_variables: int
    encode_seconds: float | None = None
    decode_seconds: float | None = None
    """None: nothing was done."""
    is_ours: bool = False

    @property
    def bits(self) -> float:
        """For each variable."""
        return 8 * self.num_bytes / self.num_variables


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedExample:
    """A file that was compressed, restored and found to be the same, in one group with others."""

    example: Example
    rows: Sequence[Row]
    """Ours, the others, and the file uncoded."""
    notes: Sequence[str]
    """Why there are no rows of some others."""
    is_stored: bool
    """Whether it is stored as it is, since coding would make it longer."""

    @property
    def name(self) -> str:
        """Of the file."""
        return self.example.path.name


def compress_examples(exhibit: Exhibit, folder: Path) -> list[Done]:
    """Compress each file of a model to a file of its own in a folder."""
    codec = exhibit.served.exact_codec
    options = codec.options(exhibit.schedule.num_calls)
    compressor = Compressor(codec=codec, options=options, batching=Batching(), verify=False, force=True)
    sources = [Source(path=one.path, name=one.path.name) for one in exhibit.examples]
    return _all_done(compressor.to_files(sources, lambda source: folder / (source.name + SINGLE_SUFFIX)))


def restore_examples(exhibit: Exhibit, compressed: Sequence[Done], folder: Path) -> list[Done]:
    """Restore compressed files to a folder and compare what they hold; an ArdmError if anything differs."""
    codec, paths = exhibit.served.exact_codec, [Path(done.output) for done in compressed]
    destination = Destination(folder=folder, force=True)
    restorer = Restorer(codecs=[codec], batching=Batching(), destination=destination)
    restored = _all_done(restorer.restore([Source(path=path, name=path.name) for path in paths]))
    for example, done in zip(exhibit.examples, restored, strict=True):
        if codec.layout.read(Path(done.output)) != example.content:
            raise ArdmError(f"{done.output} is not what {example.path} holds; please report this")
    return restored


def measure_example(exhibit: Exhibit, example: Example) -> PlaceBits:
    """The bits of every place of each canvas that a content lies on."""
    codec = exhibit.served.exact_codec
    return codec.measure(example.content, codec.options(exhibit.schedule.num_calls), Batching())


def compare(exhibit: Exhibit, example: Example, compressed: Done, restored: Done) -> CodedExample:
    """A file's row beside those of other codecs, which are timed here."""
    media, items = media_of_content(example.content), [item_of_content(example.content)]
    others = [time_codec(rival, items, [], media) for rival in suited(RIVALS[media], items)]
    return CodedExample(
        example=example,
        rows=[
            _our_row(compressed, restored, exhibit.schedule.num_calls),
            *_other_rows(others),
            _uncoded(example.content),
        ],
        notes=[f"{other.name}: {other.failure}" for other in others if other.failure],
        is_stored=compressed.is_raw,
    )


def _all_done(outcome: Outcome) -> list[Done]:
    if outcome.failures:
        raise outcome.failures[0].error
    return outcome.done


def _our_row(done: Done, restored: Done, num_calls: int) -> Row:
    return Row(
        codec=f"{OURS}, stored" if done.is_raw else f"{OURS}, {num_calls} calls",
        num_bytes=done.num_compressed,
        num_variables=done.num_variables,
        encode_seconds=done.seconds,
        decode_seconds=restored.seconds,
        is_ours=True,
    )


def _other_rows(others: Sequence[CodecTiming]) -> list[Row]:
    return [
        Row(
            codec=other.name,
            num_bytes=round(other.bits_per_variable * other.num_variables / 8),
            num_variables=other.num_variables,
            encode_seconds=other.encode_seconds,
            decode_seconds=other.decode_seconds,
        )
        for other in others
        if other.bits_per_variable is not None
    ]


def _uncoded(content: Content) -> Row:
    return Row(codec=UNCODED, num_bytes=num_bytes(item_of_content(content)), num_variables=content.num_variables)


def total_rows(coded: Sequence[CodedExample]) -> list[Row]:
    """The rows of several files together, for codecs that took all of them."""
    groups: dict[str, list[Row]] = {}
    for row in (row for one in coded for row in one.rows):
        groups.setdefault(OURS if row.is_ours else row.codec, []).append(row)
    return [_total(rows, name) for name, rows in groups.items() if len(rows) == len(coded)]


def _total(rows: Sequence[Row], name: str) -> Row:
    names = {row.codec for row in rows}
    encode = [row.encode_seconds for row in rows if row.encode_seconds is not None]
    decode = [row.decode_seconds for row in rows if row.decode_seconds is not None]
    return Row(
        codec=names.pop() if len(names) == 1 else name,
        num_bytes=sum(row.num_bytes for row in rows),
        num_variables=sum(row.num_variables for row in rows),
        encode_seconds=sum(encode) if encode else None,
        decode_seconds=sum(decode) if decode else None,
        is_ours=rows[0].is_ours,
    )
