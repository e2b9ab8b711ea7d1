"""Baselines as runs: configuration, training, files and the command line.

What each method computes is tested beside it (test_d3pm.py, test_causal.py).
"""

import json
from dataclasses import replace

import pytest
import torch
from invoke import fails, output
from tiny import TEXT, random_images, random_sounds, tiny_config, tiny_corpus, tiny_image_config, tiny_sound_config

from ardm.baselines import methods
from ardm.baselines.causal import Autoregressive
from ardm.baselines.d3pm import D3PM, bound_all_steps, from_ardm
from ardm.baselines.methods import NOISE_LEVELS
from ardm.build import build_model
from ardm.checkpoint import TrainedBaseline, load_any, load_model
from ardm.cli.main import main
from ardm.config import (
    DepthConfig,
    MethodConfig,
    PaperTransformerConfig,
    PaperUNetConfig,
    PaperWaveNetConfig,
    RunConfig,
)
from ardm.errors import CheckpointError
from ardm.likelihood import bound, mean_bits, schedule_bits_bound
from ardm.model import ARDM
from ardm.planner import plan
from ardm.presets import PRESETS
from ardm.profile import monotone
from ardm.runtime.device import Runtime
from ardm.train.loop import run_training
from ardm.train.run_folder import restore_state
from ardm.train.trainer import Trainer

CPU = Runtime(device=torch.device("cpu"))
TEXT_METHODS = ["d3pm-absorbing", "d3pm-uniform", "permuted", "causal"]
SMALL_WAVENET = PaperWaveNetConfig(num_blocks=2, width=8, dilation_cycle=2)
each_text_method = pytest.mark.parametrize("name", TEXT_METHODS)


def with_method(config: RunConfig, name: str, **changes: object) -> RunConfig:
    return replace(config, method=MethodConfig(name=name, num_steps=10), **changes)


CASES = {
    **{name: lambda name=name: with_method(tiny_config(), name) for name in TEXT_METHODS},
    "paper transformer, uniform": lambda: with_method(
        tiny_config(), "d3pm-uniform", network=PaperTransformerConfig(num_layers=1, width=16, num_heads=2, mlp_width=16)
    ),
    "images, absorbing": lambda: with_method(tiny_image_config(), "d3pm-absorbing"),
    "images, gaussian": lambda: with_method(tiny_image_config(), "d3pm-gaussian"),
    "paper U-Net, gaussian": lambda: with_method(
        tiny_image_config(), "d3pm-gaussian", network=PaperUNetConfig(num_blocks=1, width=8, num_groups=2)
    ),
    "WaveNet": lambda: with_method(tiny_sound_config(), "causal", network=SMALL_WAVENET),
}


def corpus_of(config: RunConfig, tmp_path):
    if config.data.medium == "text":
        return tiny_corpus(tmp_path)
    return random_images() if config.data.medium == "images" else random_sounds()


@pytest.mark.parametrize("case", CASES)
def test_every_baseline_trains_resumes_to_the_bit_and_loads(case, tmp_path):
    config = CASES[case]()
    corpus = corpus_of(config, tmp_path)
    whole, parts = Trainer(config, corpus, CPU), Trainer(config, corpus, CPU)
    run_training(whole, tmp_path / "whole")
    run_training(parts, tmp_path / "parts", stop=lambda: parts.step == 7)
    resumed = Trainer(config, corpus, CPU)
    restore_state(resumed, tmp_path / "parts")
    run_training(resumed, tmp_path / "parts")
    for (name, a), b in zip(whole.averaged.named_parameters(), resumed.averaged.parameters(), strict=True):
        assert torch.equal(a, b), name
    loaded = load_any(tmp_path / "whole")
    assert isinstance(loaded, TrainedBaseline)
    assert RunConfig.from_dict(json.loads((tmp_path / "whole" / "config.json").read_text())) == loaded.config == config
    for (name, a), b in zip(whole.averaged.named_parameters(), loaded.model.parameters(), strict=True):
        assert torch.equal(a, b), name
    lines = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == config.train.steps
    assert 0 < lines[-1]["valid_bits"] < 40


@each_text_method
def test_training_learns(name, tmp_path):
    config = with_method(tiny_config(steps=150, learning_rate=1e-2), name)
    trainer = Trainer(config, tiny_corpus(tmp_path), CPU)
    before = trainer.evaluate(4)["valid_bits"]
    for _ in range(config.train.steps):
        trainer.train_step()
    assert trainer.evaluate(4)["valid_bits"] < 0.8 * before


