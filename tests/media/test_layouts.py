"""Contents of every kind through the codec and back, with a network that hashes all that it is shown."""

import io
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from stored import unchecked_shapes
from tiny_exact import ALPHABET, SAMPLE_RATE, hashing_codec, tiny_exact

from ardm.codec import windows
from ardm.codec.batching import Batching
from ardm.codec.format.entries import Coded, Entry, Limits, Raw
from ardm.codec.format.fields import BytesFields, ImageFields, SoundFields, TextFields
from ardm.codec.format.options import Options, OrderChoice
from ardm.codec.format.single import read_single, write_single
from ardm.compression import content_codec
from ardm.compression.content_codec import CodecSet, ContentCodec
from ardm.data.sound_files import read_sound
from ardm.errors import DamagedError, DataError, TooLargeError, UnknownModelError, UsageError
from ardm.media import medium_of
from ardm.media.contents import (
    Content,
    bytes_content,
    content_of,
    image_content,
    restored_file,
    restored_suffix,
    sound_content,
    text_content,
    value_of,
)
from ardm.media.images.layout import decode_alpha, encode_alpha
from ardm.media.text.layout import decode_escapes, encode_escapes

MODES = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}


@pytest.fixture
def always_coded(monkeypatch):
    """Content is coded even where that is longer, as it is with networks that hash."""
    monkeypatch.setattr(content_codec, "coded_or_raw", lambda entry, *_: entry)


def pixels(height: int, width: int, mode: str, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, MODES[mode]), dtype=np.uint8)
    return noise[:, :, 0] if mode == "L" else noise


