"""Folders of files in three splits."""

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from ardm.errors import DataError

MIN_FILES = 3
"""One for each split."""


class FileSplits(NamedTuple):
    """Files in three splits, in the order of `corpus.SPLITS`."""

    train: list[Path]
    valid: list[Path]
    test: list[Path]


def split_folder(path: Path, suffixes: Collection[str], what: str, *, to_score: bool = False) -> FileSplits:
    """All files below a folder with one of the suffixes: 90% train, 5% valid, 5% test (at least one each).

    A hash of its name decides where a file goes, so that a new file moves few others. Hidden files are left out.
    Fewer than three are refused; with `to_score` they, or a single file, are all in test. `what` names them in errors.
    """
    if path.is_file() and to_score:
        return FileSplits([], [], [path])
    if path.is_file():
        raise DataError(f"{path} is a file; a folder of {what} is needed, give the one that holds it")
    if not path.is_dir():
        raise DataError(f"there is no folder {path}")
    files = [f for f in files_below(path) if f.suffix.lower() in suffixes]
    if to_score and 0 < len(files) < MIN_FILES:
        return FileSplits([], [], sorted(files))
    if len(files) < MIN_FILES:
        needed = "1 is needed" if to_score else f"{MIN_FILES} are needed, one for each split"
        raise DataError(f"{path} has {len(files)} {what}; at least {needed}")
    files.sort(key=lambda f: hashlib.sha256(f.relative_to(path).as_posix().encode()).digest())
    held = max(1, len(files) // 20)
    return FileSplits(files[2 * held :], files[:held], files[held : 2 * held])


def files_below(path: Path) -> list[Path]:
    """All files below a folder that are not hidden, in no particular order."""
    return [f for f in path.rglob("*") if f.is_file() and not is_hidden(f.relative_to(path))]


def is_hidden(path: Path) -> bool:
    """Whether a path is, or lies below, something that systems and tools hide (`._0.png`, `__pycache__`)."""
    return any(part.startswith(".") or part == "__pycache__" for part in path.parts)
