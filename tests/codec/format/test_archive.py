"""Archives: golden bytes, random access, appending, and what is left after damage."""

import io
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import (
    ENTRIES,
    OPTIONS,
    OTHER_OPTIONS,
    TYPED_ERRORS,
    any_entry,
    any_options,
    appended,
    archive_of,
    coded_image,
    readable,
    unchecked_shapes,
)
from test_single import UNLIMITED, peak_bytes

from ardm.codec.format.archive import GROUP_ENTRIES, ArchiveReader, ArchiveWriter, is_archive
from ardm.codec.format.blocks import GROUP, INDEX, TRAILER_BYTES
from ardm.codec.format.entries import Coded, Entry, Limits
from ardm.codec.format.fields import ImageFields
from ardm.codec.format.names import MAX_NAME_BYTES, name_problem
from ardm.codec.format.single import is_single
from ardm.codec.format.wire import check_of, deflate, uint32, uint64, varint
from ardm.errors import DamagedError, DataError, TooLargeError, UnknownVersionError

SPECIFICATION = Path(__file__).parents[3] / "docs" / "format.md"

TWO = {"a/image.png": ENTRIES["image"], "b.bin": ENTRIES["stored"]}
THIRD = {"c": ENTRIES["chosen options"]}

GOLDEN_TWO = (
    "ad41524301010011223344550000a8c0533cad47525025020728d7f04d03e4c6060800000b612f696d6167652e706e670320"
    "200005622e62696e11035f8d7e967061796c6f6164616263ad4944582e010011223344550000020728d7f04d03e4c6060800"
    "400b612f696d6167652e706e670320200005622e62696e1103fdcd30cead454e443700000000000000c0df00cc"
)
GOLDEN_APPENDED = (
    "ad41524301010011223344550000a8c0533cad47525025020728d7f04d03e4c6060800000b612f696d6167652e706e670320"
    "200005622e62696e11035f8d7e967061796c6f6164616263ad4944582e010011223344550000020728d7f04d03e4c6060800"
    "400b612f696d6167652e706e670320200005622e62696e1103fdcd30cead454e443700000000000000c0df00ccad47525018"
    "01071262e92f00000163436d6f64656c3205f0a204042020a18ad9ae7061796c6f6164ad4944584401001122334455000003"
    "0728d7f04d03e4c60608071262e92f00400b612f696d6167652e706e670320200005622e62696e1103680163436d6f64656c"
    "3205f0a2040420201fd76fbfad454e444d000000000000007f34c7ac"
)
GOLDEN_DEFLATED = (
    "ad41524301010011223344550000a8c0533cad4752502d03023ccb62270438cb5eed065813e118013963e02b492d2ed13700"
    "01bd82bc7466050506849021a690115408002cf6ab90000000010001000200020002ad494458360100112233445500000302"
    "3ccb62270438cb5eed065813e1180139f3e02b492d2ed1370001bd82bc7466050506849021a69011540800070a734fad454e"
    "443f00000000000000dc19ed35"
)
"""Version 1. Archives that must be read so forever; the same stand in docs/format.md."""


def flipped(data: bytes, position: int, bits: int = 1) -> bytes:
    """Data with one byte changed."""
    out = bytearray(data)
    out[position] ^= bits
    return bytes(out)


def many(count: int) -> dict[str, Entry]:
    """Images of various payloads, under similar names."""
    return {
        f"test/{number:05d}.png": coded_image(number.to_bytes(2, "big") * (number % 7 + 1)) for number in range(count)
    }


