"""Masked language models on the command line: every command on tiny saved models, and one clear line for bad input."""

import json
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from invoke import fails, output
from masked_folders import SMILES, WORDS, masked_folder, protein_folder, same_weights
from tiny_masked import BERT_TOKENS, bert

import ardm
from ardm.cli.main import main
from ardm.cli.train_masked import comparison, loss_at
from ardm.library.fit import Fitting

PROTEINS = ["MKVLAAG", "ACDEFGHIKLMN", "WYWYACGH"]
DNA = ["ACGACG", "GGAC", "CCC"]
FILES = {
    "proteins.fasta": ">first\nMKVLAAG\n>second one\nACDEFGHIKL\nMN\n>third\nWYWYACGH*\n",
    "dna.txt": "".join(f"{text}\n" for text in DNA),
    "some.smi": "C(=O)C ethanal\nc1ccc1\nClCCl dichloromethane\n",
    "words.txt": "the cats sat.\nthe € cat\n",
    "long.txt": f"{'ACGCA' * 12}\nGCAGCA\n",
}
TINY = {"num_hidden_layers": 1}


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Path:
    """A folder with tiny models and small files of sequences."""
    folder = tmp_path_factory.mktemp("masked")
    protein_folder(folder / "protein", **TINY)
    masked_folder(folder / "dna", **TINY)
    masked_folder(folder / "smiles", names=SMILES, vocab_size=len(SMILES), **TINY)
    masked_folder(folder / "words", names=WORDS, vocab_size=len(WORDS), **TINY)
    masked_folder(folder / "esm", "esm", **TINY)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    letters = random.Random(0)
    runs = [letters.choice("ACG") * letters.randint(4, 8) for _ in range(80)]
    (folder / "runs.txt").write_text("".join(f"{text}\n" for text in runs))
    return folder


@pytest.fixture(scope="module")
def measured(here) -> Path:
    """A saved model with its own loss profile."""
    model = ardm.load(f"hf:{here / 'protein'}", length=9)
    model.measure(PROTEINS, passes=40)
    ardm.save(model, here / "measured")
    return here / "measured"


def told(capsys, *arguments):
    """The JSON that a command prints."""
    return json.loads(output(capsys, [*map(str, arguments), "--json"]))


# eval


@pytest.mark.parametrize(
    ("model", "data", "units"),
    [
        ("protein", "proteins.fasta", ["bits/residue"]),
        ("dna", "dna.txt", ["bits/base"]),
        ("smiles", "some.smi", ["bits/token", "bits/character"]),
        ("words", "words.txt", ["bits/token", "bits/character", "bits/byte"]),
    ],
)
def test_eval_says_its_units(here, capsys, model, data, units):
    figure, about = output(capsys, ["eval", f"hf:{here / model}", str(here / data)]).splitlines()
    assert " ± " in figure
    for unit in ("bits/residue", "bits/base", "bits/token", "bits/character", "bits/byte"):
        assert (unit in figure) == (unit in units), figure
    assert about.startswith("bound over random orders, single steps")
    assert about.endswith(f"sequences of {data}")


def test_eval_gives_what_the_library_gives(here, capsys):
    model, file = f"hf:{here / 'protein'}", here / "proteins.fasta"
    found = told(capsys, "eval", model, file, "--seed", 3)
    expected = ardm.load(model).score(PROTEINS, seed=3)
    assert found["bits_per_dim"] == pytest.approx(expected.bits_per_dim, rel=1e-12)
    assert found["half_width"] == pytest.approx(expected.half_width)
    assert (found["num_items"], found["variables"], found["unit"]) == (3, 27, "bits/residue")
    assert found["model"]["network"] == "BertForMaskedLM"
    assert found["data"] == "3 of 3 sequences of proteins.fasta"


def test_eval_of_words_in_bits_per_token_character_and_byte(here, capsys):
    found = told(capsys, "eval", f"hf:{here / 'words'}", here / "words.txt", "--order", "raster")
    total, texts = found["bits_per_dim"] * found["variables"], FILES["words.txt"].splitlines()
    assert found["variables"] == 8  # the cat ##s sat . the € cat
    assert found["bits_per_character"] == pytest.approx(total / sum(map(len, texts)))
    assert found["bits_per_byte"] == pytest.approx(total / sum(len(text.encode()) for text in texts))


