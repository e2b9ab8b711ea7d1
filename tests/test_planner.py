"""The planner against brute force, the paper's recurrence and itself by another way."""

import inspect
import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ardm.apps.bench.plan import paper_recurrence, synthetic_profile
from ardm.planner import Plan, every_budget, plan, plan_gaps, schedule_bits
from ardm.schedule import Schedule, cosine_schedule, full_schedule, uniform_schedule

quick = settings(deadline=None, max_examples=60)

SMOOTH = st.floats(0, 8, width=32)
TIED = st.integers(0, 3).map(float)
EXTREME = st.sampled_from([0.0, 5e-324, 1e-300, 1e-9, 1.0, 1.0 + 2**-52, 1e9, 1e300])


def profiles(max_stages: int, max_steps: int) -> st.SearchStrategy:
    """Losses (S, D) in descending order: smooth, with many ties, or of wildly different sizes."""

    def of_shape(shape: tuple[int, int]) -> st.SearchStrategy:
        size = shape[0] * shape[1]
        drawn = st.one_of(st.lists(kind, min_size=size, max_size=size) for kind in (SMOOTH, TIED, EXTREME))
        return drawn.map(lambda values: -np.sort(-np.reshape(values, shape)))

    return st.tuples(st.integers(1, max_stages), st.integers(1, max_steps)).flatmap(of_shape)


def brute_force(losses: np.ndarray) -> np.ndarray:
    """The least cost of each number of calls, over all partitions of the steps into groups."""
    num_steps = len(losses)
    best = np.full(num_steps, np.inf)
    for cuts in itertools.product([False, True], repeat=num_steps - 1):
        starts = [0, *(step for step, cut in enumerate(cuts, start=1) if cut)]
        stops = [*starts[1:], num_steps]
        cost = sum((stop - start) * losses[start] for start, stop in zip(starts, stops, strict=True))
        best[len(starts) - 1] = min(best[len(starts) - 1], cost)
    return best


def brute_force_joint(profile: np.ndarray, num_calls: int) -> float:
    """The least cost over all partitions of all stages, by trying every split of the calls."""
    tables = [brute_force(stage) for stage in profile]
    splits = itertools.product(range(1, profile.shape[1] + 1), repeat=len(profile))
    return min(
        sum(table[calls - 1] for table, calls in zip(tables, split, strict=True))
        for split in splits
        if sum(split) == num_calls
    )


def tied_profile(num_steps: int, levels: int, seed: int) -> np.ndarray:
    """Losses that are integers, most of them equal."""
    drawn = np.random.default_rng(seed).integers(0, levels, num_steps)
    return np.sort(drawn)[::-1].astype(np.float64)


def assert_uses(planned: Plan, num_calls: int) -> None:
    schedule = planned.schedule
    assert schedule.num_calls == num_calls
    for stage in range(schedule.num_stages):
        sizes = [stop - start for start, stop in schedule.groups(stage)]
        assert min(sizes) >= 1
        assert sum(sizes) == schedule.num_steps - schedule.first_step


