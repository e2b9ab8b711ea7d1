import math
import random
from itertools import pairwise, product

import pytest
import torch
from own_models import Conditional, other_table
from table_model import CASES, ONE_STAGE, groups_of, order_agnostic
from torch import nn

from ardm import likelihood
from ardm.conditionals import conditional_bits
from ardm.likelihood import (
    bound,
    exact_bits,
    mean_bits,
    partial_bound,
    schedule_bits_bound,
    stratified_draws_half_width,
    stratified_half_width,
    student_95,
    variable_bits,
)
from ardm.model import ARDM, evaluating
from ardm.objective import stratified_passes, stratified_steps
from ardm.sample import sample_chain, sample_items
from ardm.schedule import Schedule, full_schedule, uniform_schedule

each_case = pytest.mark.parametrize("name", CASES)


# Exact values


@each_case
def test_exact_bits_of_every_schedule(name):
    """All items, each with an order of its own for each stage."""
    case, chance = CASES[name](), random.Random(0)
    items = case.items()
    for schedule in case.schedules():
        orders = chance.choices(case.all_orders(), k=len(items))
        bits = exact_bits(case.model, torch.tensor(items), torch.tensor(orders), schedule)
        groups = groups_of(schedule)
        expected = [-case.oracle.log_prob(x, each, groups) / math.log(2) for x, each in zip(items, orders, strict=True)]
        assert bits.tolist() == pytest.approx(expected, rel=1e-12)


@each_case
def test_exact_bits_of_every_order(name):
    case = CASES[name]()
    orders, x = case.all_orders(), case.items()[1]
    items = torch.tensor([x] * len(orders))
    bits = exact_bits(case.model, items, torch.tensor(orders), case.full_schedule())
    expected = [-case.oracle.log_prob(x, each) / math.log(2) for each in orders]
    assert bits.tolist() == pytest.approx(expected, rel=1e-12)


@each_case
def test_every_order_and_schedule_is_a_distribution(name):
    case, chance = CASES[name](), random.Random(1)
    items = torch.tensor(case.items())
    for schedule in case.schedules():
        order = torch.tensor(chance.choice(case.all_orders()))
        bits = exact_bits(case.model, items, order.expand(len(items), -1, -1), schedule)
        assert (-bits).exp2().sum().item() == pytest.approx(1, abs=1e-12)


@each_case
def test_batch_size_does_not_matter(name):
    case = CASES[name]()
    items = torch.tensor(case.items())
    orders = torch.tensor(case.all_orders()[-1]).expand(len(items), -1, -1)
    sizes = [1, 5, 64, 10**6]
    results = [exact_bits(case.model, items, orders, case.grouped_schedule(), batch_size=size) for size in sizes]
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=1e-13, atol=0)


@each_case
def test_bits_of_variables_add_up_and_are_where_they_belong(name):
    """Another value of the variable that comes last changes no bits but its own."""
    case, chance = CASES[name](), random.Random(1)
    items = torch.tensor(case.items())
    orders = torch.tensor(chance.choices(case.all_orders(), k=len(items)))
    schedule = full_schedule(items.shape[1], num_stages=case.model.num_stages)
    bits = variable_bits(case.model, items, orders, schedule, batch_size=5)
    torch.testing.assert_close(bits.sum(1), exact_bits(case.model, items, orders, schedule), rtol=1e-12, atol=0)
    if case.model.num_stages == 1:
        last = orders[:, 0, -1:]
        changed = items.scatter(1, last, (items.gather(1, last) + 1) % case.model.depth.num_classes)
        others = variable_bits(case.model, changed, orders, schedule).scatter(1, last, 0.0)
        torch.testing.assert_close(others, bits.scatter(1, last, 0.0), rtol=1e-12, atol=0)


def test_on_batch_counts_the_calls():
    case, calls = CASES["base2-3-data"](), []
    items, schedule = torch.tensor(case.items()), case.grouped_schedule()
    orders = torch.tensor(case.all_orders()[0]).expand(len(items), -1, -1)
    exact_bits(case.model, items, orders, schedule, batch_size=7, on_batch=calls.append)
    assert max(calls) == 7
    assert sum(calls) == len(items) * schedule.num_calls