def test_eval_of_a_whole_text(here, capsys):
    found = told(capsys, "eval", f"hf:{here / 'words'}", here / "words.txt", "--format", "text")
    assert (found["num_items"], found["variables"], found["half_width"]) == (1, 8, None)


def test_eval_in_an_order_and_in_calls(here, capsys):
    base = ["eval", f"hf:{here / 'protein'}", here / "proteins.fasta", "--schedule", "uniform"]
    model = ardm.load(f"hf:{here / 'protein'}")
    for calls in (None, 3):
        flags = [] if calls is None else ["--calls", calls]
        exact = told(capsys, *base, "--order", "raster", *flags)
        expected = model.score(PROTEINS, "raster", calls, schedule="uniform")
        assert exact["is_exact"]
        assert exact["bits_per_dim"] == pytest.approx(expected.bits_per_dim)
    found = told(capsys, *base, "--calls", 3)
    assert "uniform schedule of 3 calls" in found["estimator"]
    assert not found["is_exact"]
    every = told(capsys, *base, "--calls", 999, "--order", "raster")
    assert every["bits_per_dim"] == pytest.approx(model.score(PROTEINS, "raster").bits_per_dim)


def test_eval_of_some_items(here, capsys):
    found = told(capsys, "eval", f"hf:{here / 'protein'}", here / "proteins.fasta", "--items", 1)
    assert (found["num_items"], found["data"]) == (1, "1 of 3 sequences of proteins.fasta")


def test_eval_with_the_pseudo_log_likelihood(here, capsys):
    base = ["eval", f"hf:{here / 'protein'}", str(here / "proteins.fasta"), "--pseudo", "--batch-size", "5"]
    expected = ardm.load(f"hf:{here / 'protein'}").pseudo_score(PROTEINS)
    found = told(capsys, *base)
    assert found["pseudo_log_likelihood"]["bits_per_dim"] == pytest.approx(expected.bits_per_dim)
    assert found["pseudo_log_likelihood"]["bits_per_dim"] != pytest.approx(found["bits_per_dim"], rel=0.001)
    last = output(capsys, base).splitlines()[-1]
    assert last == f"{expected.figure} pseudo-log-likelihood, which is not a probability"


def test_calls_without_known_losses_are_spread_by_cosine(here, capsys):
    for words in (["sample", "--size", "12"], ["infill", "ACG_AC__"]):
        command, *rest = words
        assert main([command, f"hf:{here / 'dna'}", *rest, "--calls", "2", "--chain", "--json"]) == 0
        printed = capsys.readouterr()
        assert printed.err.startswith("the schedule is cosine, not planned: this model's losses have not been measured")
        assert json.loads(printed.out)["state_calls"] == [1, 2]


@pytest.mark.parametrize("name", ["p.json", "p.npy"])
def test_a_profile_that_eval_writes_plans_calls(here, capsys, tmp_path, name):
    model, file, profile = f"hf:{here / 'protein'}", str(here / "proteins.fasta"), str(tmp_path / name)
    output(capsys, ["eval", model, file, "--profile", profile, "-o", str(tmp_path / "out.txt")])
    assert (tmp_path / "out.txt").read_text().count("\n") == 2
    plan = told(capsys, "plan", profile, "--calls", 4)
    assert plan["calls"] == [4]
    found = told(capsys, "eval", model, file, "--calls", 4, "--losses", profile)
    assert "planned schedule of 4 calls" in found["estimator"]
    assert "nothing to plan from" in fails(capsys, ["eval", model, file, "--calls", "4"])[1]


