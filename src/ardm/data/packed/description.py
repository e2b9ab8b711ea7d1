"""What a packed folder says about itself."""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ardm.config import ImageKind, SoundKind, TextKind
from ardm.data.alphabet import Alphabet
from ardm.data.packed.shards import SUFFIX, Run, Shard, check_content, check_size
from ardm.errors import DataError, UnknownVersionError
from ardm.runtime.files import write_file
from ardm.runtime.output import to_json

DESCRIPTION_FILE = "ardm-packed.json"
FORMAT, VERSION = "ardm packed data", 1
PackedKind = TextKind | ImageKind | SoundKind
KINDS: dict[str, PackedKind] = {
    "text8": "text8",
    "text": "characters",
    "bytes": "bytes",
    "cifar10": "cifar10",
    "images": "images",
    "sc09": "sc09",
    "audio": "audio",
}
"""By the names that they have on the command line."""
Medium = Literal["text", "images", "sound"]
SPLITS: tuple[Literal["train", "valid", "test"], ...] = ("train", "valid", "test")
"""In the order in which they are stored."""


@dataclass(frozen=True, kw_only=True)
class SplitSize:
    """How much of a data set is in a split."""

    num_items: int
    """Images or sounds; a text is one item."""
    num_values: int
    """Classes, sub-pixels or samples."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """Everything about a packed data set but its values."""

    kind: PackedKind
    title: str
    is_published: bool = False
    """Whether its splits are those that everybody reports results for."""
    fingerprint: str
    """That of the data set that was packed."""
    dtype: str
    """Of a value, in NumPy's words, the order of bytes included."""
    splits: dict[str, SplitSize]
    values: tuple[Shard, ...]
    sizes: tuple[Shard, ...] = ()
    """Of images their heights and widths, of sounds their lengths."""
    characters: str | None = None
    """A text's alphabet; None for bytes."""
    channels: int | None = None
    """Of images."""
    size: tuple[int, int] | None = None
    """Height and width of all images, if they have the same."""
    sample_rate: int | None = None
    pads: bool = False
    """Whether a sound shorter than an item becomes one, with zeros at its end, or is left out."""
    num_mixed: int = 0
    """Sounds that were mixed down to mono."""

    @property
    def medium(self) -> Medium:
        """Text, images or sound."""
        if self.kind in ("cifar10", "images"):
            return "images"
        return "sound" if self.kind in ("sc09", "audio") else "text"

    @property
    def counts(self) -> list[int]:
        """The characters, images or clips of each split."""
        return self.num_values() if self.medium == "text" else self.num_items()

    @cached_property
    def alphabet(self) -> Alphabet | None:
        """What the classes of a text stand for."""
        return Alphabet(characters=self.characters) if self.medium == "text" else None

    @property
    def shards(self) -> tuple[Shard, ...]:
        """All files but the description."""
        return self.values + self.sizes

    @property
    def num_bytes(self) -> int:
        """The size of all shards."""
        return sum(shard.num_bytes for shard in self.shards)

    def num_items(self) -> list[int]:
        """Items of the three splits."""
        return [self.splits[name].num_items for name in SPLITS]

    def num_values(self) -> list[int]:
        """Values of the three splits."""
        return [self.splits[name].num_values for name in SPLITS]


@dataclass(frozen=True, kw_only=True)
class Pack:
    """A packed folder, opened: nothing is missing from it, or longer or shorter than it was written."""

    folder: Path
    about: Description

    @cached_property
    def values(self) -> Run:
        """The values of all splits."""
        return Run(self.folder, self.about.values, self.about.dtype)

    @cached_property
    def sizes(self) -> Run:
        """The sizes of all images or sounds."""
        return Run(self.folder, self.about.sizes, "<i8")


def is_packed(path: Path) -> bool:
    """Whether a folder is a packed data set, finished or not."""
    return (path / DESCRIPTION_FILE).is_file() or is_unfinished(path)


def is_unfinished(path: Path) -> bool:
    """Whether a folder holds shards without a description: their packing was interrupted."""
    return path.is_dir() and not (path / DESCRIPTION_FILE).exists() and any(path.glob(f"*{SUFFIX}*"))


def open_pack(folder: Path) -> Pack:
    """A packed folder; the sizes of its shards are checked, their content is not (see `check_pack`)."""
    if is_unfinished(folder):
        raise DataError(f"{folder} was not packed to the end ({DESCRIPTION_FILE} is missing); remove it and pack again")
    if not is_packed(folder):
        raise DataError(f"{folder} is no packed data set; `ardm data NAME --root DIR --pack FOLDER` makes one")
    pack = Pack(folder=folder, about=read_description(folder / DESCRIPTION_FILE))
    for shard in pack.about.shards:
        check_size(folder, shard)
    expected = sum(pack.about.num_values())
    if len(pack.values) != expected:
        raise DataError(f"{folder} is damaged: its shards hold {len(pack.values)} values instead of {expected}")
    return pack


def check_pack(pack: Pack, advance: Callable[[int], None] = lambda num_bytes: None) -> None:
    """A DataError for the first shard that is not what was packed to the last bit."""
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
                f"{path} is of version {stored['version']} of packed data, and this software reads {VERSION}; "
                "pack the data again, or update ardm"
            )
        if stored["sha256"] != _digest(stored["content"]):
            raise ValueError("its sha256 differs")
        return _description(stored["content"])
    except UnknownVersionError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged ({error}); copy the packed folder again, or pack it again") from None


def _description(content: dict[str, Any]) -> Description:
    changed = {
        "splits": {name: SplitSize(**size) for name, size in content["splits"].items()},
        "values": tuple(Shard(**shard) for shard in content["values"]),
        "sizes": tuple(Shard(**shard) for shard in content["sizes"]),
        "size": None if content["size"] is None else tuple(content["size"]),
    }
    return Description(**(content | changed))


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
