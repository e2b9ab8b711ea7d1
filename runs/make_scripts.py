"""Writes runs/minutes and runs/paper, a script for each run of `ardm report paper`: `python runs/make_scripts.py`."""

from collections.abc import Iterator
from pathlib import Path

from ardm.apps.report.paper.commands import Places
from ardm.apps.report.paper.entries import SCALES, Run, Scale
from ardm.apps.report.paper.figures import FIGURES
from ardm.apps.report.paper.runs import RUNS
from ardm.apps.report.paper.tables import TABLES

FOLDER = Path(__file__).parent
IN_SCRIPTS = Places(data='"$data"', runs='"$runs"')


def scripts() -> dict[Path, str]:
    """The texts of all scripts by their places."""
    return {FOLDER / scale / f"{run.name}.sh": script(run, scale) for scale in SCALES for run in RUNS.values()}


def script(run: Run, scale: Scale) -> str:
    """Trains a run and measures it."""
    return "\n".join(
        [
            "#!/bin/sh",
            f"# A run of `ardm report paper --scale {scale}`: sh runs/{scale}/{run.name}.sh DATA RUNS",
            "# It makes, by table and figure:",
            *(f"#   {line}" for line in made_by(run)),
            "# Written by runs/make_scripts.py.",
            "set -eu",
            "data=$1",
            "runs=$2",
            "",
            *(IN_SCRIPTS.line(template, run) for template in run.templates(scale)),
            "",
        ]
    )


def made_by(run: Run) -> Iterator[str]:
    """The tables with their rows, and the figures, that a run is for."""
    for table in TABLES:
        calls: dict[str, list[str]] = {}
        for row in table.rows:
            if belongs(row.of, run):
                calls.setdefault(row.method, []).append(row.calls)
        if calls:
            yield f"{table.name}: {', '.join(labelled(method, some) for method, some in calls.items())}"
    yield from (figure.name for figure in FIGURES if belongs(figure.of, run))


def labelled(method: str, calls: list[str]) -> str:
    """A method with its numbers of calls, if it has any."""
    return f"{method} ({', '.join(calls)})" if any(calls) else method


def belongs(of: str | None, run: Run) -> bool:
    """Whether a number or a figure comes from a run."""
    return of is not None and of.partition("/")[0] == run.name


def old_scripts() -> set[Path]:
    """Those that are there."""
    return {path for scale in SCALES for path in (FOLDER / scale).glob("*.sh")}


if __name__ == "__main__":
    texts = scripts()
    for path in old_scripts() - texts.keys():
        path.unlink()
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
