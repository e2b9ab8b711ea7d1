"""Packed data sets are the originals: items, fingerprints, draws and runs to the bit; damage is told in one line."""

import gc
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from invoke import fails, output
from packs import CONFIGURATIONS, packed, write_data
from test_train import CPU, assert_same_state, metrics, tiny_sharded_config, train
from tiny import tiny_config, tiny_image_config, tiny_sound_config

from ardm.cli.bench.data import BenchData
from ardm.config import TextData
from ardm.data.corpus import Corpus, Items, PieceSampler, Sampler
from ardm.data.images import ImageCorpus
from ardm.data.packed.corpora import PackedText
from ardm.data.packed.description import DESCRIPTION_FILE, KINDS, check_pack, is_packed, open_pack
from ardm.data.packed.packing import open_source, pack
from ardm.data.packed.sampler import AHEAD, StreamSampler
from ardm.data.packed.shards import Run, RunWriter
from ardm.data.sounds import SoundCorpus
from ardm.data.text import TextCorpus
from ardm.errors import DataError, UnknownVersionError, UsageError
from ardm.media import has_corpus, load_corpus
from ardm.runtime.team import Team
from ardm.train.loop import run_training
from ardm.train.trainer import Trainer, coming_seeds, step_seed

SPLITS = ("train", "valid", "test", "all")
DEVICE = torch.device("cpu")
EXPORT = ["--items", "4", "--valid-items", "2", "--calls", "3", "--order", "raster"]


@pytest.fixture
def small_reads(monkeypatch):
    """Texts read so few bytes at a time that characters are cut apart."""
    monkeypatch.setattr("ardm.data.packed.packing.READ_BYTES", 5)


def in_memory(corpus: Corpus) -> bool:
    return isinstance(corpus, TextCorpus | ImageCorpus | SoundCorpus)


def pack_bytes(folder: Path, content: bytes, shard_bytes: int = 7) -> Path:
    (folder.parent / "content").write_bytes(content)
    pack(open_source("bytes", folder.parent / "content"), folder, shard_bytes=shard_bytes)
    return folder


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_packed_data_set_is_the_original(name, tmp_path, monkeypatch, small_reads):
    data = CONFIGURATIONS[name]
    path = write_data(name, tmp_path / "original", monkeypatch)
    large = data.num_variables > 1000
    folder = packed(data, path, tmp_path / "packed", 10_007 if large else 101)
    original, again = load_corpus(data, path), load_corpus(data, folder)
    assert in_memory(original)
    assert not in_memory(again)
    assert isinstance(again, Corpus)
    for fact in ("title", "is_published", "num_classes", "alphabet", "sample_rate", "fingerprint"):
        assert getattr(original, fact) == getattr(again, fact), fact
    assert len(open_pack(folder).about.values) > 3
    for split in SPLITS:
        expected, found = (corpus.items(split, data.shape) for corpus in (original, again))
        assert isinstance(found, Items)
        assert len(expected) == len(found)
        assert found[:].dtype == expected.dtype
        assert np.array_equal(found[:], expected)
        assert np.array_equal(found[-1], expected[-1])
        assert np.array_equal(found[[0, len(found) - 1, 0]], expected[[0, len(expected) - 1, 0]])
    assert_same_draws(*(corpus.sampler(data.shape, DEVICE) for corpus in (original, again)))
    assert has_corpus(data, folder)


def assert_same_draws(expected: Sampler, found: Sampler) -> None:
    """The same items, and generators that go on alike, expected or not, in any order."""
    assert isinstance(found, StreamSampler)
    for seed, coming in ((0, []), (1, [1, 2]), (2, [2, 3, 4]), (4, [3, 4]), (3, []), (9, [9])):
        found.expect(coming, 16)
        first, second = (torch.Generator().manual_seed(seed) for _ in range(2))
        for num_items in (16, 5):  # the second time no generator is as it was seeded
            a, b = expected.draw(num_items, first), found.draw(num_items, second)
            assert torch.equal(a, b)
            assert a.dtype == b.dtype
            assert torch.equal(first.get_state(), second.get_state())
    found.expect([5], 16)
    assert torch.equal(*(s.draw(4, torch.Generator().manual_seed(5)) for s in (expected, found)))  # not 16 after all