def test_only_an_items_own_impossible_variables_cost_infinitely_much():
    """-inf logits elsewhere (variables already revealed or not yet scored) must not turn into NaN."""
    model = order_agnostic(2, 2).model
    with torch.no_grad():
        model.network.table[..., 1, 1] = -math.inf  # the second variable is never 1
    items = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    orders = torch.tensor([[[0, 1]]]).expand(4, -1, -1)
    bits = exact_bits(model, items, orders, full_schedule(2))
    assert bits.isinf().tolist() == [False, True, False, True]
    assert (-bits).exp2().sum().item() == pytest.approx(1, abs=1e-12)


# Bounds


@each_case
def test_schedule_bound_is_unbiased(name, generator):
    """Many copies of one item, against the mean over all orders of the exact bits."""
    case = CASES[name]()
    x, schedule = case.items()[1], case.grouped_schedule()
    exact = case.mean_nats(x, groups_of(schedule)) / math.log(2)
    copies = torch.tensor([x] * 3000)
    bits = schedule_bits_bound(case.model, copies, schedule, generator, batch_size=4096)
    assert abs(bits.mean().item() - exact) < 4 * bits.std().item() / math.sqrt(3000)


def test_schedule_bound_of_one_call_is_exact(generator):
    """All variables in one call: no order matters, so the estimate has no spread."""
    case = CASES["base2-4-data"]()
    items = torch.tensor(case.items())
    schedule = uniform_schedule(3, 2, num_stages=2)
    orders = torch.arange(3).expand(len(items), 2, -1)
    bits = schedule_bits_bound(case.model, items, schedule, generator)
    torch.testing.assert_close(bits, exact_bits(case.model, items, orders, schedule), rtol=1e-13, atol=0)


def test_schedule_bound_of_a_uniform_model_is_exact(generator):
    """Every variable costs one bit, so the weights of a call's hidden variables must sum to its size."""
    model = order_agnostic(2, 3).model
    torch.nn.init.zeros_(model.network.table)
    for starts in [(0,), (0, 1), (0, 2), (0, 1, 2)]:
        schedule = Schedule(starts=(starts,), num_steps=3)
        bits = schedule_bits_bound(model, torch.tensor([[0, 1, 1]] * 5), schedule, generator)
        assert bits.tolist() == pytest.approx([3.0] * 5, rel=1e-14)


def test_schedule_bound_varies_less_than_exact_bits(generator):
    case, x = CASES["oa-2"](), CASES["oa-2"]().items()[5]
    exact = [-case.oracle.log_prob(x, orders) / math.log(2) for orders in case.all_orders()]
    bits = schedule_bits_bound(case.model, torch.tensor([x] * 2000), full_schedule(3), generator)
    assert bits.var().item() < 0.9 * torch.tensor(exact).var(correction=0).item()


def truth_per_dim(case, items):
    total = math.fsum(case.mean_nats(x) for x in items)
    return total / math.log(2) / case.num_variables / len(items)


@pytest.mark.parametrize(("name", "num_passes"), [*((name, 1) for name in CASES), ("oa-2", 3), ("base2-3-direct", 3)])
def test_bound_is_unbiased(name, num_passes, generator):
    """A fixed set of items: fewer than steps, or more, but never a multiple of them."""
    case = CASES[name]()
    items = random.Random(2).choices(case.items(), k=7)
    results = [bound(case.model, torch.tensor(items), generator, num_passes=num_passes) for _ in range(300)]
    values = torch.tensor([result.bits_per_dim for result in results])
    error = values.mean().item() - truth_per_dim(case, items)
    assert abs(error) < 4 * values.std().item() / math.sqrt(len(values))


