"""Single compressed files: golden bytes, sizes, round trips, and what is refused."""

import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import ENTRIES, MODEL, OPTIONS, OTHER_OPTIONS, TYPED_ERRORS, any_entry, any_options, coded_image

from ardm.codec.format.entries import Coded, Entry, Limits, Raw, coded_or_raw
from ardm.codec.format.fields import BytesFields, ImageFields, SoundFields, TextFields
from ardm.codec.format.options import (
    Options,
    OrderChoice,
    decode_options,
    encode_options,
    find_identity,
    short_identity,
)
from ardm.codec.format.single import SINGLE_MAGIC, is_single, read_single, single_length, write_single
from ardm.codec.format.wire import Cursor, check_of, deflate, inflate, uint32, varint
from ardm.errors import DamagedError, TooLargeError, UnknownModelError, UnknownVersionError
from ardm.names import ORDER_NAMES
from ardm.orders import NAMED_ORDERS

UNLIMITED = Limits(content_bytes=2**70, chunks=2**70)

GOLDEN = {
    "image": "ad52010300112233445520207061796c6f6164f17a61b8",
    "chosen options": "ad5201436d6f64656c3205f0a2040420207061796c6f6164376a506c",
    "chunks": "ad520128001122334455bc05076573636170657303050066697273747468697264463f934d",
    "sound": "ad520107001122334455807d807d00ff00ff00ff00ff00ff460937a5",
    "stored": "ad52011103616263038f2cae",
    "deflated": "ad520118ac023bbcf2f0281c85548700264edbb2",
}
"""Version 1. Files that must be read so forever; the same stand in docs/format.md."""


def sealed(content: bytes) -> bytes:
    """Content of a file with the right check."""
    return content + uint32(check_of(content))


def peak_bytes(action) -> int:
    """The most memory that an action held, whether it fails or not."""
    tracemalloc.start()
    try:
        action()
    except TYPED_ERRORS:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


class TestGolden:
    @pytest.mark.parametrize("name", GOLDEN)
    def test_reads(self, name):
        assert read_single(bytes.fromhex(GOLDEN[name])) == ENTRIES[name]

    @pytest.mark.parametrize("name", [name for name in GOLDEN if name != "deflated"])  # zlib's own choice of bytes
    def test_writes(self, name):
        assert write_single(ENTRIES[name]).hex() == GOLDEN[name]

    def test_every_form_has_one(self):
        assert GOLDEN.keys() == ENTRIES.keys()

    @pytest.mark.parametrize("name", GOLDEN)
    def test_stands_in_the_specification(self, name):
        specification = Path(__file__).parents[3] / "docs" / "format.md"
        assert GOLDEN[name] in specification.read_text()


class TestSizes:
    def test_image_header_and_check_take_16_bytes(self):
        size = len(write_single(coded_image(b"")))
        print(f"header and check of a 32x32 RGB image: {size} bytes")
        assert size == 16

    def test_text_header_and_check(self):
        entry = Entry(fields=TextFields(length=250), content=Coded(options=OPTIONS, chunks=(b"",)))
        assert len(write_single(entry)) == 16

    def test_raw_names_no_model(self):
        assert len(write_single(ENTRIES["stored"])) == 3 + 9

    def test_raw_where_coding_expands(self):
        entry = coded_image(b"")
        pixels = random.Random(0).randbytes(32 * 32 * 3)
        coded = Entry(fields=entry.fields, content=Coded(options=OPTIONS, chunks=(bytes(3067),)))
        assert coded_or_raw(entry, pixels, single_length) is entry
        assert coded_or_raw(coded, pixels, single_length).content == Raw(content=pixels)
        shorter = Entry(fields=entry.fields, content=Coded(options=OPTIONS, chunks=(bytes(3065),)))
        assert coded_or_raw(shorter, pixels, single_length) is shorter  # the model's 6 bytes count


