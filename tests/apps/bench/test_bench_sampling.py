"""The sampling benchmark draws what `ardm sample` draws, and its columns agree with each other."""

import inspect
import json
from dataclasses import replace

import pytest
import torch
from tiny import tiny_config, tiny_image_config, tiny_sound_config, tiny_upscale_config
from tiny_exact import tiny_exact

import ardm
from ardm.apps.bench.plan import PlanTiming
from ardm.apps.bench.sampling import SampleTiming, WatchedModel, random_source, time_sampling
from ardm.build import build_ardm
from ardm.checkpoint import TrainedModel, save_model
from ardm.cli.bench.plan import BenchPlan
from ardm.cli.common import cpu_name
from ardm.cli.evaluate import Evaluate
from ardm.cli.main import main
from ardm.cli.report import ReportCalls
from ardm.cli.sample import Sample
from ardm.model import ARDM
from ardm.orders import random_stage_orders
from ardm.profile import Profile
from ardm.runtime.device import Runtime
from ardm.sample import BATCH_SIZE, batch_generator, batch_sizes, sample_items
from ardm.tasks.score import ScoreOptions

CPU = Runtime.choose("cpu")
CONFIGS = {
    "text": tiny_config(),
    "digits": tiny_upscale_config(),
    "images": tiny_image_config(),
    "sound": tiny_sound_config(),
}
COLUMNS = ["parameters", "items", "calls", "batch", "seconds", "items/s", "call", "item", "and", "call"]


@pytest.mark.parametrize("kind", CONFIGS)
def test_timings_are_consistent(kind):
    source = random_source(CONFIGS[kind], CPU)
    row = time_sampling(source, source.schedule_of(10), CPU, num_items=5, batch_size=2, seconds=0.01)
    name = CONFIGS[kind].preset
    assert (row.model, row.num_items, row.num_calls, row.batch_size, row.peak_bytes) == (name, 5, 10, 2, None)
    assert row.num_parameters == sum(p.numel() for p in source.model.parameters())
    assert row.items_per_second == pytest.approx(5 / row.seconds)
    assert row.call_seconds == pytest.approx(row.seconds / (3 * 10))
    assert row.item_call_seconds == pytest.approx(row.seconds / (5 * 10))
    assert 0 < row.network_share < 1


def test_the_share_is_that_of_the_network():
    source = random_source(CONFIGS["text"], CPU)
    watched, schedule = WatchedModel(source.model, CPU.device), source.schedule_of(4)
    orders = random_stage_orders(3, 1, 16, torch.Generator().manual_seed(0))
    drawn = [sample_items(m, orders, schedule, batch_generator(0, 0, CPU.device)) for m in (source.model, watched)]
    assert torch.equal(*drawn)
    assert watched.watch.seconds > 0
    watched.watch.reset()
    assert watched.watch.seconds == 0


def test_a_known_share(monkeypatch):
    """By a clock that nothing moves but the calls, by 3 seconds, and the orders of a batch, by 8."""
    now = [100.0]

    def taking(seconds, function):
        def slow(*arguments):
            now[0] += seconds
            return function(*arguments)

        return slow

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr(ARDM, "outputs", taking(3, ARDM.outputs))
    monkeypatch.setattr("ardm.tasks.plan.random_stage_orders", taking(8, random_stage_orders))
    source = random_source(CONFIGS["text"], CPU)
    row = time_sampling(source, source.schedule_of(4), CPU, num_items=5, batch_size=2, seconds=100.0)
    assert row.seconds == pytest.approx(3 * (4 * 3 + 8))
    assert row.network_share == pytest.approx(0.6)


def test_batches_are_those_of_the_command():
    assert batch_sizes(130, 64) == [64, 64, 2]
    assert batch_sizes(3, 64) == [3]
    assert inspect.signature(Sample).parameters["batch_size"].default == BATCH_SIZE
    for command in (Evaluate, ReportCalls):
        assert inspect.signature(command).parameters["batch_size"].default == ScoreOptions().batch_size
    assert batch_generator(1, 0, CPU.device).initial_seed() == 1
    assert batch_generator(1, 2, CPU.device).initial_seed() < 2**32  # all that a CPU's generator reads