def test_long_sequences_are_scored_in_windows(here, capsys):
    found = told(capsys, "eval", f"hf:{here / 'dna'}", here / "long.txt", "--order", "raster")
    assert found["variables"] == 66
    narrow = told(capsys, "eval", f"hf:{here / 'dna'}", here / "long.txt", "--order", "raster", "--window", 6)
    assert narrow["variables"] == 66
    assert narrow["bits_per_dim"] != found["bits_per_dim"]
    assert narrow["model"]["window"] == 6
    pseudo = told(capsys, "eval", f"hf:{here / 'dna'}", here / "long.txt", "--pseudo")
    assert math.isfinite(pseudo["pseudo_log_likelihood"]["bits_per_dim"])


# sample and infill


def test_samples_are_reproducible_lines(here, capsys, tmp_path):
    base = ["sample", f"hf:{here / 'protein'}", "-n", "3", "--size", "7"]
    first = output(capsys, base)
    assert [len(line) for line in first.splitlines()] == [7, 7, 7]
    assert set(first) <= {*"ACDEFGHIKLMNPQRSTVWY\n"}
    assert output(capsys, base) == first
    assert output(capsys, [*base, "--seed", "1"]) != first
    assert output(capsys, [*base, "-o", str(tmp_path / "out.txt")]) == ""
    assert (tmp_path / "out.txt").read_text() == first
    assert told(capsys, *base) == {"calls": 7, "samples": first.splitlines()}


def test_a_profile_in_a_file_or_in_the_folder_plans_the_calls_of_samples(here, measured, capsys, tmp_path):
    found = told(capsys, "sample", measured, "-n", 2, "--calls", 3)
    assert (found["calls"], [len(text) for text in found["samples"]]) == (3, [9, 9])
    (tmp_path / "p.json").write_text("[5, 4, 3, 2]")
    losses = ["--losses", tmp_path / "p.json"]
    few = told(capsys, "sample", f"hf:{here / 'protein'}", "--size", 8, "--calls", 2, *losses)
    assert (few["calls"], len(few["samples"][0])) == (2, 8)
    assert "there is no profile" in fails(capsys, ["sample", f"hf:{measured}", "--losses", "none.json"])[1]


def test_a_chain_shows_the_sequence_being_filled_in(here, capsys):
    flags = ["sample", f"hf:{here / 'protein'}", "--size", "8", "--calls", "4", "--schedule", "uniform", "--chain"]
    rows = output(capsys, flags).splitlines()
    assert [row.count("_") for row in rows] == [6, 4, 2, 0]
    states = told(capsys, *flags)
    assert states["state_calls"] == [1, 2, 3, 4]
    assert [state.count("_") for state in states["chains"][0]] == [6, 4, 2, 0]


@pytest.mark.parametrize("flags", [[], ["--calls", "2", "--schedule", "uniform"], ["--order", "reverse"]])
def test_infill_keeps_what_is_known(here, capsys, flags):
    model = f"hf:{here / 'protein'}"
    filled = output(capsys, ["infill", model, "MK__LAAG_", "-n", "4", *flags]).splitlines()
    assert len(filled) == 4
    for text in filled:
        assert (text[:2], text[4:8], len(text)) == ("MK", "LAAG", 9)
        assert "_" not in text
    ranged = output(capsys, ["infill", model, "WWWWWWWW", "--mask", "1:3,5:6", "-n", "9", *flags]).splitlines()
    assert {(text[0], text[3:5], text[6:]) for text in ranged} == {("W", "WW", "WW")}
    assert any(text[1:3] != "WW" or text[5] != "W" for text in ranged)
    marked = output(capsys, ["infill", model, "MKXXLG", "--mask", "X", *flags]).strip()
    assert (marked[:2], marked[4:], len(marked)) == ("MK", "LG", 6)


def test_infill_of_a_file_of_smiles_and_of_words(here, capsys, tmp_path):
    (tmp_path / "gap.smi").write_text("Cl_(=O)_\n")
    filled = told(capsys, "infill", f"hf:{here / 'smiles'}", tmp_path / "gap.smi", "-n", 3)
    assert all(text.startswith("Cl") and "(=O)" in text for text in filled["samples"])
    words = output(capsys, ["infill", f"hf:{here / 'words'}", "the _ sat", "--calls", "1"]).split()
    assert (words[0], words[-1]) == ("the", "sat")


