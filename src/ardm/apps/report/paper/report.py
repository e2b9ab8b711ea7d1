"""The report: what is filled and drawn, and the files that show it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ardm.apps.report.paper.commands import command_line
from ardm.apps.report.paper.entries import Scale
from ardm.apps.report.paper.evidence import Evidence
from ardm.apps.report.paper.figures import FIGURES, Figure, Shown
from ardm.apps.report.paper.filled import FilledTable, fill
from ardm.apps.report.paper.runs import RUNS, find
from ardm.apps.report.paper.tables import TABLES
from ardm.runtime.files import write_file
from ardm.version import __version__

MARKDOWN, PAGE = "report.md", "report.html"


@dataclass(frozen=True, kw_only=True)
class DrawnFigure:
    """A figure, or the command that makes what it is drawn from."""

    figure: Figure[Any]
    shown: Shown | None
    command: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that the files show."""

    scale: Scale
    tables: Sequence[FilledTable]
    figures: Sequence[DrawnFigure]
    unfinished: Sequence[str]
    """The names of runs of which something has not been measured."""

    @property
    def lead(self) -> str:
        """What the report is."""
        return (
            "The comparisons of Autoregressive Diffusion Models (Hoogeboom et al., ICLR 2022): our number, the paper's "
            f"and the command that measures ours, {SCALE_WORDS[self.scale]}. Our intervals are 95% over test items, of "
            "one training each; the paper's ± are over trainings. Calls are those of the network for one item, and a "
            "planned schedule is the best one for so many; D is the number of variables of an item. In commands DATA "
            "is the folder of the data sets and RUNS that of the runs; sh runs/minutes/RUN.sh DATA RUNS and sh "
            f"runs/paper/RUN.sh DATA RUNS train and measure a run of either scale. Written by ardm {__version__}."
        )

    @property
    def scripts(self) -> list[str]:
        """The commands that make what is missing."""
        return [f"sh runs/{self.scale}/{name}.sh DATA RUNS" for name in self.unfinished]

    @property
    def num_missing(self) -> int:
        """Numbers whose commands have not been run."""
        return sum(row.is_missing for table in self.tables for row in table.rows)

    def plain(self) -> dict[str, Any]:
        """Plain values for JSON."""
        tables = {one.table.name: [row.plain() for row in one.rows] for one in self.tables}
        return {"scale": self.scale, "tables": tables, "unfinished": list(self.unfinished)}


SCALE_WORDS: dict[Scale, str] = {
    "minutes": "from runs of minutes on one GPU, where the paper's took days or weeks",
    "paper": "from runs with the paper's own networks and numbers of steps",
}


def make_report(evidence: Evidence, scale: Scale, folder: Path) -> Report:
    """Fill the tables and draw the figures in a folder, once all evidence has been read."""
    tables = [fill(table, evidence, scale) for table in TABLES]
    contents = [(figure, figure.read(evidence)) for figure in FIGURES]
    return Report(
        scale=scale,
        tables=tables,
        figures=[_draw(*one, scale, folder) for one in contents],
        unfinished=[run.name for run in RUNS.values() if not all(evidence.has(run, one) for one in run.measurements)],
    )


def _draw(figure: Figure[Any], content: Any, scale: Scale, folder: Path) -> DrawnFigure:
    command = "" if figure.of is None else command_line(*find(figure.of), scale)
    shown = None if content is None else figure.show(content, folder)
    return DrawnFigure(figure=figure, shown=shown, command=command)


def write_report(report: Report, folder: Path) -> None:
    """Write the report as Markdown and as a page that needs nothing beside it."""
    from ardm.apps.report.paper.markdown import markdown
    from ardm.apps.report.paper.page import page

    write_file(folder / MARKDOWN, markdown(report).encode())
    write_file(folder / PAGE, page(report).encode())
