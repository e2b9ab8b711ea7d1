"""The command line with images: a folder of them in, PNG files out."""

import json
from pathlib import Path

import numpy as np
import pytest
from invoke import fails, output
from PIL import Image

from ardm.cli.main import main

SMALL = ["--size", "8x6", "--widths", "8", "12", "--depths", "1", "1", "--batch-size", "4", "--steps", "6"]


def save(path: Path, height: int, width: int, mode: str = "RGB", seed: int = 0) -> Path:
    channels = {"L": 1, "RGB": 3, "RGBA": 4}[mode]
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
    Image.fromarray(pixels.squeeze()).save(path)
    return path


def read(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A folder with images in `data` and runs of three kinds of models."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "data").mkdir()
    (folder / "grey").mkdir()
    for i in range(6):
        save(folder / "data" / f"{i}.png", 12 + i, 17, seed=i)
        save(folder / "grey" / f"{i}.png", 9, 8, "L", seed=i)
    base = ["train", "images", *SMALL]
    data, grey = ["--data", str(folder / "data")], ["--data", str(folder / "grey"), "--channels", "1"]
    assert main([*base, *data, "--out", str(folder / "run")]) == 0
    assert main([*base, *grey, "--out", str(folder / "grey-run"), "--augmentation", "flips and turns"]) == 0
    upscale = ["--base", "4", "--parametrization", "direct"]
    assert main([*base, *data, "--out", str(folder / "upscale"), *upscale]) == 0
    return folder


@pytest.mark.parametrize("name", ["run", "upscale"])
@pytest.mark.parametrize("flags", [[], ["--order", "spaced", "--calls", "12"], ["--calls", "9", "--passes", "1"]])
def test_eval_gives_bits_per_dim(run, capsys, name, flags):
    shown = output(capsys, ["eval", str(run / name), str(run / "data"), *flags, "--items", "3"])
    assert "bits/dim" in shown
    assert "items of data, test split" in shown
    result = json.loads(output(capsys, ["eval", str(run / name), str(run / "data"), *flags, "--json"]))
    assert 7 < result["bits_per_dim"] < 10


def test_eval_of_one_image_scores_its_tiles(run, capsys, tmp_path):
    image = save(tmp_path / "one.png", 13, 24)
    assert output(capsys, ["eval", str(run / "run"), str(image)]).endswith("; 6 of 6 items of one.png\n")


def test_eval_of_a_folder_with_one_image_scores_it(run, capsys, tmp_path):
    save(tmp_path / "one.png", 13, 24)
    shown = output(capsys, ["eval", str(run / "run"), str(tmp_path)])
    assert f"6 of 6 items of {tmp_path.name}, the whole data" in shown


def test_samples_are_one_image_or_a_grid(run, capsys, tmp_path):
    base = ["sample", str(run / "run"), "--calls", "4", "-o"]
    output(capsys, [*base, str(tmp_path / "one.png")])
    assert read(tmp_path / "one.png").shape == (6, 8, 3)
    output(capsys, [*base, str(tmp_path / "five.png"), "-n", "5"])
    assert read(tmp_path / "five.png").shape == (3 * 6 + 4, 2 * 8 + 2, 3)
    output(capsys, [*base, str(tmp_path / "large.png"), "--size", "13x7"])
    assert read(tmp_path / "large.png").shape == (7, 13, 3)
    sample = ["sample", str(run / "grey-run"), "--calls", "4", "-o", str(tmp_path / "grey.png")]
    output(capsys, sample)
    assert read(tmp_path / "grey.png").shape == (6, 8)


def test_samples_as_json_are_those_of_the_picture(run, capsys, tmp_path):
    base = ["sample", str(run / "run"), "--calls", "4", "--seed", "3"]
    output(capsys, [*base, "-o", str(tmp_path / "s.png")])
    values = json.loads(output(capsys, [*base, "--json"]))
    assert np.array_equal(values["samples"][0], read(tmp_path / "s.png"))
    assert values["calls"] == 4


@pytest.mark.parametrize("name", ["run", "upscale"])
def test_a_chain_is_a_row_of_images(run, capsys, tmp_path, name):
    flags = ["-n", "2", "--calls", "20", "--chain"]
    output(capsys, ["sample", str(run / name), *flags, "-o", str(tmp_path / "c.png")])
    picture = read(tmp_path / "c.png")
    assert picture.shape == (2 * 6 + 2, 8 * 8 + 7 * 2, 3)
    hidden = [(picture[:6, 10 * i : 10 * i + 8] == 128).sum() for i in range(8)]
    if name == "run":  # grey where nothing is revealed yet
        assert hidden == sorted(hidden, reverse=True)
        assert hidden[0] > 100


def test_infill_keeps_what_is_given(run, capsys, tmp_path):
    image = save(tmp_path / "image.png", 10, 9)
    given = read(image)
    flags = ["--mask", "2,3,6,8", "--calls", "5", "-o", str(tmp_path / "filled.png")]
    output(capsys, ["infill", str(run / "run"), str(image), *flags])
    filled, inside = read(tmp_path / "filled.png"), np.zeros((10, 9), bool)
    inside[3:8, 2:6] = True
    assert np.array_equal(filled[~inside], given[~inside])
    assert (filled[inside] != given[inside]).mean() > 0.9
    output(capsys, ["infill", str(run / "upscale"), str(image), *flags[:2], "-o", str(tmp_path / "upscale.png")])
    assert np.array_equal(read(tmp_path / "upscale.png")[~inside], given[~inside])


def test_infill_with_particles(run, capsys, tmp_path):
    image = save(tmp_path / "image.png", 10, 9)
    flags = [str(image), "--mask", "2,3,6,8", "--calls", "6", "--particles", "3", "--batch-size", "4", "-n", "2"]
    base = ["infill", str(run / "upscale"), *flags, "-o"]
    for name in ("1.png", "2.png"):
        output(capsys, [*base, str(tmp_path / name)])
    first, second = read(tmp_path / "1.png")[:10], read(tmp_path / "1.png")[-10:]
    assert not np.array_equal(first, second)
    assert np.array_equal(first[:3], read(image)[:3])
    assert np.array_equal(second[:3], read(image)[:3])
    assert (tmp_path / "1.png").read_bytes() == (tmp_path / "2.png").read_bytes()
    output(capsys, [*base, str(tmp_path / "chain.png"), "--chain"])
    assert main([*base[:1], str(run / "run"), *flags, "-o", str(tmp_path / "exact.png")]) == 0
    assert "one stage, so that its samples are exact without --particles" in capsys.readouterr().err


def test_a_mask_image_and_transparency_say_the_same_as_a_rectangle(run, capsys, tmp_path):
    image = save(tmp_path / "image.png", 6, 8)
    inside = np.zeros((6, 8), np.uint8)
    inside[1:4, 2:7] = 255
    Image.fromarray(inside).save(tmp_path / "mask.png")
    alpha = np.concatenate([read(image), 255 - inside[..., None]], axis=2)
    Image.fromarray(alpha).save(tmp_path / "transparent.png")
    base = ["infill", str(run / "run"), "--calls", "5", "-n", "2", "-o"]
    output(capsys, [*base, str(tmp_path / "1.png"), str(image), "--mask", "2,1,7,4"])
    output(capsys, [*base, str(tmp_path / "2.png"), str(image), "--mask", str(tmp_path / "mask.png")])
    output(capsys, [*base, str(tmp_path / "3.png"), str(tmp_path / "transparent.png")])
    contents = {(tmp_path / f"{i}.png").read_bytes() for i in (1, 2, 3)}
    assert len(contents) == 1


def test_plan_info_and_report(run, capsys, tmp_path):
    plan = json.loads(output(capsys, ["plan", str(run / "upscale"), "--calls", "10", "--json"]))
    assert sum(plan["calls"]) == 10
    output(capsys, ["plan", str(run / "upscale"), "--calls", "10", "-o", str(tmp_path / "plan.png")])
    info = json.loads(output(capsys, ["info", str(run / "upscale"), "--json"]))
    assert (info["shape"], info["stages"], info["classes"]) == ([6, 8, 3], 4, 256)
    table = output(capsys, ["report", "calls", str(run / "run"), str(run / "data"), "--calls", "5", "--items", "2"])
    assert "bits/dim" in table
    assert "| 5 |" in table


def test_training_resumes(run, capsys):
    base = ["train", "images", "--data", str(run / "data"), "--out", str(run / "grown"), "--resume"]
    output(capsys, [*base, *SMALL])
    assert "done at step 8" in output(capsys, [*base, "--steps", "8"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "run"], "images go to a file: give one with -o"),
        (["sample", "run", "-o", "s.jpg"], "images are written as PNG"),
        (["sample", "run", "-o", "s.png", "--json"], "give a name that ends in .json, or leave out --json; got s.png"),
        (["infill", "run", "image.png", "-o", "s.png", "--json", "--mask", "0,0,1,1"], "--json writes JSON"),
        (["sample", "run", "-o", "s.png", "--size", "8"], "--size must be WIDTHxHEIGHT"),
        (["sample", "run", "-o", "s.png", "--size", "9999x9999"], "too many for one item"),
        (["infill", "run", "image.png", "-o", "s.png"], "has no transparent pixels to fill"),
        (["infill", "run", "image.png", "-o", "s.png", "--mask", "0,0,9,9"], "is not a rectangle"),
        (["infill", "run", "image.png", "-o", "s.png", "--mask", "3,3,3,4"], "is not a rectangle"),
        (["infill", "run", "image.png", "-o", "s.png", "--mask", "none.png"], "none.png is neither"),
        (["infill", "run", "image.png", "-o", "s.png", "--mask", "small.png"], "has 2 x 2 pixels, the image 8 x 6"),
        (["infill", "run", "image.png", "-o", "s.png", "--mask", "black.png"], "nothing to fill"),
        (["train", "images", "--data", "data", "--out", "new", "--layers", "3"], "--layers cannot be used with"),
        (["train", "text", "--data", "data", "--out", "new", "--size", "8x8"], "--size cannot be used with"),
        (["train", "images", "--data", "data", "--out", "new", "--widths", "8"], "must list the same resolutions"),
        (["train", "cifar10", "--data", "data", "--out", "new", "--channels", "1"], "CIFAR-10 is in colour"),
        (
            ["train", "images", "--data", "data", "--out", "new", "--train-on-all"],
            "only CIFAR-10 can be trained on whole",
        ),
        (["infill", "run", "image.png", "-o", "black.png", "--mask", "black.png"], "is the input or the mask itself"),
    ],
)
def test_bad_usage(run, capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "data"):
        (tmp_path / name).symlink_to(run / name)
    save(tmp_path / "image.png", 6, 8)
    save(tmp_path / "small.png", 2, 2, "L")
    Image.fromarray(np.zeros((6, 8), np.uint8)).save(tmp_path / "black.png")
    status, error = fails(capsys, arguments)
    assert message in error
    assert status == 2
    assert not (tmp_path / "s.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval", "run", "tiny.png"], "no image is as large as 6 x 8"),
        (["eval", "grey-run", "image.png"], "is in colour, but this model is for grey images"),
        (["eval", "run", "text.txt"], "cannot be read as an image"),
        (["eval", "run", "none"], "there is no folder none"),
        (["infill", "run", "none.png", "-o", "s.png", "--mask", "0,0,1,1"], "cannot be read as an image"),
        (["infill", "run", "half.png", "-o", "s.png"], "has partly transparent pixels"),
        (["infill", "run", "image.png", "-o", "s.png", "--mask", "deep.png"], "deep.png has samples of 16 bits"),
        (["infill", "run", "image.png", "-o", "s.png", "--mask", "deep.pgm"], "deep.pgm has samples up to 65535"),
        (
            ["train", "images", "--data", "image.png", "--out", "new"],
            "image.png is a file; a folder of images is needed",
        ),
        (["train", "images", "--data", "few", "--out", "new"], "has 1 images; at least 3 are needed"),
        (["train", "images", "--data", "data", "--out", "new", "--size", "64x64"], "as large as"),
        (["train", "cifar10", "--data", "data", "--out", "new"], "there is no CIFAR-10 at data"),
    ],
)
def test_bad_input(run, capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "grey-run", "data"):
        (tmp_path / name).symlink_to(run / name)
    save(tmp_path / "image.png", 6, 8)
    save(tmp_path / "tiny.png", 5, 8)
    save(tmp_path / "half.png", 6, 8, "RGBA")
    deep = Image.fromarray(np.full((6, 8), 200, np.uint16))
    deep.save(tmp_path / "deep.png")
    deep.save(tmp_path / "deep.pgm")
    (tmp_path / "text.txt").write_text("no image")
    (tmp_path / "few").mkdir()
    save(tmp_path / "few" / "1.png", 40, 40)
    status, error = fails(capsys, arguments)
    assert message in error
    assert status == 1
    assert not (tmp_path / "s.png").exists()