# plan, report and info


def test_plan_from_the_profile_in_a_folder(here, measured, capsys):
    by_prefix, by_folder = (told(capsys, "plan", name, "--calls", 3) for name in (f"hf:{measured}", measured))
    assert by_prefix == by_folder
    assert by_prefix["calls"] == [3]
    plan = ardm.load(measured).for_shape((12,)).plan(3)  # the longest sequence that was measured
    assert by_prefix["starts"] == [list(plan.schedule.starts[0])]
    assert "3 calls for 1 stage of" in output(capsys, ["plan", f"hf:{measured}", "--calls", "3"])
    status, error = fails(capsys, ["plan", f"hf:{here / 'dna'}", "--calls", "3"])
    assert "has no loss profile; `ardm eval" in error
    assert status == 2


def test_report_of_orders_and_calls(here, capsys, tmp_path):
    base = ["report", "calls", f"hf:{here / 'protein'}", str(here / "proteins.fasta"), "--calls", "4", "2", "99"]
    found = told(capsys, *base, "--orders", "raster")
    assert found["profile"] == "measured on these sequences"
    assert [(row["order"], row["calls"]) for row in found["orders"]] == [("random", 12), ("raster", 12)]
    assert {row["calls"] for row in found["budgets"]} == {4, 2}
    raster = told(capsys, "eval", *base[2:4], "--order", "raster")
    assert found["orders"][1]["bits_per_dim"] == pytest.approx(raster["bits_per_dim"])
    uniform = told(capsys, "eval", *base[2:4], "--calls", 2, "--schedule", "uniform")
    rows = {(row["order"], row["schedule"], row["calls"]): row["bits_per_dim"] for row in found["budgets"]}
    assert rows["random", "uniform", 2] == pytest.approx(uniform["bits_per_dim"])
    assert rows["random", "planned", 4] < rows["random", "planned", 2] * 1.2
    pseudo = told(capsys, "eval", *base[2:4], "--pseudo")["pseudo_log_likelihood"]["bits_per_dim"]
    assert found["pseudo_log_likelihood"]["bits_per_dim"] == pytest.approx(pseudo)
    output(capsys, [*base, "-o", str(tmp_path / "report.md")])
    text = (tmp_path / "report.md").read_text()
    for part in ("| random |", "| raster |", "planned, random order", "bits/residue", "which is not a probability"):
        assert part in text, part


def test_report_with_a_profile_of_ones_own(measured, here, capsys):
    flags = ["--calls", "3", "--schedules", "planned", "--planned-in", "raster", "--orders", "raster"]
    found = told(capsys, "report", "calls", measured, here / "proteins.fasta", "--items", 2, *flags)
    assert found["profile"] == "own"
    assert found["data"] == "2 of 3 sequences of proteins.fasta"


def test_info(here, measured, capsys):
    facts = told(capsys, "info", f"hf:{here / 'esm'}")
    assert facts["kind"] == "masked language model"
    assert (facts["network"], facts["mask"], facts["window"], facts["unit"]) == ("EsmForMaskedLM", "<mask>", 24, "base")
    assert (facts["before_sequences"], facts["after_sequences"]) == ("<cls>", "<eos>")
    assert facts["token_dropout"] is True
    assert facts["profile"] == "not measured"
    assert told(capsys, "info", f"hf:{here / 'esm'}", "--token-dropout", "False")["token_dropout"] is False
    assert told(capsys, "info", measured)["profile"] == "measured on held-out data"
    shown = output(capsys, ["info", str(measured)])
    assert "masked language model" in shown
    assert "of the token at their place" in shown


# train masked


def training(here, out, *flags):
    """The arguments of a short fine-tuning."""
    base = ["train", "masked", "--init", f"hf:{here / 'dna'}", "--data", here / "runs.txt", "--out", out]
    return [str(word) for word in [*base, "--batch-size", "8", "--learning-rate", "0.02", *flags]]


