"""The codec benchmark on users' own files: taken whole, of any size and form, by models of every medium."""

import json
import shutil
from pathlib import Path

import invoke
import numpy as np
import pytest
from PIL import Image

import ardm
from ardm import pretrained
from ardm.apps.bench.ours import read_files
from ardm.checkpoint import load_model
from ardm.cli.main import main
from ardm.codec.format.entries import Limits
from ardm.compression.content_codec import ContentCodec
from ardm.data.sound_files import wav_file, write_wav
from ardm.errors import DataError, TooLargeError

GOLDEN = Path(__file__).parents[2] / "golden" / "1"


def golden(kind: str):
    """What a golden model finds likely."""
    return ardm.decompress((GOLDEN / f"{kind}.ardm").read_bytes(), GOLDEN / f"{kind}.model")


def bench(capsys, model: object, *arguments: object) -> list[dict]:
    """The rows of a benchmark."""
    flags = ["bench", "codec", "--model", str(model), *map(str, arguments), "--json"]
    return json.loads(invoke.output(capsys, flags))


@pytest.fixture
def pictures(tmp_path) -> Path:
    """Images of several sizes and modes, larger and smaller than the golden model's windows, in two folders."""
    folder, pixels = tmp_path / "pictures", golden("colour")
    (folder / "more").mkdir(parents=True)
    Image.fromarray(np.tile(pixels, (2, 3, 1))).save(folder / "a.png")
    Image.fromarray(pixels[:5, :7]).save(folder / "b.webp", lossless=True)
    Image.fromarray(pixels[:, :, 0]).save(folder / "grey.png")
    Image.fromarray(np.dstack([pixels, pixels[:, :, :1]])).save(folder / "more" / "alpha.png")
    (folder / "empty.png").write_bytes(b"")
    (folder / "readme.txt").write_text("no image")
    return folder


def test_own_images_are_coded_whole(pictures, capsys):
    rows = bench(capsys, GOLDEN / "colour.model", pictures)
    assert [row["name"] for row in rows if row["failure"] is None][:3] == [
        "ardm, 10 calls",
        "PNG (Pillow, optimize)",
        "WebP (Pillow, lossless, method 6)",
    ]
    num_variables = 9 * 17 * (6 * 3 + 1 + 4) + 5 * 7 * 3
    assert {(row["num_items"], row["num_variables"]) for row in rows} == {(4, num_variables)}
    assert not any("restored" in (row["failure"] or "") for row in rows)


def test_the_files_are_those_of_compress(pictures, capsys):
    row, *_ = bench(capsys, GOLDEN / "colour.model", pictures / "a.png", pictures / "b.webp", "--ours-only")
    sizes = [len(ardm.compress(GOLDEN / "colour.model", pictures / name)) for name in ("a.png", "b.webp")]
    assert row["bits_per_variable"] * row["num_variables"] == pytest.approx(8 * sum(sizes))


def test_the_bundled_model_takes_a_folder_that_is_not_its_benchmark(tmp_path, capsys):
    assert load_model(pretrained.bundled_models()["images"]).config.data.kind == "cifar10"
    Image.fromarray(np.zeros((8, 40, 3), np.uint8)).save(tmp_path / "own.png")
    flags = ["bench", "codec", "--model", "images", "--calls", "5", "--ours-only", "--json"]
    told = {}
    for name, data in {"file": [str(tmp_path)], "data": ["--data", str(tmp_path)]}.items():
        assert main([*flags[:2], *data, *flags[2:]]) == 0
        captured = capsys.readouterr()
        (row,) = json.loads(captured.out)
        assert (row["num_items"], row["num_variables"], row["failure"]) == (1, 8 * 40 * 3, None)
        told[name] = [line for line in captured.err.splitlines() if line.startswith("note: ")]
    assert told == {"file": [], "data": [f"note: {tmp_path} holds no cifar10; whole files are coded instead"]}


