"""Conditionals against enumeration: every probability of tiny table models is known."""

import math
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch
from table_model import CASES, ONE_STAGE, Case, Oracle, assert_follows, groups_of, order_agnostic, upscale

from ardm.conditionals import conditional_bits, conditional_table, fill_particles
from ardm.likelihood import exact_bits, student_95
from ardm.orders import given_first, random_stage_orders
from ardm.sample import Given, sample_items
from ardm.schedule import Schedule, full_schedule, uniform_schedule

each_one_stage_case = pytest.mark.parametrize("name", ONE_STAGE)
A, B = torch.tensor([True, False, False]), torch.tensor([False, True, False])


@cache
def three_stages() -> Case:
    """Five classes in base 2: three stages, of which the last classes are cut off."""
    return upscale(5, 2, 3, direct=True)


STAGED = {"two stages": CASES["base2-4-data"], "three stages": three_stages}
each_staged_case = pytest.mark.parametrize("name", STAGED)


def first_in(order, *sets):
    """The order with the variables of each set moved to the front, the first set first."""
    return sorted(order, key=lambda d: next((i for i, s in enumerate(sets) if s[d]), len(sets)))


def probability(case, x, known, orders, groups):
    """p(x_known) by summation over all items."""
    fits = (y for y in case.items() if all(y[d] == x[d] for d in range(len(x)) if known[d]))
    return math.fsum(math.exp(case.oracle.log_prob(y, orders, groups)) for y in fits)


def true_bits(case, x, target, given, order, schedule=None):
    """-log2 p(x_A | x_B) by enumeration, with B first in every stage, then A."""
    orders = (tuple(first_in(order, given, target)),) * case.num_stages
    groups = groups_of(schedule or case.full_schedule())
    both, condition = (probability(case, x, known, orders, groups) for known in (target | given, given))
    return -math.log2(both / condition)


# One stage


def subsets(num_variables):
    """Every (target, given) of disjoint sets of variables, the target not empty, as tensors of booleans."""
    for roles in product("atg", repeat=num_variables):  # absent, target, given
        if "t" in roles:
            yield tuple(torch.tensor([role == letter for role in roles]) for letter in "tg")


def conditional_oracle(case, x, order, target, given):
    """-log2 p(x_A | x_B) with B known, then A one by one in the order's sequence."""
    sequence = [d for d in order if given[d]] + [d for d in order if target[d]]
    first, last = int(given.sum()), len(sequence)
    steps = [(t, t + 1) for t in range(first, last)]
    return -case.oracle.stage_log_prob(x, 0, sequence, steps) / math.log(2)


@each_one_stage_case
def test_conditional_bits_against_enumeration(name):
    case, items = CASES[name](), CASES[name]().items()
    for (target, given), order in product(subsets(case.num_variables), case.stage_orders()):
        result = conditional_bits(case.model, torch.tensor(items), target, given, torch.tensor(order))
        expected = [conditional_oracle(case, x, order, target, given) for x in items]
        assert result.bits.tolist() == pytest.approx(expected, rel=1e-12)
        assert not result.half_width.any()


@each_one_stage_case
def test_conditionals_and_marginals_sum_to_one(name):
    """Over x_A for each x_B; the variables in neither set are counted once for each of their values."""
    case, items = CASES[name](), torch.tensor(CASES[name]().items())
    order = torch.tensor([2, 0, 1])
    for target, given in subsets(case.num_variables):
        bits = conditional_bits(case.model, items, target, given, order).bits
        code = (items * given * case.num_classes ** torch.arange(3)).sum(1)  # of x_B
        conditions = code.unique(return_inverse=True)[1]
        sums = torch.zeros(int(conditions.max()) + 1, dtype=torch.float64)
        sums.index_add_(0, conditions, (-bits).exp2())
        absent = case.num_classes ** int((~target & ~given).sum())
        assert (sums / absent).tolist() == pytest.approx([1.0] * len(sums), abs=1e-12)


