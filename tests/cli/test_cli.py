"""The command line: what users type, and one clear line when it cannot work."""

import hashlib
import io
import json
import resource
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from invoke import fails, output
from safetensors.torch import save_file
from tiny import TEXT

from ardm.apps.bench.plan import PlanTiming
from ardm.checkpoint import load_model
from ardm.cli.common import OrderName
from ardm.cli.main import main
from ardm.cli.plan import shortened
from ardm.cli.train import evaluated_items, evaluation_line, profile_line
from ardm.data.cifar10 import MD5
from ardm.names import ORDER_NAMES, NamedOrder
from ardm.presets import PRESETS
from ardm.tasks.score import passes_for

SMALL = ["--item-length", "16", "--layers", "1", "--width", "32", "--batch-size", "8"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A folder with text.txt and a trained run in it."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "text.txt").write_text(TEXT)
    flags = ["--data", str(folder / "text.txt"), "--out", str(folder / "run"), "--steps", "40", *SMALL]
    assert main(["train", "text", *flags]) == 0
    return folder


def test_help_is_instant():
    def seconds() -> float:  # of the processor, so that a busy machine does not count
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "ardm", "eval", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.5


@pytest.mark.parametrize("order", ["random", *ORDER_NAMES])
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
    assert "2 of 2 items of other.txt, the whole data" in shown


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


def test_plan_of_many_calls_is_told_in_a_few_words(capsys, tmp_path):
    np.save(tmp_path / "p.npy", np.sort(np.random.default_rng(0).gamma(2, 1, (2, 4000)))[:, ::-1])
    flags = ["plan", str(tmp_path / "p.npy"), "--calls", "300"]
    assert all(len(line) < 120 for line in output(capsys, flags).splitlines())
    assert sum(map(len, json.loads(output(capsys, [*flags, "--json"]))["starts"])) == 300
    assert "stage 2: 4000 calls revealing 4000 x 1\n" in output(capsys, [*flags[:-1], "8000"])


def test_sizes_are_listed_or_counted_or_cut():
    assert shortened([*range(50)]) == " ".join(map(str, range(50)))
    assert shortened([5] * 31 + [6] * 20) == "31 x 5, 20 x 6"
    assert shortened([*range(100)]) == "0 1 2 3 4 5 6 7 8 9 ... 90 91 92 93 94 95 96 97 98 99 (all with --json)"


def test_plan_draws(run, capsys, tmp_path):
    shown = output(capsys, ["plan", str(run / "run"), "--calls", "4", "-o", str(tmp_path / "plan.png")])
    assert "4 calls for 1 stage of 16 variables" in shown
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


def test_strands_are_sampled_but_gaps_are_not_filled_in_them(run, capsys):
    sample = ["sample", str(run / "run"), "--order", "strands", "--calls", "4"]
    assert len(output(capsys, sample).strip("\n")) == 16
    assert "whole items" in fails(capsys, ["infill", str(run / "run"), "the c__", "--order", "strands"])[1]


def test_chain_shows_the_text_being_filled_in(run, capsys):
    rows = output(capsys, ["sample", str(run / "run"), "--chain", "--order", "raster"]).splitlines()
    hidden = [row.count("_") for row in rows]
    assert hidden == sorted(hidden, reverse=True)
    assert hidden[0] == 15
    assert hidden[-1] == 0
    assert rows[-1].startswith("call   16  ")


@pytest.mark.parametrize(("calls", "shown"), [(1, [1]), (6, [1, 2, 3, 4, 5, 6]), (9, [1, 3, 5, 7, 9])])
def test_a_chain_of_few_calls_shows_every_state(run, capsys, calls, shown):
    flags = ["sample", str(run / "run"), "--chain", "--calls", str(calls), "--schedule", "uniform"]
    assert [int(row[4:9]) for row in output(capsys, flags).splitlines()] == shown
    told = json.loads(output(capsys, [*flags, "--json"]))
    assert told["state_calls"] == shown
    assert len(told["chains"][0]) == len(shown)


def test_a_text_shorter_than_an_item_is_scored_by_itself(run, capsys, tmp_path):
    (tmp_path / "short.txt").write_text("the cat")
    base = ["eval", str(run / "run"), str(tmp_path / "short.txt")]
    shown = output(capsys, base)
    assert "7 characters of short.txt, shorter than an item of 16" in shown
    for flags, estimator in (
        ([], f"bound over random orders, single steps, {passes_for(1)} passes, the other variables hidden"),
        (["--passes", "3"], "bound over random orders, single steps, 3 passes, the other variables hidden"),
        (["--order", "raster"], "exact, raster order, one variable per call, the other variables hidden"),
        (["--order", "strands", "--calls", "2"], "exact, strands order, 2 calls, the other variables hidden"),
        (["--calls", "3"], "bound, mean over 1 random order, planned schedule, 3 calls, the other variables hidden"),
    ):
        told = json.loads(output(capsys, [*base, *flags, "--json"]))
        assert (told["estimator"], told["variables_per_item"], told["num_items"]) == (estimator, 7, 1)
        assert 0 < told["bits_per_dim"] < 8
    assert "scores items of fewer variables" in fails(capsys, [*base, "--diffusion-steps", "3"])[1]
    assert "measured on whole items" in fails(capsys, [*base, "--profile", str(tmp_path / "p.npy")])[1]


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


def test_infill_reads_standard_input_and_bytes(run, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the _at sat\n")))
    assert len(output(capsys, ["infill", str(run / "run"), "-"])) == 12
    flags = ["--data", str(run / "text.txt"), "--out", str(tmp_path / "bytes"), "--steps", "3", *SMALL]
    assert main(["train", "bytes", *flags]) == 0
    (tmp_path / "in").write_bytes(b"\xff\r\n_\x00")
    out = tmp_path / "out"
    assert output(capsys, ["infill", str(tmp_path / "bytes"), str(tmp_path / "in"), "-o", str(out)]) == ""
    content = out.read_bytes()
    assert (content[:3], content[4:]) == (b"\xff\r\n", b"\x00")
    assert output(capsys, ["sample", str(tmp_path / "bytes"), "-n", "3", "--calls", "2", "-o", str(out)]) == ""
    assert len(out.read_bytes()) == 3 * 16
    samples = json.loads(output(capsys, ["sample", str(tmp_path / "bytes"), "--calls", "2", "--json"]))["samples"]
    assert [len(sample) for sample in samples] == [16]
    assert all(0 <= value < 256 for value in samples[0])


def test_json_goes_where_it_should(run, capsys, tmp_path):
    for arguments, key in (
        (["sample", str(run / "run"), "--calls", "3"], "samples"),
        (["sample", str(run / "run"), "--calls", "3", "--chain"], "chains"),
        (["infill", str(run / "run"), "the _at"], "samples"),
        (["report", "calls", str(run / "run"), str(run / "text.txt"), "--calls", "4", "--items", "1"], "budgets"),
    ):
        assert key in json.loads(output(capsys, [*arguments, "--json"]))
        assert output(capsys, [*arguments, "--json", "-o", str(tmp_path / "x.json")]) == ""
        assert key in json.loads((tmp_path / "x.json").read_text())


def test_one_item_has_no_interval(run, capsys):
    arguments = ["eval", str(run / "run"), str(run / "text.txt"), "--items", "1", "--json"]
    assert json.loads(output(capsys, arguments))["half_width"] is None


def test_a_profile_of_few_observations_is_no_cheaper(run, capsys, tmp_path):
    arguments = ["eval", str(run / "run"), str(run / "text.txt"), "--items", "4", "--json"]
    for name in ("p.npy", "p.json"):
        bits = json.loads(output(capsys, [*arguments, "--profile", str(tmp_path / name)]))["bits_per_dim"]
        plan = json.loads(output(capsys, ["plan", str(tmp_path / name), "--calls", "16", "--json"]))
        assert plan["full_bits"] / 16 == pytest.approx(bits, rel=0.3)


def test_bench_and_version(capsys, monkeypatch):
    row = PlanTiming(name="ours", num_stages=1, num_steps=3, budgets=1, seconds=0.5, table_bytes=2**20)
    monkeypatch.setattr("ardm.apps.bench.plan.run_plan_benchmark", lambda full: [row])
    assert "1.0 MiB" in output(capsys, ["bench", "plan"])
    assert json.loads(output(capsys, ["bench", "plan", "--json"]))[0]["seconds"] == 0.5
    assert output(capsys, ["--version"]).startswith("ardm 0.")


def test_names_on_the_command_line_are_those_of_the_library():
    assert set(get_args(OrderName)) == {"random", *ORDER_NAMES}
    assert set(get_args(NamedOrder)) == set(ORDER_NAMES)


def test_data_checks_fetches_and_replaces(capsys, tmp_path, monkeypatch):
    content = b"hello world " * 10
    known = {len(content): ("text8 (fake)", hashlib.md5(content).hexdigest())}
    monkeypatch.setattr("ardm.data.text.TEXT8_FILES", known)
    monkeypatch.setattr("ardm.data.text.TEXT8_HOLD_OUT", 10)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("text8", content)
    (tmp_path / "text8").write_bytes(b"cut short")
    monkeypatch.setattr("ardm.cli.data.download", lambda url: b"not a zip")
    assert "could not fetch" in fails(capsys, ["data", "text8", "--root", str(tmp_path)])[1]
    assert (tmp_path / "text8").read_bytes() == b"cut short"
    monkeypatch.setattr("ardm.cli.data.download", lambda url: archive.getvalue())
    assert "train 100, valid 10, test 10" in output(capsys, ["data", "text8", "--root", str(tmp_path)])
    assert (tmp_path / "text8").read_bytes() == content


def test_data_fetches_cifar10(capsys, tmp_path, monkeypatch):
    batches = {name: bytes([len(name) % 10]) + bytes(3072) for name in MD5 if name.endswith(".bin")}
    for name, content in batches.items():
        monkeypatch.setitem(MD5, name, hashlib.md5(content).hexdigest())
    monkeypatch.setattr("ardm.data.cifar10.NUM_HELD_OUT", 1)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as file:
        for name, content in batches.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    monkeypatch.setattr("ardm.cli.data.download", lambda url: archive.getvalue()[:100])
    assert "could not fetch" in fails(capsys, ["data", "cifar10", "--root", str(tmp_path)])[1]
    monkeypatch.setattr("ardm.cli.data.download", lambda url: archive.getvalue())
    assert "train 4, valid 1, test 1 images" in output(capsys, ["data", "cifar10", "--root", str(tmp_path)])


def test_report_makes_tables(run, capsys):
    arguments = ["report", "calls", str(run / "run"), str(run / "text.txt"), "--calls", "16", "4", "--items", "4"]
    shown = output(capsys, arguments)
    assert "| raster | " in shown
    assert "| 4 | " in shown
    assert "| calls | planned, random order | cosine, random order | uniform, random order | planned, raster" in shown


def test_report_makes_the_columns_that_are_asked_for(run, capsys):
    arguments = ["report", "calls", str(run / "run"), str(run / "text.txt"), "--calls", "4", "--items", "1"]
    shown = output(capsys, [*arguments, "--schedules", "uniform", "--planned-in", "halton", "--orders", "reverse"])
    assert "| calls | uniform, random order | planned, halton order |" in shown
    assert "| reverse | " in shown
    assert "raster" not in shown
    assert "inf" not in shown  # one item has no interval


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
    before = {path.name: path.read_bytes() for path in (run / "run").iterdir()}
    flags = ["--data", str(run / "text.txt"), "--out", str(run / "run"), "--steps", "40", *SMALL]
    assert "already holds a run" in fails(capsys, ["train", "text", *flags])[1]
    assert main(["train", "text", *flags, "--resume"]) == 0
    assert {path.name: path.read_bytes() for path in (run / "run").iterdir()} == before


def test_a_resumed_run_remembers_its_flags(run, capsys, tmp_path):
    flags = ["--data", str(run / "text.txt"), "--out", str(tmp_path / "run")]
    assert main(["train", "text", *flags, *SMALL, "--steps", "4", "--seed", "3"]) == 0
    assert main(["train", "text", *flags, "--resume", "--steps", "6"]) == 0
    facts = json.loads(output(capsys, ["info", str(tmp_path / "run"), "--json"]))
    assert (facts["step"], facts["seed"], facts["variables"]) == (6, 3, 16)
    status, error = fails(capsys, ["train", "text", *flags, "--resume", "--width", "64", "--batch-size", "3"])
    assert status == 2
    assert "was started with a different width, batch size; resume it with the same flags" in error
    for flag, value in (("--batch-size", "0"), ("--layers", "0"), ("--learning-rate", "-1.0"), ("--shards", "0")):
        assert f"ardm: {flag} must be" in fails(capsys, ["train", "text", *flags, "--resume", flag, value])[1]
    assert "holds a run of the preset text" in fails(capsys, ["train", "bytes", *flags, "--resume"])[1]
    (tmp_path / "run" / "config.json").write_text("{")
    assert "config.json is damaged" in fails(capsys, ["train", "text", *flags, "--resume"])[1]


def test_training_starts_from_another_model(run, capsys, tmp_path):
    (tmp_path / "more.txt").write_text(TEXT * 2)
    before, flags = load_model(run / "run"), ["--data", str(tmp_path / "more.txt"), "--batch-size", "8", "--steps", "1"]
    start = [
        *flags,
        "--item-length",
        "20",
        "--init",
        str(run / "run"),
        "--muon-rate",
        "1e-9",
        "--learning-rate",
        "1e-9",
    ]
    assert main(["train", "text", *start, "--out", str(tmp_path / "run"), "--weight-decay", "0.1"]) == 0
    after = load_model(tmp_path / "run")
    assert (after.config.network, after.model.num_variables, after.config.train.weight_decay) == (
        before.config.network,
        20,
        0.1,
    )
    scored = json.loads(output(capsys, ["eval", str(tmp_path / "run"), str(run / "text.txt"), "--json"]))
    assert "test split" in scored["data"]  # the first model was trained on the rest
    for name, value in before.model.named_parameters():
        torch.testing.assert_close(after.model.get_parameter(name), value, rtol=0, atol=1e-6)
    other = ["train", "text", *start, "--out", str(tmp_path / "other")]
    assert "a different network" in fails(capsys, [*other, "--width", "64"])[1]
    (tmp_path / "digits.txt").write_text("0123456789" * 100)
    assert "differ in classes" in fails(capsys, [*other, "--data", str(tmp_path / "digits.txt")])[1]
    assert "does not take data" in fails(capsys, ["train", "images", *start, "--out", str(tmp_path / "other")])[1]
    assert main(["export", str(run / "run"), "-o", str(tmp_path / "exact"), "--order", "raster"]) == 0
    assert "an exact model cannot be trained" in fails(capsys, [*other, "--init", str(tmp_path / "exact")])[1]
    assert fails(capsys, [*other, "--init", "nosuch"])[0] == 1
    assert not (tmp_path / "other").exists()


def test_a_model_without_its_state_is_not_overwritten(run, capsys, tmp_path):
    shutil.copytree(run / "run", tmp_path / "run")
    (tmp_path / "run" / "state.safetensors").unlink()
    (tmp_path / "run" / "state.previous.safetensors").unlink(missing_ok=True)
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    flags = ["--data", str(run / "text.txt"), "--out", str(tmp_path / "run"), "--steps", "40", *SMALL]
    assert fails(capsys, ["train", "text", *flags])[0] == 2
    assert "holds a model but no training state" in fails(capsys, ["train", "text", *flags, "--resume"])[1]
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


BAD_FLAGS = [
    ["train", "nonsense", "--data", "x", "--out", "y"],
    ["train", "text", "--data", "x", "--out", "y", "--steps", "0"],
    ["train", "text", "--data", "x", "--out", "y", "--batch-size", "-3"],
    ["train", "text", "--data", "x", "--out", "y", "--width", "33"],
    ["train", "text", "--data", "x", "--out", "y", "--order-fraction", "0.5"],
    ["train", "text", "--data", "x", "--out", "y", "--order", "raster", "--order-share", "1.5"],
    ["train", "images", "--data", "x", "--out", "y", "--head-width", "8"],
    ["train", "text", "--data", "x", "--out", "y", "--learning-rate", "-1"],
    ["train", "text", "--data", "x", "--out", "y", "--parametrization", "direct"],
    ["train", "text", "--data", "x", "--out", "y", "--parametrization", "companded"],
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
    ["train", "text", "--data", "x", "--out", "y", "--width", "0"],
    ["train", "text", "--data", "x", "--out", "y", "--layers", "-1"],
    ["train", "text", "--data", "x", "--out", "y", "--warmup-steps", "-5"],
    ["train", "text", "--data", "x", "--out", "y", "--seed", "99999999999999999999"],
    ["train", "text", "--data", "x", "--out", "y", "--item-length", "99999999999999999999"],
    ["train", "text", "--data", "x", "--out", "y", "--base", "1"],
    ["train", "text", "--data", "TEXT", "--out", "y", "--base", "90"],
    ["train", "text", "--data", "TEXT", "--out", "TEXT"],
    ["train", "text", "--data", ".", "--out", "./run"],
    ["eval", "RUN", "TEXT", "--profile", "p.txt"],
    ["eval", "RUN", "TEXT", "--profile", "p.npy", "--order", "raster"],
    ["sample", "RUN", "-o", "/"],
    ["sample", "RUN", "--device", "meta"],
    ["sample", "RUN", "--device", "abacus"],
    ["report", "calls", "RUN", "TEXT", "--calls", "0"],
    ["report", "calls", "RUN", "TEXT", "-o", "/dev/null/x"],
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
    (folder / "huge.json").write_text(f"[{'9' * 400}]")
    np.save(folder / "complex.npy", np.ones(3) * 1j)
    (folder / "mixed").mkdir()
    (folder / "mixed" / "a.txt").write_text("fine")
    (folder / "mixed" / "b.bin").write_bytes(b"\xff")
    train = ["train", "text", "--out", str(folder / "new"), *SMALL, "--data"]
    evaluate = ["eval", str(run / "run")]
    return {
        "there is no file or folder": [*train, "nowhere"],
        "empty.txt is empty": [*train, "empty.txt"],
        "not UTF-8 text": [*train, "binary.txt"],
        "too few for an item of 16": [*train, "short.txt"],
        "there is no text8 file": ["train", "text8-small", "--out", str(folder / "new"), "--data", "mixed"],
        "character 'M' at position 19": [*evaluate, "unknown.txt"],
        "has 0 characters, too few": [*evaluate, "short.txt", "--split", "test"],
        "cut.safetensors is damaged": ["eval", "cut.safetensors", "short.txt"],
        "not one of ardm's": ["sample", "foreign.safetensors"],
        "there is no model at": ["sample", "nowhere"],
        "character 'X' at position 0": ["infill", str(run / "run"), "X_"],
        "has 17 characters; this model takes 1 to 16": ["infill", str(run / "run"), "_" * 17],
        "pickle.npy is not a profile": ["plan", "pickle.npy", "--calls", "3"],
        "words.json is not a profile": ["plan", "words.json", "--calls", "3"],
        "huge.json is not a profile": ["plan", "huge.json", "--calls", "3"],
        "complex.npy is not a profile": ["plan", "complex.npy", "--calls", "3"],
        "b.bin is not UTF-8 text (byte 0 is 0xff)": [*train, "mixed"],
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


def test_a_run_that_was_stopped_early_says_why_it_cannot_plan(run, capsys, tmp_path):
    flags = [
        "--data",
        str(run / "text.txt"),
        "--out",
        str(tmp_path / "run"),
        "--base",
        "3",
        "--minutes",
        "1e-9",
        *SMALL,
    ]
    output(capsys, ["train", "text", *flags])
    status, error = fails(capsys, ["plan", str(tmp_path / "run"), "--calls", "8"])
    assert status == 2
    assert "losses have not been measured; continue its training" in error
    assert output(capsys, ["sample", str(tmp_path / "run"), "--calls", "8", "--schedule", "cosine"])


def test_a_profile_that_was_not_measured_says_so_everywhere(run, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("ardm.train.loop.Loop.measure_stopped", lambda loop, on_profile: None)
    monkeypatch.setattr("ardm.train.loop.Loop._must_measure", lambda loop: loop._trainer.step == 5)
    where = ["--data", str(run / "text.txt"), "--out", str(tmp_path / "run"), "--minutes", "5"]
    output(capsys, ["train", "text", *where, *SMALL])
    average, out = "average during training", str(tmp_path / "run")
    assert json.loads(output(capsys, ["info", out, "--json"]))["profile"] == average
    assert average in output(capsys, ["info", out])
    assert json.loads(output(capsys, ["plan", out, "--calls", "4", "--json"]))["profile"] == average
    titles = []
    monkeypatch.setattr("matplotlib.figure.Figure.suptitle", lambda figure, text, **how: titles.append(text))
    assert average in output(capsys, ["plan", out, "--calls", "4", "-o", str(tmp_path / "p.png")])
    assert average in titles[0]
    assert average in output(capsys, ["export", out, "-o", str(tmp_path / "x.model"), "--calls", "4", "--items", "4"])
    assert json.loads(output(capsys, ["info", str(tmp_path / "x.model"), "--json"]))["profile"] == average
    for arguments in (["sample", out], ["eval", out, str(run / "text.txt")]):
        assert main([*arguments, "--calls", "4"]) == 0
        assert average in capsys.readouterr().err
        assert main([*arguments, "--calls", "4", "--schedule", "uniform"]) == 0
        assert average not in capsys.readouterr().err
    told = json.loads(output(capsys, ["plan", str(run / "run"), "--calls", "4", "--json"]))
    assert told["profile"] == "measured on held-out data"
    assert "average" not in output(capsys, ["plan", str(run / "run"), "--calls", "4"])


def test_images_that_are_trained_on_are_not_called_held_out():
    config = PRESETS["cifar10-paper"]()
    metrics = {"step": 3, "valid_bits": 2.5, "valid_half_width": 0.25}
    assert (
        evaluation_line(metrics, config, 256) == "step 3: 2.5000 ± 0.2500 bits per variable, seen in training (bound)"
    )
    assert "in 9 draws, seen in training (" in profile_line("bits", 9, evaluated_items(config))
    assert evaluation_line(metrics, PRESETS["cifar10"](), 256).endswith("bits per variable, held out (bound)")
    assert evaluation_line(metrics, PRESETS["text8"](), 4).endswith("held out (bound; guessing takes 2.0000)")


def test_a_folder_of_other_files_is_no_place_for_a_run(run, capsys, tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    for out in ("", ".", str(tmp_path)):
        status, error = fails(capsys, ["train", "text", "--data", str(run / "text.txt"), "--out", out, *SMALL])
        assert status == 2
        assert "holds files that do not belong to a run; choose a new folder" in error
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "state.previous.safetensors").write_bytes(b"")
    told = fails(capsys, ["train", "text", "--data", str(run / "text.txt"), "--out", ".", *SMALL])[1]
    assert "already holds a run; --resume continues it" in told
