"""Packed folders: their descriptions, and how they are opened and checked."""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from ardm.config import DATA_CLASSES, ImageKind, Medium, SoundKind, TextKind
from ardm.data.alphabet import Alphabet
from ardm.data.corpus import SPLITS
from ardm.data.packed.shards import SUFFIX, Run, Shard, check_content, check_size
from ardm.errors import DataError, UnknownVersionError, UsageError
from ardm.runtime.files import to_json, write_file

DESCRIPTION_FILE = "ardm-packed.json"
FORMAT, VERSION = "ardm packed data", 1
DataKind = TextKind | ImageKind | SoundKind
KINDS: dict[str, DataKind] = {
    "text8": "text8",
    "text": "characters",
    "bytes": "bytes",
    "cifar10": "cifar10",
    "images": "images",
    "sc09": "sc09",
    "audio": "audio",
}
"""Kinds of data by the names of data sets, and of presets, on the command line."""
NAMES = {kind: name for name, kind in KINDS.items()}


@dataclass(frozen=True, kw_only=True)
class SplitSize:
    """Size of a split."""

    num_items: int
    """Images or sounds; a text is one item."""
    num_values: int
    """Classes, sub-pixels or samples."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """Everything about a packed data set except its values."""

    kind: DataKind
    title: str
    is_published: bool = False
    """Whether its splits are those that everybody reports results for."""
    fingerprint: str
    """The fingerprint of the data set that was packed."""
    dtype: str
    """NumPy type of a value, with its byte order."""
    splits: dict[str, SplitSize]
    values: tuple[Shard, ...]
    sizes: tuple[Shard, ...] = ()
    """Heights and widths of images, or lengths of sounds."""
    characters: str | None = None
    """The alphabet of a text; None for bytes."""
    channels: int | None = None
    """Channels of images."""
    size: tuple[int, int] | None = None
    """Height and width of the images if all are the same size."""
    sample_rate: int | None = None
    pads: bool = False
    """Whether sounds shorter than an item are padded with zeros at the end rather than left out."""
    num_mixed: int = 0
    """Number of sounds that were mixed down to mono."""

    @property
    def medium(self) -> Medium:
        """Text, images or sound."""
        return DATA_CLASSES[self.kind].medium

    @property
    def name(self) -> str:
        """The name of its kind on the command line."""
        return NAMES[self.kind]

    @property
    def counts(self) -> list[int]:
        """The numbers of characters, images or clips in the three splits."""
        splits = [self.splits[name] for name in SPLITS]
        return [split.num_values if self.medium == "text" else split.num_items for split in splits]

    @cached_property
    def alphabet(self) -> Alphabet | None:
        """The symbols of a text; None for other data."""
        return Alphabet(characters=self.characters) if self.medium == "text" else None

    @property
    def shards(self) -> tuple[Shard, ...]:
        """All files but the description."""
        return self.values + self.sizes

    @property
    def num_bytes(self) -> int:
        """Size of all shards."""
        return sum(shard.num_bytes for shard in self.shards)


@dataclass(frozen=True, kw_only=True)
class Pack:
    """An open packed folder, whose files have their expected sizes."""

    folder: Path
    about: Description

    @cached_property
    def values(self) -> Run:
        """The values of all splits."""
        return Run(self.folder, self.about.values, self.about.dtype)

    @cached_property
    def sizes(self) -> Int[np.ndarray, "N _"]:
        """The size of each image (height and width) or sound (length)."""
        sizes = Run(self.folder, self.about.sizes, "<i8")
        return sizes.span(0, len(sizes)).astype(np.int64).reshape(-1, 2 if self.about.medium == "images" else 1)

    @cached_property
    def firsts(self) -> Int[np.ndarray, "N"]:
        """The place of the first value of each image or sound."""
        num_values = self.sizes.prod(axis=1) * (self.about.channels or 1)
        return num_values.cumsum() - num_values


def is_packed(path: Path) -> bool:
    """Whether a folder is a packed data set, finished or not."""
    return (path / DESCRIPTION_FILE).is_file() or is_unfinished(path)


def is_unfinished(path: Path) -> bool:
    """Whether a folder holds shards without a description: their packing was interrupted."""
    return path.is_dir() and not (path / DESCRIPTION_FILE).exists() and any(path.glob(f"*{SUFFIX}*"))


def open_pack(folder: Path) -> Pack:
    """A packed folder, after a check of its shards' sizes but not of their content (see `check_pack`)."""
    if is_unfinished(folder):
        raise DataError(f"{folder} was not packed completely ({DESCRIPTION_FILE} is missing); remove it and pack again")
    if not is_packed(folder):
        raise DataError(f"{folder} is not a packed data set; `ardm data NAME --root DIR --pack FOLDER` makes one")
    pack = Pack(folder=folder, about=read_description(folder / DESCRIPTION_FILE))
    for shard in pack.about.shards:
        check_size(folder, shard)
    expected = sum(split.num_values for split in pack.about.splits.values())
    if len(pack.values) != expected:
        raise DataError(f"{folder} is damaged: its shards hold {len(pack.values)} values instead of {expected}")
    return pack


def open_kind(folder: Path, kind: DataKind) -> Pack:
    """A packed folder to train on, of a preset's kind."""
    pack = open_pack(folder)
    if pack.about.kind != kind:
        raise UsageError(f"{folder} is a packed data set of {pack.about.name}, but the preset is for {NAMES[kind]}")
    return pack


def open_medium(folder: Path, medium: Medium) -> Pack:
    """A packed folder to score, of a model's medium."""
    pack = open_pack(folder)
    if pack.about.medium != medium:
        raise UsageError(f"{folder} is a packed data set of {pack.about.medium}, but the model is for {medium}")
    return pack


def check_pack(pack: Pack, advance: Callable[[int], None] = lambda num_bytes: None) -> None:
    """Raise a DataError for the first shard that differs from what was packed."""
    for shard in pack.about.shards:
        check_content(pack.folder, shard, advance)


def write_description(folder: Path, about: Description) -> None:
    """Finish a packed folder."""
    content = dataclasses.asdict(about)
    header = {"format": FORMAT, "version": VERSION, "sha256": _digest(content)}
    write_file(folder / DESCRIPTION_FILE, to_json(header | {"content": content}) + b"\n")


def read_description(path: Path) -> Description:
    """A description, checked by its own hash."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["format"] != FORMAT:
            raise ValueError(f"its format is {stored['format']!r}")
        if stored["version"] != VERSION:
            raise UnknownVersionError(
                f"{path} has version {stored['version']} of packed data, but this software reads {VERSION}; "
                "pack the data again, or update ardm"
            )
        if stored["sha256"] != _digest(stored["content"]):
            raise ValueError("its sha256 differs")
        content = stored["content"]
        changed = {
            "splits": {name: SplitSize(**size) for name, size in content["splits"].items()},
            "values": tuple(Shard(**shard) for shard in content["values"]),
            "sizes": tuple(Shard(**shard) for shard in content["sizes"]),
            "size": None if content["size"] is None else tuple(content["size"]),
        }
        return Description(**(content | changed))
    except UnknownVersionError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged ({error}); copy the packed folder again, or pack it again") from None


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
