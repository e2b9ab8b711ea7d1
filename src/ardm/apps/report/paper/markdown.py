"""The report as Markdown, with its pictures beside it."""

from collections.abc import Iterator, Sequence

from ardm.apps.report.paper.filled import (
    AT_FULL_SCALE,
    COLUMNS,
    DETAIL_COLUMNS,
    NOT_RUN,
    TRAINED_FIRST,
    FilledRow,
    FilledTable,
)
from ardm.apps.report.paper.report import DrawnFigure, Report


def markdown(report: Report) -> str:
    """The whole document."""
    parts = ["# The paper's comparisons", report.lead]
    if report.scripts:
        parts += ["Not everything has been run. What is missing:", "\n".join(f"- `{line}`" for line in report.scripts)]
    for table in report.tables:
        parts += _table(table)
    parts += ["## Figures"]
    for drawn in report.figures:
        parts += _figure(drawn)
    return "\n\n".join(parts) + "\n"


def _table(filled: FilledTable) -> Iterator[str]:
    yield f"## {filled.table.title} ({filled.table.unit})"
    yield filled.table.caption
    yield _lines(COLUMNS, [_cells(row) for row in filled.rows])
    if trainings := filled.trainings():
        yield TRAINED_FIRST
        yield "\n".join(f"- `{line}`" + (f"; {AT_FULL_SCALE} `{full}`" if full else "") for line, full in trainings)
    if filled.comment:
        yield filled.comment
    if details := filled.details():
        yield "How these numbers were found:"
        yield _lines(DETAIL_COLUMNS, details)


def _cells(row: FilledRow) -> tuple[str, ...]:
    command = f"`{row.command}`" if row.command else ""
    return row.row.method, row.row.calls, row.ours, row.row.paper, " ".join(filter(None, [row.remark, command]))


def _lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in (columns, *rows)]
    return "\n".join([lines[0], "|---" * len(columns) + "|", *lines[1:]])


def _figure(drawn: DrawnFigure) -> Iterator[str]:
    figure, shown = drawn.figure, drawn.shown
    if shown is None:
        yield f"{figure.caption}: {NOT_RUN}, `{drawn.command}`"
    elif shown.picture is not None:
        yield f"![{figure.caption}]({shown.picture.name})"
        yield f"{figure.caption}."
    else:
        yield f"{figure.caption}:"
        yield f"```text\n{shown.text}\n```"
