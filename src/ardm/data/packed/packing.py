"""Data sets into packed folders, a file at a time: however large they are, little of them is in memory at once."""

import codecs
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Integer

from ardm.data.alphabet import BYTES, Alphabet, alphabet_of_codes, check_utf8
from ardm.data.cifar10 import load_cifar10
from ardm.data.folders import FileSplits, split_folder
from ardm.data.image_files import IMAGE_SUFFIXES
from ardm.data.images import Pixels, read_image
from ardm.data.packed.description import (
    SPLITS,
    Description,
    PackedKind,
    SplitSize,
    is_packed,
    is_unfinished,
    write_description,
)
from ardm.data.packed.shards import SHARD_BYTES, RunWriter
from ardm.data.sc09 import RATE, read_clip, sc09_files, sc09_title
from ardm.data.sound_files import AUDIO_SUFFIXES
from ardm.data.sounds import FOLDER_HOLDS, Samples, check_rate, read_audio
from ardm.data.text import load_text8, text_files
from ardm.errors import UsageError

READ_BYTES = 2**20
"""Read at once of a text."""

Advance = Callable[[int], None]


@runtime_checkable
class Source(Protocol):
    """A data set that is read from its beginning to its end."""

    @property
    def total(self) -> int:
        """How much there is to read, in units of its own."""

    def write(self, writers: "Writers", advance: Advance) -> Description:
        """Write all values, telling how much was read."""


@dataclass(frozen=True, kw_only=True)
class Writers:
    """Makes the writers of a folder's runs."""

    folder: Path
    shard_bytes: int

    def run(self, name: str, dtype: str) -> RunWriter:
        """A writer of one of them."""
        return RunWriter(self.folder, name, dtype, self.shard_bytes)


def pack(
    source: Source, folder: Path, *, shard_bytes: int = SHARD_BYTES, advance: Advance = lambda count: None
) -> Description:
    """Write a data set into a new folder; what was written is removed if that fails."""
    check_new(folder)
    with removed_on_failure(folder):
        about = source.write(Writers(folder=folder, shard_bytes=shard_bytes), advance)
        write_description(folder, about)
    return about


def check_new(folder: Path) -> None:
    """A usage error for a folder that packing would write over or mix with other files."""
    if is_unfinished(folder):
        raise UsageError(f"{folder} holds a packing that was interrupted; remove it first")
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; choose a new folder to pack into")


