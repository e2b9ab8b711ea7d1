"""The planner's benchmark: its reference is the paper's recurrence, its rows are complete."""

import importlib.util
import itertools

import numpy as np
import pytest

from ardm.apps.bench import plan as bench
from ardm.planner import every_budget


def test_the_paper_recurrence_by_hand():
    costs, dimensions = bench.paper_recurrence(np.array([3.0, 2.0, 1.0]))
    np.testing.assert_array_equal(costs[0], [0.0, np.inf, np.inf, np.inf])
    np.testing.assert_array_equal(costs[1:, -1], [9.0, 7.0, 6.0])
    assert dimensions[2, 3] == 1
    assert dimensions[1, 3] == 0


@pytest.mark.parametrize("seed", range(3))
def test_the_paper_recurrence_is_the_best_of_all_partitions(seed):
    losses = bench.synthetic_profile(6, seed)
    costs, _ = bench.paper_recurrence(losses)
    for num_calls in range(1, 7):
        partitions = ((0, *cuts, 6) for cuts in itertools.combinations(range(1, 6), num_calls - 1))
        groups = (itertools.pairwise(ends) for ends in partitions)
        best = min(sum((stop - start) * losses[start] for start, stop in each) for each in groups)
        assert costs[num_calls, -1] == pytest.approx(best)


def test_jax_agrees():
    pytest.importorskip("jax")
    losses = bench.synthetic_profile(40, 0)
    costs, dimensions = bench.jax_recurrence(losses)()
    np.testing.assert_allclose(costs[:, -1], every_budget(losses).bits, rtol=1e-5)
    assert dimensions.shape == (40, 41)


@pytest.mark.parametrize("num_steps", [1, 2, 1000])
def test_synthetic_profiles_fall_from_seven_bits_towards_one(num_steps):
    losses = bench.synthetic_profile(num_steps, 0)
    assert losses.shape == (num_steps,)
    assert losses[0] == pytest.approx(7.0)
    assert losses[-1] > 1.0
    assert (np.diff(losses) <= 0).all()
    np.testing.assert_array_equal(losses, bench.synthetic_profile(num_steps, 0))


@pytest.fixture
def without_jax(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("without_jax")
def test_rows(monkeypatch, capsys):
    monkeypatch.setattr(bench, "PAPER_STEPS", 24)
    rows = bench.run_plan_benchmark(
        table_steps=(16, 24), reference_steps=(16,), single_budgets=((2, 32, 8),), full=True, repeats=2
    )
    assert [(row.name, row.num_stages, row.num_steps, row.budgets) for row in rows] == [
        ("ours, every budget", 1, 16, 16),
        ("ours, every budget", 1, 24, 24),
        ("paper's recurrence, NumPy", 1, 16, 16),
        ("paper's recurrence, NumPy", 1, 24, 24),
        ("ours, one budget of 8", 2, 32, 1),
    ]
    assert all(row.seconds > 0 for row in rows)
    assert rows[0].table_bytes == 16 * 8 + 16 * 17 * 2 + 4 * 8 * 16
    assert rows[2].table_bytes == 17 * 17 * (4 + 3 * 8)
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("without_jax")
def test_the_slow_size_is_left_out_unless_asked_for(monkeypatch):
    monkeypatch.setattr(bench, "PAPER_STEPS", 24)
    rows = bench.run_plan_benchmark(table_steps=(), reference_steps=(16,), single_budgets=())
    assert [row.num_steps for row in rows] == [16]
