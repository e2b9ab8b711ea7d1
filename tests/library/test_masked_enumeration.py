"""Tiny masked models against enumeration: every number of the library from the raw network's softmax alone."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
from table_model import assert_follows
from tiny_masked import CASES, DIMENSIONS, ORDERS

from ardm.likelihood import exact_bits
from ardm.schedule import Schedule, full_schedule

each_case = pytest.mark.parametrize("name", CASES)


# Probabilities


@each_case
def test_exact_bits_of_every_sequence_in_every_order(name):
    case = CASES[name]()
    model, items = case.model().ardm, torch.tensor(case.items())
    for order in ORDERS:
        orders = torch.tensor(order).expand(len(items), 1, -1)
        bits = exact_bits(model, items, orders, full_schedule(DIMENSIONS))
        assert bits.tolist() == pytest.approx([-case.in_order(x, order) for x in case.items()], rel=1e-10)
        assert (-bits).exp2().sum().item() == pytest.approx(1, abs=1e-10)


def test_the_cases_tell_orders_and_tokens_apart():
    """The tests above and below would see an order or a place taken for another."""
    for name in CASES:
        case = CASES[name]()
        bits = np.array([[-case.in_order(x, order) for order in ORDERS] for x in case.items()])
        assert np.ptp(bits, axis=0).min() > 1, name
        assert np.ptp(bits, axis=1).max() > 0.1, name


@each_case
def test_scores_of_texts_in_named_orders_and_schedules(name):
    case = CASES[name]()
    model, texts = case.model(), [case.text(x) for x in case.items()]
    forward, backward = (model.score(texts, order=order) for order in ("raster", "reverse"))
    assert forward.is_exact
    assert forward.bits.tolist() == pytest.approx([-case.in_order(x, (0, 1, 2)) for x in case.items()], rel=1e-10)
    assert backward.bits.tolist() == pytest.approx([-case.in_order(x, (2, 1, 0)) for x in case.items()], rel=1e-10)
    at_once = model.score(texts, order="raster", calls=1, schedule="uniform")
    assert at_once.bits.tolist() == pytest.approx([-case.log2_prob(x, [(0, 1, 2)]) for x in case.items()], rel=1e-10)


@each_case
def test_groups_of_a_schedule(name):
    case = CASES[name]()
    model, items, order = case.model().ardm, torch.tensor(case.items()), (2, 0, 1)
    for starts in ((0, 1), (0, 2)):
        groups = [order[: starts[1]], order[starts[1] :]]
        schedule = Schedule(starts=(starts,), num_steps=DIMENSIONS)
        bits = exact_bits(model, items, torch.tensor(order).expand(len(items), 1, -1), schedule)
        assert bits.tolist() == pytest.approx([-case.log2_prob(x, groups) for x in case.items()], rel=1e-10)


@each_case
def test_the_bound_is_the_mean_over_all_orders(name):
    case = CASES[name]()
    chosen = case.items()[::3]
    score = case.model().score([case.text(x) for x in chosen], passes=300)
    truth = sum(case.mean_bits(x) for x in chosen) / (DIMENSIONS * len(chosen))
    assert not score.is_exact
    assert 0 < score.draws_half_width < 0.07
    assert score.bits_per_dim == pytest.approx(truth, abs=2 * score.draws_half_width)
    assert score.bits.tolist() == pytest.approx([case.mean_bits(x) for x in chosen], abs=1.2)


def test_the_bound_lies_above_the_bits_of_the_mixture():
    for name in CASES:
        case = CASES[name]()
        for x in case.items():
            mixture = -math.log2(sum(2 ** case.in_order(x, order) for order in ORDERS) / len(ORDERS))
            assert case.mean_bits(x) >= mixture


@each_case
def test_whole_schedules_in_random_orders_give_the_bound_too(name):
    case = CASES[name]()
    x = case.items()[5]
    score = case.model().score([case.text(x)] * 300, calls=3)
    wide = 4 * score.bits.std() / math.sqrt(len(score.bits))
    assert score.bits.mean() == pytest.approx(case.mean_bits(x), abs=wide)
    assert 0 < wide < 1.2


# Conditionals


@each_case
def test_conditionals_of_every_target_and_given(name):
    case, texts = CASES[name](), []
    model, chosen = case.model(), case.items()[::5]
    texts = [case.text(x) for x in chosen]
    for size in range(DIMENSIONS):
        for given in combinations(range(DIMENSIONS), size):
            rest = [place for place in range(DIMENSIONS) if place not in given]
            for target in (rest, rest[:1], rest[-1:]):
                found = model.conditional(texts, target=list(target), given=list(given))
                expected = [-case.in_order(x, target, given) for x in chosen]
                assert found.bits.tolist() == pytest.approx(expected, rel=1e-10), (given, target)


@each_case
def test_tables_of_hidden_places(name):
    case = CASES[name]()
    table = case.model().table("A__")
    state = (case.ordinary[0], case.mask, case.mask)
    expected = case.probs([state])[0, 1:]
    assert table.shape == (2, len(case.names))
    np.testing.assert_allclose(table[:, case.ordinary], expected.numpy(), rtol=1e-10)
    assert not np.delete(table, case.ordinary, axis=1).any(), "special tokens have no probability"


# Draws


def frequencies(case, texts):
    counts = Counter(texts)
    return torch.tensor([counts.pop(case.text(x), 0) for x in case.items()], dtype=torch.float64), counts


@each_case
def test_samples_follow_the_mixture_over_orders(name):
    case = CASES[name]()
    counts, others = frequencies(case, case.model().sample(2000, batch_size=2000))
    mixture = [sum(2 ** case.in_order(x, order) for order in ORDERS) / len(ORDERS) for x in case.items()]
    assert not others
    assert_follows(counts, mixture)


@each_case
def test_samples_in_one_order_and_few_calls_follow_it(name):
    case = CASES[name]()
    model = case.model()
    counts, others = frequencies(case, model.sample(2000, 2, "reverse", schedule="uniform", batch_size=2000))
    groups = [(2,), (1, 0)] if model_starts(model) == (0, 1) else [(2, 1), (0,)]
    assert not others
    assert_follows(counts, [2 ** case.log2_prob(x, groups) for x in case.items()])


def model_starts(model):
    from ardm.tasks.plan import make_schedule

    return make_schedule(model, 2, "uniform").starts[0]


@each_case
def test_gaps_are_filled_by_their_conditional(name):
    case = CASES[name]()
    filled = case.model().infill("_C_", n=1500, order="raster", batch_size=1500)
    assert {text[1] for text in filled} == {"C"}
    counts, others = frequencies(case, filled)
    c = case.ordinary[1]
    assert not others
    assert_follows(counts, [2 ** case.in_order(x, (0, 2), (1,)) if x[1] == c else 0.0 for x in case.items()])