@pytest.fixture(scope="module")
def trained(here) -> Path:
    """The folder of a short fine-tuning."""
    assert main(training(here, here / "trained", "--steps", "60")) == 0
    return here / "trained"


def test_training_makes_easy_data_likelier(here, trained, capsys):
    held_out = [line for number, line in enumerate((here / "runs.txt").read_text().split()) if number % 10 == 0]
    before, after = (ardm.load(f"hf:{name}").score(held_out, passes=50) for name in (here / "dna", trained))
    assert after.bits_per_dim < 0.7 * before.bits_per_dim
    assert after.bits_per_dim < 1.2


def test_the_fine_tuned_model_is_loaded_by_everyone(here, trained, capsys):
    by_prefix, by_folder = ardm.load(f"hf:{trained}"), ardm.load(trained)
    own = transformers.AutoModelForMaskedLM.from_pretrained(trained)
    assert same_weights(by_prefix.network, by_folder.network)
    assert same_weights(own, by_folder.network)
    assert not same_weights(own, ardm.load(f"hf:{here / 'dna'}").network)
    for model in (f"hf:{trained}", str(trained)):
        assert len(output(capsys, ["sample", model, "-n", "2", "--calls", "3"]).splitlines()) == 2


def test_training_writes_the_profiles_before_and_after(trained, capsys):
    before, after = (json.loads((trained / f"profile-{name}.json").read_text()) for name in ("before", "after"))
    assert np.shape(before) == np.shape(after) == (1, 8)
    means = [np.nanmean(np.array(profile, dtype=float)) for profile in (before, after)]
    assert means[1] < means[0]
    plan = told(capsys, "plan", f"hf:{trained}", "--calls", 3)
    assert plan["profile"] == "measured on held-out data"


def test_training_says_what_it_gained(here, tmp_path, capsys):
    capsys.readouterr()
    assert main(training(here, tmp_path / "out", "--steps", "3")) == 0
    captured = capsys.readouterr()
    assert "72 sequences to train on, 8 held out" in captured.err
    first, *shares, last = captured.out.splitlines()
    assert first.startswith("held out: ")
    assert "bits/base before, " in first
    assert [line.split(":")[0].strip() for line in shares] == [f"{share}% hidden" for share in (90, 75, 50, 25, 10)]
    assert last.startswith(f"hf:{tmp_path / 'out'}")


def stop_at(monkeypatch, step):
    """Make a training stop before this step, as Ctrl-C does."""
    own = Fitting._step

    def stopping(self, batch, done):
        if self.fitted.steps == step:
            raise KeyboardInterrupt
        return own(self, batch, done)

    monkeypatch.setattr(Fitting, "_step", stopping)


def test_a_resumed_training_is_that_without_a_stop_to_the_bit(here, tmp_path, capsys, monkeypatch):
    flags = ["--steps", "12"]
    output(capsys, training(here, tmp_path / "whole", *flags))
    with monkeypatch.context() as patch:
        stop_at(patch, 5)
        output(capsys, training(here, tmp_path / "stopped", *flags))
    first, second = (ardm.load(tmp_path / name) for name in ("whole", "stopped"))
    assert not same_weights(first.network, second.network)
    capsys.readouterr()
    assert main(training(here, tmp_path / "stopped", *flags, "--resume")) == 0
    assert "continues from step 5" in capsys.readouterr().err
    second = ardm.load(tmp_path / "stopped")
    assert same_weights(first.network, second.network)
    assert torch.equal(first.profile.bits, second.profile.bits)
    for name in ("profile-before.json", "profile-after.json"):
        assert (tmp_path / "whole" / name).read_text() == (tmp_path / "stopped" / name).read_text()


