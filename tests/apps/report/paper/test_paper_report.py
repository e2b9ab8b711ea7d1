"""`ardm report paper` from folders of made-up evidence: numbers in their cells, commands for what is missing."""

import json
import re
import shlex
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from invoke import fails, output
from PIL import Image

from ardm.apps.bench.codecs import CodecTiming
from ardm.apps.report.figures import loss_heights
from ardm.apps.report.paper.entries import PLACEHOLDERS, command_line, training_line
from ardm.apps.report.paper.evidence import Evidence, Failed, Measured
from ardm.apps.report.paper.figures import FIGURES
from ardm.apps.report.paper.missing import run_ardm, run_missing
from ardm.apps.report.paper.runs import RUNS, find
from ardm.apps.report.paper.tables import TABLES
from ardm.cli.bench.codec import BenchCodec
from ardm.cli.main import main, parse
from ardm.errors import ArdmError, DataError
from ardm.names import Scale

PRINTED = {
    "text8": {
        ("OA-Transformer", "250"): "1.64",
        ("D3PM-uniform", "1000"): "1.61 ± 0.020",
        ("D3PM-absorbing", "1000"): "1.45 ± 0.020",
        ("D3PM-absorbing", "256"): "1.47",
        ("OA-ARDM", "250"): "1.43 ± 0.001",
        ("D3PM-absorbing", "20"): "1.56 ± 0.040",
        ("Parallelized OA-ARDM", "20"): "1.51 ± 0.007",
        ("Transformer, causal", "250"): "1.35",
    },
    "cifar10": {
        ("ARDM-OA", "3072"): "2.69 ± 0.005",
        ("Parallel ARDM-OA", "50"): "2.74",
        ("ARDM-Upscale 4", "4 x 3072"): "2.64 ± 0.002",
        ("Parallel ARDM-Upscale 4", "4 x 50"): "2.68",
        ("D3PM Absorbing", "1000"): "4.40",
        ("D3PM Gaussian", "1000"): "3.44 ± 0.007",
    },
    "cifar10-compression": {
        ("VDM", "1000"): "≥ 8 (2.72)",
        ("VDM", "500"): "≥ 8 (2.72)",
        ("OA-ARDM", "500"): "2.73",
        ("ARDM-Upscale 4", "500"): "2.71",
        ("VDM", "100"): "≥ 8 (2.91)",
        ("OA-ARDM", "100"): "2.75",
        ("ARDM-Upscale 4", "100"): "2.76",
        ("LBB", ""): "≥ 8 (3.12)",
        ("IDF", ""): "3.34",
        ("IDF++", ""): "3.26",
        ("HiLLoC", ""): "4.19 (3.56)",
        ("FLIF", ""): "4.19",
    },
    "cifar10-depth": {
        ("OA-ARDM", "D"): "2.69",
        ("ARDM Upscale 16", "2 x D"): "2.67",
        ("ARDM Upscale 4", "4 x D"): "2.64",
        ("ARDM Upscale 2", "8 x D"): "2.67",
    },
    "sc09-depth": {
        ("OA-ARDM, scales clipped", "D"): "7.93",
        ("ARDM Upscale 256", "2 x D"): "6.36",
        ("ARDM Upscale 16", "4 x D"): "6.30",
        ("ARDM Upscale 4", "8 x D"): "6.29",
        ("ARDM Upscale 2", "16 x D"): "6.29",
        ("WaveNet, causal", "D"): "7.77",
    },
    "sc09-calls": {
        ("ARDM Upscale 4", "8 x 16000"): "6.29",
        ("ARDM Upscale 4, planned", "8 x 1000"): "6.30",
        ("ARDM Upscale 4, planned", "8 x 500"): "6.30",
        ("ARDM Upscale 4, planned", "8 x 100"): "6.32",
        ("ARDM Upscale 4, planned", "8 x 50"): "6.32",
    },
    "text8-calls": {("OA-ARDM", "250"): "1.43 ± 0.001", ("OA-ARDM, planned", "20"): "1.51 ± 0.007"},
    "cifar10-calls": {
        ("ARDM-OA", "3072"): "2.69 ± 0.005",
        ("ARDM-OA, planned", "50"): "2.74",
        ("ARDM-Upscale 4", "4 x 3072"): "2.64 ± 0.002",
        ("ARDM-Upscale 4, planned", "4 x 50"): "2.68",
    },
    "text8-limit": {},
}
"""The paper's numbers, typed from its tables."""
LITERATURE = [2.69, 2.64, 3.44, 3.69, 2.94, 2.49, 2.92, 2.90, 2.52, 2.91, 2.87, 2.52]

