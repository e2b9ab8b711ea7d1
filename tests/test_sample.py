import math
from itertools import product

import pytest
import torch
from table_model import CASES, ONE_STAGE, Case, assert_follows, groups_of

from ardm.orders import given_first, random_stage_orders
from ardm.sample import Given, sample_chain, sample_items
from ardm.schedule import Schedule, full_schedule

each_case = pytest.mark.parametrize("name", CASES)
each_schedule = pytest.mark.parametrize("make_schedule", [Case.full_schedule, Case.grouped_schedule])
NUM_DRAWS = 15000


def after(case, first_step):
    """One variable a call, after those that are given."""
    return full_schedule(case.num_variables, num_stages=case.num_stages, first_step=first_step)


def item_counts(case, draws):
    """How often each of the case's items was drawn."""
    places = case.num_classes ** torch.arange(case.num_variables).flip(0)
    assert draws.min() >= 0
    assert draws.max() < case.num_classes
    return (draws * places).sum(1).bincount(minlength=len(case.items()))


# Frequencies


@each_case
@each_schedule
def test_samples_follow_one_order_and_schedule(name, make_schedule, generator):
    case = CASES[name]()
    schedule, orders = make_schedule(case), case.all_orders()[-2]
    draws = sample_items(case.model, torch.tensor(orders).expand(NUM_DRAWS, -1, -1), schedule, generator)
    groups = groups_of(schedule)
    assert_follows(item_counts(case, draws), [math.exp(case.oracle.log_prob(x, orders, groups)) for x in case.items()])


@each_case
def test_samples_of_random_orders_follow_the_mixture(name, generator):
    case = CASES[name]()
    orders = random_stage_orders(NUM_DRAWS, case.num_stages, case.num_variables, generator)
    draws = sample_items(case.model, orders, case.full_schedule(), generator)
    mixture = [
        math.fsum(math.exp(case.oracle.log_prob(x, each)) for each in case.all_orders()) / len(case.all_orders())
        for x in case.items()
    ]
    assert_follows(item_counts(case, draws), mixture)


@pytest.mark.parametrize("name", ONE_STAGE)
@pytest.mark.parametrize("known", [{0: 1}, {2: 0}, {0: 0, 1: 1}])
def test_infilling_follows_the_conditional(name, known, generator):
    case, order = CASES[name](), (1, 2, 0)
    mask = torch.tensor([d in known for d in range(3)]).expand(NUM_DRAWS, -1)
    values = torch.tensor([known.get(d, 99) for d in range(3)]).expand(NUM_DRAWS, -1)
    orders = given_first(torch.tensor([[order]]).expand(NUM_DRAWS, -1, -1), mask)
    schedule = after(case, len(known))
    draws = sample_items(case.model, orders, schedule, generator, given=Given(values=values, mask=mask))
    sequence = sorted(order, key=lambda d: d not in known)
    steps = [(t, t + 1) for t in range(len(known), 3)]
    probs = [
        math.exp(case.oracle.stage_log_prob(x, 0, sequence, steps))
        if all(x[d] == value for d, value in known.items())
        else 0.0
        for x in case.items()
    ]
    assert math.fsum(probs) == pytest.approx(1)
    assert_follows(item_counts(case, draws), probs)