@pytest.mark.parametrize("name", ["oa-3-in-data", "base2-4-data", "user-maps"])
@pytest.mark.parametrize("num_passes", [1, 2])
def test_bound_covers_the_population_mean(name, num_passes, generator):
    """Fresh items each time, drawn uniformly; the interval holds the population mean and is not too wide."""
    case, repetitions = CASES[name](), 300
    truth, population = truth_per_dim(case, case.items()), torch.tensor(case.items())
    results = []
    for _ in range(repetitions):
        rows = torch.randint(len(population), (45,), generator=generator)
        results.append(bound(case.model, population[rows], generator, num_passes=num_passes))
    covered = sum(abs(r.bits_per_dim - truth) <= r.half_width for r in results) / repetitions
    assert covered >= 0.91  # 95% less three standard errors
    spread = torch.tensor([r.bits_per_dim for r in results]).std().item()
    widths = torch.tensor([r.half_width for r in results]).mean().item() / 1.96
    assert 0.85 < widths / spread < 1.25


def test_the_interval_over_draws_covers_the_mean_of_these_items(generator):
    case = CASES["oa-3-in-data"]()
    items = random.Random(4).choices(case.items(), k=7)
    truth, x = truth_per_dim(case, items), torch.tensor(items)
    results = [bound(case.model, x, generator, num_passes=25) for _ in range(200)]
    covered = sum(abs(r.bits_per_dim - truth) <= r.draws_half_width for r in results) / len(results)
    assert covered >= 0.89
    spread = torch.tensor([r.bits_per_dim for r in results]).std().item()
    widths = torch.tensor([r.draws_half_width for r in results]).mean().item() / 1.96
    assert 0.85 < widths / spread < 1.15
    assert bound(case.model, x, generator).to_dict()["draws_half_width"] is None  # one pass does not tell


def independent_passes(num_passes, num_items, num_steps, generator):
    """Steps that are stratified within each pass alone."""
    return torch.stack([stratified_steps(num_items, num_steps, generator) for _ in range(num_passes)])


@pytest.mark.parametrize(
    ("name", "num_items", "num_passes"),
    [("oa-3-in-data", 1, 2), ("oa-3-in-data", 1, 9), ("base2-4-data", 1, 12), ("base2-4-direct", 2, 9), ("oa-2", 5, 4)],
)
def test_stratified_passes_are_unbiased_and_vary_less(name, num_items, num_passes, generator, monkeypatch):
    case = CASES[name]()
    items = random.Random(3).choices(case.items(), k=num_items)

    def estimates():
        how = {"num_passes": num_passes, "batch_size": 64}
        return torch.tensor([bound(case.model, torch.tensor(items), generator, **how).bits_per_dim for _ in range(300)])

    stratified = estimates()
    assert abs(stratified.mean().item() - truth_per_dim(case, items)) < 4 * stratified.std().item() / math.sqrt(300)
    monkeypatch.setattr(likelihood, "stratified_passes", independent_passes)
    assert stratified.var().item() < estimates().var().item()


@pytest.mark.parametrize(("num_items", "num_passes"), [(1, 12), (1, 48), (2, 12), (7, 5), (60, 6)])
def test_the_interval_over_draws_of_stratified_passes(num_items, num_passes, generator):
    case = CASES["base2-4-data"]()
    items = random.Random(5).choices(case.items(), k=num_items)
    truth, x = truth_per_dim(case, items), torch.tensor(items)
    results = [bound(case.model, x, generator, num_passes=num_passes) for _ in range(200)]
    covered = sum(abs(r.bits_per_dim - truth) <= r.draws_half_width for r in results) / len(results)
    assert covered >= 0.91


class Losses:
    """Losses without a network: a profile with jumps between stages, and items of their own level and slope."""

    def __init__(self, num_stages, num_variables, generator, *, noise=0.3):
        num_steps = num_stages * num_variables
        self.shape, self.generator, self.noise = (num_stages, num_variables), generator, noise
        self.place = (torch.arange(num_steps).double() + 0.5) / num_steps - 0.5
        self.profile = 3 - 2 * self.place + torch.arange(num_steps) // num_variables % 3

    def items(self, num_items):
        """The levels and slopes of items; slopes leave an item's mean loss as it is."""
        draws = torch.randn(2, num_items, generator=self.generator, dtype=torch.float64)
        return 0.5 * draws[0], 0.4 * draws[1]

    def estimate(self, items, num_passes):
        """The mean, and both half widths."""
        level, slope = items
        steps = stratified_passes(num_passes, len(level), len(self.profile), self.generator)
        noise = torch.randn(steps.shape, generator=self.generator, dtype=torch.float64)
        bits = self.profile[steps] + level + slope * self.place[steps] + self.noise * noise
        widths = stratified_half_width(bits, steps), stratified_draws_half_width(bits, steps, *self.shape)
        return bits.mean().item(), *widths


