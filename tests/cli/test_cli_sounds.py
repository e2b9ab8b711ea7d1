"""The command line with sound: WAV files in, WAV files and spectrograms out."""

import json
from pathlib import Path

import numpy as np
import pytest
from invoke import fails, output

from ardm.cli.main import main
from ardm.data.images import read_image
from ardm.data.sound_files import write_wav
from ardm.data.sounds import read_clip
from ardm.errors import UsageError
from ardm.media.sounds.medium import time_ranges
from ardm.media.sounds.spectrograms import Panel, draw_spectrograms

SMALL = ["--item-length", "64", "--widths", "8", "12", "--depths", "1", "1", "--batch-size", "4", "--steps", "6"]
RATE = 100


def save(path: Path, num_samples: int, rate: int = RATE, seed: int = 0) -> Path:
    noise = np.random.default_rng(seed).normal(0, 500, num_samples).astype(np.int16)
    write_wav(path, noise, rate)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A folder with sounds in `data` and runs of two kinds of models."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "data").mkdir()
    for i in range(6):
        save(folder / "data" / f"{i}.wav", 150 + i, seed=i)
    base = ["train", "audio", "--data", str(folder / "data"), *SMALL]
    assert main([*base, "--out", str(folder / "run")]) == 0
    assert main([*base, "--out", str(folder / "upscale"), "--base", "16"]) == 0
    return folder


@pytest.mark.parametrize("name", ["run", "upscale"])
@pytest.mark.parametrize("flags", [[], ["--order", "halton", "--calls", "12"], ["--calls", "9"]])
def test_eval_gives_bits_per_sample(run, capsys, name, flags):
    shown = output(capsys, ["eval", str(run / name), str(run / "data"), *flags])
    assert "bits/sample" in shown
    assert "items of data, test split" in shown
    result = json.loads(output(capsys, ["eval", str(run / name), str(run / "data"), *flags, "--json"]))
    assert 5 < result["bits_per_dim"] < 20


def test_eval_of_a_folder_with_two_sounds_scores_them(run, capsys, tmp_path):
    for i in range(2):
        save(tmp_path / f"{i}.wav", 64, seed=i)
    assert f"2 of 2 items of {tmp_path.name}, the whole data" in output(
        capsys, ["eval", str(run / "run"), str(tmp_path)]
    )


def test_eval_of_one_sound_names_the_file_whatever_the_model(run, capsys, tmp_path):
    digits = tmp_path / "digits"
    for i, name in enumerate(("none.txt", "validation_list.txt", "testing_list.txt")):
        save(digits / "one" / f"{i}.wav", 150, rate=16_000, seed=i)
        (digits / name).write_text(f"one/{i}.wav\n")
    assert main(["train", "sc09-small", "--data", str(digits), *SMALL, "--out", str(tmp_path / "run")]) == 0
    for model, rate in ((run / "run", RATE), (tmp_path / "run", 16_000)):
        sound = save(tmp_path / "one.wav", 150, rate=rate)
        shown = output(capsys, ["eval", str(model), str(sound)])
        assert shown.endswith("; 2 of 2 items of one.wav\n")
    for i in range(2):  # other sounds have no test split, even for a model of published ones
        save(tmp_path / "own" / f"{i}.wav", 64, rate=16_000, seed=i)
    assert "2 of 2 items of own, the whole data" in output(
        capsys, ["eval", str(tmp_path / "run"), str(tmp_path / "own")]
    )
    assert ", test split" in output(capsys, ["eval", str(tmp_path / "run"), str(digits)])


def test_clips_left_out_are_told_when_training_and_scoring(run, capsys, tmp_path):
    for i in range(6):
        save(tmp_path / "data" / f"{i}.wav", 63 if i in (2, 3) else 64, seed=i)
    told = "data (2 of 6 clips shorter than a window left out)"
    shown = output(capsys, ["eval", str(run / "run"), str(tmp_path / "data")])
    assert f"4 of 4 items of {told}, the whole data" in shown
    assert main(["train", "audio", "--data", str(tmp_path / "data"), *SMALL, "--out", str(tmp_path / "run")]) == 0
    assert f"items of 64 from {told}; 6 steps" in capsys.readouterr().err


