"""Files written before the modules moved still load, score, restore and resume, to the bit.

`golden/before_move` was written by commit eb20fb8 on one CPU; floats may differ on others. So each run is first trained
again up to the step where it was stopped: if that gives exactly the stored weights, the rest must be equal to the bit,
otherwise nearly equal. Steps of a bound over several passes have been drawn differently since. What runs measure after
their last step is therefore expected as it is now, and so is the profile that is measured again.
"""

import hashlib
import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from invoke import output
from PIL import Image
from safetensors.torch import load_file
from torch.optim.optimizer import register_optimizer_step_pre_hook

import ardm
from ardm.apps.demo.models import find_examples
from ardm.checkpoint import load_model
from ardm.cli.main import main

GOLDEN = Path(__file__).parent / "golden" / "before_move"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())
RUNS, MODELS, COMPRESSED = EXPECTED["runs"], EXPECTED["models"], EXPECTED["compressed"]
SCORES = [(name, arguments) for name, about in MODELS.items() for arguments in about["scores"]]
STATE = "state.safetensors"
NEARLY = 1e-4
"""What weights and bits may differ by on another CPU."""


@pytest.fixture(autouse=True)
def in_golden_folder(monkeypatch):
    """Paths are those that the commands were given when the files were made."""
    monkeypatch.chdir(GOLDEN)


def as_json(capsys, *arguments: object) -> Any:
    return json.loads(output(capsys, [*map(str, arguments), "--json"]))


def is_exact(model: str) -> bool:
    return model.endswith(".model")


@pytest.mark.parametrize(("model", "arguments"), SCORES, ids=map(" ".join, SCORES))
def test_models_score_the_same_bits(capsys, model, arguments):
    about = MODELS[model]
    data, flags = Path("data") / about["data"], [*arguments.split(), "--device", "cpu"]
    if "--passes" not in flags:  # few items take more passes by default now
        flags += ["--passes", "1"]
    told, expected = as_json(capsys, "eval", Path("models") / model, data, *flags), about["scores"][arguments]
    for name in ("num_items", "is_exact"):  # estimators are named in other words now
        assert told[name] == expected[name]
    assert told["data"] == expected["data"].replace("all split", "the whole data")
    for name in ("bits_per_dim", "half_width"):  # sums may be taken in another order, and floats differ
        assert told[name] == pytest.approx(expected[name], rel=1e-12 if is_exact(model) else 1e-4)


@pytest.mark.parametrize("model", [name for name in MODELS if not is_exact(name)])
def test_models_are_described_and_sampled(capsys, model):
    about = as_json(capsys, "info", Path("models") / model)
    assert about["data"] == MODELS[model]["data"]
    calls = ["--calls", "4"] if "method" not in about or about["method"] == "ardm" else []
    samples = as_json(capsys, "sample", Path("models") / model, *calls, "--device", "cpu")["samples"]
    assert np.size(list(samples[0]) if isinstance(samples[0], str) else samples[0]) == about["variables"]


def test_models_load_in_python():
    for name in MODELS:
        trained = load_model(f"models/{name}") if is_exact(name) else None
        assert trained is None or trained.exact is not None
    trained = load_model("models/text.safetensors")
    assert trained.step == 250
    assert (trained.model.num_stages, trained.model.num_variables) == (1, 16)
    assert trained.alphabet.show(trained.alphabet.encode(b"the cat. ")) == "the cat. "


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image)


def assert_same_content(restored: Path, original: Path) -> None:
    if original.suffix == ".png":  # written anew by whatever Pillow there is
        assert np.array_equal(pixels(restored), pixels(original))
    else:
        assert restored.read_bytes() == original.read_bytes()


