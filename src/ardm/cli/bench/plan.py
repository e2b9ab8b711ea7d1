"""ardm bench plan."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ardm.cli.bench.common import Benchmark

if TYPE_CHECKING:
    from ardm.apps.bench.plan import PlanTiming


@dataclass(frozen=True, kw_only=True)
class BenchPlan(Benchmark):
    """Time the planner and the paper's recurrence."""

    full: bool = False
    """Run the slow references at full size too, which takes minutes."""

    def measure(self) -> None:
        from ardm.apps.bench.plan import run_plan_benchmark

        header = f"{'':40} {'stages':>6} {'steps':>6} {'budgets':>8} {'seconds':>9} {'tables':>9}"
        self.show(run_plan_benchmark(full=self.full), header, plan_line)


def plan_line(row: "PlanTiming") -> str:
    """A row of the table."""
    size = f"{row.table_bytes / 2**20:.1f} MiB"
    return f"{row.name:40} {row.num_stages:>6} {row.num_steps:>6} {row.budgets!s:>8} {row.seconds:>9.4f} {size:>9}"
