"""Texts as items of D characters: the text8 benchmark and users' own files."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Integer

from ardm.config import TextKind
from ardm.data.alphabet import BYTES, Alphabet, alphabet_of, check_utf8
from ardm.data.corpus import PieceSampler
from ardm.data.folders import files_below
from ardm.data.packed.shards import SUFFIX
from ardm.depth import check_classes
from ardm.errors import DataError
from ardm.names import Shape, Split

TEXT8_ALPHABET = Alphabet(characters=" abcdefghijklmnopqrstuvwxyz")
TEXT8_HOLD_OUT = 5_000_000
"""Characters of the validation split, and of the test split."""
TEXT8_URL = "https://mattmahoney.net/dc/text8.zip"
TEXT8_FILES = {
    100_000_000: ("text8", "3bea1919949baf155f99411df5fada7e"),
    74_081_952: ("text8 (74 MB prefix)", "76a25f018b696819da5fb2f0211bd8bb"),
}
"""Title and md5 of each published version, by its size."""


@dataclass(frozen=True, kw_only=True)
class TextCorpus:
    """The classes of a text, held in memory: train, then valid, then test."""

    title: str
    is_published: bool = False
    """Whether its splits are those that everybody reports results for."""
    alphabet: Alphabet
    classes: Integer[np.ndarray, "N"]
    num_held_out: int
    """Length of the validation split, and of the test split."""
    sample_rate: ClassVar[None] = None

    def __post_init__(self) -> None:
        extremes = [int(self.classes.min(initial=0)), int(self.classes.max(initial=0))]
        check_classes(torch.tensor(extremes), self.num_classes)

    def split(self, name: Split) -> Integer[np.ndarray, "M"]:
        """The classes of a split."""
        held = self.num_held_out
        if name == "all":
            return self.classes
        train, valid, test = np.split(self.classes, [len(self.classes) - 2 * held, len(self.classes) - held])
        return {"train": train, "valid": valid, "test": test}[name]

    @property
    def num_classes(self) -> int:
        """K: the size of the alphabet."""
        return self.alphabet.num_classes

    def items(self, name: Split, shape: Shape) -> Integer[np.ndarray, "M D"]:
        """The split cut into items of D classes; a shorter remainder is dropped."""
        (num_variables,), classes = shape, self.split(name)
        num_items = len(classes) // num_variables
        if num_items == 0:
            raise too_short(self.title, name, len(classes), num_variables)
        return classes[: num_items * num_variables].reshape(num_items, num_variables)

    def sampler(self, shape: Shape, device: torch.device) -> PieceSampler:
        """Random items of the training split."""
        return PieceSampler([self.split("train")], shape, device)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the alphabet and the whole text."""
        digest = alphabet_digest(self.alphabet)
        digest.update(self.classes.tobytes())
        return digest.hexdigest()


def alphabet_digest(alphabet: Alphabet) -> "hashlib._Hash":
    """The hash object that fingerprints of texts in this alphabet start from."""
    return hashlib.sha256(repr(alphabet.characters).encode())


def too_short(title: str, split: Split, num_characters: int, num_variables: int) -> DataError:
    """The error for a split shorter than an item."""
    return DataError(
        f"{title}: the {split} split has {num_characters} characters, too few for an item of {num_variables}; "
        "use a longer text or a model with shorter items"
    )


def load_text8(path: Path) -> TextCorpus:
    """The official text8, given its file or folder, checked by size and md5."""
    path = path / "text8" if path.is_dir() else path
    if not path.is_file():
        raise DataError(
            f"there is no text8 file at {path}; `ardm data text8 --root DIR` fetches it, or unzip {TEXT8_URL} there"
        )
    num_bytes = path.stat().st_size
    if num_bytes not in TEXT8_FILES:
        raise DataError(
            f"{path} has {num_bytes} bytes, but text8 has {' or '.join(map(str, TEXT8_FILES))}; "
            "fetch it again with `ardm data text8 --root DIR`"
        )
    content, (title, md5) = path.read_bytes(), TEXT8_FILES[num_bytes]
    if hashlib.md5(content).hexdigest() != md5:
        raise DataError(f"{path} is damaged (md5 differs from {md5}); fetch it again")
    classes = TEXT8_ALPHABET.encode(content, str(path))
    return TextCorpus(
        title=title, is_published=True, alphabet=TEXT8_ALPHABET, classes=classes, num_held_out=TEXT8_HOLD_OUT
    )


def has_text8(path: Path) -> bool:
    """Whether a folder holds the text8 file, or a file has its name or size."""
    if path.is_dir():
        return (path / "text8").is_file()
    return path.is_file() and (path.name == "text8" or path.stat().st_size in TEXT8_FILES)


def load_own_text(path: Path, kind: TextKind, alphabet: Alphabet | None = None) -> TextCorpus:
    """A user's file, or all files of a folder joined by name: 90% train, 5% valid, 5% test.

    The alphabet is by default the text's own; characters outside a given one are an error.
    """
    contents = {file: file.read_bytes() for file in text_files(path)}
    content = b"".join(contents.values())
    if kind != "bytes":
        for file, part in contents.items():
            check_utf8(part, str(file))
    if alphabet is None:
        alphabet = BYTES if kind == "bytes" else alphabet_of(content, str(path))
    classes = alphabet.encode(content, str(path))
    return TextCorpus(title=path.absolute().name, alphabet=alphabet, classes=classes, num_held_out=len(classes) // 20)


def text_files(path: Path) -> list[Path]:
    """A file, or all files below a folder that are not hidden, sorted by path; at least one has content."""
    if path.is_file():
        files = [path]
    elif path.is_dir():
        files = sorted(files_below(path))
        if packed := [file.parent for file in files if file.suffix == SUFFIX]:
            raise DataError(f"{packed[0]}, below {path}, is a packed data set, not text; move it elsewhere")
    else:
        raise DataError(f"there is no file or folder {path}")
    if not any(file.stat().st_size for file in files):
        raise DataError(f"{path} is empty")
    return files
