"""The demonstration with tiny models: its files, its report, and its messages if something is missing."""

import base64
import io
import json
import re
import shutil
import wave
from contextlib import contextmanager
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from invoke import fails
from PIL import Image
from serving import with_profile
from tiny_exact import ALPHABET, tiny_exact

from ardm import pretrained
from ardm.apps.demo import coding
from ardm.apps.demo.coding import Row, total_rows
from ardm.apps.demo.filling import fill_examples, middle, missing_words, passage
from ardm.apps.demo.models import find_examples, load_demo_models
from ardm.apps.demo.page import HEIGHT, WIDTH, plan_outlines, shades
from ardm.apps.demo.tables import seconds_text
from ardm.apps.report.pages import render
from ardm.apps.rivals.rival import OneByOne
from ardm.checkpoint import save_model
from ardm.cli.main import main
from ardm.compression.restorer import Restorer
from ardm.compression.sources import BUNDLED_SUFFIXES
from ardm.data.alphabet import BYTES, Alphabet
from ardm.data.sound_files import write_wav
from ardm.errors import UsageError
from ardm.orders import random_stage_orders
from ardm.planner import plan
from ardm.sample import sample_items
from ardm.schedule import full_schedule

KINDS = {"images": "upscaled-colour", "text": "text", "audio": "sound"}
IMAGE, OTHER, TEXT, SOUND = "a<b>&.png", "grey.png", "c.txt", "d.wav"
SECTIONS = [
    "Compressed and restored",
    "Where the bits go",
    "Gaps filled",
    "Samples step by step",
    "Sounds",
    "Losses and schedules",
]


