"""The flags of `ardm train` are the configuration, with the values that a preset and the other arguments imply."""

import subprocess
import sys
from dataclasses import replace

import pytest
from invoke import fails

from ardm.cli.main import main, parse
from ardm.cli.messages import flags_of
from ardm.config import DepthConfig
from ardm.presets import PRESETS

PLACES = ["--data", "D", "--out", "R"]
HEAVY = ("torch", "numpy", "numba")


def config_of(*words: str):
    """The configuration that the arguments of `ardm train` give."""
    return parse(["train", *words, *PLACES]).config


def help_of(capsys, *words: str) -> str:
    """The words of a help text, without frames and line breaks."""
    with pytest.raises(SystemExit) as stop:
        main(["train", *words, "--help"])
    assert stop.value.code == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def named_flags(preset: str) -> list[str]:
    """The flags that `ardm train` has for a preset."""
    return [flag for name, flag in flags_of(parse(["train", preset, *PLACES])).items() if name != "preset"]


@pytest.mark.parametrize("name", PRESETS)
def test_without_flags_a_run_has_the_values_of_its_preset(name):
    assert config_of(name) == PRESETS[name]()


@pytest.mark.parametrize("name", PRESETS)
def test_help_shows_every_flag_of_a_preset(name, capsys):
    command = parse(["train", name, *PLACES])
    shown = help_of(capsys, name)
    assert all(f" {flag} " in shown for flag in named_flags(name))
    assert f"Training steps; a resumed run may be given more. (default: {command.config.train.steps})" in shown
    assert f"Peak rate of AdamW. (default: {command.config.train.learning_rate})" in shown


def test_help_without_a_preset_has_all_presets_and_flags(capsys):
    shown = help_of(capsys)
    for name, make in PRESETS.items():
        assert f" {name}: {make.__doc__.splitlines()[0]}" in shown
        assert all(
            f" {flag} " in shown for flag in flags_of(parse(["train", name, *PLACES])).values() if flag != "--preset"
        )
    assert "Channels of the network at each resolution, the full one first. (unet; default: the preset's)" in shown
    assert "(images; default: 3)" in shown
    assert "Seed of the initial weights and of all random draws. (default: 0)" in shown


@pytest.mark.parametrize("words", [["--help"], ["cifar10", "--help"], ["text", "--base", "4", "--help"]])
def test_help_imports_nothing_heavy(words):
    code = (
        "import sys; from ardm.cli.main import main\n"
        f"try: main({['train', *words]})\n"
        f"except SystemExit: print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_flags_change_fields_under_their_own_names():
    config = config_of(
        "text", "--item-length", "32", "--layers=2", "--diffusion-steps", "9", "--method", "d3pm-uniform"
    )
    assert (config.data.num_variables, config.network.num_layers, config.method.num_steps) == (32, 2, 9)
    config = config_of("cifar10", "--size", "48x16", "--train-on-all", "--widths", "8", "16", "--shards", "2")
    assert (config.data.shape, config.data.holds_out, config.train.num_shards) == ((16, 48, 3), False, 2)
    assert config.network.widths == (8, 16)
    assert not config_of("cifar10-paper", "--train-on-all").data.holds_out


def test_a_base_makes_the_parametrization_direct_except_for_the_papers_images():
    assert config_of("sc09", "--base", "4").depth == DepthConfig(base=4, parametrization="direct")
    paper = config_of("cifar10-paper", "--base=4").depth
    assert (paper.base, paper.parametrization) == (4, "data")
    assert config_of("text", "--base", "4", "--parametrization", "data").depth == DepthConfig(base=4)


def test_a_method_without_cross_entropy_has_no_weight_for_it():
    assert config_of("text8").train.cross_entropy_weight == 6
    assert config_of("text8", "--method", "causal").train.cross_entropy_weight == 0


def test_a_new_run_has_a_shard_per_process(monkeypatch):
    monkeypatch.setattr("ardm.cli.train.num_launched", lambda: 4)
    assert config_of("text").train == replace(PRESETS["text"]().train, num_shards=4)
    assert config_of("text", "--shards", "8").train.num_shards == 8


def test_the_preset_may_stand_anywhere():
    for words in (["--data", "text", "--out=images", "audio"], ["--resume", "audio", "--out", "text8", "--data", "d"]):
        assert parse(["train", *words]).config == PRESETS["audio"]()


def test_flags_of_another_preset_are_refused_by_name(capsys):
    flags = ["train", "text", *PLACES, "--widths", "8", "16", "--num-groups=4", "--size", "8x8"]
    told = "--num-groups, --size, --widths cannot be used with the preset text; see ardm train --help"
    assert fails(capsys, flags) == (2, f"ardm: {told}\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["text", "--num-components", "5"], "--num-components is for mixtures of logistics"),
        (["audio", "--base", "4", "--num-components", "5"], "--num-components is for mixtures of logistics"),
        (["text", "--base", "4", "--absorbing-value", "3"], "--absorbing-value is for order-agnostic models"),
    ],
)
def test_flags_without_effect_are_refused(words, line, capsys):
    status, told = fails(capsys, ["train", *words, *PLACES])
    assert status == 2
    assert told.startswith(f"ardm: {line}")


def test_flags_with_an_effect_are_accepted():
    assert config_of("audio", "--num-components", "5").depth.num_components == 5
    assert config_of("text", "--absorbing-value", "3").depth.absorbing_value == 3
