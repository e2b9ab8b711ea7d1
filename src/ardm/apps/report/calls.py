"""Bits by order and by number of calls, for one model and the same items throughout."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from ardm.likelihood import Bound, Estimate
from ardm.names import ScheduleKind
from ardm.schedule import Schedule, full_schedule
from ardm.tasks.load import LoadedModel
from ardm.tasks.plan import make_schedule
from ardm.tasks.score import ScoreOptions, score


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured number."""

    order: str
    schedule: str
    calls: int
    estimate: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"order": self.order, "schedule": self.schedule, "calls": self.calls} | self.estimate.to_dict()


@dataclass(frozen=True, kw_only=True)
class CallsReport:
    """Measures a model on items; `losses` is the monotone profile that schedules are planned from."""

    loaded: LoadedModel
    x: Int[Tensor, "N D"]
    losses: Float[ndarray, "S D"]
    options: ScoreOptions

    def orders(self, names: Sequence[str]) -> list[Row]:
        """The bound over random orders from single steps, then named orders exactly, with one variable per call."""
        num_stages, num_variables = self.losses.shape
        full = full_schedule(num_variables, num_stages=num_stages)
        bound = score(self.loaded, self.x, options=self.options)
        rows = [Row(order="random", schedule="one variable per call", calls=full.num_calls, estimate=bound)]
        return rows + [self.row(name, "one variable per call", full) for name in names]

    def budgets(self, budgets: Sequence[int], names: Sequence[str], planned_in: Sequence[str]) -> list[Row]:
        """For each budget: the named schedules in random orders, and the planned one in fixed orders."""
        rows = []
        for num_calls in budgets:
            make = partial(make_schedule, self.loaded.trained, num_calls, losses=self.losses)
            schedules = {kind: make(kind) for kind in get_args(ScheduleKind)}
            rows += [self.row("random", name, schedules[name]) for name in names]
            rows += [self.row(order, "planned", schedules["planned"]) for order in planned_in]
        return rows

    def row(self, order: str, name: str, schedule: Schedule) -> Row:
        """The bits of a schedule: their bound over random orders, or exact in a named order."""
        name = "one of each strand" if order == "strands" else name
        words = f"{order} order, {name} schedule, {schedule.num_calls} calls"
        estimate = replace(score(self.loaded, self.x, schedule, order, options=self.options), estimator=words)
        return Row(order=order, schedule=name, calls=schedule.num_calls, estimate=estimate)


def markdown(orders: Sequence[Row], budgets: Sequence[Row], unit: str) -> str:
    """Two Markdown tables: bits by order, and bits by budget with a column for each (order, schedule).

    One variable per call is a budget, too: the same for all schedules of an order.
    """
    lines = [f"| order, one variable per call | {unit} | estimator |", "|---|---|---|"]
    lines += [f"| {r.order} | {_number(r)} | {_estimator(r.estimate)} |" for r in orders]
    if budgets:
        columns = list(dict.fromkeys((r.order, r.schedule) for r in budgets))
        lines += ["", "| calls | " + " | ".join(f"{s}, {o} order" for o, s in columns) + " |"]
        lines += ["|---" * (len(columns) + 1) + "|"]
        if orders[0].calls > max(r.calls for r in budgets):
            cells_by_order = {r.order: _number(r) for r in orders}
            lines += [f"| {orders[0].calls} | " + " | ".join(cells_by_order.get(o, "") for o, _ in columns) + " |"]
        for calls in dict.fromkeys(r.calls for r in budgets):
            cells = {(r.order, r.schedule): _number(r) for r in budgets if r.calls == calls}
            lines += [f"| {calls} | " + " | ".join(cells[c] for c in columns) + " |"]
    return "\n".join(lines)


def _estimator(estimate: Estimate) -> str:
    if not isinstance(estimate, Bound):
        return "exact" if estimate.is_exact else "bound"
    draws = estimate.draws_half_width
    return "bound" if math.isinf(draws) else f"bound, ± {draws:.3f} from its draws"


def _number(row: Row) -> str:
    half_width = row.estimate.half_width
    interval = f" ± {half_width:.3f}" if math.isfinite(half_width) else ""  # one item has no interval
    return f"{row.estimate.bits_per_dim:.3f}{interval}"