def test_samples_are_sound_or_pictures(run, capsys, tmp_path):
    base = ["sample", str(run / "run"), "--calls", "5", "--seed", "4", "-o"]
    output(capsys, [*base, str(tmp_path / "one.wav")])
    clip = read_clip(tmp_path / "one.wav")
    assert (len(clip.samples), clip.rate) == (64, RATE)
    output(capsys, [*base, str(tmp_path / "long.wav"), "--size", "0.9"])
    assert len(read_clip(tmp_path / "long.wav").samples) == 90
    output(capsys, [*base, str(tmp_path / "two.wav"), "-n", "2"])
    assert {f.name for f in tmp_path.glob("two*")} == {"two-1.wav", "two-2.wav"}
    output(capsys, [*base, str(tmp_path / "two.png"), "-n", "2"])
    sounds = [read_clip(tmp_path / f"two-{i}.wav").samples for i in (1, 2)]
    panels = [Panel(sound=sound, title=f"sample {i}") for i, sound in enumerate(sounds, 1)]
    assert np.array_equal(read_image(tmp_path / "two.png", 3), draw_spectrograms(panels, 2, RATE))
    values = json.loads(output(capsys, [*base[:-1], "--json"]))
    assert values["samples"] == [clip.samples.tolist()]
    assert values["rate"] == RATE


@pytest.mark.parametrize("name", ["run", "upscale"])
def test_a_chain_is_a_row_of_spectrograms(run, capsys, tmp_path, name):
    flags = ["-n", "2", "--calls", "20", "--chain"]
    output(capsys, ["sample", str(run / name), *flags, "-o", str(tmp_path / "c.png")])
    chains = json.loads(output(capsys, ["sample", str(run / name), *flags, "--json"]))["chains"]
    panels = [
        Panel(sound=np.array(state, np.int16), title=title if i == 1 else "", group=f"sample {i}")
        for i, chain in enumerate(chains, 1)
        for state, title in zip(chain, ("call 1", "call 5", "call 10", "call 15", "call 20"), strict=True)
    ]
    assert np.array_equal(read_image(tmp_path / "c.png", 3), draw_spectrograms(panels, 5, RATE))


def test_files_that_nobody_named_are_told(run, capsys, tmp_path):
    base = ["sample", str(run / "run"), "--calls", "5", "-o"]

    def told(*arguments: str) -> str:
        capsys.readouterr()
        assert main([*base, *arguments]) == 0
        return capsys.readouterr().err

    assert told(str(tmp_path / "one.wav")) == ""
    assert told(str(tmp_path / "s.wav"), "-n", "3") == f"wrote 3 files: {tmp_path}/s-1.wav to s-3.wav\n"
    assert told(str(tmp_path / "c.wav"), "-n", "2", "--chain") == (
        f"wrote 10 files: {tmp_path}/c-1.wav to c-10.wav, 5 states of each sample in turn\n"
    )


def test_json_goes_to_files_of_that_name(run, capsys, tmp_path):
    path = tmp_path / "s.json"
    output(capsys, ["sample", str(run / "run"), "--calls", "5", "--json", "-o", str(path)])
    assert json.loads(path.read_text())["rate"] == RATE


@pytest.mark.parametrize("name", ["run", "upscale"])
def test_infill_keeps_what_is_given(run, capsys, tmp_path, name):
    sound = save(tmp_path / "sound.wav", 120)
    flags = ["--mask", "0.25:0.5,1:1.2", "--calls", "8", "-o", str(tmp_path / "filled.wav")]
    output(capsys, ["infill", str(run / name), str(sound), *flags])
    given, filled = read_clip(sound).samples, read_clip(tmp_path / "filled.wav").samples
    inside = np.zeros(120, bool)
    inside[25:50] = inside[100:120] = True
    assert np.array_equal(filled[~inside], given[~inside])
    assert (filled[inside] != given[inside]).mean() > 0.9


@pytest.mark.parametrize("mask", ["0.25:0.5,0.6:0.7", ".25:.5,.6:.7", "0.25:0.5, 0.6:0.7", " .25:0.50 ,.6:.7"])
def test_ranges_of_time_are_written_in_many_ways(mask):
    expected = np.zeros(120, bool)
    expected[25:50] = expected[60:70] = True
    assert np.array_equal(time_ranges(mask, 120, RATE), expected)


@pytest.mark.parametrize("mask", ["", ".:.5", "0.25", "0.1:0.2,", "0 1:2", "1:2:3", "-1:2", "0:1e3", "0:" + "9" * 400])
def test_what_is_no_range_of_time_is_refused(mask):
    with pytest.raises(UsageError, match="--mask must be ranges of time in seconds such as 0.25:0.5,0.8:1; got"):
        time_ranges(mask, 120, RATE)


