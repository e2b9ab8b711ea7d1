"""ardm bench train."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ardm.cli.bench.common import CompilingBenchmark, gibibytes

if TYPE_CHECKING:
    from ardm.apps.bench.plain import PlainComparison
    from ardm.apps.bench.training import TrainTiming

HEADER = f"""\
share and burst: TFLOP/s as a fraction of the rate of large matrix products, sustained for seconds and at first
{"":14} {"parameters":>11} {"batch":>5} {"step":>9} {"items/s":>9} {"TFLOP/s":>8} {"share":>6} {"burst":>6} memory"""


@dataclass(frozen=True, kw_only=True)
class BenchTrain(CompilingBenchmark):
    """Time training steps of presets on random items."""

    plain: Literal["eager", "compiled"] | None = None
    """Compare with a plain PyTorch loop that trains a network of the same size, without torch.compile or with it."""

    def measure(self) -> None:
        from ardm.apps.bench.plain import check_plain, compare_with_plain
        from ardm.apps.bench.training import time_training

        configs, runtime = self.configurations(), self.runtime()
        if self.plain is None:
            self.show((time_training(c, runtime, seconds=self.seconds) for c in configs), HEADER, training_line)
            return
        for config in configs:
            check_plain(config)
        kwargs: Any = {"seconds": self.seconds, "compiled": self.plain == "compiled"}
        self.show((compare_with_plain(config, runtime, **kwargs) for config in configs), HEADER, comparison_lines)


def training_line(row: "TrainTiming") -> str:
    """A row of the table."""
    return (
        f"{row.preset:14} {row.num_parameters:>11,} {row.batch_size:>5} {1000 * row.step_seconds:>6.1f} ms "
        f"{row.items_per_second:>9.1f} {row.teraflops:>8.2f} {row.share:>6.1%} {row.burst_share:>6.1%} "
        f"{gibibytes(row.peak_bytes)}"
    )


def comparison_lines(row: "PlainComparison") -> str:
    """A row, the plain loop's row, and their ratio."""
    ratio = f"{row.preset} in ardm: {row.speedup:.2f} times as many items per second as the plain loop"
    return "\n".join([training_line(row), training_line(row.plain), ratio])