@each_one_stage_case
def test_chain_rule_along_one_order(name):
    """p(x_A) p(x_B | x_A) = p(x_A, x_B) when the joint reveals A before B."""
    case, items = CASES[name](), torch.tensor(CASES[name]().items())
    nothing = torch.zeros(3, dtype=torch.bool)
    for a, b in subsets(case.num_variables):
        order = torch.tensor(first_in([1, 2, 0], b, a))  # A first
        marginal = conditional_bits(case.model, items, a, nothing, order).bits
        joint = conditional_bits(case.model, items, a | b, nothing, torch.tensor(first_in([1, 2, 0], a, b))).bits
        if b.any():
            conditional = conditional_bits(case.model, items, b, a, order).bits
            torch.testing.assert_close(marginal + conditional, joint, rtol=1e-12, atol=0)


def test_only_the_targets_own_impossible_values_cost_infinitely_much():
    model = order_agnostic(2, 2).model
    with torch.no_grad():
        model.network.table[..., 1, 1] = -math.inf  # the second variable is never 1
    items = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    nothing, order = torch.tensor([False, False]), torch.tensor([0, 1])
    first, second = (
        conditional_bits(model, items, target, nothing, order)
        for target in (torch.tensor([True, False]), torch.tensor([False, True]))
    )
    assert first.bits.isfinite().all()
    assert second.bits.isinf().tolist() == [False, True, False, True]
    assert not second.half_width.any()


def test_one_stage_in_groups():
    case, order = CASES["oa-3-in-data"](), (2, 1, 0)
    given, target = torch.tensor([False, True, False]), torch.tensor([True, False, True])
    schedule = Schedule(starts=((0,),), num_steps=3)
    result = conditional_bits(
        case.model, torch.tensor(case.items()), target, given, torch.tensor(order), schedule=schedule
    )
    expected = [-case.oracle.stage_log_prob(x, 0, (1, 2, 0), [(1, 3)]) / math.log(2) for x in case.items()]
    assert result.bits.tolist() == pytest.approx(expected, rel=1e-12)


# Bits of several stages


@each_staged_case
@pytest.mark.parametrize("roles", ["tg.", ".tg", "t.g", "g.t", "t..", "tt.", "ttg", "tgg"])
def test_conditional_bits_converge_to_the_truth(name, roles):
    """With many particles the error is small, within the interval (99.99%, not 95%), and no interval is idle."""
    case, x, order = STAGED[name](), STAGED[name]().items()[40], (1, 2, 0)
    target, given = (torch.tensor([role == letter for role in roles]) for letter in "tg")
    result = conditional_bits(
        case.model, torch.tensor([x]), target, given, torch.tensor(order), particles=2000, batch_size=20000
    )
    assert 0 < result.half_width.item() < 0.2
    assert abs(result.bits.item() - true_bits(case, x, target, given, order)) < 3 * result.half_width.item()


@each_staged_case
def test_whole_items_are_exact(name):
    case, order = STAGED[name](), torch.tensor([1, 2, 0])
    items, every = torch.tensor(case.items()[:9]), torch.ones(3, dtype=torch.bool)
    result = conditional_bits(case.model, items, every, ~every, order)
    whole = exact_bits(case.model, items, order.expand(len(items), case.num_stages, -1), case.full_schedule())
    torch.testing.assert_close(result.bits, whole, rtol=1e-13, atol=0)
    assert not result.half_width.any()


