"""ardm bench data."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ardm.cli.bench.common import CompilingBenchmark, require_finite
from ardm.cli.common import require_positive
from ardm.presets import PRESETS, PresetName

if TYPE_CHECKING:
    from ardm.apps.bench.loading import LoaderTiming

HEADER = f"""\
Items per second of the loader alone, cold (shards read from disk) and warm (from memory); needed by training steps with
all items on the device; and reached by training steps with the loader, with the share of their time spent waiting.
{"":14} {"batch":>5} {"cold":>20} {"warm":>20} {"needed":>9} {"ratio":>8} training with the loader"""


@dataclass(frozen=True, kw_only=True)
class BenchData(CompilingBenchmark):
    """Time the loader of a packed data set and the training steps of presets."""

    data: Path
    """A packed data set: ardm data NAME --root DIR --pack FOLDER makes one."""
    presets: tuple[PresetName, ...] = ()
    """Presets to train; by default the one named like the data set, or on a CPU its small version."""
    needed: float | None = None
    """Items per second that training needs, if known; by default training steps are timed."""

    def measure(self) -> None:
        require_positive(needed=self.needed)
        require_finite(needed=self.needed)
        from ardm.apps.bench.loading import time_loader
        from ardm.data.packed.description import open_pack
        from ardm.media import load_corpus

        own = self.preset_named(open_pack(self.data).about.name)
        configs = self.configurations() if self.presets else [self.changed(own)]
        for config in configs:
            load_corpus(config.data, self.data)  # reports what does not fit before the first one is timed
        kwargs: Any = {"runtime": self.runtime(), "needed": self.needed, "seconds": self.seconds}
        self.show((time_loader(config, self.data, **kwargs) for config in configs), HEADER, loader_line)

    def preset_named(self, name: str) -> str:
        """The preset of a name, or on a CPU its small version, if there is one."""
        small = f"{name}-small"
        return small if self.runtime().device.type == "cpu" and small in PRESETS else name


def loader_line(row: "LoaderTiming") -> str:
    """A row of the table."""
    speeds = (row.cold, row.warm)
    cold, warm = (f"{one.items_per_second:,.0f} {one.bytes_per_second / 1e6:,.0f} MB/s" for one in speeds)
    line = f"{row.preset:14} {row.batch_size:>5} {cold:>20} {warm:>20} {row.needed_items_per_second:>9,.1f} "
    trained = "" if row.streaming is None else f"{row.streaming.items_per_second:,.1f} "
    waiting = "" if row.streaming is None else f"({row.streaming.waiting:.1%} waiting)"
    return f"{line}{row.headroom:>7.1f}x {trained}{waiting}"
