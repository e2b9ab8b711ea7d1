"""Files written whole or not at all, and results as JSON on the screen or in a file."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ardm.errors import UsageError

UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
GZIP_START = b"\x1f\x8b"


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A context with a temporary path next to `path`, which it replaces, flushed to disk, when the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with naming(path):
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
            _flush_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Turn errors of a full or read-only file system into one line that names the path."""
    try:
        yield
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise OSError(f"{path} cannot be written: {error.strerror}") from error


def write_file(path: Path, content: bytes) -> None:
    """Write content to a file, atomically."""
    with written_whole(path) as temporary:
        temporary.write_bytes(content)


def to_json(values: Any, indent: int | None = 2) -> bytes:
    """Values as one JSON document."""
    return json.dumps(values, indent=indent, allow_nan=False).encode()


def write_output(path: Path | None, content: bytes) -> None:
    """Print content or write it to a file, atomically; either way with a line break at its end."""
    if path is None:
        print(content.decode("utf-8", "replace"))
    else:
        write_file(path, content + b"\n")


def is_gzip(path: Path) -> bool:
    """Whether a file starts with gzip's magic bytes."""
    with path.open("rb") as file:
        return file.read(len(GZIP_START)) == GZIP_START


def remove_leftovers(folder: Path) -> None:
    """Delete the partial files of killed processes in a folder that no running process uses."""
    for leftover in folder.glob(".*.partial"):
        leftover.unlink()


def check_writable(path: Path | None) -> None:
    """Raise a UsageError, before any work is done, if an output path cannot be written."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give a file to write to")
    _check_nearest_folder(path)


def check_writable_folder(path: Path) -> None:
    """Raise a UsageError, before any work is done, if files cannot be written to a folder, existing or not."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file, but a folder is needed")
    _check_nearest_folder(path)


def _check_nearest_folder(path: Path) -> None:
    """Raise a UsageError unless files can be created in a folder or, if it is missing, its nearest existing parent."""
    folder = path if path.is_dir() else next(p for p in path.absolute().parents if p.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"{path} cannot be written: {folder} is not a writable folder")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; a UsageError while another process holds the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"another process is training in {folder}; wait for it or choose another --out") from None
        yield


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power cut, on systems that can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