@each_staged_case
@pytest.mark.parametrize("roles", ["t..", "tt."])
@pytest.mark.parametrize(("particles", "repetitions"), [(1, 1), (3, 1), (1, 4)])
def test_the_estimate_of_a_marginal_is_unbiased(name, roles, particles, repetitions):
    """The probability itself has no bias, however few particles and repetitions there are."""
    case, x, order, count = STAGED[name](), STAGED[name]().items()[7], (2, 0, 1), 12000 // repetitions
    target = torch.tensor([role == "t" for role in roles])
    result = conditional_bits(
        case.model, torch.tensor([x] * count), target, ~A & A, torch.tensor(order),
        particles=particles, repetitions=repetitions, batch_size=30000,
    )  # fmt: skip
    assert result.half_width.isinf().all() == (repetitions == 1)
    probs = (-result.bits).exp2()
    exact = 2 ** -true_bits(case, x, target, ~A & A, order)
    assert abs(probs.mean().item() - exact) < 4 * probs.std().item() / math.sqrt(count)


def test_the_interval_covers_the_truth():
    """Copies of one item are independent estimates; 95% of their intervals hold the truth."""
    case, x, order, count = three_stages(), (3, 0, 2), (2, 0, 1), 700
    result = conditional_bits(
        case.model, torch.tensor([x] * count), A, B, torch.tensor(order), particles=60, batch_size=50000
    )
    errors = result.bits - true_bits(case, x, A, B, order)
    covered = (errors.abs() <= result.half_width).double().mean().item()
    assert 0.93 < covered < 0.975
    widths = (result.half_width.square().mean().sqrt() / student_95(7)).item()
    assert 0.85 < widths / errors.std().item() < 1.15


def test_groups_are_cut_where_given_and_target_end():
    case, x, order = three_stages(), (1, 4, 2), (0, 1, 2)
    cut = full_schedule(3, num_stages=3)
    one_call = uniform_schedule(3, 3, num_stages=3)
    arguments = (case.model, torch.tensor([x]), A, B, torch.tensor(order))
    joint, separate = (conditional_bits(*arguments, schedule=schedule, particles=9) for schedule in (one_call, cut))
    assert torch.equal(joint.bits, separate.bits)
    nothing = ~A & A
    both = conditional_bits(
        case.model, torch.tensor([x]), A | B, nothing, torch.tensor(order), schedule=one_call, particles=4000
    )
    expected = true_bits(case, x, A | B, nothing, order, Schedule(starts=((0, 2),) * 3, num_steps=3))
    assert abs(both.bits.item() - expected) < 3 * both.half_width.item()
    assert abs(both.bits.item() - true_bits(case, x, A | B, nothing, order)) > 3 * both.half_width.item()


def test_masks_and_orders_of_each_row():
    """Rows with different numbers of variables; values that are neither given nor the target do not matter."""
    case = three_stages()
    x = torch.tensor([[3, 0, 4], [2, 2, 1], [0, 4, 4], [1, 3, 2]])
    target = torch.tensor([[1, 0, 0], [0, 1, 1], [0, 0, 1], [1, 1, 1]]).bool()
    given = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]]).bool()
    orders = torch.tensor([[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]])
    dirty = torch.where(target | given, x, 99)
    result = conditional_bits(
        case.model, dirty, target, given, orders[:, None].expand(-1, 3, -1), particles=1500, batch_size=20000
    )
    expected = [true_bits(case, *row) for row in zip(x.tolist(), target, given, orders.tolist(), strict=True)]
    assert ((result.bits - torch.tensor(expected, dtype=torch.float64)).abs() <= 3 * result.half_width + 1e-9).all()
    assert result.half_width[3] == 0


def test_estimates_depend_on_the_generator_alone():
    case, x = three_stages(), torch.tensor([[3, 0, 4]])
    bits = [
        conditional_bits(case.model, x, A, B, torch.arange(3), particles=5, generator=generator).bits.item()
        for generator in (None, torch.Generator().manual_seed(0), torch.Generator().manual_seed(1))
    ]
    assert bits[0] == bits[1] != bits[2]


# Tables


