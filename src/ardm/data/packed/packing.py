"""Data sets written into packed folders, one file at a time, so that little is in memory at once."""

import codecs
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Integer

from ardm.data.alphabet import BYTES, Alphabet, alphabet_of_codes, check_utf8
from ardm.data.cifar10 import load_cifar10
from ardm.data.corpus import SPLITS, Piece, update_digest
from ardm.data.folders import FileSplits, split_folder
from ardm.data.image_files import IMAGE_SUFFIXES
from ardm.data.images import read_image
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


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set that is read from beginning to end."""

    total: int
    """Amount to read, in the units of `advance`."""
    write: Callable[[Writers, Advance], Description]
    """Writes all values, reporting progress."""


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
        raise UsageError(f"{folder} holds a data set whose packing was interrupted; remove it first")
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; choose a new folder to pack into")


def open_source(kind: DataKind, path: Path, *, channels: Literal[1, 3] = 3) -> Source:
    """The data set of a kind at a path, as `ardm train` would take it."""
    if is_packed(path):
        raise UsageError(f"{path} is already a packed data set")
    facts: dict[str, Any] = {"kind": kind, "title": path.absolute().name}
    match kind:
        case "characters" | "bytes":
            num_bytes = sum(file.stat().st_size for file in text_files(path))
            is_read_twice = kind == "characters"  # the alphabet must be known before the first class
            return Source(total=(1 + is_read_twice) * num_bytes, write=partial(write_text_files, path, facts))
        case "text8":
            return Source(total=1, write=partial(write_text8, path))
        case "cifar10":
            corpus = load_cifar10(path)
            splits = [corpus.split(name) for name in SPLITS]
            facts |= {"title": corpus.title, "is_published": True, "channels": 3}
            write = partial(write_pieces, facts, "|u1", hashlib.sha256(), splits)
            return Source(total=sum(map(len, splits)), write=write)
        case "images":
            files = split_folder(path, IMAGE_SUFFIXES, "images")
            images = [map(partial(read_image, channels=channels), part) for part in files]
            facts |= {"channels": channels}
            write = partial(write_pieces, facts, "|u1", hashlib.sha256(), images)
            return Source(total=sum(map(len, files)), write=write)
        case "sc09":
            files = sc09_files(path)
            facts |= {"title": sc09_title(files), "is_published": True, "pads": True, "sample_rate": RATE}
            write = partial(write_pieces, facts, "<i2", rate_digest(RATE), [map(read_digit, part) for part in files])
            return Source(total=sum(map(len, files)), write=write)
        case "audio":
            files = split_folder(path, SOUND_SUFFIXES, FOLDER_HOLDS)
            return Source(total=sum(map(len, files)), write=partial(write_sounds, files, path, facts))


def write_text8(path: Path, writers: Writers, advance: Advance) -> Description:
    """Check and write the published text."""
    corpus = load_text8(path)
    facts = {"kind": "text8", "title": corpus.title, "is_published": True}
    about = write_text(writers, [corpus.classes], corpus.alphabet, facts, corpus.num_held_out)
    advance(1)
    return about


def write_text_files(path: Path, facts: dict[str, Any], writers: Writers, advance: Advance) -> Description:
    """Write the classes of a user's texts or bytes, joined."""
    files = text_files(path)
    if facts["kind"] == "bytes":
        parts = (np.frombuffer(part, np.uint8) for file in files for part in streamed(file, advance))
        return write_text(writers, parts, BYTES, facts)
    seen = np.zeros(0x110000, bool)
    for file in files:
        for codes in streamed_code_points(file, advance):
            seen[codes] = True
    alphabet = alphabet_of_codes(np.flatnonzero(seen), str(path))
    classes = (alphabet.classes_of(c, str(file)) for file in files for c in streamed_code_points(file, advance))
    return write_text(writers, classes, alphabet, facts)


def write_text(
    writers: Writers,
    parts: Iterable[Integer[np.ndarray, "_"]],
    alphabet: Alphabet,
    facts: dict[str, Any],
    num_held_out: int | None = None,
) -> Description:
    """Write the classes of a text, with its end (by default a tenth) held out, as in `TextCorpus`."""
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


def write_sounds(
    files: FileSplits, folder: Path, facts: dict[str, Any], writers: Writers, advance: Advance
) -> Description:
    """Write the samples and the lengths of sound files of one rate, mixed down to mono."""
    first, num_mixed = min(chain(*files)), 0
    rate = read_clip(first, mix_down=True).rate

    def read(file: Path) -> Samples:
        nonlocal num_mixed
        clip = read_clip(file, mix_down=True)
        check_rate(clip.rate, file, rate, first, folder)
        num_mixed += clip.num_channels > 1
        return clip.samples

    splits = [map(read, part) for part in files]
    about = write_pieces(facts | {"sample_rate": rate}, "<i2", rate_digest(rate), splits, writers, advance)
    return replace(about, num_mixed=num_mixed)


def write_pieces(
    facts: dict[str, Any],
    dtype: str,
    digest: "hashlib._Hash",
    splits: Sequence[Iterable[Piece]],
    writers: Writers,
    advance: Advance,
) -> Description:
    """Write the images or sounds of three splits, read one at a time, and their sizes."""
    counts: dict[str, SplitSize] = {}
    seen: set[Any] = set()  # sizes of images, up to two different ones
    with writers("values", dtype) as values, writers("sizes", "<i8") as sizes:
        for name, pieces in zip(SPLITS, splits, strict=True):
            num_items = num_values = 0
            for piece in pieces:
                update_digest(digest, piece)
                values.append(piece)
                size = piece.shape[:2]
                sizes.append(np.array(size))
                num_items, num_values = num_items + 1, num_values + piece.size
                if len(seen) < 2 and len(size) == 2:
                    seen.add(size)
                advance(1)
            counts[name] = SplitSize(num_items=num_items, num_values=num_values)
        return Description(
            dtype=dtype,
            splits=counts,
            values=values.finish(),
            sizes=sizes.finish(),
            fingerprint=digest.hexdigest(),
            size=next(iter(seen)) if len(seen) == 1 else None,
            **facts,
        )
