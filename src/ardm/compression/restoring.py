"""Compressed files and archives restored to files, many at once."""

import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ardm.codec.canvases import Batching
from ardm.compression.contents import Content, num_variables
from ardm.compression.media import restored_file, restored_suffix
from ardm.compression.modelled import ModelsAtHand
from ardm.compression.outcomes import Done, Outcome, grouped
from ardm.compression.sources import Source
from ardm.container.archive import ArchiveReader, is_archive
from ardm.container.entries import Entry, Limits, Raw
from ardm.container.single import SINGLE_SUFFIX, read_single
from ardm.errors import ArdmError, DataError
from ardm.files import write_file


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where restored files go."""

    folder: Path | None = None
    """None: beside the compressed file; for an archive, to a folder there with the archive's name."""
    file: Path | None = None
    """The place of the only file that is restored."""
    force: bool = False
    """Whether existing files are replaced."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Restorer:
    """Restores compressed files and archives with the models at hand. What fails does not keep the rest."""

    models: ModelsAtHand
    batching: Batching
    destination: Destination
    limits: Limits = field(default_factory=Limits)

    def restore(self, sources: Sequence[Source], entries: Sequence[str] = ()) -> Outcome:
        """Restore all that compressed files and archives hold, or of archives some entries by their names."""
        outcome = Outcome()
        taken: dict[str, Path] = {}
        wanted = (one for one in self._found(sources, entries, outcome) if self._is_free(one, outcome))
        for group in grouped(wanted, lambda one: one.entry.fields.content_bytes):
            start = time.perf_counter()
            restored = self.models.decode([one.entry for one in group], self.batching)
            seconds = time.perf_counter() - start
            total = sum(num_variables(one.entry.fields) for one in group)
            for one, content in zip(group, restored, strict=True):
                share = seconds * num_variables(one.entry.fields) / max(1, total)
                try:
                    outcome.done.append(self._write(one, content, taken, share))
                except (ArdmError, OSError) as error:
                    outcome.fail(one.file, error)
        return outcome

    def _found(self, sources: Sequence[Source], entries: Sequence[str], outcome: Outcome) -> "Iterator[_Found]":
        for source in sources:
            try:
                with source.path.open("rb") as file:
                    if is_archive(file.read(8)):
                        yield from self._in_archive(source, file, entries, outcome)
                    else:
                        yield self._in_file(source)
            except (ArdmError, OSError) as error:
                outcome.fail(source.path, error)

    def _in_file(self, source: Source) -> "_Found":
        self.limits.check("content_bytes", source.path.stat().st_size)
        data = source.path.read_bytes()
        name = source.name if self.destination.folder else source.path.name
        stem = name.removesuffix(SINGLE_SUFFIX)
        return _Found(
            file=str(source.path),
            path=(self.destination.folder or source.path.parent) / (stem if stem != name else f"{name}.restored"),
            entry=read_single(data, self.limits),
            num_compressed=len(data),
        )

    def _in_archive(
        self, source: Source, file: io.BufferedReader, entries: Sequence[str], outcome: Outcome
    ) -> "Iterator[_Found]":
        reader = ArchiveReader(file, self.limits)
        if reader.recovered:
            outcome.notes.append(f"{source.path} has a damaged index; its entries were found by a scan")
        folder = self.destination.folder or source.path.with_suffix("")
        for name in entries or reader:
            label = f"{source.path}: {name}"
            try:
                entry = reader.read(name)
            except ArdmError as error:
                outcome.fail(label, error)
                continue
            yield _Found(file=label, path=folder / name, entry=entry, num_compressed=reader.listings[name].length)

    def _is_free(self, one: "_Found", outcome: Outcome) -> bool:
        target = self.destination.file or one.target
        if target.exists() and not self.destination.force:
            outcome.fail(one.file, DataError(f"{target} is there already; --force replaces it"))
            return False
        return True

    def _write(self, one: "_Found", content: Content | ArdmError, taken: dict[str, Path], seconds: float) -> Done:
        if isinstance(content, ArdmError):
            raise content
        target = self.destination.file or one.target
        _take(target, taken)
        data = restored_file(content)
        write_file(target, data)
        return Done(
            file=one.file,
            output=str(target),
            kind=content.fields.kind,
            num_bytes=len(data),
            num_compressed=one.num_compressed,
            num_variables=content.num_variables,
            seconds=seconds,
            is_raw=isinstance(one.entry.content, Raw),
        )


@dataclass(frozen=True, kw_only=True)
class _Found:
    """An entry to restore."""

    file: str
    """The compressed file; of an archive's entry, with its name."""
    path: Path
    """Where it goes, but for a suffix that it may need."""
    entry: Entry
    num_compressed: int

    @property
    def target(self) -> Path:
        suffix = restored_suffix(self.entry.fields)
        if suffix is None or self.path.suffix.lower() == suffix:
            return self.path
        return self.path.with_name(self.path.name + suffix)


def _take(target: Path, taken: dict[str, Path]) -> None:
    """Claim a path; a DataError if another file of this run is there. Some systems do not tell cases apart."""
    other = taken.setdefault(str(target).casefold(), target)
    if other is not target and target.exists() and other.exists() and target.samefile(other):
        raise DataError(f"another entry has been restored to {target}; restore this one elsewhere, with --entry and -o")