@each_one_stage_case
def test_a_table_of_one_stage_takes_one_call(name):
    case, order = CASES[name](), (2, 1, 0)
    x, calls = torch.tensor([[0, 1, 0], [1, 1, 1]]), []
    hook = case.model.network.register_forward_hook(lambda *_: calls.append(1))
    table = conditional_table(case.model, x, torch.tensor([2, 0]), B, torch.tensor(order))
    hook.remove()
    assert len(calls) == 1
    assert not table.half_width.any()
    for row, (i, place), k in product(range(2), enumerate([2, 0]), range(case.num_classes)):
        item = tuple(k if d == place else int(x[row, d]) for d in range(3))
        target = torch.arange(3) == place
        expected = 2 ** -conditional_oracle(case, item, order, target, B)
        assert table.probs[row, i, k].item() == pytest.approx(expected, rel=1e-12)


@each_staged_case
def test_tables_converge_to_the_truth(name):
    case, order, x = STAGED[name](), (0, 2, 1), torch.tensor([[0, 3, 0], [0, 1, 0]])
    given = torch.tensor([[False, True, False], [False, False, False]])
    table = conditional_table(
        case.model, x, torch.tensor([2]), given, torch.tensor(order), particles=3000, batch_size=30000
    )
    assert table.probs.sum(-1).flatten().tolist() == pytest.approx([1.0, 1.0], abs=1e-12)
    target = torch.tensor([False, False, True])
    for row, k in product(range(2), range(case.num_classes)):
        expected = 2 ** -true_bits(case, (0, int(x[row, 1]), k), target, given[row], order)
        error = abs(table.probs[row, 0, k].item() - expected)
        assert error < 3 * table.half_width[row, 0, k].item() + 1e-12
    assert 0 < table.half_width.max() < 0.03


def test_repetitions_count_by_what_they_explain():
    """Many islands of a single particle, which all see little, together find the table."""
    case, order, x = three_stages(), (2, 1, 0), torch.tensor([[0, 3, 0]])
    table = conditional_table(
        case.model, x, torch.tensor([2]), B, torch.tensor(order), particles=1, repetitions=9000, batch_size=9000
    )
    target, widths = torch.tensor([False, False, True]), table.half_width[0, 0]
    expected = torch.tensor([2 ** -true_bits(case, (0, 3, k), target, B, order) for k in range(5)], dtype=torch.float64)
    assert ((table.probs[0, 0] - expected).abs() <= 2 * widths).all()
    assert 0 < widths.max() < 0.05


@pytest.mark.parametrize("starts", [(0, 1, 2), (0,)], ids=["one by one", "one call"])
def test_each_of_several_places_has_the_table_of_its_place_alone(starts):
    """The truth has only one place right after B, so nothing is known of how all places are drawn together."""
    case, order, x = three_stages(), (2, 1, 0), (0, 3, 0)
    schedule, places = Schedule(starts=(starts,) * 3, num_steps=3), [0, 2]
    how = {"schedule": schedule, "particles": 3000, "batch_size": 50000}
    table = conditional_table(case.model, torch.tensor([x]), torch.tensor(places), B, torch.tensor(order), **how)
    cut = case.full_schedule()  # in groups of one: B, the place, the other
    for (i, place), k in product(enumerate(places), range(5)):
        item, target = tuple(k if d == place else value for d, value in enumerate(x)), torch.arange(3) == place
        expected = 2 ** -true_bits(case, item, target, B, order, cut)
        assert abs(table.probs[0, i, k].item() - expected) < 3 * table.half_width[0, i, k].item() + 1e-12
    assert table.half_width.max() < 0.03


@each_staged_case
def test_rows_of_a_table_keep_their_places(name):
    """Rows with places of their own, nothing given, against enumeration."""
    case, order = STAGED[name](), (1, 2, 0)
    x, places, nothing = torch.zeros(2, 3).long(), torch.tensor([[0, 1], [2, 0]]), ~A & A
    how = {"particles": 1500, "batch_size": 50000}
    table = conditional_table(case.model, x, places, nothing, torch.tensor(order), **how)
    for row, i, k in product(range(2), range(2), range(case.num_classes)):
        target = torch.arange(3) == places[row, i]
        expected = 2 ** -true_bits(case, tuple((k * target).tolist()), target, nothing, order)
        assert abs(table.probs[row, i, k].item() - expected) < 3 * table.half_width[row, i, k].item() + 1e-12