def split_model(arguments: list[str]) -> tuple[list[Path], list[str]]:
    """The files that were compressed, and the flags that say with which model."""
    inputs = [Path(argument) for argument in arguments if argument.startswith("inputs/")]
    return inputs, ["--model", "models/text.model"] if "--model" in arguments else []


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_files_are_restored_and_made_again(capsys, tmp_path, name):
    inputs, model = split_model(COMPRESSED[name])
    about = as_json(capsys, "info", Path("compressed") / name, *model)
    assert about.get("entries", 1) == len(inputs)
    told = as_json(capsys, "decompress", Path("compressed") / name, *model, "-o", tmp_path / "restored")
    assert len(told["files"]) == len(inputs)
    for original, done in zip(inputs, told["files"], strict=True):
        assert_same_content(Path(done["output"]), original)
    output(capsys, ["compress", *COMPRESSED[name], "--no-verify", "-o", str(tmp_path / name)])
    assert (tmp_path / name).read_bytes() == (GOLDEN / "compressed" / name).read_bytes()


@pytest.mark.slow
def test_the_demo_writes_the_same_files(capsys, tmp_path):
    """The integers of the bundled models, so the same on every machine; the report holds times."""
    examples = find_examples(None)
    output(capsys, ["demo", "-o", str(tmp_path), "--examples", str(examples), "--device", "cpu"])
    assert {name: digest_of(data) for name, data in contents(tmp_path / "compressed").items()} == EXPECTED["demo"]
    for name in contents(tmp_path / "restored"):
        assert_same_content(tmp_path / "restored" / name, examples / name)


def test_compressed_files_are_restored_in_python():
    for name, arguments in COMPRESSED.items():
        inputs, model = split_model(arguments)
        if name.endswith(".ardm") and inputs[0].suffix == ".txt":
            value = ardm.decompress((GOLDEN / "compressed" / name).read_bytes(), model[-1] if model else None)
            assert value == inputs[0].read_text()


@pytest.mark.parametrize("name", EXPECTED["packed"])
def test_packed_data_opens_and_is_packed_again(capsys, tmp_path, name):
    folder, about, kind = Path("packed") / name, EXPECTED["packed"][name], name.split("-")[0]
    assert as_json(capsys, "info", folder) == about["facts"]
    assert "sha256 as expected" in output(capsys, ["data", "packed", "--root", str(folder)])
    grey = ["--channels", "1"] if name.endswith("-grey") else []
    source = str(Path("data") / about["source"])
    output(capsys, ["data", kind, "--root", source, "--pack", str(tmp_path / name), *grey])
    assert contents(tmp_path / name) == contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


SIZES = {
    "text": ["--item-length", "8", "--layers", "1", "--width", "8", "--head-width", "8"],
    "bytes": ["--item-length", "8", "--layers", "1", "--width", "8", "--head-width", "8"],
    "images": ["--size", "4x4", "--widths", "4", "--depths", "1"],
    "images-grey": ["--channels", "1", "--size", "4x4", "--widths", "4", "--depths", "1"],
    "audio": ["--item-length", "8", "--widths", "4", "--depths", "1", "--kernel", "3"],
}


@pytest.mark.parametrize("name", EXPECTED["packed"])
def test_packed_data_trains_as_its_original_does(capsys, tmp_path, name):
    source, preset = EXPECTED["packed"][name]["source"], name.split("-")[0]
    flags = ["train", preset, "--steps", "2", "--batch-size", "2", "--device", "cpu", *SIZES[name]]
    for data in (f"packed/{name}", f"data/{source}"):
        output(capsys, [*flags, "--data", data, "--out", str(tmp_path / data)])
    assert hashes(tmp_path / f"packed/{name}" / STATE) == hashes(tmp_path / f"data/{source}" / STATE)


def test_profiles_are_planned_from_and_measured_again(capsys, tmp_path):
    for name, expected in EXPECTED["profiles"].items():
        told = as_json(capsys, "plan", Path("profiles") / name, "--calls", "6")
        assert (told["calls"], told["starts"]) == (expected["calls"], expected["starts"])
        assert told["bits"] == pytest.approx(expected["bits"], rel=1e-12)
    how = ["--items", "6", "--passes", "12", "--split", "all", "--device", "cpu", "--profile", str(tmp_path / "p.npy")]
    output(capsys, ["eval", "models/text.safetensors", "data/text.txt", *how])
    expected = np.array(EXPECTED["measured_again"])
    assert np.load(tmp_path / "p.npy") == pytest.approx(expected, rel=1e-4, abs=1e-4, nan_ok=True)


def hashes(state: Path) -> dict[str, str]:
    """A hash of each tensor."""
    return {name: digest(tensor) for name, tensor in sorted(load_file(state).items())}