def test_no_file_is_lost(run, capsys, tmp_path):
    sound = save(tmp_path / "sound.wav", 120)
    before = sound.read_bytes()
    status, error = fails(capsys, ["infill", str(run / "run"), str(sound), "--mask", "0:1", "-o", str(sound)])
    assert (status, sound.read_bytes()) == (2, before)
    assert "is the input or the mask itself" in error
    save(tmp_path / "s-2.wav", 10)
    status, error = fails(capsys, ["sample", str(run / "run"), "-n", "3", "-o", str(tmp_path / "s.wav")])
    assert status == 2
    assert "s-2.wav already exists" in error


def test_the_chain_of_an_upscale_model_begins_in_the_middle(run, capsys):
    flags = ["sample", str(run / "upscale"), "--calls", "16", "--schedule", "uniform", "--chain", "--json"]
    first, *_, last = json.loads(output(capsys, flags))["chains"][0]
    assert (np.array(first) == -1).sum() == 48  # hidden: half way from -32768 to 32767, rounded down
    assert (np.array(last) == -1).sum() < 10


def test_plan_info_and_report(run, capsys):
    plan = json.loads(output(capsys, ["plan", str(run / "upscale"), "--calls", "10", "--json"]))
    assert sum(plan["calls"]) == 10
    info = json.loads(output(capsys, ["info", str(run / "run"), "--json"]))
    assert (info["shape"], info["classes"], info["sample_rate"]) == ([64], 65536, RATE)
    table = output(capsys, ["report", "calls", str(run / "run"), str(run / "data"), "--calls", "5", "--items", "2"])
    assert "bits/sample" in table


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "run"], "sound goes to a file: give one with -o"),
        (["sample", "run", "-o", "s.mp3"], "ends in .wav for sound or .png"),
        (["sample", "run", "-o", "s.wav", "--json"], "--json writes JSON: give a name that ends in .json"),
        (["infill", "run", "sound.wav", "-o", "s.WAV", "--json", "--mask", "0:1"], "or leave out --json; got s.WAV"),
        (["sample", "run", "-o", "s.wav", "--size", "1x1"], "a duration in seconds"),
        (["sample", "run", "-o", "s.wav", "--size", "99999"], "too many for one item"),
        (["infill", "run", "sound.wav", "-o", "s.wav"], "say what to fill: --mask START:STOP"),
        (["infill", "run", "sound.wav", "-o", "s.wav", "--mask", "1:0.5"], "--mask 1:0.5 ends before it begins"),
        (["infill", "run", "sound.wav", "-o", "s.wav", "--mask", "1:3"], "does not lie within the clip's 1.2 seconds"),
        (["infill", "run", "sound.wav", "-o", "s.wav", "--mask", "all"], "must be ranges of time in seconds"),
        (["infill", "run", "fast.wav", "-o", "s.wav", "--mask", "0:0.1"], "has 8000 samples per second"),
        (
            ["infill", "run", "sound.wav", "-o", "s.wav", "--mask", "0:0.001"],
            "--mask 0:0.001 holds no sample; samples are 0.01 seconds apart",
        ),
        (["infill", "run", "sound.wav", "-o", "s.wav", "--mask", "0.5:0.5"], "--mask 0.5:0.5 holds no sample"),
        (["infill", "run", "sound.wav", "-o", "s.wav", "--mask", "9:9"], "does not lie within the clip's 1.2 seconds"),
        (["eval", "run", "fast.wav"], "fast.wav has 8000 samples per second, but this model is for 100; resample it"),
        (["eval", "run", "fast"], "fast has 8000 samples per second, but this model is for 100; resample it"),
        (["train", "audio", "--data", "data", "--out", "new", "--size", "8x8"], "--size cannot be used with"),
        (
            ["train", "audio", "--data", "data", "--out", "new", "--augmentation", "flips and turns"],
            "sound is augmented by flips (upside down) or not at all",
        ),
        (
            ["train", "audio", "--data", "data", "--out", "new", "--base", "4", "--parametrization", "logistic"],
            "one stage",
        ),
        (["train", "audio", "--data", "data", "--out", "new", "--min-log-scale", "nan"], "must lie in -50..0"),
        (
            ["train", "audio", "--data", "data", "--out", "new", "--base", "4", "--min-log-scale", "-7"],
            "is for mixtures",
        ),
        (["sample", "run", "-o", "s.wav", "--top-p", "0.5"], "top-p needs a list of classes"),
    ],
)
def test_bad_usage(run, capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "data"):
        (tmp_path / name).symlink_to(run / name)
    save(tmp_path / "sound.wav", 120)
    for name in ("fast.wav", "fast/1.wav"):
        save(tmp_path / name, 120, rate=8000)
    status, error = fails(capsys, arguments)
    assert message in error
    assert status == 2
    assert not (tmp_path / "s.wav").exists()