class TestOneStage:
    @quick
    @given(profiles(1, 8))
    def test_every_budget_is_the_brute_force_optimum(self, profile):
        table = every_budget(profile[0])
        np.testing.assert_allclose(table.bits, brute_force(profile[0]), rtol=1e-12)
        for num_calls in range(1, profile.size + 1):
            schedule = table.schedule(num_calls)
            assert schedule.num_calls == num_calls
            assert schedule_bits(profile, schedule) == pytest.approx(table.bits[num_calls - 1], rel=1e-12)

    @quick
    @given(profiles(1, 8))
    def test_plan_is_the_brute_force_optimum(self, profile):
        for num_calls, bits in enumerate(brute_force(profile[0]), start=1):
            planned = plan(profile, num_calls)
            assert_uses(planned, num_calls)
            assert planned.bits == pytest.approx(bits, rel=1e-12)

    @pytest.mark.parametrize("num_steps", [1, 2, 3, 17, 90, 200])
    @pytest.mark.parametrize("levels", [None, 1, 4, 40])
    def test_every_budget_is_the_papers_recurrence(self, num_steps, levels):
        smooth = levels is None
        losses = synthetic_profile(num_steps, 1) if smooth else tied_profile(num_steps, levels, 1)
        costs, _ = paper_recurrence(losses)
        np.testing.assert_allclose(every_budget(losses).bits, costs[1:, -1], rtol=1e-12)

    @quick
    @given(st.integers(1, 500), st.sampled_from([None, 1, 2, 5, 30, 1000]), st.integers(0, 99), st.data())
    def test_plan_costs_what_the_table_says(self, num_steps, levels, seed, data):
        smooth = levels is None
        losses = synthetic_profile(num_steps, seed) if smooth else tied_profile(num_steps, levels, seed)
        bits = every_budget(losses).bits
        for num_calls in data.draw(st.lists(st.integers(1, num_steps), min_size=1, max_size=8)):
            planned = plan(losses, num_calls)
            assert_uses(planned, num_calls)
            if smooth:
                assert planned.bits == pytest.approx(bits[num_calls - 1], rel=1e-12)
            else:  # sums of integers have no rounding to excuse
                assert planned.bits == bits[num_calls - 1]

    @pytest.mark.parametrize("losses", [np.zeros(60), np.full(60, 0.1), np.repeat([1.0, 0.0], 30)])
    def test_ties_leave_no_call_unused(self, losses):
        bits = every_budget(losses).bits
        for num_calls in range(1, 61):
            planned = plan(losses, num_calls)
            assert_uses(planned, num_calls)
            assert planned.bits == pytest.approx(bits[num_calls - 1], rel=1e-12)

    @pytest.mark.parametrize("scale", [1e-300, 1e-20, 1.0, 1e20, 1e300])
    def test_scale_changes_nothing(self, scale):
        losses = 2.0 ** np.floor(np.log2(scale)) * synthetic_profile(100, 2)
        assert plan(losses, 13).schedule == plan(synthetic_profile(100, 2), 13).schedule

    @pytest.mark.parametrize("num_calls", range(1, 200, 13))
    def test_a_large_offset_costs_no_precision(self, num_calls):
        losses = tied_profile(200, 50, 3)
        planned = plan(2.0**50 + losses, num_calls)
        assert schedule_bits(losses, planned.schedule) == every_budget(losses).bits[num_calls - 1]

    def test_lost_bits_fall_to_nothing(self):
        losses = synthetic_profile(64, 0)
        lost = [plan(losses, num_calls).lost_bits for num_calls in range(1, 65)]
        assert lost[0] == pytest.approx(64 * losses[0] - losses.sum())
        assert lost == sorted(lost, reverse=True)
        assert lost[-1] == 0.0

    def test_lost_bits_are_also_told_as_a_share(self):
        planned = plan(np.array([4.0, 3.0, 2.0, 1.0]), 2)
        assert planned.lost_share == planned.lost_bits / planned.full_bits == 0.2
        assert plan(np.zeros(3), 2).lost_share == 0.0

    def test_costs_are_convex_in_the_budget(self):
        assert np.diff(every_budget(synthetic_profile(300, 5)).bits, 2).min() > -1e-9

    def test_a_table_may_stop_early(self):
        losses = synthetic_profile(80, 3)
        table, whole = every_budget(losses, 7), every_budget(losses, 1000)
        np.testing.assert_array_equal(table.bits, whole.bits[:7])
        assert table.schedule(7) == whole.schedule(7)
        assert table.origins.dtype == np.uint16
        with pytest.raises(ValueError, match=r"expected a budget in 1\.\.7, got 8; raise max_calls"):
            table.schedule(8)

    def test_long_profiles_need_wider_origins(self):
        losses = np.linspace(2.0, 1.0, 70_000)
        table = every_budget(losses, 2)
        assert table.origins.dtype == np.int32
        assert table.bits[1] == pytest.approx(plan(losses, 2).bits)