def coverage(rows):
    """The share of intervals that hold 0, and the mean half width over that of the errors' standard deviation."""
    errors, widths = torch.tensor(rows, dtype=torch.float64).T
    return (errors.abs() <= widths).double().mean().item(), (widths.mean() / (1.959964 * errors.std())).item()


each_size = pytest.mark.parametrize("shape", [(1, 100), (8, 48)])


@each_size
@pytest.mark.parametrize(
    ("num_items", "num_passes"), [(12, 1), (12, 2), (12, 8), (12, 40), (100, 1), (300, 2), (300, 8)]
)
def test_the_interval_over_items_is_calibrated(shape, num_items, num_passes, generator):
    """With items as few as a stage has, steps' means hold jumps, and intervals are wider."""
    losses = Losses(*shape, generator)
    truth = losses.profile.mean().item()
    results = (losses.estimate(losses.items(num_items), num_passes) for _ in range(400))
    covered, ratio = coverage([(mean - truth, width) for mean, width, _ in results])
    assert covered >= 0.89 if num_items == 12 else covered >= 0.915  # a normal interval of 12 items covers 92%
    assert 0.9 < ratio < (1.15 if num_items * num_passes > 100 * shape[0] or shape[0] == 1 else 1.5)


@each_size
@pytest.mark.parametrize(
    ("num_items", "num_passes"), [(1, 2), (1, 16), (1, 64), (2, 8), (4, 16), (12, 8), (12, 40), (300, 2), (300, 8)]
)
def test_the_interval_over_draws_is_calibrated(shape, num_items, num_passes, generator):
    """Where strata are narrow; where they are wide, it is too wide rather than too narrow."""
    losses = Losses(*shape, generator)
    items = losses.items(num_items)
    truth = losses.profile.mean().item() + items[0].mean().item()
    results = (losses.estimate(items, num_passes) for _ in range(400))
    covered, ratio = coverage([(mean - truth, width) for mean, _, width in results])
    assert covered >= 0.915
    assert ratio > 0.9
    if num_passes >= 8:
        assert ratio < 1.5 if len(items[0]) * num_passes < 30 else ratio < 1.2


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [
        *[(0, math.inf), (0.5, math.inf), (1, 12.706205), (2, 4.302653), (3, 3.182446), (7, 2.364624), (8, 2.306004)],
        *[(10, 2.228139), (15, 2.131450), (30, 2.042272), (1000, 1.962339), (1e6, 1.959966)],
    ],
)
def test_students_quantile(freedom, quantile):
    assert student_95(freedom) == pytest.approx(quantile, rel=3e-4)


def test_students_quantile_falls_between_the_rows_of_the_table():
    """At 1.5 and 4.5 degrees it is 6.017 and 2.659, and it has no steps."""
    values = [student_95(1 + number / 50) for number in range(500)]
    assert values == sorted(values, reverse=True)
    assert max(a / b for a, b in pairwise(values)) < 1.05
    assert (student_95(1.5), student_95(4.5)) == (pytest.approx(6.017, rel=0.03), pytest.approx(2.659, rel=0.002))


@pytest.mark.parametrize("num_passes", [2, 3, 4, 24])
def test_one_item_has_an_interval_over_draws_after_two_passes(num_passes, generator):
    for name in CASES:
        width = bound(
            CASES[name]().model, torch.tensor([[0] * CASES[name]().num_variables]), generator, num_passes=num_passes
        ).draws_half_width
        assert math.isfinite(width)
        assert width > 0


