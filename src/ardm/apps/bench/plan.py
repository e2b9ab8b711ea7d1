"""Time and memory of the planner and of the paper's O(D^3) recurrence, in NumPy and (if installed) JAX.

Symbols as in `ardm.planner`: `S` stages, `D` steps, `L[t]` losses, `B` calls.
"""

import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int32

from ardm.apps.bench.stopwatch import median_seconds
from ardm.planner import every_budget, plan

CPU = torch.device("cpu")
PAPER_STEPS = 3072
"""Variables of a CIFAR-10 image, the size for which the paper gives its times."""
SWEEP_BYTES = 4 * 8
"""Bytes per step: two rows of costs (or one, and one of origins), the lines and their crossings."""


@dataclass(frozen=True, kw_only=True)
class PlanTiming:
    """The time and memory of one algorithm."""

    name: str
    """The algorithm, and the library that runs it."""
    num_stages: int
    """Stages S planned together."""
    num_steps: int
    """Steps D per stage."""
    budgets: int
    """Budgets planned in one run."""
    seconds: float
    """Median seconds of a run without compilation."""
    table_bytes: int
    """Bytes of the arrays that live at once, without the losses and the schedule."""


def run_plan_benchmark(
    *,
    table_steps: tuple[int, ...] = (512, 1024, PAPER_STEPS),
    reference_steps: tuple[int, ...] = (512, 1024),
    single_budgets: tuple[tuple[int, int, int], ...] = ((1, 16_000, 1_000), (8, 16_000, 8_000)),
    full: bool = False,
    repeats: int = 5,
    seed: int = 0,
) -> list[PlanTiming]:
    """Timings of the planner and of the paper's recurrence on synthetic losses.

    All budgets at once for the sizes D in `table_steps`, the slow recurrence for those in `reference_steps` (with
    `full` also 3072, in minutes), and one budget for the (S, D, B) in `single_budgets`.
    """
    rows = [_time_table(num_steps, repeats, seed) for num_steps in table_steps]
    for num_steps in (*reference_steps, *([PAPER_STEPS] if full else [])):
        rows.extend(_time_references(synthetic_profile(num_steps, seed)))
    return rows + [_time_single(*sizes, repeats, seed) for sizes in single_budgets]


def synthetic_profile(num_steps: int, seed: int) -> Float[np.ndarray, "D"]:
    """Losses like those of a trained model, from 7 to 1 bits, with random drops that get smaller."""
    drops = np.random.default_rng(seed).exponential(size=num_steps)
    drops *= np.exp(-5.0 * np.arange(num_steps) / num_steps)
    remaining: np.ndarray = np.cumsum(drops[::-1])[::-1] / drops.sum()
    return 1.0 + 6.0 * remaining


def paper_recurrence(losses: Float[np.ndarray, "D"]) -> tuple[Float[np.ndarray, "E E"], Int32[np.ndarray, "E E"]]:
    """The costs and dimensions of the paper's appendix ("Details on Parallelized ARDMs"), in O(D^3).

    `costs[b, t] = min_i costs[b - 1, i] + max(t - i, 0) L[i]` and `dimensions[b, t]` is the minimising `i`,
    for b and t in 0..D (E = D + 1). As in the paper a group may be empty, so `costs[b]` is the least cost of
    at most b groups; for losses that do not increase, also that of exactly b.
    """
    transitions = _transitions(losses)
    ends = np.arange(losses.size + 1)
    costs = np.full(transitions.shape, np.inf)
    costs[0, 0] = 0.0
    dimensions = np.full(transitions.shape, -1, np.int32)
    totals = np.empty_like(transitions)
    for budget in range(1, ends.size):
        np.add(transitions, costs[budget - 1], out=totals)
        dimensions[budget] = totals.argmin(axis=1)
        costs[budget] = totals[ends, dimensions[budget]]
    return costs, dimensions


def jax_recurrence(losses: Float[np.ndarray, "D"]) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """A compiled run of `paper_recurrence` as a `jax.lax.scan` over budgets, in JAX's default precision."""
    import jax
    import jax.numpy as jnp

    def next_budget(costs: Any, _: Any) -> Any:
        totals = transitions + costs
        row = totals.min(axis=1), totals.argmin(axis=1)
        return row[0], row

    transitions = jnp.asarray(_transitions(losses))
    no_groups = jnp.full(losses.size + 1, jnp.inf).at[0].set(0.0)
    scan = jax.jit(lambda first: jax.lax.scan(next_budget, first, length=losses.size)[1])
    compiled = scan.lower(no_groups).compile()

    def run() -> tuple[np.ndarray, np.ndarray]:
        costs, dimensions = compiled(no_groups)
        return np.asarray(costs), np.asarray(dimensions)

    return run


def _transitions(losses: np.ndarray) -> np.ndarray:
    """Costs of a group from i to t, at [t, i] so that the minimum over i is contiguous."""
    ends = np.arange(losses.size + 1)
    lengths = np.maximum(ends[:, None] - ends, 0)
    return np.asarray(lengths * np.append(losses, 0.0))


def _time_table(num_steps: int, repeats: int, seed: int) -> PlanTiming:
    losses = synthetic_profile(num_steps, seed)
    table = every_budget(losses)  # compiles
    return PlanTiming(
        name="ours, every budget",
        num_stages=1,
        num_steps=num_steps,
        budgets=num_steps,
        seconds=median_seconds([lambda: every_budget(losses)], CPU, min_rounds=repeats)[0],
        table_bytes=table.bits.nbytes + table.origins.nbytes + SWEEP_BYTES * num_steps,
    )


def _time_single(num_stages: int, num_steps: int, num_calls: int, repeats: int, seed: int) -> PlanTiming:
    losses = np.stack([synthetic_profile(num_steps, seed + stage) for stage in range(num_stages)])
    plan(losses, num_calls)  # compiles
    return PlanTiming(
        name=f"ours, one budget of {num_calls}",
        num_stages=num_stages,
        num_steps=num_steps,
        budgets=1,
        seconds=median_seconds([lambda: plan(losses, num_calls)], CPU, min_rounds=repeats)[0],
        table_bytes=SWEEP_BYTES * num_steps,
    )


def _time_references(losses: np.ndarray) -> Iterator[PlanTiming]:
    """The timing of a single run of each recurrence, because they are slow; compilation is not counted."""
    runs: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]]
    runs = {"paper's recurrence, NumPy": lambda: paper_recurrence(losses)}
    if importlib.util.find_spec("jax") is not None:
        runs["paper's recurrence, JAX"] = jax_recurrence(losses)
    for name, run in runs.items():
        begin = time.perf_counter()
        costs, dimensions = run()
        yield PlanTiming(
            name=name,
            num_stages=1,
            num_steps=losses.size,
            budgets=losses.size,
            seconds=time.perf_counter() - begin,
            table_bytes=dimensions.nbytes + 3 * costs.nbytes,  # costs, transitions and their sum
        )
