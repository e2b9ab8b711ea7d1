"""The command line: what users type, and one clear line when it cannot work."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from ardm.cli import main
from tiny import TEXT

SMALL = ["--item-length", "16", "--layers", "1", "--width", "32", "--batch-size", "8"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A folder with text.txt and a trained run in it."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "text.txt").write_text(TEXT)
    flags = ["--data", str(folder / "text.txt"), "--out", str(folder / "run"), "--steps", "40", *SMALL]
    assert main(["train", "text", *flags]) == 0
    return folder


def fails(capsys, arguments: list[str]) -> tuple[int, str]:
    """Exit status and error of a command that must fail with one line and no output."""
    capsys.readouterr()
    try:
        status = main(arguments)
    except SystemExit as exit_:
        return int(exit_.code or 0), capsys.readouterr().err
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ardm: ")
    assert captured.err.count("\n") == 1
    return status, captured.err


def output(capsys, arguments: list[str]) -> str:
    capsys.readouterr()
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_help_is_instant():
    def seconds() -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "ardm", "eval", "--help"], check=True, capture_output=True)
        return time.perf_counter() - started

    assert min(seconds() for _ in range(3)) < 0.5


@pytest.mark.parametrize("order", ["random", "raster", "reverse", "spaced", "halton", "pseudorandom"])
def test_eval_with_any_order_and_budget(run, capsys, order):
    base = ["eval", str(run / "run"), str(run / "text.txt"), "--order", order, "--json"]
    full = json.loads(output(capsys, base))
    few = json.loads(output(capsys, [*base, "--calls", "4"]))
    assert 0 < full["bits_per_dim"] < 4.5
    assert few["half_width"] > 0
    assert ("exact" in few["estimator"]) == (order != "random")
    assert "4 calls" in few["estimator"]
    assert "test split" in full["data"]


def test_eval_of_other_text_scores_all_of_it(run, capsys, tmp_path):
    (tmp_path / "other.txt").write_text("the rat sat on the mat and the cat sat.")
    shown = output(capsys, ["eval", str(run / "run"), str(tmp_path / "other.txt")])
    assert "bits/char" in shown
    assert "2 of 2 items of other.txt, all split" in shown


def test_eval_writes_the_profile_that_plan_reads(run, capsys, tmp_path):
    for name in ("p.npy", "p.json"):
        flags = ["--passes", "20", "--profile", str(tmp_path / name)]
        output(capsys, ["eval", str(run / "run"), str(run / "text.txt"), *flags])
        plan = json.loads(output(capsys, ["plan", str(tmp_path / name), "--calls", "5", "--json"]))
        assert plan["calls"] == [5]
        assert plan["bits"] >= plan["full_bits"] > 0


def test_plan_of_a_profile_keeps_its_contract(capsys, tmp_path):
    np.save(tmp_path / "p.npy", np.array([4.0, 3.0, 1.0, 1.0]))
    plan = json.loads(output(capsys, ["plan", str(tmp_path / "p.npy"), "--calls", "2", "--json"]))
    assert plan == {"calls": [2], "starts": [[0, 2]], "bits": 10.0, "full_bits": 9.0, "lost_bits": 1.0}
    (tmp_path / "p.json").write_text("[[2, 1, 1], [5, 5, 0]]")
    plan = json.loads(output(capsys, ["plan", str(tmp_path / "p.json"), "--calls", "4", "--json"]))
    assert plan["calls"] == [2, 2]
    assert plan["starts"] == [[0, 1], [0, 2]]
    assert plan["lost_bits"] == 0
    assert "stage 2: 2 calls revealing 2 1" in output(capsys, ["plan", str(tmp_path / "p.json"), "--calls", "4"])


def test_plan_draws(run, capsys, tmp_path):
    shown = output(capsys, ["plan", str(run / "run"), "--calls", "4", "-o", str(tmp_path / "plan.png")])
    assert "4 calls for 1 stage(s) of 16 variables" in shown
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_samples_are_reproducible_text(run, capsys, tmp_path):
    base = ["sample", str(run / "run"), "-n", "3", "--calls", "5"]
    first = output(capsys, base)
    assert [len(line) for line in first.splitlines()] == [16, 16, 16]
    assert set(first) <= set(TEXT) | {"\n"}
    assert output(capsys, base) == first
    assert output(capsys, [*base, "--seed", "1"]) != first
    assert output(capsys, [*base, "-o", str(tmp_path / "out.txt")]) == ""
    assert (tmp_path / "out.txt").read_text() == first


def test_chain_shows_the_text_being_filled_in(run, capsys):
    rows = output(capsys, ["sample", str(run / "run"), "--chain", "--order", "raster"]).splitlines()
    hidden = [row.count("_") for row in rows]
    assert hidden == sorted(hidden, reverse=True)
    assert hidden[0] == 15
    assert hidden[-1] == 0
    assert rows[-1].startswith("call   16  ")


def test_infill_keeps_what_is_given(run, capsys, tmp_path):
    base = ["infill", str(run / "run")]
    filled = output(capsys, [*base, "the __t s_t on", "-n", "4"]).splitlines()
    assert len(filled) == 4
    for line in filled:
        assert (line[:4], line[6:9], line[10:]) == ("the ", "t s", "t on")
        assert "_" not in line
    (tmp_path / "in.txt").write_text("the cat sat\n")
    line = output(capsys, [*base, str(tmp_path / "in.txt"), "--mask", "4:7", "--calls", "2"]).strip("\n")
    assert (line[:4], line[7:]) == ("the ", " sat")


def test_report_makes_tables(run, capsys):
    arguments = ["report", "calls", str(run / "run"), str(run / "text.txt"), "--calls", "16", "4", "--items", "4"]
    shown = output(capsys, arguments)
    assert "| raster | " in shown
    assert "| 4 | " in shown
    assert "planned, random order" in shown


def test_info_describes_the_model(run, capsys):
    facts = json.loads(output(capsys, ["info", str(run / "run"), "--json"]))
    assert (facts["variables"], facts["stages"], facts["step"]) == (16, 1, 40)
    assert "alphabet" in output(capsys, ["info", str(run / "run")])


def test_bytes_and_upscale_models_work_from_end_to_end(run, capsys, tmp_path):
    for preset, extra in (
        ("bytes", []),
        ("text", ["--base", "3"]),
        ("text", ["--base", "4", "--parametrization", "direct"]),
    ):
        out = str(tmp_path / "-".join([preset, *extra]))
        flags = ["--data", str(run / "text.txt"), "--out", out, "--steps", "5", *SMALL, *extra]
        assert main(["train", preset, *flags]) == 0
        result = json.loads(output(capsys, ["eval", out, str(run / "text.txt"), "--json", "--items", "3"]))
        exact = ["--order", "raster", "--calls", "12", "--items", "2"]
        assert json.loads(output(capsys, ["eval", out, str(run / "text.txt"), "--json", *exact]))["bits_per_dim"] > 0
        assert 0 < result["bits_per_dim"] < 9
        assert output(capsys, ["sample", out, "--calls", "12"]).strip("\n") != ""


def test_resuming_a_finished_run_changes_nothing(run, capsys):
    before = (run / "run" / "model.safetensors").read_bytes()
    flags = ["--data", str(run / "text.txt"), "--out", str(run / "run"), "--steps", "40", *SMALL]
    assert "already holds a run" in fails(capsys, ["train", "text", *flags])[1]
    assert main(["train", "text", *flags, "--resume"]) == 0
    assert (run / "run" / "model.safetensors").read_bytes() == before


BAD_FLAGS = [
    ["train", "nonsense", "--data", "x", "--out", "y"],
    ["train", "text", "--data", "x", "--out", "y", "--steps", "0"],
    ["train", "text", "--data", "x", "--out", "y", "--batch-size", "-3"],
    ["train", "text", "--data", "x", "--out", "y", "--width", "33"],
    ["train", "text", "--data", "x", "--out", "y", "--learning-rate", "-1"],
    ["train", "text", "--data", "x", "--out", "y", "--parametrization", "direct"],
    ["train", "text", "--data", "x", "--out", "y", "--minutes", "0"],
    ["eval", "RUN", "TEXT", "--calls", "0"],
    ["eval", "RUN", "TEXT", "--items", "-1"],
    ["eval", "RUN", "TEXT", "--order", "sideways"],
    ["eval", "RUN", "TEXT", "--calls", "many"],
    ["sample", "RUN", "-n", "0"],
    ["sample", "RUN", "--temperature", "0"],
    ["sample", "RUN", "--top-p", "1.5"],
    ["infill", "RUN", "no gap"],
    ["infill", "RUN", "the cat", "--mask", "5:99"],
    ["infill", "RUN", "the cat", "--mask", "xyz"],
    ["plan", "RUN", "--calls", "0"],
    ["plan", "RUN", "--calls", "4", "-o", "plan.txt"],
    ["fly"],
    [],
]


@pytest.mark.parametrize("arguments", BAD_FLAGS, ids=" ".join)
def test_absurd_flags_are_bad_usage(run, capsys, arguments):
    places = {"RUN": str(run / "run"), "TEXT": str(run / "text.txt")}
    status, error = fails(capsys, [places.get(a, a) for a in arguments])
    assert status == 2
    assert error


def bad_files(folder: Path, run: Path) -> dict[str, list[str]]:
    model = (run / "run" / "model.safetensors").read_bytes()
    (folder / "empty.txt").write_text("")
    (folder / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (folder / "unknown.txt").write_text("the cat sat on the MAT")
    (folder / "short.txt").write_text("the cat")
    (folder / "cut.safetensors").write_bytes(model[: len(model) // 2])
    save_file({"w": torch.ones(2)}, folder / "foreign.safetensors")
    (folder / "pickle.npy").write_bytes(b"\x93NUMPY nonsense")
    (folder / "words.json").write_text('{"a": "b"}')
    train = ["train", "text", "--out", str(folder / "new"), *SMALL, "--data"]
    evaluate = ["eval", str(run / "run")]
    return {
        "there is no file or folder": [*train, "nowhere"],
        "empty.txt is empty": [*train, "empty.txt"],
        "not UTF-8 text": [*train, "binary.txt"],
        "too few for an item of 16": [*train, "short.txt"],
        "there is no text8 file": ["train", "text8-small", "--out", str(folder / "new"), "--data", "."],
        "character 'M' at position 19": [*evaluate, "unknown.txt"],
        "has 7 characters, too few": [*evaluate, "short.txt"],
        "cut.safetensors is damaged": ["eval", "cut.safetensors", "short.txt"],
        "not one of ardm's": ["sample", "foreign.safetensors"],
        "there is no model at": ["sample", "nowhere"],
        "device 'abacus' cannot be used": ["sample", str(run / "run"), "--device", "abacus"],
        "character 'X' at position 0": ["infill", str(run / "run"), "X_"],
        "has 17 characters; this model takes 1 to 16": ["infill", str(run / "run"), "_" * 17],
        "pickle.npy is not a profile": ["plan", "pickle.npy", "--calls", "3"],
        "words.json is not a profile": ["plan", "words.json", "--calls", "3"],
        "there is no profile": ["plan", "nothing.npy", "--calls", "3"],
    }


def test_bad_input_gets_one_clear_line(run, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text, arguments in bad_files(tmp_path, run).items():
        status, error = fails(capsys, arguments)
        assert status == 1, arguments
        assert text in error
    assert not (tmp_path / "new").exists()


def test_debug_shows_the_traceback(run):
    with pytest.raises(ValueError, match="there is no model"):
        main(["sample", "nowhere", "--debug"])
