"""Scores are those of the mathematics below, for ARDMs and baselines."""

import math
from itertools import permutations, product

import numpy as np
import pytest
import torch
from serving import with_profile
from table_model import CASES, ONE_STAGE
from tiny_exact import tiny_exact

from ardm.conditionals import conditional_bits
from ardm.errors import DataError, UsageError
from ardm.likelihood import Bound, bound, exact_bits, schedule_bits_bound
from ardm.model import ARDM
from ardm.runtime.device import Runtime
from ardm.schedule import Schedule, full_schedule, uniform_schedule
from ardm.tasks.load import LoadedModel, with_diffusion_steps
from ardm.tasks.plan import make_orders
from ardm.tasks.score import ScoreOptions, bits_by_variable, items_to_score, part_bits, score


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return LoadedModel(trained=with_profile(tiny_exact("text")), runtime=Runtime.choose("cpu"))


@pytest.fixture
def items(generator) -> torch.Tensor:
    return torch.randint(0, 20, (4, 16), generator=generator)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def test_without_a_schedule_it_is_the_bound_with_its_profile(loaded, items):
    rows = []
    result = score(loaded, items, options=ScoreOptions(num_passes=3, seed=5, on_batch=rows.append))
    assert isinstance(result, Bound)
    assert result.bits_per_dim == bound(loaded.ardm, items, seeded(), num_passes=3).bits_per_dim
    assert sum(rows) == 12


def test_a_schedule_in_random_orders_has_a_bound(loaded, items):
    schedule = uniform_schedule(16, 5)
    result = score(loaded, items, schedule, options=ScoreOptions(seed=5))
    bits = schedule_bits_bound(loaded.ardm, items, schedule, seeded())
    assert result.bits_per_dim == pytest.approx(bits.mean().item() / 16)
    assert (result.is_exact, result.estimator) == (False, "bound over random orders, 5 calls")


@pytest.mark.parametrize("schedule", [None, uniform_schedule(16, 5)])
def test_a_named_order_is_scored_exactly(loaded, items, schedule):
    result = score(loaded, items, schedule, "halton", schedule_name="my schedule")
    chosen = schedule or full_schedule(16)
    orders, _ = make_orders("halton", chosen, 4, (16,), seeded())
    bits = exact_bits(loaded.ardm, items, orders, chosen)
    assert result.bits_per_dim == pytest.approx(bits.mean().item() / 16)
    assert (result.is_exact, result.estimator) == (True, "exact, halton order, my schedule")


def test_a_baseline_has_its_own_bits(loaded, items):
    result = score(with_diffusion_steps(loaded, 3), items)
    assert "steps of diffusion" in result.estimator


def test_variables_that_are_left_out_may_have_any_class(loaded, items):
    schedule, hidden = uniform_schedule(10, 4), loaded.ardm.num_classes
    orders, _ = make_orders("raster", schedule, 4, (16,), seeded())
    states = items.numpy().copy()
    states[:, 10:] = hidden
    bits = bits_by_variable(loaded, states, orders, schedule)
    assert np.array_equal(bits.numpy() > 0, np.broadcast_to(np.arange(16) < 10, (4, 16)))


def first_bits(model: ARDM, x: torch.Tensor, orders: torch.Tensor, schedule: Schedule) -> torch.Tensor:
    """The bits of the first variables of each item."""
    whole = torch.cat([x, x.new_full((len(x), model.num_variables - x.shape[1]), -7)], dim=1)  # hidden values are free
    scored = torch.arange(model.num_variables).expand_as(whole) < x.shape[1]
    return part_bits(model, whole, scored, torch.zeros_like(scored), orders, schedule, batch_size=3)


