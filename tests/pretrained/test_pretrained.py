"""Models by name: bundled, on the hub, as paths; commands that take bundled ones."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from tiny_exact import tiny_exact

import ardm
from ardm import pretrained
from ardm.checkpoint import save_model
from ardm.cli.main import main
from ardm.data.sound_files import write_wav
from ardm.errors import CheckpointError

KINDS = {"images": "colour", "audio": "sound", "text": "text"}


@pytest.fixture
def bundled(tmp_path, monkeypatch) -> Path:
    """A folder of bundled models, a tiny one for each medium."""
    folder = tmp_path / "bundled"
    folder.mkdir()
    for name, kind in KINDS.items():
        save_model(folder / f"{name}.model", tiny_exact(kind))
        (folder / f"{name}.md").write_text(f"# {name}\n\nA tiny one of {kind}.\n\nTrained on nothing.\n")
    monkeypatch.setattr(pretrained, "FOLDER", folder)
    return folder


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    """A file for each bundled model."""
    folder = tmp_path / "mine"
    folder.mkdir()
    rng = np.random.default_rng(0)
    paths = {name: folder / file for name, file in (("images", "a.png"), ("audio", "b.wav"), ("text", "c.txt"))}
    Image.fromarray(rng.integers(0, 256, (9, 17, 3), dtype=np.uint8)).save(paths["images"])
    write_wav(paths["audio"], rng.integers(-99, 99, 40).astype(np.int16), 8000)
    paths["text"].write_text("a cab")
    return paths


def test_bundled_names_are_found_and_paths_come_first(bundled, tmp_path, monkeypatch):
    assert list(pretrained.bundled_models()) == ["audio", "images", "text"]
    assert pretrained.load("text").exact.identity == tiny_exact("text").exact.identity
    save_model(tmp_path / "images", tiny_exact("grey"))
    assert pretrained.find_model(tmp_path / "images") == tmp_path / "images"
    monkeypatch.chdir(tmp_path)
    assert pretrained.load("images").exact.identity == tiny_exact("grey").exact.identity


@pytest.mark.parametrize("source", ["nothing", "bundled/missing.model", "/no/such/model", "../a/b", "./x"])
def test_what_is_nowhere_is_told(bundled, tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=r"there is no model at .*bundled model \(audio, images, text\)"):
        pretrained.find_model(source)


class FakeHub(SimpleNamespace):
    """What we use of huggingface_hub, for one repository."""

    def list_repo_files(self, repository):
        if repository != "someone/speech":
            raise OSError(f"404: {repository}")
        return self.files

    def hf_hub_download(self, repository, file):
        return str(self.folder / file)


def test_models_of_the_hub(bundled, monkeypatch):
    hub = FakeHub(files=["README.md", "audio.model"], folder=bundled)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert pretrained.load("someone/speech").exact.identity == tiny_exact("sound").exact.identity
    assert pretrained.find_model("someone/speech/text.model") == bundled / "text.model"
    with pytest.raises(CheckpointError, match="no model at someone/else, and the Hugging Face hub gave none: 404"):
        pretrained.load("someone/else")
    hub.files = ["a.model", "b.safetensors"]
    with pytest.raises(CheckpointError, match="has a.model, b.safetensors; name one, as someone/speech/FILE"):
        pretrained.load("someone/speech")
    hub.files = ["README.md"]
    with pytest.raises(CheckpointError, match="has no model file"):
        pretrained.load("someone/speech")


def test_the_hub_needs_its_package(bundled, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(CheckpointError, match="pip install huggingface_hub"):
        pretrained.load("someone/speech")


def test_the_two_functions_take_bundled_models(bundled):
    data = ardm.compress("text", "a cab")
    assert ardm.decompress(data) == "a cab"


def test_files_are_compressed_by_the_model_for_their_kind(bundled, files, tmp_path, capsys):
    assert main(["compress", *map(str, files.values()), "-o", str(tmp_path / "out"), "--json"]) == 0
    kinds = {Path(one["file"]).suffix: one["kind"] for one in json.loads(capsys.readouterr().out)["files"]}
    assert set(kinds) == {".png", ".wav", ".txt"}
    assert main(["decompress", str(tmp_path / "out"), "-o", str(tmp_path / "back")]) == 0
    for path in files.values():
        assert (tmp_path / "back" / path.name).exists()
    assert (tmp_path / "back" / "c.txt").read_text() == "a cab"
    assert np.array_equal(Image.open(tmp_path / "back" / "a.png"), Image.open(files["images"]))


def test_an_archive_has_one_kind(bundled, files, tmp_path, capsys):
    out = ["-o", str(tmp_path / "all.ardma")]
    assert main(["compress", *map(str, files.values()), *out]) == 2
    assert "an archive holds files of one kind, not images and audio and text" in capsys.readouterr().err
    assert main(["compress", str(files["text"]), *out]) == 0


def test_bundled_models_are_loaded_once(bundled, monkeypatch):
    data = ardm.compress("text", "a cab")
    monkeypatch.setattr(pretrained, "load", None)
    assert ardm.compress("text", "a cab") == ardm.compress(bundled / "text.model", "a cab") == data
    assert ardm.decompress(data, "text") == "a cab"


def test_what_no_model_is_for_is_told(bundled, files, tmp_path, capsys):
    folder = files["text"].parent
    for name in ("notes.md", "b.dat", ".hidden", "old.ardm"):
        (folder / name).write_text("a cab")
    assert main(["compress", str(folder), "-o", str(tmp_path / "out"), "--json"]) == 0
    out, err = capsys.readouterr()
    note = f"left out because of their suffixes: {folder}/b.dat, {folder}/notes.md; to include a file, name it"
    assert json.loads(out)["notes"][-1] == note
    assert err.endswith(f"note: {note}\n")
    assert main(["compress", str(folder), "--model", "images", "-o", str(tmp_path / "images")]) == 0
    assert "b.dat" in (told := capsys.readouterr().err)
    assert "b.wav" in told
    for i in range(9):
        (folder / f"{i}.dat").write_text("a cab")
    assert main(["compress", str(folder), "-o", str(tmp_path / "again")]) == 0
    assert "4.dat and 6 more; to include" in capsys.readouterr().err
    assert main(["compress", str(folder / "notes.md"), "-o", str(tmp_path / "named")]) == 0


def test_short_files_are_told_by_their_model(bundled, files, tmp_path, capsys):
    short = ardm.compress("text", "a cab is " + "a" * 7)
    (tmp_path / "x.ardm").write_bytes(short)
    assert main(["info", str(tmp_path / "x.ardm")]) == 0
    shown = capsys.readouterr().out
    for fact in ("kind  text", "characters  16", "bits per variable", "kept  every character"):
        assert fact in shown
    model = tmp_path / "mine.model"
    (bundled / "text.model").rename(model)
    assert main(["info", str(tmp_path / "x.ardm")]) == 0
    assert "which is not available; for more, give --model MODEL" in capsys.readouterr().out
    assert main(["info", str(tmp_path / "x.ardm"), "--model", str(model)]) == 0
    assert capsys.readouterr().out == shown


def test_a_medium_without_a_bundled_model(bundled, files, tmp_path, capsys):
    (bundled / "audio.model").unlink()
    assert main(["compress", str(files["audio"])]) == 1
    assert (
        capsys.readouterr().err == f"ardm: {files['audio']}: there is no bundled model audio; give one with --model\n"
    )
    assert main(["compress", str(files["audio"].parent), "-o", str(tmp_path / "out")]) == 1
    assert {path.name for path in (tmp_path / "out" / "mine").iterdir()} == {"a.png.ardm", "c.txt.ardm"}


def test_no_bundled_models(tmp_path, files, monkeypatch, capsys):
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    assert main(["compress", str(files["text"])]) == 2
    assert "give the exact model to compress with" in capsys.readouterr().err
    assert main(["models"]) == 0
    assert "no bundled models" in capsys.readouterr().out


def test_models_are_listed_with_their_cards(bundled, capsys):
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["audio", "images", "text"]
    assert lines[1].endswith("MB  A tiny one of colour.")
    assert main(["models", "images"]) == 0
    assert "Trained on nothing." in capsys.readouterr().out
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "audio"
    assert main(["models", "no"]) == 1


@pytest.mark.parametrize(
    "arguments",
    [["info", "text"], ["sample", "text", "-n", "1"]],
)
def test_commands_take_names(bundled, arguments):
    assert main(arguments) == 0