ESTIMATE = {"half_width": 0.0123, "num_items": 4000, "is_exact": False, "estimator": "bound over random orders"}
NEWER = {
    "data": "4000 of 20000 items of text8, test split",
    "seed": 7,
    "model": {"preset": "text8", "method": "ardm", "parameters": 38_000_000, "step": 3500, "seed": 3},
    "hardware": {"device": "NVIDIA H200", "torch": "2.11", "ardm": "0.1.0"},
    "of a later version": None,
}
CODECS = [
    {"name": "ardm, 500 calls", "failure": None, "bits_per_variable": 3.25, "half_width": 0.17, "num_items": 64}
    | {"network": {"device": "cuda"}},
    {"name": "ardm, 100 calls", "failure": None, "bits_per_variable": 3.28, "half_width": 0.168, "num_items": 64},
    {"name": "PNG (Pillow, optimize)", "failure": None, "bits_per_variable": 5.9, "half_width": None, "num_items": 64},
    {"name": "FLIF (-E100)", "failure": "not installed: apt-get install flif", "num_items": 64},
]


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def write_training(folder: Path, preset: str) -> None:
    depth = {"base": None, "parametrization": "data", "min_log_scale": -14.0}
    write(folder / "config.json", {"preset": preset, "depth": depth, "train": {"steps": 3500}})
    lines = [
        {"step": 3450, "bits": 1.9, "seconds": 181.0, "variables_per_second": 1_290_000.0},
        {"step": 3500, "valid_bits": 1.8, "seconds": 186.0},
    ]
    write(folder / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def write_evidence(folder: Path) -> Path:
    """Results of some runs, a part of them written by older versions."""
    write(folder / "text8-oa" / "bits.json", {"bits_per_dim": 1.6789} | ESTIMATE | NEWER)
    write(folder / "text8-oa" / "calls-20.json", {"bits_per_dim": 1.7891} | ESTIMATE | {"half_width": None})
    write_training(folder / "text8-oa", "text8")
    write(folder / "text8-oa" / "model.safetensors", "weights, which are never read")
    profile = np.linspace(4, 1, 250)
    write(folder / "text8-oa" / "profile.json", [[None if step % 7 == 3 else b for step, b in enumerate(profile)]])
    states = ["_" * 20, "th_ <b> _a_" + "_" * 9, "the <b> cat & the mat"[:20]]
    write(folder / "text8-oa" / "chain.json", {"calls": 250, "state_calls": [1, 125, 250], "chains": [states] * 2})
    pixels = np.arange(2 * 3 * 4 * 5 * 3).reshape(2, 3, 4, 5, 3) % 256
    write(folder / "cifar10-upscale4" / "chain.json", {"calls": 400, "chains": pixels.tolist()})
    write(folder / "cifar10-upscale4" / "profile.json", np.linspace(2, 1, 4 * 3072).reshape(4, 3072).tolist())
    write(folder / "cifar10-upscale4" / "model.safetensors", "weights, which are never read")
    write(folder / "box-images" / "codec.json", CODECS)
    write(folder / "text8.md", "Ours are <i>shorter</i> runs.\n\nThe order is the paper's.\n")
    return folder


@pytest.fixture
def runs(tmp_path) -> Path:
    """A folder of evidence."""
    return write_evidence(tmp_path / "runs")


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """The folder of a written report."""
    folder = tmp_path_factory.mktemp("report")
    assert main(["report", "paper", str(write_evidence(folder / "runs")), "-o", str(folder / "out")]) == 0
    return folder / "out"


class Reader(HTMLParser):
    """Reads the tables of each section and all attributes of a page, and checks that tags nest."""

    VOID = frozenset({"img", "meta"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self._open: list[str] = []
        self._title = ""
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attributes):
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        if tag not in self.VOID:
            self._open.append(tag)
        if tag == "h2":
            self._title = ""
        if tag == "tr":
            self.tables.setdefault(self._title, []).append([])
        if tag in ("td", "th"):
            self.tables[self._title][-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if "h2" in self._open:
            self._title += data
        if {"td", "th"} & set(self._open):
            self.tables[self._title][-1][-1] += data


def picture(path: Path) -> np.ndarray:
    """The pixels of an image file."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def markdown_tables(text: str) -> dict[str, list[list[str]]]:
    """The rows of the tables of each section of a document."""
    tables: dict[str, list[list[str]]] = {}
    title = ""
    for line in text.splitlines():
        title = line.removeprefix("## ") if line.startswith("## ") else title
        if line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            tables.setdefault(title, []).append(cells)
    return tables


def test_the_papers_numbers_are_as_printed():
    ours = {table.name: {(row.method, row.calls): row.paper for row in table.rows if row.paper} for table in TABLES}
    literature = ours.pop("cifar10-literature")
    assert ours == PRINTED
    assert [float(number) for number in literature.values()] == LITERATURE


def test_no_row_is_in_a_table_twice():
    for table in TABLES:
        assert len({(row.method, row.calls) for row in table.rows}) == len(table.rows), table.name


def test_every_row_and_figure_has_a_source_or_a_reason():
    rows = [row for table in TABLES for row in table.rows]
    assert all((row.key is None) == bool(row.absent) for row in rows)
    used = {*(row.key for row in rows), *(figure.key for figure in FIGURES)} - {None, ""}
    made = {f"{run.name}/{one.name}" for run in RUNS.values() for one in run.measurements}
    assert used == made
    for figure in FIGURES:
        assert not figure.name.startswith(("loss", "plan")) or find(figure.key)[1].has_profile


@pytest.mark.parametrize("scale", get_args(Scale))
def test_every_command_can_be_given(scale):
    for run in RUNS.values():
        for template in [*run.training(scale), *(one for m in run.measurements for one in m.templates(scale))]:
            parse(PLACEHOLDERS.words(template, run))


def test_a_command_is_one_line_to_copy():
    line = command_line(*find("cifar10-upscale4/calls-50"), "minutes")
    assert line == (
        "ardm train cifar10 --data DATA --out RUNS/cifar10-upscale4 --resume --train-on-all --steps 4010 --base 4 && "
        "ardm eval RUNS/cifar10-upscale4 DATA --items 100 --batch-size 500 --calls 200 --json "
        "-o RUNS/cifar10-upscale4/calls-50.json"
    )
    assert command_line(*find("box-images/codec"), "paper").startswith("ardm bench codec --model images --data DATA ")
    assert command_line(*find("sc09-upscale2/bits"), "paper").startswith(
        "ardm train sc09-paper --data DATA --out RUNS/sc09-upscale2 --resume --shards 4 --base 2 && ardm eval"
    )


def test_numbers_land_in_their_cells(written):
    tables = markdown_tables((written / "report.md").read_text())
    text8 = {tuple(cells[:2]): cells[2:4] for cells in tables["Order-agnostic text (bits/char)"][:10]}
    assert text8["OA-ARDM", "250"] == ["1.679 ± 0.012", "1.43 ± 0.001"]
    assert text8["Parallelized OA-ARDM", "20"] == ["1.789", "1.51 ± 0.007"]
    assert text8["D3PM-uniform", "1000"] == ["not run", "1.61 ± 0.020"]
    coded = {tuple(cells[:2]): cells[2:] for cells in tables["Lossless compression of images (bits/dim)"]}
    assert coded["ARDM-Upscale 4", "500"][:2] == ["3.250 ± 0.170", "2.71"]
    assert coded["PNG", ""][:2] == ["5.900", ""]
    assert coded["FLIF", ""][:2] == ["-", "4.19"]
    assert coded["FLIF", ""][2].startswith("not installed: apt-get install flif `ardm bench codec")
    assert coded["WebP", ""][2].startswith("not in the benchmark")
    assert coded["IDF++", ""] == ["-", "3.26", "a model of other authors"]


def test_the_page_has_the_same_tables(written):
    tables = markdown_tables((written / "report.md").read_text())
    plain = {title: [[c.replace("`", "") for c in row] for row in rows] for title, rows in tables.items()}
    page = Reader((written / "report.html").read_text())
    for rows in plain.values():
        rows[:] = [row for row in rows if set(row) != {"---"}]
    assert {title: [[c.strip() for c in row] for row in rows] for title, rows in page.tables.items()} == plain
    assert len(plain) == len(TABLES)


def test_tables_are_well_formed(written):
    lines = (written / "report.md").read_text().splitlines()
    for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
        if re.fullmatch(r"(\|---)+\|", line):
            assert before.count("|") == line.count("|") == after.count("|")
        if line.startswith("|") and after.startswith("|"):
            assert line.count("|") == after.count("|")


def test_runs_are_trained_by_commands_below_a_table_at_both_scales(written):
    text = (written / "report.md").read_text()
    ours, full = (training_line(RUNS["text8-oa"], scale) for scale in ("minutes", "paper"))
    assert ours != full
    for title in ("Order-agnostic text", "Text: calls against bits"):
        (section,) = [part for part in text.split("\n## ") if part.startswith(title)]
        assert f"- `{ours}`; at the paper's scale `{full}`\n" in section + "\n"
        (row,) = [line for line in section.splitlines() if line.startswith("| OA-ARDM | 250 |")]
        assert "ardm eval" in row
        assert "ardm train" not in row
    assert f"<span>{full.split()[2]}</span>" in (written / "report.html").read_text()


def test_a_missing_number_has_its_command(written):
    text = (written / "report.md").read_text()
    command = command_line(*find("text8-d3pm-uniform/bits"), "minutes")
    assert f"| D3PM-uniform | 1000 | not run | 1.61 ± 0.020 | `{command}` |" in text
    missing = "ardm report paper RUNS -o FOLDER --run-missing --data DATA --scale minutes --only"
    assert f"- `{missing} text8-d3pm-uniform`" in text
    assert f"{missing} box-images`" not in text
    parse(shlex.split(f"{missing} text8-d3pm-uniform")[1:])
    assert f"OA-ARDM of CIFAR-10: not run, `{command_line(*find('cifar10-oa/bits'), 'minutes')}`" in text


def test_details_name_estimator_training_and_hardware(written):
    rows = markdown_tables((written / "report.md").read_text())["Order-agnostic text (bits/char)"]
    details = {row[0]: row[1:] for row in rows if len(row) == 4}
    assert details["OA-ARDM, 250 calls"] == [
        "bound over random orders, 4000 of 20000 items of text8, test split, seed 7",
        "text8-oa, 38,000,000 parameters, preset text8, 3,500 steps, 3.1 minutes, 1.29M variables/s, seed 3",
        "NVIDIA H200, torch 2.11, ardm 0.1.0",
    ]
    assert details["Parallelized OA-ARDM, 20 calls"][2] == ""  # a file of an older version


def test_comments_stand_under_their_table(written):
    text, page = (written / "report.md").read_text(), (written / "report.html").read_text()
    assert "Ours are <i>shorter</i> runs.\n\nThe order is the paper's.\n\nHow these" in text
    assert "<p>Ours are &lt;i&gt;shorter&lt;/i&gt; runs.</p>\n<p>The order is the paper&#39;s.</p>" in page


def test_the_page_is_one_file(written):
    page = (written / "report.html").read_text()
    for tag, name, value in Reader(page).attributes:
        assert name not in ("href", "srcset", "action", "data"), tag
        assert name != "src" or re.match(r"data:image/png;base64,[\w+/=]+$", value), tag
    for word in ("http:", "https:", "url(", "@import", "<script"):
        assert word not in re.sub(r"base64,[\w+/=]+", "", page)
    assert page.count("data:image/png") == 7  # two profiles, their plans, two sets of matrices, a chain


def test_figures_are_pictures_of_a_size(written):
    pictures = {path.stem: picture(path) for path in written.glob("*.png")}
    assert {*pictures} == {
        *("loss-text8-oa", "loss-cifar10-upscale4", "plan-text8-oa", "plan-cifar10-upscale4"),
        *("matrices-2", "matrices-4", "chain-cifar10-upscale4"),
    }
    text = (written / "report.md").read_text()
    for name, pixels in pictures.items():
        assert f"]({name}.png)" in text
        if not name.startswith("chain"):
            assert min(pixels.shape[:2]) > 300
            assert pixels.min() < 128
            assert pixels.max() == 255


def test_chains_are_shown(written):
    text, page = (written / "report.md").read_text(), (written / "report.html").read_text()
    lines = "call    1  ____________________\ncall  125  th_ <b> _a__________\ncall  250  the <b> cat & the ma"
    assert f"```text\n{lines}\n\n{lines}\n```" in text
    assert lines in Reader(page).text
    shown = picture(written / "chain-cifar10-upscale4.png")
    assert shown.shape == (2 * (16 + 2) - 2, 3 * (20 + 2) - 2, 3)
    pixels = np.arange(2 * 3 * 4 * 5 * 3).reshape(2, 3, 4, 5, 3) % 256
    assert np.array_equal(shown[18::4, 44::4], pixels[1, 2])


def test_heights_of_losses_have_the_bits_as_their_mean():
    losses = np.array([[4.0, np.nan, 2.0], [3.0, 2.0, 1.0]])
    heights = loss_heights(losses)
    assert heights.tolist() == [[8.0, 6.0, 4.0], [6.0, 4.0, 2.0]]
    bits_per_dim = (4 + 3 + 2 + 3 + 2 + 1) / 3  # all losses of an item, over its three variables
    assert heights.mean() == bits_per_dim


@pytest.mark.parametrize(("num_classes", "base", "num_stages"), [(8, 2, 3), (16, 4, 2)])
def test_matrices_are_those_of_the_paper(num_classes, base, num_stages, tmp_path):
    """P[l, k] = 1 where l = lsb_s(k) and k is a value of lsb_(s-1), with lsb_s(k) = floor(k / b^s) b^s."""
    (figure,) = (one for one in FIGURES if one.name == f"matrices-{base}")
    drawn = figure.read(Evidence(tmp_path), figure.key)
    assert len(drawn) == num_stages
    assert len(drawn[0]) == num_classes
    for number, matrix in enumerate(drawn, start=1):
        s = num_stages + 1 - number
        for l in range(num_classes):  # noqa: E741
            for k in range(num_classes):
                one = l == k // base**s * base**s and k % base ** (s - 1) == 0
                assert matrix[l, k] == one


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("text8-oa/bits.json", "{"),
        ("text8-oa/bits.json", [1.5]),
        ("text8-oa/bits.json", {"bits_per_dim": "1.5", "half_width": None, "estimator": ""}),
        ("text8-oa/bits.json", {"half_width": 0.1}),
        ("text8-oa/profile.json", [[None, None]]),
        ("text8-oa/profile.json", [[1.0, 2.0], [1.0]]),
        ("text8-oa/profile.json", {"bits": 3}),
        ("text8-oa/metrics.jsonl", '{"step": 3\n{"step": 4}\n'),
        ("text8-oa/config.json", {}),
        ("text8-oa/chain.json", {"chains": []}),
        ("text8-oa/chain.json", {"chains": [["ab"]], "state_calls": [1, 2]}),
        ("cifar10-upscale4/chain.json", {"chains": [["ab"]]}),
        ("box-images/codec.json", {"name": 1}),
        ("box-images/codec.json", [{"name": "ardm, 500 calls"}]),
    ],
)
def test_damaged_evidence_is_reported_in_one_line(runs, tmp_path, capsys, name, content):
    write(runs / name, content)
    status, line = fails(capsys, ["report", "paper", str(runs), "-o", str(tmp_path / "out")])
    assert status == 1
    assert str(runs / name) in line
    assert not (tmp_path / "out").exists()


def test_runs_of_another_scale_are_refused(runs, tmp_path, capsys):
    flags = ["report", "paper", str(runs), "-o", str(tmp_path / "out"), "--scale", "paper"]
    status, line = fails(capsys, flags)
    assert status == 1
    assert "a run of the preset text8, method ardm, parametrization data, but this report expects the preset" in line
    assert "text8-paper" in line


def test_runs_of_another_row_are_refused(runs, tmp_path, capsys):
    for name in ("config.json", "bits.json"):
        write(runs / "text8-permuted" / name, (runs / "text8-oa" / name).read_text())
    status, line = fails(capsys, ["report", "paper", str(runs), "-o", str(tmp_path / "out")])
    assert status == 1
    assert (
        "text8-permuted holds a run of the preset text8, method ardm, parametrization data, but this report expects"
        in line
    )


@pytest.mark.parametrize("scale", get_args(Scale))
def test_commands_train_the_runs_that_tables_expect(scale, tmp_path):
    for run in filter(lambda run: run.start is not None, RUNS.values()):
        (template,) = run.training(scale)
        write(tmp_path / run.name / "config.json", parse(PLACEHOLDERS.words(template, run)).config.to_dict())
        assert Evidence(tmp_path).training(run, scale) is None  # no metrics, and no error


@pytest.mark.parametrize("found", ["sc09-oa", "sc09-oa-linear"])
def test_runs_that_differ_in_a_flag_are_distinguished(found, tmp_path):
    (template,) = RUNS[found].training("minutes")
    config = parse(PLACEHOLDERS.words(template, RUNS[found])).config
    write(tmp_path / "sc09-oa-clipped" / "config.json", config.to_dict())
    with pytest.raises(ArdmError, match="sc09-oa-clipped holds a run of .*, but this report expects .* from e.-7"):
        Evidence(tmp_path).training(RUNS["sc09-oa-clipped"], "minutes")


@pytest.mark.parametrize("log", ["", '{"step": 1, "seconds": 2.5}\n{"step": 2, "sec'])
def test_a_run_that_has_just_begun_or_was_killed_is_no_error(runs, tmp_path, monkeypatch, capsys, log):
    monkeypatch.setattr("ardm.apps.report.paper.report.FIGURES", ())
    write(runs / "text8-oa" / "metrics.jsonl", log)
    assert main(["report", "paper", str(runs), "-o", str(tmp_path / "out")]) == 0


def test_evidence_without_weights_is_not_trained_over(runs, tmp_path):
    (runs / "text8-oa" / "model.safetensors").unlink()
    stub = Stub()
    with pytest.raises(ArdmError, match="text8-oa holds results of a run without its weights"):
        run_missing(Evidence(runs), "minutes", tmp_path, lambda line: None, stub)
    assert stub.commands == []


def test_json(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("ardm.apps.report.paper.report.FIGURES", ())
    told = json.loads(output(capsys, ["report", "paper", str(runs), "-o", str(tmp_path / "out"), "--json"]))
    (row,) = (row for row in told["tables"]["text8"] if row["method"] == "OA-ARDM")
    assert (row["bits_per_dim"], row["half_width"], row["paper"]) == (1.6789, 0.0123, "1.43 ± 0.001")
    assert "text8-causal" in told["unfinished"]
    assert "box-images" not in told["unfinished"]
    assert Path(told["report"]).is_file()


def test_bad_usage(tmp_path, capsys):
    out = ["-o", str(tmp_path / "out")]
    assert fails(capsys, ["report", "paper", str(tmp_path / "none"), *out])[0] == 2
    status, line = fails(capsys, ["report", "paper", str(tmp_path), *out, "--run-missing"])
    assert status == 2
    assert "--data" in line
    status, line = fails(capsys, ["report", "paper", str(tmp_path), *out, "--only", "text8-oa"])
    assert (status, "--run-missing" in line) == (2, True)
    missing = ["--run-missing", "--data", str(tmp_path), "--only", "text8-oa", "text9"]
    status, line = fails(capsys, ["report", "paper", str(tmp_path), *out, *missing])
    assert status == 2
    assert "there is no run text9; expected text8-oa, " in line
    assert fails(capsys, ["report", "paper", str(tmp_path)])[0] == 2
    assert fails(capsys, ["report"])[0] == 2


def test_without_matplotlib_nothing_is_started(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    flags = ["report", "paper", str(runs), "-o", str(tmp_path / "out"), "--run-missing", "--data", str(tmp_path)]
    status, line = fails(capsys, flags)
    assert (status, line) == (1, "ardm: plots need matplotlib: pip install 'ardm[plots]'\n")


class Stub:
    """Writes the files of commands instead of running them, and fails at one."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.commands: list[list[str]] = []
        self.fails_at = fails_at

    def __call__(self, words):
        self.commands.append(list(words))
        if len(self.commands) - 1 == self.fails_at:
            return 3
        for flag, name in pairwise(words):
            if flag in ("-o", "--profile"):
                write(Path(name), {})
        return 0


def test_what_is_missing_is_run_in_order(runs, tmp_path):
    stub, said = Stub(), []
    run_missing(Evidence(runs), "minutes", tmp_path / "my data", said.append, stub)
    first = [words for words in stub.commands if f"{runs}/text8-oa" in words]
    assert first[0][:2] == ["train", "text8"]
    assert first[0][first[0].index("--data") + 1] == str(tmp_path / "my data")
    assert [Path(words[-1]).stem for words in first[1:]] == [
        *("calls-50", "calls-10"),
        *("d3pm-20", "d3pm-256", "d3pm-1000", "d3pm-4000", "d3pm-16000"),
    ]  # bits, its profile, 20 calls and the chain are there already
    assert stub.commands[: len(first)] == first
    assert [words[0] for words in stub.commands if f"{runs}/cifar10-oa-exact/exact.model" in words] == [
        "export",
        "bench",
    ]
    assert not [words for words in stub.commands if "images" in words]
    assert len(said) == len(stub.commands)
    trained = [words[words.index("--out") + 1] for words in stub.commands if words[0] == "train"]
    assert trained == [f"{runs}/{name}" for name in RUNS if name != "box-images"]
    assert all("--resume" in words for words in stub.commands if words[0] == "train")
    again = Stub()
    run_missing(Evidence(runs), "minutes", tmp_path, said.append, again)
    assert again.commands == []


def test_the_first_failure_stops(runs, tmp_path):
    stub = Stub(fails_at=2)
    with pytest.raises(ArdmError, match=r"exit status 3 of ardm eval .*calls-10\.json; no report was written"):
        run_missing(Evidence(runs), "minutes", tmp_path, lambda line: None, stub)
    assert len(stub.commands) == 3


def test_the_command_runs_what_is_missing(runs, tmp_path, monkeypatch, capsys):
    stub = Stub(fails_at=0)
    monkeypatch.setattr("ardm.apps.report.paper.missing.run_ardm", stub)
    flags = ["report", "paper", str(runs), "-o", str(tmp_path / "out"), "--run-missing", "--data", str(tmp_path)]
    assert main(flags) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("ardm train text8 ")
    assert said[1].startswith("ardm: exit status 3 of ardm train text8 ")
    assert not (tmp_path / "out").exists()


def test_named_runs_alone_are_run(runs, tmp_path, monkeypatch, capsys):
    stub = Stub()
    monkeypatch.setattr("ardm.apps.report.paper.missing.run_ardm", stub)
    monkeypatch.setattr("ardm.apps.report.paper.report.FIGURES", ())
    monkeypatch.setattr("ardm.apps.report.paper.report.TABLES", ())
    names = ["text8-causal", "cifar10-upscale16"]
    flags = ["report", "paper", str(runs), "-o", str(tmp_path / "out"), "--run-missing", "--data", str(tmp_path)]
    assert main([*flags, "--only", *names, "box-images"]) == 0  # of which nothing is missing
    assert [words[0] for words in stub.commands] == ["train", "eval"] * 2
    assert [words[words.index("--out") + 1] for words in stub.commands[::2]] == [f"{runs}/{name}" for name in names]


def test_ardm_is_run_as_a_program(capfd):
    assert run_ardm(["--version"]) == 0
    assert capfd.readouterr().out.startswith("ardm ")
    assert run_ardm(["nonsense"]) == 2


def test_what_ardm_writes_can_be_read(tmp_path, capsys):
    """Chains, profiles and numbers as the commands write them."""
    from test_command_line import write_images, write_texts

    folders = {"text": tmp_path / "text8-oa", "images": tmp_path / "cifar10-oa"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        write_texts()
        write_images()
    small = ["--steps", "2", "--batch-size", "2", "--eval-every", "2"]
    shapes = {
        "text": ["--item-length", "12", "--layers", "1", "--width", "32", "--head-width", "16"],
        "images": ["--size", "8x8", "--widths", "8", "12", "--depths", "1", "1"],
    }
    for preset, folder in folders.items():
        data = str(tmp_path / f"my-{preset}{'s' if preset == 'text' else ''}")
        assert main(["train", preset, "--data", data, "--out", str(folder), *small, *shapes[preset]]) == 0
        flags = ["-n", "2", "--calls", "6", "--chain", "--json", "-o", str(folder / "chain.json")]
        assert main(["sample", str(folder), *flags]) == 0
    capsys.readouterr()
    flags = ["--profile", str(folders["text"] / "profile.json"), "--json"]
    bits = output(capsys, ["eval", str(folders["text"]), str(tmp_path / "more.txt"), *flags])
    write(folders["text"] / "bits.json", bits)
    evidence = Evidence(tmp_path)
    text = evidence.text_chain("text8-oa/chain")
    assert text is not None
    assert len(text.chains) == 2
    assert [len(state) for state in text.chains[0]] == [12] * len(text.calls)
    assert text.calls[-1] == 6
    images = evidence.image_chains("cifar10-oa/chain")
    assert images is not None
    assert images.shape[0] == 2
    assert images.shape[2:] == (8, 8, 3)
    losses = evidence.profile("text8-oa")
    assert losses is not None
    assert losses.shape == (1, 12)
    (row,) = (row for row in TABLES[0].rows if row.key == "text8-oa/bits")
    measured = evidence.measured(row)
    assert measured is not None
    assert measured.bits == json.loads(bits)["bits_per_dim"]
    with pytest.raises(DataError, match="preset text, .*, but this report expects the preset text8"):
        evidence.training(RUNS["text8-oa"], "minutes")


def test_what_the_benchmark_writes_can_be_read(tmp_path, monkeypatch, capsys):
    row = CodecTiming(name="FLIF (-E100)", media="images", num_items=2, num_variables=6, item_bytes=6)
    rows = [
        replace(row, name="ardm, 100 calls", bits_per_variable=3.5, half_width=0.25),
        replace(row, failure="not installed: a package"),
    ]
    monkeypatch.setattr(BenchCodec, "_benchmark", lambda self: ("images", iter(rows)))
    monkeypatch.setattr("ardm.apps.bench.codec_table.codec_line", lambda row: row.name)
    path = tmp_path / "box-images" / "codec.json"
    assert output(capsys, ["bench", "codec", "--model", "images", "-o", str(path)]) == ""
    (table,) = (table for table in TABLES if table.name == "cifar10-compression")
    evidence, by_codec = Evidence(tmp_path), {row.codec: row for row in table.rows}
    ours = evidence.measured(by_codec["ardm, 100 calls"])
    assert isinstance(ours, Measured)
    assert (ours.bits, ours.half_width, ours.data) == (3.5, 0.25, "2 items")
    assert evidence.measured(by_codec["FLIF"]) == Failed(reason="not installed: a package")
    assert evidence.measured(by_codec["PNG"]) == Failed(reason="not in the benchmark")


def test_the_commands_that_were_run_are_shown_as_they_were(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("ardm.apps.report.paper.report.FIGURES", ())
    runs, data, run = tmp_path / "my runs", tmp_path / "data", RUNS["text8-causal"]
    run_missing(Evidence(runs), "cpu", data, lambda line: None, Stub(), only=[run.name])
    write(runs / run.name / "bits.json", {"bits_per_dim": 2.5} | ESTIMATE)
    output(capsys, ["report", "paper", str(runs), "-o", str(tmp_path / "out"), "--scale", "cpu"])
    text, folder = (tmp_path / "out" / "report.md").read_text(), f"'{runs}/{run.name}"
    trained = f"ardm train text8-small --data {data} --out {folder}' --resume --kernel 1 --steps 500 --method causal"
    scored = f"ardm eval {folder}' {data} --items 200 --json -o {folder}/bits.json'"
    assert f"- `{trained}`; at the paper's scale `ardm train text8-paper --data DATA " in text
    assert f"| 2.500 ± 0.012 | 1.35 | `{scored}` |" in text
    assert "--scale cpu --run-missing" in text
    for line in (trained, scored):
        parse(shlex.split(line)[1:])


def test_a_command_that_failed_is_not_recorded(tmp_path):
    run = RUNS["cifar10-oa-exact"]
    with pytest.raises(ArdmError, match="exit status 3"):
        run_missing(Evidence(tmp_path), "cpu", tmp_path, lambda line: None, Stub(fails_at=2), only=[run.name])
    assert list(Evidence(tmp_path).commands(run)) == ["train"]
    write(tmp_path / run.name / "model.safetensors", "")
    run_missing(Evidence(tmp_path), "cpu", tmp_path, lambda line: None, Stub(), only=[run.name])
    assert " && ardm bench codec " in Evidence(tmp_path).commands(run)["codec"]  # and the export before it


def test_the_scale_for_a_cpu_has_small_networks():
    for run in RUNS.values():
        for line in run.training("cpu"):
            assert "-small" in line.split()[1] or "--width 32" in line
