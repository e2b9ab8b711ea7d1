"""The report: filled tables, drawn figures, and the files that show them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ardm.apps.report.pages import render
from ardm.apps.report.paper.entries import command_line
from ardm.apps.report.paper.evidence import Evidence
from ardm.apps.report.paper.figures import FIGURES, Figure
from ardm.apps.report.paper.filled import FilledTable, fill
from ardm.apps.report.paper.runs import RUNS, find
from ardm.apps.report.paper.tables import TABLES
from ardm.names import Scale
from ardm.runtime.files import write_file
from ardm.version import __version__

MARKDOWN, PAGE = "report.md", "report.html"
SCALE_WORDS: dict[Scale, str] = {
    "minutes": "from runs of minutes on one GPU, where the paper's took days or weeks",
    "paper": "from runs with the paper's own networks and numbers of steps",
    "cpu": "from runs of minutes on two CPU cores, with small networks that see little data",
}


@dataclass(frozen=True, kw_only=True)
class DrawnFigure:
    """A figure as a picture or as text; neither if its run has not been measured."""

    name: str
    caption: str
    command: str
    """The command that measures what it is drawn from."""
    picture: Path | None = None
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The content of the files."""

    scale: Scale
    tables: Sequence[FilledTable]
    figures: Sequence[DrawnFigure]
    unfinished: Sequence[str]
    """The names of runs that lack a measurement."""

    @property
    def lead(self) -> str:
        """The opening paragraph."""
        return (
            "The comparisons of Autoregressive Diffusion Models (Hoogeboom et al., ICLR 2022): our number, the paper's "
            f"and the command that measures ours, {SCALE_WORDS[self.scale]}. Our 95% intervals are over test items, "
            "for one training run each; the paper's ± are over training runs. Calls are calls of the network per item, "
            "and a planned schedule is the best one with that many calls; D is the number of variables per item. "
            "A command with the names of real folders was run as it stands; where none was recorded, the command is "
            "the one that this version runs, with DATA for the folder of the data sets and RUNS for that of the runs. "
            f"ardm report paper RUNS -o FOLDER --scale {self.scale} --run-missing --data DATA --only RUN trains and "
            f"measures one run; --scale paper does it at the paper's scale. Written by ardm {__version__}."
        )

    @property
    def commands(self) -> list[str]:
        """The commands that measure what is missing, one per run."""
        flags = f"--run-missing --data DATA --scale {self.scale}"
        return [f"ardm report paper RUNS -o FOLDER {flags} --only {name}" for name in self.unfinished]

    @property
    def num_missing(self) -> int:
        """Numbers whose commands have not been run."""
        return sum(row.is_missing for table in self.tables for row in table.rows)

    def plain(self) -> dict[str, Any]:
        """Plain values for JSON."""
        tables = {one.table.name: [row.plain() for row in one.rows] for one in self.tables}
        return {"scale": self.scale, "tables": tables, "unfinished": list(self.unfinished)}


def make_report(evidence: Evidence, scale: Scale, folder: Path) -> Report:
    """Fill the tables and, once everything has been read, draw the figures in a folder."""
    tables = [fill(table, evidence, scale) for table in TABLES]
    contents = [(figure, figure.read(evidence, figure.key)) for figure in FIGURES]
    return Report(
        scale=scale,
        tables=tables,
        figures=[_draw(*one, scale, folder) for one in contents],
        unfinished=[run.name for run in RUNS.values() if evidence.missing(run)],
    )


def _draw(figure: Figure, content: Any, scale: Scale, folder: Path) -> DrawnFigure:
    path = folder / f"{figure.name}.png"
    command = command_line(*find(figure.key), scale) if figure.key else ""
    text = "" if content is None else figure.draw(content, path) or ""
    picture = None if content is None or text else path
    return DrawnFigure(name=figure.name, caption=figure.caption, command=command, picture=picture, text=text)


def write_report(report: Report, folder: Path) -> None:
    """Write the report as Markdown and as an HTML page with its pictures embedded."""
    for name, template in ((MARKDOWN, "paper.md.j2"), (PAGE, "paper.html.j2")):
        write_file(folder / name, render("ardm.apps.report", template, report=report).encode())
