"""Users' files compressed, each to a file of its own or all to an archive.

They are coded in groups that fill the network's batches and not the memory. With `verify` nothing is kept that has not
been decoded again, from the bytes that are kept, and compared.
"""

import io
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ardm.codec.canvases import Batching
from ardm.codec.format.archive import ARCHIVE_SUFFIX, ArchiveReader, ArchiveWriter
from ardm.codec.format.entries import Entry, Limits, Raw, pack
from ardm.codec.format.fields import SoundFields
from ardm.codec.format.names import name_problem
from ardm.codec.format.options import Options
from ardm.codec.format.single import SINGLE_SUFFIX
from ardm.compression.content_codec import CodecSet, ContentCodec
from ardm.compression.outcomes import Done, Outcome, grouped, length_notes
from ardm.compression.sources import Source
from ardm.errors import ArdmError, DataError
from ardm.media.contents import Content
from ardm.runtime.files import write_file, written_whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Compressor:
    """Compresses files with one model."""

    codec: ContentCodec
    options: Options
    batching: Batching
    verify: bool = True
    """Whether everything is decoded and compared before it is kept."""
    force: bool = False
    """Whether existing files are replaced."""

    def to_files(self, sources: Sequence[Source], target: Callable[[Source], Path]) -> Outcome:
        """Compress each file to a file of its own."""
        outcome = Outcome()
        wanted = (source for source in sources if self._is_free(source, target(source), outcome))
        for group in self._groups(wanted, outcome):
            files = [self.codec.file_of(packed.entry) for packed in group]
            is_right = self._are_right([packed.content for packed in group], files)
            for packed, data, right in zip(group, files, is_right, strict=True):
                path = target(packed.source)
                try:
                    if not right:
                        raise ArdmError("it is not restored exactly, so no file was written; please report this")
                    write_file(path, data)
                    outcome.done.append(packed.done(path, len(data)))
                except (ArdmError, OSError) as error:
                    outcome.fail(packed.source.path, error)
        outcome.notes.extend(length_notes(outcome.done))
        return outcome

    def to_archive(self, sources: Sequence[Source], path: Path, *, append: bool = False) -> Outcome:
        """Compress all files to one archive, a new one or one that is there; where that fails it stays as it was."""
        outcome = Outcome()
        digests: dict[str, bytes] = {}
        is_there = append and path.exists()
        if is_there:
            _check_new(sources, path)
        with _appended(path) if is_there else _created(path, self.options) as (file, writer):
            with writer:
                named = (source for source in sources if _has_good_name(source, outcome))
                for packed in (packed for group in self._groups(named, outcome) for packed in group):
                    writer.add(packed.source.name, packed.entry)
                    digests[packed.source.name] = packed.content.digest
                    outcome.done.append(packed.done(path, len(pack(packed.entry)[1])))
            if not digests:
                raise _NothingDone
            if self.verify:
                self._verify_archive(file, digests)
        outcome.notes.extend(length_notes(outcome.done))
        return outcome

    def _groups(self, sources: Iterable[Source], outcome: Outcome) -> "Iterator[list[_Packed]]":
        contents, num_processes = self._contents(sources, outcome), self.batching.num_processes
        for group in grouped(contents, lambda pair: len(pair[1].raw), num_processes):
            start = time.perf_counter()
            entries = self.codec.encode([content for _, content in group], self.options, self.batching)
            seconds = time.perf_counter() - start
            total = sum(content.num_variables for _, content in group)
            yield [
                _Packed(source=s, content=c, entry=entry, seconds=seconds * c.num_variables / max(1, total))
                for (s, c), entry in zip(group, entries, strict=True)
            ]

    def _contents(self, sources: Iterable[Source], outcome: Outcome) -> Iterator[tuple[Source, Content]]:
        for source in sources:
            try:
                if source.path.suffix.lower() in (SINGLE_SUFFIX, ARCHIVE_SUFFIX):
                    raise DataError(f"{source.path} is compressed already; `ardm decompress` restores it")
                Limits().check("content_bytes", source.path.stat().st_size)
                content = self.codec.layout.read(source.path)
                self.codec.place(content)
            except (ArdmError, OSError) as error:
                outcome.fail(source.path, error)
                continue
            outcome.notes.extend(self._notes(source, content))
            yield source, content

    def _notes(self, source: Source, content: Content) -> Iterator[str]:
        fields, rate = content.fields, self.codec.sample_rate
        if isinstance(fields, SoundFields) and fields.sample_rate != rate:
            yield f"{source.path} has {fields.sample_rate} Hz, and the model is for {rate} Hz: expect more bits"

    def _is_free(self, source: Source, target: Path, outcome: Outcome) -> bool:
        if target.exists() and not self.force:
            outcome.fail(source.path, DataError(f"{target} is there already; --force replaces it"))
            return False
        return True

    def _are_right(self, contents: Sequence[Content], files: Sequence[bytes]) -> list[bool]:
        """Whether each compressed file restores to its content."""
        if not self.verify:
            return [True] * len(contents)
        models = CodecSet([self.codec])
        restored = models.decode([models.entry_of(data) for data in files], self.batching)
        return [one == content for one, content in zip(restored, contents, strict=True)]

    def _verify_archive(self, file: io.BufferedRandom, digests: Mapping[str, bytes]) -> None:
        reader, models = ArchiveReader(file), CodecSet([self.codec])
        entries = ((name, reader.read(name)) for name in digests)
        for group in grouped(entries, lambda pair: pair[1].fields.content_bytes, self.batching.num_processes):
            restored = models.decode([entry for _, entry in group], self.batching)
            for (name, _), one in zip(group, restored, strict=True):
                if not isinstance(one, Content) or one.digest != digests[name]:
                    raise ArdmError(f"{name} is not restored exactly, so nothing was kept; please report this")