def test_the_interval_leaves_out_what_stratification_removes(generator):
    """Losses that depend on the step alone: as many items at every step give the exact mean."""
    model = order_agnostic(2, 3).model
    revealed = torch.tensor([mask.bit_count() for mask in range(8)])
    with torch.no_grad():
        model.network.table.zero_()[..., 1] = 2.0 * revealed[:, None, None]
    result = bound(model, torch.zeros(48, 3, dtype=torch.long), generator)
    exact = sum(math.log2(1 + math.exp(2.0 * t)) for t in range(3)) / 3
    assert result.bits_per_dim == pytest.approx(exact, rel=1e-12)
    assert result.half_width < 1e-9


def test_the_interval_is_right_for_few_items(generator):
    """One variable, so that each item's value is known: the squared width has the variance of the mean."""
    model = order_agnostic(2, 1).model
    bits = -model.network.table[0, 0, 2, 0].log_softmax(0) / math.log(2)
    variance = bits.var(correction=0).item() / 16  # both classes alike, 16 items
    widths = []
    for _ in range(500):
        x = torch.randint(2, (16, 1), generator=generator)
        widths.append(bound(model, x, generator).half_width / 1.959964)
    assert torch.tensor(widths).square().mean().item() == pytest.approx(variance, rel=0.08)


