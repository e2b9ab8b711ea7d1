"""Other codecs restore what they are given, and those that do not are told apart."""

import importlib.util
import os
import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ardm.apps.bench.codecs import time_codec
from ardm.apps.bench.items import spread_items, training_items
from ardm.apps.rivals import rivals_for, suited
from ardm.apps.rivals.packages import PNG, WEBP, Brotli, Deflate, SoundfileFlac, Zstandard
from ardm.apps.rivals.ppmd import Ppmd
from ardm.apps.rivals.rival import Rival
from ardm.apps.rivals.tools import FLAC, FLIF, JPEG_XL, WAVPACK, Tool
from ardm.data.cifar10 import load_cifar10
from ardm.data.sound_files import Sound
from ardm.data.text import load_text8

ITEMS = [b"one", b"two", b"three"]
SMALL_PPMD = Ppmd(order=3, memory_bytes=2**20)


def words(num_items: int, seed: int = 0) -> list[bytes]:
    """Items of four made-up words."""
    generator = np.random.default_rng(seed)
    vocabulary = [bytes(generator.integers(97, 123, 6, dtype=np.uint8)) for _ in range(50)]
    return [b" ".join(vocabulary[w] for w in row) for row in generator.integers(0, 50, (num_items, 4))]


def images(channels: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return list(generator.integers(0, 256, (2, 5, 7, channels), dtype=np.uint8))


def clips() -> list[Sound]:
    generator = np.random.default_rng(0)
    noise = generator.integers(-(2**15), 2**15, 4000).astype(np.int16)
    tone = (9000 * np.sin(np.arange(5000) / 20)).astype(np.int16)
    stereo = np.stack([noise[:1000], noise[1000:2000]], axis=1)
    return [
        Sound(frames=noise[:, None], rate=16_000),
        Sound(frames=tone[:, None], rate=8_000),
        Sound(frames=stereo, rate=44_100),
    ]


def check_restored(rival, items, media, training=()):
    if not rival.is_available():
        pytest.skip(rival.source)
    row = time_codec(rival, items, list(training), media)
    assert row.failure is None
    return row


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("rival", [PNG, WEBP, JPEG_XL, FLIF], ids=lambda rival: rival.name)
def test_image_rivals(rival, channels):
    items = images(channels)
    (rival,) = suited([rival], items)
    check_restored(rival, items, "images")


def test_webp_may_leave_out_an_opaque_alpha():
    items = [np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)]) for pixels in images(3)]
    check_restored(WEBP, items, "images")


def test_a_lossy_setting_is_found_out():
    lossy = replace(WEBP, settings={"format": "WEBP", "quality": 100, "method": 6})
    assert time_codec(lossy, images(3), [], "images").failure == "failed: 2 of 2 items are not restored"


@pytest.mark.parametrize("rival", [SoundfileFlac(), FLAC, WAVPACK], ids=lambda rival: rival.name)
def test_sound_rivals(rival):
    row = check_restored(rival, clips(), "audio")
    assert row.num_variables == 11_000


@pytest.mark.parametrize(
    "rival", [Deflate(), Brotli(), Brotli(is_text=True), Zstandard(), Ppmd()], ids=lambda rival: rival.name
)
def test_text_rivals(rival):
    items = [*words(5, seed=1), b"", "é€".encode(), bytes(range(256))]
    check_restored(rival, items, "bytes", words(2000))


@pytest.mark.parametrize("rival", rivals_for("text", words(2), has_training=False), ids=lambda rival: rival.name)
def test_text_rivals_without_training(rival):
    assert not re.search("trained|primed", rival.name)
    check_restored(rival, words(5), "text")


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
        command = f"{shlex.join([sys.executable, str(script)])} SOURCE TARGET"
        return Tool(
            name="tool",
            source="nowhere",
            encoder=command,
            decoder=command,
            suffix=".copy",
            plain_suffix=".ppm",
        )

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
    assert all(isinstance(rival, Rival) for rival in (PNG, JPEG_XL, Ppmd()))
    assert all(failure.startswith("not installed: ") for failure in missing.values())
    assert missing[JPEG_XL.name] == "not installed: apt-get install libjxl-tools"
    assert missing[Ppmd().name] == "not installed: pip install 'ardm[bench]'"


needs_data = pytest.mark.skipif("ARDM_DATA" not in os.environ, reason="set ARDM_DATA to where the real data lie")


@needs_data
def test_image_rivals_on_cifar10():
    items = spread_items(load_cifar10(Path(os.environ["ARDM_DATA"])), "test", (32, 32, 3), 50)
    assert check_restored(PNG, items, "images").bits_per_variable == pytest.approx(5.875, abs=0.3)
    assert check_restored(WEBP, items, "images").bits_per_variable == pytest.approx(4.713, abs=0.3)


@needs_data
def test_text_rivals_on_text8():
    corpus = load_text8(Path(os.environ["ARDM_DATA"]))
    items = spread_items(corpus, "test", (250,), 200)
    training = training_items(corpus, (250,), 2_000_000)
    assert check_restored(Deflate(), items, "text").bits_per_variable == pytest.approx(4.69, abs=0.1)
    assert check_restored(Brotli(is_text=True), items, "text").bits_per_variable == pytest.approx(3.72, abs=0.1)
    assert check_restored(Zstandard(), items, "text", training).bits_per_variable < 3.2