@contextmanager
def bundling(folder: Path, kinds: dict[str, str]):
    """Bundles tiny models, which a folder holds."""
    folder.mkdir()
    for name, kind in kinds.items():
        save_model(folder / f"{name}.model", with_profile(tiny_exact(kind)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrained, "FOLDER", folder)
        yield


@pytest.fixture
def bundled(tmp_path):
    """A folder of bundled models, one for each medium."""
    with bundling(tmp_path / "bundled", KINDS):
        yield tmp_path / "bundled"


@cache
def likely(name: str, shape: tuple[int, ...], count: int, temperature: float) -> np.ndarray:
    """Items that a model finds likely, so that its files are coded: random weights would store anything else."""
    trained = tiny_exact(KINDS[name]).for_shape(shape)
    model, generator = trained.model, torch.Generator().manual_seed(0)
    orders = random_stage_orders(count, model.num_stages, model.num_variables, generator)
    schedule = full_schedule(model.num_variables, num_stages=model.num_stages)
    return sample_items(model, orders, schedule, generator, temperature=temperature).numpy()


def write_examples(folder: Path) -> Path:
    """Two images, a text and a sound, with names and letters that HTML must not take for its own."""
    folder.mkdir()
    pixels = likely("images", (11, 19, 3), 1, 0.1).reshape(11, 19, 3).astype(np.uint8)
    Image.fromarray(pixels).save(folder / IMAGE)
    Image.fromarray(np.indices((11, 19)).sum(0).astype(np.uint8)).save(folder / OTHER)
    text = "".join(ALPHABET[c] for c in likely("text", (16,), 20, 0.5).ravel())
    (folder / TEXT).write_text(f"Four <score> & {text}")
    sound = likely("audio", (50,), 1, 0.1)[0] - 2**15
    write_wav(folder / SOUND, sound.astype(np.int16), 8000)
    (folder / "notes.md").write_text("no example")
    return folder


@pytest.fixture
def examples(tmp_path):
    """The folder of files."""
    return write_examples(tmp_path / "examples")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder in which everything was done once, and what the screen showed."""
    root = tmp_path_factory.mktemp("demo")
    with bundling(root / "bundled", KINDS), pytest.MonkeyPatch.context() as patch:
        said = io.StringIO(), io.StringIO()
        patch.setattr("sys.stdout", said[0])
        patch.setattr("sys.stderr", said[1])
        assert main(["demo", "-o", str(root / "out"), "--examples", str(write_examples(root / "examples"))]) == 0
    return root, *(one.getvalue() for one in said)


class Reader(HTMLParser):
    """Collects what a page refers to, its titles, and the rows of its table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.titles: list[str] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        if tag in ("h2", "td"):
            self._open.append("")
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        if tag == "h2":
            self.titles.append(self._open.pop())
        if tag == "td":
            self.rows[-1].append(self._open.pop())

    def handle_data(self, data):
        self.text += data
        if self._open:
            self._open[-1] += data


@pytest.fixture(scope="module")
def report(done):
    """The report as a browser reads it."""
    return Reader((done[0] / "out" / "report.html").read_text())


def test_files_are_restored_identically(done):
    root, *_ = done
    restored, original = root / "out" / "restored", root / "examples"
    for name in (IMAGE, OTHER):
        assert np.array_equal(Image.open(restored / name), Image.open(original / name))
    for name in (TEXT, SOUND):
        assert (restored / name).read_bytes() == (original / name).read_bytes()
    assert {path.name for path in (root / "out" / "compressed").iterdir()} == {
        f"{name}.ardm" for name in (IMAGE, OTHER, TEXT, SOUND)
    }


def test_the_report_needs_nothing_beside_it(done, report):
    page = (done[0] / "out" / "report.html").read_text()
    for tag, name, value in report.attributes:
        assert name not in ("href", "srcset", "action", "data"), tag
        assert name != "src" or re.match(r"data:(image/png|audio/wav);base64,", value), tag
        assert not name.startswith("on")
    assert not {"script", "link", "iframe", "object", "base"} & set(report.tags)
    for word in ("http:", "https:", "url(", "@import", "//"):
        assert word not in re.sub(r"base64,[\w+/=]+", "", page)


def test_every_section_is_there(report):
    assert report.titles == SECTIONS
    assert report.tags.count("audio") == 1 + 2
    assert report.tags.count("svg") == 3


def test_the_numbers_are_those_of_the_table(done, report):
    _, out, _ = done
    assert out.count("ardm, stored") == 1  # the grey one, so that the others are really coded
    rows = [row for row in report.rows if row]
    lines = [line for line in out.splitlines() if re.search(r" bits/\w+$", line)]
    assert len(rows) == len(lines) >= 4 + 4 + 4 + 3 + 3
    for row, line in zip(rows, lines, strict=True):
        assert re.split(r"\s{2,}", line.strip())[-len(list(filter(None, row))) - 1 : -1] == list(filter(None, row))


def test_sizes_are_those_of_the_files(done):
    root, out, _ = done
    compressed = [(root / "out" / "compressed" / f"{name}.ardm").stat().st_size for name in (IMAGE, OTHER)]
    ours = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines() if "  ardm" in line]
    assert [int(line[2].replace(",", "")) for line in ours][:3] == [*compressed, sum(compressed)]
    assert ours[2][0] == "all 2 images"
    variables = 11 * 19 * 4
    assert ours[2][3] == f"{8 * sum(compressed) / variables:.3f}"
    for codec in ("PNG", "WebP", "zlib", "uncoded"):
        assert codec in out


def test_names_and_texts_are_escaped(done, report):
    page = (done[0] / "out" / "report.html").read_text()
    assert IMAGE in report.text
    assert (done[0] / "examples" / TEXT).read_text() in report.text
    assert "<score>" not in page
    assert "a<b>" not in page


def test_pictures_hold_the_images(done, report):
    sources = [value for tag, name, value in report.attributes if (tag, name) == ("img", "src")]
    pictures = [Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))) for source in sources]
    original = np.asarray(Image.open(done[0] / "examples" / IMAGE))
    same = [np.asarray(one) for one in pictures if one.size == (19, 11) and one.mode == "RGB"]
    assert sum(np.array_equal(one, original) for one in same) == 2  # beside its heat map and its fillings
    sounds = [value for tag, name, value in report.attributes if (tag, name) == ("audio", "src")]
    with wave.open(io.BytesIO(base64.b64decode(sounds[0].partition(",")[2]))) as file:
        assert (file.getnframes(), file.getframerate()) == (50, 8000)


