"""Profiles, measured and made monotone: against formulas, dense linear algebra, and plans that noise would spoil."""

import inspect
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import CASES

from ardm.objective import StepLoss, sample_step_loss
from ardm.planner import plan, schedule_bits
from ardm.profile import Profile, monotone, stretch, whittaker
from ardm.schedule import uniform_schedule

quick = settings(deadline=None, max_examples=60)

METHODS = ["sort", "isotonic", "smooth"]
SMOOTH = st.floats(0, 8, width=32)
TIED = st.integers(0, 3).map(float)


def test_sort_is_descending_in_each_stage():
    losses = np.array([[1.0, 3.0, 2.0], [9.0, 7.0, 8.0]])
    np.testing.assert_array_equal(monotone(losses), [[3.0, 2.0, 1.0], [9.0, 8.0, 7.0]])


@quick
@given(st.lists(st.tuples(SMOOTH, st.integers(1, 9)), min_size=1, max_size=12))
def test_isotonic_is_the_min_max_formula(drawn):
    losses, counts = np.array(drawn, dtype=np.float64).T
    fitted = monotone(losses, counts, "isotonic")
    for step in range(losses.size):
        expected = min(
            max(np.average(losses[first:stop], weights=counts[first:stop]) for stop in range(step + 1, losses.size + 1))
            for first in range(step + 1)
        )
        assert fitted[step] == pytest.approx(expected, rel=1e-9, abs=1e-12)


@quick
@given(
    st.lists(st.tuples(SMOOTH | TIED, st.integers(0, 3), st.booleans()), min_size=1, max_size=40),
    st.sampled_from(METHODS),
)
def test_any_observed_profile_can_be_planned(drawn, method):
    losses = np.array([np.nan if missing else loss for loss, _, missing in drawn])
    counts = np.array([count for _, count, _ in drawn])
    if np.isnan(losses[counts > 0]).all():
        with pytest.raises(ValueError, match="expected a visited step in every stage"):
            monotone(losses, counts, method)
    else:
        plan(monotone(losses, counts, method), 3)


@pytest.mark.parametrize("method", METHODS)
def test_unvisited_steps_are_interpolated(method):
    losses = np.array([np.nan, 6.0, np.nan, np.inf, 3.0, np.nan])
    counts = np.array([4, 4, 4, 0, 4, 4])
    np.testing.assert_allclose(monotone(losses, counts, method), [6.0, 6.0, 5.0, 4.0, 3.0, 3.0])


def test_unvisited_steps_bear_no_weight():
    losses = np.array([2.0, np.nan, np.nan, 4.0, 1.0])
    np.testing.assert_allclose(monotone(losses, method="isotonic"), [3.0, 3.0, 3.0, 3.0, 1.0])


@pytest.mark.parametrize("method", METHODS)
def test_shape_and_argument_are_kept(method):
    losses = np.array([1.0, 2.0], dtype=np.float32)
    assert monotone(losses, method=method).shape == (2,)
    assert monotone(losses[None], method=method).shape == (1, 2)
    assert losses.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        (np.ones((2, 3)), r"expected counts of shape \(1, 3\), got \(2, 3\); one for each loss"),
        (-np.ones(3), "counts must be finite and not negative, got -1.0; use 0 for unvisited"),
        (np.zeros(3), "expected a visited step in every stage, but one has none; observe more losses"),
    ],
)
def test_counts(counts, text):
    with pytest.raises(ValueError, match=text):
        monotone(np.ones(3), counts)


def test_unknown_methods_are_refused():
    # Unwrapped, as the type checker of the tests would speak first.
    with pytest.raises(ValueError, match="method must be one of sort, isotonic, smooth, got 'shuffle'"):
        inspect.unwrap(monotone)(np.ones(4), method="shuffle")


@pytest.mark.parametrize("size", [3, 4, 5, 40])
@pytest.mark.parametrize("stiffness", [1e-3, 1.0, 1e4])
def test_whittaker_is_the_dense_solution(size, stiffness):
    generator = np.random.default_rng(size)
    values, weights = generator.normal(size=size), generator.integers(0, 4, size).astype(float)
    weights[[0, -1]] = 2.0
    differences = np.diff(np.eye(size), 2, axis=0)
    system = np.diag(weights) + stiffness * differences.T @ differences
    np.testing.assert_allclose(whittaker(values, weights, stiffness), np.linalg.solve(system, weights * values))


def test_smoothing_keeps_lines_and_bends_for_curves():
    line = np.linspace(4, 1, 200)
    np.testing.assert_allclose(monotone(line, method="smooth"), line, atol=1e-6)
    curve = 1 + 7 * np.exp(-np.arange(200) / 10.0)
    np.testing.assert_allclose(monotone(curve, method="smooth"), curve, atol=0.05)


@pytest.mark.parametrize("num_observations", [2, 8, 64])
@pytest.mark.parametrize("num_calls", [100, 20])
def test_smooth_plans_keep_their_promise_where_others_fail(num_observations, num_calls):
    steps = np.arange(250)
    truth = 1 + 3.1 * (1 - steps / 250) ** 2.2
    spread = np.sqrt(0.2 + 4 / (250 - steps)) / np.sqrt(num_observations)  # as measured on text
    generator = np.random.default_rng(0)
    lost = dict.fromkeys(METHODS, 0.0)
    for _ in range(10):
        noisy = np.abs(truth + spread * generator.normal(size=250))
        counts = np.full(250, num_observations)
        for method in METHODS:
            schedule = plan(monotone(noisy, counts, method), num_calls).schedule
            lost[method] += (schedule_bits(truth, schedule) - truth.sum()) / 10
    uniform = schedule_bits(truth, uniform_schedule(250, num_calls)) - truth.sum()
    best = plan(truth, num_calls).lost_bits
    assert best <= lost["smooth"] < 1.1 * best
    assert lost["smooth"] < min(uniform, lost["sort"], lost["isotonic"])


