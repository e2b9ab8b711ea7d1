"""Losses, schedules and orders by name; a plan needs no network."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from invoke import output
from serving import with_profile
from tiny_exact import tiny_exact

from ardm.checkpoint import save_model
from ardm.codec.format.options import OrderChoice
from ardm.errors import UsageError
from ardm.names import AVERAGED, MEASURED, MEASURED_EARLIER
from ardm.orders import halton, pseudorandom
from ardm.planner import plan, plan_gaps
from ardm.profile import Profile
from ardm.runtime.device import Runtime
from ardm.schedule import cosine_schedule, full_schedule, uniform_schedule
from ardm.tasks.load import LoadedModel
from ardm.tasks.plan import (
    default_order,
    make_orders,
    make_schedule,
    monotone_losses,
    planning_losses,
    profile_warning,
    read_losses,
    read_profile,
    write_profile,
)


@pytest.mark.parametrize("kind", ["text", "staged"])
def test_the_plan_of_a_model_builds_no_network(kind, tmp_path, capsys, monkeypatch):
    trained, path = with_profile(tiny_exact(kind)), tmp_path / "a.model"
    save_model(path, trained)

    def refuse(*arguments, **options):
        pytest.fail("a network was built")

    for name in ("build_model", "build_exact_core", "build_parametrization"):
        monkeypatch.setattr(f"ardm.checkpoint.{name}", refuse)
    expected = plan(planning_losses(LoadedModel(trained=trained, runtime=Runtime.choose("cpu"))), 8)
    found = json.loads(output(capsys, ["plan", str(path), "--calls", "8", "--json"]))
    assert found["starts"] == [list(starts) for starts in expected.schedule.starts]
    assert found["bits"] == expected.bits
    assert np.array_equal(read_losses(path), monotone_losses(trained.profile))


@pytest.mark.parametrize("suffix", [".npy", ".json"])
def test_a_profile_file_is_read_as_it_was_written(suffix, tmp_path):
    bits = torch.tensor([[3.0, 1.0, 2.0], [0.0, 0.5, 1.0]], dtype=torch.float64)
    path = tmp_path / f"profile{suffix}"
    write_profile(path, Profile(bits=bits, counts=torch.tensor([[1, 2, 3], [0, 1, 1]])))
    expected = bits.numpy().copy()
    expected[1, 0] = np.nan
    np.testing.assert_array_equal(read_profile(path), expected)
    assert read_losses(path)[0].tolist() == [3, 2, 1]


def test_only_losses_that_are_an_average_need_a_warning():
    sources = (None, MEASURED, MEASURED_EARLIER, AVERAGED)
    assert [bool(profile_warning(source)) for source in sources] == [False, False, False, True]


@pytest.mark.parametrize(("own", "for_gaps"), [("pseudorandom", None), ("raster", None), ("strands", "random")])
def test_the_default_order_is_an_exact_models_own(own, for_gaps):
    trained, choice = tiny_exact("text"), OrderChoice(name=own, seed=7 * (own == "pseudorandom"))
    trained = replace(trained, exact=replace(trained.exact, coding=replace(trained.exact.coding, order=choice)))
    assert default_order(trained) == choice
    assert default_order(trained, for_gaps=True) == (for_gaps or choice)


def test_the_default_order_of_other_models_is_random():
    assert default_order(None) == default_order(replace(tiny_exact("text"), exact=None)) == "random"


def test_losses_that_were_not_measured_are_refused():
    with pytest.raises(UsageError, match="nothing to plan from: this model's losses have not been measured"):
        monotone_losses(Profile.empty(2, 5))


def test_schedules_are_those_of_their_kind():
    loaded = LoadedModel(trained=with_profile(tiny_exact("text")), runtime=Runtime.choose("cpu"))
    losses = planning_losses(loaded)
    assert make_schedule(loaded) == full_schedule(16)
    assert make_schedule(loaded, None, "planned", 3, 9) == full_schedule(9, first_step=3)
    assert make_schedule(loaded, 5) == plan(losses, 5).schedule
    assert make_schedule(loaded, 4, "planned", 3, 9) == plan_gaps(losses, 4, 3, 9).schedule
    assert make_schedule(loaded, 5, "cosine") == cosine_schedule(16, 5)
    assert make_schedule(loaded, 5, "uniform", 2) == uniform_schedule(16, 5, first_step=2)
    assert make_schedule(loaded, 99, "uniform") == make_schedule(loaded, 99) == full_schedule(16)


def test_orders_come_by_name_or_by_choice(generator):
    schedule = full_schedule(20)
    orders, same = make_orders("halton", schedule, 3, (4, 5, 1), generator)
    assert same == schedule
    assert (orders.numpy() == halton((4, 5, 1))).all()
    orders, _ = make_orders(OrderChoice(name="pseudorandom", seed=7), schedule, 2, (20,), generator)
    assert (orders.numpy() == pseudorandom((20,), 7)).all()
    orders, _ = make_orders("random", schedule, 2, (20,), generator)
    assert not torch.equal(orders[0], orders[1])
    _, in_strands = make_orders("strands", uniform_schedule(20, 3), 2, (20,), generator)
    assert in_strands.num_calls == 3
