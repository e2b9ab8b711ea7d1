"""Files compressed, restored and compared, and their sizes with other codecs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from ardm.apps.bench.codecs import CodecTiming, time_codec
from ardm.apps.bench.items import Media, item_of_content, media_of_content, num_bytes
from ardm.apps.demo.models import DemoModel, Example
from ardm.apps.rivals import suited
from ardm.apps.rivals.packages import PNG, WEBP, Brotli, Deflate, SoundfileFlac
from ardm.apps.rivals.rival import Rival
from ardm.apps.rivals.tools import JPEG_XL, WAVPACK
from ardm.codec.batching import Batching
from ardm.compression.compressor import Compressor
from ardm.compression.content_codec import CodecSet
from ardm.compression.outcomes import Done, Outcome
from ardm.compression.restorer import Destination, Restorer
from ardm.compression.sources import Source
from ardm.errors import ArdmError

RIVALS: dict[Media, tuple[Rival, ...]] = {
    "images": (PNG, WEBP, JPEG_XL),
    "text": (Deflate(), Brotli(is_text=True)),
    "bytes": (Deflate(), Brotli()),
    "audio": (SoundfileFlac(), WAVPACK),
}
"""Codecs that need no training."""

PlaceBits = Sequence[Float64[np.ndarray, "..."]]
"""The bits at each place of a content's canvases."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """The bytes and times of one codec for a file, or for several together."""

    codec: str
    num_bytes: int
    num_variables: int
    encode_seconds: float | None = None
    """Time to encode; None if nothing was coded."""
    decode_seconds: float | None = None
    is_ours: bool = False

    @property
    def bits(self) -> float:
        """Bits per variable."""
        return 8 * self.num_bytes / self.num_variables


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedExample:
    """A file that was compressed and restored identically."""

    example: Example
    rows: Sequence[Row]
    """Ours, the other codecs, and the uncoded file."""
    notes: Sequence[str]
    """Reasons why some codecs have no row."""
    is_stored: bool
    """Whether the file is stored as it is, because coding would make it longer."""


def compress_examples(model: DemoModel, folder: Path) -> list[Done]:
    """Compress each file of a model to a compressed file in a folder."""
    codec = model.exact_codec
    options = codec.options(model.coding_schedule.num_calls)
    compressor = Compressor(codec=codec, options=options, batching=Batching(), verify=False, force=True)
    sources = [Source(path=one.path, name=one.name) for one in model.examples]
    return _all_done(compressor.compress(sources, folder))


def restore_examples(model: DemoModel, compressed: Sequence[Done], folder: Path) -> list[Done]:
    """Restore compressed files to a folder; an ArdmError if one differs from its original."""
    codec, paths = model.exact_codec, [Path(done.output) for done in compressed]
    restorer = Restorer(
        models=CodecSet([codec]), batching=Batching(), destination=Destination(folder=folder, force=True)
    )
    restored = _all_done(restorer.restore([Source(path=path, name=path.name) for path in paths]))
    for example, done in zip(model.examples, restored, strict=True):
        if codec.layout.read(Path(done.output)) != example.content:
            raise ArdmError(f"{done.output} differs from {example.path}; please report this")
    return restored


def _all_done(outcome: Outcome) -> list[Done]:
    if outcome.failures:
        raise outcome.failures[0].error
    return outcome.done


def measure_example(model: DemoModel, example: Example) -> PlaceBits:
    """The bits at each place of the canvases of a file's content."""
    codec = model.exact_codec
    return codec.measure(codec.place(example.content), codec.options(model.coding_schedule.num_calls), Batching())


def compare(model: DemoModel, example: Example, compressed: Done, restored: Done) -> CodedExample:
    """A file's row and those of other codecs, which are timed here."""
    media, items = media_of_content(example.content), [item_of_content(example.content)]
    others = [time_codec(rival, items, [], media) for rival in suited(RIVALS[media], items)]
    ours = Row(
        codec="ardm, stored" if compressed.is_raw else f"ardm, {model.coding_schedule.num_calls} calls",
        num_bytes=compressed.num_compressed,
        num_variables=compressed.num_variables,
        encode_seconds=compressed.seconds,
        decode_seconds=restored.seconds,
        is_ours=True,
    )
    uncoded = Row(codec="uncoded", num_bytes=num_bytes(items[0]), num_variables=example.content.num_variables)
    return CodedExample(
        example=example,
        rows=[ours, *(_row(other) for other in others if other.failure is None), uncoded],
        notes=[f"{other.name}: {other.failure}" for other in others if other.failure],
        is_stored=compressed.is_raw,
    )


def _row(timing: CodecTiming) -> Row:
    assert timing.bits_per_variable is not None
    return Row(
        codec=timing.name,
        num_bytes=round(timing.bits_per_variable * timing.num_variables / 8),
        num_variables=timing.num_variables,
        encode_seconds=timing.encode_seconds,
        decode_seconds=timing.decode_seconds,
    )


def total_rows(coded: Sequence[CodedExample]) -> list[Row]:
    """The sums of the rows of several files, for codecs that took all of them."""
    groups: dict[str, list[Row]] = {}
    for row in (row for one in coded for row in one.rows):
        groups.setdefault("ardm" if row.is_ours else row.codec, []).append(row)
    return [_total(rows, name) for name, rows in groups.items() if len(rows) == len(coded)]


def _total(rows: Sequence[Row], name: str) -> Row:
    names = {row.codec for row in rows}
    return Row(
        codec=names.pop() if len(names) == 1 else name,
        num_bytes=sum(row.num_bytes for row in rows),
        num_variables=sum(row.num_variables for row in rows),
        encode_seconds=_sum([row.encode_seconds for row in rows]),
        decode_seconds=_sum([row.decode_seconds for row in rows]),
        is_ours=rows[0].is_ours,
    )


def _sum(seconds: Sequence[float | None]) -> float | None:
    known = [one for one in seconds if one is not None]
    return sum(known) if known else None
