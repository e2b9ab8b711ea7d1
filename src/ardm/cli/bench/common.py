"""Shared by all benchmarks: rows that are printed or written, and the flags of presets."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from ardm.cli.common import Device, OutputPath, hardware, require_positive
from ardm.errors import UsageError
from ardm.presets import PRESETS, PresetName
from ardm.runtime.files import check_writable, to_json, write_output

if TYPE_CHECKING:
    from ardm.config import RunConfig
    from ardm.runtime.device import Runtime

Row = TypeVar("Row")
"""A dataclass of measured numbers."""


@dataclass(frozen=True, kw_only=True)
class Benchmark(ABC):
    """A benchmark that prints a table or JSON."""

    json: bool = False
    """Print JSON, and the table on stderr."""
    output: OutputPath = None
    """Write JSON to this file instead."""

    @property
    def as_json(self) -> bool:
        """Whether stdout or a file gets JSON."""
        return self.json or self.output is not None

    def run(self) -> None:
        """Measure and print."""
        check_writable(self.output)
        self.measure()

    @abstractmethod
    def measure(self) -> None:
        """Measure the rows of the table and show them."""

    def runtime(self) -> "Runtime":
        """The device and how networks run on it."""
        from ardm.runtime.device import Runtime

        return Runtime.choose("cpu")

    def show(self, rows: Iterable[Row], header: str, line: Callable[[Row], str]) -> list[Row]:
        """Print each row once it has been measured, below a header, and write all of them as JSON if asked to."""
        shown: list[Row] = []
        place = sys.stderr if self.as_json else sys.stdout
        for row in rows:
            print(line(row) if shown else f"{header}\n{line(row)}", flush=True, file=place)
            shown.append(row)
        if self.as_json:
            machine = {"hardware": hardware(self.runtime().device)}
            write_output(self.output, to_json([asdict(row) | machine for row in shown]))  # type: ignore[call-overload]
        return shown


@dataclass(frozen=True, kw_only=True)
class DeviceBenchmark(Benchmark):
    """A benchmark of networks on a device."""

    device: Device = None

    def runtime(self) -> "Runtime":
        from ardm.runtime.device import Runtime

        return Runtime.choose(self.device)


@dataclass(frozen=True, kw_only=True)
class PresetBenchmark(DeviceBenchmark):
    """A benchmark of presets with random weights."""

    presets: tuple[PresetName, ...] = ()
    """Presets to time."""
    base: int | None = None
    """Turn the presets into upscale models with digits in this base."""
    parametrization: Literal["data", "direct"] | None = None
    """Parametrization of upscale models; direct by default."""
    batch_size: int | None = None
    """Items per step; the preset's by default."""
    seconds: float = 10.0
    """Approximate time to spend on each row."""

    def run(self) -> None:
        require_positive(batch_size=self.batch_size, seconds=self.seconds)
        require_finite(seconds=self.seconds)
        if self.parametrization is not None and self.base is None:
            raise UsageError("--parametrization is for upscale models: give --base too")
        super().run()

    def configurations(self) -> "list[RunConfig]":
        """The configurations of the presets, as changed by the flags."""
        if not self.presets:
            raise UsageError("name the presets, such as --presets cifar10 cifar10-paper")
        return [self.changed(preset) for preset in self.presets]

    def changed(self, preset: str) -> "RunConfig":
        """A preset's configuration, as changed by the flags."""
        config = PRESETS[preset]()
        if self.batch_size is not None:
            config = replace(config, train=replace(config.train, batch_size=self.batch_size))
        if self.base is None:
            return config
        from ardm.apps.bench.training import random_corpus
        from ardm.build import build_parametrization

        try:
            depth = replace(config.depth, base=self.base, parametrization=self.parametrization or "direct")
            config = replace(config, depth=depth)
            build_parametrization(config.depth, random_corpus(config).num_classes)
            return config
        except ValueError as error:
            raise UsageError(f"{preset}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class CompilingBenchmark(PresetBenchmark):
    """A benchmark of presets whose networks are compiled on CUDA."""

    no_compile: bool = False
    """Do not compile the networks (CUDA only)."""

    def runtime(self) -> "Runtime":
        from ardm.runtime.device import Runtime

        return Runtime.choose(self.device, compile=not self.no_compile)


def require_finite(**flags: float | None) -> None:
    """Raise a UsageError for the first flag that is infinite."""
    for name, value in flags.items():
        if value == math.inf:
            raise UsageError(f"--{name.replace('_', '-')} must be finite, got {value}")


def gibibytes(num_bytes: int | None) -> str:
    """A memory size as text; empty for None."""
    return "" if num_bytes is None else f"{num_bytes / 2**30:.1f} GiB"
