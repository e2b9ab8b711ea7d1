"""ardm bench sample."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ardm.cli.bench.common import CompilingBenchmark, gibibytes
from ardm.cli.common import facts_of, require_calls, require_positive
from ardm.errors import UsageError
from ardm.masked import is_masked

if TYPE_CHECKING:
    from ardm.apps.bench.sampling import SampleTiming, Source


@dataclass(frozen=True, kw_only=True)
class BenchSample(CompilingBenchmark):
    """Time drawing samples from presets or from a model, for several numbers of items and calls."""

    model: Path | None = None
    """A run's folder, a model's file, the name of a bundled model, or a masked language model (hf:NAME), instead of
    presets."""
    calls: tuple[int, ...] = (20, 50)
    """Calls per sample, at most one for each variable of each stage."""
    items: tuple[int, ...] = (1, 4, 16, 64, 256, 1024, 4096)
    """Numbers of samples; 4096 is meant for GPUs and takes hours on a CPU."""
    batch_size: int | None = None
    """Samples drawn together; 64 by default."""
    seconds: float = 10.0
    """Approximate time to spend on each row; all its items are drawn at least once."""

    def measure(self) -> None:
        require_positive(items=min(self.items, default=0), calls=min(self.calls, default=0))
        if self.model is not None and (self.presets or self.base is not None):
            raise UsageError("give either presets, with or without --base, or --model, not both")
        header = (
            f"{'':14} {'parameters':>11} {'items':>6} {'calls':>5} {'batch':>5} {'seconds':>9} {'items/s':>9} "
            f"{'call':>11} {'item and call':>14} {'in network':>10} memory"
        )
        self.show(self._rows(), header, sample_line)

    def _rows(self) -> "Iterator[SampleTiming]":
        """The rows, each measured when its turn comes."""
        from ardm.apps.bench.sampling import time_sampling
        from ardm.sample import BATCH_SIZE

        time_row = partial(time_sampling, batch_size=self.batch_size or BATCH_SIZE, seconds=self.seconds)
        for source in self._sources():
            for calls in self.calls:
                require_calls(calls, source.model.num_stages)
            for schedule in map(source.schedule_of, self.calls):
                for num_items in self.items:
                    yield time_row(source, schedule, self.runtime(), num_items=num_items)

    def _sources(self) -> "Iterator[Source]":
        """The given model, or one for each preset."""
        from ardm.apps.bench.sampling import Source, random_source

        if self.model is None:
            yield from (random_source(config, self.runtime()) for config in self.configurations())
            return
        if is_masked(self.model):
            yield self._masked_source(self.model)
            return
        from ardm.tasks.load import load
        from ardm.tasks.plan import make_schedule

        loaded = load(self.model, self.device)
        yield Source(
            name=self.model.name,
            model=loaded.ardm,
            num_parameters=facts_of(loaded.trained)["parameters"],
            schedule_of=partial(make_schedule, loaded),
        )

    def _masked_source(self, source: Path) -> "Source":
        """A masked language model, with uniform schedules, which take as long as others."""
        from ardm.apps.bench.sampling import Source
        from ardm.library.masked import load_masked
        from ardm.schedule import uniform_schedule

        model = load_masked(source, self.device).ardm
        size = sum(p.numel() for p in model.parameters())
        make = partial(uniform_schedule, model.num_variables)
        return Source(name=source.name, model=model, num_parameters=size, schedule_of=make)


def sample_line(row: "SampleTiming") -> str:
    """A row of the table."""
    call, part = f"{1000 * row.call_seconds:.2f} ms", f"{1000 * row.item_call_seconds:.4f} ms"
    return (
        f"{row.model:14} {row.num_parameters:>11,} {row.num_items:>6} {row.num_calls:>5} {row.batch_size:>5} "
        f"{row.seconds:>9.3f} {row.items_per_second:>9.2f} {call:>11} {part:>14} {row.network_share:>10.1%} "
        f"{gibibytes(row.peak_bytes)}"
    ).rstrip()