@dataclass(frozen=True, kw_only=True)
class _Packed:
    """A user's file in compressed form."""

    source: Source
    content: Content
    entry: Entry
    seconds: float

    def done(self, output: Path, num_compressed: int) -> Done:
        return Done(
            file=str(self.source.path),
            output=str(output),
            kind=self.content.fields.kind,
            num_bytes=self.source.path.stat().st_size,
            num_compressed=num_compressed,
            num_variables=self.content.num_variables,
            seconds=self.seconds,
            is_raw=isinstance(self.entry.content, Raw),
        )


def _has_good_name(source: Source, outcome: Outcome) -> bool:
    problem = name_problem(source.name)
    if problem:
        outcome.fail(source.path, DataError(f"an archive cannot hold the name {source.name!r}: {problem}"))
    return problem is None


def _check_new(sources: Sequence[Source], path: Path) -> None:
    """A DataError, before any work is done, for a name that an archive has already."""
    with path.open("rb") as file:
        reader = ArchiveReader(file)
    for source in sources:
        if source.name in reader:
            raise DataError(f"{path} already holds an entry {source.name}; archives keep what they have")


class _NothingDone(Exception):
    """No file could be read, so there is no archive to write."""


@contextmanager
def _created(path: Path, options: Options) -> Iterator[tuple[io.BufferedRandom, ArchiveWriter]]:
    """A new archive, which takes its place when the block succeeds."""
    with _unless_nothing_done(), written_whole(path) as temporary, temporary.open("w+b") as file:
        yield file, ArchiveWriter.create(file, options)


@contextmanager
def _appended(path: Path) -> Iterator[tuple[io.BufferedRandom, ArchiveWriter]]:
    """An archive to add to, which is cut back to what it was unless the block succeeds."""
    with _unless_nothing_done(), path.open("r+b") as file:
        length = file.seek(0, io.SEEK_END)
        try:
            yield file, ArchiveWriter.append(file)
            os.fsync(file.fileno())
        except BaseException:
            file.truncate(length)
            raise


@contextmanager
def _unless_nothing_done() -> Iterator[None]:
    try:
        yield
    except _NothingDone:
        return