def frames(num_samples: int, num_channels: int, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(-(2**15), 2**15, (num_samples, num_channels)).astype(np.int16)
    return noise[:, 0] if num_channels == 1 else noise


def round_trip(codec: ContentCodec, contents: list[Content], batch_size: int = 64, **options) -> list[Entry]:
    """The entries of contents, which restore through files to the same contents."""
    batching = Batching(batch_size=batch_size)
    entries = codec.encode(list(map(codec.place, contents)), codec.options(**options), batching)
    stored = [read_single(write_single(entry)) for entry in entries]
    assert CodecSet([codec]).decode(stored, batching) == contents
    return entries


@pytest.mark.usefixtures("always_coded")
class TestRoundTrips:
    """Whatever comes in comes out."""

    @pytest.mark.parametrize("model", ["colour", "grey"])
    @given(st.integers(1, 40), st.integers(2, 70), st.sampled_from(sorted(MODES)), st.booleans())
    @settings(max_examples=60)
    def test_images(self, model, height, width, mode, is_grey):
        image = pixels(height, width, mode)
        if is_grey and mode.startswith("RGB"):
            image[:, :, 1:3] = image[:, :, :1]
        with unchecked_shapes():
            (entry,) = round_trip(hashing_codec(model), [image_content(image)])
        assert isinstance(entry.content, Coded)
        assert bool(entry.content.side) == (mode.endswith("A") or (is_grey and mode == "RGB"))

    @pytest.mark.parametrize("model", ["colour", "grey"])
    def test_equal_channels_cost_no_more_than_one(self, model):
        image = pixels(20, 30, "RGB")
        image[:, :, 1:] = image[:, :, :1]
        codec = ContentCodec(tiny_exact(model))
        colour, grey = round_trip(codec, [image_content(image), image_content(image[:, :, 0].copy())])
        assert colour.content.chunks == grey.content.chunks
        assert colour.content.side == b"\x0f"

    @given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(ALPHABET), max_size=80))
    @settings(max_examples=150)
    def test_texts(self, text):
        with unchecked_shapes():
            (entry,) = round_trip(hashing_codec("text"), [text_content(text)])
        assert isinstance(entry.content, Coded) == bool(text)
        if text:
            assert bool(entry.content.side) == any(c not in ALPHABET for c in text)

    @given(st.binary(max_size=80))
    @settings(max_examples=50)
    def test_bytes(self, raw):
        with unchecked_shapes():
            round_trip(hashing_codec("bytes"), [bytes_content(raw)])

    @given(
        st.integers(0, 90), st.integers(1, 2), st.integers(1, 2**32 - 1), st.sampled_from(["noise", "equal", "near"])
    )
    @settings(max_examples=60)
    def test_sounds(self, num_samples, num_channels, rate, stereo):
        sound = frames(num_samples, num_channels)
        if num_channels == 2 and stereo != "noise":
            near = np.random.default_rng(1).integers(0, 5 if stereo == "near" else 1, num_samples)
            sound[:, 1] = (sound[:, 0] + near).astype(np.int16)
        with unchecked_shapes():
            round_trip(hashing_codec("sound"), [sound_content(sound, rate)])

    @pytest.mark.parametrize("kind", ["colour", "grey", "sound", "text", "bytes"])
    def test_real_exact_networks(self, kind):
        values = {
            "colour": [pixels(21, 34, mode) for mode in MODES],
            "grey": [pixels(10, 18, mode) for mode in MODES],
            "sound": [frames(51, 1), frames(33, 2)],
            "text": ["the cat sat on the mat, and so on ", "x", ALPHABET * 2],
            "bytes": [bytes(range(50)), b"x"],
        }[kind]
        codec = ContentCodec(tiny_exact(kind))
        contents = [content_of(value, SAMPLE_RATE) for value in values]
        one_by_one = [round_trip(codec, [content], batch_size=1)[0] for content in contents]
        assert round_trip(codec, contents, batch_size=7) == one_by_one == round_trip(codec, contents)

    def test_small_bundles(self, monkeypatch):
        monkeypatch.setattr(windows, "BUNDLE_VARIABLES", 40)
        content = text_content("some text that takes so many windows that their bundles are many " * 2)
        with unchecked_shapes():
            small = [round_trip(hashing_codec("text"), [content] * 3, batch_size=n) for n in (1, 3, 64)]
        assert small[0] == small[1] == small[2]
        assert len(small[0][0].content.chunks) == 6  # 10 windows, in twos of the same wave

    def test_other_options(self):
        codec = hashing_codec("colour")
        content = image_content(pixels(12, 30, "RGB"))
        (entry,) = round_trip(codec, [content], num_calls=7, order=OrderChoice(name="pseudorandom", seed=9))
        assert entry.content.options.schedule == 0
        assert entry.content.options.order == OrderChoice(name="pseudorandom", seed=9)
        (entry,) = round_trip(codec, [content], num_calls=10)
        assert entry.content.options.is_default

    def test_entries_with_different_options_share_a_call_of_decode(self):
        codec = hashing_codec("text")
        contents = [text_content("some text or other " * n) for n in range(4)]
        placed = list(map(codec.place, contents))
        entries = [
            *codec.encode(placed[:2], codec.options(), Batching()),
            *codec.encode(placed[2:], codec.options(5), Batching()),
        ]
        assert CodecSet([codec]).decode(entries, Batching()) == contents

    def test_many_different_options_do_not_fill_the_memory(self):
        codec = hashing_codec("text")
        content = text_content("some text")
        for seed in range(2 * content_codec.MAX_ITEM_CODECS):
            round_trip(codec, [content], order=OrderChoice(name="pseudorandom", seed=seed))
        assert codec.item_codec.cache_info().currsize <= content_codec.MAX_ITEM_CODECS

    def test_windows_see_their_neighbours(self):
        """The same window with another neighbour has another payload, unless it is coded first."""
        codec = hashing_codec("text")
        first, second = (
            codec.encode([codec.place(text_content(c + "b" * 25))], codec.options(), Batching())[0] for c in "ab"
        )
        assert first.content.chunks[0] != second.content.chunks[0]
        changed = codec.encode([codec.place(text_content("b" * 15 + "a" + "b" * 10))], codec.options(), Batching())[0]
        assert changed.content.chunks[1] != second.content.chunks[1]  # place 15 is shared by windows 0 and 1

    def test_channels_that_follow_from_others_are_not_coded(self):
        sound = frames(20, 1)
        (both,) = round_trip(hashing_codec("sound"), [sound_content(np.stack((sound, sound), 1), 8000)])
        (alone,) = round_trip(hashing_codec("sound"), [sound_content(sound, 8000)])
        assert both.content.chunks == alone.content.chunks

    def test_escaped_characters_cost_no_code(self):
        plain, escaped = (round_trip(hashing_codec("text"), [text_content(t)])[0] for t in ("a" * 16, "a" + "Z" * 15))
        assert len(escaped.content.chunks[0]) < len(plain.content.chunks[0]) / 2

    @pytest.mark.parametrize("kind", ["colour", "grey", "sound", "text"])
    def test_every_place_has_its_bits(self, kind):
        """They add up to what the chunks come to, and what is hidden has none."""
        codec = hashing_codec(kind)
        values = {"colour": pixels(21, 34, "L"), "grey": pixels(21, 34, "RGB"), "sound": frames(51, 2)}
        content = content_of(values.get(kind, "the cat sat on the mat, Z and so on"), SAMPLE_RATE)
        entry = codec.encode([codec.place(content)], codec.options(), Batching())[0]
        bits = codec.measure(codec.place(content), codec.options(), Batching(batch_size=7))
        canvases = codec.place(content).canvases
        assert [one.shape for one in bits] == [canvas.values.shape for canvas in canvases]
        num_bits = 8 * sum(map(len, entry.content.chunks))
        assert sum(one.sum() for one in bits) == pytest.approx(num_bits, rel=1e-3, abs=24.5 * len(entry.content.chunks))
        for one, canvas in zip(bits, canvases, strict=True):
            hidden = np.broadcast_to(False if canvas.hidden is None else canvas.hidden, one.shape)
            assert (one[~hidden] > 0).all()
            assert not one[hidden].any()

    def test_progress_is_announced_and_made(self):
        codec = hashing_codec("grey")
        announced, made = [], []
        batching = Batching(batch_size=7, on_start=announced.append, on_batch=made.append)
        codec.encode([codec.place(image_content(pixels(20, 30, "L")))], codec.options(), batching)
        assert sum(announced) >= sum(made) > 0
        assert max(made) == 7