def test_the_screen_tells_what_is_done(done):
    root, out, err = done
    assert out.splitlines()[-1] == f"All files were restored and are identical. Report: {root / 'out' / 'report.html'}"
    for line in ("images: compressing", "images: restoring", "text: filling gaps", "audio: drawing 2 samples"):
        assert re.search(rf"^ +\d+ s  {line}", err, re.MULTILINE)


def test_json(bundled, examples, tmp_path, capsys):
    assert main(["demo", "-o", str(tmp_path / "out"), "--examples", str(examples), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert Path(values["report"]).is_file()
    first = values["files"][0]
    size = (tmp_path / "out" / "compressed" / f"{IMAGE}.ardm").stat().st_size
    assert (first["file"], first["codecs"][0]["bytes"]) == (IMAGE, size)
    assert first["codecs"][0]["bits_per_variable"] == 8 * size / (11 * 19 * 3)


def test_json_has_what_is_missing(bundled, examples, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (bundled / "text.model").unlink()
    assert main(["demo", "-o", str(tmp_path / "out"), "--examples", str(examples), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [note for note in values["notes"] if note.startswith("JPEG XL")] == [
        "JPEG XL (cjxl -d 0 -e 9 -E 3 -I 100): not installed: apt-get install libjxl-tools"
    ]
    assert values["left_out"] == ["text left out: there is no bundled model of this name"]


def test_a_report_is_replaced_only_by_force(bundled, examples, tmp_path, capsys):
    arguments = ["demo", "-o", str(tmp_path), "--examples", str(examples)]
    (tmp_path / "report.html").write_text("mine")
    (bundled / "audio.model").unlink()
    (bundled / "images.model").unlink()
    assert fails(capsys, arguments)[0] == 2
    assert (tmp_path / "report.html").read_text() == "mine"
    assert main([*arguments, "--force"]) == 0
    assert Reader((tmp_path / "report.html").read_text()).titles[0] == SECTIONS[0]


def test_missing_bundled_models_are_one_line(tmp_path, examples, monkeypatch, capsys):
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    status, line = fails(capsys, ["demo", "-o", str(tmp_path / "out"), "--examples", str(examples)])
    assert status == 1
    assert "no bundled models" in line
    assert not (tmp_path / "out").exists()


def test_a_medium_without_a_model_or_a_file_is_left_out_and_named(bundled, examples, tmp_path, capsys):
    (bundled / "images.model").unlink()
    (examples / SOUND).unlink()
    assert main(["demo", "-o", str(tmp_path / "out"), "--examples", str(examples)]) == 0
    err = capsys.readouterr().err
    reader = Reader((tmp_path / "out" / "report.html").read_text())
    for line in (
        "images left out: there is no bundled model of this name",
        f"audio left out: no file for it in {examples}",
    ):
        assert line in err
        assert line in reader.text
    assert "Sounds" not in reader.titles
    assert "Gaps filled" in reader.titles


def test_missing_examples(bundled, tmp_path, monkeypatch, capsys):
    out = ["-o", str(tmp_path / "out")]
    status, line = fails(capsys, ["demo", *out, "--examples", str(tmp_path / "no")])
    assert (status, "is not a folder" in line) == (2, True)
    (tmp_path / "empty").mkdir()
    status, line = fails(capsys, ["demo", *out, "--examples", str(tmp_path / "empty")])
    assert (status, "holds no file for the bundled models (audio, images, text)" in line) == (1, True)
    monkeypatch.setattr(
        "ardm.apps.demo.models.__file__", str(tmp_path / "lib/python3/site-packages/ardm/apps/demo/models.py")
    )
    with pytest.raises(UsageError, match="--examples FOLDER"):
        find_examples(None)


def test_the_repository_has_examples_for_all_models():
    folder = find_examples(None)
    for suffixes in BUNDLED_SUFFIXES.values():
        assert any(path.suffix in suffixes for path in folder.iterdir())


def test_files_that_do_not_fit_are_refused(bundled, examples, tmp_path, capsys):
    arguments = ["demo", "-o", str(tmp_path / "out"), "--examples", str(examples)]
    (examples / "e.txt").write_text("a" * 70_000)
    assert "e.txt has 70,000 values, but the demonstration takes up to 65,536" in fails(capsys, arguments)[1]
    (examples / "e.txt").write_text("")
    assert "e.txt is empty" in fails(capsys, arguments)[1]
    (examples / "e.txt").unlink()
    with wave.open(str(examples / "e.wav"), "wb") as file:
        file.setparams((2, 2, 8000, 0, "NONE", "not compressed"))
        file.writeframes(bytes(80))
    assert "e.wav is stereo" in fails(capsys, arguments)[1]


def test_what_is_not_restored_is_an_error(bundled, examples, tmp_path, capsys, monkeypatch):
    class Forgetful(Restorer):
        def restore(self, sources, entries=()):
            outcome = super().restore(sources, entries)
            Path(outcome.done[0].output).write_text("something else")
            return outcome

    (bundled / "images.model").unlink()
    monkeypatch.setattr(coding, "Restorer", Forgetful)
    assert main(["demo", "-o", str(tmp_path / "out"), "--examples", str(examples)]) == 1
    assert f"differs from {examples / TEXT}" in capsys.readouterr().err
    assert not (tmp_path / "out" / "report.html").exists()


def test_codecs_that_are_not_installed_are_named(bundled, examples, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(OneByOne, "is_available", lambda self: False)
    (bundled / "images.model").unlink()
    assert main(["demo", "-o", str(tmp_path / "out"), "--examples", str(examples)]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("zlib (level 9, raw deflate): not installed") == 1
    assert "FLAC (soundfile, highest level): not installed: pip install 'ardm[audio]'" in captured.err
    assert "zlib" not in captured.out
    assert "not installed" in Reader((tmp_path / "out" / "report.html").read_text()).text


def test_a_model_without_a_profile(tmp_path, examples, capsys):
    (tmp_path / "bundled").mkdir()
    save_model(tmp_path / "bundled" / "text.model", tiny_exact("text"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrained, "FOLDER", tmp_path / "bundled")
        assert main(["demo", "-o", str(tmp_path / "out"), "--examples", str(examples)]) == 0
    assert "its losses have not been measured" in Reader((tmp_path / "out" / "report.html").read_text()).text


@pytest.mark.parametrize("kind", ["bytes", "staged"])
def test_other_models_of_text_and_files_that_are_stored(kind, tmp_path, examples, capsys):
    (examples / TEXT).write_text("aaaaa bbbbb " * 20)
    with bundling(tmp_path / "bundled", {"text": kind}):
        assert main(["demo", "-o", str(tmp_path / "out"), "--examples", str(examples)]) == 0
    assert "ardm, stored" in capsys.readouterr().out
    titles = Reader((tmp_path / "out" / "report.html").read_text()).titles
    assert titles == [SECTIONS[0], *SECTIONS[2:4], SECTIONS[5]]


def test_what_is_known_stays_in_fillings(bundled, examples):
    models, _ = load_demo_models(examples, {name: BUNDLED_SUFFIXES[name] for name in KINDS})
    filled = [one for model in models[:2] for one in fill_examples(model, 5, 2, 0)]
    assert [one.name for one in filled] == [IMAGE, TEXT]  # a grey image is none for a model of colours
    for one in filled:
        known = one.gaps.known[: len(one.original)]
        assert known.any()
        assert not known.all()
        for sample in one.drawn.samples:
            assert (sample[: len(one.original)] == one.original)[known].all()


def test_middles():
    assert middle(4, 8).sum() == 2 * 2
    assert middle(64, 64).sum() == 16 * 16
    assert middle(64, 64)[24:40, 24:40].all()
    assert middle(1, 2).any()


def test_passages():
    letters = Alphabet(characters=" abcdefghijklmnopqrstuvwxyz")
    assert passage("Four score,\n\nand  SEVEN years", letters, 100) == "four score and seven years"
    assert passage("Four score,\n\nand  SEVEN years", letters, 16) == "four score and"
    assert passage("Four score,\n\nand  SEVEN years", letters, 14) == "four score and"
    assert passage("abcdefgh", letters, 5) == "abcde"
    assert passage("a b", Alphabet(characters="ab"), 5) == "ab"
    assert passage("A é b", BYTES, 5) == "A b"


def test_missing_words():
    assert missing_words("one two three four five six seven") == "4:7,24:27"
    assert missing_words("abcdefghi") == "3:6"
    assert missing_words("a") == "0:1"


def test_totals_are_of_codecs_that_took_all_files(bundled, examples):
    def coded(*names):
        rows = [Row(codec=n, num_bytes=10, num_variables=20, encode_seconds=1.0, decode_seconds=2.0) for n in names]
        return coding.CodedExample(example=example, rows=rows, notes=[], is_stored=False)

    example = load_demo_models(examples, {"text": {".txt"}})[0][0].examples[0]
    (total,) = total_rows([coded("a", "b"), coded("a")])
    assert (total.codec, total.num_bytes, total.bits) == ("a", 20, 4.0)
    assert (total.encode_seconds, total.decode_seconds) == (2.0, 4.0)


def test_macros_escape_their_texts(tmp_path, monkeypatch):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "__init__.py").write_text("")
    (tmp_path / "texts" / "templates").mkdir()
    (tmp_path / "texts" / "templates" / "some.html.j2").write_text(
        '{% from "macros.html.j2" import figure, image, sample %}'
        '{{ sample("a<b>&", ["", "mark", "mark", "", ""]) }}{{ sample("x<", classes) }}'
        '{% call figure("<i>") %}{{ image(pixels | png, "<u>", "pixels") }}{% endcall %}'
    )
    monkeypatch.syspath_prepend(tmp_path)
    classes = shades(np.array([0.0, 2.0]))
    page = render("texts", "some.html.j2", classes=classes, pixels=np.zeros((2, 3, 3), np.uint8))
    assert '<div class="sample">a<span class="mark">&lt;b</span>&gt;&amp;</div>' in page
    assert '<div class="sample">x<span class="b9">&lt;</span></div>' in page
    assert "&lt;i&gt;" in page
    assert re.search('<img class="pixels" src="data:image/png;base64,[^"]+" alt="&lt;u&gt;">', page)


def test_the_drawing_has_the_bits_as_its_area():
    losses = np.array([[4.0, 3.0, 2.0, 1.0], [2.0, 2.0, 1.0, 1.0]])
    best = plan(losses, 4)
    *paths, top = plan_outlines(losses, best)
    assert top == 4.0
    unit = WIDTH / losses.size * HEIGHT / top
    lost, loss = map(area, paths)
    assert loss == pytest.approx(losses.sum() * unit, rel=1e-3)
    assert lost == pytest.approx(best.bits * unit, rel=1e-3)


def area(path: str) -> float:
    """The area under stairs that a path of V and H draws."""
    total, x, y = 0.0, 0.0, float(HEIGHT)
    for kind, number in re.findall(r"([VH])([\d.e+]+)", path):
        if kind == "V":
            y = float(number)
        else:
            total += (float(number) - x) * (HEIGHT - y)
            x = float(number)
    return total


def test_times_in_words():
    assert [seconds_text(s) for s in (None, 0.0004, 0.0994, 0.0996, 12.34)] == [
        "",
        "0.4 ms",
        "99.4 ms",
        "0.1 s",
        "12.3 s",
    ]
