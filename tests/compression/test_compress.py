"""Compressing and restoring as users do it: `ardm.compress`, `ardm.decompress` and the command line."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from invoke import fails, output
from launched import killed_after_the_test
from PIL import Image
from stored import unchecked_shapes
from test_mutations import mutations
from tiny_exact import KINDS, hashing_model, tiny_exact, tiny_exact_config

import ardm
from ardm import pretrained
from ardm.build import build_ardm
from ardm.checkpoint import save_model
from ardm.cli.main import main
from ardm.codec.format import blocks, directory, entries, single
from ardm.codec.format.archive import ArchiveReader, ArchiveWriter
from ardm.codec.format.entries import Limits, coded_or_raw
from ardm.compression import content_codec
from ardm.compression.content_codec import ContentCodec
from ardm.compression.sources import check_names, find_sources
from ardm.data.sound_files import read_sound, wav_file
from ardm.errors import (
    ArdmError,
    DamagedError,
    DataError,
    TooLargeError,
    UnknownModelError,
    UnknownVersionError,
    UsageError,
)

STALLED = """
import time
from ardm.cli.main import entry_point
from ardm.compression.content_codec import CodecSet

class Slow:
    def __del__(self):
        print("verifying", flush=True)
        time.sleep(60)

def decode(*args):
    Slow()
    time.sleep(60)