class RecordingFile(io.BytesIO):
    """A file that notes the ranges it is asked for."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.ranges: list[tuple[int, int]] = []

    def read(self, size: int | None = -1, /) -> bytes:
        start = self.tell()
        data = super().read(size)
        self.ranges.append((start, start + len(data)))
        return data


class TestGolden:
    @pytest.mark.parametrize(
        ("golden", "entries"),
        [(GOLDEN_TWO, TWO), (GOLDEN_APPENDED, {**TWO, **THIRD}), (GOLDEN_DEFLATED, many(3))],
    )
    def test_reads(self, golden, entries):
        assert readable(bytes.fromhex(golden)) == entries
        assert not ArchiveReader(io.BytesIO(bytes.fromhex(golden))).recovered

    def test_writes(self):
        assert archive_of(TWO).hex() == GOLDEN_TWO
        assert appended(archive_of(TWO), THIRD).hex() == GOLDEN_APPENDED

    @pytest.mark.parametrize("golden", [GOLDEN_TWO, GOLDEN_APPENDED, GOLDEN_DEFLATED])
    def test_stands_in_the_specification(self, golden):
        assert golden in SPECIFICATION.read_text().replace("\n", "")


class TestRoundTrip:
    @given(
        st.dictionaries(st.text(max_size=20).filter(lambda name: not name_problem(name)), any_entry(), max_size=5),
        st.none() | any_options(),
        st.booleans(),
    )
    def test_any_entries(self, entries, options, recoverable):
        data = archive_of(entries, options, recoverable)
        assert is_archive(data)
        assert not is_single(data)
        assert readable(data, UNLIMITED) == entries
        assert list(readable(data, UNLIMITED)) == list(entries)

    def test_many_groups(self):
        entries = many(3 * GROUP_ENTRIES + 1)
        data = archive_of(entries)
        assert data.count(GROUP) == 4
        assert readable(data) == entries

    def test_large_entries_do_not_wait_in_memory(self):
        file = io.BytesIO()
        with ArchiveWriter.create(file) as writer:
            writer.add("a", coded_image(bytes(2**20)))
            assert len(file.getvalue()) > 2**20

    def test_empty(self):
        assert readable(archive_of({})) == {}

    def test_mixed_models(self):
        entries = {"shared": coded_image(b"1"), "own": coded_image(b"2", OTHER_OPTIONS)}
        for options in (None, OPTIONS, OTHER_OPTIONS):
            assert readable(archive_of(entries, options)) == entries

    def test_sizes(self):
        """Bytes besides the bodies, for 1000 names that look alike."""
        entries = many(1000)
        bodies = sum(len(entry.content.chunks[0]) for entry in entries.values())
        each = [(len(archive_of(entries, recoverable=recoverable)) - bodies) / 1000 for recoverable in (True, False)]
        print(f"an archive of 1000 entries takes {each[0]:.1f} bytes an entry, {each[1]:.1f} without groups")
        assert each[0] < 18
        assert each[1] < 9


class TestReader:
    def test_random_access_reads_nothing_else(self):
        entries = many(500)
        file = RecordingFile(archive_of(entries))
        reader = ArchiveReader(file)
        index_start = file.getvalue().rindex(INDEX)
        assert all(end <= 5 or start >= index_start for start, end in file.ranges)
        for name in ("test/00300.png", "test/00007.png"):
            file.ranges.clear()
            assert reader.read(name) == entries[name]
            listing = reader.listings[name]
            assert file.ranges == [(listing.offset, listing.end)]

    def test_listings_tell_what_is_there(self):
        reader = ArchiveReader(io.BytesIO(archive_of(TWO)))
        assert list(reader.listings) == list(TWO)
        assert reader.listings["a/image.png"].header.fields == TWO["a/image.png"].fields
        assert reader.listings["a/image.png"].header.options == OPTIONS
        assert reader.listings["b.bin"].header.options is None

    def test_no_such_entry(self):
        with pytest.raises(DataError, match="no entry 'c'"):
            ArchiveReader(io.BytesIO(archive_of(TWO))).read("c")

    def test_unknown_version_is_named(self):
        with pytest.raises(UnknownVersionError, match="archive has format version 3; this software reads version 1"):
            ArchiveReader(io.BytesIO(flipped(archive_of(TWO), 4, 2)))

    def test_foreign(self):
        for data in (b"", b"\xad", b"\xadARC", bytes(100), b"PK\3\4" + bytes(50)):
            with pytest.raises(DamagedError):
                ArchiveReader(io.BytesIO(data))

    def test_file_that_shrinks(self):
        file = io.BytesIO(archive_of(TWO))
        reader = ArchiveReader(file)
        file.truncate(30)
        with pytest.raises(DamagedError, match="shorter"):
            reader.read("b.bin")


class TestNames:
    @pytest.mark.parametrize("name", ["a", "a/b.png", "ü/漢字.txt", "..a", "a..", "-", "a b", "12:30.png", "é" * 512])
    def test_allowed(self, name):
        assert readable(archive_of({name: ENTRIES["image"]})) == {name: ENTRIES["image"]}

    @pytest.mark.parametrize(
        "name",
        [
            *("", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "../a"),
            *("a\nb", "a\0", "\x7f", "\x9b", "\ud800", "a\\b", "C:a", "c:/a"),
            "a" * (MAX_NAME_BYTES + 1),
            "é" * 513,
        ],
    )
    def test_refused(self, name):
        with pytest.raises(DataError, match="cannot hold"):
            archive_of({name: ENTRIES["image"]})

    def test_twice(self):
        file = io.BytesIO()
        writer = ArchiveWriter.create(file, OPTIONS)
        writer.add("a", ENTRIES["image"])
        with pytest.raises(DataError, match="already holds"):
            writer.add("a", ENTRIES["stored"])
        writer.close()
        with pytest.raises(DataError, match="already holds"):
            appended(file.getvalue(), {"a": ENTRIES["image"]})

    def test_hostile_archive(self):
        """A name that would leave the folder is never listed, whatever the checks say."""
        data = archive_of({"aa/aa": ENTRIES["stored"]}, None).replace(b"aa/aa", b"../aa")
        assert b"../aa" in data
        with pytest.raises(DamagedError):
            ArchiveReader(io.BytesIO(resealed(data)))


def resealed(data: bytes) -> bytes:
    """An archive of one group with the checks of its blocks made right again."""
    out = bytearray(data)
    for marker in (GROUP, INDEX):
        start = out.rindex(marker)
        end = start + len(marker) + 1 + out[start + len(marker)]
        out[end : end + 4] = uint32(check_of(uint64(start), bytes(out[start:end])))
    return bytes(out)


class TestAppend:
    def test_changes_no_byte(self):
        old = archive_of(TWO)
        new = appended(old, THIRD)
        assert new.startswith(old)
        assert readable(new) == {**TWO, **THIRD}

    def test_on_disk(self, tmp_path):
        path = tmp_path / "x.ardma"
        with path.open("wb") as file, ArchiveWriter.create(file, OPTIONS) as writer:
            writer.add("a", ENTRIES["image"])
        before = path.read_bytes()
        with pytest.raises(DataError), path.open("r+b") as file, ArchiveWriter.append(file) as writer:
            writer.add("b", ENTRIES["image"])
            writer.add("a", ENTRIES["image"])
        assert path.read_bytes() == before
        with path.open("r+b") as file, ArchiveWriter.append(file) as writer:
            writer.add("b", ENTRIES["stored"])
        with path.open("rb") as file:
            assert ArchiveReader(file).read("b") == ENTRIES["stored"]
        assert readable(path.read_bytes()) == {"a": ENTRIES["image"], "b": ENTRIES["stored"]}

    def test_again_and_again(self):
        data = archive_of({})
        entries = many(20)
        for name, entry in entries.items():
            data = appended(data, {name: entry})
        assert readable(data) == entries
        assert readable(data[:-1]) == entries

    def test_crash_at_every_byte(self):
        """A file cut anywhere in an append still gives every old entry, and the new ones that are whole."""
        old, new = archive_of(many(5)), appended(archive_of(many(5)), {**TWO, **THIRD})
        expected = {**many(5), **TWO, **THIRD}
        with unchecked_shapes():
            for length in range(len(old), len(new)):
                found = readable(new[:length])
                assert found.items() <= expected.items()
                assert found.keys() >= many(5).keys()
        assert readable(new) == expected

    def test_crash_and_another_attempt(self):
        """Entries cut in a first attempt are written by the second; no scan takes the remains for them."""
        old = archive_of(many(3))
        attempt = appended(old, {**TWO, **THIRD})
        expected = {**many(3), **TWO, **THIRD}
        with unchecked_shapes():
            for length in range(len(old), len(attempt)):
                found = readable(attempt[:length])
                data = appended(attempt[:length], {name: expected[name] for name in expected.keys() - found.keys()})
                assert not ArchiveReader(io.BytesIO(data)).recovered
                assert readable(data) == expected
                assert readable(data[: data.rindex(INDEX)]) == expected

    def test_failure_leaves_the_old_archive(self):
        old = archive_of(TWO)
        file = io.BytesIO(old)
        with pytest.raises(KeyboardInterrupt), ArchiveWriter.append(file) as writer:
            for name, entry in many(2 * GROUP_ENTRIES).items():
                writer.add(name, entry)
            raise KeyboardInterrupt
        assert file.getvalue() == old

    def test_heals_a_damaged_index(self):
        damaged = flipped(archive_of(TWO), -1)
        data = appended(damaged, THIRD)
        assert data.startswith(damaged)
        reader = ArchiveReader(io.BytesIO(data))
        assert not reader.recovered
        assert readable(data) == {**TWO, **THIRD}


class TestDamage:
    def test_any_bit_loses_one_entry_at_most(self):
        data = appended(archive_of(many(4)), {**TWO, **THIRD})
        entries = {**many(4), **TWO, **THIRD}
        with unchecked_shapes():
            for bit in range(8 * 5, 8 * len(data)):
                found = readable(flipped(data, bit // 8, 1 << bit % 8))
                assert found.items() <= entries.items()
                assert len(found) >= len(entries) - 1

    def test_first_bytes(self):
        for position in range(5):
            with pytest.raises((DamagedError, UnknownVersionError)):
                ArchiveReader(io.BytesIO(flipped(archive_of(TWO), position)))

    def test_damaged_entry_is_named(self):
        reader = ArchiveReader(io.BytesIO(archive_of(TWO).replace(b"payload", b"paxload")))
        assert not reader.recovered
        with pytest.raises(DamagedError, match="entry 'a/image.png' is damaged: its check"):
            reader.read("a/image.png")
        assert reader.read("b.bin") == TWO["b.bin"]

    def test_cut_at_every_byte(self):
        data = archive_of(TWO)
        for length in range(len(data)):
            try:
                found = readable(data[:length])
            except DamagedError:
                assert length < data.index(INDEX)
                continue
            assert found.items() <= TWO.items()
            assert length < data.index(INDEX) or found == TWO

    def test_recovery_is_told(self):
        reader = ArchiveReader(io.BytesIO(archive_of(TWO)[:-1]))
        assert reader.recovered
        assert reader.options == OPTIONS
        assert list(reader.listings) == list(TWO)

    def test_more_bytes_at_the_end(self):
        assert readable(archive_of(TWO) + bytes(1000)) == TWO

    def test_without_groups_the_index_is_all(self):
        data = archive_of(TWO, recoverable=False)
        assert readable(data) == TWO
        assert readable(data + b"\0") == TWO
        with pytest.raises(DamagedError, match="neither its index nor any group"):
            ArchiveReader(io.BytesIO(data[: data.index(INDEX)]))

    def test_lost_model(self):
        """Without a header and an index, entries that share the archive's options cannot be decoded; others can."""
        data = archive_of({**TWO, **THIRD})
        damaged = flipped(data, 8)[: data.index(INDEX)]
        reader = ArchiveReader(io.BytesIO(damaged))
        with pytest.raises(DamagedError, match="'a/image.png' is damaged"):
            reader.read("a/image.png")
        assert readable(damaged) == {"b.bin": TWO["b.bin"], **THIRD}

    def test_archive_inside_an_archive(self):
        """The blocks of an entry's own content are never taken for those of the archive."""
        inner = archive_of(many(3))
        outer = {"inner": coded_image(inner), **TWO}
        data = archive_of(outer)
        assert inner in data
        for length in range(len(data) - TRAILER_BYTES, len(data)):
            assert readable(data[:length]) == outer
        with unchecked_shapes():
            for position in range(18, len(data)):
                damaged = flipped(data, position)[: data.rindex(INDEX)]
                with suppress(DamagedError):  # the only group
                    assert ArchiveReader(io.BytesIO(damaged)).listings.keys() == outer.keys()

    def test_glued_archives(self):
        """Bytes of one archive in the place of another's: each entry is that of one of the two."""
        first, second = archive_of(many(6)), archive_of({name: coded_image(b"x" + name.encode()) for name in many(6)})
        sources = [set(readable(first).items()), set(readable(second).items())]
        for cut in range(5, min(len(first), len(second))):
            found = set(readable(first[:cut] + second[cut:]).items())
            assert found <= sources[0] | sources[1]


