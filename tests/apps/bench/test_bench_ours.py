"""Our codec in the benchmark, with the golden models: files restored, ideal bits, the network's time, the command."""

import json
import math
from dataclasses import replace
from pathlib import Path

import invoke
import numpy as np
import pytest
import torch
from PIL import Image
from tiny_exact import KINDS, tiny_exact

import ardm
from ardm.apps.bench.codecs import NetworkCodec, time_codec
from ardm.apps.bench.items import is_same
from ardm.apps.bench.ours import TimedNetwork, our_codecs
from ardm.checkpoint import load_model
from ardm.data.sound_files import Sound, write_wav
from ardm.errors import UsageError

GOLDEN = Path(__file__).parents[2] / "golden" / "1"
MEDIA = {"colour": "images", "grey": "images", "sound": "audio", "text": "text", "bytes": "bytes"}


def golden_items(kind: str) -> list:
    """Four items that a golden model finds likely."""
    value = ardm.decompress((GOLDEN / f"{kind}.ardm").read_bytes(), GOLDEN / f"{kind}.model")
    if kind in ("colour", "grey"):
        return [value.reshape(9, 17, -1)] * 4
    if kind == "sound":
        return [Sound(frames=part, rate=8000) for part in value[:80].reshape(4, 20, 1)]
    parts = [value[start : start + 16] for start in range(0, 64, 16)]
    return [part.encode() for part in parts] if kind == "text" else parts


@pytest.mark.parametrize("kind", KINDS)
def test_every_medium_is_restored_close_to_its_ideal(kind):
    (codec,) = our_codecs(load_model(GOLDEN / f"{kind}.model"))
    assert isinstance(codec, NetworkCodec)
    row = time_codec(codec, golden_items(kind), [], MEDIA[kind])
    assert (row.failure, row.name) == (None, "ardm, 10 calls")
    figures = row.network
    assert (figures.num_calls, figures.device, figures.num_within_allowance) == (10, "cpu", 4)
    assert 0 < figures.encode_share < 1
    coded_bits = row.bits_per_variable * row.num_variables / 4 - 8 * figures.header_bytes
    ideal_bits = figures.ideal_bits_per_variable * row.num_variables / 4
    assert coded_bits == pytest.approx(ideal_bits + figures.payload_above_ideal_bits)
    if not figures.num_stored:
        assert 0 < figures.payload_above_ideal_bits < 24
        assert 0 < figures.decode_share < 1


def test_batches_change_no_file():
    items = golden_items("colour")
    files = {
        size: our_codecs(tiny_exact("colour"), [20], batch_size=size)[0].encode(items) for size in (1, 3, 64, None)
    }
    assert all(own == files[1] for own in files.values())


def test_budgets_give_the_richest_schedule_within_each_once():
    trained = load_model(GOLDEN / "text.model")
    assert [codec.num_calls for codec in our_codecs(trained)] == [10]
    assert [codec.name for codec in our_codecs(trained, [9, 12, 20, 100])] == [
        "ardm, 5 calls",
        "ardm, 10 calls",
        "ardm, 16 calls",
    ]
    with pytest.raises(UsageError, match="4 calls are too few: this model has schedules for 5 and more"):
        our_codecs(trained, [4])
    with pytest.raises(UsageError, match="make an exact model"):
        our_codecs(replace(trained, exact=None))


def test_the_calls_are_those_that_are_made(monkeypatch):
    (codec,) = our_codecs(load_model(GOLDEN / "grey.model"), [25], batch_size=1)
    calls = []
    monkeypatch.setattr(TimedNetwork, "integers", counting(TimedNetwork.integers, calls))
    item = golden_items("grey")[0]
    (file,) = codec.encode([item])
    assert len(calls) == codec.num_calls == 20
    assert is_same(codec.decode([file])[0], item)
    assert len(calls) == 40


def counting(function, calls):
    """The function, which adds to the calls each time."""

    def counted(*arguments):
        calls.append(1)
        return function(*arguments)

    return counted


def test_sounds_keep_a_rate_that_is_not_the_models():
    (codec,) = our_codecs(load_model(GOLDEN / "sound.model"))
    clip = replace(golden_items("sound")[0], rate=16_000)
    assert is_same(codec.decode(codec.encode([clip]))[0], clip)


@pytest.fixture
def pictures(tmp_path) -> Path:
    """A folder of images that the golden model finds likely, four items each."""
    item = golden_items("colour")[0]
    for number in range(3):
        Image.fromarray(np.tile(item, (2, 2, 1))).save(tmp_path / f"{number}.png")
    return tmp_path


def bench(capsys, model: str, data: Path, *flags: str) -> str:
    arguments = ["bench", "codec", "--model", str(GOLDEN / f"{model}.model"), "--data", str(data), *flags]
    return invoke.output(capsys, arguments)


def test_the_command_prints_two_tables(pictures, capsys):
    shown = bench(capsys, "colour", pictures, "--items", "4", "--calls", "10", "20", "--ours-only", "--device", "cpu")
    header, *rows, nothing, network_header, first, second = shown.splitlines()
    assert "bits per sub-pixel" in header
    assert [row[:14] for row in rows] == [first[:14], second[:14]] == ["ardm, 10 calls", "ardm, 20 calls"]
    assert all("items/s" in row and "KB/s" in row for row in rows)
    assert nothing == ""
    assert "ideal bits" in network_header
    assert "4 of 4" in first
    assert len(header) == len(rows[0])
    assert len(network_header) == len(first)


def test_the_command_prints_json(pictures, capsys):
    flags = ["--items", "3", "--calls", "10", "19", "25", "--ours-only", "--batch-size", "5", "--split", "valid"]
    rows = json.loads(bench(capsys, "colour", pictures, *flags, "--seed", "2", "--json"))
    assert [row["network"]["num_calls"] for row in rows] == [10, 20]
    for row in rows:
        assert (row["num_items"], row["network"]["batch_size"], row["network"]["device"]) == (3, 5, "cpu")
        assert row["hardware"]["torch"] == torch.__version__
        assert row["model"]["parameters"] > 0
        assert row["network"]["num_within_allowance"] == 3
        assert row["encode_items_per_second"] * 459 == pytest.approx(row["encode_bytes_per_second"])
        assert math.isfinite(row["half_width"])


def test_the_command_compares_sounds(tmp_path, capsys):
    samples = np.concatenate([clip.frames[:, 0] for clip in golden_items("sound")])
    for number in range(3):
        write_wav(tmp_path / f"{number}.wav", samples, 16_000)
    rows = json.loads(bench(capsys, "sound", tmp_path, "--items", "2", "--json"))
    assert {row["name"] for row in rows if row["network"] is not None} == {"ardm, 10 calls"}
    assert rows[0]["failure"] is None
    assert len(rows) == 4


def test_unusable_flags(pictures, capsys):
    flags = ["bench", "codec", "--model", str(GOLDEN / "colour.model"), "--data", str(pictures)]
    for wrong, message in [
        (["--calls", "0"], "--calls must be positive, got 0"),
        (["--calls", "3"], "3 calls are too few: this model has schedules for 5 and more"),
        (["--batch-size", "0"], "--batch-size must be positive, got 0"),
        (["--seed", "-1"], "--seed must not be negative, got -1"),
        (["--device", "gpu"], "device 'gpu' is not supported; use cpu or cuda"),
    ]:
        status, error = invoke.fails(capsys, [*flags, *wrong])
        assert status == 2
        assert message in error
