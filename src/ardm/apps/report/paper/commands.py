"""Commands that make what the report shows."""

from collections.abc import Sequence
from dataclasses import dataclass

from ardm.apps.report.paper.entries import Measurement, Run, Scale


@dataclass(frozen=True)
class Places:
    """Where the data sets and the runs lie, as commands name them."""

    data: str
    runs: str

    def words(self, template: str, run: Run) -> list[str]:
        """The words of a command after `ardm`."""
        return [word.format(run=f"{self.runs}/{run.name}", data=self.data) for word in template.split()]

    def line(self, template: str, run: Run) -> str:
        """The command in one line."""
        return " ".join(["ardm", *self.words(template, run)])


SHOWN = Places(data="DATA", runs="RUNS")
"""For readers."""


def training_line(run: Run, scale: Scale) -> str:
    """What trains a run, to be copied; empty where nothing does."""
    return _line(run.training(scale), run)


def measuring_line(run: Run, measurement: Measurement, scale: Scale) -> str:
    """What measures it then."""
    return _line(measurement.templates(scale), run)


def command_line(run: Run, measurement: Measurement, scale: Scale) -> str:
    """All that makes a measurement."""
    return _line([*run.training(scale), *measurement.templates(scale)], run)


def _line(templates: Sequence[str], run: Run) -> str:
    return " && ".join(SHOWN.line(template, run) for template in templates)
