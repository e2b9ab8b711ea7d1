"""ardm bench data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ardm.cli.bench.common import OfPresets, require_finite
from ardm.cli.common import require_positive
from ardm.presets import PRESETS, PresetName


@dataclass(frozen=True, kw_only=True)
class BenchData(OfPresets):
    """The loader of a packed data set beside the training steps of presets, by default of its own."""

    data: Path
    """A packed data set: ardm data NAME --root DIR --pack FOLDER makes one."""
    presets: tuple[PresetName, ...] = ()
    """What to train, by default the preset of the data set's name, on a CPU the smaller one."""
    needed: float | None = None
    """Items a second that training takes, known from elsewhere; by default training steps are timed."""

    def measure(self) -> None:
        """Time the loader for each preset."""
        require_positive(needed=self.needed)
        require_finite(needed=self.needed)
        from ardm.apps.bench.loading import loader_header, loader_line, time_loader
        from ardm.data.packed.description import open_pack
        from ardm.media import load_corpus

        own = self.preset_named(open_pack(self.data).about.name)
        configs, runtime = self.configurations() if self.presets else [self.changed(own)], self.runtime()
        for config in configs:
            load_corpus(config.data, self.data)  # what does not fit is told before the first one is timed
        how: Any = {"needed": self.needed, "seconds": self.seconds}
        self.show((time_loader(config, self.data, runtime, **how) for config in configs), loader_header(), loader_line)

    def preset_named(self, name: str) -> str:
        """The preset of a name, on a CPU the smaller one if there are two."""
        small = f"{name}-small"
        return small if self.place().type == "cpu" and small in PRESETS else name