class TestRoundTrip:
    @given(any_entry())
    def test_any_entry(self, entry):
        data = write_single(entry)
        assert is_single(data)
        assert single_length(entry) == len(data)
        assert read_single(data, UNLIMITED) == entry

    @given(any_options())
    def test_any_options(self, options):
        cursor = Cursor(encode_options(options))
        assert decode_options(cursor) == options
        cursor.finish()

    @given(st.integers(0, 2**64 - 1))
    def test_any_number(self, number):
        cursor = Cursor(varint(number))
        assert cursor.varint() == number
        cursor.finish()

    @given(st.binary(max_size=12))
    def test_numbers_have_one_form(self, data):
        cursor = Cursor(data)
        try:
            number = cursor.varint()
        except DamagedError:
            return
        assert varint(number) + cursor.rest() == data

    @given(st.binary(max_size=12))
    def test_files_have_one_form(self, tail):
        """What can be read of any header would be written so; raw content may be held in two ways."""
        data = sealed(SINGLE_MAGIC + b"\1" + tail)
        try:
            entry = read_single(data, UNLIMITED)
        except TYPED_ERRORS:
            return
        assert isinstance(entry.content, Raw) or write_single(entry) == data


class TestDamage:
    @pytest.mark.parametrize("name", GOLDEN)
    def test_cut_anywhere(self, name):
        data = bytes.fromhex(GOLDEN[name])
        for length in range(len(data)):
            with pytest.raises(DamagedError):
                read_single(data[:length])

    @pytest.mark.parametrize("name", GOLDEN)
    def test_any_bit_flipped(self, name):
        data = bytes.fromhex(GOLDEN[name])
        for bit in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            with pytest.raises((DamagedError, UnknownVersionError)):
                read_single(bytes(flipped))

    def test_spliced(self):
        files = [bytes.fromhex(text) for text in GOLDEN.values()]
        for left in files:
            for right in files:
                for cut in range(1, len(left)):
                    spliced = left[:cut] + right[-cut:]
                    if spliced not in files:
                        with pytest.raises((DamagedError, UnknownVersionError)):
                            read_single(spliced)

    @pytest.mark.parametrize(
        ("header", "message"),
        [
            ("83 001122334455 20 20", "flags"),  # the reserved bit
            ("31 03", "flags"),  # raw content with side bytes
            ("51 03", "flags"),  # raw content with options
            ("43 001122334455 00 00 20 20", "default options"),
            ("43 001122334455 07 00 20 20", "outside 0..6"),  # no such order
            ("43 001122334455 05 8080808010 00 20 20", "outside"),  # a seed of 33 bits
            ("03 001122334455 a000 20", "shortest form"),
            ("03 001122334455 00 20", "outside 1.."),  # no pixels
            ("01 001122334455 8080808080808080808001", "64 bits"),
            ("07 001122334455 05 00", "outside 1.."),  # no rate
            ("23 001122334455 20 20 00", "outside 1.."),  # no side bytes where some are stated
            ("23 001122334455 20 20 05 61", "too soon"),
            ("0b 001122334455 20 20 01", "outside 2.."),  # several chunks, but one
            ("0b 001122334455 20 20 02 05 61", "too soon"),
            ("11 03 61", "do not fit"),
            ("10 03 61 62 ff", "do not fit"),  # no UTF-8
            ("19 03 61", "deflated"),
            ("19 03 4b4c4a0600 00", "stated size"),  # something after the stream
            ("19 02 4b4c4a0600", "stated size"),  # three bytes where two are stated
        ],
    )
    def test_malformed_under_a_right_check(self, header, message):
        data = sealed(SINGLE_MAGIC + b"\1" + bytes.fromhex(header))
        with pytest.raises(DamagedError, match=message):
            read_single(data)

    def test_foreign(self):
        for data in (b"", b"\xad", SINGLE_MAGIC, b"\x89PNG\r\n\x1a\n", bytes(100)):
            with pytest.raises(DamagedError):
                read_single(data)

    def test_unknown_version_is_named(self):
        data = bytearray.fromhex(GOLDEN["image"])
        data[2] = 7
        with pytest.raises(UnknownVersionError, match="version 7; this software reads version 1"):
            read_single(bytes(data))


