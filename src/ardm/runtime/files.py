"""Files that are there whole or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ardm.errors import UsageError

UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
GZIP_START = b"\x1f\x8b"


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place, flushed to disk, when the block succeeds."""
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
    """Errors of a file system without room or rights, as one line that names what could not be written."""
    try:
        yield
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise OSError(f"{path} cannot be written: {error.strerror}") from error


def write_file(path: Path, content: bytes) -> None:
    """Write content to a file as a whole."""
    with written_whole(path) as temporary:
        temporary.write_bytes(content)


def is_gzip(path: Path) -> bool:
    """Whether a file starts as gzip's do."""
    with path.open("rb") as file:
        return file.read(len(GZIP_START)) == GZIP_START


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed process was writing in a folder that no other process uses."""
    for leftover in folder.glob(".*.partial"):
        leftover.unlink()


def check_writable(path: Path | None) -> None:
    """A usage error, before any work is done, for an output path that cannot be written."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give a file to write to")
    _check_nearest_folder(path)


def check_writable_folder(path: Path) -> None:
    """A usage error, before any work is done, for a folder, there or not, that cannot be written to."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file, and a folder is needed")
    _check_nearest_folder(path)


def _check_nearest_folder(path: Path) -> None:
    """A usage error unless files can be made in the path or, if it is no folder yet, in the nearest one above it."""
    folder = path if path.is_dir() else next(p for p in path.absolute().parents if p.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"{path} cannot be written: {folder} is not a writable folder")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder for this process alone; a usage error while another one holds it."""
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
    """Make a rename last through a power cut, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
