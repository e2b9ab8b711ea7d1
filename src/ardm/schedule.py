"""Parallel schedules: which variables share one call of the network (section "Parallelized ARDMs").

Notation as in `orders`; `planner` finds the schedules that cost least.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Integer

from ardm.orders import strands


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The groups of variables that share a call. A group runs from its start to the next one.

    >>> import ardm
    >>> schedule = ardm.Schedule(starts=((0, 1, 4),), num_steps=10)
    >>> schedule.num_calls, schedule.counts, schedule.groups(stage=0)
    (3, [1, 3, 6], [(0, 1), (1, 4), (4, 10)])
    """

    starts: tuple[tuple[int, ...], ...]
    """For each stage, the steps at which its calls begin, strictly increasing."""
    num_steps: int
    """Number of variables D, including those given before the first step."""

    def __post_init__(self) -> None:
        if not self.starts or not all(self.starts):
            raise ValueError("expected at least one stage and one call in each, got none; add a start")
        for stage, starts in enumerate(self.starts):
            where = f"stage {stage} runs from {starts[0]} to {starts[-1]}"
            if any(after <= before for before, after in itertools.pairwise(starts)):
                raise ValueError(f"starts must strictly increase, but those of stage {stage} do not; sort them")
            if starts[0] < 0 or starts[-1] >= self.num_steps:
                raise ValueError(f"starts must lie in 0..{self.num_steps - 1}, {where}; count from 0")
            if starts[0] != self.first_step:
                raise ValueError(f"all stages must begin at {self.first_step}, {where}; use one first step")

    @property
    def num_stages(self) -> int:
        """Number of stages S."""
        return len(self.starts)

    @property
    def calls(self) -> tuple[int, ...]:
        """Number of calls of each stage."""
        return tuple(map(len, self.starts))

    @property
    def num_calls(self) -> int:
        """Number of calls of all stages together."""
        return sum(self.calls)

    @property
    def first_step(self) -> int:
        """The step of the first call: the number of variables that are given."""
        return self.starts[0][0]

    @property
    def counts(self) -> list[int]:
        """The number of variables that each call reveals, the calls of all stages one after another."""
        return [stop - start for stage in range(self.num_stages) for start, stop in self.groups(stage)]

    def groups(self, stage: int) -> list[tuple[int, int]]:
        """The groups of a stage as (start, stop): `stop - start` variables revealed by one call."""
        return list(itertools.pairwise((*self.starts[stage], self.num_steps)))


def full_schedule(num_steps: int, *, num_stages: int = 1, first_step: int = 0) -> Schedule:
    """A schedule of one variable per call.

    >>> import ardm
    >>> ardm.full_schedule(4).starts
    ((0, 1, 2, 3),)
    """
    return uniform_schedule(num_steps, num_stages * num_steps, num_stages=num_stages, first_step=first_step)


def uniform_schedule(num_steps: int, num_calls: int, *, num_stages: int = 1, first_step: int = 0) -> Schedule:
    """A schedule of equal groups up to rounding, with `num_calls` in total, shared evenly among the stages.

    >>> import ardm
    >>> ardm.uniform_schedule(12, 3).starts
    ((0, 4, 8),)
    """
    return _schedule_along(lambda done: done, num_steps, num_calls, num_stages, first_step)


def cosine_schedule(num_steps: int, num_calls: int, *, num_stages: int = 1, first_step: int = 0) -> Schedule:
    """A schedule of few variables first and many last: a fraction `cos(pi/2 * i/B)` is masked after call i of B.

    A group that would round to nothing holds one variable. `num_calls` is the total of all stages.

    >>> import ardm
    >>> ardm.cosine_schedule(12, 3).starts
    ((0, 2, 6),)
    """
    return _schedule_along(lambda done: 1.0 - np.cos(0.5 * np.pi * done), num_steps, num_calls, num_stages, first_step)


def _schedule_along(
    curve: Callable[[np.ndarray], np.ndarray], num_steps: int, num_calls: int, num_stages: int, first_step: int
) -> Schedule:
    """The schedule of a curve from the fraction of calls done to the fraction of variables revealed.

    The curve must not lie above the diagonal: then a variable always remains for each of the later calls.
    """
    starts = []
    for quota in share_calls(clamp_calls(num_calls, num_stages, num_steps, first_step), num_stages):
        call = np.arange(quota)
        targets = first_step + np.rint((num_steps - first_step) * curve(call / quota)).astype(np.int64)
        at_least_one_each = np.maximum.accumulate(targets - call) + call
        starts.append(tuple(at_least_one_each.tolist()))
    return Schedule(starts=tuple(starts), num_steps=num_steps)


def clamp_calls(num_calls: int, num_stages: int, num_steps: int, first_step: int) -> int:
    """The number of calls that a schedule can use: at most one per variable; a ValueError if it is too small."""
    if not 0 <= first_step < num_steps:
        raise ValueError(f"first_step must lie in 0..{num_steps - 1}, got {first_step}; leave a step to plan")
    if not 1 <= num_stages <= num_calls:
        raise ValueError(f"each of {num_stages} stages needs a call, got {num_calls} calls; raise num_calls")
    return min(num_calls, num_stages * (num_steps - first_step))


def share_calls(num_calls: int, num_stages: int) -> list[int]:
    """The number of calls of each stage, shared out evenly; the first stages get the remainder."""
    share, remainder = divmod(num_calls, num_stages)
    return [share + (stage < remainder) for stage in range(num_stages)]


def in_strands(schedule: Schedule) -> tuple[Integer[np.ndarray, "S D"], Schedule]:
    """Orders in strands, each as long as its stage has calls, and the schedule that grows all strands at once.

    Each call adds a variable to every strand. Variables that share a call are as far apart as the number of calls
    allows, and all but the first of a strand follow a known neighbour.
    """
    if schedule.first_step:
        raise ValueError(f"strands need whole items, but {schedule.first_step} variables are given")
    num_steps = schedule.num_steps
    orders = np.stack([strands(num_steps, calls) for calls in schedule.calls])
    starts = tuple(
        tuple(call * (num_steps // calls) + min(call, num_steps % calls) for call in range(calls))
        for calls in schedule.calls
    )
    return orders, Schedule(starts=starts, num_steps=num_steps)


def check_fits(schedule: Schedule, num_stages: int, num_variables: int) -> None:
    """Raise a ValueError unless a schedule suits a model with these numbers of stages and variables.

    It may begin after given variables and, with one stage, end before the last variable.
    """
    if schedule.num_stages != num_stages or schedule.num_steps > num_variables:
        came = f"{schedule.num_stages} x {schedule.num_steps}"
        raise ValueError(f"expected a schedule of {num_stages} x {num_variables} (stages x steps), got {came}")
    if num_stages > 1 and schedule.num_steps < num_variables:
        raise ValueError("with several stages a schedule must reach the last variable: the next stage needs all")
