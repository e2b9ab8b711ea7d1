import math
import random
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from table_model import CASES, ONE_STAGE, assert_follows

from ardm.objective import (
    corrupt,
    sample_corruption,
    sample_step_loss,
    step_loss,
    stratified_passes,
    stratified_steps,
)
from ardm.orders import random_orders, ranks

each_case = pytest.mark.parametrize("name", CASES)


# What the oracle says of the tables themselves


@each_case
def test_probabilities_of_every_order_sum_to_one(name):
    case = CASES[name]()
    for orders in case.all_orders():
        total = math.fsum(math.exp(case.oracle.log_prob(x, orders)) for x in case.items())
        assert total == pytest.approx(1, abs=1e-12)


@each_case
def test_the_bound_lies_above_the_mixtures_nats(name):
    case = CASES[name]()
    for x in case.items():
        probs = [math.exp(case.oracle.log_prob(x, orders)) for orders in case.all_orders()]
        assert case.mean_nats(x) >= -math.log(math.fsum(probs) / len(probs))


# The per-step estimator


def every_step(case, x):
    """The step losses of an item at every (stage, t, order): one row each, in this nesting."""
    rows = list(product(range(case.num_stages), range(case.num_variables), case.stage_orders()))
    stage, t = (torch.tensor([row[i] for row in rows]) for i in (0, 1))
    rank = ranks(torch.tensor([row[2] for row in rows]))
    items = torch.tensor(x).expand(len(rows), -1)
    return step_loss(case.model, corrupt(case.model.depth, items, stage, t, rank))


@each_case
def test_per_step_form_equals_the_mean_over_orders(name):
    case = CASES[name]()
    for x in case.items():
        loss = every_step(case, x)
        exact = case.mean_nats(x)
        total_steps = case.num_stages * case.num_variables
        assert total_steps * loss.nats.mean().item() == pytest.approx(exact, rel=1e-12)
        bits_per_dim = exact / math.log(2) / case.num_variables
        assert loss.bits_per_dim.mean().item() == pytest.approx(bits_per_dim, rel=1e-12)


@each_case
def test_each_component_equals_its_enumeration(name):
    """The sum alone would not notice two steps that trade places."""
    case = CASES[name]()
    for x in random.Random(0).sample(case.items(), 4):
        nats = every_step(case, x).nats.view(case.num_stages, case.num_variables, -1).mean(-1)
        for stage, t in product(range(case.num_stages), range(case.num_variables)):
            assert nats[stage, t].item() == pytest.approx(case.component_nats(x, stage, t), rel=1e-12)


@each_case
def test_cross_entropy_is_the_sum_of_masked_bits_over_d(name):
    case = CASES[name]()
    x = case.items()[-2]
    loss = every_step(case, x)
    rows = product(range(case.num_stages), range(case.num_variables), case.stage_orders())
    for value, (stage, t, order) in zip(loss.cross_entropy.tolist(), rows, strict=True):
        one_call = case.oracle.stage_log_prob(x, stage, order, [(t, case.num_variables)])
        assert value == pytest.approx(-one_call / math.log(2) / case.num_variables, rel=1e-12)


@each_case
def test_sampled_loss_is_unbiased(name, generator):
    case = CASES[name]()
    x = case.items()[1]
    bits = sample_step_loss(case.model, torch.tensor(x).expand(4000, -1), generator).bits_per_dim
    exact = case.mean_nats(x) / math.log(2) / case.num_variables
    assert abs(bits.mean().item() - exact) < 4 * bits.std().item() / math.sqrt(4000)


def test_gradients_reach_only_the_entries_that_were_read(generator):
    case = CASES["oa-2"]()
    table = case.model.network.table
    loss = sample_step_loss(case.model, torch.tensor([case.items()[3]]), generator)
    (gradient,) = torch.autograd.grad(loss.bits_per_dim.sum(), table)
    rows = gradient.abs().sum((0, 3, 4)).count_nonzero()
    assert rows == 1
    assert gradient.isfinite().all()


# Corruption