@pytest.mark.parametrize("name", ONE_STAGE)
def test_parts_with_masks_per_item_against_enumeration(name):
    """Variable 2 given 0, and variable 0 given 1, in one batch; the third variable stays hidden."""
    case = CASES[name]()
    items = torch.tensor([*product(range(case.num_classes), repeat=3)])
    scored, given = torch.tensor([[0, 0, 1], [1, 0, 0]]).bool(), torch.tensor([[1, 0, 0], [0, 1, 0]]).bool()
    x, orders = items.repeat_interleave(2, 0), torch.tensor([1, 2, 0]).expand(2 * len(items), 1, 3)
    masks = (mask.repeat(len(items), 1) for mask in (scored, given))
    bits = part_bits(case.model, x, *masks, orders, full_schedule(2, first_step=1))
    expected = []
    for item in items.tolist():
        for order in ([0, 2, 1], [1, 0, 2]):
            expected.append(-case.oracle.stage_log_prob(tuple(item), 0, order, [(1, 2)]) / math.log(2))
    assert bits.tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ONE_STAGE)
def test_marginals_against_enumeration(name):
    """The first two of three variables, in either order and one by one or together; they sum to one."""
    case = CASES[name]()
    pairs = [*product(range(case.num_classes), repeat=2)]
    for order, schedule in product(([0, 1], [1, 0]), (full_schedule(2), uniform_schedule(2, 1))):
        orders = torch.tensor(order).expand(len(pairs), 1, 2)
        bits = first_bits(case.model, torch.tensor(pairs), orders, schedule)
        groups = schedule.groups(0)
        expected = [-case.oracle.stage_log_prob((*x, 0), 0, order, groups) / math.log(2) for x in pairs]
        assert bits.tolist() == pytest.approx(expected, rel=1e-12)
        assert (-bits).exp2().sum().item() == pytest.approx(1, abs=1e-12)


def test_short_items_are_marginals(loaded, items):
    short = items[:, :5]
    result = score(loaded, short, order="reverse", options=ScoreOptions(batch_size=3))
    order = torch.tensor([4, 3, 2, 1, 0])
    expected = conditional_bits(
        loaded.ardm, items, torch.arange(16) < 5, torch.arange(16) < 0, torch.cat([order, torch.arange(5, 16)])
    )
    assert result.bits_per_dim == pytest.approx(expected.bits.mean().item() / 5)
    assert result.is_exact
    bounded = score(loaded, short, options=ScoreOptions(num_passes=500, seed=2))
    every = [
        first_bits(loaded.ardm, short, torch.tensor(o).expand(4, 1, 5), full_schedule(5))
        for o in permutations(range(5))
    ]
    assert bounded.bits_per_dim == pytest.approx(torch.stack(every).mean().item() / 5, rel=5e-3)
    assert not bounded.is_exact


@pytest.mark.parametrize("make", [lambda text: with_diffusion_steps(text, 3), None], ids=["baseline", "stages"])
def test_only_models_of_one_stage_score_short_items(loaded, items, make):
    other = make(loaded) if make else LoadedModel(trained=tiny_exact("staged"), runtime=Runtime.choose("cpu"))
    with pytest.raises(UsageError, match="only an order-agnostic ARDM scores items of fewer variables than its own"):
        score(other, items[:, :3])


def test_a_short_text_is_one_item_of_its_own_length(loaded, tmp_path):
    (tmp_path / "a.txt").write_text("the cat")
    items, title = items_to_score(loaded.trained, tmp_path / "a.txt")
    assert items.shape == (1, 7)
    assert title == "7 characters of a.txt, shorter than an item of 16"
    with pytest.raises(DataError, match="too few for an item of 16"):
        items_to_score(loaded.trained, tmp_path / "a.txt", "train")


def test_items_are_spread_over_a_split(loaded, tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat on a mat" * 8)
    items, title = items_to_score(loaded.trained, tmp_path / "a.txt", "all", 3)
    assert title == "3 of 10 items of a.txt, the whole data"
    everything, _ = items_to_score(loaded.trained, tmp_path / "a.txt", "all")
    assert torch.equal(items, everything[[0, 3, 6]])