def test_the_interval_of_a_table_covers_the_truth():
    case, order, count = three_stages(), (2, 1, 0), 600
    x = torch.tensor([[0, 3, 0]] * count)
    table = conditional_table(case.model, x, torch.tensor([2]), B, torch.tensor(order), particles=60, batch_size=50000)
    target = torch.tensor([False, False, True])
    for k in range(5):
        expected = 2 ** -true_bits(case, (0, 3, k), target, B, order)
        covered = ((table.probs[:, 0, k] - expected).abs() <= table.half_width[:, 0, k]).double().mean()
        assert 0.92 < covered < 0.98


# Given values that no particle explains


def never_one(name="base2-4-direct"):
    """Two stages; the second variable never has the last digit 1, so that it is 0 or 2."""
    case = CASES[name]()
    model = upscale(4, 2, 3, direct=True).model
    with torch.no_grad():
        model.network.table.copy_(case.model.network.table)
        model.network.table[1, ..., 1, 3] = -math.inf
    return model


@pytest.mark.parametrize("repetitions", [1, 4])
def test_bits_given_impossible_values_are_infinite(repetitions):
    """No number is NaN, and nothing claims to be exact; other items keep their bits."""
    model, x = never_one(), torch.tensor([[0, 1, 0], [0, 2, 0]])
    for target in (A, ~B):  # a part of the rest, and all of it
        found = conditional_bits(model, x, target, B, torch.arange(3), repetitions=repetitions)
        assert found.bits.isinf().tolist() == [True, False]
        assert found.half_width.isinf().tolist() == [True, repetitions == 1]
        assert found.bits[0] > 0
    impossible = conditional_bits(model, x, B, A, torch.arange(3), repetitions=repetitions)
    assert impossible.bits.isinf().tolist() == [True, False]
    assert impossible.half_width[0] == math.inf


def test_tables_given_impossible_values_say_so():
    model, x = never_one(), torch.tensor([[0, 1, 0]])
    with pytest.raises(ValueError, match="in all 32 x 8 particles the given values have probability 0; ask for more"):
        conditional_table(model, x, torch.tensor([0, 2]), B, torch.arange(3))


def test_islands_without_an_explanation_do_not_count():
    """The known value 1 is possible only after a coarse 1 elsewhere, which half of the islands of one particle miss."""
    case = misleading()
    with torch.no_grad():
        table = case.model.network.table
        table[1, :, :, 0, 3] = torch.where(table[1, :, :, 0, 3] > 0, 0.0, -math.inf)
    how = {"particles": 1, "repetitions": 40}
    table = conditional_table(
        case.model, torch.tensor([[1, 0, 0]]), torch.tensor([2]), A, torch.tensor([0, 2, 1]), **how
    )
    assert table.probs[0, 0].tolist() == pytest.approx([0, 0, 0.5, 0.5], abs=1e-12)


# Draws


def misleading() -> Case:
    """Two stages: the first digits are fair coins, but only an unknown coarse 1 makes the known value likely."""
    case = upscale(4, 2, 3, direct=True)
    with torch.no_grad():
        table = case.model.network.table
        table.zero_()
        inputs = torch.arange(table.shape[2])
        unknown_is_coarse_one = inputs // 16 % 4 >= 2  # the third variable
        table[1, :, :, 0, 3] = torch.where(unknown_is_coarse_one, 3.0, -3.0)  # the known variable's last digit
    return replace(case, oracle=Oracle(case.model.network, case.oracle.decay, case.oracle._children))


