"""Data sets written into packed folders, one file at a time, so that little is in memory at once."""

import codecs
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Integer

from ardm.data.alphabet import BYTES, Alphabet, alphabet_of_codes, check_utf8
from ardm.data.cifar10 import load_cifar10
from ardm.data.corpus import SPLITS, Piece, update_digest
from ardm.data.folders import FileSplits, split_folder
from ardm.data.image_files import IMAGE_SUFFIXES
from ardm.data.images import Pixels, read_image
from ardm.data.packed.description import (
    DataKind,
    Description,
    SplitSize,
    is_packed,
    is_unfinished,
    write_description,
)
from ardm.data.packed.shards import SHARD_BYTES, RunWriter
from ardm.data.sc09 import RATE, read_digit, sc09_files, sc09_title
from ardm.data.sound_files import SOUND_SUFFIXES
from ardm.data.sounds import FOLDER_HOLDS, Samples, check_rate, rate_digest, read_clip
from ardm.data.text import alphabet_digest, load_text8, text_files
from ardm.errors import UsageError

READ_BYTES = 2**20
"""Bytes of a text read at once."""

Advance = Callable[[int], None]
Writers = Callable[[str, str], RunWriter]
"""Makes the writer of a folder's run, given its name and type."""


@runtime_checkable
class Source(Protocol):
    """A data set that is read from beginning to end."""

    @property
    def total(self) -> int:
        """Amount to read, in the units of `advance`."""

    def write(self, writers: Writers, advance: Advance) -> Description:
        """Write all values, reporting progress."""


