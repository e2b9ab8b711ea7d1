"""Schedules: the sizes of their groups, what they refuse, and strands."""

import itertools

import numpy as np
import pytest

from ardm.schedule import Schedule, cosine_schedule, full_schedule, in_strands, uniform_schedule


class TestSchedules:
    @pytest.mark.parametrize("make", [uniform_schedule, cosine_schedule])
    def test_every_size_and_budget_is_met_without_empty_groups(self, make):
        for num_steps in range(1, 41):
            for num_calls in range(1, num_steps + 1):
                schedule = make(num_steps, num_calls)
                assert schedule.calls == (num_calls,)
                assert schedule.first_step == 0

    def test_uniform_groups_differ_by_one_at_most(self):
        for num_steps, num_calls in itertools.combinations_with_replacement(range(1, 41), 2):
            groups = uniform_schedule(num_calls, num_steps).groups(0)
            sizes = {stop - start for start, stop in groups}
            assert max(sizes) - min(sizes) <= 1

    def test_cosine_masks_the_fraction_it_says(self):
        schedule = cosine_schedule(10_000, 8)
        masked = [1 - start / 10_000 for start in schedule.starts[0]]
        np.testing.assert_allclose(masked, np.cos(np.pi / 2 * np.arange(8) / 8), atol=1e-4)
        sizes = [stop - start for start, stop in schedule.groups(0)]
        assert sizes == sorted(sizes)

    @pytest.mark.parametrize("make", [uniform_schedule, cosine_schedule])
    def test_stages_share_the_calls_evenly(self, make):
        schedule = make(20, 11, num_stages=3, first_step=5)
        assert schedule.calls == (4, 4, 3)
        assert schedule.first_step == 5
        assert make(20, 1000, num_stages=3, first_step=5).calls == (15, 15, 15)

    def test_full_schedule_reveals_one_at_a_time(self):
        schedule = full_schedule(4, num_stages=2, first_step=1)
        assert schedule.starts == ((1, 2, 3), (1, 2, 3))
        assert schedule.groups(1) == [(1, 2), (2, 3), (3, 4)]

    def test_a_schedule_counts_itself(self):
        schedule = Schedule(starts=((2, 5), (2, 3, 8)), num_steps=10)
        assert (schedule.num_stages, schedule.calls, schedule.num_calls) == (2, (2, 3), 5)
        assert schedule.groups(1) == [(2, 3), (3, 8), (8, 10)]


class TestErrors:
    def test_heuristics_check_the_same(self):
        with pytest.raises(ValueError, match="each of 2 stages needs a call, got 1 calls"):
            cosine_schedule(4, 1, num_stages=2)
        with pytest.raises(ValueError, match=r"first_step must lie in 0\.\.3, got 4"):
            uniform_schedule(4, 1, first_step=4)

    @pytest.mark.parametrize(
        ("starts", "text"),
        [
            ((), "expected at least one stage and one call in each, got none; add a start"),
            (((0,), ()), "expected at least one stage and one call in each"),
            (((0, 2, 2),), "starts must strictly increase, but those of stage 0 do not; sort them"),
            (((0,), (0, 5)), r"starts must lie in 0\.\.4, stage 1 runs from 0 to 5; count from 0"),
            (((0, 1), (1, 2)), "all stages must begin at 0, stage 1 runs from 1 to 2"),
        ],
    )
    def test_schedules(self, starts, text):
        with pytest.raises(ValueError, match=text):
            Schedule(starts=starts, num_steps=5)


@pytest.mark.parametrize("calls", [(1,), (4,), (10,), (3, 7)])
def test_each_call_lengthens_every_strand_by_one(calls):
    starts = tuple(tuple(range(count)) for count in calls)
    orders, schedule = in_strands(Schedule(starts=starts, num_steps=10))
    assert schedule.calls == calls
    for stage, (order, count) in enumerate(zip(orders, calls, strict=True)):
        groups = [order[start:stop].tolist() for start, stop in schedule.groups(stage)]
        assert groups == [[d for d in range(10) if d % count == call] for call in range(count)]


def test_strands_are_of_whole_items():
    with pytest.raises(ValueError, match="strands need whole items, but 2 variables are given"):
        in_strands(Schedule(starts=((2, 4),), num_steps=10))