def draws_given(case, known, order, particles, count, generator, schedule=None):
    """Draws of all variables given some of them, and their true probabilities."""
    mask = torch.tensor([d in known for d in range(3)]).expand(count, -1)
    values = torch.tensor([known.get(d, 99) for d in range(3)]).expand(count, -1)
    orders = given_first(torch.tensor([[order] * case.num_stages]).expand(count, -1, -1), mask)
    schedule = schedule or case.full_schedule()
    draws = fill_particles(
        case.model, orders, schedule, generator, given=Given(values=values, mask=mask), particles=particles
    )
    sequence = tuple(map(tuple, orders[0].tolist()))
    x = [known.get(d, 0) for d in range(3)]
    total = probability(case, x, mask[0], sequence, groups_of(schedule))
    probs = [
        math.exp(case.oracle.log_prob(y, sequence, groups_of(schedule))) / total
        if all(y[d] == value for d, value in known.items())
        else 0.0
        for y in case.items()
    ]
    places = case.num_classes ** torch.arange(3).flip(0)
    return (draws * places).sum(1).bincount(minlength=len(probs)), probs


def distance(counts, probs):
    """Total variation between frequencies and probabilities."""
    return 0.5 * (counts / counts.sum() - torch.tensor(probs)).abs().sum().item()


@pytest.mark.parametrize("known", [{0: 3}, {2: 0}, {0: 1, 1: 4}])
def test_draws_converge_to_the_conditional(known, generator):
    counts, probs = draws_given(three_stages(), known, (1, 2, 0), 150, 4000, generator)
    assert_follows(counts, probs)


def test_draws_in_groups_follow_the_groups(generator):
    case, schedule = three_stages(), Schedule(starts=((0, 1), (0, 1), (0, 1)), num_steps=3)
    counts, probs = draws_given(case, {1: 2}, (1, 2, 0), 150, 4000, generator, schedule)
    assert_follows(counts, probs)


def test_more_particles_come_closer(generator):
    """A single particle cannot see that the known value makes one coarse value 20 times likelier."""
    case = misleading()
    found = [distance(*draws_given(case, {0: 1}, (0, 1, 2), particles, 6000, generator)) for particles in (1, 4, 64)]
    assert found[0] > 0.4
    assert found[1] < 0.15
    assert found[2] < 0.05


def test_a_single_particle_is_the_chain_draw_for_draw(generator):
    case, count = three_stages(), 200
    mask = B.expand(count, -1)
    given = Given(values=torch.full((count, 3), 4), mask=mask)
    orders = given_first(random_stage_orders(count, 3, 3, generator), mask)
    after = full_schedule(3, num_stages=3, first_step=1)
    chain = sample_items(case.model, orders, after, torch.Generator().manual_seed(3), given=given)
    filled = fill_particles(
        case.model, orders, case.full_schedule(), torch.Generator().manual_seed(3), given=given, particles=1
    )
    assert torch.equal(chain, filled)


@pytest.mark.parametrize("particles", [1, 6])
def test_given_values_are_kept_and_calls_counted(particles, generator):
    case, count, calls = three_stages(), 50, []
    mask = torch.zeros(count, 3, dtype=torch.bool).scatter(1, torch.arange(count)[:, None] % 3, True)
    values = torch.randint(5, (count, 3), generator=generator)
    orders = given_first(random_stage_orders(count, 3, 3, generator), mask)
    draws = fill_particles(
        case.model, orders, case.full_schedule(), generator, given=Given(values=values, mask=mask),
        particles=particles, on_call=lambda: calls.append(1),
    )  # fmt: skip
    assert torch.equal(draws[mask], values[mask])
    assert draws.max() < 5
    assert len(calls) == 2 * 3