class TestStages:
    @quick
    @given(profiles(3, 4), st.data())
    def test_joint_split_is_the_brute_force_optimum(self, profile, data):
        num_calls = data.draw(st.integers(len(profile), profile.size))
        planned = plan(profile, num_calls)
        assert_uses(planned, num_calls)
        assert planned.bits == pytest.approx(brute_force_joint(profile, num_calls), rel=1e-12)

    @quick
    @given(st.integers(2, 5), st.integers(1, 60), st.sampled_from([2, 6, 100]), st.integers(0, 99), st.data())
    def test_joint_split_is_greedy_by_marginal_gain(self, num_stages, num_steps, levels, seed, data):
        profile = np.stack([tied_profile(num_steps, levels, seed + stage) for stage in range(num_stages)])
        num_calls = data.draw(st.integers(num_stages, num_stages * num_steps))
        tables = [every_budget(stage).bits for stage in profile]
        gains = np.sort(np.concatenate([-np.diff(bits) for bits in tables]))[::-1]
        expected = sum(bits[0] for bits in tables) - gains[: num_calls - num_stages].sum()
        planned = plan(profile, num_calls)
        assert_uses(planned, num_calls)
        assert planned.bits == expected

    @pytest.mark.parametrize("num_calls", range(3, 120, 7))
    def test_joint_split_tells_nearly_equal_stages_apart(self, num_calls):
        profile = np.outer([2.0**30, 2.0**30 + 1, 2.0**30 + 2], tied_profile(40, 30, 6))
        gains = np.sort(np.concatenate([-np.diff(every_budget(stage).bits) for stage in profile]))[::-1]
        expected = 40 * profile[:, 0].sum() - gains[: num_calls - 3].sum()
        assert plan(profile, num_calls).bits == expected

    def test_even_split_plans_each_stage_for_itself(self):
        profile = np.stack([synthetic_profile(50, seed) * (1 + seed) for seed in range(3)])
        even = plan(profile, 20, split="even")
        assert even.schedule.calls == (7, 7, 6)
        alone = [plan(stage, calls) for stage, calls in zip(profile, (7, 7, 6), strict=True)]
        assert even.schedule.starts == tuple(planned.schedule.starts[0] for planned in alone)
        assert even.bits == pytest.approx(sum(planned.bits for planned in alone))
        assert plan(profile, 20).bits < even.bits

    def test_calls_go_where_they_save(self):
        profile = np.stack([np.full(10, 3.0), np.linspace(5.0, 0.0, 10)])
        assert plan(profile, 11).schedule.calls == (1, 10)

    @pytest.mark.parametrize("split", ["joint", "even"])
    def test_more_calls_than_steps_are_one_variable_each(self, split):
        profile = np.stack([synthetic_profile(9, seed) for seed in range(2)])
        planned = plan(profile, 1000, first_step=2, split=split)
        assert planned.schedule == full_schedule(9, num_stages=2, first_step=2)
        assert planned.lost_bits == 0.0

    @pytest.mark.parametrize("split", ["joint", "even"])
    @pytest.mark.parametrize("num_calls", [2, 3, 11, 40])
    def test_given_variables_are_left_out(self, split, num_calls):
        profile = np.stack([tied_profile(30, 9, seed) for seed in range(2)])
        late = plan(profile, num_calls, first_step=10, split=split)
        alone = plan(profile[:, 10:], num_calls, split=split)
        assert late.schedule.first_step == 10
        assert late.schedule.num_steps == 30
        shifted = tuple(tuple(step + 10 for step in stage) for stage in alone.schedule.starts)
        assert late.schedule.starts == shifted
        assert (late.bits, late.full_bits) == (alone.bits, alone.full_bits)


