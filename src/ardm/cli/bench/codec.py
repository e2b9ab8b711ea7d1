"""ardm bench codec."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ardm.cli.bench.common import OnDevice
from ardm.cli.common import facts_of, require_positive
from ardm.errors import UsageError

if TYPE_CHECKING:
    from ardm.apps.bench.codecs import CodecTiming
    from ardm.apps.bench.items import Media
    from ardm.apps.bench.ours import OurCodec
    from ardm.checkpoint import TrainedModel


@dataclass(frozen=True, kw_only=True)
class BenchCodec(OnDevice):
    """An exact model's codec beside PNG, JPEG XL, PPMd, FLAC, ...: bits, seconds, the network's share of the time."""

    files: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="FILE...")] = ()
    """Your own files, folders and patterns, taken whole as by `ardm compress`, one compressed file for each; empty ones
    are left out."""
    model: Path
    """An exact model's file, or the name of a bundled model."""
    data: Path | None = None
    """Instead of files, a data set such as the model was trained on: items of the model's size, and what rivals learn
    from. A folder without the benchmark that the model is for is taken as files."""
    calls: tuple[int, ...] = ()
    """Budgets of calls to code with: for each the model's richest schedule within it; by default its own."""
    items: int = 100
    """How many items or files, one of each of as many equal stretches of the split or of all files."""
    split: Literal["test", "valid"] | None = None
    """Where items of a data set are from, by default test."""
    seed: int | None = None
    """Take random items of the stretches; by default their first ones."""
    ours_only: bool = False
    """Leave the other codecs out."""
    batch_size: int | None = None
    """Rows of a call at most, by default as many as suit the device."""

    def measure(self) -> None:
        """Time ours and the others."""
        media, benchmark = self._benchmark()
        from ardm.apps.bench.codec_table import codec_header, codec_line

        rows = self.show(benchmark, codec_header(media), codec_line)
        if not self.as_json:
            print_networks(rows)

    def _benchmark(self) -> "tuple[Media, Iterator[CodecTiming]]":
        """What is coded, and the rows, each measured when its turn comes."""
        if bool(self.files) == (self.data is not None):
            raise UsageError("give either files or data: ardm bench codec --model MODEL FILE... | --data DIR")
        require_positive(items=self.items, batch_size=self.batch_size, calls=min(self.calls, default=None))
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"--seed must not be negative, got {self.seed}")
        from ardm.apps.bench.ours import our_codecs
        from ardm.tasks.load import load

        trained = load(self.model, self.device).trained
        ours = our_codecs(trained, self.calls, batch_size=self.batch_size)
        media, rows = self._rows(trained, ours)
        model = facts_of(trained)
        return media, (replace(row, model=model if row.network else None) for row in rows)

    def _rows(self, trained: "TrainedModel", ours: "Sequence[OurCodec]") -> "tuple[Media, Iterator[CodecTiming]]":
        """The same, without what they were measured with."""
        from ardm.data.packed.description import is_packed
        from ardm.media import has_corpus

        if self.data is None:
            return self._files_benchmark(self.files, ours)
        if has_corpus(trained.config.data, self.data) or is_packed(self.data) or not self.data.exists():
            return self._corpus_benchmark(self.data, trained, ours)
        benchmark = self._files_benchmark((str(self.data),), ours)
        print(f"note: {self.data} holds no {trained.config.data.kind}; whole files are coded instead", file=sys.stderr)
        return benchmark

    def _files_benchmark(
        self, files: Sequence[str], ours: "Sequence[OurCodec]"
    ) -> "tuple[Media, Iterator[CodecTiming]]":
        if self.split is not None:
            raise UsageError(f"--split is for data sets; files are taken whole, got --split {self.split}")
        from ardm.apps.bench.codecs import compare
        from ardm.apps.bench.files import read_files
        from ardm.apps.bench.items import item_of_content, media_of_content

        contents = read_files(files, ours[0].codec, self.items, self.seed)
        media = media_of_content(contents[0])
        return media, compare(list(map(item_of_content, contents)), media, ours, others=not self.ours_only)

    def _corpus_benchmark(
        self, path: Path, trained: "TrainedModel", ours: "Sequence[OurCodec]"
    ) -> "tuple[Media, Iterator[CodecTiming]]":
        from ardm.apps.bench.codecs import run_codec_benchmark
        from ardm.apps.bench.items import media_of
        from ardm.media import load_corpus

        corpus = load_corpus(trained.config.data, path)
        rows = run_codec_benchmark(
            corpus,
            trained.model.shape,
            ours,
            num_items=self.items,
            split=self.split or "test",
            seed=self.seed,
            others=not self.ours_only,
        )
        return media_of(corpus), rows


def print_networks(rows: "Sequence[CodecTiming]") -> None:
    """A second table for the rows with a network."""
    from ardm.apps.bench.codec_table import network_header, network_line

    with_network = [(row, row.network) for row in rows if row.network is not None]
    if with_network:
        print(f"\n{network_header()}")
    for row, figures in with_network:
        print(network_line(row.name, figures, row.num_items))