@each_case
def test_samples_depend_on_the_generator_alone(name):
    case = CASES[name]()
    orders = torch.tensor(case.all_orders()[1]).expand(50, -1, -1)
    first, again, other = (
        sample_items(case.model, orders, case.full_schedule(), torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def greedy(case, orders):
    """The likeliest value of each variable in turn."""
    state = [case.oracle.decay(0, 0)] * case.num_variables
    for stage, order in enumerate(orders):
        known = [False] * case.num_variables
        for variable in order:
            probs = case.oracle.next_probs(tuple(state), tuple(known), stage, variable)
            state[variable], known[variable] = max(probs, key=probs.__getitem__), True
    return state


@each_case
@pytest.mark.parametrize("options", [{"temperature": 1e-6}, {"top_p": 1e-6}])
def test_sharpened_samples_are_greedy(name, options, generator):
    case = CASES[name]()
    orders = case.all_orders()[-1]
    draws = sample_items(case.model, torch.tensor([orders] * 3), case.full_schedule(), generator, **options)
    assert draws.tolist() == [greedy(case, orders)] * 3


# The chain


@each_case
@each_schedule
def test_the_chain_reveals_what_the_schedule_says(name, make_schedule, generator):
    case = CASES[name]()
    schedule = make_schedule(case)
    orders = random_stage_orders(6, case.num_stages, case.num_variables, generator)
    steps = list(sample_chain(case.model, orders, schedule, generator))
    assert len(steps) == schedule.num_calls
    plan = [(stage, stop) for stage, groups in enumerate(groups_of(schedule)) for _, stop in groups]
    for step, (stage, stop) in zip(steps, plan, strict=True):
        assert step.stage == stage
        assert (step.mask.sum(1) == stop).all()
        for row, order in zip(step.mask, orders[:, stage], strict=True):
            assert set(row.nonzero()[:, 0].tolist()) == set(order[:stop].tolist())


@each_case
def test_the_chain_only_refines(name, generator):
    """Every state is the final item, decayed to the level that each variable has reached."""
    case = CASES[name]()
    orders = random_stage_orders(20, case.num_stages, case.num_variables, generator)
    steps = list(sample_chain(case.model, orders, case.full_schedule(), generator))
    for step in steps:
        for b, d in product(range(20), range(case.num_variables)):
            level = step.stage + int(step.mask[b, d])
            assert step.values[b, d] == case.oracle.decay(int(steps[-1].values[b, d]), level)


def given_example(case, generator, num_items=40):
    """One known variable in each item, another for each, with an order that begins with it."""
    values = torch.randint(case.num_classes, (num_items, case.num_variables), generator=generator)
    known = torch.arange(num_items)[:, None] % case.num_variables
    mask = torch.zeros_like(values, dtype=torch.bool).scatter(1, known, True)
    orders = random_stage_orders(num_items, case.num_stages, case.num_variables, generator)
    return Given(values=values, mask=mask), given_first(orders, mask)


@each_case
def test_given_values_are_kept_at_every_depth(name, generator):
    case = CASES[name]()
    given, orders = given_example(case, generator)
    for step in sample_chain(case.model, orders, after(case, 1), generator, given=given):
        assert step.mask[given.mask].all()
        known = [case.oracle.decay(k, step.stage + 1) for k in given.values[given.mask].tolist()]
        assert step.values[given.mask].tolist() == known
    assert torch.equal(step.values[given.mask], given.values[given.mask])
    assert step.values.max() < case.num_classes


def test_nothing_given_is_plain_sampling():
    case = CASES["base2-4-data"]()
    orders = torch.tensor(case.all_orders()[3]).expand(30, -1, -1)
    nothing = Given(values=torch.full((30, 3), -1), mask=torch.zeros(30, 3, dtype=torch.bool))
    plain, infilled = (
        sample_items(case.model, orders, case.full_schedule(), torch.Generator().manual_seed(4), given=given)
        for given in (None, nothing)
    )
    assert torch.equal(plain, infilled)


def test_a_schedule_that_ends_early_leaves_the_rest_hidden(generator):
    case = CASES["oa-2"]()
    orders = torch.tensor([[[2, 0, 1]]]).expand(9, -1, -1)
    draws = sample_items(case.model, orders, Schedule(starts=((0, 1),), num_steps=2), generator)
    assert (draws[:, 1] == case.model.depth.absorbing_value).all()
    assert draws[:, [0, 2]].max() < 2


def test_gradients_are_off_inside_the_chain_alone(generator):
    case, inside = CASES["oa-2"](), []
    hook = case.model.network.register_forward_hook(lambda *_: inside.append(torch.is_grad_enabled()))
    chain = sample_chain(case.model, torch.arange(3).expand(2, 1, -1), case.full_schedule(), generator)
    between = [torch.is_grad_enabled() for _ in chain]
    hook.remove()
    assert (inside, between) == ([False] * 3, [True] * 3)


# Orders


def test_given_first_keeps_each_part_in_sequence():
    orders = torch.tensor([[[3, 1, 0, 2], [0, 1, 2, 3]], [[2, 3, 1, 0], [1, 0, 3, 2]]])
    given = torch.tensor([[True, False, True, False], [False, True, False, False]])
    expected = [[[0, 2, 3, 1], [0, 2, 1, 3]], [[1, 2, 3, 0], [1, 0, 3, 2]]]
    assert given_first(orders, given).tolist() == expected


def test_each_stage_has_a_fresh_order(generator):
    orders = random_stage_orders(4000, 2, 3, generator)
    assert torch.equal(orders.sort(-1).values, torch.arange(3).expand_as(orders))
    code = (orders * torch.tensor([9, 3, 1])).sum(-1)
    pairs = code.unique(return_inverse=True)[1]
    assert_follows((6 * pairs[:, 0] + pairs[:, 1]).bincount(minlength=36), [1 / 36] * 36)


# Errors


@pytest.mark.parametrize("shape", [(2, 1, 3), (2, 2, 4)])
def test_orders_must_fit_the_model(shape, generator):
    case = CASES["base2-4-data"]()
    orders = torch.arange(shape[-1]).expand(shape)
    with pytest.raises(ValueError, match=r"variables\) \(2, 2, 3\), got \(2, "):
        sample_items(case.model, orders, case.full_schedule(), generator)


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (full_schedule(3), r"expected a schedule of 2 x 3 \(stages x steps\), got 1 x 3"),
        (full_schedule(4, num_stages=2), r"expected a schedule of 2 x 3 \(stages x steps\), got 2 x 4"),
        (full_schedule(2, num_stages=2), "must reach the last variable"),
    ],
)
def test_schedule_must_fit_the_model(schedule, text, generator):
    case = CASES["base2-4-data"]()
    with pytest.raises(ValueError, match=text):
        sample_items(case.model, torch.arange(3).expand(2, 2, -1), schedule, generator)


ONE_KNOWN = torch.tensor([[False, False, True]] * 2)


@pytest.mark.parametrize(
    ("values", "mask", "first_step", "order", "text"),
    [
        (0, None, 1, [2, 0, 1], "begins after 1 variables; give exactly these in every item"),
        (0, ONE_KNOWN, 0, [2, 0, 1], "begins after 0 variables; give exactly these"),
        (0, ONE_KNOWN, 2, [2, 0, 1], "begins after 2 variables; give exactly these"),
        (0, ONE_KNOWN, 1, [0, 2, 1], "given variables must come first in every order"),
        (2, ONE_KNOWN, 1, [2, 0, 1], r"given values must lie in 0\.\.1"),
        (-1, ONE_KNOWN, 1, [2, 0, 1], r"given values must lie in 0\.\.1"),
    ],
)
def test_given_variables_must_fit_orders_and_schedule(values, mask, first_step, order, text, generator):
    case = CASES["oa-2"]()
    given = None if mask is None else Given(values=torch.full((2, 3), values), mask=mask)
    orders = torch.tensor(order).expand(2, 1, -1)
    with pytest.raises(ValueError, match=text):
        sample_items(case.model, orders, after(case, first_step), generator, given=given)