def test_every_place_is_equally_likely_across_shards(tmp_path, generator):
    folder = pack_bytes(tmp_path / "packed", bytes(range(40)), shard_bytes=7)
    sampler = load_corpus(TextData(kind="bytes", num_variables=5), folder).sampler((5,), DEVICE)
    num_places, num_draws = 36 - 5 + 1, 32_000  # 2 and 2 of 40 are held out
    rows = sampler.draw(num_draws, generator)
    assert torch.equal(rows, rows[:, :1] + torch.arange(5))
    counts = torch.bincount(rows[:, 0], minlength=num_places)
    assert len(counts) == num_places
    chi2 = ((counts - num_draws / num_places) ** 2).sum() / (num_draws / num_places)
    assert chi2 < 62  # 31 degrees of freedom: one in a thousand
    held = PieceSampler([np.arange(36)], (5,), DEVICE)
    again = torch.Generator().manual_seed(20211005)
    assert torch.equal(held.draw(num_draws, again), rows)


def test_runs_are_written_and_read_in_any_pieces(tmp_path):
    values = np.arange(100, dtype=np.int16)
    for shard_bytes in (1, 3, 14, 199, 200, 1000):
        folder = tmp_path / str(shard_bytes)
        with RunWriter(folder, "values", "<i2", shard_bytes) as writer:
            for part in np.split(values, [0, 1, 30, 30, 99]):
                writer.append(part)
            shards = writer.finish()
        assert {shard.num_bytes for shard in shards[:-1]} <= {max(shard_bytes // 2, 1) * 2}
        run = Run(folder, shards, "<i2")
        assert len(run) == 100
        for start, stop in ((0, 100), (0, 0), (6, 7), (6, 8), (13, 50), (99, 100), (100, 100)):
            assert np.array_equal(run.span(start, stop), values[start:stop])


@pytest.mark.parametrize(("medium", "stop_at"), [("text", 3), ("shards", 7), ("images", 7), ("sound", 6)])
def test_runs_are_those_of_the_original_to_the_bit(medium, stop_at, tmp_path, monkeypatch):
    """Also when they are resumed, and when they change from one to the other."""
    config = {
        "text": tiny_config(),
        "shards": tiny_sharded_config(),
        "images": tiny_image_config(),
        "sound": tiny_sound_config(),
    }[medium]
    if medium == "images":
        config = replace(config, data=replace(config.data, width=4))
    name = {"images": "images", "sound": "audio"}.get(medium, "text")
    path = write_data(name, tmp_path / "original", monkeypatch)
    folder = packed(config.data, path, tmp_path / "packed")
    original, streamed = (load_corpus(config.data, p) for p in (path, folder))
    train(config, original, tmp_path / "whole")
    train(config, streamed, tmp_path / "parts", stop_at=stop_at)
    train(config, streamed, tmp_path / "parts", resume=True)
    train(config, original, tmp_path / "changed", stop_at=stop_at)
    train(config, streamed, tmp_path / "changed", resume=True)
    for other in ("parts", "changed"):
        assert_same_state(tmp_path / "whole", tmp_path / other)
        assert metrics(tmp_path / "whole") == metrics(tmp_path / other)


def test_the_trainer_foresees_its_draws():
    config = tiny_config(num_shards=4, steps=6)
    draws = [(step, shard) for step in range(6) for shard in (1, 3)]
    for i, (step, shard) in enumerate(draws):
        coming = [step_seed(config.seed, *draw) for draw in draws[i : i + AHEAD]]
        assert coming_seeds(config, Team(rank=1, size=2), step, shard) == coming
    assert coming_seeds(config, Team(), 9, 2) == [step_seed(config.seed, 9, 2), step_seed(config.seed, 9, 3)]


def test_batches_of_a_run_are_read_ahead(tmp_path, monkeypatch):
    path = write_data("text", tmp_path / "original", monkeypatch)
    config = tiny_config(num_shards=2)
    trainer = Trainer(config, load_corpus(config.data, packed(config.data, path, tmp_path / "packed")), CPU)
    threads = []
    read = trainer.sampler.read

    def noted(num_items, generator):
        threads.append(threading.current_thread().name)
        return read(num_items, generator)

    monkeypatch.setattr(trainer.sampler, "read", noted)
    run_training(trainer, tmp_path / "run")
    assert len(threads) == 2 * config.train.steps  # each batch once
    assert all(name.startswith("ardm-data") for name in threads)


def test_an_error_of_a_thread_comes_with_its_batch(tmp_path):
    folder = pack_bytes(tmp_path / "packed", bytes(100), shard_bytes=1000)
    sampler = load_corpus(TextData(kind="bytes", num_variables=5), folder).sampler((5,), DEVICE)
    (folder / "values-00000.ardmpack").unlink()
    sampler.expect([1, 2], 4)
    for seed in (1, 2, 3):
        with pytest.raises(DataError, match=r"values-00000.ardmpack cannot be read \(.*No such file"):
            sampler.draw(4, torch.Generator().manual_seed(seed))


def test_threads_end_with_their_sampler(tmp_path):
    folder = pack_bytes(tmp_path / "packed", bytes(100))
    gc.collect()
    before = {*threading.enumerate()}
    sampler = load_corpus(TextData(kind="bytes", num_variables=5), folder).sampler((5,), DEVICE)
    sampler.expect(range(8), 4)
    sampler.draw(4, torch.Generator().manual_seed(0))
    own = {*threading.enumerate()} - before
    assert own
    del sampler
    gc.collect()
    deadline = time.monotonic() + 20
    while any(thread.is_alive() for thread in own) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(thread.is_alive() for thread in own)


WITHIN_LIMIT = """
import resource, sys
from pathlib import Path
import torch
from ardm.config import TextData
from ardm.data.packed.packing import open_source, pack
from ardm.media import load_corpus
torch.set_num_threads(1)
how, source, folder, size = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
now = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
limit = now + size // 2 + 2 * 2**23  # half of the data, and the stacks of two threads
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
if how == "pack":
    pack(open_source(sys.argv[5], source), folder, shard_bytes=size // 5)
data = TextData(kind="bytes" if how != "pack" else sys.argv[5], num_variables=1000)
corpus = load_corpus(data, source if how == "hold" else folder)
sampler, total = corpus.sampler((1000,), torch.device("cpu")), 0
for seed in range(40):
    if how != "hold":
        sampler.expect(range(seed, seed + 4), 64)
    total += int(sampler.draw(64, torch.Generator().manual_seed(seed)).sum())
items = corpus.items("valid", (1000,))
print("done", total > 0, len(items), items[[0, len(items) - 1]].sum() > 0)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux counts it")
@pytest.mark.parametrize(("how", "kind"), [("pack", "characters"), ("hold", "bytes")])
def test_data_is_not_held_in_memory(how, kind, tmp_path):
    """Packed and streamed within half of the memory that the data takes; held in memory, it does not fit."""
    size = 128 * 2**20
    part = np.random.default_rng(0).integers(32, 127, 2**20, dtype=np.uint8).tobytes()
    with (tmp_path / "large").open("wb") as file:
        for _ in range(size // len(part)):
            file.write(part)
    arguments = [how, str(tmp_path / "large"), str(tmp_path / "packed"), str(size), kind]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WITHIN_LIMIT, *arguments], capture_output=True, text=True, env=environment, timeout=300
    )
    if how == "hold":
        assert "MemoryError" in done.stderr or "allocate memory" in done.stderr, done.stderr
    else:
        assert done.stdout == f"done True {size // 20 // 1000} True\n", done.stderr


@pytest.fixture
def folder(tmp_path) -> Path:
    """100 bytes packed in four shards."""
    return pack_bytes(tmp_path / "packed", bytes(range(100)), shard_bytes=30)


def test_a_shard_of_another_size_is_noticed_at_once(folder):
    shard = folder / "values-00002.ardmpack"
    content = shard.read_bytes()
    for damaged in (content[:-1], content + b"\0", b""):
        shard.write_bytes(damaged)
        told = f"values-00002.ardmpack is damaged: it has {len(damaged)} bytes where 30 were packed"
        with pytest.raises(DataError, match=told):
            open_pack(folder)
    shard.unlink()
    with pytest.raises(DataError, match="values-00002.ardmpack is missing"):
        open_pack(folder)


def test_a_flipped_bit_is_found_by_the_check(folder, capsys):
    shard = folder / "values-00003.ardmpack"
    shard.write_bytes(bytes([shard.read_bytes()[0] ^ 1]) + shard.read_bytes()[1:])
    pack = open_pack(folder)
    with pytest.raises(DataError, match=r"values-00003.ardmpack is damaged \(its sha256 is not"):
        check_pack(pack)
    status, error = fails(capsys, ["data", "packed", "--root", str(folder)])
    assert (status, "values-00003.ardmpack is damaged" in error) == (1, True)


def test_a_class_that_does_not_exist_is_told_when_it_is_read(tmp_path):
    (tmp_path / "text.txt").write_text("abc" * 100)
    folder = packed(TextData(kind="characters", num_variables=5), tmp_path / "text.txt", tmp_path / "packed")
    for shard in folder.glob("values-*"):
        shard.write_bytes(bytes([77]) * shard.stat().st_size)
    corpus = PackedText(pack=open_pack(folder))
    with pytest.raises(DataError, match=r"it holds class 77, but has 3 classes; `ardm data packed --root .* names"):
        corpus.sampler((5,), DEVICE).draw(2, torch.Generator())
    with pytest.raises(DataError, match="is damaged"):
        corpus.items("test", (5,))[:]


def test_any_change_of_the_description_is_noticed(folder):
    path = folder / DESCRIPTION_FILE
    content = path.read_bytes()
    for place in range(0, len(content) - 1, 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises((DataError, UnknownVersionError), match="damaged|but this software reads 1"):
            open_pack(folder)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="ardm-packed.json is damaged"):
        open_pack(folder)


class Interruption(BaseException):
    """As Ctrl-C is."""


def test_an_interrupted_packing_leaves_nothing(tmp_path):
    (tmp_path / "text").write_bytes(bytes(100))

    def interrupt(num_bytes: int) -> None:
        raise Interruption

    with pytest.raises(Interruption):
        pack(open_source("bytes", tmp_path / "text"), tmp_path / "packed", shard_bytes=30, advance=interrupt)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text"]


def test_a_killed_packing_is_recognised(folder, capsys, tmp_path):
    (folder / DESCRIPTION_FILE).unlink()
    assert is_packed(folder)
    with pytest.raises(DataError, match=r"packed was not packed completely \(ardm-packed.json is missing\)"):
        load_corpus(TextData(kind="bytes", num_variables=5), folder)
    told = fails(capsys, ["data", "bytes", "--root", str(tmp_path / "content"), "--pack", str(folder)])
    assert told == (2, f"ardm: {folder} holds a data set whose packing was interrupted; remove it first\n")
    for path in folder.iterdir():
        path.unlink()
    (folder / ".values-00000.ardmpack.7.partial").write_bytes(b"begun")
    with pytest.raises(DataError, match="was not packed completely"):
        open_pack(folder)


def test_what_is_wrong_with_the_original_is_told_and_nothing_is_left(tmp_path, capsys, small_reads):
    cut, text = "😀".encode()[:3], tmp_path / "text"
    cases = (b"a long text " + b"\xff", 12), (b"four" + cut + b" and more", 4), (b"at the end " + cut, 11)
    for content, place in cases:
        text.write_bytes(content)
        status, error = fails(capsys, ["data", "text", "--root", str(text), "--pack", str(tmp_path / "packed")])
        assert status == 1
        assert f"is not UTF-8 text (byte {place} is 0x{content[place]:02x})" in error
        original = fails(capsys, ["train", "text", "--data", str(text), "--out", str(tmp_path / "run")])
        assert original == (status, error)
        assert not (tmp_path / "packed").exists()


def test_usage_of_packing(tmp_path, capsys, folder, monkeypatch):
    images = write_data("images", tmp_path / "images", monkeypatch)
    new = str(tmp_path / "new")
    cases = {
        "--pack FOLDER is missing; your own images can only be packed": ["images", "--root", str(images)],
        "is not empty; choose a new folder": ["images", "--root", str(images), "--pack", str(folder)],
        "would become part of the data": ["images", "--root", str(images), "--pack", str(images / "packed")],
        "--shard-mib must be positive": ["images", "--root", str(images), "--pack", new, "--shard-mib", "0"],
        "--channels is for images": ["audio", "--root", str(images), "--pack", new, "--channels", "1"],
        "--pack is for data that is not packed yet": ["packed", "--root", str(folder), "--pack", new],
        "is a file, but a folder is needed": ["images", "--root", str(images), "--pack", str(images / "0.png")],
    }
    for told, arguments in cases.items():
        status, error = fails(capsys, ["data", *arguments])
        assert (status, told in error) == (2, True), error
    for told, arguments in {
        "there is no folder": ["images", "--root", str(tmp_path / "none"), "--pack", new],
        "is not a packed data set; `ardm data NAME --root DIR --pack": ["packed", "--root", str(images)],
        "is in colour, but this model is for grey": ["images", "--root", str(images), "--pack", new, "--channels", "1"],
    }.items():
        status, error = fails(capsys, ["data", *arguments])
        assert (status, told in error) == (1, True), error
    assert not Path(new).exists()
    run = ["train", "images", "--out", str(tmp_path / "run"), "--data"]
    assert "is a packed data set of bytes, but the preset is for images" in fails(capsys, [*run, str(folder)])[1]
    output(capsys, ["data", "images", "--root", str(images), "--pack", new])
    error = fails(capsys, [*run, new, "--channels", "1"])[1]
    assert "was packed with 3 channels, but 1 are needed; pack it with --channels 1" in error


def test_the_command_line_takes_packed_data(tmp_path, capsys, monkeypatch):
    """Train, eval and export print the same for both."""
    path, new = write_data("images", tmp_path / "original", monkeypatch), tmp_path / "packed"
    shown = output(capsys, ["data", "images", "--root", str(path), "--pack", str(new)])
    assert shown == f"{new}: original: train 22, valid 1, test 1 images in 2 shards, {shown.split()[-2]} bytes\n"
    checked = output(capsys, ["data", "packed", "--root", str(new)])
    assert checked == shown.removeprefix(f"{new}: ").replace("bytes\n", "bytes, sha256 as expected\n")
    small = ["--size", "3x3", "--widths", "8", "12", "--depths", "1", "1", "--batch-size", "4", "--steps", "3"]
    said = []
    for data, run in ((path, tmp_path / "a"), (new, tmp_path / "b")):
        output(capsys, ["train", "images", "--data", str(data), "--out", str(run), *small])
        scored = output(capsys, ["eval", str(run), str(data), "--json"])
        exported = output(capsys, ["export", str(run), "-o", str(run / "model"), *EXPORT])
        said.append((scored, exported.replace(str(run), ""), (run / "model").read_bytes()))
    assert said[0] == said[1]
    assert_same_state(tmp_path / "a", tmp_path / "b")


def test_models_score_packed_data_that_suits_them(tmp_path, capsys, monkeypatch):
    path = write_data("text", tmp_path / "original", monkeypatch)
    run, new = tmp_path / "run", tmp_path / "packed"
    small = ["--item-length", "8", "--layers", "1", "--width", "32", "--batch-size", "4", "--steps", "2"]
    output(capsys, ["train", "text", "--data", str(path), "--out", str(run), *small])
    output(capsys, ["data", "text", "--root", str(path), "--pack", str(new)])
    original, again = (output(capsys, ["eval", str(run), str(data), "--json"]) for data in (path, new))
    assert original == again
    other = pack_bytes(tmp_path / "bytes", bytes(100))
    assert "a different alphabet from the model's" in fails(capsys, ["eval", str(run), str(other)])[1]
    images = write_data("images", tmp_path / "images", monkeypatch)
    output(capsys, ["data", "images", "--root", str(images), "--pack", str(tmp_path / "i")])
    told = fails(capsys, ["eval", str(run), str(tmp_path / "i")])[1]
    assert "is a packed data set of images, but the model is for text" in told


def test_the_loader_is_timed(tmp_path, capsys):
    folder = pack_bytes(tmp_path / "packed", bytes(10_000), shard_bytes=999)
    base = ["bench", "data", "--data", str(folder), "--presets", "bytes", "--batch-size", "2", "--seconds", "0.05"]
    (row,) = json.loads(output(capsys, [*base, "--needed", "100", "--json"]))
    assert (row["preset"], row["data"], row["needed_items_per_second"]) == ("bytes", "content", 100)
    assert row["headroom"] == pytest.approx(row["warm"]["items_per_second"] / 100)
    for speed in (row["cold"], row["warm"]):
        assert speed["bytes_per_second"] == pytest.approx(250 * speed["items_per_second"])
    assert row["hardware"]["cpu"].endswith(" threads")
    shown = output(capsys, [word for word in base if word not in ("--presets", "bytes")])
    assert "\nbytes " in shown
    assert "% waiting)" in shown
    assert "is not a packed data set" in fails(capsys, [*base, "--data", str(tmp_path / "content")])[1]
    assert "--needed must be finite, got inf" in fails(capsys, [*base, "--needed", "inf"])[1]
    two = ["bench", "data", "--data", str(folder), "--presets", "bytes", "images"]
    assert "is a packed data set of bytes, but the preset is for images" in fails(capsys, two)[1]
    assert "Missing from ardm bench data: --data PATH" in fails(capsys, ["bench", "data", "--presets", "bytes"])[1]


def test_a_packed_folder_is_never_taken_for_plain_files(tmp_path, capsys):
    folder = pack_bytes(tmp_path / "packed", bytes(10_000), shard_bytes=999)
    again = ["data", "bytes", "--root", str(folder), "--pack", str(tmp_path / "again")]
    assert fails(capsys, again) == (2, f"ardm: {folder} is already a packed data set\n")
    (tmp_path / "a.txt").write_text("a")
    told = f"ardm: {folder}, below {tmp_path}, is a packed data set, not text; move it elsewhere\n"
    assert fails(capsys, ["train", "bytes", "--data", str(tmp_path), "--out", f"{tmp_path}-run"]) == (1, told)
    for model, name in (("text", "text8"), ("images", "cifar10")):
        status, error = fails(capsys, ["bench", "codec", "--model", model, "--data", str(folder), "--items", "2"])
        assert status == 2
        assert f"is a packed data set of bytes, but the preset is for {name}" in error


def test_a_cpu_times_the_smaller_preset():
    bench = BenchData(data=Path("packed"), device="cpu")
    assert [bench.preset_named(name) for name in KINDS] == [
        "text8-small",
        "text",
        "bytes",
        "cifar10-small",
        "images",
        "sc09-small",
        "audio",
    ]


def test_items_are_taken_as_from_an_array(folder):
    items = PackedText(pack=open_pack(folder)).items("all", (30,))
    assert len(items) == 3
    for wrong in (3, -4, [0, 3]):
        with pytest.raises(IndexError, match="there are 3 items"):
            items[wrong]
    assert len(items[[]]) == 0
    with pytest.raises(IndexError, match="items are indexed by integers, not by bool"):
        items[[True, False, True]]
    assert items[2:][0].tolist() == items[-1].tolist() == list(range(60, 90))
    with pytest.raises(DataError, match="the valid split has 5 characters, too few for an item of 30"):
        PackedText(pack=open_pack(folder)).items("valid", (30,))
    with pytest.raises(UsageError, match="is not empty"):
        pack_bytes(folder, b"more")


def test_info_tells_what_is_packed(folder, capsys):
    facts = json.loads(output(capsys, ["info", str(folder), "--json"]))
    assert [facts[name] for name in ("kind", "train", "valid", "test", "shards", "bytes")] == [
        "bytes",
        90,
        5,
        5,
        4,
        100,
    ]
    assert "fingerprint" in output(capsys, ["info", str(folder)])
    (folder / DESCRIPTION_FILE).unlink()
    assert "was not packed completely" in fails(capsys, ["info", str(folder)])[1]