@pytest.mark.usefixtures("always_coded")
class TestDamage:
    """Entries that cannot be: each gives a DamagedError and spares the others."""

    def entry(self, kind: str, value) -> tuple[ContentCodec, Entry]:
        codec = hashing_codec(kind)
        return codec, codec.encode([codec.place(content_of(value, SAMPLE_RATE))], codec.options(), Batching())[0]

    def decoded(self, codec: ContentCodec, entry: Entry):
        (restored,) = CodecSet([codec]).decode([entry], Batching())
        return restored

    def changed(self, entry: Entry, fields=None, **parts) -> Entry:
        content = {"options": entry.content.options, "chunks": entry.content.chunks, "side": entry.content.side} | parts
        return Entry(fields=fields or entry.fields, content=Coded(**content))

    def test_one_entry_does_not_ruin_the_rest(self):
        codec, entry = self.entry("text", "some words that take several windows")
        chunks = (entry.content.chunks[0], b"\1\2\3", *entry.content.chunks[2:])
        restored = CodecSet([codec]).decode([entry, self.changed(entry, chunks=chunks), entry], Batching())
        assert isinstance(restored[1], DamagedError)
        assert restored[0] == restored[2] == text_content("some words that take several windows")

    @pytest.mark.parametrize(
        ("kind", "value", "change", "message"),
        [
            ("colour", pixels(9, 17, "RGB"), {"fields": ImageFields(width=18, height=9, mode="RGB")}, "1 chunks .* 2"),
            ("colour", pixels(9, 17, "RGB"), {"fields": ImageFields(width=2**20, height=2**9, mode="L")}, "chunks"),
            ("colour", pixels(9, 17, "RGB"), {"side": b"\4\0"}, "side bytes do not fit"),
            ("colour", pixels(9, 17, "RGB"), {"side": b"\7"}, "side bytes do not fit"),
            ("colour", pixels(9, 17, "RGB"), {"side": b"\x0f\0"}, "side bytes do not fit"),
            ("grey", pixels(9, 17, "L"), {"side": b"\x0f"}, "side bytes do not fit"),
            ("grey", pixels(9, 17, "LA"), {"side": b"\x0c\0"}, "side bytes do not fit"),
            (
                "colour",
                pixels(9, 17, "RGB"),
                {"fields": TextFields(length=10)},
                "holds text, but its model is for image",
            ),
            ("grey", pixels(9, 17, "L"), {"fields": ImageFields(width=17, height=9, mode="RGB")}, "1 chunks .* 3"),
            ("grey", pixels(9, 17, "LA"), {"side": b"\5\0"}, "an unknown form: 5"),
            ("grey", pixels(9, 17, "LA"), {"side": b"\4"}, "an unknown form: 4"),
            ("grey", pixels(9, 17, "LA"), {"side": b"\0\3\0"}, "size"),
            ("sound", frames(20, 2), {"side": b"\3"}, "an unknown form: 03"),
            ("sound", frames(20, 1), {"side": b"\1"}, "an unknown form: 01"),
            ("sound", frames(20, 2), {"side": b"\2"}, "2 chunks where its size needs 1"),
            ("text", "words", {"fields": TextFields(length=0)}, "1 chunks where its size needs 0"),
            ("text", "words", {"side": b"\0\0"}, "outside"),
            ("text", "words", {"side": b"\0\1\5A"}, "do not fit their places"),
            ("text", "words", {"side": b"\0\1\1AB"}, "do not fit their places"),
            ("text", "words", {"side": b"\0\1\1\xff"}, "not valid UTF-8"),
            ("text", "words", {"side": b"\1\0"}, "deflated"),
            ("text", "words", {"side": b"\2\0"}, "outside"),
            ("bytes", b"words", {"side": b"\0"}, "no side bytes"),
            ("bytes", b"words", {"fields": BytesFields(length=6)}, "check|payload"),
            (
                "bytes",
                b"words",
                {"options": Options(model=tiny_exact("bytes").exact.identity[:6], schedule=3)},
                "schedule 3",
            ),
        ],
    )
    def test_parts_that_do_not_fit(self, kind, value, change, message):
        codec, entry = self.entry(kind, value)
        with pytest.raises(DamagedError, match=message):
            raise self.decoded(codec, self.changed(entry, **change))

    def test_sizes_are_checked_before_memory_is_taken(self):
        codec, entry = self.entry("colour", pixels(2, 2, "RGB"))
        fields = ImageFields(width=2**31 - 1, height=2**31 - 1, mode="RGB")
        assert isinstance(self.decoded(codec, self.changed(entry, fields)), DamagedError)
        with pytest.raises(TooLargeError):
            read_single(write_single(self.changed(entry, fields)))
        with pytest.raises(TooLargeError, match="the limit is 10"):
            read_single(write_single(entry), Limits(content_bytes=10))

    def test_unknown_models_are_named(self):
        codec, entry = self.entry("bytes", b"words")
        identity = codec.identity[:6].hex()
        (restored,) = CodecSet([hashing_codec("text")]).decode([entry], Batching())
        assert isinstance(restored, UnknownModelError)
        assert identity in str(restored)
        assert isinstance(hashing_codec("text").decode([entry], Batching())[0], UnknownModelError)

    def test_content_of_another_medium_is_refused(self):
        with pytest.raises(DataError, match="this model is for images, but this content is text"):
            hashing_codec("colour").place(text_content("x"))

    def test_content_that_no_reader_would_take_is_refused(self, monkeypatch):
        monkeypatch.setattr(content_codec, "Limits", lambda: Limits(content_bytes=100, chunks=1))
        codec = hashing_codec("bytes")
        with pytest.raises(TooLargeError, match="101 content bytes"):
            codec.place(bytes_content(bytes(101)))
        with pytest.raises(TooLargeError, match="2 chunks"):
            codec.place(bytes_content(bytes(17)))
        codec.place(bytes_content(bytes(16)))

    def test_trained_weights_are_no_codec(self):
        from dataclasses import replace

        with pytest.raises(UsageError, match="ardm export"):
            ContentCodec(replace(tiny_exact("text"), exact=None))


