"""ardm bench."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ardm.commands.common import require_positive
from ardm.commands.train import PresetName
from ardm.errors import UsageError
from ardm.output import to_json

if TYPE_CHECKING:
    from ardm.bench.training import TrainTiming


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Time parts of ardm beside what they replace."""

    what: Annotated[tyro.conf.Positional[Literal["plan", "train"]], tyro.conf.arg(metavar="WHAT")]
    """plan: the planner beside the paper's recurrence. train: the training steps of presets, on random items."""
    full: bool = False
    """Run the slow references of the planner at full size too (minutes)."""
    presets: tuple[PresetName, ...] = ()
    """What to train."""
    base: int | None = None
    """Train upscale models with digits in this base."""
    parametrization: Literal["data", "direct"] = "direct"
    """Of upscale models."""
    batch_size: int | None = None
    """Items of a step; by default the preset's."""
    seconds: float = 10.0
    """About how long to time each preset."""
    device: str | None = None
    no_compile: bool = False
    """Run networks as they are instead of compiling them first (CUDA only)."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Time and print."""
        if self.what == "plan":
            self._run_plan()
        else:
            self._run_train()

    def _run_plan(self) -> None:
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

    def _run_train(self) -> None:
        require_positive(batch_size=self.batch_size, seconds=self.seconds)
        if not self.presets:
            raise UsageError("name what to train: ardm bench train --presets cifar10 cifar10-paper")
        from ardm.bench.training import time_training
        from ardm.presets import PRESETS
        from ardm.runtime import Runtime

        runtime = Runtime.choose(self.device, compile=not self.no_compile)
        rows: list[TrainTiming] = []
        if not self.json:
            print(
                f"{'':14} {'parameters':>11} {'batch':>5} {'step':>9} {'items/s':>9} {'TFLOP/s':>8} {'share':>6} memory"
            )
        for preset in self.presets:
            config = PRESETS[preset]()
            train = config.train if self.batch_size is None else replace(config.train, batch_size=self.batch_size)
            depth = config.depth
            if self.base is not None:
                depth = replace(depth, base=self.base, parametrization=self.parametrization)
            rows.append(row := time_training(replace(config, train=train, depth=depth), runtime, seconds=self.seconds))
            if not self.json:
                print_training(row)
        if self.json:
            print(to_json([asdict(row) for row in rows]).decode())


def print_training(row: "TrainTiming") -> None:
    """A row for a reader."""
    memory = "" if row.peak_bytes is None else f"{row.peak_bytes / 2**30:.1f} GiB"
    print(
        f"{row.preset:14} {row.num_parameters:>11,} {row.batch_size:>5} {1000 * row.step_seconds:>6.1f} ms "
        f"{row.items_per_second:>9.1f} {row.teraflops:>8.2f} {row.share:>6.1%} {memory}"
    )
