"""A coding model from training to the command line and the library."""

import math
from dataclasses import replace

import pytest
import torch
from invoke import fails, output
from tiny import TEXT, tiny_config, tiny_corpus

import ardm
from ardm.checkpoint import TrainedCoding, load_any
from ardm.cli.main import main, parse
from ardm.config import MethodConfig, RunConfig
from ardm.errors import CheckpointError, DataError, UsageError
from ardm.presets import PRESETS, coding
from ardm.runtime.device import Runtime
from ardm.train.trainer import Trainer

SIZES = ["--layers", "1", "--width", "32", "--head-width", "16", "--item-length", "16", "--batch-size", "8"]
TIMES = ["--steps", "12", "--eval-items", "4", "--eval-every", "5", "--checkpoint-every", "4", "--log-every", "3"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a short run."""
    folder = tmp_path_factory.mktemp("coding")
    (folder / "text.txt").write_text(TEXT)
    places = ["--data", str(folder / "text.txt"), "--out", str(folder / "run")]
    assert main(["train", "text", "--coding", *places, *SIZES, *TIMES]) == 0
    return folder / "run"


def test_the_flag_is_one_method_with_a_kernel_and_some_decay():
    config = parse(["train", "text8-small", "--coding", "--data", "D", "--out", "R"]).config
    assert config == coding(PRESETS["text8-small"]())
    assert config == parse(["train", "text8-small", "--method", "coding", "--data", "D", "--out", "R"]).config
    assert (config.method.name, config.network.kernel, config.train.weight_decay) == ("coding", 7, 0.03)
    assert RunConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["text", "--coding", "--method", "causal"], "--coding is a method of its own"),
        (["images", "--coding"], "a coding model is for text"),
        (["text", "--coding", "--order", "strands"], "not trained for an order"),
        (["text", "--coding", "--base", "4"], "no stages"),
        (["text", "--coding", "--cross-entropy-weight", "1"], "no cross-entropy"),
    ],
)
def test_what_cannot_go_together(words, told, capsys, tmp_path):
    assert told in fails(capsys, ["train", *words, "--data", str(tmp_path), "--out", str(tmp_path / "run")])[1]


def test_a_resumed_run_is_the_same_to_the_bit(tmp_path):
    config = replace(tiny_config(cross_entropy_weight=0.0), method=MethodConfig(name="coding"))
    corpus, runtime = tiny_corpus(tmp_path), Runtime(device=torch.device("cpu"))
    whole, first = Trainer(config, corpus, runtime), Trainer(config, corpus, runtime)
    for _ in range(6):
        whole.train_step()
    for _ in range(3):
        first.train_step()
    second = Trainer(config, corpus, runtime)
    second.load_state_tensors(first.state_tensors())
    second.step = 3
    for _ in range(3):
        second.train_step()
    for own, expected in zip(second.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(own, expected)
    assert set(whole.evaluate()) >= {"valid_bits", "valid_bits_raster"}


def test_a_file_keeps_the_model(run, tmp_path):
    trained = load_any(run)
    assert isinstance(trained, TrainedCoding)
    model = ardm.load(run)
    ardm.save(model, tmp_path / "model.safetensors")
    again = ardm.load(tmp_path / "model.safetensors")
    assert again.score("the cat").bits == model.score("the cat").bits
    assert repr(model).startswith("Coding model of text: 16 variables, 13 classes")


def test_scores_are_exact_for_texts_of_any_length(run):
    model = ardm.load(run)
    texts = ["the cat", "the hat", "the cat sat on the mat and the rat", "a"]
    score = model.score(texts, calls=4)
    assert score.is_exact
    assert score.estimator == "exact, strands, 4 calls"
    assert score.num_variables.tolist() == [7, 7, 34, 1]
    for text, bits in zip(texts, score.bits, strict=True):
        x = torch.from_numpy(model.items.alphabet.encode(text.encode(), "").astype("int64"))[None]
        assert model.model.bits(x, calls=4).item() == pytest.approx(bits, rel=1e-5)
    assert model.score(texts).estimator == "exact, left to right"
    assert model.score("the cat sat on the mat", window=5).bits_per_dim < 2 * math.log2(13)


def test_samples_have_the_alphabet(run):
    model = ardm.load(run)
    drawn = model.sample(3, calls=4, seed=1)
    assert [len(text) for text in drawn] == [16, 16, 16]
    assert drawn == model.sample(3, calls=4, seed=1)
    assert set("".join(drawn)) <= set(TEXT)


@pytest.mark.parametrize("verb", ["infill", "conditional", "table", "measure", "plan"])
def test_other_verbs_say_what_to_train(verb, run):
    with pytest.raises(UsageError, match="train an order-agnostic model for this: ardm train without --coding"):
        getattr(ardm.load(run), verb)("th_ cat")


def test_wrong_values_are_refused_in_one_line(run):
    model = ardm.load(run)
    for call, told in (
        (lambda: model.score("cat", order="halton"), "not in the order halton"),
        (lambda: model.score("cat", order="raster", calls=3), "a call per character"),
        (lambda: model.score("cat", order="strands"), "need a number of calls"),
        (lambda: model.score("cat", calls=0), "calls must be positive"),
        (lambda: model.sample(0), "must be positive"),
    ):
        with pytest.raises(UsageError, match=told):
            call()
    with pytest.raises(DataError, match="the text is empty"):
        model.score([""])


def test_the_command_line_scores_and_draws(run, capsys):
    data = str(run.parent / "text.txt")
    assert "exact, left to right" in output(capsys, ["eval", str(run), data])
    assert "exact, strands, 4 calls" in output(capsys, ["eval", str(run), data, "--calls", "4"])
    assert "not in the order halton" in fails(capsys, ["eval", str(run), data, "--order", "halton"])[1]
    assert "no loss profile" in fails(capsys, ["eval", str(run), data, "--profile", "p.npy"])[1]
    assert len(output(capsys, ["sample", str(run), "--calls", "4", "-n", "2"]).splitlines()) >= 2
    assert "coding" in output(capsys, ["info", str(run)])


@pytest.mark.parametrize("words", [["infill", "RUN", "th_ cat"], ["plan", "RUN", "--calls", "4"]])
def test_commands_for_other_orders_say_what_to_train(words, run, capsys):
    words = [str(run) if word == "RUN" else word for word in words]
    assert "train an order-agnostic model: ardm train without --coding" in fails(capsys, words)[1]


def test_only_an_order_agnostic_model_loads_as_one(run):
    with pytest.raises(CheckpointError, match="holds a coding model"):
        ardm.tasks.load.load(run)


def test_an_exported_run_is_exact(run, tmp_path, capsys):
    model = tmp_path / "exact.model"
    shown = output(capsys, ["export", str(run), "-o", str(model), "--items", "8", "--valid-items", "4", "--calls", "4"])
    assert "codes in 4 calls, strands order" in shown
    assert "rounding: " in shown
    trained = load_any(model)
    assert isinstance(trained, TrainedCoding)
    assert trained.exact is not None
    texts = ardm.load(model)
    assert texts.is_exact
    floats = ardm.load(run).score(["the cat sat on the"], calls=4)
    assert texts.score(["the cat sat on the"], calls=4).bits == pytest.approx(floats.bits, rel=0.05)
    for arguments, told in (
        ([str(model)], "is already an exact model"),
        ([str(run), "--order", "raster"], "leave out --order"),
    ):
        assert told in fails(capsys, ["export", *arguments, "-o", str(tmp_path / "other.model")])[1]