class TestRaw:
    """Content that coding would lengthen, or with nothing to code."""

    @pytest.mark.parametrize("value", ["", "ZZZZ ÄÄÄÄ", b"", np.zeros((30, 30), np.uint8), frames(0, 1), frames(0, 2)])
    def test_it_is_stored_and_needs_no_model(self, value):
        kind = "text" if isinstance(value, str) else "bytes" if isinstance(value, bytes) else "grey"
        kind = "sound" if getattr(value, "dtype", None) == np.int16 else kind
        content = content_of(value, SAMPLE_RATE)
        (entry,) = round_trip(hashing_codec(kind), [content])
        assert isinstance(entry.content, Raw)
        assert CodecSet().decode([entry], Batching()) == [content]
        np.testing.assert_equal(value_of(content), value)


class TestSide:
    """Alpha planes and escapes."""

    @given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 256), st.integers(0, 10))
    def test_alpha(self, height, width, num_values, seed):
        alpha = np.random.default_rng(seed).integers(0, num_values, (height, width)).astype(np.uint8)
        for plane in (alpha, np.cumsum(alpha, 0, dtype=np.uint8), np.cumsum(alpha, 1, dtype=np.uint8), np.sort(alpha)):
            np.testing.assert_array_equal(decode_alpha(encode_alpha(plane), height, width), plane)

    def test_forms_of_alpha(self):
        ramp = np.add.outer(np.arange(40), 3 * np.arange(50)).astype(np.uint8)
        assert encode_alpha(np.full((9, 9), 255, np.uint8)) == b"\4\xff"
        assert encode_alpha(ramp)[0] == 3
        assert len(encode_alpha(ramp)) < 40

    @given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50, unique=True), st.data())
    def test_escapes(self, places, data):
        places = np.sort(np.array(places))
        codes = np.array([data.draw(st.sampled_from([65, 0xE9, 0x1F600])) for _ in places], np.uint32)
        side = encode_escapes(places, codes)
        restored = decode_escapes(side, int(places[-1]) + 1)
        np.testing.assert_array_equal(restored[0], places)
        np.testing.assert_array_equal(restored[1], codes)

    def test_escapes_are_specified_bytes(self):
        places, codes = np.array([0, 1, 300]), np.array([0x5A, 0xC4, 0x1F600], np.uint32)
        assert encode_escapes(places, codes) == bytes.fromhex("00030000aa025ac384f09f9880")


