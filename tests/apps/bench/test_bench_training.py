"""The training benchmark: its counts are those of a network small enough to count by hand."""

import json
from dataclasses import replace

import pytest
from tiny import tiny_config, tiny_image_config, tiny_sound_config
from tiny_exact import tiny_exact

from ardm.apps.bench import training
from ardm.apps.bench.calls import time_call, time_exact_call
from ardm.apps.bench.stopwatch import median_seconds, seconds_per_step
from ardm.apps.bench.training import flops_per_item, matrix_rates, random_corpus, time_training
from ardm.build import build_ardm
from ardm.checkpoint import save_model
from ardm.cli.main import main
from ardm.config import ImageData, RunConfig, UNetConfig
from ardm.runtime.device import Runtime

CPU = Runtime.choose("cpu")


def tiny_images() -> RunConfig:
    return replace(tiny_image_config(), network=UNetConfig(widths=(8,), depths=(1,), kernel=3))


def test_operations_are_counted_as_by_hand():
    embedding, depthwise, expand, contract, head = 3 * (64 + 2) * 8, 9 * 8, 8 * 32, 32 * 8, 8 * 768
    multiplications = 4 * 6 * (embedding + depthwise + expand + contract + head)
    assert flops_per_item(tiny_images(), CPU) == 3 * 2 * multiplications


@pytest.mark.parametrize("config", [tiny_config(), tiny_images(), tiny_sound_config()], ids=["text", "images", "sound"])
def test_timings_are_consistent(config):
    row = time_training(config, CPU, seconds=0.05)
    assert row.preset == config.preset
    assert row.items_per_second == pytest.approx(row.batch_size / row.step_seconds)
    assert row.share == pytest.approx(row.teraflops / row.matrix_teraflops)
    assert row.burst_share == pytest.approx(row.teraflops / row.burst_teraflops)
    assert row.peak_bytes is None
    assert 0 < row.share < 1


@pytest.mark.parametrize(("seconds", "num_steps"), [(0.0, 4), (10.0, 4), (10.5, 8)])
def test_steps_are_timed_several_at_once(seconds, num_steps, monkeypatch):
    """By a clock that only steps move, by 1, 2, ... seconds; the first 4 take 10."""
    taken = []
    monkeypatch.setattr("time.perf_counter", lambda: sum(taken, 0.0))
    mean = seconds_per_step(lambda: taken.append(float(len(taken) + 1)), CPU.device, seconds, steps_at_once=4)
    assert len(taken) == num_steps
    assert mean == (num_steps + 1) / 2


@pytest.mark.parametrize(("seconds", "medians"), [(0.0, [3, 10]), (40.0, [4, 10])])
def test_functions_are_timed_in_turn(seconds, medians, monkeypatch):
    """By a clock that the first function moves by 1, 3, 5, 7 and the second one by 10 seconds."""
    now, durations = [0.0], iter([1, 3, 5, 7])
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def move(seconds):
        now[0] += seconds

    runs = [lambda: move(next(durations)), lambda: move(10)]
    assert median_seconds(runs, CPU.device, min_rounds=3, seconds=seconds) == medians


def test_a_call_is_timed_without_gradients():
    row = time_call(tiny_images(), CPU, batch_size=2, seconds=0.01)
    assert (row.preset, row.batch_size) == ("images", 2)
    assert row.call_seconds > 0
    assert row.gigaflops_an_item == pytest.approx(flops_per_item(tiny_images(), CPU) / 3e9)


def test_matrix_rates_and_shapes_of_data(monkeypatch):
    seconds_of: dict[float, float] = {0.0: 1.0, 7.0: 4.0}  # of a product, by how long they are timed
    monkeypatch.setattr(training, "seconds_per_step", lambda _, device, seconds, steps_at_once: seconds_of[seconds])
    rates = matrix_rates(CPU, seconds=7.0)
    assert rates.burst == 2 * 1024**3 / 1e12
    assert rates.sustained == rates.burst / 4
    config = replace(tiny_images(), data=ImageData(kind="images", height=4, width=6, channels=1))
    assert random_corpus(config).items("valid", (4, 6, 1)).shape == (64, 24)


@pytest.mark.parametrize("kind", ["text", "colour", "sound"])
def test_an_exact_call_is_timed_beside_its_float_twin(kind):
    trained = tiny_exact(kind)
    row = time_exact_call(trained, trained.exact, name="m", batch_size=2, seconds=0.01)
    assert row.batch_size == 2
    assert row.exact_seconds > 0 < row.float_seconds


def test_the_table_of_exact_calls(tmp_path, capsys):
    save_model(tmp_path / "m", tiny_exact("colour"))
    command = ["bench", "call", "--model", str(tmp_path / "m"), "--seconds", "0.01", "--device", "cpu"]
    assert main(command) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["parameters", "batch", "integers", "float32"]
    assert row.split()[0] == "m"
    assert row.split()[4::2] == ["ms", "ms"]
    assert main([*command, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row.keys() == {"model", "num_parameters", "batch_size", "exact_seconds", "float_seconds", "hardware"}
    assert main([*command, "--presets", "text"]) == 2
    assert "not both" in capsys.readouterr().err
    trained = tiny_exact("colour")
    save_model(tmp_path / "f", replace(trained, exact=None, model=build_ardm(trained.config, 256)))
    assert main([*command[:3], str(tmp_path / "f")]) == 2
    assert "is not an exact model; ardm export makes one from it" in capsys.readouterr().err