@each_case
def test_items_may_be_masked_in_one_order(name, generator):
    """Then the mean over steps is that of the order's own masks, all hidden variables counting alike."""
    case = CASES[name]()
    x, num_variables = case.items()[1], case.num_variables
    order = torch.arange(num_variables).roll(1)  # not its own inverse, if there are three or more
    rank = ranks(order)
    c = sample_corruption(case.model.depth, torch.tensor(x).expand(600, -1), generator, rank.expand(600, -1))
    for mask, t in zip(c.mask, c.t.tolist(), strict=True):
        assert mask.nonzero().flatten().tolist() == sorted(order[:t].tolist())
    loss = sample_step_loss(case.model, torch.tensor(x).expand(6000, -1), generator, rank.expand(6000, -1))
    exact = sum(
        -case.oracle.stage_log_prob(x, stage, order.tolist(), [(t, num_variables)]) / (num_variables - t)
        for stage, t in product(range(case.num_stages), range(num_variables))
    ) / (num_variables * case.num_stages)
    assert abs(loss.nats.mean().item() - exact) < 4 * loss.nats.std().item() / math.sqrt(6000) + 1e-12


def draw_corruption(data, case):
    depth, size = case.model.depth, 5
    integers = st.integers(0, 2**32)
    generator = torch.Generator().manual_seed(data.draw(integers))
    x = torch.randint(case.num_classes, (size, case.num_variables), generator=generator)
    stage = torch.randint(case.num_stages, (size,), generator=generator)
    t = torch.randint(case.num_variables, (size,), generator=generator)
    rank = random_orders(size, case.num_variables, generator)
    return x, stage, t, rank, corrupt(depth, x, stage, t, rank)


@given(st.data(), st.sampled_from(sorted(CASES)))
def test_corrupt_reveals_the_first_t_variables(data, name):
    case = CASES[name]()
    x, stage, t, rank, corrupted = draw_corruption(data, case)
    assert torch.equal(corrupted.mask.sum(1), t)
    for b, d in product(range(len(x)), range(case.num_variables)):
        s, k = int(stage[b]), int(x[b, d])
        is_revealed = bool(rank[b, d] < t[b])
        assert corrupted.mask[b, d] == is_revealed
        assert corrupted.parent[b, d] == case.oracle.decay(k, s)
        assert corrupted.child[b, d] == case.oracle.decay(k, s + 1)
        assert corrupted.inputs[b, d] == case.oracle.decay(k, s + is_revealed)
    assert torch.equal(corrupted.t, t)
    assert torch.equal(corrupted.stage, stage)


@given(st.data(), st.sampled_from(sorted(CASES)))
def test_hidden_values_cannot_leak(data, name):
    """Any class with the same parent may stand where a variable is hidden: the network sees the same."""
    case = CASES[name]()
    x, stage, t, rank, corrupted = draw_corruption(data, case)
    other = x.clone()
    for b, d in (~corrupted.mask).nonzero().tolist():
        s = int(stage[b])
        siblings = [k for k in range(case.num_classes) if case.oracle.decay(k, s) == case.oracle.decay(int(x[b, d]), s)]
        other[b, d] = data.draw(st.sampled_from(siblings))
    again = corrupt(case.model.depth, other, stage, t, rank)
    assert torch.equal(again.inputs, corrupted.inputs)
    assert torch.equal(again.mask, corrupted.mask)


@pytest.mark.parametrize("name", ONE_STAGE)
def test_with_one_stage_nothing_of_a_hidden_variable_is_seen(name, generator):
    case = CASES[name]()
    corrupted = sample_corruption(case.model.depth, torch.tensor(case.items()), generator)
    hidden = corrupted.inputs[~corrupted.mask]
    assert hidden.unique().tolist() == [case.model.depth.absorbing_value]


# Steps


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 10**6))
def test_steps_are_spread_evenly(num_items, num_steps, seed):
    """Below any step lie as many items as its share says, rounded up or down."""
    steps = stratified_steps(num_items, num_steps, torch.Generator().manual_seed(seed))
    assert steps.shape == (num_items,)
    assert 0 <= steps.min() <= steps.max() < num_steps
    for step in range(num_steps + 1):
        below, share = int((steps < step).sum()), num_items * step / num_steps
        assert math.floor(share + 1e-9) <= below <= math.ceil(share - 1e-9)


