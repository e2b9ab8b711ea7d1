"""ardm compress and ardm decompress."""

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ardm.cli.common import OutputPath, load, require_positive
from ardm.cli.info import is_model, shortened
from ardm.errors import ArdmError, CheckpointError, UsageError
from ardm.runtime.files import check_writable, check_writable_folder
from ardm.runtime.output import to_json

if TYPE_CHECKING:
    from ardm.codec.canvases import Batching
    from ardm.compression.content_codec import ContentCodec
    from ardm.compression.outcomes import Done, Outcome
    from ardm.compression.restorer import Destination
    from ardm.compression.sources import Source
    from ardm.compression.workers import Workers

SINGLE_SUFFIX, ARCHIVE_SUFFIX = ".ardm", ".ardma"
COMPRESSED = ("file", "bytes before", "after", "ratio", "bits/variable", "seconds")
RESTORED = ("file", "bytes restored", "compressed", "ratio", "bits/variable", "seconds")
"""The columns of their tables."""


@dataclass(frozen=True, kw_only=True)
class Compress:
    """Compress files without loss with an exact model: one .ardm for each, or one archive.

    Images come back with every pixel and their mode (as PNG), 16-bit sounds with every sample (as WAV), texts and
    bytes to the byte. What would not get shorter is stored as it is.
    """

    files: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="FILE...")]
    """Files, folders and patterns such as 'images/**/*.png'. Below folders, hidden files and those that end as no file
    of the model's kind does are left out."""
    model: Path | None = None
    """The exact model's file, as `ardm export` makes it, or its name in the box (`ardm models`). By default the one in
    the box for images, sound or text, by the suffix of each file."""
    calls: int | None = None
    """Network calls for each window; fewer are faster and cost bits. By default the model's own choice."""
    order: str | None = None
    """raster, reverse, spaced, halton, strands or pseudorandom:SEED; by default the model's own choice."""
    output: OutputPath = None
    """A folder, to which files below a folder F go as F/...; a name ending in .ardma for one archive of all; for a
    single file also one ending in .ardm. By default FILE.ardm beside each file."""
    append: bool = False
    """Add to the archive if it is there."""
    force: bool = False
    """Replace files that are there."""
    verify: bool = False
    """Decode everything and compare before it is kept: so it is done by default."""
    no_verify: bool = False
    """Leave that out, which takes about half of the time."""
    batch_size: int | None = None
    """Rows that the network evaluates at once, by default as many as suit the device; this changes no byte."""
    device: str | None = None
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Compress, and print what became of each file."""
        self._check()
        outcome = run_on_leader(self.device, self._outcome)
        if outcome is not None:
            report(outcome, COMPRESSED, as_json=self.json)

    def _outcome(self, workers: "Workers") -> "Outcome":
        from ardm.compression.outcomes import Outcome, joined

        refused = Outcome()
        groups = self._sources_by_codec(workers, refused)
        self._check_sources([source for _, sources in groups for source in sources])
        with batches("compressing", self.batch_size, workers) as batching:
            return joined([*(self._compress(codec, sources, batching) for codec, sources in groups), refused])

    def _sources_by_codec(self, workers: "Workers", refused: "Outcome") -> "list[tuple[ContentCodec, list[Source]]]":
        """What each model is to compress; what no model is for is noted as refused."""
        from ardm.compression.sources import find_sources, left_out

        own = (SINGLE_SUFFIX, ARCHIVE_SUFFIX)
        if self.model is not None:
            codec = workers.codec(self.model)
            suffixes: Collection[str] = codec.layout.suffixes
            groups = [(codec, find_sources(self.files, suffixes, without=own))]
        else:
            suffixes = {suffix for group in boxed_suffixes().values() for suffix in group}
            sources = find_sources(self.files, suffixes, without=own)
            groups = self._sources_by_boxed_codec(workers, sources, refused)
        if others := left_out(self.files, suffixes, without=own):
            refused.notes.append(
                f"left out for their suffixes: {shortened(list(map(str, others)))}; files that are named are taken"
            )
        return groups

    def _sources_by_boxed_codec(
        self, workers: "Workers", sources: "list[Source]", refused: "Outcome"
    ) -> "list[tuple[ContentCodec, list[Source]]]":
        """The same for the models in the box, one for each medium."""
        from ardm import pretrained

        groups: dict[str, list[Source]] = {}
        for source in sources:
            groups.setdefault(boxed_name(source.path), []).append(source)
        if self._archive() is not None and len(groups) > 1:
            raise UsageError(f"an archive has files of one kind, not of {' and '.join(groups)}; make one of each")
        for name in [name for name in groups if name not in pretrained.box()]:
            for source in groups.pop(name):
                refused.fail(source.path, CheckpointError(f"the box has no model {name}; give one with --model"))
        return [(workers.codec(pretrained.find_boxed(name)), own) for name, own in groups.items()]

    def _check_sources(self, sources: "list[Source]") -> None:
        from ardm.compression.sources import check_names

        if self.output is not None:
            check_names(sources)
        if _is_single(self.output) and len(sources) > 1:
            raise UsageError(f"{self.output} can hold one file, and {len(sources)} are given; use {ARCHIVE_SUFFIX}")

    def _compress(self, codec: "ContentCodec", sources: "list[Source]", batching: "Batching") -> "Outcome":
        from ardm.codec.plan import parse_order
        from ardm.compression.compressor import Compressor

        order = None if self.order is None else parse_order(self.order)
        compressor = Compressor(
            codec=codec,
            options=codec.options(self.calls, order),
            batching=batching,
            verify=not self.no_verify,
            force=self.force,
        )
        archive = self._archive()
        if archive is None:
            return compressor.to_files(sources, self._target)
        return compressor.to_archive(sources, archive, append=self.append)

    def _check(self) -> None:
        require_positive(calls=self.calls, batch_size=self.batch_size)
        if not self.files:
            raise UsageError("give the files to compress")
        from ardm import pretrained

        if self.model is None and not pretrained.box():
            raise UsageError("give the exact model to compress with: --model MODEL (`ardm export` makes one of a run)")
        if self.verify and self.no_verify:
            raise UsageError("--verify and --no-verify exclude each other")
        archive = self._archive()
        if self.append and (self.force or archive is None):
            raise UsageError(f"--append adds to an archive: give it with -o NAME{ARCHIVE_SUFFIX}, without --force")
        if archive is not None or _is_single(self.output):
            check_writable(self.output)
        elif self.output is not None:
            if self.output.is_file():
                raise UsageError(f"{self.output} is a file; give a folder, or a name that ends in .ardm or .ardma")
            check_writable_folder(self.output)
        if archive is not None and archive.exists() and not self.append and not self.force:
            raise UsageError(f"{archive} is there already; --append adds to it, --force replaces it")

    def _archive(self) -> Path | None:
        return self.output if self.output is not None and self.output.suffix == ARCHIVE_SUFFIX else None

    def _target(self, source: "Source") -> Path:
        if self.output is None:
            return source.path.with_name(source.path.name + SINGLE_SUFFIX)
        return self.output if _is_single(self.output) else self.output / (source.name + SINGLE_SUFFIX)


@dataclass(frozen=True, kw_only=True)
class Decompress:
    """Restore compressed files and archives. What is damaged is named, and all the rest is restored.

    `ardm compress FOLDER -o OUT` and `ardm decompress OUT -o BACK` give the same tree again, as BACK/FOLDER.
    """

    files: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="FILE...")]
    """Compressed files and archives, folders of them, and patterns."""
    model: Annotated[
        tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]], tyro.conf.arg(metavar="MODEL [MODEL...]")
    ] = ()
    """The exact model that the files were made with, by default those in the box; give several if they differ. Where
    one is missing that some file needs, nothing is restored."""
    entry: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Restore only the entry of this name from archives; may be given several times."""
    output: OutputPath = None
    """A folder, to which what lies below a given folder goes as it lies there; for a single thing to restore also a
    name with a suffix. By default beside each file, and of an archive in a folder of its name."""
    force: bool = False
    """Replace files that are there."""
    batch_size: int | None = None
    """Rows that the network evaluates at once; by default as many as suit the device."""
    device: str | None = None
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Restore, and print what became of each file."""
        require_positive(batch_size=self.batch_size)
        models, files = self._models_and_files()
        if not files:
            raise UsageError("give the files to restore")
        outcome = run_on_leader(self.device, lambda workers: self._outcome(workers, models, files))
        if outcome is not None:
            report(outcome, RESTORED, as_json=self.json)

    def _outcome(self, workers: "Workers", models: list[Path], files: list[str]) -> "Outcome":
        from ardm.compression.restorer import Restorer
        from ardm.compression.sources import find_sources

        sources = find_sources(files, (SINGLE_SUFFIX, ARCHIVE_SUFFIX), folder_names=False)
        destination = self._destination(sources)
        self._check(destination, sources)
        codecs = [workers.codec(model) for model in models]
        with batches("restoring", self.batch_size, workers) as batching:
            restorer = Restorer(codecs=codecs, batching=batching, destination=destination)
            return restorer.restore(sources, self.entry)

    def _models_and_files(self) -> tuple[list[Path], list[str]]:
        """What `--model A B FILE` means: the first is a model, and so are those after it up to one that is none."""
        from ardm import pretrained

        models: list[Path] = []
        files = list(self.files)
        for group in self.model:
            if not group:
                raise UsageError("--model needs the file of a model")
            count = next((i for i, one in enumerate(group) if i and not is_model(Path(one))), len(group))
            models += map(Path, group[:count])
            files += group[count:]
        return models or list(pretrained.box().values()), files

    def _check(self, destination: "Destination", sources: "list[Source]") -> None:
        from ardm.compression.sources import check_names

        check_writable(destination.file)
        if destination.folder is not None:
            check_writable_folder(destination.folder)
            check_names(source for source in sources if source.path.suffix != ARCHIVE_SUFFIX)

    def _destination(self, sources: "list[Source]") -> "Destination":
        from ardm.codec.format.archive import is_archive
        from ardm.compression.restorer import Destination

        if self.output is None or self.output.is_dir() or not self.output.suffix:
            return Destination(folder=self.output, force=self.force)
        with sources[0].path.open("rb") as file:
            num_entries = len(self.entry) if is_archive(file.read(8)) else 1
        if len(sources) > 1 or num_entries != 1:
            return Destination(folder=self.output, force=self.force)
        return Destination(file=self.output, force=self.force)


def boxed_suffixes() -> dict[str, Collection[str]]:
    """The suffixes of the files that each model in the box is for."""
    from ardm.data.image_files import IMAGE_SUFFIXES
    from ardm.data.sound_files import AUDIO_SUFFIXES

    return {"images": IMAGE_SUFFIXES, "audio": AUDIO_SUFFIXES, "text": {".txt"}}


def boxed_name(path: Path) -> str:
    """The model in the box for a file: by its suffix, or the one for text."""
    suffix = path.suffix.lower()
    return next((name for name, suffixes in boxed_suffixes().items() if suffix in suffixes), "text")


def load_codec(path: Path, device: str | None) -> "ContentCodec":
    """The codec of an exact model's file, or of its name in the box."""
    from ardm.compression.content_codec import ContentCodec

    if path.exists() and not is_model(path):
        raise CheckpointError(f"{path} is no model; give an exact model's file, as `ardm export` makes it")
    trained, _, _ = load(path, device)
    if trained.exact is None:
        raise UsageError(f"{path} holds trained weights; make an exact model of it with `ardm export {path} -o MODEL`")
    return ContentCodec(trained)


