"""ardm bench train."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ardm.cli.bench.common import OfPresets

if TYPE_CHECKING:
    from ardm.apps.bench.plain import BesidePlain
    from ardm.apps.bench.training import TrainTiming


@dataclass(frozen=True, kw_only=True)
class BenchTrain(OfPresets):
    """Training steps of presets, on random items: items a second, the share of the matrix rate, memory."""

    plain: Literal["eager", "compiled"] | None = None
    """Beside each preset, a plain PyTorch loop with a network of its size, by torch.compile or without."""

    def measure(self) -> None:
        """Time the presets, beside plain loops if asked to."""
        from ardm.apps.bench.plain import check_plain, time_beside_plain
        from ardm.apps.bench.training import time_training

        configs, runtime = self.configurations(), self.runtime()
        header = (
            "share and burst: of the rate of large matrix products, over seconds and at first\n"
            f"{'':14} {'parameters':>11} {'batch':>5} {'step':>9} {'items/s':>9} {'TFLOP/s':>8} {'share':>6} "
            f"{'burst':>6} memory"
        )
        if self.plain is None:
            rows = (time_training(config, runtime, seconds=self.seconds) for config in configs)
            self.show(rows, header, training_line)
            return
        for config in configs:
            check_plain(config)
        how: Any = {"seconds": self.seconds, "compiled": self.plain == "compiled"}
        self.show((time_beside_plain(config, runtime, **how) for config in configs), header, beside_plain_lines)


def training_line(row: "TrainTiming") -> str:
    """A row for a reader."""
    memory = "" if row.peak_bytes is None else f"{row.peak_bytes / 2**30:.1f} GiB"
    return (
        f"{row.preset:14} {row.num_parameters:>11,} {row.batch_size:>5} {1000 * row.step_seconds:>6.1f} ms "
        f"{row.items_per_second:>9.1f} {row.teraflops:>8.2f} {row.share:>6.1%} {row.burst_share:>6.1%} {memory}"
    )


def beside_plain_lines(row: "BesidePlain") -> str:
    """A row, that of the plain loop, and how they compare."""
    ratio = f"{row.preset} in ardm: {row.speedup:.2f} times as many items a second"
    return "\n".join([training_line(row), training_line(row.plain), ratio])