def test_a_trained_ardm_is_the_limit_of_d3pms_and_its_plans_beat_them(tmp_path, generator):
    """T times the excess of a D3PM with T steps tends to a constant; as many planned calls cost less."""
    trainer = Trainer(tiny_config(steps=200, learning_rate=1e-2), tiny_corpus(tmp_path), CPU)
    for _ in range(200):
        trainer.train_step()
    model = trainer.averaged
    assert isinstance(model, ARDM)
    x = torch.from_numpy(trainer.corpus.items("test", (16,))[:6]).long().repeat(100, 1)
    ardm = bound(model, x, generator, num_passes=100, batch_size=600)
    excess = {}
    for num_steps in (4, 16, 64, 256):
        d3pm = bound_all_steps(from_ardm(model, num_steps), x, generator, batch_size=600)
        excess[num_steps] = d3pm.bits_per_dim - ardm.bits_per_dim
    assert excess[4] > 2 * excess[16] > 4 * excess[64] > 0
    assert abs(excess[256]) < 0.02 < excess[16]
    losses = monotone(ardm.profile.bits.cpu().numpy(), ardm.profile.counts.cpu().numpy(), method="smooth")
    for num_calls in (4, 8):
        schedule = plan(losses, num_calls).schedule
        planned = mean_bits(schedule_bits_bound(model, x, schedule, generator), 16, "planned", is_exact=False)
        d3pm = bound_all_steps(from_ardm(model, num_calls), x, generator, batch_size=600)
        assert planned.bits_per_dim < d3pm.bits_per_dim


def test_the_noise_level_reaches_networks_without_a_step():
    model = build_model(with_method(tiny_config(), "d3pm-uniform"), 5)
    assert isinstance(model, D3PM)
    with torch.no_grad():
        model.network.head.weight.normal_()  # which starts at zero
    x = torch.zeros(2, 16, dtype=torch.long)
    first, last = model._logits(x, torch.tensor([1, 10]))  # before they are weighted by the noise
    assert not torch.allclose(first, last)
    stages = []
    model.network.forward = lambda inputs, mask, stage, t: stages.append(stage) or torch.zeros(*inputs.shape, 5)
    model(torch.zeros(10, 16, dtype=torch.long), torch.arange(1, 11))
    assert stages[0].tolist() == [(step - 1) * NOISE_LEVELS // 10 for step in range(1, 11)]


def test_what_networks_of_baselines_are():
    for name, kind in (("d3pm-absorbing", D3PM), ("permuted", Autoregressive), ("causal", Autoregressive)):
        assert isinstance(build_model(with_method(tiny_config(), name), 5), kind)
    sizes = [
        sum(p.numel() for p in build_model(with_method(tiny_config(), n), 5).parameters()) for n in ("ardm", "causal")
    ]
    assert sizes[0] == sizes[1]  # the same trunk


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: MethodConfig(name="d3pm-uniform", num_steps=0),
            "a d3pm-uniform model has 1 to 1000000 steps of noise, got 0",
        ),
        (lambda: with_method(tiny_config(), "causal", depth=DepthConfig(base=2)), "causal has no stages"),
        (lambda: with_method(tiny_config(order="raster"), "permuted"), "permuted is not trained for an order"),
        (lambda: with_method(tiny_config(), "d3pm-gaussian"), "characters are not; use d3pm-uniform"),
        (lambda: with_method(tiny_sound_config(), "d3pm-uniform"), "needs a logit for each class"),
        (lambda: with_method(tiny_sound_config(), "causal"), "causal does not support a unet network: it is for text"),
        (lambda: with_method(tiny_image_config(), "permuted"), "permuted does not support a unet network"),
        (
            lambda: with_method(tiny_sound_config(), "permuted", network=SMALL_WAVENET),
            "permuted does not support a paper-wavenet network",
        ),
    ],
)
def test_combinations_that_cannot_be(make, text):
    with pytest.raises(ValueError, match=text) as error:
        make()
    assert "\n" not in str(error.value)


def test_configurations_of_older_versions_are_of_ardms():
    values = PRESETS["text8"]().to_dict()
    values["method"]["name"] = "flow"
    with pytest.raises((ValueError, TypeError)):
        RunConfig.from_dict(values)
    del values["method"]
    assert RunConfig.from_dict(values) == PRESETS["text8"]()


# The command line

SIZES = {"steps": 6, "batch-size": 4, "item-length": 16, "layers": 1, "width": 32, "head-width": 16, "kernel": 1}
TRAIN = [word for flag, value in SIZES.items() for word in (f"--{flag}", str(value))]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a text and a run of each method on it."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text(TEXT)
    for name in (*TEXT_METHODS, "ardm"):
        steps = ["--diffusion-steps", "12"] if name.startswith("d3pm") else []
        out = ["--data", str(folder / "text.txt"), "--out", str(folder / name)]
        assert main(["train", "text", "--method", name, *out, *TRAIN, *steps]) == 0
    return folder


@each_text_method
def test_eval_scores_a_baseline(runs, name, capsys, tmp_path):
    arguments = ["eval", str(runs / name), str(runs / "text.txt"), "--items", "6"]
    assert "bits/char" in output(capsys, arguments)
    assert output(capsys, [*arguments, "--json", "-o", str(tmp_path / "eval.json")]) == ""
    record = json.loads((tmp_path / "eval.json").read_text())
    assert record["model"] | {"parameters": 0} == {
        "preset": "text",
        "method": name,
        "parameters": 0,
        "step": 6,
        "seed": 0,
    }
    assert record["seed"] == 0
    assert record["hardware"].keys() == {"device", "cpu", "torch", "ardm"}
    assert record["is_exact"] == (name == "causal")
    assert 1 < record["bits_per_dim"] < 6