class TestFiles:
    """Users' files as contents, and back."""

    @pytest.mark.parametrize("mode", sorted(MODES))
    def test_images(self, tmp_path, mode):
        path = tmp_path / "x.png"
        Image.fromarray(pixels(5, 7, mode)).save(path)
        content = medium_of(tiny_exact("colour")).layout.read(path)
        assert content == image_content(pixels(5, 7, mode))
        with Image.open(io.BytesIO(restored_file(content))) as image:
            assert image.mode == mode
            np.testing.assert_array_equal(np.asarray(image), pixels(5, 7, mode))
        assert restored_suffix(content.fields) == ".png"

    def test_palettes_and_single_bits_are_written_out(self, tmp_path):
        path = tmp_path / "x.png"
        read = medium_of(tiny_exact("colour")).layout.read
        colours = Image.fromarray(pixels(5, 7, "RGB")).quantize(8)
        colours.save(path)
        assert read(path) == image_content(np.asarray(colours.convert("RGB")))
        bits = Image.fromarray(pixels(5, 7, "L") > 99)
        bits.save(path)
        assert read(path) == image_content(np.asarray(bits.convert("L")))

    def test_what_cannot_be_kept_is_refused(self, tmp_path):
        path = tmp_path / "x.png"
        Image.fromarray(np.zeros((4, 4), np.uint16)).save(path)
        with pytest.raises(DataError, match="samples of 16 bits"):
            medium_of(tiny_exact("colour")).layout.read(path)
        Image.new("CMYK", (3, 3)).save(tmp_path / "x.tif")
        with pytest.raises(DataError, match="mode CMYK"):
            medium_of(tiny_exact("colour")).layout.read(tmp_path / "x.tif")
        path.write_bytes(b"\xff\xfe")
        with pytest.raises(DataError, match="is not UTF-8 text"):
            medium_of(tiny_exact("text")).layout.read(path)
        with pytest.raises(DataError, match="neither a WAV nor a FLAC"):
            medium_of(tiny_exact("sound")).layout.read(path)

    @pytest.mark.parametrize("num_channels", [1, 2])
    @pytest.mark.parametrize("num_samples", [0, 1, 37])
    def test_sounds(self, tmp_path, num_samples, num_channels):
        path = tmp_path / "x.wav"
        content = sound_content(frames(num_samples, num_channels), 44_100)
        path.write_bytes(restored_file(content))
        assert medium_of(tiny_exact("sound")).layout.read(path) == content
        assert read_sound(path).rate == 44_100
        assert restored_suffix(content.fields) == ".wav"

    def test_the_highest_rate(self, tmp_path):
        path = tmp_path / "x.wav"
        content = sound_content(frames(3, 2), 2**32 - 1)
        path.write_bytes(restored_file(content))
        assert medium_of(tiny_exact("sound")).layout.read(path) == content

    def test_more_than_two_channels_are_refused(self, tmp_path):
        from ardm.data.sound_files import wav_file

        path = tmp_path / "x.wav"
        path.write_bytes(wav_file(np.zeros((4, 3), np.int16), 8000))
        with pytest.raises(DataError, match="has 3 channels; only mono and stereo are supported"):
            medium_of(tiny_exact("sound")).layout.read(path)

    def test_flac_is_read(self, tmp_path):
        soundfile = pytest.importorskip("soundfile")
        path = tmp_path / "x.flac"
        soundfile.write(path, frames(50, 2), 16_000, subtype="PCM_16")
        assert medium_of(tiny_exact("sound")).layout.read(path) == sound_content(frames(50, 2), 16_000)

    @pytest.mark.parametrize("raw", [b"", b"\xef\xbb\xbfline\r\nline\n\r", "я é \U0001f600\0".encode()])
    def test_texts_to_the_byte(self, tmp_path, raw):
        path = tmp_path / "x.txt"
        path.write_bytes(raw)
        content = medium_of(tiny_exact("text")).layout.read(path)
        assert restored_file(content) == raw
        assert restored_suffix(content.fields) is None


