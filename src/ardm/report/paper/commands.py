"""Commands that make what the report shows."""

from dataclasses import dataclass

from ardm.report.paper.entries import Measurement, Run, Scale


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


def command_line(run: Run, measurement: Measurement, scale: Scale) -> str:
    """All that makes a measurement, to be copied."""
    templates = [*run.training(scale), *measurement.templates(scale)]
    return " && ".join(SHOWN.line(template, run) for template in templates)
