"""The codec benchmark: rows of numbers, or of what went wrong, and the tables that show them."""

import math
import shutil
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tiny import tiny_config, tiny_image_config, tiny_sound_config

from ardm.apps.bench.codec_table import codec_header, codec_line, network_header, network_line
from ardm.apps.bench.codecs import (
    CodecTiming,
    CodedBits,
    NetworkCodec,
    compare,
    ratio_half_width,
    time_codec,
)
from ardm.apps.bench.items import media_of, spread_items, training_items
from ardm.apps.bench.training import random_corpus
from ardm.apps.rivals import rivals_for
from ardm.apps.rivals.rival import Rival

ITEMS = [b"one", b"two", b"three"]


@dataclass(frozen=True, kw_only=True)
class Fake(Rival):
    """A codec of whole batches that doubles its items; what it restores may be broken."""

    restored: tuple[bytes, ...] | None = None
    name: str = "fake"
    source: str = "nowhere"
    installed: bool = True

    def is_available(self):
        return self.installed

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
    assert row.failure is row.network is None
    assert row.encode_items_per_second == pytest.approx(1 / row.encode_seconds)
    assert row.decode_items_per_second == pytest.approx(1 / row.decode_seconds)
    assert row.encode_bytes_per_second == pytest.approx(11 / 3 / row.encode_seconds)
    assert row.decode_bytes_per_second == pytest.approx(11 / 3 / row.decode_seconds)


@pytest.mark.parametrize(
    ("rival", "failure"),
    [
        (Fake(restored=(b"one", b"tw0", b"three")), "failed: 1 of 3 items are not restored"),
        (Fake(restored=(b"one", b"two")), "failed: ValueError: 3 items gave 3 files and 2 restored items"),
        (Broken(), "failed: KeyError: 'a\\nkey'"),
        (Fake(installed=False), "not installed: nowhere"),
    ],
)
def test_failures_are_rows_without_numbers(rival, failure):
    row = time_codec(rival, ITEMS, [], "text")
    assert row.failure == failure
    assert row.bits_per_variable is row.encode_seconds is row.decode_seconds is None
    assert codec_line(row) == f"{'fake':36} {failure}"


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


@dataclass(frozen=True, kw_only=True)
class WithNetwork(Fake, NetworkCodec):
    """A codec whose network takes all of its time to encode and none to decode; ideal are 16, 16, 4800 and 16 bits."""

    name: str = "with network"
    num_calls: int = 5
    device: str = "cpu"
    batch_size: int = 7
    network_seconds = 0.0

    def encode(self, items):
        started = time.perf_counter()
        time.sleep(0.02)
        object.__setattr__(self, "network_seconds", self.network_seconds + time.perf_counter() - started)
        return super().encode(items)

    def coded_bits(self, items, files):
        ideal, is_stored = np.array([16.0, 16.0, 4800.0, 16.0]), np.array([False, False, False, True])
        return CodedBits(ideal=ideal, payload=np.array([40, 41, 4848, 60]), is_stored=is_stored)


def test_figures_of_a_network_by_hand():
    assert isinstance(WithNetwork(), NetworkCodec)
    assert not isinstance(Fake(), NetworkCodec)
    figures = time_codec(WithNetwork(), [*ITEMS, b"four"], [], "bytes").network
    assert (figures.num_calls, figures.device, figures.batch_size, figures.num_stored) == (5, "cpu", 7, 1)
    assert figures.ideal_bits_per_variable == 4848 / 15
    assert figures.payload_above_ideal_bits == pytest.approx(97 / 3)  # without the one that is stored
    assert figures.payload_above_ideal_share == pytest.approx(97 / 4832)
    assert figures.num_within_allowance == 3  # the second one is one bit longer than it may be
    assert figures.header_bytes == pytest.approx((30 - 4989 / 8) / 4)
    assert 0.9 < figures.encode_share <= 1
    assert figures.decode_share == 0


def test_what_is_not_timed():
    sizes = []

    class Counting(WithNetwork):
        def encode(self, items):
            sizes.append(len(items))
            return super().encode(items)

    for codec in (Counting(), Counting(device="cuda:0")):
        time_codec(codec, [*ITEMS, b"four"], [], "bytes")
    assert sizes == [1, 4, 4, 4]


def test_the_tables_are_aligned():
    row = time_codec(WithNetwork(), [*ITEMS, b"four"], [], "text")
    rates = dict.fromkeys(("encode_items_per_second", "decode_items_per_second"), 12_345.678)
    rates |= dict.fromkeys(("encode_bytes_per_second", "decode_bytes_per_second"), 12_345.678)
    row = replace(row, **rates)
    assert len(codec_header("text")) == len(codec_line(row))
    assert "bits per character" in codec_header("text")
    assert "   12,346 items/s" in codec_line(row)
    assert "   12.35 KB/s" in codec_line(row)
    assert "±" not in codec_line(replace(row, half_width=None))
    figures = replace(row.network, header_bytes=16.0)
    assert network_line(row.name, figures, 4).endswith("cpu, 1 stored, which is shorter than coded")
    assert len(network_line(row.name, replace(figures, num_stored=0), 4)) == len(network_header())
    assert " 3 of 4 " in network_line(row.name, figures, 4)


@pytest.mark.parametrize(
    ("config", "media"),
    [(tiny_config(), "text"), (tiny_image_config(), "images"), (tiny_sound_config(), "audio")],
    ids=["text", "images", "audio"],
)
def test_a_corpus_in_one_line(config, media, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    corpus, shape = random_corpus(config), config.data.shape
    ours = Fake(name="ours", installed=False)
    items, training = spread_items(corpus, "test", shape, 2), training_items(corpus, shape, 1000)
    rows = list(compare(items, media_of(corpus), [ours], training))
    assert [row.name for row in rows] == ["ours", *(rival.name for rival in rivals_for(media, []))]
    assert {(row.media, row.num_items, row.num_variables) for row in rows} == {(media, 2, 2 * math.prod(shape))}
    assert all(isinstance(row, CodecTiming) for row in rows)


def test_every_codec_gets_the_same_items(monkeypatch):
    seen = []

    class Watching(Fake):
        def encode(self, items):
            seen.append(items)
            return super().encode(items)

    config = tiny_config()
    corpus, shape = random_corpus(config), config.data.shape
    rivals = [Watching(name="first"), Watching(name="second")]
    monkeypatch.setattr(
        "ardm.apps.bench.codecs.rivals_for", lambda media, items, has_training: [Watching(name="other")]
    )
    names = [row.name for row in compare(spread_items(corpus, "valid", shape, 3, 1), "text", rivals)]
    assert names == ["first", "second", "other"]
    first, *others = [items for items in seen if len(items) == 3]
    assert others == [first, first]
    list(compare(spread_items(corpus, "valid", shape, 3), "text", rivals[:1], others=False))
    assert seen[-1] != first