def run_on_leader(device: str | None, outcome: "Callable[[Workers], Outcome]") -> "Outcome | None":
    """What the first process makes of it, with the help of the others that torchrun has started; None in those."""
    from ardm.compression.workers import Workers
    from ardm.runtime.device import Runtime
    from ardm.runtime.team import joined_team

    with joined_team(Runtime.choose(device).device) as team:
        workers = Workers(team, lambda path: load_codec(path, device))
        with workers.at_work() as is_leader:
            return outcome(workers) if is_leader else None


@contextmanager
def batches(title: str, batch_size: int | None, workers: "Workers") -> "Iterator[Batching]":
    """Batches with a progress bar on stderr, shown on a terminal only, whose end moves as work is found."""
    from rich.console import Console
    from rich.progress import Progress

    from ardm.codec.canvases import Batching

    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task(title, total=0)

        def on_start(count: int) -> None:
            bar.update(task, total=(bar.tasks[0].total or 0) + count)

        yield Batching(
            batch_size=batch_size,
            num_processes=workers.team.size,
            on_start=on_start,
            on_batch=lambda count: bar.advance(task, count),
        )


def report(outcome: "Outcome", columns: tuple[str, ...], *, as_json: bool) -> None:
    """Print what is done; an error if something failed, after a line for each."""
    if as_json:
        failed = [{"file": failure.file, "error": str(failure.error)} for failure in outcome.failures]
        done = [one.to_dict() for one in outcome.done]
        print(to_json({"files": done, "failed": failed, "notes": outcome.notes}).decode())
    elif outcome.done:
        print(table(outcome.done, columns))
    for note in outcome.notes:
        print(f"note: {printable(note)}", file=sys.stderr)
    if len(outcome.failures) == 1:
        raise ArdmError(printable(str(outcome.failures[0])))
    if outcome.failures:
        for failure in outcome.failures:
            print(f"ardm: {printable(str(failure))}", file=sys.stderr)
        raise ArdmError(f"{len(outcome.failures)} of {len(outcome.failures) + len(outcome.done)} failed")


def printable(text: str) -> str:
    """A text in one line: names may hold line breaks and more that a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def table(done: "list[Done]", columns: tuple[str, ...]) -> str:
    """A line for each file, and a last one for all of several."""
    from dataclasses import replace

    rows = [columns, *(_row(one) for one in done)]
    if len(done) > 1:
        parts = ("num_bytes", "num_compressed", "num_variables", "seconds")
        total = {part: sum(getattr(one, part) for one in done) for part in parts}
        rows.append(_row(replace(done[0], file=f"all {len(done)}", is_raw=False, **total)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(columns))]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    first, *numbers = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
    return "  ".join([f"{first.strip():<{widths[0]}}", *numbers])


def _row(one: "Done") -> tuple[str, ...]:
    return (
        printable(one.file) + (" (stored)" if one.is_raw else ""),
        f"{one.num_bytes:,}",
        f"{one.num_compressed:,}",
        f"{one.ratio:.2f}",
        f"{one.bits_per_variable:.3f}",
        f"{one.seconds:.2f}",
    )


def _is_single(path: Path | None) -> bool:
    return path is not None and path.suffix == SINGLE_SUFFIX
