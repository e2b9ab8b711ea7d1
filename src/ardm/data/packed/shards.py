"""Long runs of values in files of equal lengths, written as a stream and read through memory maps."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Integer

from ardm.errors import DataError
from ardm.runtime.files import written_whole

SUFFIX = ".ardmpack"
SHARD_BYTES = 2**28
"""Default size of a shard; the last one may be smaller."""
MAX_MAPPED = 256
"""Shards of a run mapped at once, each of which takes a file descriptor."""
HASHED_BYTES = 2**24
"""Bytes hashed at once."""


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A file of a run."""

    file: str
    num_bytes: int
    sha256: str


class RunWriter:
    """Writes a run of values into shards, each whole or not at all."""

    def __init__(self, folder: Path, name: str, dtype: str, shard_bytes: int = SHARD_BYTES) -> None:
        self.folder, self.name, self.dtype = folder, name, np.dtype(dtype)
        self.shards: list[Shard] = []
        self._room = max(shard_bytes // self.dtype.itemsize, 1) * self.dtype.itemsize
        self._digest, self._left = hashlib.sha256(), self._room
        self._open = ExitStack()
        self._write: Callable[[Any], object] | None = None

    def append(self, values: Integer[np.ndarray, "..."]) -> None:
        """Append values in row-major order."""
        content = np.ascontiguousarray(values, self.dtype).reshape(-1).view(np.uint8).data
        while len(content):
            if self._write is None:
                temporary = self._open.enter_context(written_whole(self.folder / self._file_name()))
                self._write = self._open.enter_context(temporary.open("wb")).write
                self._digest, self._left = hashlib.sha256(), self._room
            part, content = content[: self._left], content[self._left :]
            self._write(part)
            self._digest.update(part)
            self._left -= len(part)
            if self._left == 0:
                self._end_shard()

    def finish(self) -> tuple[Shard, ...]:
        """All shards, after the last one is written."""
        if self._write is not None:
            self._end_shard()
        return tuple(self.shards)

    def __enter__(self) -> "RunWriter":
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def _end_shard(self) -> None:
        self._open.close()
        sha256 = self._digest.hexdigest()
        self.shards.append(Shard(file=self._file_name(), num_bytes=self._room - self._left, sha256=sha256))
        self._write = None

    def _file_name(self) -> str:
        return f"{self.name}-{len(self.shards):05}{SUFFIX}"


class Run:
    """The values of all shards as one array, of which memory holds only what is read.

    A file must not change while it is mapped: reading beyond a truncated end kills the process.
    """

    def __init__(self, folder: Path, shards: Sequence[Shard], dtype: str) -> None:
        self.folder, self.shards, self.dtype = folder, shards, np.dtype(dtype)
        sizes = [shard.num_bytes // self.dtype.itemsize for shard in shards]
        self._length, self._shard_length = sum(sizes), sizes[0] if sizes else 1
        self._mapped = lru_cache(maxsize=MAX_MAPPED)(self._map)

    def __len__(self) -> int:
        return self._length

    def span(self, start: int, stop: int) -> Integer[np.ndarray, "N"]:
        """The values from start to stop, as a view of a map or, across shards, a copy."""
        if start == stop:
            return np.empty(0, self.dtype)
        first, last = start // self._shard_length, (stop - 1) // self._shard_length
        if first == last:
            begin = first * self._shard_length
            return self._mapped(first)[start - begin : stop - begin]
        borders = [start, *range((first + 1) * self._shard_length, stop, self._shard_length), stop]
        return np.concatenate([self.span(*ends) for ends in pairwise(borders)])

    def _map(self, index: int) -> Integer[np.ndarray, "N"]:
        path = self.folder / self.shards[index].file
        try:
            return np.asarray(np.memmap(path, self.dtype, mode="r"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read ({error})") from None


def check_size(folder: Path, shard: Shard) -> None:
    """Raise a DataError unless the file exists and has its expected size."""
    path = folder / shard.file
    if not path.is_file():
        raise DataError(f"{path} is missing; copy the packed folder again, or pack it again")
    if (size := path.stat().st_size) != shard.num_bytes:
        raise DataError(
            f"{path} is damaged: it has {size} bytes where {shard.num_bytes} were packed; "
            "copy the packed folder again, or pack it again"
        )


def check_content(folder: Path, shard: Shard, advance: Callable[[int], None]) -> None:
    """Raise a DataError unless the file has its expected hash; `advance` receives the number of bytes read."""
    check_size(folder, shard)
    digest, path = hashlib.sha256(), folder / shard.file
    with path.open("rb") as file:
        while part := file.read(HASHED_BYTES):
            digest.update(part)
            advance(len(part))
    if digest.hexdigest() != shard.sha256:
        raise DataError(
            f"{path} is damaged (its sha256 is not {shard.sha256}); copy the packed folder again, or pack it again"
        )