def test_eval_scores_an_ardm_as_a_d3pm(runs, capsys):
    bits = {}
    for name in ("ardm", "d3pm-absorbing"):
        for steps in (2, 1000):
            flags = ["--diffusion-steps", str(steps), "--passes", "8", "--json"]
            record = json.loads(output(capsys, ["eval", str(runs / name), str(runs / "text.txt"), *flags]))
            assert record["estimator"] == f"bound of {steps} steps of diffusion, stratified, 8 passes"
            bits[name, steps] = record["bits_per_dim"]
    assert len({*bits.values()}) == 4
    assert all(value > 1 for value in bits.values())


@each_text_method
def test_a_baseline_samples(runs, name, capsys):
    plain = output(capsys, ["sample", str(runs / name), "-n", "2"])
    assert [len(line) for line in plain.splitlines()] == [16, 16]
    chain = json.loads(output(capsys, ["sample", str(runs / name), "-n", "2", "--chain", "--json"]))
    assert chain["chains"][0][-1] in plain
    if name == "d3pm-absorbing":
        assert json.loads(output(capsys, ["sample", str(runs / name), "--calls", "5", "--json"]))["calls"] == 5


def test_info_describes_a_baseline(runs, capsys):
    facts = json.loads(output(capsys, ["info", str(runs / "d3pm-uniform"), "--json"]))
    assert (facts["method"], facts["diffusion_steps"]) == ("d3pm-uniform", 12)
    assert "stages" not in facts


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("infill RUNS/causal th_", "RUNS/causal holds a baseline (causal), not an ARDM; ardm eval and ardm sample"),
        ("plan RUNS/permuted --calls 3", "holds a baseline (permuted)"),
        ("export RUNS/d3pm-uniform -o x.model", "holds a baseline (d3pm-uniform)"),
        ("report calls RUNS/causal RUNS/text.txt", "holds a baseline (causal)"),
        ("eval RUNS/causal RUNS/text.txt --calls 3", "leave out --calls, --schedule, --order, --profile"),
        ("eval RUNS/ardm RUNS/text.txt --diffusion-steps 9 --order raster", "a D3PM has no schedule, order or profile"),
        ("eval RUNS/ardm RUNS/text.txt --diffusion-steps 9 --schedule uniform", "leave out --calls, --schedule"),
        ("eval RUNS/causal RUNS/text.txt --diffusion-steps 9", "an autoregressive baseline has no diffusion steps"),
        ("eval RUNS/d3pm-uniform RUNS/text.txt --diffusion-steps 9", "only a D3PM with the absorbing process"),
        ("eval RUNS/ardm RUNS/text.txt --diffusion-steps 0", "--diffusion-steps must be positive"),
        ("sample RUNS/causal --order raster", "a baseline samples as it was trained"),
        ("sample RUNS/causal --calls 4", "an autoregressive baseline has no diffusion steps"),
        ("sample RUNS/d3pm-uniform --calls 4", "only a D3PM with the absorbing process"),
        ("train text --data RUNS/text.txt --out X --method causal --base 2", "causal has no stages"),
        ("train text --data RUNS/text.txt --out X --method causal --cross-entropy-weight 1", "has no cross-entropy"),
        ("train text --data RUNS/text.txt --out X --diffusion-steps 9", "--diffusion-steps is for D3PMs"),
        ("train text --data RUNS/text.txt --out X --method permuted", "permuted needs --kernel 1"),
        (
            "train text --data RUNS/text.txt --out X --method causal --init RUNS/ardm --item-length 16",
            "leave out --init",
        ),
        ("train text --data RUNS/text.txt --out X --init RUNS/causal", "holds a baseline (causal)"),
        ("train text --data RUNS/text.txt --out RUNS/causal --resume --method permuted", "a different method; resume"),
    ],
)
def test_what_baselines_cannot_do_is_said_in_one_line(runs, arguments, text, capsys, tmp_path):
    words = [w.replace("RUNS", str(runs)).replace("X", str(tmp_path / "x")) for w in arguments.split()]
    _, error = fails(capsys, words)
    assert text.replace("RUNS", str(runs)) in error


def test_a_baseline_is_no_model(runs):
    with pytest.raises(CheckpointError, match="holds a baseline"):
        load_model(runs / "causal")


@each_text_method
def test_methods_are_used_in_eval_mode_and_train_on_classes_alone(name, generator):
    model = build_model(with_method(tiny_config(), name), 5)
    x, seen = torch.zeros(2, 16, dtype=torch.long), []
    model.network.register_forward_pre_hook(lambda module, arguments: seen.append(module.training))
    methods.score(model, x, generator)
    for _ in methods.sample_chain(model, 1, generator):
        assert model.network.training
    assert not any(seen)
    assert all(module.training for module in model.modules())
    with pytest.raises(ValueError, match=r"values must lie in 0\.\.4, got -1\.\.0"):
        model.losses(x - (torch.arange(16) == 3).long(), generator)
