"""ardm bench codec."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ardm.cli.bench.common import DeviceBenchmark
from ardm.cli.common import facts_of, require_positive
from ardm.errors import UsageError

if TYPE_CHECKING:
    from ardm.apps.bench.codecs import CodecTiming
    from ardm.apps.bench.items import Item, Media
    from ardm.checkpoint import TrainedModel
    from ardm.compression.content_codec import ContentCodec


@dataclass(frozen=True, kw_only=True)
class BenchCodec(DeviceBenchmark):
    """Measure the bits and times of an exact model's codec, and of PNG, JPEG XL, PPMd, FLAC and others."""

    files: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="FILE...")] = ()
    """Files, folders and patterns. Each file is coded whole to its own compressed file; empty ones are left out."""
    model: Path
    """An exact model's file, or the name of a bundled model."""
    data: Path | None = None
    """A data set like the model's, instead of files: items have the model's size, and other codecs learn from it. A
    folder without that data set is treated as files."""
    calls: tuple[int, ...] = ()
    """Call budgets, for each of which the model's best schedule is used; by default the model's own choice."""
    items: int = 100
    """Maximum number of items or files, spread evenly over the split or over all files."""
    split: Literal["test", "valid"] | None = None
    """Split of the data set; test by default."""
    seed: int | None = None
    """Seed for choosing items at random, still evenly spread; without it the choice is fixed."""
    ours_only: bool = False
    """Do not measure the other codecs."""
    batch_size: int | None = None
    """Maximum number of rows per call. Default: by device."""

    def measure(self) -> None:
        media, benchmark = self._benchmark()
        from ardm.apps.bench.codec_table import codec_header, codec_line, network_header, network_line

        rows = self.show(benchmark, codec_header(media), codec_line)
        with_network = [(row, row.network) for row in rows if row.network is not None]
        if with_network and not self.as_json:
            print(f"\n{network_header()}")
            for row, figures in with_network:
                print(network_line(row.name, figures, row.num_items))

    def _benchmark(self) -> "tuple[Media, Iterator[CodecTiming]]":
        """The kind of items and the rows, each measured when its turn comes."""
        if bool(self.files) == (self.data is not None):
            raise UsageError("give either files or data: ardm bench codec --model MODEL FILE... | --data DIR")
        require_positive(items=self.items, batch_size=self.batch_size, calls=min(self.calls, default=None))
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"--seed must not be negative, got {self.seed}")
        from ardm.apps.bench.codecs import compare
        from ardm.apps.bench.ours import our_codecs
        from ardm.data.packed.description import is_packed
        from ardm.media import has_corpus
        from ardm.tasks.load import load

        trained = load(self.model, self.device).trained
        ours = our_codecs(trained, self.calls, batch_size=self.batch_size)
        data = self.data
        if data is None:
            media, items, training = self._file_items(self.files, ours[0].codec)
        elif has_corpus(trained.config.data, data) or is_packed(data) or not data.exists():
            media, items, training = self._corpus_items(data, trained)
        else:
            media, items, training = self._file_items([str(data)], ours[0].codec)
            print(f"note: {data} holds no {trained.config.data.kind}; whole files are coded instead", file=sys.stderr)
        model = facts_of(trained)
        rows = compare(items, media, ours, training, others=not self.ours_only)
        return media, (replace(row, model=model if row.network else None) for row in rows)

    def _file_items(self, files: Sequence[str], codec: "ContentCodec") -> "tuple[Media, list[Item], list[Item]]":
        """The kind of files, the files, and no training items."""
        if self.split is not None:
            raise UsageError(f"--split is for data sets; files are taken whole, got --split {self.split}")
        from ardm.apps.bench.items import item_of_content, media_of_content
        from ardm.apps.bench.ours import read_files

        contents = read_files(files, codec, self.items, self.seed)
        return media_of_content(contents[0]), list(map(item_of_content, contents)), []

    def _corpus_items(self, path: Path, trained: "TrainedModel") -> "tuple[Media, list[Item], list[Item]]":
        """The kind of items, items of the split, and training items for rivals."""
        from ardm.apps.bench.items import media_of, spread_items, training_items
        from ardm.media import load_corpus

        corpus, shape = load_corpus(trained.config.data, path), trained.model.shape
        items = spread_items(corpus, self.split or "test", shape, self.items, self.seed)
        return media_of(corpus), items, [] if self.ours_only else training_items(corpus, shape)