class TestHostile:
    def test_limits_concern_one_entry(self):
        huge = ImageFields(width=2**20, height=2**20, mode="L")
        entries = {"huge": Entry(fields=huge, content=Coded(options=OPTIONS, chunks=(b"",))), **TWO}
        reader = ArchiveReader(io.BytesIO(archive_of(entries)))
        with pytest.raises(TooLargeError, match="1099511627776 content bytes"):
            reader.read("huge")
        assert reader.read("b.bin") == TWO["b.bin"]

    def test_limits_of_an_archive(self):
        data = archive_of(many(100))
        with pytest.raises(TooLargeError, match="entries"):
            ArchiveReader(io.BytesIO(data), Limits(entries=99))
        with pytest.raises(TooLargeError, match="directory bytes"):
            ArchiveReader(io.BytesIO(data), Limits(directory_bytes=1000))
        with pytest.raises(TooLargeError, match="content bytes"):
            ArchiveReader(io.BytesIO(data), Limits(content_bytes=10)).read("test/00000.png")

    @pytest.mark.parametrize(
        "directory",
        [
            varint(2**40),  # entries that are not there
            varint(2**20),
            varint(1) + varint(2**62) + bytes(4) + b"\0\0\1a\x11\x01",  # a body that is not there
            varint(1) + varint(1) + bytes(4) + b"\1" + varint(2**40),
            varint(1) + varint(1) + bytes(4) + b"\1" + varint(1000) + deflate(bytes(2**26)),
        ],
    )
    def test_claims_take_no_memory(self, directory):
        data = with_index(archive_of({}), b"\0" + directory)
        with pytest.raises(TYPED_ERRORS):
            ArchiveReader(io.BytesIO(data)).read("a")
        assert peak_bytes(lambda: ArchiveReader(io.BytesIO(data))) < 20 * len(data) + 100_000

    def test_overlapping_bodies_cannot_be_said(self):
        """Gaps are not negative, so bodies take no more bytes together than the file has."""
        listing = varint(2**64 - 1) + b"\1a\x11\x01"
        data = with_index(archive_of({}), b"\0" + varint(1) + varint(1) + bytes(4) + b"\0" + listing)
        with pytest.raises(DamagedError):
            ArchiveReader(io.BytesIO(data)).read("a")

    @pytest.mark.parametrize("length", [1, 100, 100_000])
    def test_false_blocks_take_no_time(self, length):
        """Each false group would cost a check over much of the file; the scan gives up."""
        data = archive_of(TWO)[:-1] + (GROUP + varint(length)) * 50_000
        start = time.thread_time()
        with unchecked_shapes(), suppress(DamagedError):
            assert readable(data) == TWO
        assert time.thread_time() - start < 10


def with_index(archive: bytes, content: bytes) -> bytes:
    """An archive whose index is replaced, with right checks."""
    start = archive.rindex(INDEX)
    block = INDEX + varint(len(content)) + content
    block += uint32(check_of(uint64(start), block))
    trailer = b"\xadEND" + uint64(len(block))
    return archive[:start] + block + trailer + uint32(check_of(uint64(start + len(block)), trailer))