@contextmanager
def removed_on_failure(folder: Path) -> Iterator[None]:
    """A new folder that does not stay unless the block succeeds."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def open_source(kind: PackedKind, path: Path, *, channels: Literal[1, 3] = 3) -> Source:
    """The data set of a kind at a path, as `ardm train` would take it."""
    if is_packed(path):
        raise UsageError(f"{path} is a packed data set already")
    match kind:
        case "characters" | "bytes":
            return TextFiles(path=path, kind=kind)
        case "text8":
            return Text8(path=path)
        case "cifar10":
            return cifar10_source(path)
        case "images":
            return image_source(path, channels)
        case "sc09":
            files = sc09_files(path)
            return SoundFiles(kind="sc09", title=sc09_title(files), files=files, folder=path, is_sc09=True)
        case "audio":
            files = split_folder(path, AUDIO_SUFFIXES, FOLDER_HOLDS)
            return SoundFiles(kind="audio", title=path.absolute().name, files=files, folder=path)


@dataclass(frozen=True, kw_only=True)
class Text8:
    """The published text, which is small enough to be checked as a whole."""

    path: Path

    @property
    def total(self) -> int:
        """One text."""
        return 1

    def write(self, writers: Writers, advance: Advance) -> Description:
        """Check and write it."""
        corpus = load_text8(self.path)
        with writers.run("values", "|u1") as values:
            values.append(corpus.classes)
            advance(1)
            return Description(
                kind="text8",
                title=corpus.title,
                is_published=True,
                fingerprint=corpus.fingerprint,
                dtype="|u1",
                splits=text_splits(len(corpus.classes), corpus.num_held_out),
                values=values.finish(),
                characters=corpus.alphabet.characters,
            )


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
        dtype, num_classes = "|u1" if alphabet.num_classes <= 256 else "<i2", 0
        digest = hashlib.sha256(repr(alphabet.characters).encode())
        with writers.run("values", dtype) as values:
            for classes in self._classes(alphabet, advance):
                values.append(classes)
                digest.update(classes.astype(dtype, copy=False).tobytes())
                num_classes += len(classes)
            return Description(
                kind=self.kind,
                title=self.path.absolute().name,
                fingerprint=digest.hexdigest(),
                dtype=dtype,
                splits=text_splits(num_classes, num_classes // 20),
                values=values.finish(),
                characters=alphabet.characters,
            )

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


def text_splits(num_classes: int, num_held_out: int) -> dict[str, SplitSize]:
    """A text with its end held out, as `TextCorpus` has it."""
    counts = (num_classes - 2 * num_held_out, num_held_out, num_held_out)
    return {name: SplitSize(num_items=1, num_values=count) for name, count in zip(SPLITS, counts, strict=True)}


def streamed(file: Path, advance: Advance) -> Iterator[bytes]:
    """The content of a file in parts."""
    with file.open("rb") as opened:
        while part := opened.read(READ_BYTES):
            yield part
            advance(len(part))


def streamed_code_points(file: Path, advance: Advance) -> Iterator[Integer[np.ndarray, "_"]]:
    """The code points of a UTF-8 file in parts, none of them empty."""
    decoder, done = codecs.getincrementaldecoder("utf-8")(), 0
    for part in streamed_with_end(file, advance):
        pending = decoder.getstate()[0]
        try:
            text = decoder.decode(part, final=not part)
        except UnicodeDecodeError:
            check_utf8(pending + part, str(file), done - len(pending))
            raise
        done += len(part)
        if text:
            yield np.frombuffer(text.encode("utf-32-le"), "<u4")


def streamed_with_end(file: Path, advance: Advance) -> Iterator[bytes]:
    """The parts of a file and, to end with, an empty one."""
    yield from streamed(file, advance)
    yield b""


class PieceWriter:
    """Writes images or sounds, their sizes and the fingerprint that a corpus of them has."""

    def __init__(self, writers: Writers, dtype: str, digest: "hashlib._Hash", advance: Advance) -> None:
        self.values, self.sizes = writers.run("values", dtype), writers.run("sizes", "<i8")
        self.dtype, self.digest, self.advance = dtype, digest, advance
        self.splits: dict[str, SplitSize] = {}
        self._found: set[tuple[int, ...]] = set()

    def __enter__(self) -> "PieceWriter":
        return self

    def __exit__(self, *error: Any) -> None:
        self.values.__exit__(*error)
        self.sizes.__exit__(*error)

    def write_split(self, name: str, pieces: Iterable[Integer[np.ndarray, "..."]]) -> None:
        """Write the pieces of the next split."""
        num_items = num_values = 0
        for piece in pieces:
            self._write(piece)
            num_items, num_values = num_items + 1, num_values + piece.size
            self.advance(1)
        self.splits[name] = SplitSize(num_items=num_items, num_values=num_values)

    def _write(self, piece: Integer[np.ndarray, "..."]) -> None:
        self.digest.update(repr(piece.shape).encode())
        self.digest.update(piece.astype(self.dtype, copy=False).tobytes())
        self.values.append(piece)
        self.sizes.append(np.array(piece.shape[:2]))
        if len(self._found) < 2:
            self._found.add(piece.shape[:2])

    def common_size(self) -> tuple[int, int] | None:
        """The height and the width of all images, if they have the same."""
        return next(iter(self._found)) if len(self._found) == 1 else None  # type: ignore[return-value]

    def finish(self) -> dict[str, Any]:
        """What a description says of all that was written."""
        return {
            "dtype": self.dtype,
            "splits": self.splits,
            "values": self.values.finish(),
            "sizes": self.sizes.finish(),
            "fingerprint": self.digest.hexdigest(),
        }


@dataclass(frozen=True, kw_only=True)
class Images:
    """Images of three splits, in the order of `SPLITS`, each read when its turn comes."""

    kind: Literal["cifar10", "images"]
    title: str
    is_published: bool = False
    channels: Literal[1, 3]
    splits: tuple[Iterable[Pixels], ...]
    total: int
    """Images."""

    def write(self, writers: Writers, advance: Advance) -> Description:
        """Write the pixels and the sizes of all images."""
        with PieceWriter(writers, "|u1", hashlib.sha256(), advance) as pieces:
            for name, images in zip(SPLITS, self.splits, strict=True):
                pieces.write_split(name, images)
            return Description(
                kind=self.kind,
                title=self.title,
                is_published=self.is_published,
                channels=self.channels,
                size=pieces.common_size(),
                **pieces.finish(),
            )


def image_source(path: Path, channels: Literal[1, 3]) -> Images:
    """The images of a user's folder, split by their names."""
    files = split_folder(path, IMAGE_SUFFIXES, "images")
    splits = tuple((read_image(file, channels) for file in part) for part in in_order(files))
    return Images(
        kind="images",
        title=path.absolute().name,
        channels=channels,
        splits=splits,
        total=sum(map(len, in_order(files))),
    )


def cifar10_source(path: Path) -> Images:
    """CIFAR-10, which is small enough to be checked as a whole."""
    corpus = load_cifar10(path)
    splits = (corpus.train, corpus.valid, corpus.test)
    return Images(
        kind="cifar10",
        title=corpus.title,
        is_published=True,
        channels=3,
        splits=splits,
        total=sum(map(len, splits)),
    )


@dataclass(frozen=True, kw_only=True)
class SoundFiles:
    """Sound files of one rate, each read when its turn comes."""

    kind: Literal["sc09", "audio"]
    title: str
    files: FileSplits
    folder: Path
    is_sc09: bool = False

    @property
    def total(self) -> int:
        """Files."""
        return sum(map(len, in_order(self.files)))

    def write(self, writers: Writers, advance: Advance) -> Description:
        """Write the samples and the lengths of all files."""
        reader = SoundReader(self)
        with PieceWriter(writers, "<i2", hashlib.sha256(repr(reader.rate).encode()), advance) as pieces:
            for name, files in zip(SPLITS, in_order(self.files), strict=True):
                pieces.write_split(name, map(reader.read, files))
            return Description(
                kind=self.kind,
                title=self.title,
                is_published=self.is_sc09,
                sample_rate=reader.rate,
                pads=self.is_sc09,
                num_mixed=reader.num_mixed,
                **pieces.finish(),
            )


class SoundReader:
    """Reads files of one rate and counts those that it mixes down."""

    def __init__(self, source: SoundFiles) -> None:
        self.source, self.num_mixed = source, 0
        self.first = min(file for part in in_order(source.files) for file in part)
        self.rate = RATE if source.is_sc09 else read_audio(self.first, mix_down=True).rate

    def read(self, file: Path) -> Samples:
        """The samples of a file as a corpus of its kind has them."""
        if self.source.is_sc09:
            return read_clip(file)
        clip = read_audio(file, mix_down=True)
        check_rate(clip.rate, file, self.rate, self.first, self.source.folder)
        self.num_mixed += clip.num_channels > 1
        return clip.samples


def in_order(files: FileSplits) -> tuple[list[Path], ...]:
    """The files of each split, in the order of `SPLITS`."""
    return files.train, files.valid, files.test
