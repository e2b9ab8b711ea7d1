"""Restores compressed files and archives to files, many at once."""

import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ardm.codec.batching import Batching
from ardm.codec.format.archive import ArchiveReader, is_archive
from ardm.codec.format.entries import Coded, Entry, Limits, Raw
from ardm.codec.format.short import is_short, read_short
from ardm.codec.format.single import read_single
from ardm.compression.content_codec import CodecSet
from ardm.compression.outcomes import Done, Outcome, grouped, shares
from ardm.compression.sources import Source, check_names
from ardm.errors import ArdmError, DataError, UnknownModelError
from ardm.media.contents import Content, num_variables, restored_file, restored_suffix
from ardm.names import ARCHIVE_SUFFIX, SINGLE_SUFFIX
from ardm.runtime.files import check_writable, check_writable_folder, write_file


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where restored files go."""

    folder: Path | None = None
    """The folder to restore to; None: next to the compressed file or, for an archive, a folder named after it."""
    file: Path | None = None
    """The path of the only restored file."""
    force: bool = False
    """Replace existing files."""

    @classmethod
    def of(
        cls, output: Path | None, sources: Sequence[Source], entries: Sequence[str], *, force: bool
    ) -> "Destination":
        """A file if `output` has a suffix and there is one thing to restore, or else a folder; both are checked."""
        if output is None or output.is_dir() or not output.suffix or not _is_one(sources, entries):
            if output is not None:
                check_writable_folder(output)
                check_names(source for source in sources if source.path.suffix != ARCHIVE_SUFFIX)
            return cls(folder=output, force=force)
        check_writable(output)
        return cls(file=output, force=force)


@dataclass(frozen=True, kw_only=True, eq=False)
class Restorer:
    """Restores compressed files and archives with the given models.

    Damage does not stop the rest from being restored, but if a model is missing, nothing is restored.
    """

    models: CodecSet
    batching: Batching
    destination: Destination
    limits: Limits = field(default_factory=Limits)

    def restore(self, sources: Sequence[Source], entries: Sequence[str] = ()) -> Outcome:
        """Restore compressed files and archives, or only the named entries of archives."""
        self._check_models(sources, entries)
        outcome = Outcome()
        taken: dict[str, list[Path]] = {}
        found = self._found(sources, entries, outcome)
        for group in grouped(found, lambda one: one.entry.fields.content_bytes, self.batching.num_processes):
            start = time.perf_counter()
            restored = self.models.decode([one.entry for one in group], self.batching)
            seconds = shares(time.perf_counter() - start, [num_variables(one.entry.fields) for one in group])
            for one, content, share in zip(group, restored, seconds, strict=True):
                try:
                    outcome.done.append(self._write(one, content, taken, share))
                except (ArdmError, OSError) as error:
                    outcome.fail(one.file, error)
        return outcome

    def _check_models(self, sources: Sequence[Source], entries: Sequence[str]) -> None:
        """Raise an UnknownModelError that names all missing models, if there are any."""
        files: dict[str, list[Path]] = {}
        for source in sources:
            for model in self._models_of(source, entries):
                files.setdefault(model, []).append(source.path)
        missing = [model for model in files if not self.models.has(model)]
        if missing:
            subjects = (f"{f[0]} needs" if len(f := files[model]) == 1 else f"{len(f)} files need" for model in missing)
            needs = ", ".join(f"{files} model {model}" for files, model in zip(subjects, missing, strict=True))
            are, them = ("are", "them") if len(missing) > 1 else ("is", "it")
            message = f"nothing was restored: {needs}, which {are} not available; give {them} with --model"
            raise UnknownModelError(message)

    def _models_of(self, source: Source, entries: Sequence[str]) -> list[str]:
        """The models that entries name, in hexadecimal; none for unreadable files, which are reported when restored."""
        try:
            with source.path.open("rb") as file:
                if is_archive(file.read(8)):
                    listings = ArchiveReader(file, self.limits).listings
                    options = [listings[name].header.options for name in entries or listings if name in listings]
                    return [one.model.hex() for one in options if one is not None]
            data = self._bytes_of(source)
            if is_short(data):
                return [read_short(data).model]
            content = read_single(data, self.limits).content
            return [content.options.model.hex()] if isinstance(content, Coded) else []
        except (ArdmError, OSError):
            return []

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

    def _bytes_of(self, source: Source) -> bytes:
        self.limits.check("content_bytes", source.path.stat().st_size)
        return source.path.read_bytes()

    def _in_file(self, source: Source) -> "_Found":
        data, folder = self._bytes_of(source), self.destination.folder
        entry = self.models.entry_of(data, self.limits)
        path = (folder or source.path.parent) / _stem(source.name if folder else source.path.name, SINGLE_SUFFIX)
        return _Found(str(source.path), self._target(path, entry), entry, len(data))

    def _in_archive(
        self, source: Source, file: io.BufferedReader, entries: Sequence[str], outcome: Outcome
    ) -> "Iterator[_Found]":
        reader = ArchiveReader(file, self.limits)
        if reader.recovered:
            outcome.notes.append(f"{source.path} has a damaged index; its entries were found by a scan")
        folder = self.destination.folder or source.path.with_name(_stem(source.path.name, ARCHIVE_SUFFIX))
        for name in entries or reader.listings:
            label = f"{source.path}: {name}"
            try:
                entry = reader.read(name)
                target = self._target(folder / name, entry)
            except ArdmError as error:
                outcome.fail(label, error)
                continue
            yield _Found(label, target, entry, reader.listings[name].length)

    def _target(self, path: Path, entry: Entry) -> Path:
        """The given file, or else a path with the suffix that it may need; a DataError if it cannot be written."""
        target, suffix = self.destination.file or path, restored_suffix(entry.fields)
        if suffix is not None and target.suffix.lower() != suffix:
            if self.destination.file:
                raise DataError(f"it is restored as {suffix[1:].upper()}; give a name that ends in {suffix}")
            target = path.with_name(path.name + suffix)
        if target.exists() and not self.destination.force:
            raise DataError(f"{target} already exists; --force replaces it")
        return target

    def _write(self, one: "_Found", content: Content | ArdmError, taken: dict[str, list[Path]], seconds: float) -> Done:
        if isinstance(content, ArdmError):
            raise content
        others = taken.setdefault(str(one.target).casefold(), [])  # some systems ignore case
        if one.target.exists() and any(other.exists() and one.target.samefile(other) for other in others):
            problem = f"another entry has been restored to {one.target}"
            raise DataError(f"{problem}; restore this one elsewhere, with --entry and -o")
        others.append(one.target)
        data = restored_file(content)
        write_file(one.target, data)
        return Done(
            file=one.file,
            output=str(one.target),
            kind=content.fields.kind,
            num_bytes=len(data),
            num_compressed=one.num_compressed,
            num_variables=content.num_variables,
            seconds=seconds,
            is_raw=isinstance(one.entry.content, Raw),
        )


@dataclass(frozen=True)
class _Found:
    """An entry to restore."""

    file: str
    """The compressed file; for an entry, the archive and the entry's name."""
    target: Path
    entry: Entry
    num_compressed: int


def _is_one(sources: Sequence[Source], entries: Sequence[str]) -> bool:
    with sources[0].path.open("rb") as file:
        return len(sources) == 1 and (not is_archive(file.read(8)) or len(entries) == 1)


def _stem(name: str, suffix: str) -> str:
    return name.removesuffix(suffix) if name.endswith(suffix) else f"{name}.restored"