def pack(
    source: Source, folder: Path, *, shard_bytes: int = SHARD_BYTES, advance: Advance = lambda count: None
) -> Description:
    """Write a data set into a new folder, which is removed if that fails."""
    check_new(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        about = source.write(partial(RunWriter, folder, shard_bytes=shard_bytes), advance)
        write_description(folder, about)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return about


def check_new(folder: Path) -> None:
    """Raise a UsageError for a folder with files that packing would overwrite or mix with its own."""
    if is_unfinished(folder):
        raise UsageError(f"{folder} holds a packing that was interrupted; remove it first")
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; choose a new folder to pack into")


def open_source(kind: DataKind, path: Path, *, channels: Literal[1, 3] = 3) -> Source:
    """The data set of a kind at a path, as `ardm train` would take it."""
    if is_packed(path):
        raise UsageError(f"{path} is a packed data set already")
    match kind:
        case "characters" | "bytes":
            return TextFiles(path=path, kind=kind)
        case "text8":
            return Text8(path=path)
        case "cifar10":
            corpus = load_cifar10(path)
            splits = [corpus.split(name) for name in SPLITS]
            facts = {"kind": kind, "title": corpus.title, "is_published": True, "channels": 3}
            return Images(facts=facts, splits=splits, total=sum(map(len, splits)))
        case "images":
            files = split_folder(path, IMAGE_SUFFIXES, "images")
            images = [map(partial(read_image, channels=channels), part) for part in files]
            facts = {"kind": kind, "title": path.absolute().name, "channels": channels}
            return Images(facts=facts, splits=images, total=sum(map(len, files)))
        case "sc09":
            return SoundFiles(kind="sc09", files=sc09_files(path), folder=path)
        case "audio":
            return SoundFiles(kind="audio", files=split_folder(path, SOUND_SUFFIXES, FOLDER_HOLDS), folder=path)


@dataclass(frozen=True, kw_only=True)
class Text8:
    """The published text, checked as a whole."""

    path: Path
    total: int = 1

    def write(self, writers: Writers, advance: Advance) -> Description:
        """Check and write the text."""
        corpus = load_text8(self.path)
        facts = {"kind": "text8", "title": corpus.title, "is_published": True}
        about = write_text(writers, [corpus.classes], corpus.alphabet, facts, corpus.num_held_out)
        advance(1)
        return about


@dataclass(frozen=True, kw_only=True)
class TextFiles:
    """A user's texts or bytes; characters are read twice, as the alphabet must be known before the first class."""

    path: Path
    kind: Literal["characters", "bytes"]

    @property
    def total(self) -> int:
        """Bytes to read."""
        return sum(file.stat().st_size for file in text_files(self.path)) * (2 if self.kind == "characters" else 1)

    def write(self, writers: Writers, advance: Advance) -> Description:
        """Write the classes of all files, joined."""
        alphabet = BYTES if self.kind == "bytes" else self._alphabet(advance)
        facts = {"kind": self.kind, "title": self.path.absolute().name}
        return write_text(writers, self._classes(alphabet, advance), alphabet, facts)

    def _alphabet(self, advance: Advance) -> Alphabet:
        seen = np.zeros(0x110000, bool)
        for file in text_files(self.path):
            for codes in streamed_code_points(file, advance):
                seen[codes] = True
        return alphabet_of_codes(np.flatnonzero(seen), str(self.path))

    def _classes(self, alphabet: Alphabet, advance: Advance) -> Iterator[Integer[np.ndarray, "_"]]:
        for file in text_files(self.path):
            if alphabet.characters is None:
                yield from (np.frombuffer(part, np.uint8) for part in streamed(file, advance))
            else:
                yield from (alphabet.classes_of(codes, str(file)) for codes in streamed_code_points(file, advance))


def write_text(
    writers: Writers,
    parts: Iterable[Integer[np.ndarray, "_"]],
    alphabet: Alphabet,
    facts: dict[str, Any],
    num_held_out: int | None = None,
) -> Description:
    """Write the classes of a text, with its end (by default a tenth) held out, as `TextCorpus` has it."""
    dtype, num_classes, digest = "|u1" if alphabet.num_classes <= 256 else "<i2", 0, alphabet_digest(alphabet)
    with writers("values", dtype) as values:
        for classes in parts:
            values.append(classes)
            digest.update(classes.astype(dtype, copy=False).tobytes())
            num_classes += len(classes)
        shards = values.finish()
    held = num_classes // 20 if num_held_out is None else num_held_out
    counts = dict(zip(SPLITS, (num_classes - 2 * held, held, held), strict=True))
    return Description(
        fingerprint=digest.hexdigest(),
        dtype=dtype,
        splits={name: SplitSize(num_items=1, num_values=count) for name, count in counts.items()},
        values=shards,
        characters=alphabet.characters,
        **facts,
    )


def streamed(file: Path, advance: Advance) -> Iterator[bytes]:
    """The parts of a file's content."""
    with file.open("rb") as opened:
        while part := opened.read(READ_BYTES):
            yield part
            advance(len(part))


def streamed_code_points(file: Path, advance: Advance) -> Iterator[Integer[np.ndarray, "_"]]:
    """The code points of a UTF-8 file in parts, none of them empty."""
    decoder, done = codecs.getincrementaldecoder("utf-8")(), 0
    for part in chain(streamed(file, advance), [b""]):
        pending = decoder.getstate()[0]
        try:
            text = decoder.decode(part, final=not part)
        except UnicodeDecodeError:
            check_utf8(pending + part, str(file), done - len(pending))
            raise
        done += len(part)
        if text:
            yield np.frombuffer(text.encode("utf-32-le"), "<u4")


@dataclass(frozen=True, kw_only=True)
class Images:
    """Images in three splits, each read on its turn."""

    facts: dict[str, Any]
    """Fields of the description."""
    splits: Sequence[Iterable[Pixels]]
    total: int
    """Images to read."""

    def write(self, writers: Writers, advance: Advance) -> Description:
        """Write the pixels and the sizes of all images."""
        return Description(**self.facts, **write_pieces(writers, "|u1", hashlib.sha256(), self.splits, advance))


@dataclass(frozen=True, kw_only=True)
class SoundFiles:
    """Sound files of one rate, each read on its turn."""

    kind: Literal["sc09", "audio"]
    files: FileSplits
    folder: Path

    @property
    def total(self) -> int:
        """Files to read."""
        return sum(map(len, self.files))

    def write(self, writers: Writers, advance: Advance) -> Description:
        """Write the samples and the lengths of all files."""
        is_sc09 = self.kind == "sc09"
        reader = SoundReader(self)
        splits = [map(reader.read, files) for files in self.files]
        found = write_pieces(writers, "<i2", rate_digest(reader.rate), splits, advance)
        return Description(
            kind=self.kind,
            title=sc09_title(self.files) if is_sc09 else self.folder.absolute().name,
            is_published=is_sc09,
            sample_rate=reader.rate,
            pads=is_sc09,
            num_mixed=reader.num_mixed,
            **found | {"size": None},
        )


class SoundReader:
    """Reads files of one rate and counts those that it mixes down."""

    def __init__(self, source: SoundFiles) -> None:
        self.source, self.num_mixed = source, 0
        self.first = min(chain(*source.files))
        self.rate = RATE if source.kind == "sc09" else read_clip(self.first, mix_down=True).rate

    def read(self, file: Path) -> Samples:
        """The samples of a file as a corpus of its kind has them."""
        if self.source.kind == "sc09":
            return read_digit(file)
        clip = read_clip(file, mix_down=True)
        check_rate(clip.rate, file, self.rate, self.first, self.source.folder)
        self.num_mixed += clip.num_channels > 1
        return clip.samples


def write_pieces(
    writers: Writers, dtype: str, digest: "hashlib._Hash", splits: Iterable[Iterable[Piece]], advance: Advance
) -> dict[str, Any]:
    """Write the images or sounds of three splits and their sizes; returns fields of their description."""
    counts: dict[str, SplitSize] = {}
    seen: set[tuple[int, ...]] = set()  # sizes, up to two different ones
    with writers("values", dtype) as values, writers("sizes", "<i8") as sizes:
        for name, pieces in zip(SPLITS, splits, strict=True):
            num_items = num_values = 0
            for piece in pieces:
                update_digest(digest, piece)
                values.append(piece)
                size = piece.shape[:2]
                sizes.append(np.array(size))
                num_items, num_values = num_items + 1, num_values + piece.size
                if len(seen) < 2:
                    seen.add(size)
                advance(1)
            counts[name] = SplitSize(num_items=num_items, num_values=num_values)
        return {
            "dtype": dtype,
            "splits": counts,
            "values": values.finish(),
            "sizes": sizes.finish(),
            "fingerprint": digest.hexdigest(),
            "size": next(iter(seen)) if len(seen) == 1 else None,
        }
