"""The planner: schedules with the fewest expected bits for a budget of calls (section "Parallelized ARDMs").

A group of `k` variables revealed by one call at step `t` of stage `s` costs `k * L[s, t]` bits, whichever
variables it holds. A schedule costs the sum over its groups. For losses that do not increase this cost is
Monge, and the planner rests on three consequences:

- the cheapest group that ends at a step is the lower envelope of lines in that step, with slopes that only
  fall, so that one sweep with a moving pointer answers all steps in O(D);
- the optimal cost is convex in the number of calls, so that a price for each call (a Lagrange multiplier)
  finds any budget, and one common price shares a budget optimally among stages;
- where several budgets share one price, a path with more and one with fewer calls splice into a path with
  any number in between, at no loss (Aggarwal, Schieber and Tokuyama 1994).

| symbol | meaning |
|---|---|
| `S`, `D` | number of stages, number of variables (and so of steps) in a stage |
| `t` | step, from 0: `t` variables are revealed and `D - t` are masked |
| `L[s, t]` | loss component: expected bits of one variable of stage `s` at step `t` |
| `B` | budget: number of calls |
"""

import math
from dataclasses import dataclass, replace
from typing import get_args, no_type_check

import numpy as np
from jaxtyping import Float, Integer

from ardm.names import ScheduleKind, StageSplit
from ardm.profile import LossArray, as_stages, check_losses, stretch
from ardm.runtime.jit import compiled
from ardm.schedule import Schedule, clamp_calls, cosine_schedule, share_calls, uniform_schedule