@pytest.mark.parametrize("num_items", [1, 2, 3, 5, 6, 7, 20])
def test_every_item_meets_every_step_equally_often(num_items, generator):
    steps = torch.stack([stratified_steps(num_items, 6, generator) for _ in range(1500)])
    for item in steps.T:
        assert_follows(item.bincount(minlength=6), [1 / 6] * 6)


@given(st.integers(1, 24), st.integers(1, 24), st.integers(0, 10**6))
def test_passes_are_spread_evenly_in_three_ways(num_passes, num_items, seed):
    """One step in each cell of all, in each N-th in a pass, in each P-th for an item."""
    generator, num_cells = torch.Generator().manual_seed(seed), num_passes * num_items
    cells = stratified_passes(num_passes, num_items, num_cells, generator)
    assert cells.flatten().sort().values.tolist() == list(range(num_cells))
    for of_pass in cells:
        assert (of_pass // num_passes).sort().values.tolist() == list(range(num_items))
    for of_item in cells.T:
        assert (of_item // num_items).sort().values.tolist() == list(range(num_passes))


def test_a_single_pass_is_drawn_as_ever():
    """Estimates of one pass are the same from version to version."""
    steps = stratified_passes(1, 9, 30, torch.Generator().manual_seed(4))
    draws = torch.Generator().manual_seed(4)
    strata, jitter = torch.randperm(9, generator=draws), torch.rand(9, generator=draws, dtype=torch.float64)
    assert steps.tolist() == [((strata + jitter) * (30 / 9)).long().tolist()]


@pytest.mark.parametrize(("num_passes", "num_items"), [(2, 1), (2, 3), (4, 6), (6, 4), (3, 7)])
def test_every_pass_and_item_meets_every_step_equally_often(num_passes, num_items, generator):
    steps = torch.stack([stratified_passes(num_passes, num_items, 5, generator) for _ in range(1500)])
    for drawn in steps.flatten(1).T:
        assert_follows(drawn.bincount(minlength=5), [1 / 5] * 5)


@pytest.mark.parametrize(("num_passes", "num_items"), [(4, 8), (3, 30), (8, 2)])
def test_places_of_an_item_are_nearly_independent(num_passes, num_items, generator):
    """Where an item's step lies in one P-th says little about where another does."""
    cells = [stratified_passes(num_passes, num_items, num_passes * num_items, generator) for _ in range(1500)]
    places = torch.stack(cells)[..., 0].sort(dim=1).values % num_items
    correlation = torch.corrcoef(places.double().T) - torch.eye(num_passes)
    assert correlation.abs().max() < 0.15


@each_case
@pytest.mark.parametrize("num_items", [1, 2, 50])
def test_first_and_last_step_of_every_stage_are_reached(name, num_items, generator):
    case = CASES[name]()
    x = torch.zeros(num_items, case.num_variables, dtype=torch.long)
    reached = set()
    for _ in range(max(2, 300 // num_items)):
        corrupted = sample_corruption(case.model.depth, x, generator)
        reached |= set(zip(corrupted.stage.tolist(), corrupted.t.tolist(), strict=True))
    assert reached == set(product(range(case.num_stages), range(case.num_variables)))


@each_case
def test_every_mask_is_as_likely_as_the_next_of_its_size(name, generator):
    case = CASES[name]()
    corrupted = sample_corruption(case.model.depth, torch.zeros(6000, case.num_variables).long(), generator)
    places = torch.arange(case.num_variables)
    counts = (corrupted.mask * 2**places).sum(1).bincount(minlength=2**case.num_variables)
    sizes = [bin(mask).count("1") for mask in range(2**case.num_variables)]
    each = [1 / math.comb(case.num_variables, size) / case.num_variables for size in sizes[:-1]]
    assert_follows(counts, [*each, 0.0])  # never all revealed: there would be nothing to predict


@pytest.mark.parametrize("value", [-1, 4])
def test_values_that_are_not_classes_are_not_trained_on(value, generator):
    case = CASES["base2-4-data"]()
    x = torch.tensor([[0, 1, 2], [3, value, 0]])
    with pytest.raises(ValueError, match=rf"values must lie in 0\.\.3, got {min(value, 0)}\.\.{max(value, 3)}"):
        sample_step_loss(case.model, x, generator)
