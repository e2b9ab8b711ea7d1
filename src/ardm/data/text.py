"""Text as items of D characters: the text8 benchmark and the user's own files."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from ardm.config import TextKind
from ardm.data.alphabet import BYTES, Alphabet, alphabet_of, check_utf8
from ardm.data.corpus import Split, compact_tensor, on_device_if_it_fits
from ardm.data.folders import files_below
from ardm.data.packed.shards import SUFFIX
from ardm.errors import DataError
from ardm.orders import Shape

TEXT8_ALPHABET = Alphabet(characters=" abcdefghijklmnopqrstuvwxyz")
TEXT8_HOLD_OUT = 5_000_000
"""Characters of the validation split and of the test split, at the end of the file."""
TEXT8_URL = "https://mattmahoney.net/dc/text8.zip"


@dataclass(frozen=True, kw_only=True)
class KnownFile:
    """A published version of a file."""

    title: str
    num_bytes: int
    md5: str


TEXT8_FILES = (
    KnownFile(title="text8", num_bytes=100_000_000, md5="3bea1919949baf155f99411df5fada7e"),
    KnownFile(title="text8 (74 MB prefix)", num_bytes=74_081_952, md5="76a25f018b696819da5fb2f0211bd8bb"),
)


@dataclass(frozen=True, kw_only=True)
class TextCorpus:
    """A text as classes, and where its splits end."""

    title: str
    is_published: bool = False
    """Whether its splits are those that everybody reports results for."""
    alphabet: Alphabet
    classes: Integer[np.ndarray, "N"]
    num_held_out: int
    """Classes of the validation split, and as many of the test split, at the end."""

    @property
    def sample_rate(self) -> None:
        """For sound only."""
        return None

    def split(self, name: Split) -> Integer[np.ndarray, "M"]:
        """The classes of a split: train, then valid, then test, in the text's order."""
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
        """The split cut into items of D classes; a shorter rest at its end is left out."""
        (num_variables,), classes = shape, self.split(name)
        num_items = len(classes) // num_variables
        if num_items == 0:
            raise too_short(self.title, name, len(classes), num_variables)
        return classes[: num_items * num_variables].reshape(num_items, num_variables)

    def sampler(self, shape: Shape, device: torch.device) -> "TextSampler":
        """Random items of the training split."""
        (num_variables,) = shape
        return TextSampler(compact_tensor(self.split("train")), num_variables, device)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the alphabet and the whole text, to recognise the data a model was trained on."""
        digest = hashlib.sha256(repr(self.alphabet.characters).encode())
        digest.update(self.classes.tobytes())
        return digest.hexdigest()


def too_short(title: str, split: Split, num_characters: int, num_variables: int) -> DataError:
    """What to say of a split shorter than an item."""
    return DataError(
        f"{title}: the {split} split has {num_characters} characters, too few for an item of {num_variables}; "
        "use a longer text or a model with shorter items"
    )


class TextSampler:
    """Items cut from a text at uniformly random places."""

    def __init__(self, classes: Integer[Tensor, "N"], num_variables: int, device: torch.device) -> None:
        self.classes, self.num_variables = on_device_if_it_fits(classes, device), num_variables

    def draw(self, num_items: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
        """Items on the generator's device."""
        num_places, device = len(self.classes) - self.num_variables + 1, self.classes.device
        starts = torch.randint(0, num_places, (num_items, 1), generator=generator, device=generator.device)
        index = starts.to(device) + torch.arange(self.num_variables, device=device)
        return self.classes[index].to(generator.device).long()


def load_text8(path: Path) -> TextCorpus:
    """The official text8 file, from its folder or its own path, checked by size and md5."""
    path = path / "text8" if path.is_dir() else path
    if not path.is_file():
        raise DataError(
            f"there is no text8 file at {path}; `ardm data text8 --root DIR` fetches it, or unzip {TEXT8_URL} there"
        )
    known = [k for k in TEXT8_FILES if k.num_bytes == path.stat().st_size]
    if not known:
        sizes = " or ".join(str(k.num_bytes) for k in TEXT8_FILES)
        raise DataError(
            f"{path} has {path.stat().st_size} bytes where text8 has {sizes}; "
            "fetch it again with `ardm data text8 --root DIR`"
        )
    content = path.read_bytes()
    if hashlib.md5(content).hexdigest() != known[0].md5:
        raise DataError(f"{path} is damaged (md5 differs from {known[0].md5}); fetch it again")
    classes = TEXT8_ALPHABET.encode(content, str(path))
    return TextCorpus(
        title=known[0].title,
        is_published=True,
        alphabet=TEXT8_ALPHABET,
        classes=classes,
        num_held_out=TEXT8_HOLD_OUT,
    )


def has_text8(path: Path) -> bool:
    """Whether a folder holds the text8 file, or a file is it by its name or its size."""
    if path.is_dir():
        return (path / "text8").is_file()
    return path.is_file() and (path.name == "text8" or path.stat().st_size in {k.num_bytes for k in TEXT8_FILES})


def load_own_text(path: Path, kind: TextKind, alphabet: Alphabet | None = None) -> TextCorpus:
    """A user's file, or all files of a folder joined by name: 90% train, 5% valid, 5% test.

    Without an alphabet the text's own is taken; with one, characters outside it are an error.
    """
    contents = read_text_files(path)
    content = b"".join(contents.values())
    if kind != "bytes":
        for file, part in contents.items():
            check_utf8(part, str(file))
    if alphabet is None:
        alphabet = BYTES if kind == "bytes" else alphabet_of(content, str(path))
    classes = alphabet.encode(content, str(path))
    return TextCorpus(title=path.absolute().name, alphabet=alphabet, classes=classes, num_held_out=len(classes) // 20)


def load_text(path: Path, kind: TextKind, alphabet: Alphabet | None = None) -> TextCorpus:
    """The corpus that a preset of this kind trains on."""
    return load_text8(path) if kind == "text8" else load_own_text(path, kind, alphabet)


def read_text_files(path: Path) -> dict[Path, bytes]:
    """The content of each of a text's files, in their order."""
    return {file: file.read_bytes() for file in text_files(path)}


def text_files(path: Path) -> list[Path]:
    """A file, or every file below a folder (hidden ones aside) in the order of their paths; not all of them empty."""
    if path.is_file():
        files = [path]
    elif path.is_dir():
        files = sorted(files_below(path))
        if packed := [file.parent for file in files if file.suffix == SUFFIX]:
            raise DataError(f"{packed[0]}, below {path}, is a packed data set and no text; move it elsewhere")
    else:
        raise DataError(f"there is no file or folder {path}")
    if not any(file.stat().st_size for file in files):
        raise DataError(f"{path} is empty")
    return files