class TestBits:
    def test_bits_of_a_schedule_by_hand(self):
        losses = np.array([[9.0, 4.0, 5.0, 2.0], [1.0, 8.0, 7.0, 6.0]])
        schedule = Schedule(starts=((1, 3), (1, 2)), num_steps=4)
        assert schedule_bits(losses, schedule) == 2 * 4.0 + 2.0 + 8.0 + 2 * 7.0

    def test_a_plan_beats_the_heuristics(self):
        losses = synthetic_profile(200, 4)
        for make in (uniform_schedule, cosine_schedule):
            assert plan(losses, 20).bits < schedule_bits(losses, make(200, 20))


class TestErrors:
    @pytest.mark.parametrize(
        ("losses", "text"),
        [
            ([1.0, 2.0], r"losses must not increase, but those of stage 0 do after step 0; use monotone\(\)"),
            ([[3.0, 2.0, 2.0], [3.0, 2.0, 2.5]], "stage 1 do after step 1"),
            ([1.0, np.nan], r"finite and not negative, got nan to nan; monotone\(\) fills NaN"),
            ([np.inf, 1.0], "finite and not negative, got 1.0 to inf"),
            ([1.0, -1.0], "finite and not negative, got -1.0 to 1.0"),
            ([], r"expected shape \(D,\) or \(S, D\), got \(0,\); give each stage a row"),
        ],
    )
    def test_losses(self, losses, text):
        with pytest.raises(ValueError, match=text):
            plan(np.array(losses), 2)

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"num_calls": 1}, "each of 2 stages needs a call, got 1 calls; raise num_calls"),
            ({"first_step": 4}, r"first_step must lie in 0\.\.3, got 4; leave a step to plan"),
            ({"first_step": -1}, r"first_step must lie in 0\.\.3, got -1"),
        ],
    )
    def test_plan_arguments(self, arguments, text):
        with pytest.raises(ValueError, match=text):
            plan(np.ones((2, 4)), **{"num_calls": 2, **arguments})

    def test_choices(self):
        # Unwrapped, as the type checker of the tests would speak first.
        with pytest.raises(ValueError, match="split must be 'joint' or 'even', got 'odd'"):
            inspect.unwrap(plan)(np.ones(4), 2, split="odd")

    def test_a_table_is_for_one_stage(self):
        with pytest.raises(ValueError, match="expected the losses of one stage, got 2 stages"):
            every_budget(np.ones((2, 3)))

    def test_bits_want_the_profile_of_the_schedule(self):
        with pytest.raises(ValueError, match=r"expected losses of shape \(1, 4\), got \(1, 3\)"):
            schedule_bits(np.ones(3), full_schedule(4))


def best_seconds(run, tries: int = 10) -> float:
    """Processor time of the fastest try: a busy machine does not count."""
    run()  # compiles
    seconds = []
    for _ in range(tries):
        begin = time.thread_time()
        run()
        seconds.append(time.thread_time() - begin)
    return min(seconds)


class TestSpeed:
    def test_every_budget_of_an_image(self):
        losses = synthetic_profile(3072, 0)
        assert best_seconds(lambda: every_budget(losses), tries=5) < 0.5

    def test_one_budget_of_a_second_of_audio(self):
        losses = synthetic_profile(16_000, 0)
        assert best_seconds(lambda: plan(losses, 1000)) < 0.05

    def test_one_budget_of_eight_stages(self):
        losses = np.stack([synthetic_profile(16_000, stage) for stage in range(8)])
        assert best_seconds(lambda: plan(losses, 8000), tries=3) < 1.0


def test_gaps_are_planned_as_an_item_of_their_size():
    losses = np.linspace(5, 1, 12)[None]
    assert plan_gaps(losses, 5, 0, 12) == plan(losses, 5)
    gaps = plan_gaps(losses, 3, 4, 10)
    own = plan(losses[:, ::2], 3)
    assert gaps.schedule == Schedule(starts=(tuple(4 + start for start in own.schedule.starts[0]),), num_steps=10)
    assert gaps.bits == own.bits
