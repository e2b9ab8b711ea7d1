"""Mutated, cut and spliced files: each gives a typed error or the very data, never other data, a crash or a hang.

The default run reads 100,000 such files. A longer one: `ARDM_MUTATIONS=5000000 pytest -m slow tests/test_mutations.py`.
"""

import os
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from stored import (
    ENTRIES,
    OPTIONS,
    OTHER_OPTIONS,
    TYPED_ERRORS,
    appended,
    archive_of,
    coded_image,
    readable,
    unchecked_shapes,
)

from ardm.codec.format import blocks, directory, single
from ardm.codec.format.entries import Coded, Entry, Raw
from ardm.codec.format.fields import BytesFields, ImageFields
from ardm.codec.format.single import read_single, write_single

NUM_SINGLES = 80_000
NUM_ARCHIVES = 20_000
NUM_UNCHECKED = 10_000
"""Of each: with checks that accept anything, so that the mutations reach what lies behind them."""
MAX_SECONDS = 5.0
"""For one file; a busy machine may hold a process that long."""
MAX_BYTES = 2**20
"""Of memory, for files of less than 2 kB."""


def flip(data: bytearray, draw: random.Random) -> None:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def overwrite(data: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(data))
    data[start : start + draw.randint(1, 8)] = draw.randbytes(draw.randint(1, 8))


def fill(data: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(data))
    size = min(draw.randint(1, 16), len(data) - start)
    data[start : start + size] = draw.choice((b"\0", b"\xff", b"\x80", b"\x7f")) * size


def cut(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)) :]


def remove(data: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(data))
    del data[start : start + draw.randint(1, 40)]


def repeat(data: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(data))
    position = draw.randrange(len(data))
    data[position:position] = data[start : start + draw.randint(1, 40)]


MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (flip, flip, overwrite, fill, cut, remove, repeat)


def mutated(files: list[bytes], draw: random.Random) -> bytes:
    """One of the files after one to three mutations, or two of them spliced."""
    data = bytearray(draw.choice(files))
    if draw.random() < 0.2:
        other = draw.choice(files)
        start = draw.choice((len(data), draw.randrange(len(data)), draw.randrange(len(data))))
        data[start:] = other[draw.choice((start % len(other), draw.randrange(len(other)))) :]
    for _ in range(draw.randint(0 if draw.random() < 0.1 else 1, 3)):
        if data:
            draw.choice(MUTATIONS)(data, draw)
    return bytes(data)


def mutations(files: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Mutated files; the time between one and the next is bounded."""
    draw = random.Random(seed)
    for _ in range(count):
        data = mutated(files, draw)
        start = time.thread_time()
        yield data
        assert time.thread_time() - start < MAX_SECONDS, data.hex()


def single_files() -> dict[bytes, Entry]:
    """Single files of every form, by their bytes."""
    noise = random.Random(1).randbytes(600)
    entries = [
        *ENTRIES.values(),
        coded_image(noise),
        coded_image(noise[:50], OTHER_OPTIONS),
        Entry(
            fields=ImageFields(width=100, height=70, mode="RGBA"),
            content=Coded(options=OPTIONS, chunks=tuple(noise[i : i + 37] for i in range(0, 600, 37)), side=noise[:40]),
        ),
        Entry(fields=BytesFields(length=600), content=Raw(content=noise)),
    ]
    return {write_single(entry): entry for entry in entries}


def archives() -> dict[bytes, dict[str, Entry]]:
    """Archives of every form, by their bytes; the same names stand for various entries."""
    entries = list(single_files().values())
    small = {f"{place}.x": entry for place, entry in enumerate(entries[:4])}
    rest = {f"folder/{place}": entry for place, entry in enumerate(entries)}
    turned = {f"{place}.x": entry for place, entry in enumerate(entries[3::-1])}
    made = {
        archive_of(small): small,
        archive_of(turned): turned,
        archive_of(small, OTHER_OPTIONS): small,
        archive_of(small, None, recoverable=False): small,
        archive_of(rest): rest,
    }
    inner = {"inner": coded_image(archive_of(turned)), **small}
    return {**made, appended(archive_of(small), rest): {**small, **rest}, archive_of(inner): inner}


def check_singles(count: int, seed: int) -> None:
    files = single_files()
    entries = set(files.values())
    for data in mutations(list(files), count, seed):
        try:
            entry = read_single(data)
        except TYPED_ERRORS:
            assert data not in files
            continue
        assert entry in entries
        assert data in files


def check_archives(count: int, seed: int) -> None:
    files = archives()
    known = {(name, entry) for entries in files.values() for name, entry in entries.items()}
    for data in mutations(list(files), count, seed):
        try:
            found = readable(data)
        except TYPED_ERRORS:
            assert data not in files
            continue
        assert found.items() <= known, data.hex()
        assert data not in files or found == files[data]


def test_singles():
    with unchecked_shapes():
        check_singles(NUM_SINGLES, seed=1)


def test_archives():
    with unchecked_shapes():
        check_archives(NUM_ARCHIVES, seed=2)


@pytest.mark.slow
def test_many_more():
    count = int(os.environ.get("ARDM_MUTATIONS", "2000000"))
    with unchecked_shapes():
        check_singles(count * 3 // 4, seed=3)
        check_archives(count // 4, seed=4)


class TestUnchecked:
    """Files whose every check is 0, so that the readers meet what a check would have kept from them."""

    @pytest.fixture(autouse=True)
    def _no_checks(self, monkeypatch):
        for module in (single, blocks, directory):
            monkeypatch.setattr(module, "check_of", lambda *parts: 0)
        with unchecked_shapes():
            yield

    def test_singles(self):
        for data in mutations(list(single_files()), NUM_UNCHECKED, seed=5):
            try:
                entry = read_single(data[:-4] + bytes(4))
            except TYPED_ERRORS:
                continue
            if isinstance(entry.content, Coded):  # raw content may be held in two ways
                assert write_single(entry) == data[:-4] + bytes(4)

    def test_archives(self):
        for data in mutations(list(archives()), NUM_UNCHECKED, seed=6):
            try:
                readable(data)
            except TYPED_ERRORS:
                continue

    def test_memory(self):
        tracemalloc.start()
        try:
            for data in mutations([*single_files(), *archives()], 2000, seed=7):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                for read in (read_single, readable):
                    try:
                        read(data)
                    except TYPED_ERRORS:
                        continue
                assert tracemalloc.get_traced_memory()[1] - before < MAX_BYTES, data.hex()
        finally:
            tracemalloc.stop()