def test_one_stage_needs_no_particles(generator):
    case, calls = CASES["oa-3-in-data"](), []
    hook = case.model.network.register_forward_hook(lambda module, arguments, out: calls.append(len(arguments[0])))
    counts, probs = draws_given(case, {1: 2}, (1, 2, 0), 50, 3000, generator)
    hook.remove()
    assert calls == [3000, 3000]
    assert_follows(counts, probs)


# Errors


@pytest.mark.parametrize(
    ("target", "given", "text"),
    [
        (A, A, "at least one variable and none that is given"),
        (A & B, B, "at least one variable and none that is given"),
        (torch.stack([A, A & B]), B, "at least one variable and none that is given"),
        (A[:2], B, r"target must be a mask of booleans of shape \(3,\) or \(2, 3\), got torch.bool \(2,\)"),
        (A, B.expand(3, 3), r"given must be a mask of booleans of shape \(3,\) or \(2, 3\), got torch.bool \(3, 3\)"),
    ],
)
@pytest.mark.parametrize("name", ["oa-2", "base2-4-data"])
def test_masks_that_make_no_sense(name, target, given, text):
    with pytest.raises(ValueError, match=text):
        conditional_bits(CASES[name]().model, torch.zeros(2, 3).long(), target, given, torch.arange(3))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"x": torch.full((2, 3), 4)}, r"values must lie in 0\.\.3, got 0\.\.4"),
        ({"order": torch.arange(4)}, r"order must have shape \(3,\), \(2, 3\) or \(2, 2, 3\), got \(4,\)"),
        ({"order": torch.tensor([0, 0, 1])}, "must hold each of 0..2 exactly once"),
        ({"schedule": full_schedule(3)}, r"expected a schedule of 2 x 3 \(stages x steps\), got 1 x 3"),
        (
            {"schedule": full_schedule(3, num_stages=2, first_step=1)},
            "must run from step 0 to 3, over whole items; got 1",
        ),
        ({"particles": 0}, "particles must be at least 1, got 0"),
        ({"repetitions": 0}, "repetitions must be at least 1, got 0"),
    ],
)
def test_arguments_that_cannot_be_used(changes, text):
    arguments = {"x": torch.zeros(2, 3).long(), "order": torch.arange(3)} | changes
    with pytest.raises(ValueError, match=text):
        conditional_bits(CASES["base2-4-data"]().model, target=A, given=B, **arguments)


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ([1], "places must be hidden and all different"),
        ([0, 0], "places must be hidden and all different"),
        ([3], r"places must lie in 0\.\.2, got 3\.\.3"),
        ([], r"places must have shape \(M,\) or \(2, M\) with M at least 1, got \(0,\)"),
        ([[0]] * 3, r"places must have shape \(M,\) or \(2, M\) with M at least 1, got \(3, 1\)"),
    ],
)
def test_places_that_make_no_sense(places, text):
    places = torch.tensor(places, dtype=torch.long)
    with pytest.raises(ValueError, match=text):
        conditional_table(CASES["base2-4-data"]().model, torch.zeros(2, 3).long(), places, B, torch.arange(3))


def test_draws_that_cannot_be_made(generator):
    model, orders = CASES["base2-4-data"]().model, torch.arange(3).expand(1, 2, -1)
    given = Given(values=torch.zeros(1, 3).long(), mask=B[None])
    schedule = full_schedule(3, num_stages=2)
    with pytest.raises(ValueError, match="given variables must come first in every order"):
        fill_particles(model, orders, schedule, generator, given=given)
    with pytest.raises(ValueError, match="particles must be at least 1, got 0"):
        fill_particles(model, orders, schedule, generator, given=given, particles=0)
    with pytest.raises(ValueError, match="every variable is given"):
        every = Given(values=given.values, mask=torch.ones(1, 3, dtype=torch.bool))
        fill_particles(model, orders, schedule, generator, given=every)
    with pytest.raises(ValueError, match="must run from step 0 to 3"):
        fill_particles(model, orders, full_schedule(3, num_stages=2, first_step=1), generator, given=given)
