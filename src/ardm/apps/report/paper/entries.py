"""Runs with their measurements, the commands that make them, and rows of tables that show them.

A command is a template without the word `ardm`: {run} stands for the run's folder, {data} for that of the data sets.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ardm.config import MIXTURE_NAMES
from ardm.names import Scale
from ardm.presets import PRESETS, parametrization_with

TRAINING = "train"
"""The name under which the command that trained a run is recorded."""
PROFILE = "profile"
"""The name of the loss profile that a measurement may write as well."""


@dataclass(frozen=True)
class ByScale:
    """Words of a command, which may differ with the scale."""

    minutes: str
    paper: str | None = None
    """The words at the paper's scale; None if they are the same."""
    cpu: str | None = None
    """The words for two CPU cores; None if they are the same."""

    def at(self, scale: Scale) -> str:
        """The words at a scale."""
        words = {"minutes": self.minutes, "paper": self.paper, "cpu": self.cpu}[scale]
        return self.minutes if words is None else words


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A measurement of a run; its command writes NAME.json to the run's folder."""

    name: str
    command: str
    items: ByScale = ByScale("")
    """Flags that say which items are scored."""
    flags: str = ""
    prepare: str = ""
    """A command that comes before."""
    has_profile: bool = False
    """Whether it writes profile.json too."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that it writes to the run's folder."""
        return tuple(f"{name}.json" for name in (self.name, *([PROFILE] if self.has_profile else [])))

    def templates(self, scale: Scale) -> list[str]:
        """The commands of the measurement."""
        profile = f"--profile {{run}}/{PROFILE}.json" if self.has_profile else ""
        output = f"--json -o {{run}}/{self.name}.json"
        command = _joined(self.command, self.items.at(scale), self.flags, profile, output)
        return [self.prepare, command] if self.prepare else [command]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training run with its measurements; its folder has its name."""

    name: str
    measurements: tuple[Measurement, ...]
    start: ByScale | None
    """The preset and the flags that it shares with other runs; None for a bundled model."""
    flags: str = ""
    """Flags of this run alone."""

    def training(self, scale: Scale) -> list[str]:
        """The command that trains it, if there is one."""
        if self.start is None:
            return []
        preset, *shared = self.start.at(scale).split()
        return [_joined("train", preset, "--data {data} --out {run} --resume", *shared, self.flags)]

    def kind(self, scale: Scale) -> "Kind | None":
        """The configuration that a run of this name must have."""
        if self.start is None:
            return None
        words = f"{self.start.at(scale)} {self.flags}".split()
        flags = dict(pairwise(words))
        preset, base = words[0], flags.get("--base")
        depth = PRESETS[preset]().depth
        return Kind(
            preset=preset,
            method=flags.get("--method", "ardm"),
            base=None if base is None else int(base),
            parametrization=flags.get("--parametrization") or parametrization_with(base, preset, depth.parametrization),
            min_log_scale=float(flags.get("--min-log-scale", depth.min_log_scale)),
        )


class Kind(NamedTuple):
    """The parts of a configuration that tell runs of different rows apart."""

    preset: str
    method: str
    base: int | None
    parametrization: str
    min_log_scale: float

    def __str__(self) -> str:
        base = "" if self.base is None else f", base {self.base}"
        clipped = f", scales from e^{self.min_log_scale:g}" if self.parametrization in MIXTURE_NAMES else ""
        return f"the preset {self.preset}, method {self.method}{base}, parametrization {self.parametrization}{clipped}"


@dataclass(frozen=True)
class Places:
    """Folders of the data sets and of the runs, as commands name them."""

    data: str
    runs: str

    def words(self, template: str, run: Run) -> list[str]:
        """The arguments of `ardm`."""
        return [word.format(run=f"{self.runs}/{run.name}", data=self.data) for word in template.split()]

    def line(self, templates: Sequence[str], run: Run) -> str:
        """Commands in one line of shell."""
        return " && ".join(shlex.join(["ardm", *self.words(template, run)]) for template in templates)


PLACEHOLDERS = Places(data="DATA", runs="RUNS")
"""Placeholders in the commands that reports show."""


def training_line(run: Run, scale: Scale) -> str:
    """The command that trains a run, to be copied; empty for a bundled model."""
    return PLACEHOLDERS.line(run.training(scale), run)


def command_line(run: Run, measurement: Measurement, scale: Scale, *, is_trained: bool = False) -> str:
    """The commands that make a measurement, to be copied; without the training if that has been done."""
    training = [] if is_trained else run.training(scale)
    return PLACEHOLDERS.line([*training, *measurement.templates(scale)], run)


def _joined(*words: str) -> str:
    return " ".join(filter(None, words))


@dataclass(frozen=True)
class Row:
    """One line of a table: our number and the paper's."""

    method: str
    calls: str = ""
    paper: str = ""
    """The paper's number as printed there, if it has one."""
    key: str | None = None
    """RUN/MEASUREMENT that has our number."""
    codec: str | None = None
    """The beginning of the codec's name, if the measurement has several codecs."""
    absent: str = ""
    """Why there is no number of ours, in rows that never have one."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the paper, or one of ours in the same form."""

    name: str
    title: str
    unit: str
    caption: str
    rows: tuple[Row, ...]
