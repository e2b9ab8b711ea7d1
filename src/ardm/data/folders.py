"""A user's folder of files in three splits."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ardm.errors import DataError

FEWEST_FILES = 3
"""One for each split."""


@dataclass(frozen=True, kw_only=True)
class FileSplits:
    """Files in three splits."""

    train: list[Path]
    valid: list[Path]
    test: list[Path]


def split_folder(path: Path, suffixes: Collection[str], what: str) -> FileSplits:
    """All files below a folder with one of the suffixes: 90% train, 5% valid, 5% test (at least one each).

    A hash of its name decides where a file goes, so that a new file moves few others. `what` names them in errors.
    """
    if not path.is_dir():
        raise DataError(f"there is no folder {path}")
    files = [f for f in path.rglob("*") if f.suffix.lower() in suffixes and f.is_file()]
    if len(files) < FEWEST_FILES:
        raise DataError(f"{path} has {len(files)} {what}; at least {FEWEST_FILES} are needed, one for each split")
    files.sort(key=lambda f: hashlib.sha256(f.relative_to(path).as_posix().encode()).digest())
    held = max(1, len(files) // 20)
    return FileSplits(train=files[2 * held :], valid=files[:held], test=files[held : 2 * held])
