"""The coding part of an exact model: its order, its schedules and the default one; orders by name."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from ardm.codec.format.options import MAX_SEED, OrderChoice
from ardm.errors import UsageError
from ardm.names import ORDER_NAMES, Shape
from ardm.orders import NAMED_ORDERS, pseudorandom
from ardm.schedule import Schedule, in_strands


@dataclass(frozen=True, kw_only=True)
class CodingPlan:
    """An exact model's order, its schedules, and which of them is the default."""

    order: OrderChoice
    schedules: tuple[Schedule, ...]
    """Sorted by rising number of calls; files refer to them by index."""
    default: int
    """The index of the schedule for files that do not name one."""

    def __post_init__(self) -> None:
        calls = [schedule.num_calls for schedule in self.schedules]
        if not calls or sorted(set(calls)) != calls:
            raise ValueError(f"schedules must have rising numbers of calls, got {calls}")
        if not 0 <= self.default < len(calls):
            raise ValueError(f"the default must be one of {len(calls)} schedules, got {self.default}")

    def check(self, num_stages: int, num_variables: int) -> None:
        """Raise a ValueError unless the schedules fit these numbers of stages and variables."""
        for s in self.schedules:
            if (s.num_stages, s.first_step, s.num_steps) != (num_stages, 0, num_variables):
                raise ValueError(f"expected schedules for stages x variables = {num_stages} x {num_variables}")

    def schedule_for(self, num_calls: int) -> int:
        """The index of the schedule with the most calls within a budget."""
        calls = [schedule.num_calls for schedule in self.schedules]
        if num_calls < calls[0]:
            raise UsageError(f"{num_calls} calls are too few: this model has schedules for {calls[0]} and more")
        return max(i for i, c in enumerate(calls) if c <= num_calls)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values for JSON."""
        return {
            "order": self.order.name,
            "seed": self.order.seed,
            "schedules": [{"starts": s.starts, "num_steps": s.num_steps} for s in self.schedules],
            "default": self.default,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "CodingPlan":
        """The plan that `to_dict` wrote."""
        schedules = tuple(
            Schedule(starts=tuple(map(tuple, s["starts"])), num_steps=s["num_steps"]) for s in values["schedules"]
        )
        order = OrderChoice(name=values["order"], seed=values["seed"])
        return cls(order=order, schedules=schedules, default=values["default"])


def orders_and_schedule(
    choice: OrderChoice, shape: Shape, schedule: Schedule
) -> tuple[Int[np.ndarray, "S D"], Schedule]:
    """The orders of each stage for a shape, and the schedule to use with them.

    With strands, only the schedule's number of calls per stage matters.
    """
    if choice.name == "strands":
        return in_strands(schedule)
    order = pseudorandom(shape, choice.seed) if choice.name == "pseudorandom" else NAMED_ORDERS[choice.name](shape)
    return order[None].repeat(schedule.num_stages, axis=0), schedule


def parse_order(text: str) -> OrderChoice:
    """The order that a text names; the pseudorandom one may have a seed, as in `pseudorandom:7`."""
    name, _, seed = text.partition(":")
    is_seed = re.fullmatch("[0-9]{1,10}", seed) and int(seed) <= MAX_SEED
    if name not in ORDER_NAMES or (seed and not (name == "pseudorandom" and is_seed)):
        raise UsageError(f"--order must be one of {', '.join(ORDER_NAMES)} or pseudorandom:SEED, got {text!r}")
    return OrderChoice(name=name, seed=int(seed or 0))