@each_case
def test_bound_measures_the_profile(name, generator):
    case = CASES[name]()
    x, num_copies = case.items()[1], 24000
    result = bound(case.model, torch.tensor([x] * num_copies), generator, batch_size=5000)
    bits, counts = result.profile.bits, result.profile.counts
    assert (counts == num_copies // counts.numel()).all()
    for stage, t in product(range(case.num_stages), range(case.num_variables)):
        exact = case.component_nats(x, stage, t) / math.log(2)
        assert bits[stage, t].item() == pytest.approx(exact, abs=0.1)
    assert result.bits_per_dim == pytest.approx(case.num_stages * bits.mean().item(), rel=1e-9)
    assert result.num_items == num_copies


def test_bound_says_what_it_is(generator):
    case, calls = CASES["oa-2"](), []
    items = torch.tensor(case.items())
    result = bound(case.model, items, generator, num_passes=2, batch_size=3, on_batch=calls.append)
    assert result.estimator == "bound over random orders, stratified steps, 2 passes"
    assert sum(calls) == 16
    assert max(calls) == 3


def test_one_item_has_no_interval(generator):
    case = CASES["oa-2"]()
    assert bound(case.model, torch.tensor([[0, 1, 1]]), generator, num_passes=4).half_width == math.inf
    assert mean_bits(torch.tensor([3.0]), 3, "exact", is_exact=True).half_width == math.inf


def test_mean_bits():
    result = mean_bits(torch.tensor([4.0, 8.0, 6.0, 10.0]), 2, "exact", is_exact=True)
    assert (result.bits_per_dim, result.num_items, result.estimator) == (3.5, 4, "exact")
    assert result.half_width == pytest.approx(1.959964 * math.sqrt(5 / 3) / 2, rel=1e-6)


# Modes


class Dropping(nn.Module):
    """A network that fails in train mode, with a part that stays in eval mode and may fail always."""

    def __init__(self, network, *, fails=False):
        super().__init__()
        self.network, self.dropout, self.frozen, self.fails = network, nn.Dropout(), nn.Dropout().eval(), fails

    def forward(self, *seen):
        assert not any(module.training for module in self.modules())
        if self.fails:
            raise RuntimeError("this network fails")
        return self.dropout(self.network(*seen))


def dropping(**how):
    model = CASES["oa-2"]().model
    return ARDM(Dropping(model.network, **how), model.parametrization, model.shape)


def modes(model):
    return [module.training for module in model.modules()]


A, B = torch.tensor([True, False, False]), torch.tensor([False, True, False])
X, ORDERS = torch.tensor([[0, 1, 1], [1, 0, 1]]), torch.arange(3).expand(2, 1, 3)
USES = {
    "bound": lambda model: bound(model, X, torch.Generator(), num_passes=2),
    "exact_bits": lambda model: exact_bits(model, X, ORDERS, full_schedule(3)),
    "variable_bits": lambda model: variable_bits(model, X, ORDERS, full_schedule(3)),
    "schedule_bits_bound": lambda model: schedule_bits_bound(model, X, full_schedule(3), torch.Generator()),
    "conditional_bits": lambda model: conditional_bits(model, X, A, B, torch.arange(3)),
    "sample_items": lambda model: sample_items(model, ORDERS, full_schedule(3), torch.Generator()),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_models_in_train_mode_are_used_in_eval_mode(use):
    for model in (dropping(), dropping().eval()):
        before = modes(model)
        use(model)
        assert modes(model) == before
    model = dropping(fails=True)
    with pytest.raises(RuntimeError, match="this network fails"):
        use(model)
    assert model.network.dropout.training
    assert not model.network.frozen.training


def test_a_model_may_be_trained_between_two_steps_of_a_chain():
    model = dropping()
    for _ in sample_chain(model, ORDERS, full_schedule(3), torch.Generator()):
        assert model.training


def test_a_stopped_estimate_leaves_the_mode():
    def stop(num_items):
        raise KeyboardInterrupt

    model = dropping()
    with pytest.raises(KeyboardInterrupt):
        bound(model, X, torch.Generator(), on_batch=stop)
    assert model.training
    with evaluating(model):
        assert not model.training


# Errors


@pytest.mark.parametrize(
    ("x", "text"),
    [
        ([[0, 1]], r"at least one item of 3 variables, got shape \(1, 2\)"),
        (torch.empty(0, 3, dtype=torch.long), r"at least one item of 3 variables, got shape \(0, 3\)"),
        ([[0, 2, 1]], r"values must lie in 0\.\.1, got 0\.\.2"),
        ([[0, -1, 1]], r"values must lie in 0\.\.1, got -1\.\.1"),
    ],
)
def test_items_that_cannot_be_scored(x, text, generator):
    model, x = CASES["oa-2"]().model, torch.as_tensor(x)
    with pytest.raises(ValueError, match=text):
        bound(model, x, generator)
    orders = torch.arange(x.shape[1]).expand(len(x), 1, -1)
    with pytest.raises(ValueError, match=text):
        exact_bits(model, x, orders, full_schedule(3))
    with pytest.raises(ValueError, match=text):
        schedule_bits_bound(model, x, full_schedule(3), generator)


@pytest.mark.parametrize(
    ("name", "schedule", "text"),
    [
        ("oa-2", full_schedule(4), r"expected a schedule of 1 x 3 \(stages x steps\), got 1 x 4"),
        ("oa-2", full_schedule(3, num_stages=2), r"expected a schedule of 1 x 3 \(stages x steps\), got 2 x 3"),
        ("base2-4-data", full_schedule(3), r"expected a schedule of 2 x 3 \(stages x steps\), got 1 x 3"),
        ("base2-4-data", full_schedule(2, num_stages=2), "must reach the last variable"),
        ("base2-4-data", full_schedule(3, num_stages=2, first_step=1), "scores only whole items"),
    ],
)
def test_schedules_that_do_not_fit(name, schedule, text):
    case = CASES[name]()
    items = torch.tensor(case.items()[:2])
    orders = torch.arange(3).expand(2, case.num_stages, -1)
    with pytest.raises(ValueError, match=text):
        exact_bits(case.model, items, orders, schedule)


def test_few_items_and_many_passes_still_differ_from_each_other(generator):
    """What is left of an item after its steps' mean is removed must not be removed with it."""
    case = CASES["oa-2"]()
    x = torch.tensor(case.items()[:3])
    widths = [bound(case.model, x, generator, num_passes=4).half_width for _ in range(50)]
    assert min(widths) > 1e-3


# Parts of items, with contexts


def roles(num_variables):
    """Every (scored, given) of disjoint sets of variables, some of them scored, as tensors of booleans."""
    for letters in product("hsg", repeat=num_variables):  # hidden, scored, given
        if "s" in letters:
            yield tuple(torch.tensor([letter == role for letter in letters]) for role in "sg")


def mean_part_bits(case, x, scored, given):
    """The mean over orders of -log2 of the scored values, one by one, with the given ones known."""
    values = []
    for order in case.stage_orders():
        sequence = [d for d in order if given[d]] + [d for d in order if scored[d]]
        steps = [(t, t + 1) for t in range(int(given.sum()), len(sequence))]
        values.append(-case.oracle.stage_log_prob(x, 0, sequence, steps) / math.log(2))
    return math.fsum(values) / len(values)


@pytest.mark.parametrize("name", ONE_STAGE)
@pytest.mark.parametrize("num_passes", [1, 3])
def test_partial_bounds_are_unbiased_for_every_target_and_given(name, num_passes, generator):
    """All pairs of sets in one batch, each many times, against the mean over orders of the conditional's bits."""
    case, x = CASES[name](), CASES[name]().items()[5]
    pairs, copies = list(roles(case.num_variables)), 1500 // num_passes
    target, given = (torch.stack(sets).repeat(copies, 1) for sets in zip(*pairs, strict=True))
    items = torch.where(target | given, torch.tensor(x), 99)  # what is neither is never read
    bits = partial_bound(case.model, items, target, given, generator, num_passes=num_passes, batch_size=1000)
    by_pair = bits.item_bits.view(copies, len(pairs))
    for values, (one_target, one_given) in zip(by_pair.T, pairs, strict=True):
        truth = mean_part_bits(case, x, one_target, one_given)
        assert abs(values.mean().item() - truth) < 4.5 * values.std().item() / math.sqrt(copies) + 1e-9


def test_passes_of_a_partial_bound_are_strata(generator):
    """With a pass for each step, each pass has one step: the first is never given a scored variable."""
    case = CASES["oa-2"]()
    x = torch.tensor([[1, 0, 1]]).expand(50, -1)
    every, none = torch.ones_like(x, dtype=torch.bool), torch.zeros_like(x, dtype=torch.bool)
    bits = partial_bound(case.model, x, every, none, generator, num_passes=3).pass_bits
    first = 3 * case.component_nats((1, 0, 1), 0, 0) / math.log(2)
    assert bits[0].tolist() == pytest.approx([first] * 50, rel=1e-12)
    assert len(set(bits[1].tolist())) > 1


def step_model(num_variables):
    """A model whose losses depend on the step alone."""
    model = order_agnostic(2, num_variables).model
    revealed = torch.tensor([mask.bit_count() for mask in range(2**num_variables)])
    with torch.no_grad():
        model.network.table.zero_()[..., 1] = 2.0 * revealed[:, None, None]
    return model


@pytest.mark.parametrize("num_passes", [1, 2, 3])
def test_steps_of_a_partial_bound_are_strata_over_items_too(num_passes, generator):
    """As many items at each of the two steps give the exact mean, and intervals that know it."""
    model, x = step_model(3), torch.zeros(48, 3, dtype=torch.long)
    scored = torch.tensor([True, True, False]).expand(48, -1)
    found = partial_bound(model, x, scored, ~scored & False, generator, num_passes=num_passes)
    exact = sum(math.log2(1 + math.exp(2.0 * t)) for t in range(2))
    assert found.item_bits.mean().item() == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(("num_items", "num_passes"), [(1, 3), (1, 8), (3, 2), (3, 3), (3, 4), (3, 8)])
def test_the_interval_over_draws_of_a_partial_bound_covers_the_truth(num_items, num_passes, generator):
    case = order_agnostic(2, 4)
    x, target = random.Random(6).choices(case.items(), k=num_items), torch.tensor([True, True, False, True])
    scored = target.expand(num_items, -1)
    truth = sum(mean_part_bits(case, each, target, ~target & False) for each in x)
    results = [
        partial_bound(case.model, torch.tensor(x), scored, ~scored & False, generator, num_passes=num_passes)
        for _ in range(300)
    ]
    errors = torch.stack([found.item_bits.sum() for found in results]) - truth
    widths = torch.tensor([found.draws_half_width for found in results])
    assert (errors.abs() <= widths).double().mean() >= 0.89
    assert abs(errors.mean()) < 4 * errors.std() / math.sqrt(300)


def test_partial_bounds_run_in_eval_mode(generator):
    case, modes = CASES["oa-2"](), []
    model = case.model.train()
    hook = model.network.register_forward_hook(lambda network, *_: modes.append(network.training))
    x = torch.tensor([[1, 0, 1]])
    partial_bound(model, x, x == 1, x == 0, generator)
    hook.remove()
    assert modes == [False]
    assert model.training


@pytest.mark.parametrize(
    ("scored", "given", "values", "num_passes", "text"),
    [
        ([1, 1, 0], [0, 1, 0], 0, 1, "none that is both scored and given"),
        ([0, 0, 0], [0, 1, 0], 0, 1, "each item must have a scored variable"),
        ([1, 0, 0], [0, 1, 0], 2, 1, r"must lie in 0\.\.1"),
        ([1, 0, 0], [0, 1, 0], -1, 1, r"must lie in 0\.\.1"),
        ([1, 0, 0], [0, 1, 0], 0, 0, "expected at least one pass, got 0"),
    ],
)
def test_partial_bounds_refuse_what_they_cannot_score(scored, given, values, num_passes, text, generator):
    model, x = CASES["oa-2"]().model, torch.full((2, 3), values)
    masks = [torch.tensor([mask, mask]).bool() for mask in (scored, given)]
    with pytest.raises(ValueError, match=text):
        partial_bound(model, x, *masks, generator, num_passes=num_passes)


def test_partial_bounds_need_one_stage(generator):
    x = torch.zeros(1, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="parts of items need a one-stage model; this one has 2 stages"):
        partial_bound(CASES["base2-4-data"]().model, x, x == 0, x > 0, generator)


def two_models():
    """A model of two labels, and a model of each label alone."""
    networks = [CASES["oa-2"]().model.network, other_table()]
    parametrization = CASES["oa-2"]().model.parametrization
    return ARDM(Conditional(networks), parametrization, (3,)), [ARDM(n, parametrization, (3,)) for n in networks]


def test_rows_of_items_and_calls_keep_their_contexts():
    model, own = two_models()
    items, labels = torch.tensor(CASES["oa-2"]().items()), torch.tensor([0, 1, 1, 0, 1, 0, 0, 1])
    orders = torch.tensor([[[2, 0, 1]]]).expand(8, -1, -1)
    for schedule in (full_schedule(3), uniform_schedule(3, 2)):
        bits = [exact_bits(each, items, orders, schedule) for each in own]
        found = exact_bits(model, items, orders, schedule, context=labels, batch_size=5)
        assert found.tolist() == pytest.approx(torch.where(labels == 0, *bits).tolist(), rel=1e-12)
        by_variable = variable_bits(model, items, orders, schedule, context=labels, batch_size=5)
        assert by_variable.sum(1).tolist() == pytest.approx(found.tolist(), rel=1e-12)


def test_bounds_keep_their_contexts():
    """Draws depend on the generator alone, so the items of a label have the bits of its model."""
    model, own = two_models()
    items, labels = torch.tensor(CASES["oa-2"]().items()), torch.tensor([0, 1, 1, 0, 1, 0, 0, 1])
    scored = items >= 0
    kinds = [
        lambda m, **c: bound(m, items, torch.Generator().manual_seed(1), num_passes=3, batch_size=3, **c).item_bits,
        lambda m, **c: schedule_bits_bound(m, items, full_schedule(3), torch.Generator().manual_seed(1), **c),
        lambda m, **c: partial_bound(m, items, scored, ~scored, torch.Generator().manual_seed(1), **c).item_bits,
    ]
    for score in kinds:
        expected = torch.where(labels == 0, score(own[0]), score(own[1]))
        assert score(model, context=labels).tolist() == pytest.approx(expected.tolist(), rel=1e-9)