# The import hook of the tests must not wrap what numba compiles, hence `no_type_check` on such functions.


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A schedule with its expected cost: bits in total over the planned steps of all stages.

    >>> import ardm, numpy as np
    >>> plan = ardm.plan(np.array([4.0, 3.0, 2.0, 1.0]), 2)
    >>> plan.bits, plan.full_bits, plan.lost_share
    (12.0, 10.0, 0.2)
    """

    schedule: Schedule
    """The cheapest schedule of its number of calls."""
    bits: float
    """Expected bits of the schedule."""
    full_bits: float
    """Expected bits of one variable per call, the least that any schedule costs."""

    @property
    def lost_bits(self) -> float:
        """Expected bits above those of one variable per call."""
        return max(0.0, self.bits - self.full_bits)

    @property
    def lost_share(self) -> float:
        """Lost bits as a fraction of `full_bits`; 0 if those are 0."""
        return self.lost_bits / self.full_bits if self.full_bits else 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class BudgetTable:
    """The optimal cost of every budget of one stage, and the schedules that attain it.

    >>> import ardm, numpy as np
    >>> table = ardm.every_budget(np.array([4.0, 3.0, 2.0, 1.0]))
    >>> table.bits.tolist(), table.schedule(num_calls=2).starts
    ([16.0, 12.0, 11.0, 10.0], ((0, 2),))
    """

    bits: Float[np.ndarray, "B"]
    """`bits[b - 1]` is the cost of the best schedule with `b` calls."""
    origins: Integer[np.ndarray, "B E"]
    """`origins[b - 1, t]` is where the last of `b` groups begins if they end at step `t`; E = D + 1."""

    def schedule(self, num_calls: int) -> Schedule:
        """The best schedule with exactly `num_calls` calls."""
        if not 1 <= num_calls <= self.bits.size:
            raise ValueError(f"expected a budget in 1..{self.bits.size}, got {num_calls}; raise max_calls")
        starts = [self.origins.shape[1] - 1]
        for row in reversed(range(num_calls)):
            starts.append(int(self.origins[row, starts[-1]]))
        return Schedule(starts=(tuple(starts[:0:-1]),), num_steps=starts[0])


def plan(losses: LossArray, num_calls: int, *, first_step: int = 0, split: StageSplit = "joint") -> Plan:
    """The cheapest schedule with at most `num_calls` calls over all stages, in O(S D log D).

    Exact up to rounding. It uses all the calls, or one for each variable where that is fewer. The first
    `first_step` variables of each stage are given (infilling) and cost nothing. A "joint" split puts calls
    into the stages where they save most; "even" plans each stage separately with the same number of calls,
    any remainder going to the earliest stages (the paper's choice).

    >>> import ardm, numpy as np
    >>> ardm.plan(np.array([5.0, 2.0, 1.0, 1.0]), num_calls=2).schedule.starts
    ((0, 1),)
    """
    profile = _check_monotone(losses)
    num_stages, num_steps = profile.shape
    num_calls = clamp_calls(num_calls, num_stages, num_steps, first_step)
    planned = profile[:, first_step:]
    if split == "joint":
        paths = _cheapest_paths(planned, num_calls)
    elif split == "even":
        quotas = share_calls(num_calls, num_stages)
        paths = [_cheapest_paths(stage[None], quota)[0] for stage, quota in zip(planned, quotas, strict=True)]
    else:
        raise ValueError(f"split must be 'joint' or 'even', got {split!r}; 'joint' is the cheapest")
    starts = tuple(tuple((first_step + path).tolist()) for path in paths)
    schedule = Schedule(starts=starts, num_steps=num_steps)
    return Plan(schedule=schedule, bits=schedule_bits(profile, schedule), full_bits=math.fsum(planned.flat))


def plan_gaps(losses: LossArray, num_calls: int, first_step: int, last_step: int) -> Plan:
    """The plan for the steps first_step..last_step-1, with the losses of an item that has only these steps.

    The losses of the last steps would be too optimistic: there a few hidden variables lie scattered among many known
    ones, while those of a gap are neighbours.
    """
    if first_step >= last_step:
        raise ValueError(f"expected a first step before {last_step}, got {first_step}; leave a step to plan")
    own = plan(stretch(losses, last_step - first_step), num_calls)
    starts = tuple(tuple(first_step + start for start in stage) for stage in own.schedule.starts)
    return replace(own, schedule=Schedule(starts=starts, num_steps=last_step))


def schedule_of_kind(
    kind: ScheduleKind, losses: LossArray, num_calls: int, first_step: int = 0, last_step: int | None = None
) -> Schedule:
    """A schedule for all steps or some of them, planned from the losses or, for other kinds, from their shape."""
    num_stages, num_steps = losses.shape
    last_step = last_step or num_steps
    if kind not in get_args(ScheduleKind):
        raise ValueError(f"a schedule is one of {', '.join(get_args(ScheduleKind))}, got {kind!r}")
    if kind == "planned":
        return plan_gaps(losses, num_calls, first_step, last_step).schedule
    make = cosine_schedule if kind == "cosine" else uniform_schedule
    return make(last_step, num_calls, num_stages=num_stages, first_step=first_step)


def every_budget(losses: LossArray, max_calls: int | None = None) -> BudgetTable:
    """The optimal cost of each budget 1..`max_calls` (by default D) of one stage, in O(D B).

    The paper's recurrence `C[b, t] = min_{i < t} C[b - 1, i] + (t - i) L[i]`, with the minimum read off an
    envelope of lines instead of searched. Exact up to rounding.

    >>> import ardm, numpy as np
    >>> ardm.every_budget(np.array([4.0, 3.0, 2.0, 1.0]), max_calls=3).bits.tolist()
    [16.0, 12.0, 11.0]
    """
    profile = _check_monotone(losses)
    if len(profile) != 1:
        raise ValueError(f"expected the losses of one stage, got {len(profile)} stages; pass one at a time")
    num_steps = profile.shape[1]
    num_calls = clamp_calls(num_steps if max_calls is None else max_calls, 1, num_steps, 0)
    bits = np.empty(num_calls)
    origins = np.zeros((num_calls, num_steps + 1), np.uint16 if num_steps < 2**16 else np.int32)
    _fill_budget_table(profile[0], bits, origins)
    return BudgetTable(bits=bits, origins=origins)


def schedule_bits(losses: LossArray, schedule: Schedule) -> float:
    """Expected bits of a schedule, the sum over its groups of `size * L[start]`, for any finite losses."""
    profile = check_losses(as_stages(losses))
    expected = (schedule.num_stages, schedule.num_steps)
    if profile.shape != expected:
        raise ValueError(f"expected losses of shape {expected}, got {profile.shape}; match the schedule")
    costs = [
        np.diff(starts, append=schedule.num_steps) * values[list(starts)]
        for starts, values in zip(schedule.starts, profile, strict=True)
    ]
    return math.fsum(np.concatenate(costs))


def _check_monotone(losses: np.ndarray) -> np.ndarray:
    profile = check_losses(as_stages(losses))
    rises = np.argwhere(np.diff(profile) > 0)
    if rises.size:
        stage, step = rises[0]
        raise ValueError(f"losses must not increase, but those of stage {stage} do after step {step}; use monotone()")
    return profile


def _cheapest_paths(profile: np.ndarray, num_calls: int) -> list[np.ndarray]:
    """The starts of the groups of each stage in an optimal schedule with `num_calls` calls in total."""
    sparse, dense = _bracketing_paths(_normalise(profile), num_calls)
    missing = num_calls - sum(path.size for path in sparse)
    paths = []
    for few, many in zip(sparse, dense, strict=True):
        extra = min(missing, max(0, many.size - few.size))
        missing -= extra
        paths.append(_splice(few, many, few.size + extra, profile.shape[1]))
    return paths


def _normalise(profile: np.ndarray) -> np.ndarray:
    """The profile less each stage's last loss, times the power of two that brings its maximum to 1/2..1.

    The cost of every schedule changes by the same constant and factor, so the optimum stays the same.
    """
    excess = profile - profile[:, -1:]
    return np.asarray(np.ldexp(excess, -np.frexp(excess.max())[1]))


def _bracketing_paths(profile: np.ndarray, num_calls: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Optimal paths with at most and with at least `num_calls` calls, at prices that agree to rounding."""
    num_stages, num_steps = profile.shape
    sparse = [np.zeros(1, np.int64)] * num_stages  # optimal at the price D, as no call saves that much
    dense = [np.arange(num_steps)] * num_stages  # optimal when calls are free
    low, high = 2.0**-100, float(num_steps)  # prices below rounding are as good as free
    for _ in range(60):  # all iterations run only where several budgets share a price
        price = math.sqrt(low * high)
        paths = [_path_at_price(stage, price) for stage in profile]
        calls = sum(path.size for path in paths)
        if calls >= num_calls:
            low, dense = price, paths
        if calls <= num_calls:
            high, sparse = price, paths
        if calls == num_calls:
            break
    return sparse, dense


def _splice(sparse: np.ndarray, dense: np.ndarray, num_calls: int, end: int) -> np.ndarray:
    """A path of `num_calls` groups from two optimal ones: the front of `sparse`, the back of `dense`.

    To skip n groups of `dense`, find the first group [x, y) of `sparse` that holds the group [u, v) which
    stands n places later in `dense`: x <= u < v <= y. Join them as [x, v). Monge costs make this no dearer.
    """
    if num_calls in (sparse.size, dense.size):
        return sparse if num_calls == sparse.size else dense
    skipped = dense.size - num_calls
    stops = np.append(sparse[1:], end)
    kept = 1 + int(np.argmax(stops >= dense[1 + skipped :][: stops.size]))
    return np.concatenate([sparse[:kept], dense[kept + skipped :]])


@compiled()
@no_type_check
def _path_at_price(losses, price):
    """Starts of the groups of the cheapest path from 0 to D if each call costs `price` bits more."""
    costs, origins = np.zeros(losses.size + 1), np.empty(losses.size + 1, np.int64)
    _sweep(losses, costs, costs, origins, 0, price)
    starts = np.empty(losses.size, np.int64)
    stop = position = losses.size
    while stop > 0:
        stop = origins[stop]
        position -= 1
        starts[position] = stop
    return starts[position:].copy()


@compiled()
@no_type_check
def _fill_budget_table(losses, bits, origins):
    """Fills the arrays of a `BudgetTable`, one sweep for each budget."""
    before, after = np.full(losses.size + 1, np.inf), np.full(losses.size + 1, np.inf)
    before[0] = 0.0
    for row in range(bits.size):
        _sweep(losses, before, after, origins[row], row, 0.0)
        bits[row] = after[-1]
        before, after = after, before


@compiled()
@no_type_check
def _sweep(losses, before, after, origins, begin, price):
    """Fills `after[t] = min_{begin <= i < t} before[i] + (t - i) L[i] + price`, and `origins[t] = i`.

    Each start i is a line in t. `after` may be `before` itself: `before[t]` is first read when t is a start.
    """
    lines, crossings = np.empty(losses.size, np.int64), np.empty(losses.size)
    head, tail = 0, -1
    for stop in range(begin + 1, losses.size + 1):
        tail = _add_line(losses, before, lines, crossings, head, tail, stop - 1)
        while head < tail and crossings[head + 1] <= stop:
            head += 1
        start = lines[head]
        after[stop] = before[start] + (stop - start) * losses[start] + price
        origins[stop] = start


@compiled()
@no_type_check
def _add_line(losses, before, lines, crossings, head, tail, start):
    """Adds a start to the envelope `lines[head : tail + 1]` and returns its new tail.

    `crossings[k]` is the step from which line k is the lowest. Lines that are lowest nowhere are dropped.
    """
    crossing = -np.inf
    while tail >= head:
        crossing = _crossing(losses, before, lines[tail], start)
        if crossing > crossings[tail]:
            break
        tail -= 1
    if crossing <= losses.size:
        tail += 1
        lines[tail], crossings[tail] = start, crossing
    return tail


@compiled()
@no_type_check
def _crossing(losses, before, earlier, later):
    """The step from which a group begun at `later` is no dearer than one begun at `earlier`, if any."""
    excess = before[later] - before[earlier] - (later - earlier) * losses[earlier]
    slope = losses[earlier] - losses[later]
    return later + excess / slope if slope > 0.0 else np.inf
