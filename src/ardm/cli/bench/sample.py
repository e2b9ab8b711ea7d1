"""ardm bench sample."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ardm.cli.bench.common import OfPresets
from ardm.cli.common import facts_of, require_call_per_stage, require_positive
from ardm.errors import UsageError

if TYPE_CHECKING:
    from ardm.apps.bench.sampling import SampleTiming
    from ardm.config import RunConfig
    from ardm.model import ARDM
    from ardm.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class BenchSample(OfPresets):
    """Samples of presets, or of a model: items a second by items and calls, and the network's share of the time."""

    model: Path | None = None
    """Instead of presets, a run's folder, a model's file or the name of a bundled model."""
    calls: tuple[int, ...] = (20, 50)
    """Calls for a sample; one for each variable of each stage at most."""
    items: tuple[int, ...] = (1, 4, 16, 64, 256, 1024, 4096)
    """Numbers of samples; 4096 of them are for GPUs, and take hours on a CPU."""
    batch_size: int | None = None
    """Samples drawn together, by default 64."""
    seconds: float = 10.0
    """About how long to time each row; all its items are drawn once at least."""

    def measure(self) -> None:
        """Time each number of items and calls."""
        require_positive(items=min(self.items, default=0), calls=min(self.calls, default=0))
        if self.model is not None and (self.presets or self.base is not None):
            raise UsageError("sample from presets, with --base or without, or from a model, not both")
        from ardm.apps.bench.sample_table import sample_header, sample_line

        self.show(self._rows(), sample_header(), sample_line)

    def _rows(self) -> "Iterator[SampleTiming]":
        """The rows, each measured when its turn comes."""
        from ardm.apps.bench.sampling import time_sampling
        from ardm.sample import BATCH_SIZE

        runtime, batch_size = self.runtime(), self.batch_size or BATCH_SIZE
        for source in self._sources():
            for calls in self.calls:
                require_call_per_stage(calls, source.model.num_stages)
            for schedule in map(source.schedule_of, self.calls):
                for num_items in self.items:
                    yield time_sampling(
                        source.model,
                        schedule,
                        runtime,
                        name=source.name,
                        num_parameters=source.num_parameters,
                        num_items=num_items,
                        batch_size=batch_size,
                        seconds=self.seconds,
                    )

    def _sources(self) -> "Iterator[Source]":
        """The model, or those of the presets."""
        if self.model is None:
            yield from map(self._random_source, self.configurations())
            return
        from ardm.tasks.load import load
        from ardm.tasks.plan import make_schedule

        trained = load(self.model, self.device).trained
        yield Source(
            name=self.model.name,
            model=trained.model,
            num_parameters=facts_of(trained)["parameters"],
            schedule_of=partial(make_schedule, trained),
        )

    def _random_source(self, config: "RunConfig") -> "Source":
        from ardm.apps.bench.sampling import random_model

        model = random_model(config, self.runtime())
        return Source(
            name=config.preset,
            model=model,
            num_parameters=sum(p.numel() for p in model.parameters()),
            schedule_of=partial(even_schedule, model),
        )


@dataclass(frozen=True, kw_only=True)
class Source:
    """What samples are drawn from."""

    name: str
    model: "ARDM"
    num_parameters: int
    schedule_of: "Callable[[int], Schedule]"
    """The schedule of a number of calls."""


def even_schedule(model: "ARDM", num_calls: int) -> "Schedule":
    """A schedule whose calls reveal equal numbers of variables."""
    from ardm.schedule import uniform_schedule

    return uniform_schedule(model.num_variables, num_calls, num_stages=model.num_stages)
