"""Compresses users' files, each to its own file or all to one archive.

Files are coded in groups large enough to fill the network's batches but not the memory. With `verify`, nothing is
kept until it has been decoded from its final bytes and compared.
"""

import io
import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ardm.codec.batching import Batching
from ardm.codec.format.archive import ArchiveReader, ArchiveWriter
from ardm.codec.format.entries import Entry, Limits, Raw
from ardm.codec.format.fields import SoundFields
from ardm.codec.format.names import name_problem
from ardm.codec.format.options import Options
from ardm.compression.content_codec import CodecSet, ContentCodec, unless_failed, verified_files
from ardm.compression.outcomes import Done, Outcome, grouped, length_notes, shares
from ardm.compression.sources import Source
from ardm.errors import ArdmError, DataError
from ardm.media.contents import Content
from ardm.media.layout import Placement
from ardm.names import ARCHIVE_SUFFIX, SINGLE_SUFFIX
from ardm.runtime.files import write_file, written_whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Compressor:
    """Compresses files with one model."""

    codec: ContentCodec
    options: Options
    batching: Batching
    verify: bool = True
    """Decode and compare everything before it is kept."""
    force: bool = False
    """Replace existing files."""

    def compress(self, sources: Sequence[Source], output: Path | None = None, *, append: bool = False) -> Outcome:
        """Compress files to one archive if `output` names one, or else each to its own file (see `target_of`)."""
        if output is not None and output.suffix == ARCHIVE_SUFFIX:
            return self._to_archive(sources, output, append)
        return self._to_files(sources, output)

    def _to_files(self, sources: Sequence[Source], output: Path | None) -> Outcome:
        outcome = Outcome()
        for group in self._groups(sources, output, outcome):
            for one, file in zip(group, self._files(group), strict=True):
                path = target_of(one.source, output)
                try:
                    write_file(path, data := unless_failed(file))
                    outcome.done.append(one.done(path, len(data)))
                except (ArdmError, OSError) as error:
                    outcome.fail(one.source.path, error)
        outcome.notes.extend(length_notes(outcome.done))
        return outcome

    def _to_archive(self, sources: Sequence[Source], path: Path, append: bool) -> Outcome:
        """Compress files to an archive, new or existing; if that fails, an existing one stays as it was."""
        outcome = Outcome()
        digests: dict[str, bytes] = {}
        if exists := append and path.exists():
            _check_new(sources, path)
        compressed = itertools.chain.from_iterable(self._groups(sources, path, outcome))
        first = next(compressed, None)
        if first is None:
            return outcome
        with _appended(path) if exists else _created(path, self.options) as (file, writer):
            with writer:
                for one in itertools.chain([first], compressed):
                    writer.add(one.source.name, one.entry)
                    digests[one.source.name] = one.content.digest
                    outcome.done.append(one.done(path, len(one.entry.packed.body)))
            if self.verify:
                self._verify_archive(file, digests)
        outcome.notes.extend(length_notes(outcome.done))
        return outcome

    def _groups(
        self, sources: Sequence[Source], output: Path | None, outcome: Outcome
    ) -> "Iterator[list[_Compressed]]":
        pairs = filter(None, (self._placed(source, output, outcome) for source in sources))
        for group in grouped(pairs, lambda pair: len(pair[1].content.raw), self.batching.num_processes):
            start = time.perf_counter()
            entries = self.codec.encode([placed for _, placed in group], self.options, self.batching)
            contents = [placed.content for _, placed in group]
            seconds = shares(time.perf_counter() - start, [content.num_variables for content in contents])
            compressed = list(map(_Compressed, [source for source, _ in group], contents, entries, seconds))
            group.clear()  # verification needs the memory of the placements
            yield compressed

    def _placed(self, source: Source, output: Path | None, outcome: Outcome) -> tuple[Source, Placement] | None:
        try:
            self._check_target(source, output)
            if source.path.suffix.lower() in (SINGLE_SUFFIX, ARCHIVE_SUFFIX):
                raise DataError(f"{source.path} is already compressed; `ardm decompress` restores it")
            Limits().check("content_bytes", source.path.stat().st_size)
            placed = self.codec.place(self.codec.layout.read(source.path))
        except (ArdmError, OSError) as error:
            outcome.fail(source.path, error)
            return None
        fields, rate = placed.content.fields, self.codec.sample_rate
        if isinstance(fields, SoundFields) and fields.sample_rate != rate:
            rates = f"has {fields.sample_rate} samples per second, but the model is for {rate}"
            outcome.notes.append(f"{source.path} {rates}: expect a longer file")
        return source, placed

    def _check_target(self, source: Source, output: Path | None) -> None:
        if output is not None and output.suffix == ARCHIVE_SUFFIX:
            if problem := name_problem(source.name):
                raise DataError(f"an archive cannot hold the name {source.name!r}: {problem}")
        elif (target := target_of(source, output)).exists() and not self.force:
            raise DataError(f"{target} already exists; --force replaces it")

    def _files(self, group: Sequence["_Compressed"]) -> Sequence[bytes | ArdmError]:
        entries = [one.entry for one in group]
        if not self.verify:
            return list(map(self.codec.file_of, entries))
        return verified_files(self.codec, entries, [one.content for one in group], self.batching)

    def _verify_archive(self, file: io.BufferedRandom, digests: Mapping[str, bytes]) -> None:
        reader, models = ArchiveReader(file), CodecSet([self.codec])
        entries = ((name, reader.read(name)) for name in digests)
        for group in grouped(entries, lambda pair: pair[1].fields.content_bytes, self.batching.num_processes):
            restored = models.decode([entry for _, entry in group], self.batching)
            for (name, _), one in zip(group, restored, strict=True):
                if not isinstance(one, Content) or one.digest != digests[name]:
                    raise ArdmError(f"{name} did not decode exactly, so nothing was kept; please report this")


@dataclass(frozen=True)
class _Compressed:
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


def target_of(source: Source, output: Path | None) -> Path:
    """The path of a file's compressed form: next to it, `output` if that names a single file, or in that folder."""
    if output is None:
        return source.path.with_name(source.path.name + SINGLE_SUFFIX)
    return output if output.suffix == SINGLE_SUFFIX else output / (source.name + SINGLE_SUFFIX)


def _check_new(sources: Sequence[Source], path: Path) -> None:
    """Raise a DataError, before any work is done, if the archive already holds one of the names."""
    with path.open("rb") as file:
        listings = ArchiveReader(file).listings
    for source in sources:
        if source.name in listings:
            raise DataError(f"{path} already holds an entry {source.name}; entries are never replaced")


@contextmanager
def _created(path: Path, options: Options) -> Iterator[tuple[io.BufferedRandom, ArchiveWriter]]:
    """A new archive to write to; it appears at its path only if the block succeeds."""
    with written_whole(path) as temporary, temporary.open("w+b") as file:
        yield file, ArchiveWriter.create(file, options)


@contextmanager
def _appended(path: Path) -> Iterator[tuple[io.BufferedRandom, ArchiveWriter]]:
    """An existing archive to add to; it is truncated to its former length if the block fails."""
    with path.open("r+b") as file:
        length = file.seek(0, io.SEEK_END)
        try:
            yield file, ArchiveWriter.append(file)
            os.fsync(file.fileno())
        except BaseException:
            file.truncate(length)
            raise
