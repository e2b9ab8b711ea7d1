"""ardm bench call."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ardm.cli.bench.common import OfPresets
from ardm.errors import UsageError

if TYPE_CHECKING:
    from ardm.apps.bench.exact_call import ExactCallTiming
    from ardm.apps.bench.training import CallTiming


@dataclass(frozen=True, kw_only=True)
class BenchCall(OfPresets):
    """One call of the networks of presets, or of an exact model beside its float32 twin."""

    model: Path | None = None
    """Instead of presets, an exact model's file or the name of a bundled model."""
    batch_size: int | None = None
    """Items of a call, by default 1."""

    def measure(self) -> None:
        """Time the presets or the model."""
        if self.model is not None:
            self._measure_exact(self.model)
            return
        from ardm.apps.bench.training import time_call

        configs, runtime = self.configurations(), self.runtime()
        how: Any = {"batch_size": self.batch_size or 1, "seconds": self.seconds}
        rows = (time_call(config, runtime, **how) for config in configs)
        self.show(rows, f"{'':14} {'parameters':>11} {'batch':>5} {'call':>11} {'GFLOP':>8}", call_line)

    def _measure_exact(self, path: Path) -> None:
        if self.presets or self.base is not None:
            raise UsageError("time the networks of presets, with --base or without, or an exact model, not both")
        from ardm.apps.bench.exact_call import time_exact_call
        from ardm.tasks.load import load

        trained = load(path, self.device).trained
        if trained.exact is None:
            raise UsageError(f"{path} is no exact model; ardm export makes one of it")
        how: Any = {"name": path.name, "batch_size": self.batch_size or 1, "seconds": self.seconds}
        row = time_exact_call(trained, trained.exact, **how)
        self.show([row], f"{'':14} {'parameters':>11} {'batch':>5} {'integers':>11} {'float32':>11}", exact_call_line)


def call_line(row: "CallTiming") -> str:
    """A preset's row for a reader."""
    call, work = f"{1000 * row.call_seconds:.1f} ms", row.gigaflops_an_item
    return f"{row.preset:14} {row.num_parameters:>11,} {row.batch_size:>5} {call:>11} {work:>8.2f}"


def exact_call_line(row: "ExactCallTiming") -> str:
    """An exact model's row for a reader."""
    times = [f"{1000 * seconds:.1f} ms" for seconds in (row.exact_seconds, row.float_seconds)]
    return f"{row.model:14} {row.num_parameters:>11,} {row.batch_size:>5} {times[0]:>11} {times[1]:>11}"
