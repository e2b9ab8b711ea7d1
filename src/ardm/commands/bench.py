"""ardm bench."""

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import tyro

from ardm.output import to_json


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Time parts of ardm beside what they replace."""

    what: Annotated[tyro.conf.Positional[Literal["plan"]], tyro.conf.arg(metavar="WHAT")]
    """plan: the planner beside the paper's recurrence."""
    full: bool = False
    """Run the slow references at full size too (minutes)."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Time and print."""
        from ardm.bench.plan import run_plan_benchmark

        rows = run_plan_benchmark(full=self.full)
        if self.json:
            print(to_json([asdict(row) for row in rows]).decode())
            return
        print(f"{'':40} {'stages':>6} {'steps':>6} {'budgets':>8} {'seconds':>9} {'tables':>9}")
        for row in rows:
            size = f"{row.table_bytes / 2**20:.1f} MiB"
            print(
                f"{row.name:40} {row.num_stages:>6} {row.num_steps:>6} {row.budgets!s:>8} {row.seconds:>9.4f} {size:>9}"
            )