def test_smoothing_does_not_run_away_beyond_what_was_visited():
    losses = np.full(3072, np.nan)
    losses[:20] = 8 * np.exp(-np.arange(20) / 10)
    fitted = monotone(losses, method="smooth")
    assert fitted.max() <= np.nanmax(losses)
    assert fitted.min() >= np.nanmin(losses)


def test_stretched_losses_keep_the_share_of_revealed_variables():
    losses = np.array([[4.0, 2.0, 1.0]])
    assert stretch(losses, 6).tolist() == [[4, 4, 2, 2, 1, 1]]
    assert stretch(losses, 2).tolist() == [[4, 2]]
    assert stretch(losses, 3).tolist() == losses.tolist()


# The measured profile


def random_losses(num_stages, num_variables, size, seed, steps_below=None):
    generator = torch.Generator().manual_seed(seed)
    stage = torch.randint(num_stages, (size,), generator=generator)
    t = torch.randint(steps_below or num_variables, (size,), generator=generator)
    nats = torch.rand(size, generator=generator, dtype=torch.float64) * 10
    return StepLoss(stage=stage, t=t, nats=nats, bits_per_dim=nats, cross_entropy=nats)


def cells(loss):
    """The losses in bits by (stage, t)."""
    found = {}
    for s, t, nats in zip(loss.stage.tolist(), loss.t.tolist(), loss.nats.tolist(), strict=True):
        found.setdefault((s, t), []).append(nats / math.log(2))
    return found


def test_profile_without_momentum_is_the_mean_of_all_observations():
    batches = [random_losses(2, 5, 30, seed) for seed in range(20)]
    profile, seen = Profile.empty(2, 5), {}
    for batch in batches:
        profile = profile.updated(batch)
        for cell, values in cells(batch).items():
            seen.setdefault(cell, []).extend(values)
    for cell, values in seen.items():
        assert profile.counts[cell] == len(values)
        assert profile.bits[cell].item() == pytest.approx(math.fsum(values) / len(values), abs=1e-9)


def test_profile_with_momentum_is_a_moving_average_of_batch_means():
    batches = [random_losses(2, 5, 6, seed) for seed in range(30)]
    profile, average = Profile.empty(2, 5), {}
    for batch in batches:
        profile = profile.updated(batch, momentum=0.95)
        for cell, values in cells(batch).items():
            mean = math.fsum(values) / len(values)
            average[cell] = 0.95 * average[cell] + 0.05 * mean if cell in average else mean
    for cell, value in average.items():
        assert profile.bits[cell].item() == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("momentum", [None, 0.0, 0.95])
def test_the_first_visit_sets_a_component(momentum):
    batch = random_losses(1, 3, 1, seed=0)
    profile = Profile.empty(1, 3).updated(batch, momentum)
    ((cell, (bits,)),) = cells(batch).items()
    assert profile.bits[cell].item() == pytest.approx(bits, abs=1e-9)


@pytest.mark.parametrize("momentum", [None, 0.95])
def test_components_not_visited_stay_as_they_were(momentum):
    first = Profile.empty(2, 6).updated(random_losses(2, 6, 40, seed=1, steps_below=4), momentum)
    assert (first.counts[:, 4:] == 0).all()
    assert (first.bits[:, 4:] == 0).all()
    second = first.updated(random_losses(2, 6, 40, seed=2, steps_below=1), momentum)
    assert torch.equal(second.bits[:, 1:], first.bits[:, 1:])
    assert torch.equal(second.counts[:, 1:], first.counts[:, 1:])
    assert second.counts.sum() == 80


@given(st.permutations(range(40)))
def test_the_profile_does_not_depend_on_the_order_of_a_batch(permutation):
    batch = random_losses(2, 3, 40, seed=5)
    shuffled = StepLoss(**{name: value[list(permutation)] for name, value in vars(batch).items()})
    expected, found = Profile.empty(2, 3).updated(batch), Profile.empty(2, 3).updated(shuffled)
    assert torch.equal(found.bits, expected.bits)  # to the last bit
    assert torch.equal(found.counts, expected.counts)


def test_the_profile_keeps_no_graph(generator):
    case = CASES["oa-2"]()
    loss = sample_step_loss(case.model, torch.tensor([case.items()[0]]), generator)
    assert loss.nats.requires_grad
    profile = Profile.empty(1, 3).updated(loss)
    assert not profile.bits.requires_grad


def of_bits(*bits):
    return Profile(bits=torch.tensor([bits]).double(), counts=torch.full((1, len(bits)), 7))


def test_profiles_of_several_sizes_are_joined_by_share():
    """A profile that falls with the share of revealed variables falls in the same way whatever the sizes."""
    sizes = (8, 24, 64)
    parts = [of_bits(*(4 - 3 * (i + 0.5) / size for i in range(size))) for size in sizes]
    joined = Profile.joined(parts)
    expected = [4 - 3 * (i + 0.5) / 64 for i in range(64)]
    assert joined.bits[0].tolist() == pytest.approx(expected, abs=0.2)
    assert (joined.bits[0].diff() <= 1e-12).all()
    assert joined.counts.min() > 0


def test_joined_profiles_have_the_mean_of_all_variables():
    short, long = of_bits(*[3.0] * 8), of_bits(*[1.0] * 64)
    # 7 losses of each step: 56 items of 8 variables and 448 of 64
    assert Profile.joined([short, long]).bits.mean().item() == pytest.approx(
        (56 * 8 * 3 + 448 * 64) / (56 * 8 + 448 * 64)
    )
    assert Profile.joined([short]) is short