def test_training_continues_for_more_steps(here, tmp_path, capsys):
    out = tmp_path / "out"
    output(capsys, training(here, out, "--steps", "2"))
    status, error = fails(capsys, training(here, out, "--steps", "4"))
    assert status == 2
    assert "holds files; choose a new folder, or continue with --resume" in error
    capsys.readouterr()
    assert main(training(here, out, "--steps", "4", "--resume")) == 0
    assert "continues from step 2" in capsys.readouterr().err
    for flags, message in [
        (["--batch-size", "7"], "had another batch_size; choose another folder"),
        (["--steps", "3"], "is already at step 4; give more steps or another folder"),
        (["--data", str(here / "dna.txt"), "--valid", str(here / "dna.txt")], "was on other data"),
    ]:
        capsys.readouterr()
        assert main(training(here, out, "--steps", "5", "--resume", *flags)) == 2
        assert message in capsys.readouterr().err.splitlines()[-1]


def test_training_on_long_sequences_with_held_out_ones_of_ones_own(here, tmp_path, capsys):
    flags = ["--data", here / "long.txt", "--valid", here / "dna.txt", "--steps", "2", "--window", "9"]
    shown = output(capsys, training(here, tmp_path / "out", *flags))
    assert "held out: " in shown
    assert ardm.load(tmp_path / "out").items.window == 9
    own = ["--init", str(tmp_path / "out"), "--data", here / "runs.txt", "--steps", "1"]
    output(capsys, training(here, tmp_path / "next", *own))
    assert ardm.load(tmp_path / "next").items.window == 9


def test_losses_by_the_share_that_is_hidden():
    bits = [4.0, 3.0, 2.0, 1.0]
    assert [loss_at(bits, share) for share in (1.0, 0.5, 0.25)] == [4.0, 2.0, 1.0]
    assert loss_at([math.nan, 1.0], 1.0) is None
    wide = [float(number) for number in range(100)]
    assert loss_at(wide, 0.5) == 50.0
    model = ardm.wrap(bert(), ardm.Vocabulary(BERT_TOKENS), length=3)
    score = model.score(["ACG"], passes=40)
    first, *shares = comparison(score, score)
    assert first == f"held out: {score.figure} before, {score.figure} after"
    assert len(shares) == 5


# What does not go together