def test_own_texts_are_coded_whole(tmp_path, capsys):
    text = golden("text")
    (tmp_path / "a.txt").write_text(text + "ß" + text)
    (tmp_path / "b.md").write_text(text[:5])
    rows = bench(capsys, GOLDEN / "text.model", tmp_path)
    assert {row["num_variables"] for row in rows} == {2 * len(text) + 6}
    assert [row["name"] for row in rows] == [
        "ardm, 10 calls",
        "zlib (level 9, raw deflate)",
        "brotli (quality 11)",
        "zstd (level 19)",
        "PPMd (order 8)",
    ]
    assert all(row["failure"] is None or row["failure"].startswith("not installed") for row in rows)


def test_own_sounds_are_coded_whole(tmp_path, capsys):
    samples = golden("sound")
    write_wav(tmp_path / "mono.wav", samples, 8000)
    (tmp_path / "stereo.wav").write_bytes(wav_file(np.stack([samples, samples[::-1]], axis=1), 44_100))
    rows = bench(capsys, GOLDEN / "sound.model", tmp_path)
    assert {(row["num_items"], row["num_variables"]) for row in rows} == {(2, 3 * len(samples))}
    assert all(row["failure"] is None or row["failure"].startswith("not installed") for row in rows)


def test_some_files_are_spread_over_all(tmp_path):
    codec = ContentCodec(load_model(GOLDEN / "bytes.model"))
    for number in range(10):
        (tmp_path / str(number)).write_text(f"{number}")
    assert [content.raw for content in read_files([str(tmp_path)], codec, 4)] == [b"0", b"2", b"5", b"7"]
    assert len(read_files([str(tmp_path)], codec, 99)) == 10
    assert read_files([str(tmp_path)], codec, 4, seed=1) == read_files([str(tmp_path)], codec, 4, seed=1)


def test_files_that_cannot_be_coded_are_named(tmp_path, monkeypatch):
    codec = ContentCodec(load_model(GOLDEN / "sound.model"))
    write_wav(tmp_path / "nothing.wav", np.zeros(0, np.int16), 8000)
    with pytest.raises(DataError, match=r"nothing\.wav holds nothing to code; leave it out"):
        read_files([str(tmp_path)], codec, 9)
    (tmp_path / "nothing.wav").write_bytes(b"")
    with pytest.raises(DataError, match="nothing to code, all files are empty"):
        read_files([str(tmp_path)], codec, 9)
    write_wav(tmp_path / "long.wav", np.zeros(100, np.int16), 8000)
    monkeypatch.setattr("ardm.apps.bench.ours.Limits", lambda: Limits(content_bytes=50))
    with pytest.raises(TooLargeError, match=r"long\.wav is too large: 244 content bytes, where the limit is 50"):
        read_files([str(tmp_path)], codec, 9)


def test_unusable_arguments(pictures, capsys):
    own = ["bench", "codec", str(pictures), "--model", str(GOLDEN / "colour.model")]
    (pictures / "bad.png").write_bytes(b"no image")
    for arguments, status, message in [
        (own, 1, "bad.png cannot be read as an image"),
        ([*own, "--split", "valid"], 2, "--split is for data sets; files are taken whole, got --split valid"),
        ([*own, "--data", str(pictures)], 2, "give either files or data"),
        (own[:2] + own[3:], 2, "give either files or data"),
        (["bench", "plan", str(pictures)], 2, f"unknown arguments {pictures}; see ardm bench plan --help"),
        (["bench", "codec", "--model", "images", "--data", str(pictures / "no")], 1, "there is no CIFAR-10 at"),
        (["bench", "codec", "--model", "images", str(pictures / "no")], 1, "there is no file or folder"),
    ]:
        actual, error = invoke.fails(capsys, arguments)
        assert message in error
        assert actual == status
    shutil.rmtree(pictures)
    pictures.mkdir()
    assert "holds no files that end in" in invoke.fails(capsys, own)[1]