def test_values_that_no_model_takes():
    with pytest.raises(DataError, match="an array of float64 cannot be compressed"):
        content_of(np.zeros((3, 3)))
    with pytest.raises(DataError, match="list cannot be compressed"):
        content_of([1, 2])
    with pytest.raises(DataError, match="got \\(3, 3, 1\\)"):
        content_of(np.zeros((3, 3, 1), np.uint8))
    with pytest.raises(DataError, match="got \\(5, 3\\)"):
        content_of(np.zeros((5, 3), np.int16), 8000)
    with pytest.raises(DataError, match="lone surrogate at position 1"):
        content_of("x\ud800")


def test_digests_tell_contents_apart():
    contents = [
        image_content(np.zeros((2, 3), np.uint8)),
        image_content(np.zeros((3, 2), np.uint8)),
        bytes_content(bytes(6)),
        text_content("\0" * 6),
        sound_content(np.zeros(3, np.int16), 8000),
        sound_content(np.zeros(3, np.int16), 16_000),
    ]
    assert len({content.digest for content in contents}) == len(contents)
    assert contents[4].num_variables == 3
    assert isinstance(contents[4].fields, SoundFields)


def golden_examples() -> dict[str, tuple[str, object]]:
    """Contents of every form, with the models that code them."""
    values = np.arange(11 * 40 * 4) ** 2 // 7
    image = values.astype(np.uint8).reshape(11, 40, 4)
    return {
        "colour": ("colour", image[:, :, :3]),
        "grey in colour": ("colour", image[:, :, 0]),
        "grey in colour, alpha": ("colour", image[:, :, :2]),
        "colour in grey, alpha": ("grey", image),
        "stereo": ("sound", values[:100].astype(np.int16).reshape(50, 2)),
        "escapes": ("text", "the windows of a text, with ESCAPES: äöü"),
        "bytes": ("bytes", bytes(range(60))),
    }


GOLDEN = {
    "colour": "22108215f4147f74",
    "grey in colour": "a2b667c94d7e9957",
    "grey in colour, alpha": "a2b667c94d7e9957",
    "colour in grey, alpha": "066d1c10efd30bb8",
    "stereo": "0b9ad63a96fd9aeb",
    "escapes": "4ef26195f14b2c73",
    "bytes": "54a017067d7c8b84",
}
"""Hashes of the chunks."""


@pytest.mark.usefixtures("always_coded")
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_chunks_never_change(name):
    """Files of every release must decode: if this fails, the format has changed."""
    kind, value = golden_examples()[name]
    codec = hashing_codec(kind)
    options = codec.options(num_calls=10**6, order=OrderChoice(name="reverse"))  # one call a variable
    (entry,) = codec.encode([codec.place(content_of(value, SAMPLE_RATE))], options, Batching())
    chunks = b"".join(len(chunk).to_bytes(4, "little") + chunk for chunk in entry.content.chunks)
    digest = blake2b(chunks, digest_size=8)
    assert digest.hexdigest() == GOLDEN[name]
