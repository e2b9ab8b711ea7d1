"""The codec benchmark: rivals restore what they are given, and those that do not are told apart."""

import importlib.util
import math
import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ardm.bench import codecs
from ardm.bench.codecs import (
    FLAC,
    FLIF,
    JPEG_XL,
    WAVPACK,
    Brotli,
    CodecTiming,
    Deflate,
    Png,
    Ppmd,
    Rival,
    SoundfileFlac,
    Tool,
    WebP,
    Zstandard,
    codec_header,
    codec_line,
    is_same,
    item_of,
    num_variables,
    ratio_half_width,
    rivals_for,
    run_codec_benchmark,
    spread_items,
    time_codec,
    time_codecs,
    training_items,
)
from ardm.bench.training import random_corpus
from ardm.data.alphabet import Alphabet
from ardm.data.audio import Clip
from ardm.data.cifar10 import load_cifar10
from ardm.data.text import TEXT8_ALPHABET, TextCorpus, load_text8
from tiny import tiny_audio_config, tiny_config, tiny_image_config

ITEMS = [b"one", b"two", b"three"]
SMALL_PPMD = Ppmd(order=3, memory_bytes=2**20)


@dataclass(frozen=True, kw_only=True)
class Fake:
    """A codec of whole batches that doubles its items; what it restores may be broken."""

    restored: tuple[bytes, ...] | None = None
    name: str = "fake"
    media: tuple[codecs.Media, ...] = ("text", "bytes")
    source: str = "nowhere"
    installed: bool = True

    def is_available(self):
        return self.installed

    def prepare(self, training):
        return self

    def encode(self, items):
        return [2 * item for item in items]

    def decode(self, files):
        return list(self.restored) if self.restored else [file[: len(file) // 2] for file in files]


class Broken(Fake):
    """A codec that cannot decode."""

    def decode(self, files):
        raise KeyError("a\nkey")


def test_a_row_by_hand():
    row = time_codec(Fake(), ITEMS, [], "bytes")
    assert isinstance(Fake(), Rival)
    assert (row.name, row.media, row.num_items, row.num_variables, row.item_bytes) == ("fake", "bytes", 3, 11, 11)
    assert row.bits_per_variable == 16
    assert row.half_width == pytest.approx(0)
    assert row.failure is None
    assert row.encode_bytes_per_second == pytest.approx(11 / 3 / row.encode_seconds)
    assert row.decode_bytes_per_second == pytest.approx(11 / 3 / row.decode_seconds)


@pytest.mark.parametrize(
    ("rival", "failure"),
    [
        (Fake(restored=(b"one", b"tw0", b"three")), "failed: 1 of 3 items are not restored"),
        (Fake(restored=(b"one", b"two")), "failed: ValueError: 3 items gave 3 files and 2 items again"),
        (Broken(), "failed: KeyError: 'a\\nkey'"),
        (Fake(installed=False), "not installed: nowhere"),
    ],
)
def test_failures_are_rows_without_numbers(rival, failure):
    row = time_codec(rival, ITEMS, [], "text")
    assert row.failure == failure
    assert row.bits_per_variable is row.encode_seconds is row.decode_seconds is None
    assert codec_line(row) == f"{'fake':36} {failure}"


def test_rivals_of_other_media_are_left_out():
    assert [row.name for row in time_codecs(ITEMS, [], [Png(), Fake(), Deflate()], "text")] == ["fake", Deflate().name]


def test_intervals():
    bits = np.array([8, 16, 24, 16])
    mean_interval = 1.959964 * bits.std(ddof=1) / 2 / math.sqrt(4)
    assert ratio_half_width(bits, np.full(4, 2)) == pytest.approx(mean_interval)
    assert ratio_half_width(np.array([10, 20, 40]), np.array([1, 2, 4])) == pytest.approx(0)
    assert ratio_half_width(bits[:1], np.ones(1)) is None


def test_intervals_of_unequal_items_cover_the_ratio():
    generator = np.random.default_rng(0)
    sizes = generator.integers(10, 100, (2000, 60))
    bits = 3 * sizes + generator.normal(size=sizes.shape) * sizes
    covered = [abs(b.sum() / s.sum() - 3) < ratio_half_width(b, s) for b, s in zip(bits, sizes, strict=True)]
    assert 0.92 < np.mean(covered) < 0.97


def test_the_table_is_aligned():
    row = time_codec(Fake(), ITEMS, [], "text")
    assert len(codec_header("text")) == len(codec_line(row))
    assert "bits per character" in codec_header("text")
    assert "±" not in codec_line(replace(row, half_width=None))


def test_text_is_counted_in_characters():
    assert num_variables("aé€".encode(), "text") == 3
    assert num_variables("aé€".encode(), "bytes") == 6


def test_what_counts_as_restored():
    grey = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    clip = Clip(samples=np.arange(5, dtype=np.int16), rate=8000)
    assert is_same(grey, grey.repeat(3, axis=2))
    assert not is_same(grey.repeat(3, axis=2), grey)
    assert not is_same(grey, grey.reshape(3, 2, 1))
    assert not is_same(grey, np.stack([grey[..., 0], grey[..., 0], grey[..., 0] ^ 1], axis=2))
    assert is_same(clip, replace(clip, samples=clip.samples.copy()))
    assert not is_same(clip, replace(clip, rate=16_000))
    assert not is_same(clip, replace(clip, samples=clip.samples[:-1]))
    assert not is_same(b"one", grey)
    assert not is_same(clip, grey)


def words(num_items: int, seed: int = 0) -> list[bytes]:
    """Items of four made-up words."""
    generator = np.random.default_rng(seed)
    vocabulary = [bytes(generator.integers(97, 123, 6, dtype=np.uint8)) for _ in range(50)]
    return [b" ".join(vocabulary[w] for w in row) for row in generator.integers(0, 50, (num_items, 4))]


def images(channels: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return list(generator.integers(0, 256, (2, 5, 7, channels), dtype=np.uint8))


def clips() -> list[Clip]:
    generator = np.random.default_rng(0)
    noise = generator.integers(-(2**15), 2**15, 4000).astype(np.int16)
    tone = (9000 * np.sin(np.arange(5000) / 20)).astype(np.int16)
    return [Clip(samples=noise, rate=16_000), Clip(samples=tone, rate=8_000)]


def check_restored(rival, items, media, training=()):
    if not rival.is_available():
        pytest.skip(rival.source)
    row = time_codec(rival, items, list(training), media)
    assert row.failure is None
    return row


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("rival", [Png(), WebP(), JPEG_XL, FLIF], ids=lambda rival: rival.name)
def test_image_rivals(rival, channels):
    check_restored(rival, images(channels), "images")


def test_a_lossy_setting_is_found_out():
    class LossyWebP(WebP):
        def encode_item(self, item):
            return codecs._saved(item, format="WEBP", quality=100, method=6)

    row = time_codec(LossyWebP(), images(3), [], "images")
    assert row.failure == "failed: 2 of 2 items are not restored"


@pytest.mark.parametrize("rival", [SoundfileFlac(), FLAC, WAVPACK], ids=lambda rival: rival.name)
def test_audio_rivals(rival):
    row = check_restored(rival, clips(), "audio")
    assert row.num_variables == 9000


@pytest.mark.parametrize(
    "rival", [Deflate(), Brotli(), Brotli(is_text=True), Zstandard(), Ppmd()], ids=lambda rival: rival.name
)
def test_text_rivals(rival):
    items = [*words(5, seed=1), b"", "é€".encode(), bytes(range(256))]
    check_restored(rival, items, "bytes", words(2000))


@pytest.mark.parametrize(
    ("rival", "unprimed"), [(Zstandard(), Brotli()), (SMALL_PPMD, SMALL_PPMD)], ids=["zstd", "PPMd"]
)
def test_training_helps(rival, unprimed):
    items = words(2100)
    after = check_restored(rival, items[2000:], "text", items[:2000])
    before = check_restored(unprimed, items[2000:], "text")
    assert after.bits_per_variable < 0.7 * before.bits_per_variable


needs_ppmd = pytest.mark.skipif(not SMALL_PPMD.is_available(), reason=SMALL_PPMD.source)


@needs_ppmd
@given(text=st.binary(max_size=200), item=st.binary(max_size=50), knows_length=st.booleans())
@settings(max_examples=300)
def test_ppmd_restores_any_item_after_any_text(text, item, knows_length):
    rival = replace(SMALL_PPMD, text=text, item_length=len(item) if knows_length else None)
    assert rival.decode([rival.encode_item(item)]) == [item]


@needs_ppmd
def test_ppmd_restores_long_items_and_counts_no_text():
    rival = SMALL_PPMD.prepare(words(300))
    items = [*words(400, seed=0)[300:], b"".join(words(40, seed=3))]
    files = rival.encode(items)
    assert rival.decode(files) == items
    growth = [len(rival._stream(item).rest) - len(rival._primed.rest) for item in items]
    assert [len(file) for file in files] == [
        m + 1 + (1 if len(i) < 128 else 2) for m, i in zip(growth, items, strict=True)
    ]


@needs_ppmd
def test_ppmd_refuses_an_item_of_another_length():
    row = time_codec(replace(SMALL_PPMD, item_length=3), ITEMS, [], "text")
    assert row.failure == "failed: ValueError: an item has 5 bytes where all should have 3"


@pytest.fixture
def tool(tmp_path):
    """A tool made of a script, which either copies its input or fails."""

    def make(body: str) -> Tool:
        script = tmp_path / "tool.py"
        script.write_text(f"import shutil, sys\n{body}\n")
        command = f"{sys.executable} {script} SOURCE TARGET"
        return Tool(name="tool", media=("images",), source="nowhere", encoder=command, decoder=command, suffix=".copy")

    return make


def test_a_tool_gets_files(tool):
    row = time_codec(tool("shutil.copy(*sys.argv[1:])"), images(3), [], "images")
    assert row.bits_per_variable == 8 * (len(b"P6\n7 5\n255\n") + 105) / 105


def test_a_tool_that_fails_is_quoted(tool):
    row = time_codec(tool("sys.exit('first\\nno such option')"), images(1), [], "images")
    assert row.failure == f"failed: {sys.executable} exited with 1: no such option"


def test_nothing_optional_is_needed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    missing = {
        rival.name: time_codec(rival, ITEMS, [], media).failure
        for media in ("images", "text", "audio")
        for rival in rivals_for(media, [])
        if not rival.is_available()
    }
    assert len(missing) == 8
    assert all(failure.startswith("not installed: ") for failure in missing.values())
    assert missing[JPEG_XL.name] == "not installed: apt-get install libjxl-tools"
    assert missing[Ppmd().name] == "not installed: pip install 'ardm[bench]'"


@pytest.mark.parametrize(
    ("config", "media"),
    [(tiny_config(), "text"), (tiny_image_config(), "images"), (tiny_audio_config(), "audio")],
    ids=["text", "images", "audio"],
)
def test_a_corpus_in_one_line(config, media, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    corpus, shape = random_corpus(config), config.data.shape
    ours = Fake(name="ours", media=("images", "text", "audio"), installed=False)
    rows = list(run_codec_benchmark(corpus, shape, [ours], num_items=2, num_training_variables=1000))
    assert [row.name for row in rows] == ["ours", *(rival.name for rival in rivals_for(media, []))]
    assert {(row.media, row.num_items, row.num_variables) for row in rows} == {(media, 2, 2 * math.prod(shape))}
    assert all(isinstance(row, CodecTiming) for row in rows)


def test_items_stand_for_their_classes():
    corpus = random_corpus(tiny_audio_config())
    (length,) = tiny_audio_config().data.shape
    (first, *_) = spread_items(corpus, "test", (length,), 4)
    np.testing.assert_array_equal(first.samples, corpus.test[0][:length])
    assert first.rate == corpus.sample_rate
    text = TextCorpus(title="t", alphabet=Alphabet(characters="aé"), classes=np.arange(40) % 2, num_held_out=10)
    assert item_of(text.items("test", (3,))[0], text, (3,)) == "aéa".encode()


def test_items_are_spread_and_training_items_are_the_last():
    classes = np.arange(26 * 4, dtype=np.uint8) % 26 + 1
    corpus = TextCorpus(title="t", alphabet=TEXT8_ALPHABET, classes=classes, num_held_out=26)
    assert spread_items(corpus, "test", (2,), 3) == [b"ab", b"ij", b"qr"]
    assert spread_items(corpus, "test", (13,), 9) == [b"abcdefghijklm", b"nopqrstuvwxyz"]
    assert training_items(corpus, (2,), 7) == [b"uv", b"wx", b"yz"]
    assert training_items(random_corpus(tiny_image_config()), (4, 6, 3), 7) == []


needs_data = pytest.mark.skipif("ARDM_DATA" not in os.environ, reason="set ARDM_DATA to where the real data lie")


@needs_data
def test_image_rivals_on_cifar10():
    items = spread_items(load_cifar10(Path(os.environ["ARDM_DATA"])), "test", (32, 32, 3), 50)
    assert check_restored(Png(), items, "images").bits_per_variable == pytest.approx(5.875, abs=0.3)
    assert check_restored(WebP(), items, "images").bits_per_variable == pytest.approx(4.713, abs=0.3)


@needs_data
def test_text_rivals_on_text8():
    corpus = load_text8(Path(os.environ["ARDM_DATA"]))
    items = spread_items(corpus, "test", (250,), 200)
    training = training_items(corpus, (250,), 2_000_000)
    assert check_restored(Deflate(), items, "text").bits_per_variable == pytest.approx(4.69, abs=0.1)
    assert check_restored(Brotli(is_text=True), items, "text").bits_per_variable == pytest.approx(3.72, abs=0.1)
    assert check_restored(Zstandard(), items, "text", training).bits_per_variable < 3.2