CodecSet.decode = decode
entry_point()
"""
"""The command line, with a verification that does not end, in a place from which Python can raise nothing."""
TYPED_ERRORS = (DamagedError, UnknownVersionError, UnknownModelError, TooLargeError)
NUM_MUTATIONS = 10_000
NUM_UNCHECKED = 2000


@pytest.fixture(autouse=True)
def _always_coded(monkeypatch):
    """Content is coded even where that is longer, as it is with random weights."""
    monkeypatch.setattr(content_codec, "coded_or_raw", lambda entry, *_: entry)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, str]:
    """Paths of exact models."""
    folder = tmp_path_factory.mktemp("models")
    for kind in KINDS:
        save_model(folder / f"{kind}.ardmodel", tiny_exact(kind))
    return {kind: str(folder / f"{kind}.ardmodel") for kind in KINDS}


def pixels(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


@pytest.fixture
def images(tmp_path) -> Path:
    """A folder with two images, and one in a folder of its own."""
    folder = tmp_path / "images"
    (folder / "sub").mkdir(parents=True)
    Image.fromarray(pixels(3, 4)).save(folder / "a.png")
    Image.fromarray(pixels(10, 18, 4)).save(folder / "b.png")
    Image.fromarray(pixels(5, 5)).save(folder / "sub" / "c.bmp")
    return folder


def same_image(path: Path, other: Path) -> bool:
    with Image.open(path) as image, Image.open(other) as second:
        return image.mode == second.mode and np.array_equal(np.asarray(image), np.asarray(second))


class TestApi:
    """The two functions."""

    @pytest.mark.parametrize(
        ("kind", "x"),
        [
            ("colour", pixels(10, 20)),
            ("colour", pixels(4, 4)[:, :, 0]),
            ("grey", pixels(3, 3, 2)),
            ("sound", np.arange(-30, 30, dtype=np.int16)),
            ("sound", np.arange(60, dtype=np.int16).reshape(30, 2) ** 2),
            ("text", "some text, with a few STRANGE characters\n"),
            ("bytes", b"\0\xff" * 20),
        ],
    )
    def test_round_trips(self, models, kind, x):
        model = tiny_exact(kind)
        data = ardm.compress(model, x)
        restored = ardm.decompress(data, model, batch_size=1)
        assert type(restored) is type(x)
        np.testing.assert_array_equal(restored, x)
        assert ardm.compress(models[kind], x, batch_size=5) == data
        np.testing.assert_array_equal(ardm.decompress(data, Path(models[kind])), x)

    def test_choices_travel_with_the_file(self):
        model = tiny_exact("colour")
        data = ardm.compress(model, pixels(9, 9), calls=5, order="pseudorandom:3")
        assert data != ardm.compress(model, pixels(9, 9))
        np.testing.assert_array_equal(ardm.decompress(data, model), pixels(9, 9))
        with pytest.raises(UsageError, match="3 calls are too few"):
            ardm.compress(model, pixels(9, 9), calls=3)
        with pytest.raises(UsageError, match="--order must be one of"):
            ardm.compress(model, pixels(9, 9), order="random")

    def test_paths_are_files(self, images):
        data = ardm.compress(tiny_exact("colour"), images / "b.png")
        np.testing.assert_array_equal(ardm.decompress(data, tiny_exact("colour")), pixels(10, 18, 4))

    def test_verification(self, monkeypatch):
        decode = ContentCodec.decode
        monkeypatch.setattr(ContentCodec, "decode", lambda *args: [DamagedError("wrong") for _ in decode(*args)])
        with pytest.raises(ArdmError, match="it did not decode exactly"):
            ardm.compress(tiny_exact("bytes"), b"words")
        data = ardm.compress(tiny_exact("bytes"), b"words", verify=False)
        monkeypatch.undo()
        monkeypatch.setattr(content_codec, "coded_or_raw", lambda entry, *_: entry)
        assert data == ardm.compress(tiny_exact("bytes"), b"words")

    def test_errors(self):
        data = ardm.compress(tiny_exact("bytes"), b"words")
        with pytest.raises(UnknownModelError, match=f"model {tiny_exact('bytes').exact.identity[:6].hex()}"):
            ardm.decompress(data)
        with pytest.raises(UnknownModelError, match="is not available"):
            ardm.decompress(data, tiny_exact("text"))
        with pytest.raises(TooLargeError):
            ardm.decompress(data, tiny_exact("bytes"), limits=Limits(content_bytes=4))
        with pytest.raises(DataError, match="this model is for bytes, but this content is text"):
            ardm.compress(tiny_exact("bytes"), "text")
        with pytest.raises(DataError, match="an array of int16 cannot be compressed"):
            ardm.compress(tiny_exact("bytes"), np.zeros(3, np.int16))


def compressed_examples() -> dict[bytes, tuple[str, object]]:
    """Files of every kind, by their bytes, with their models."""
    values = [
        ("colour", pixels(10, 18)),
        ("colour", pixels(6, 6, 4)),
        ("grey", pixels(4, 20)),
        ("sound", np.arange(50, dtype=np.int16).reshape(25, 2) ** 2),
        ("text", "a text with Escapes, in several windows"),
        ("bytes", bytes(range(40))),
    ]
    return {ardm.compress(hashing_model(kind), x): (kind, x) for kind, x in values}


def test_mutated_files_give_errors_or_the_very_data():
    with unchecked_shapes():
        files = compressed_examples()
        for data in mutations(list(files), NUM_MUTATIONS, seed=1):
            for kind in KINDS:
                try:
                    restored = ardm.decompress(data, hashing_model(kind))
                except TYPED_ERRORS:
                    continue
                np.testing.assert_array_equal(restored, files[data][1])


def restored_by_any(data: bytes, limits: Limits) -> object:
    """What a file holds, by the model that it names."""
    for kind in KINDS:
        try:
            return ardm.decompress(data, hashing_model(kind), limits=limits)
        except UnknownModelError as error:
            unknown = error
    raise unknown


def test_mutations_behind_the_checks_give_errors_alone(monkeypatch):
    """Without the checks of the container, payloads, sizes and side bytes are mutated too: no crash and no hang."""
    with unchecked_shapes():
        files = compressed_examples()
        for module in (single, blocks, directory):
            monkeypatch.setattr(module, "check_of", lambda *parts: 0)
        errors = []
        for data in mutations(list(files), NUM_UNCHECKED, seed=2):
            try:
                restored_by_any(data[:-4] + bytes(4), Limits(content_bytes=2**16))
            except TYPED_ERRORS as error:
                errors.append(type(error))
        assert errors.count(DamagedError) > NUM_UNCHECKED / 3
        assert errors.count(TooLargeError) > 0


class TestCompress:
    """ardm compress and ardm decompress."""

    def test_beside_the_files(self, models, images, capsys):
        report = output(capsys, ["compress", str(images / "*.png"), "--model", models["colour"]])
        assert report.splitlines()[0].split() == [
            "file",
            "bytes",
            "before",
            "after",
            "ratio",
            "bits/variable",
            "seconds",
        ]
        assert [line.split()[0] for line in report.splitlines()[1:]] == [*map(str, sorted(images.glob("*.png"))), "all"]
        assert {p.name for p in images.iterdir()} == {"a.png", "b.png", "a.png.ardm", "b.png.ardm", "sub"}
        for name in ("a.png", "b.png"):
            (images / name).rename(images / f"old-{name}")
        output(capsys, ["decompress", str(images), "--model", models["colour"]])
        assert all(same_image(images / name, images / f"old-{name}") for name in ("a.png", "b.png"))

    def test_to_a_folder_and_json(self, models, images, tmp_path, capsys):
        out = tmp_path / "out"
        command = ["compress", str(images), "--model", models["colour"], "-o", str(out), "--json", "--calls", "5"]
        facts = json.loads(output(capsys, command))
        names = ["images/a.png", "images/b.png", "images/sub/c.bmp"]
        assert [file["output"] for file in facts["files"]] == [str(out / f"{name}.ardm") for name in names]
        assert facts["failed"] == []
        first = facts["files"][0]
        assert first["bytes"] == (images / "a.png").stat().st_size
        assert first["compressed_bytes"] == (out / "images/a.png.ardm").stat().st_size
        assert first["bits_per_variable"] == pytest.approx(8 * first["compressed_bytes"] / 36)
        back = tmp_path / "back"
        output(capsys, ["decompress", str(out), "--model", models["colour"], "-o", str(back)])
        assert same_image(back / "images/sub/c.bmp.png", images / "sub/c.bmp")

    def test_one_named_file(self, models, tmp_path, capsys):
        text, packed, back = tmp_path / "x.txt", tmp_path / "y.ardm", tmp_path / "z.txt"
        text.write_bytes("\ufeffsome\r\ntext é я A".encode())
        output(capsys, ["compress", str(text), "--model", models["text"], "-o", str(packed), "--verify"])
        output(capsys, ["decompress", str(packed), "--model", models["text"], "-o", str(back)])
        assert back.read_bytes() == text.read_bytes()

    def test_sounds(self, models, tmp_path, capsys):
        sound = np.arange(100, dtype=np.int16).reshape(50, 2) ** 2
        (tmp_path / "x.wav").write_bytes(wav_file(sound, 44_100))
        assert main(["compress", str(tmp_path / "x.wav"), "--model", models["sound"]]) == 0
        assert "44100 samples per second, but the model is for 8000" in capsys.readouterr().err
        output(
            capsys, ["decompress", str(tmp_path / "x.wav.ardm"), "--model", models["sound"], "-o", str(tmp_path / "o")]
        )
        assert (tmp_path / "o" / "x.wav").read_bytes() == (tmp_path / "x.wav").read_bytes()
        assert read_sound(tmp_path / "o" / "x.wav").rate == 44_100

    def test_archives(self, models, images, tmp_path, capsys):
        archive = tmp_path / "all.ardma"
        output(capsys, ["compress", str(images), "--model", models["colour"], "-o", str(archive)])
        text = tmp_path / "x.txt"
        text.write_text("a text")
        output(capsys, ["compress", str(text), "--model", models["text"], "-o", str(archive), "--append"])
        facts = json.loads(output(capsys, ["info", str(archive), "--json"]))
        assert [entry["name"] for entry in facts["listing"]] == [
            "images/a.png",
            "images/b.png",
            "images/sub/c.bmp",
            "x.txt",
        ]
        assert "EXIF" in facts["not_kept"]["image"]
        both = ["--model", models["colour"], "--model", models["text"]]
        output(capsys, ["decompress", str(archive), *both])
        assert same_image(tmp_path / "all/images/b.png", images / "b.png")
        assert same_image(tmp_path / "all/images/sub/c.bmp.png", images / "sub/c.bmp")
        assert (tmp_path / "all/x.txt").read_text() == "a text"
        back = tmp_path / "back.txt"
        output(capsys, ["decompress", str(archive), *both, "--entry", "x.txt", "-o", str(back)])
        assert back.read_text() == "a text"

    def test_appending_what_is_there_changes_nothing(self, models, images, tmp_path, capsys):
        archive = tmp_path / "all.ardma"
        command = ["compress", str(images / "a.png"), "--model", models["colour"], "-o", str(archive)]
        output(capsys, [*command, "--append"])
        before = archive.read_bytes()
        status, error = fails(capsys, [*command, "--append"])
        assert (status, "already holds an entry a.png" in error) == (1, True)
        assert fails(capsys, command)[0] == 2
        assert archive.read_bytes() == before
        output(capsys, [*command, "--force"])
        assert archive.read_bytes() == before

    def test_nothing_is_overwritten_unasked(self, models, images, capsys):
        command = ["compress", str(images / "a.png"), "--model", models["colour"]]
        (images / "a.png.ardm").write_text("precious")
        status, error = fails(capsys, command)
        assert (status, "already exists; --force replaces it" in error) == (1, True)
        assert (images / "a.png.ardm").read_text() == "precious"
        output(capsys, [*command, "--force"])
        back = ["decompress", str(images / "a.png.ardm"), "--model", models["colour"]]
        status, error = fails(capsys, back)
        assert (status, "already exists" in error) == (1, True)
        output(capsys, [*back, "--force"])

    def test_unreadable_files_do_not_keep_the_others(self, models, images, tmp_path, capsys):
        (images / "broken.png").write_bytes(b"no image")
        assert main(["compress", str(images), "--model", models["colour"], "-o", str(tmp_path / "x.ardma")]) == 1
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        assert "broken.png cannot be read as an image" in captured.err
        assert "all 3" in captured.out
        (images / "broken2.png").write_bytes(b"no image")
        assert main(["compress", str(images), "--model", models["colour"], "-o", str(tmp_path / "out")]) == 1
        error = capsys.readouterr().err.splitlines()
        assert error[-1] == "ardm: 2 of 5 failed"
        assert len(error) == 3

    def test_no_archive_without_entries(self, models, tmp_path, capsys):
        (tmp_path / "x.png").write_bytes(b"no image")
        command = ["compress", str(tmp_path / "x.png"), "--model", models["colour"], "-o", str(tmp_path / "x.ardma")]
        assert fails(capsys, command)[0] == 1
        assert [path.name for path in tmp_path.iterdir()] == ["x.png"]

    @pytest.mark.parametrize("target", ["out", "x.ardma"])
    def test_a_failed_verification_keeps_nothing(self, models, images, tmp_path, capsys, monkeypatch, target):
        decode = ContentCodec.decode
        monkeypatch.setattr(ContentCodec, "decode", lambda *args: [DamagedError("wrong") for _ in decode(*args)])
        command = ["compress", str(images / "a.png"), "--model", models["colour"], "-o", str(tmp_path / target)]
        status, error = fails(capsys, command)
        assert (status, "did not decode exactly" in error) == (1, True)
        assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"a.png", "b.png", "c.bmp"}
        output(capsys, [*command, "--no-verify"])

    def test_a_failed_append_leaves_the_archive_as_it_was(self, models, images, tmp_path, capsys, monkeypatch):
        archive = tmp_path / "x.ardma"
        command = ["compress", "--model", models["colour"], "-o", str(archive), "--append"]
        output(capsys, [*command, str(images / "a.png")])
        before = archive.read_bytes()
        decode = ContentCodec.decode
        monkeypatch.setattr(ContentCodec, "decode", lambda *args: [DamagedError("wrong") for _ in decode(*args)])
        assert fails(capsys, [*command, str(images / "b.png")])[0] == 1
        assert archive.read_bytes() == before

    @pytest.mark.parametrize("target", ["out", "x.ardma"])
    def test_interruption_leaves_nothing_half_written(self, models, images, tmp_path, capsys, monkeypatch, target):
        def interrupted(*args):
            raise KeyboardInterrupt

        monkeypatch.setattr(ContentCodec, "decode", interrupted)
        command = ["compress", str(images), "--model", models["colour"], "-o", str(tmp_path / target)]
        assert fails(capsys, command) == (1, "ardm: interrupted\n")
        assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"a.png", "b.png", "c.bmp"}

    @pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
    @pytest.mark.parametrize(
        ("number", "flags", "status", "line"),
        [
            (signal.SIGTERM, [], 143, "ardm: terminated\n"),
            (signal.SIGTERM, ["--append"], 143, "ardm: terminated\n"),
            (signal.SIGTERM, ["--force"], 143, "ardm: terminated\n"),
            (signal.SIGINT, ["--append"], 1, "ardm: interrupted\n"),
        ],
    )
    def test_signals_leave_nothing_half_written(self, models, images, tmp_path, capsys, number, flags, status, line):
        archive = tmp_path / "x.ardma"
        command = ["compress", "--model", models["colour"], "-o", str(archive)]
        if flags:
            output(capsys, [*command, str(images / "a.png")])
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        arguments = [sys.executable, "-c", STALLED, *command, *flags, str(images / "b.png")]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = killed_after_the_test(subprocess.Popen(arguments, **pipes))
        assert process.stdout.readline() == "verifying\n"
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} != before
        process.send_signal(number)
        assert process.communicate(timeout=60)[1] == line
        assert process.returncode == status
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before

    def test_what_gets_longer_is_told(self, models, tmp_path, capsys, monkeypatch):
        monkeypatch.undo()
        (tmp_path / "long.txt").write_text("a text " * 40)
        (tmp_path / "short.txt").write_text("?!")
        command = ["compress", "--model", models["text"], "--force"]
        assert main([*command, str(tmp_path / "long.txt")]) == 0
        assert capsys.readouterr().err == ""
        assert main([*command, str(tmp_path / "long.txt"), str(tmp_path / "short.txt")]) == 0
        after = (tmp_path / "short.txt.ardm").stat().st_size
        assert capsys.readouterr().err == f"note: {tmp_path}/short.txt got longer: {after} bytes instead of 2\n"
        (tmp_path / "empty.txt").write_text("")
        assert main([*command, str(tmp_path / "empty.txt"), str(tmp_path / "short.txt"), "--json"]) == 0
        (note,) = json.loads(capsys.readouterr().out)["notes"]
        assert f"2 of 2 files, {tmp_path}/empty.txt among them, got longer" in note
        Image.fromarray(np.add.outer(np.arange(80), np.arange(80)).astype(np.uint8) // 2).save(tmp_path / "x.png")
        command = ["compress", str(tmp_path / "x.png"), "--model", models["grey"], "-o", str(tmp_path / "x.ardma")]
        assert main(command) == 0
        assert "x.png got longer" in capsys.readouterr().err

    def test_several_folders_beside_their_files(self, models, images, capsys):
        (images / "sub" / "a.png").write_bytes((images / "a.png").read_bytes())
        both = [str(images / "a.png"), str(images / "sub" / "a.png")]
        output(capsys, ["compress", *both, "--model", models["colour"]])
        for path in both:
            Path(path).unlink()
        output(capsys, ["decompress", str(images), str(images / "sub"), "--model", models["colour"]])
        assert same_image(images / "a.png", images / "sub" / "a.png")
        for command in ("compress", "decompress"):
            names = both if command == "compress" else [f"{path}.ardm" for path in both]
            status, error = fails(capsys, [command, *names, "--model", models["colour"], "-o", str(images / "o")])
            assert (status, "would both be named a.png" in error) == (2, True)
        assert not (images / "o").exists()

    def test_names_that_a_terminal_would_obey(self, models, tmp_path, capsys):
        (tmp_path / "a\nb\x1b[2J.txt").write_text("some text")
        command = ["compress", str(tmp_path), "--model", models["text"]]
        report = output(capsys, [*command, "-o", str(tmp_path / "out")])
        assert "a\\nb\\x1b[2J.txt" in report
        assert len(report.splitlines()) == 2
        status, error = fails(capsys, [*command, "-o", str(tmp_path / "x.ardma")])
        assert (status, "it holds a control character" in error, "\x1b" in error) == (1, True, False)
        output(capsys, ["decompress", str(tmp_path / "out"), "--model", models["text"], "-o", str(tmp_path / "back")])
        assert (tmp_path / "back" / tmp_path.name / "a\nb\x1b[2J.txt").read_text() == "some text"

    def test_compressed_files_are_not_compressed_again(self, models, images, tmp_path, capsys):
        archive = tmp_path / "x.ardma"
        output(capsys, ["compress", str(images), "--model", models["colour"], "-o", str(archive)])
        before = archive.read_bytes()
        for target in ([], ["-o", str(tmp_path / "y.ardma")]):
            status, error = fails(capsys, ["compress", str(archive), "--model", models["bytes"], *target])
            assert (status, "is already compressed; `ardm decompress` restores it" in error) == (1, True)
        assert archive.read_bytes() == before
        assert {path.name for path in tmp_path.iterdir()} == {"images", "x.ardma"}

    def test_models_that_are_none(self, models, images, tmp_path, capsys):
        one = str(images / "a.png")
        floats = replace(tiny_exact("grey"), model=build_ardm(tiny_exact_config("grey"), 256), exact=None)
        save_model(tmp_path / "float.safetensors", floats)
        for model, message, expected in (
            (one, "is not a model; give the file of an exact model", 1),
            (str(images), "is not a model", 1),
            ("nowhere", "there is no model at nowhere", 1),
            (str(tmp_path / "float.safetensors"), "convert it with `ardm export", 2),
        ):
            for command in ("compress", "decompress"):
                status, error = fails(capsys, [command, one, "--model", model])
                assert status == expected
                assert message in error

    def test_usage(self, models, images, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(pretrained, "FOLDER", tmp_path / "none")  # no bundled models
        one, colour = str(images / "a.png"), models["colour"]
        folder = tmp_path / "x.ardm"
        folder.mkdir()
        for command, message in (
            (["compress", one], "--model MODEL"),
            (["compress", "--model", colour], "files to compress"),
            (["compress", str(images), "--model", colour, "-o", "x.ardm"], "can hold one file, but 3 are given"),
            (["compress", one, "--model", colour, "--calls", "0"], "--calls must be positive"),
            (["compress", one, "--model", colour, "--order", "random"], "--order must be one of"),
            (["compress", one, "--model", colour, "--append"], "--append adds to an archive"),
            (["compress", one, "--model", colour, "--verify", "--no-verify"], "exclude each other"),
            (["compress", one, "--model", colour, "-o", f"{one}/x.ardma"], "is not a writable folder"),
            (["compress", one, "--model", colour, "-o", f"{one}/folder"], "is not a writable folder"),
            (["compress", one, "--model", colour, "--calls", "-1"], "--calls must be positive"),
            (["compress", one, "--model", colour, "-o", one], "is a file; give a folder, or a name that ends in .ardm"),
            (["compress", one, "--model", colour, "-o", str(folder)], "is a folder; give a file to write to"),
            (["decompress"], "files to restore"),
            (["decompress", "--model", colour], "files to restore"),
            (["decompress", one, "--model"], "--model needs the file of a model"),
            (["decompress", one, str(images / "b.png"), "-o", one], "is a file, but a folder is needed"),
            (["decompress", one, "-o", f"{one}/folder"], "is not a writable folder"),
        ):
            status, error = fails(capsys, command)
            assert status == 2
            assert message in error
        status, error = fails(capsys, ["compress", str(tmp_path / "none*"), "--model", colour])
        assert status == 1
        assert "there is no file or folder" in error
        output(capsys, ["compress", one, one, "--model", colour, "--calls", str(10**30)])


class TestDecompress:
    """Damage and collisions."""

    @pytest.fixture
    def archive(self, models, images, tmp_path, capsys) -> Path:
        path = tmp_path / "x.ardma"
        output(capsys, ["compress", str(images), "--model", models["colour"], "-o", str(path)])
        return path

    def test_a_damaged_entry_does_not_keep_the_others(self, models, archive, images, tmp_path, capsys):
        data = bytearray(archive.read_bytes())
        with archive.open("rb") as file:
            listing = ArchiveReader(file).listings["images/b.png"]
        data[listing.offset + listing.length // 2] ^= 1
        archive.write_bytes(data)
        assert main(["decompress", str(archive), "--model", models["colour"], "-o", str(tmp_path / "o")]) == 1
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        assert "'images/b.png' is damaged: its check does not match" in captured.err
        assert same_image(tmp_path / "o/images/a.png", images / "a.png")
        assert not (tmp_path / "o/images/b.png").exists()

    def test_a_lost_index_is_told(self, models, archive, tmp_path, capsys):
        archive.write_bytes(archive.read_bytes()[:-5])
        assert main(["decompress", str(archive), "--model", models["colour"]]) == 0
        assert "has a damaged index; its entries were found by a scan" in capsys.readouterr().err
        assert (tmp_path / "x" / "images" / "a.png").exists()
        assert "found by a scan" in output(capsys, ["info", str(archive)])

    def test_without_the_model(self, archive, capsys):
        identity = tiny_exact("colour").exact.identity[:6].hex()
        status, error = fails(capsys, ["decompress", str(archive)])
        assert status == 1
        assert f"3 files need model {identity}, which is not available; give it with --model" in error

    @pytest.mark.parametrize("target", ["out", "x.ardma"])
    def test_nothing_is_restored_while_a_model_is_missing(self, models, tmp_path, capsys, target):
        texts, out, back = tmp_path / "texts", tmp_path / target, tmp_path / "back"
        texts.mkdir()
        for name, text in (("a", ""), ("b", "some text"), ("c", "more text")):
            (texts / f"{name}.txt").write_text(text)
        output(capsys, ["compress", str(texts), "--model", models["text"], "-o", str(out)])
        (tmp_path / "d").write_bytes(bytes(30))
        output(capsys, ["compress", str(tmp_path / "d"), "--model", models["bytes"]])
        restore = ["decompress", str(tmp_path / "d.ardm"), str(out), "-o", str(back), "--model"]
        text, data = (tiny_exact(kind).exact.identity[:6].hex() for kind in ("text", "bytes"))
        status, error = fails(capsys, [*restore, models["grey"]])
        assert status == 1
        assert f"d.ardm needs model {data}, 2 files need model {text}, which are not available; give them with" in error
        status, error = fails(capsys, [*restore, models["bytes"]])
        assert f"nothing was restored: 2 files need model {text}, which is not available; give it with --model" in error
        assert not back.exists()
        output(capsys, [*restore, models["bytes"], models["text"]])
        assert {path.name for path in back.rglob("*") if path.is_file()} == {"a.txt", "b.txt", "c.txt", "d"}

    def test_several_models(self, models, tmp_path, capsys):
        files = []
        for kind in ("text", "bytes", "grey"):
            value = {"text": "text", "bytes": bytes(5), "grey": pixels(2, 2)[:, :, 0]}[kind]
            files.append(tmp_path / f"{kind}.ardm")
            files[-1].write_bytes(ardm.compress(models[kind], value))
        text, data, grey = (models[kind] for kind in ("text", "bytes", "grey"))
        for number, models_and_files in enumerate(
            (
                [*files, "--model", text, data, grey],
                [*files, "--model", text, data, "--model", grey],
                ["--model", text, data, "--model", grey, *files],
                ["--model", text, "--model", data, grey, files[0], "--force", *files[1:]],
                ["--model", text, data, grey, str(tmp_path / "*.ardm")],
            )
        ):
            back = tmp_path / f"back{number}"
            output(capsys, ["decompress", "-o", str(back), *map(str, models_and_files)])
            assert {path.name for path in back.iterdir()} == {"text", "bytes", "grey.png"}

    def test_archives_of_any_name(self, models, archive, images, tmp_path, capsys):
        archive = archive.rename(tmp_path / "renamed")
        output(capsys, ["decompress", str(archive), "--model", models["colour"]])
        assert same_image(tmp_path / "renamed.restored/images/a.png", images / "a.png")

    def test_unknown_entries(self, models, archive, capsys):
        command = ["decompress", str(archive), "--model", models["colour"], "--entry", "none"]
        assert fails(capsys, command) == (1, f"ardm: {archive}: none: the archive holds no entry 'none'\n")

    def test_names_that_collide(self, models, images, tmp_path, capsys):
        path = tmp_path / "y.ardma"
        codec = ContentCodec(tiny_exact("colour"))
        content = codec.layout.read(images / "a.png")
        (entry,) = codec.encode([codec.place(content)], codec.options(), content_codec.Batching())
        with path.open("w+b") as file, ArchiveWriter.create(file, codec.options()) as writer:
            for name in ("a.png", "a.png/b.png", "c", "c.png", "d.png"):
                writer.add(name, entry)
        assert main(["decompress", str(path), "--model", models["colour"], "-o", str(tmp_path / "o")]) == 1
        error = capsys.readouterr().err.splitlines()
        assert len(error) == 3
        assert "a.png/b.png" in error[0]
        assert "c.png: another entry has been restored to" in error[1]
        assert {p.name for p in (tmp_path / "o").iterdir()} == {"a.png", "c.png", "d.png"}
        assert main(["decompress", str(path), "--model", models["colour"], "-o", str(tmp_path / "o"), "--force"]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 3

    def test_a_third_name_that_collides(self, models, images, tmp_path, capsys):
        """X.png and x.png are two files on most systems, and x becomes the second of them."""
        first, second = (Image.open(images / name) for name in ("a.png", "b.png"))
        folder = tmp_path / "in"
        folder.mkdir()
        for name, image in (("X.png", first), ("x.png", second), ("x", first)):
            image.save(folder / name, format="PNG")
        names = [str(folder / name) for name in ("X.png", "x.png", "x")]
        output(capsys, ["compress", *names, "-o", str(tmp_path / "e.ardma"), "--model", models["colour"]])
        assert main(["decompress", str(tmp_path / "e.ardma"), "--model", models["colour"]]) == 1
        assert "x: another entry has been restored to" in capsys.readouterr().err
        assert np.array_equal(Image.open(tmp_path / "e" / "X.png"), first)
        assert np.array_equal(Image.open(tmp_path / "e" / "x.png"), second)

    def test_the_name_must_suit_the_format(self, models, images, tmp_path, capsys):
        output(capsys, ["compress", str(images / "a.png"), "--model", models["colour"]])
        command = ["decompress", str(images / "a.png.ardm"), "--model", models["colour"], "-o"]
        status, error = fails(capsys, [*command, str(tmp_path / "q.jpg")])
        assert (status, "it is restored as PNG; give a name that ends in .png" in error) == (1, True)
        assert not (tmp_path / "q.jpg").exists()
        output(capsys, [*command, str(tmp_path / "q.PNG")])

    def test_damaged_files(self, models, tmp_path, capsys):
        for content in (b"", b"\xad", b"\xadR", b"\xadR\x01", b"\xadARC\x01", b"no file of ours"):
            path = tmp_path / "x.ardm"
            path.write_bytes(content)
            for command in (["decompress", str(path)], ["info", str(path)]):
                status, error = fails(capsys, command)
                assert status == 1
                assert "damaged" in error or "is not an ardm" in error
        path.write_bytes(b"\xadR\x02")
        assert "format version 2" in fails(capsys, ["info", str(path)])[1]


class TestInfo:
    """ardm info of what is new."""

    def test_files(self, models, images, capsys):
        output(
            capsys,
            ["compress", str(images / "b.png"), "--model", models["colour"], "--calls", "5", "--order", "raster"],
        )
        facts = json.loads(output(capsys, ["info", str(images / "b.png.ardm"), "--json"]))
        assert facts["kind"] == "image"
        assert (facts["width"], facts["height"], facts["mode"], facts["chunks"]) == (18, 10, "RGBA", 3)
        assert facts["model"] == tiny_exact("colour").exact.identity[:6].hex()
        assert (facts["order"], facts["schedule"]) == ("raster", 0)
        shown = output(capsys, ["info", str(images / "b.png.ardm")])
        assert "every pixel, the size and the mode" in shown
        assert "restored as PNG" in shown

    def test_entries_are_checked(self, models, images, tmp_path, capsys):
        archive = tmp_path / "x.ardma"
        output(capsys, ["compress", str(images), "--model", models["colour"], "-o", str(archive)])
        shown = output(capsys, ["info", str(archive)])
        assert shown.count("check fine") == 3
        data = bytearray(archive.read_bytes())
        with archive.open("rb") as file:
            listing = ArchiveReader(file).listings["images/b.png"]
        data[listing.offset + listing.length // 2] ^= 1
        archive.write_bytes(data)
        for flags in ([], ["--json"]):
            assert main(["info", str(archive), *flags]) == 1
            captured = capsys.readouterr()
            assert captured.err == f"ardm: {archive}: 1 of 3 entries cannot be restored: images/b.png\n"
            assert captured.out.count("damaged: its check does not match its bytes") == 1
        entries = json.loads(captured.out)["listing"]
        assert [entry["check"] == "fine" for entry in entries] == [True, False, True]

    def test_foreign_files(self, images, tmp_path, capsys):
        (tmp_path / "empty").write_bytes(b"")
        (tmp_path / "text.txt").write_text('{"a": 1, "{": 2} {{{{{{')
        (tmp_path / "java").write_bytes(b"\xac\xed\0\5and more")  # as a short file of version 1 starts
        (tmp_path / "degrees").write_text("°C and more", "latin-1")  # as one of version 2 does
        with (tmp_path / "large").open("wb") as file:
            file.write(b"\xac")
            file.truncate(2**30 + 1)
        foreign = [tmp_path / name for name in ("empty", "text.txt", "java", "degrees", "large")]
        for path in (*foreign, images / "a.png", images):
            message = f"ardm: {path} is neither a model, a run nor a compressed file\n"
            assert fails(capsys, ["info", str(path)]) == (1, message)
        (images / "config.json").write_text("{}")
        assert "there is no model at" in fails(capsys, ["info", str(images)])[1]
        assert fails(capsys, ["info", "nowhere"]) == (1, "ardm: there is no file or folder nowhere\n")

    def test_raw_content(self, tmp_path, capsys):
        path = tmp_path / "x.ardm"
        path.write_bytes(ardm.compress(tiny_exact("text"), ""))
        facts = json.loads(output(capsys, ["info", str(path), "--json"]))
        assert (facts["stored"], facts["characters"], facts["bits_per_variable"]) == ("raw", 0, None)

    def test_exact_models(self, models, capsys):
        facts = json.loads(output(capsys, ["info", models["colour"], "--json"]))
        assert facts["identity"] == tiny_exact("colour").exact.identity.hex()
        assert facts["calls"] == 10


class TestSources:
    """Files, folders and patterns."""

    def test_patterns_and_folders(self, images):
        assert [s.name for s in find_sources([str(images)])] == ["images/a.png", "images/b.png", "images/sub/c.bmp"]
        assert [s.name for s in find_sources([str(images)], {".bmp"})] == ["images/sub/c.bmp"]
        assert [s.name for s in find_sources([str(images / "**" / "*.bmp")])] == ["c.bmp"]
        assert [s.name for s in find_sources([str(images / "a.png"), str(images / "*.png")])] == ["a.png", "b.png"]

    def test_the_current_folder_has_no_name(self, images, monkeypatch):
        monkeypatch.chdir(images)
        assert [s.name for s in find_sources(["."])] == ["a.png", "b.png", "sub/c.bmp"]

    def test_odd_names_are_files(self, images):
        (images / "[1].png").write_bytes(b"")
        assert [s.name for s in find_sources([str(images / "[1].png")])] == ["[1].png"]

    def test_nothing_found(self, images):
        with pytest.raises(DataError, match="holds no files that end in .wav"):
            find_sources([str(images)], {".wav"})
        with pytest.raises(DataError, match="there is no file or folder"):
            find_sources([str(images / "*.jpg")])

    def test_two_files_of_one_name(self, images):
        (images / "sub" / "a.png").write_bytes(b"")
        sources = find_sources([str(images / "a.png"), str(images / "sub" / "a.png")])
        with pytest.raises(UsageError, match="would both be named a.png"):
            check_names(sources)

    def test_folders_without_their_names(self, images):
        sources = find_sources([str(images)], folder_names=False)
        assert [s.name for s in sources] == ["a.png", "b.png", "sub/c.bmp"]

    def test_folders_that_may_not_be_read(self, images, monkeypatch):
        monkeypatch.setattr(os, "access", lambda path, mode: path != images / "sub")
        with pytest.raises(DataError, match="sub cannot be read"):
            find_sources([str(images)])

    def test_devices(self):
        with pytest.raises(DataError, match="is neither a file nor a folder"):
            find_sources([os.devnull])


@pytest.mark.parametrize("target", ["out", "x.ardma"])
@pytest.mark.parametrize("is_coded", [True, False])
def test_contents_are_placed_and_entries_serialised_once(
    models, images, tmp_path, capsys, monkeypatch, target, is_coded
):
    monkeypatch.undo()
    calls: Counter[tuple[str, object]] = Counter()

    def count(owner, name, key):
        function = getattr(owner, name)

        def counted(*args):
            calls[name, key(*args)] += 1
            return function(*args)

        monkeypatch.setattr(owner, name, counted)

    if is_coded:  # which random weights would not choose; the choice is made all the same
        monkeypatch.setattr(content_codec, "coded_or_raw", lambda entry, *how: (coded_or_raw(entry, *how), entry)[1])
    count(ContentCodec, "place", lambda self, content: content.digest)
    count(entries, "_pack_coded", lambda fields, content: content.chunks)
    count(entries, "deflate", lambda content: content)
    count(ContentCodec, "file_of", lambda self, entry: entry)
    count(content_codec, "write_single", lambda entry: entry)
    output(capsys, ["compress", str(images), "--model", models["colour"], "-o", str(tmp_path / target)])
    assert set(calls.values()) == {1}
    numbers, num_files = Counter(name for name, _ in calls), 3 if target == "out" else 0
    assert numbers["place"] == numbers["_pack_coded"] == numbers["deflate"] == 3
    assert numbers["file_of"] == numbers["write_single"] == num_files


def test_groups_are_limited_and_leave_nothing_out(monkeypatch):
    from ardm.compression import outcomes

    monkeypatch.setattr(outcomes, "GROUP_SIZE", 3)
    monkeypatch.setattr(outcomes, "GROUP_BYTES", 10)
    assert list(outcomes.grouped([1, 1, 1, 9, 1, 20, 1], lambda n: n)) == [[1, 1, 1], [9, 1], [20], [1]]
    assert list(outcomes.grouped([], lambda n: n)) == []
