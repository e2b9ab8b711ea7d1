"""ardm bench call."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ardm.cli.bench.common import PresetBenchmark
from ardm.errors import UsageError

if TYPE_CHECKING:
    from ardm.apps.bench.calls import CallTiming, ExactCallTiming

COLUMNS = f"{'':14} {'parameters':>11} {'batch':>5}"


@dataclass(frozen=True, kw_only=True)
class BenchCall(PresetBenchmark):
    """Time one call of each preset's network, or of an exact model and its float32 twin."""

    model: Path | None = None
    """An exact model's file or the name of a bundled model, instead of presets."""
    batch_size: int | None = None
    """Items per call; 1 by default."""

    def measure(self) -> None:
        from ardm.apps.bench.calls import time_call, time_exact_call

        kwargs: Any = {"batch_size": self.batch_size or 1, "seconds": self.seconds}
        if self.model is None:
            configs, runtime = self.configurations(), self.runtime()
            rows = (time_call(config, runtime, **kwargs) for config in configs)
            self.show(rows, f"{COLUMNS} {'call':>11} {'GFLOP':>8}", call_line)
            return
        if self.presets or self.base is not None:
            raise UsageError("give either presets, with or without --base, or --model, not both")
        from ardm.tasks.load import load

        trained = load(self.model, self.device).trained
        if trained.exact is None:
            raise UsageError(f"{self.model} is not an exact model; ardm export makes one from it")
        row = time_exact_call(trained, trained.exact, name=self.model.name, **kwargs)
        self.show([row], f"{COLUMNS} {'integers':>11} {'float32':>11}", exact_call_line)


def call_line(row: "CallTiming") -> str:
    """A preset's row of the table."""
    call, work = f"{1000 * row.call_seconds:.1f} ms", row.gigaflops_an_item
    return f"{row.preset:14} {row.num_parameters:>11,} {row.batch_size:>5} {call:>11} {work:>8.2f}"


def exact_call_line(row: "ExactCallTiming") -> str:
    """An exact model's row of the table."""
    times = [f"{1000 * seconds:.1f} ms" for seconds in (row.exact_seconds, row.float_seconds)]
    return f"{row.model:14} {row.num_parameters:>11,} {row.batch_size:>5} {times[0]:>11} {times[1]:>11}"
