"""ardm compress and ardm decompress."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ardm.cli.common import CODING_ORDERS, Device, OutputPath, require_positive
from ardm.errors import ArdmError, UsageError
from ardm.names import ARCHIVE_SUFFIX, SINGLE_SUFFIX
from ardm.runtime.files import check_writable, check_writable_folder, to_json

if TYPE_CHECKING:
    from ardm.codec.batching import Batching
    from ardm.compression.outcomes import Done, Outcome
    from ardm.compression.workers import Workers

COMPRESSED = ("file", "bytes before", "after", "ratio", "bits/variable", "seconds")
RESTORED = ("file", "bytes restored", "compressed", "ratio", "bits/variable", "seconds")
"""Titles of the columns."""


@dataclass(frozen=True, kw_only=True)
class Compress:
    """Compress files losslessly with an exact model: one .ardm per file, or one archive.

    Images come back with every pixel and their mode (as PNG), 16-bit sounds with every sample (as WAV), texts and
    bytes to the byte. A file that coding would not make shorter is stored without the model.
    """

    files: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="FILE...")]
    """Files, folders and patterns such as 'images/**/*.png'. In folders, hidden files and files without a suffix of
    the model's kind are left out."""
    model: Path | None = None
    """An exact model's file, written by `ardm export`, or the name of a bundled model (`ardm models`). Default: the
    bundled model for images, sound or text, by the suffix of each file."""
    calls: int | None = None
    """Network calls per window; fewer are faster but make files longer. Default: the model's own choice."""
    order: Annotated[str | None, tyro.conf.arg(help=f"{CODING_ORDERS}. Default: the model's own choice.")] = None
    output: OutputPath = None
    """A folder, where the files of a given folder F become F/...; a name ending in .ardma for one archive; for a
    single file also a name ending in .ardm. Default: FILE.ardm next to each file."""
    append: bool = False
    """Add to the archive of -o if it exists."""
    force: bool = False
    """Replace existing files."""
    verify: bool = False
    """Decode and compare everything before it is kept (the default)."""
    no_verify: bool = False
    """Skip the verification, which takes about half the time."""
    batch_size: int | None = None
    """Rows that the network evaluates at once; fewer take less memory and give the same files. Default: by device."""
    device: Device = None
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Compress, and print the outcome for each file."""
        self._check()
        report_on_leader(self, self._outcome, COMPRESSED)

    def _outcome(self, workers: "Workers") -> "Outcome":
        from ardm.codec.coding_plan import parse_order
        from ardm.compression.compressor import Compressor
        from ardm.compression.outcomes import Outcome, joined
        from ardm.compression.sources import sources_by_codec

        order, refused = None if self.order is None else parse_order(self.order), Outcome()
        groups = sources_by_codec(self.files, self.model, self.output, workers, refused)
        with batches("compressing", self.batch_size, workers) as batching:
            outcomes = [
                Compressor(
                    codec=codec,
                    options=codec.options(self.calls, order),
                    batching=batching,
                    verify=not self.no_verify,
                    force=self.force,
                ).compress(sources, self.output, append=self.append)
                for codec, sources in groups
            ]
        return joined([*outcomes, refused])

    def _check(self) -> None:
        from ardm.pretrained import bundled_models

        require_positive(calls=self.calls, batch_size=self.batch_size)
        if not self.files:
            raise UsageError("give the files to compress")
        if self.model is None and not bundled_models():
            raise UsageError("give the exact model to compress with: --model MODEL (`ardm export` makes one)")
        if self.verify and self.no_verify:
            raise UsageError("--verify and --no-verify exclude each other")
        suffix = "" if self.output is None else self.output.suffix
        if self.append and (self.force or suffix != ARCHIVE_SUFFIX):
            raise UsageError(f"--append adds to an archive: give it with -o NAME{ARCHIVE_SUFFIX}, without --force")
        if self.output is None:
            return
        if suffix in (SINGLE_SUFFIX, ARCHIVE_SUFFIX):
            check_writable(self.output)
        elif self.output.is_file():
            raise UsageError(f"{self.output} is a file; give a folder, or a name that ends in .ardm or .ardma")
        else:
            check_writable_folder(self.output)
        if suffix == ARCHIVE_SUFFIX and self.output.exists() and not self.append and not self.force:
            raise UsageError(f"{self.output} already exists; --append adds to it, --force replaces it")


@dataclass(frozen=True, kw_only=True)
class Decompress:
    """Restore compressed files and archives. Damaged entries are reported, and everything else is restored.

    After `ardm compress FOLDER -o OUT`, `ardm decompress OUT -o BACK` reproduces the tree as BACK/FOLDER.
    """

    files: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="FILE...")]
    """Compressed files, archives, folders of them, and patterns."""
    model: Annotated[
        tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]], tyro.conf.arg(metavar="MODEL [MODEL...]")
    ] = ()
    """The exact models that the files were made with. Nothing is restored if one is missing. Default: the bundled
    models."""
    entry: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Restore only this entry of an archive."""
    output: OutputPath = None
    """A folder, where the files of given folders keep their relative paths; to restore a single file, also a name
    with a suffix. Default: next to each file, and for an archive in a folder named after it."""
    force: bool = False
    """Replace existing files."""
    batch_size: int | None = None
    """Rows that the network evaluates at once; lower it if memory runs out. Default: by device."""
    device: Device = None
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Restore, and print the outcome for each file."""
        require_positive(batch_size=self.batch_size)
        models, files = self._models_and_files()
        if not files:
            raise UsageError("give the files to restore")
        report_on_leader(self, lambda workers: self._outcome(workers, models, files), RESTORED)

    def _outcome(self, workers: "Workers", models: list[Path], files: list[str]) -> "Outcome":
        from ardm.compression.content_codec import CodecSet
        from ardm.compression.restorer import Destination, Restorer
        from ardm.compression.sources import COMPRESSED_SUFFIXES, find_sources

        sources = find_sources(files, COMPRESSED_SUFFIXES, folder_names=False)
        destination = Destination.of(self.output, sources, self.entry, force=self.force)
        codecs = CodecSet(map(workers.codec, models))
        with batches("restoring", self.batch_size, workers) as batching:
            restorer = Restorer(models=codecs, batching=batching, destination=destination)
            return restorer.restore(sources, self.entry)

    def _models_and_files(self) -> tuple[list[Path], list[str]]:
        """The models and files of `--model A B FILE`: the words before the first that is not a model are models."""
        from ardm.pretrained import bundled_models, is_model

        models: list[Path] = []
        files = list(self.files)
        for group in self.model:
            if not group:
                raise UsageError("--model needs the file of a model")
            count = next((i for i, one in enumerate(group) if i and not is_model(Path(one))), len(group))
            models += map(Path, group[:count])
            files += group[count:]
        return models or list(bundled_models().values()), files


def report_on_leader(
    command: Compress | Decompress, work: "Callable[[Workers], Outcome]", columns: tuple[str, ...]
) -> None:
    """Share work among all processes, and report its outcome from the first one."""
    from ardm.compression.content_codec import load_codec
    from ardm.compression.workers import Workers
    from ardm.runtime.device import Runtime
    from ardm.runtime.team import joined_team

    device = Runtime.choose(command.device).device
    with joined_team(device) as team:
        outcome = Workers(team, partial(load_codec, device=device)).run_on_leader(work)
    if outcome is not None:
        report(outcome, columns, as_json=command.json)


@contextmanager
def batches(title: str, batch_size: int | None, workers: "Workers") -> "Iterator[Batching]":
    """Batching with a progress bar on stderr, shown only on a terminal, whose total grows as work is found."""
    from rich.console import Console
    from rich.progress import Progress

    from ardm.codec.batching import Batching

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
    """Print an outcome; if something failed, raise an ArdmError after one line per failure."""
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
    """A text with escapes for line breaks and control characters, which file names may hold."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def table(done: "list[Done]", columns: tuple[str, ...]) -> str:
    """A table with one row per file and, if there are several, their totals."""
    from dataclasses import replace

    rows = [columns, *(_row(one) for one in done)]
    if len(done) > 1:
        parts = ("num_bytes", "num_compressed", "num_variables", "seconds")
        total = {part: sum(getattr(one, part) for one in done) for part in parts}
        rows.append(_row(replace(done[0], file=f"all {len(done)}", is_raw=False, **total)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)


def _row(one: "Done") -> tuple[str, ...]:
    return (
        printable(one.file) + (" (stored)" if one.is_raw else ""),
        f"{one.num_bytes:,}",
        f"{one.num_compressed:,}",
        f"{one.ratio:.2f}",
        f"{one.bits_per_variable:.3f}",
        f"{one.seconds:.2f}",
    )
