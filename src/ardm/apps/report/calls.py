"""Bits against orders and against calls, for one model and the same items throughout."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ardm.codec.coding_plan import orders_and_schedule
from ardm.codec.format.options import OrderChoice
from ardm.likelihood import Bound, Estimate, bound, exact_bits, mean_bits, schedule_bits_bound
from ardm.model import ARDM
from ardm.planner import plan
from ardm.schedule import Schedule, cosine_schedule, full_schedule, uniform_schedule

Advance = Callable[[int], None]


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

    model: ARDM
    x: Int[Tensor, "N D"]
    losses: Float[Tensor, "S D"]
    batch_size: int
    seed: int
    advance: Advance = lambda count: None

    def orders(self, names: Sequence[str], num_passes: int = 16) -> list[Row]:
        """The bound over random orders from so many steps an item, then named orders exactly, one variable a call."""
        full = full_schedule(self.model.num_variables, num_stages=self.model.num_stages)
        result = bound(
            self.model,
            self.x,
            self._generator(),
            num_passes=num_passes,
            batch_size=self.batch_size,
            on_batch=self.advance,
        )
        rows = [Row(order="random", schedule="one a call", calls=full.num_calls, estimate=result)]
        return rows + [self.exact(name, "one a call", full) for name in names]

    def budgets(self, budgets: Sequence[int], names: Sequence[str], planned_in: Sequence[str]) -> list[Row]:
        """For each budget: the named schedules in random orders, and the planned one in fixed orders."""
        rows = []
        for num_calls in budgets:
            schedules = self.schedules(num_calls)
            rows += [self.random(name, schedules[name]) for name in names]
            rows += [self.exact(order, "planned", schedules["planned"]) for order in planned_in]
        return rows

    def schedules(self, num_calls: int) -> dict[str, Schedule]:
        """The schedules to compare at one budget."""
        num_stages, num_steps = self.model.num_stages, self.model.num_variables
        return {
            "planned": plan(self.losses.numpy(), num_calls).schedule,
            "cosine": cosine_schedule(num_steps, num_calls, num_stages=num_stages),
            "uniform": uniform_schedule(num_steps, num_calls, num_stages=num_stages),
        }

    def random(self, name: str, schedule: Schedule) -> Row:
        """The bound over random orders of a schedule."""
        bits = schedule_bits_bound(
            self.model, self.x, schedule, self._generator(), batch_size=self.batch_size, on_batch=self.advance
        )
        return self._row("random", name, schedule, bits)

    def exact(self, order: str, name: str, schedule: Schedule) -> Row:
        """The exact bits of a named order and a schedule."""
        own, schedule = orders_and_schedule(OrderChoice(name=order), self.model.shape, schedule)
        orders = torch.from_numpy(own).to(self.x.device).expand(len(self.x), -1, -1)
        bits = exact_bits(self.model, self.x, orders, schedule, batch_size=self.batch_size, on_batch=self.advance)
        return self._row(order, "one of each strand" if order == "strands" else name, schedule, bits)

    def _row(self, order: str, name: str, schedule: Schedule, bits: Float[Tensor, "N"]) -> Row:
        words = f"{order} order, {name} schedule, {schedule.num_calls} calls"
        estimate = mean_bits(bits, self.model.num_variables, words, is_exact=order != "random")
        return Row(order=order, schedule=name, calls=schedule.num_calls, estimate=estimate)

    def _generator(self) -> torch.Generator:
        return torch.Generator(self.x.device).manual_seed(self.seed)


def markdown(orders: Sequence[Row], budgets: Sequence[Row], unit: str) -> str:
    """Two Markdown tables: bits by order, and bits by budget with a column for each (order, schedule).

    One variable a call is a budget too, the same for all schedules of an order.
    """
    lines = [f"| order, one variable a call | {unit} | estimator |", "|---|---|---|"]
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
    return "bound" if math.isinf(draws) else f"bound, ± {draws:.3f} by its draws"


def _number(row: Row) -> str:
    half_width = row.estimate.half_width
    interval = f" ± {half_width:.3f}" if math.isfinite(half_width) else ""  # one item has no interval
    return f"{row.estimate.bits_per_dim:.3f}{interval}"
