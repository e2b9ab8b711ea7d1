"""What the comparisons are made of: runs with their measurements, and rows of tables that show them.

A command is a template without the word `ardm`: {run} stands for the run's folder, {data} for that of the data sets.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from ardm.config import MIXTURE_NAMES
from ardm.presets import PRESETS, parametrization_with

Scale = Literal["minutes", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
PROFILE = "profile"
"""The name of the loss profile that a measurement may write beside its number."""


@dataclass(frozen=True)
class ByScale:
    """Words of a command, which may differ with the scale."""

    minutes: str
    paper: str

    def at(self, scale: Scale) -> str:
        """Those of a scale."""
        return self.minutes if scale == "minutes" else self.paper


def same(words: str) -> ByScale:
    """The same words at every scale."""
    return ByScale(words, words)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Something measured of a run: the command writes it to NAME.json in the run's folder."""

    name: str
    command: str
    flags: ByScale
    prepare: str = ""
    """A command that comes before."""
    has_profile: bool = False
    """Whether it writes profile.json too."""

    @property
    def files(self) -> tuple[str, ...]:
        """What it writes in the run's folder."""
        return tuple(f"{name}.json" for name in (self.name, *([PROFILE] if self.has_profile else [])))

    def templates(self, scale: Scale) -> list[str]:
        """The commands."""
        profile = f"--profile {{run}}/{PROFILE}.json " if self.has_profile else ""
        command = f"{self.command} {self.flags.at(scale)} {profile}--json -o {{run}}/{self.name}.json"
        return [self.prepare, command] if self.prepare else [command]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training run, or with no start the models in the box; its folder has its name."""

    name: str
    measurements: tuple[Measurement, ...]
    start: ByScale | None
    """The preset and the flags that it shares with other runs."""
    flags: str = ""
    """Its own."""

    def training(self, scale: Scale) -> list[str]:
        """The command that trains it, if any does."""
        if self.start is None:
            return []
        preset, *shared = self.start.at(scale).split()
        return [" ".join(["train", preset, "--data {data} --out {run} --resume", *shared, self.flags]).strip()]

    def templates(self, scale: Scale) -> list[str]:
        """All of its commands, in order."""
        return [*self.training(scale), *(template for one in self.measurements for template in one.templates(scale))]

    def kind(self, scale: Scale) -> "Kind | None":
        """What it must be a run of."""
        if self.start is None:
            return None
        words = f"{self.start.at(scale)} {self.flags}".split()
        preset, base, clipped = words[0], _value(words, "--base"), _value(words, "--min-log-scale")
        depth = PRESETS[preset]().depth
        implied = parametrization_with(base, preset, depth.parametrization)
        return Kind(
            preset=preset,
            method=_value(words, "--method") or "ardm",
            base=None if base is None else int(base),
            parametrization=_value(words, "--parametrization") or implied,
            min_log_scale=depth.min_log_scale if clipped is None else float(clipped),
        )


class Kind(NamedTuple):
    """What tells runs of different rows apart."""

    preset: str
    method: str
    base: int | None
    parametrization: str
    min_log_scale: float

    def __str__(self) -> str:
        """For readers."""
        base = "" if self.base is None else f", base {self.base}"
        clipped = f", scales from e^{self.min_log_scale:g}" if self.parametrization in MIXTURE_NAMES else ""
        return f"the preset {self.preset}, method {self.method}{base}, parametrization {self.parametrization}{clipped}"


def _value(words: list[str], flag: str) -> str | None:
    """What follows a flag."""
    return words[words.index(flag) + 1] if flag in words else None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table: a number of ours beside the paper's."""

    method: str
    calls: str = ""
    paper: str = ""
    """The paper's number as it prints it; empty where it has none."""
    of: str | None = None
    """RUN/MEASUREMENT that has our number."""
    codec: str | None = None
    """How the name of the codec begins, where the measurement has several."""
    absent: str = ""
    """Why there is no number of ours, where there never is."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the paper, or one of ours in its manner."""

    name: str
    title: str
    unit: str
    caption: str
    rows: tuple[Row, ...]
