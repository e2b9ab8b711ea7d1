"""Export of a run as an exact model on the command line, and uses of that model."""

import json
import shutil
from pathlib import Path

import invoke
import numpy as np
import pytest
import torch
from test_exact import random_items, trained_model
from tiny import TEXT

from ardm.checkpoint import load_model
from ardm.cli.main import main
from ardm.codec.calls import Items
from ardm.codec.coding_plan import orders_and_schedule
from ardm.codec.format.options import OrderChoice
from ardm.codec.items import ItemCodec
from ardm.export import (
    CALIBRATION_BATCH,
    CLIP_PASSES,
    CLIPS,
    SCHEDULE_KINDS,
    best_order,
    candidate_orders,
    exact_network,
    export_model,
    make_schedules,
    num_tried,
)
from ardm.likelihood import bound, exact_bits
from ardm.model import ARDM
from ardm.tasks.plan import planning_losses


def output(capsys, *arguments: object) -> str:
    return invoke.output(capsys, [str(a) for a in arguments])


def fails(capsys, status: int, text: str, *arguments: object) -> None:
    actual, error = invoke.fails(capsys, [str(a) for a in arguments])
    assert text in error
    assert actual == status


SMALL = ["--item-length", "32", "--layers", "2", "--width", "32", "--batch-size", "8"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A folder with text.txt, a trained run and its exact model."""
    folder = tmp_path_factory.mktemp("export")
    (folder / "text.txt").write_text(TEXT)
    flags = ["--data", str(folder / "text.txt"), "--out", str(folder / "run"), "--steps", "60", *SMALL]
    assert main(["train", "text", *flags]) == 0
    assert main(["export", str(folder / "run"), "-o", str(folder / "exact"), "--calls", "8"]) == 0
    return folder


def test_rounding_costs_little(run, capsys):
    bits = [
        json.loads(output(capsys, "eval", run / name, run / "text.txt", "--split", "valid", "--passes", "16", "--json"))
        for name in ("run", "exact")
    ]
    trained, exact = (b["bits_per_dim"] for b in bits)
    assert exact < 1.02 * trained


def test_an_exact_model_scores_samples_infills_and_plans(run, capsys):
    assert "bits/char" in output(capsys, "eval", run / "exact", run / "text.txt", "--order", "halton", "--calls", "8")
    assert output(capsys, "sample", run / "exact", "--calls", "8").strip()
    assert "the" in output(capsys, "infill", run / "exact", "the c__ sat", "-n", "2")
    assert "lost" in output(capsys, "plan", run / "exact", "--calls", "8")
    facts = json.loads(output(capsys, "info", run / "exact", "--json"))
    assert facts["calls"] == 8


def test_coded_bits_are_those_of_the_exact_network(run):
    trained = load_model(run / "exact")
    assert trained.exact is not None
    coding, shape = trained.exact.coding, trained.model.shape
    orders, schedule = orders_and_schedule(coding.order, shape, coding.schedules[coding.default])
    assert trained.alphabet is not None
    x = torch.from_numpy(trained.alphabet.encode(TEXT.encode())[:64]).long().view(2, 32)
    codec = ItemCodec(trained.exact.network, trained.model.parametrization, shape, orders, schedule)
    expected = exact_bits(trained.model, x, torch.from_numpy(orders).expand(2, 1, -1), schedule)
    torch.testing.assert_close(torch.from_numpy(codec.measure(Items.of(x))), expected.double(), rtol=1e-3, atol=0.05)
    decoded, damaged = codec.decode(codec.encode(Items.of(x)))
    assert damaged == {}
    assert torch.equal(decoded, x)


def test_schedules_rise_to_one_call_per_variable(run):
    trained = load_model(run / "run")
    losses = planning_losses(trained)
    for num_calls, expected in [
        (8, [5, 8, 10, 20, 30, 32]),
        (10, [5, 10, 20, 30, 32]),
        (1, [1, 5, 10, 20, 30, 32]),
        (33, [5, 10, 20, 30, 32]),
    ]:
        assert [s.num_calls for s in make_schedules(losses, num_calls)] == expected
    assert [s.num_calls for s in make_schedules(losses.reshape(2, 16), 1)] == [5, 10, 20, 30, 32]


def test_bad_input(run, capsys, tmp_path):
    fails(capsys, 2, "is already an exact model", "export", run / "exact", "-o", tmp_path / "again")
    fails(capsys, 2, "--items must be positive", "export", run / "run", "-o", tmp_path / "x", "--items", "0")
    lost = tmp_path / "lost"
    shutil.copytree(run / "run", lost)
    (lost / "data.txt").unlink()
    fails(capsys, 2, "does not say where its data is; give it with --data", "export", lost, "-o", tmp_path / "x")
    (lost / "data.txt").write_text(str(tmp_path / "gone") + "\n")
    fails(capsys, 1, "gone", "export", lost, "-o", tmp_path / "x")
    fails(capsys, 2, "Missing from ardm bench codec: --model PATH", "bench", "codec")
    data = ["--data", run / "text.txt"]
    fails(capsys, 2, "make an exact model from it", "bench", "codec", "--model", run / "run", *data)
    assert not (tmp_path / "x").exists()


def test_fewer_calls_than_stages_are_refused(run, capsys, tmp_path):
    flags = ["--data", str(run / "text.txt"), "--out", str(tmp_path / "run"), "--steps", "1", "--base", "4", *SMALL]
    assert main(["train", "text", *flags]) == 0
    wrong = "export", tmp_path / "run", "-o", tmp_path / "x", "--calls", "1"
    fails(capsys, 2, "--calls must be at least 2, one for each stage; got 1", *wrong)


def test_bench_codec(run, capsys):
    flags = ["--model", run / "exact", "--data", run / "text.txt", "--items", "3", "--calls", "5", "30"]
    rows = json.loads(output(capsys, "bench", "codec", *flags, "--json"))
    ours = [row for row in rows if row["name"].startswith("ardm")]
    assert [row["name"] for row in ours] == ["ardm, 5 calls", "ardm, 30 calls"]
    assert all(row["failure"] is None and row["bits_per_variable"] > 0 for row in ours)
    assert any(row["name"].startswith("zlib") for row in rows)


def test_the_kind_of_schedule_is_chosen_by_measured_bits():
    losses = np.linspace(3, 1, 32)[None]
    families = [make_schedules(losses, 7, kind) for kind in SCHEDULE_KINDS]
    assert len(set(families)) == 3
    for family in families:
        assert [s.num_calls for s in family] == [5, 7, 10, 20, 30, 32]


def test_an_export_takes_the_schedules_that_code_best():
    """Measured again, one by one, with the exported network."""
    trained = trained_model("upscaled images")
    x = random_items(trained.model, 12, torch.Generator().manual_seed(0))
    losses = np.linspace(3, 1, trained.model.num_variables)[None].repeat(trained.model.num_stages, 0)
    exact = export_model(trained, x[:8], x[8:], losses, num_calls=10, order=OrderChoice(name="halton")).exact

    def bits(schedule):
        coding = orders_and_schedule(exact.coding.order, trained.model.shape, schedule)
        codec = ItemCodec(exact.network, trained.model.parametrization, trained.model.shape, *coding)
        return codec.measure(Items.of(x[8:])).sum()

    families = [make_schedules(losses, 10, kind) for kind in SCHEDULE_KINDS]
    measured = [bits(family[exact.coding.default]) for family in families]
    assert exact.coding.schedules == families[int(np.argmin(measured))]


def test_the_clip_with_the_fewest_bits_is_chosen():
    trained = trained_model("upscaled images")
    x = random_items(trained.model, 8, torch.Generator().manual_seed(0))

    def exact(clips):
        return exact_network(trained, x, torch.Generator().manual_seed(1), clips)

    def bits(network):
        model = ARDM(network, trained.model.parametrization, trained.model.shape)
        draws = torch.Generator().manual_seed(0)
        return bound(model, x, draws, num_passes=CLIP_PASSES, batch_size=CALIBRATION_BATCH).bits_per_dim

    measured = {clip: bits(exact([clip])) for clip in CLIPS}
    assert len(set(measured.values())) == len(CLIPS)
    assert bits(exact(CLIPS)) == min(measured.values())


def test_the_best_order_is_found_by_halving():
    tried = []
    worth = {order: place for place, order in enumerate(reversed(candidate_orders()))}

    def bits(order, items):
        tried.append(len(items))
        return float(worth[order] * len(items))

    items = torch.zeros(8, 3, dtype=torch.long)
    assert best_order(bits, items) == candidate_orders()[-1]
    assert sum(tried) == num_tried(items) == 8 * 3 + 4 * 3 + 2 * 2
    assert best_order(bits, items[:1]) == candidate_orders()[-1]


def test_an_order_may_be_given(run, capsys):
    output(capsys, "export", run / "run", "-o", run / "given", "--calls", "8", "--order", "pseudorandom:9")
    assert json.loads(output(capsys, "info", run / "given", "--json"))["order"] == "pseudorandom:9"
    fails(capsys, 2, "--order", "export", run / "run", "-o", run / "given", "--order", "nonsense")
