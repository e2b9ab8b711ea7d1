"""Scores of the library are those of the tasks below it."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from own_models import around, other_table
from serving import with_profile
from table_model import TableNetwork
from tiny_exact import tiny_exact

import ardm
from ardm import likelihood
from ardm.library.items import items_of
from ardm.library.model import Model
from ardm.likelihood import bound
from ardm.runtime.device import Runtime
from ardm.tasks.load import LoadedModel
from ardm.tasks.plan import make_schedule
from ardm.tasks.score import ScoreOptions, passes_for, score


@pytest.mark.parametrize(("order", "calls"), [("random", None), ("random", 3), ("halton", None), ("reverse", 2)])
@pytest.mark.parametrize("text", ["the cat", "the cat sat on i"], ids=["short", "whole"])
def test_a_text_costs_the_same_in_the_library_and_on_the_command_line(text, order, calls):
    trained = with_profile(tiny_exact("text"))
    model = Model(trained.model, items_of(trained), profile=trained.profile, trained=trained)
    (rows,) = model.items.rows(text)
    x = rows.x[:, : len(text)]
    options = ScoreOptions(num_passes=passes_for(1) if calls is None else 1)
    schedule = None if calls is None else make_schedule(trained, calls, last_step=len(text))
    below = score(LoadedModel(trained=trained, runtime=Runtime.choose("cpu")), x, schedule, order, options=options)
    above = model.score(text, order, calls)
    assert above.bits_per_dim == pytest.approx(below.bits_per_dim, rel=1e-6)
    assert above.is_exact == below.is_exact


# Intervals

NAN = math.nan


def step_model():
    """A model whose losses depend on the step alone."""
    network = TableNetwork(1, 3, 3, 2)
    revealed = torch.tensor([mask.bit_count() for mask in range(8)])
    with torch.no_grad():
        network.table.zero_()[..., 1] = 2.0 * revealed[:, None, None]
    return ardm.order_agnostic(network, 2, 3)


def spread(scores):
    return float(np.std([score.bits_per_dim for score in scores]))


def test_the_interval_over_items_leaves_out_what_stratification_removes():
    model, exact = step_model(), sum(math.log2(1 + math.exp(2.0 * t)) for t in range(3)) / 3
    for items in (np.zeros((48, 3)), np.array([[0.0, 0.0, NAN]] * 48)):
        score = model.score(items, passes=1)
        assert score.half_width < 1e-9
    assert model.score(np.zeros((48, 3)), passes=1).bits_per_dim == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("name", ["oa-2", "base2-4-data"])
@pytest.mark.parametrize("passes", [1, 3])
def test_the_interval_over_items_is_that_of_the_bound(name, passes):
    case, model = around(name)
    items = case.items() * 3
    score = model.score(items, passes=passes, seed=5)
    whole = bound(case.model, torch.tensor(items), torch.Generator().manual_seed(5), num_passes=passes)
    assert score.half_width == pytest.approx(whole.half_width, rel=1e-9)
    assert score.draws_half_width == pytest.approx(whole.draws_half_width, rel=1e-9)


def test_one_missing_value_spoils_no_stratification(monkeypatch):
    """The spread over seeds stays far below that of steps drawn for each item alone."""
    model, items = step_model(), np.zeros((48, 3))
    items[7, 2] = NAN
    stratified = [model.score(items, passes=1, seed=seed) for seed in range(30)]

    def alone(num_passes, num_items, generator):
        return torch.rand(num_passes, num_items, generator=generator, dtype=torch.float64)

    monkeypatch.setattr(likelihood, "stratified_places", alone)
    independent = [model.score(items, passes=1, seed=seed) for seed in range(30)]
    assert spread(stratified) < spread(independent) / 4
    assert max(score.half_width for score in stratified) < 4 * spread(independent)


def mean_bits_of_known(case, x, known):
    """The mean over orders of -log2 p(x at the known variables) of a one-stage model."""
    steps = [(t, t + 1) for t in range(sum(known))]
    values = []
    for order in case.stage_orders():
        values.append(-case.oracle.stage_log_prob(x, 0, [d for d in order if known[d]], steps) / math.log(2))
    return math.fsum(values) / len(values)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("passes", [1, 2])
def test_the_interval_over_items_is_calibrated(missing, passes):
    """Fresh items each time: 95% of the intervals hold the population's mean, and they are not too wide."""
    case, model = around("oa-2")
    masks = [(True, True, True), *([(True, False, True), (False, False, True)] if missing else [])]
    population = list(product(case.items(), masks))
    bits = sum(mean_bits_of_known(case, x, known) for x, known in population)
    truth = bits / sum(sum(known) for _, known in population)
    chance, scores = np.random.default_rng(0), []
    for seed in range(300):
        chosen = [population[number] for number in chance.integers(len(population), size=45)]
        items = np.array([np.where(known, x, NAN) for x, known in chosen])
        scores.append(model.score(items, passes=passes, seed=seed))
    covered = np.mean([abs(score.bits_per_dim - truth) <= score.half_width for score in scores])
    assert 0.91 <= covered <= 0.99
    assert 0.85 < np.mean([score.half_width for score in scores]) / 1.96 / spread(scores) < 1.2


@pytest.mark.parametrize("item", [(1, 0, 1), (1.0, NAN, 1.0)], ids=["whole", "missing"])
@pytest.mark.parametrize("passes", [2, 4, 8, 32])
def test_the_interval_over_draws_is_calibrated(item, passes):
    case, model = around("oa-2")
    known = [not math.isnan(value) for value in item]
    truth = mean_bits_of_known(case, (1, 0, 1), known) / sum(known)
    scores = [model.score([item], passes=passes, seed=seed) for seed in range(250)]
    covered = np.mean([abs(score.bits_per_dim - truth) <= score.draws_half_width for score in scores])
    assert covered >= 0.91
    widths = np.mean([score.draws_half_width for score in scores])
    assert widths > 1.96 * 0.9 * spread(scores)
    if passes == 32:
        assert widths < 1.96 * 1.5 * spread(scores)


def test_longer_items_do_not_widen_the_interval():
    """Two items of other lengths with the same bits per variable."""
    network = other_table()
    torch.nn.init.zeros_(network.table)
    score = ardm.order_agnostic(network, 2, 3).score([[0.0, 1.0, NAN], [0.0, 1.0, 1.0]])
    assert score.half_width == pytest.approx(0.0, abs=1e-9)