class TestLimits:
    @pytest.mark.parametrize(
        "fields",
        [
            ImageFields(width=2**20, height=2**20, mode="L"),
            ImageFields(width=2**31 - 1, height=2**31 - 1, mode="RGBA"),
            TextFields(length=2**40),
            BytesFields(length=2**63 - 1),
            SoundFields(num_samples=2**40, num_channels=1, sample_rate=8000),
        ],
    )
    def test_hostile_sizes_take_no_memory(self, fields):
        data = write_single(Entry(fields=fields, content=Coded(options=OPTIONS, chunks=(b"",))))
        with pytest.raises(TooLargeError, match=f"{fields.content_bytes} content bytes"):
            read_single(data)
        assert peak_bytes(lambda: read_single(data)) < 50_000

    def test_hostile_number_of_chunks_takes_no_memory(self):
        data = sealed(SINGLE_MAGIC + bytes.fromhex("01 0b 001122334455 20 20") + varint(2**40))
        with pytest.raises(TooLargeError, match="chunks"):
            read_single(data)
        within = sealed(SINGLE_MAGIC + bytes.fromhex("01 0b 001122334455 20 20") + varint(2**20))
        with pytest.raises(DamagedError, match="too soon"):
            read_single(within)
        assert peak_bytes(lambda: read_single(within)) < 50_000

    def test_deflated_content_never_grows_beyond_what_is_stated(self):
        bomb = deflate(bytes(2**26))
        data = sealed(SINGLE_MAGIC + bytes([1, 0x19]) + varint(1000) + bomb)
        with pytest.raises(DamagedError, match="stated size"):
            read_single(data)
        assert peak_bytes(lambda: read_single(data)) < 4 * len(data) + 50_000

    def test_inflate_is_exact(self):
        for size in (0, 1, 2, 255, 70_000):
            content = random.Random(size).randbytes(size)
            assert inflate(deflate(content), size) == content
            if size:
                with pytest.raises(DamagedError):
                    inflate(deflate(content), size - 1)


class TestModels:
    def test_found(self):
        assert find_identity(short_identity(MODEL).hex(), [bytes(16), MODEL, MODEL]) == MODEL

    def test_unknown_is_named(self):
        with pytest.raises(UnknownModelError, match="001122334455"):
            find_identity(OPTIONS.model.hex(), [bytes(16)])

    def test_ambiguous_is_refused(self):
        with pytest.raises(UnknownModelError, match="several"):
            find_identity(OPTIONS.model.hex(), [MODEL, MODEL[:6] + bytes(10)])

    def test_numbers_of_orders_never_change(self):
        assert ORDER_NAMES == ("raster", "reverse", "spaced", "halton", "pseudorandom", "strands")
        assert set(ORDER_NAMES) == {*NAMED_ORDERS, "strands"}


class TestValues:
    @pytest.mark.parametrize(
        "make",
        [
            lambda: ImageFields(width=0, height=1, mode="L"),
            lambda: ImageFields(width=1, height=2**31, mode="L"),
            lambda: SoundFields(num_samples=1, num_channels=3, sample_rate=8000),
            lambda: SoundFields(num_samples=1, num_channels=1, sample_rate=0),
            lambda: TextFields(length=-1),
            lambda: BytesFields(length=-1),
            lambda: Options(model=b"short"),
            lambda: Options(model=b"sixsix", schedule=2**16),
            lambda: OrderChoice(name="random"),
            lambda: OrderChoice(name="raster", seed=1),
            lambda: OrderChoice(name="pseudorandom", seed=2**32),
            lambda: Coded(options=OTHER_OPTIONS, chunks=()),
            lambda: Entry(fields=BytesFields(length=2), content=Raw(content=b"abc")),
            lambda: short_identity(b"short"),
            lambda: varint(-1),
            lambda: varint(2**64),
        ],
    )
    def test_impossible_ones_are_refused(self, make):
        with pytest.raises(ValueError):
            make()