def test_budgets_are_those_that_items_allow():
    source = random_source(CONFIGS["digits"], CPU)
    assert source.schedule_of(1000).num_calls == source.model.num_stages * 16


def made_up_profile(model):
    counts = torch.ones(model.num_stages, model.num_variables, dtype=torch.int64)
    return Profile(bits=torch.linspace(4, 1, counts.numel()).double().view_as(counts), counts=counts)


def save_tiny(path, kind="text"):
    config = CONFIGS[kind]
    model = random_source(config, CPU).model
    facts = {"alphabet": None, "sample_rate": None, "step": 1, "data_title": "random", "data_fingerprint": "0"}
    save_model(path, TrainedModel(config=config, model=model, profile=made_up_profile(model), **facts))


def test_the_table_of_a_model(tmp_path, capsys):
    save_tiny(tmp_path / "my.model", "images")
    command = ["bench", "sample", "--model", str(tmp_path / "my.model"), "--items", "1", "3", "--calls", "2", "5"]
    command += ["--seconds", "0.001", "--device", "cpu", "--batch-size", "2"]
    assert main(command) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[: len(COLUMNS)] == COLUMNS
    assert [row.split()[:1] + row.split()[2:5] for row in rows] == [
        ["my.model", "1", "2", "1"],
        ["my.model", "3", "2", "2"],
        ["my.model", "1", "5", "1"],
        ["my.model", "3", "5", "2"],
    ]
    assert main([*command, "-o", str(tmp_path / "rows.json")]) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    machine = {"device": "cpu", "cpu": f"{cpu_name()}, 1 threads", "torch": torch.__version__, "ardm": ardm.__version__}
    assert all(row.pop("hardware") == machine for row in rows)
    rows = [SampleTiming(**row) for row in rows]
    assert [(row.num_items, row.num_calls) for row in rows] == [(1, 2), (3, 2), (1, 5), (3, 5)]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "name the presets, such as --presets cifar10"),
        (["--presets", "text", "--items", "0"], "--items must be positive, got 0"),
        (["--presets", "text", "--calls", "-1"], "--calls must be positive, got -1"),
        (["--presets", "text", "--base", "2", "--calls", "3"], "--calls must be at least 5, one for each stage"),
        (["--presets", "text", "--seconds", "inf"], "--seconds must be finite, got inf"),
        (["--presets", "text", "--items"], "--items must be positive, got 0"),
        (["--presets", "text", "--model", "m"], "give either presets, with or without --base, or --model, not both"),
        (["--base", "4", "--model", "m"], "give either presets, with or without --base, or --model, not both"),
        (["--presets", "text", "--parametrization", "data"], "--parametrization is for upscale models: give --base"),
        (["--presets", "text", "--batch-size", "0"], "--batch-size must be positive"),
    ],
)
def test_errors_say_what_is_wrong(flags, message, capsys):
    assert main(["bench", "sample", "--device", "cpu", *flags]) == 2
    assert message in capsys.readouterr().err


def test_an_exact_model_has_the_parameters_that_it_was_made_of(tmp_path, capsys):
    trained = tiny_exact("colour")
    save_model(tmp_path / "m", replace(trained, profile=made_up_profile(trained.model)))
    flags = ["--model", str(tmp_path / "m"), "--items", "1", "--calls", "5", "--seconds", "0.01", "--device", "cpu"]
    assert main(["bench", "sample", *flags, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["num_parameters"] == sum(p.numel() for p in build_ardm(trained.config, 256).parameters()) > 0


def test_rows_are_shown_as_they_come_and_written_when_all_are_there(tmp_path, capsys):
    (tmp_path / "rows.json").write_text("[]")
    with pytest.raises(KeyboardInterrupt):
        BenchPlan(output=tmp_path / "rows.json").show(interrupted_rows(), "header", lambda row: row.name)
    assert capsys.readouterr() == ("", "header\nours\n")
    assert (tmp_path / "rows.json").read_text() == "[]"


def interrupted_rows():
    yield PlanTiming(name="ours", num_stages=1, num_steps=3, budgets=1, seconds=0.5, table_bytes=2**20)
    raise KeyboardInterrupt