def digest(tensor: torch.Tensor) -> str:
    return digest_of(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())


def digest_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def metrics(folder: Path) -> list[dict[str, float]]:
    """What was logged, apart from times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in {"seconds", "variables_per_second"}} for line in lines]


@contextmanager
def stopping_in_step(number: int) -> Iterator[None]:
    """A context in which a user presses Ctrl-C in the training step of this number."""
    counts: dict[int, int] = {}

    def press(optimizer: torch.optim.Optimizer, arguments: Any, keywords: Any) -> None:
        counts[id(optimizer)] = counts.get(id(optimizer), 0) + 1
        if counts[id(optimizer)] == number:
            signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handle = register_optimizer_step_pre_hook(press)
    try:
        yield
    finally:
        handle.remove()
        for stopped, handler in before.items():  # a training that was stopped ignores what comes after
            signal.signal(stopped, handler)


def train(name: str, out: Path, *flags: str) -> int:
    about = RUNS[name]
    where = ["--data", str(Path("data") / about["data"]), "--out", str(out), "--device", "cpu"]
    return main(["train", about["preset"], *where, *flags])


def assert_nearly_the_same(state: Path, other: Path) -> None:
    ours, theirs = load_file(state), load_file(other)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.numpy() == pytest.approx(theirs[name].numpy(), rel=NEARLY, abs=NEARLY, nan_ok=True), name


def repeats(out: Path, golden: Path) -> bool:
    """Whether training on this machine gives the very tensors that the golden run was stopped with."""
    return hashes(out / STATE) == hashes(golden / STATE)


@pytest.mark.parametrize("name", RUNS)
def test_runs_that_were_stopped_go_on(tmp_path, name):
    about, golden = RUNS[name], GOLDEN / "runs" / name
    with stopping_in_step(about["stops_at"]):
        assert train(name, tmp_path / "again", *about["flags"]) == 1
    assert (tmp_path / "again" / "config.json").read_bytes() == (golden / "config.json").read_bytes()
    shutil.copytree(golden, tmp_path / "resumed")
    assert train(name, tmp_path / "resumed", "--resume") == 0
    if repeats(tmp_path / "again", golden):
        assert metrics(tmp_path / "again") == metrics(golden)
        assert hashes(tmp_path / "resumed" / STATE) == about["tensors"]
        assert metrics(tmp_path / "resumed") == about["metrics"]
        return
    assert_nearly_the_same(tmp_path / "again" / STATE, golden / STATE)
    assert train(name, tmp_path / "again", "--resume") == 0
    assert_nearly_the_same(tmp_path / "again" / STATE, tmp_path / "resumed" / STATE)
    for ours, theirs in zip(metrics(tmp_path / "resumed"), about["metrics"], strict=True):
        assert ours == pytest.approx(theirs, rel=NEARLY)


@pytest.mark.parametrize("name", RUNS)
def test_runs_that_were_stopped_are_scored(capsys, name):
    about = RUNS[name]
    data = Path("data") / about["data"]
    told = as_json(capsys, "eval", Path("runs") / name, data, "--items", "8", "--passes", "1", "--device", "cpu")
    assert told["bits_per_dim"] == pytest.approx(about["half_way_bits"], rel=1e-4)


def test_a_damaged_state_gives_way_to_the_one_before(capsys, tmp_path):
    golden, out = GOLDEN / "runs" / "text", tmp_path / "run"
    shutil.copytree(golden, out)
    (out / STATE).write_bytes((golden / STATE).read_bytes()[:-100])
    assert train("text", out, "--resume") == 0
    assert "step 4" in capsys.readouterr().err.splitlines()[0]
    shutil.copytree(golden, tmp_path / "whole")
    assert train("text", tmp_path / "whole", "--resume") == 0
    assert_nearly_the_same(out / STATE, tmp_path / "whole" / STATE)
    if hashes(tmp_path / "whole" / STATE) == RUNS["text"]["tensors"]:
        assert hashes(out / STATE) == RUNS["text"]["tensors"]
    assert [line["step"] for line in metrics(out)] == [line["step"] for line in RUNS["text"]["metrics"]]