@pytest.mark.parametrize("command", ["eval", "report calls"])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.fasta", ">a\nMKV\n>b\nMKJ\n", "a.fasta, b: unknown residue 'J' at position 2"),
        ("a.fasta", "", "a.fasta has no sequence"),
        ("a.fasta", ">a\nMK\n>b\n", "the sequence b in .*a.fasta is empty"),
        ("a.fasta", "MK\n", "is not FASTA: line 1 comes before the first line that begins with >"),
        ("a.txt", "\n \n", "a.txt has no sequence"),
        ("a.txt", "MKV\nM_V\n", r"has a hidden token \(_\), which has no probability; infill fills it"),
        ("a.txt", "[CLS]\n", "has no token but special ones"),
        ("a.smi", "", "a.smi has no sequence"),
        ("a.txt", b"MK\xff", "is not a text in UTF-8: byte 2 is not part of a character"),
        ("folder", None, "folder is a folder; give one file of sequences"),
        ("none.fasta", ..., "there is no file .*none.fasta"),
    ],
)
def test_bad_files_are_told_in_one_line(here, capsys, tmp_path, command, name, content, message):
    path = tmp_path / name
    if content is None:
        path.mkdir()
    elif content is not ...:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    status, error = fails(capsys, [*command.split(), f"hf:{here / 'protein'}", str(path)])
    assert status == 1
    assert re.search(message, error)
    assert "unexpected" not in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("eval @dna DATA --split test", "--split is not for masked language models: leave it out"),
        ("eval @dna DATA --diffusion-steps 3", "--diffusion-steps is not for masked language models: leave it out"),
        ("report calls @dna DATA --split test", "--split is not for masked language models: leave it out"),
        ("eval @dna DATA --pseudo --order raster", "--pseudo stands beside the bound: leave out --order and --calls"),
        ("eval @dna DATA --pseudo --calls 3", "--pseudo stands beside the bound: leave out --order and --calls"),
        ("eval @dna DATA --profile p.json --order raster", "--profile is measured by the bound"),
        ("eval @dna DATA --calls 0", "--calls must be positive, got 0"),
        ("eval @dna DATA --window 0", "the window must be positive, got 0"),
        ("eval @dna DATA --window 25", "the window must lie in 1..24, since the network has 26 positions; got 25"),
        ("eval @dna DATA --mask-id 9", "the mask must be one of the tokens 0..8, got mask_id=9"),
        ("eval @dna DATA --start-id 9", "the first token must be one of the tokens 0..8, got start_id=9"),
        ("eval @dna DATA --time hour", "the network has no argument 'hour' for the time"),
        ("eval @dna DATA --pattern (", "the pattern '(' is not a regular expression"),
        ("eval @dna DATA --token-dropout False", "this network has no token dropout, which is ESM-2's"),
        ("eval @dna DATA --losses none.npy", "there is no profile none.npy"),
        ("eval @dna DATA --device tpu", "device 'tpu' is not supported; use cpu or cuda"),
        ("infill @dna AC_ --particles 4", "--particles is not for masked language models: leave it out"),
        ("infill @dna AC_ --order strands", "strands order whole items only; choose another --order to fill gaps"),
        ("infill @dna ACG", "nothing to fill: mark each gap with _, or give a mask"),
        ("infill @dna ACG_T", "unknown base 'T' at position 4"),
        ("infill @dna ACG --mask 2:9", "the mask must lie in 0..2, got 2..9"),
        ("infill @dna AAAAAAAAAAAAACCCCCCCCCCCCC_", "the sequence has 27 tokens; this model fills up to 24"),
        ("sample @dna --size 25", "this model takes 1 to 24 tokens at once"),
        ("sample @dna --size 4x4", "--size is a number of tokens for a masked language model, got 4x4"),
        ("sample @dna --size 0", "--size is a number of tokens for a masked language model, got 0"),
        ("eval hf: DATA", "hf: is followed by a folder or a name on the Hugging Face hub, got ''"),
        ("eval @none DATA", "there is no such folder, and the Hugging Face hub gave no such model"),
        ("eval text DATA --pseudo", "--pseudo is for masked language models (hf:NAME)"),
        ("eval text DATA --format fasta", "--format is for masked language models (hf:NAME)"),
        ("sample text --trust-remote-code", "--trust-remote-code is for masked language models (hf:NAME)"),
        ("infill text a_c --pickled", "--pickled is for masked language models (hf:NAME)"),
        ("info text --window 3", "--window is for masked language models (hf:NAME)"),
        ("report calls text DATA --unit base", "--unit is for masked language models (hf:NAME)"),
        ("train text --init @dna --data DATA --out OUT", "a masked language model is trained by: ardm train masked"),
        ("train masked --init text --data DATA --out OUT --steps 1", "--init is a masked language model (hf:NAME or"),
        ("train masked --init @dna --data DATA --out OUT --steps 1", "3 sequences are too few to hold some out"),
        ("train masked --init @dna --data DATA --out OUT", "say how long to train: --steps or --minutes"),
        ("train masked --init @dna --data DATA --out OUT --steps 0", "--steps must be positive, got 0"),
        ("train masked --init @dna --data DATA --out DATA --steps 1", "is a file, but a folder is needed"),
        ("train masked --init @dna --data DATA --out MODEL --steps 1", "holds files; choose a new folder, or continue"),
        ("train masked --init @dna --data DATA --out MODEL --steps 1 --resume", "holds no training to continue"),
    ],
)
def test_what_does_not_go_together_is_told_in_one_line(here, capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    names = {"DATA": here / "dna.txt", "OUT": tmp_path / "out", "MODEL": here / "dna"}
    words = [str(names.get(word, word)).replace("@", f"hf:{here}/") for word in arguments.split()]
    status, error = fails(capsys, words)
    assert status in (1, 2)
    assert message in error
    assert "unexpected" not in error
    assert not (tmp_path / "out").exists()


def test_the_processes_of_torchrun_are_refused(here, capsys, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    status, error = fails(capsys, ["eval", f"hf:{here / 'dna'}", str(here / "dna.txt")])
    assert (status, "run in one process: start the command without torchrun" in error) == (2, True)
