"""The report as one HTML page with everything in it."""

from collections.abc import Sequence
from html import escape

from ardm.apps.report.paper.evidence import Measured
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
from ardm.apps.report.pieces import document, figure, gallery, paragraph, png_image, sample_of, section, titled

TITLE = "The paper's comparisons"


def page(report: Report) -> str:
    """The whole page."""
    pictures = [drawn for drawn in report.figures if drawn.shown is None or drawn.shown.picture is not None]
    texts = [drawn for drawn in report.figures if drawn not in pictures]
    return document(
        TITLE,
        f"<h1>{escape(TITLE)}</h1>",
        paragraph(report.lead),
        _missing(report),
        *map(_table, report.tables),
        section("Figures", gallery(map(_picture, pictures), "half"), *map(_text, texts)),
    )


def _missing(report: Report) -> str:
    if not report.scripts:
        return ""
    lines = "".join(f"<li>{_command(line)}</li>" for line in report.scripts)
    return f"<details><summary>Not everything has been run. What is missing:</summary><ul>{lines}</ul></details>"


def _table(filled: FilledTable) -> str:
    table = filled.table
    return section(
        f"{table.title} ({table.unit})",
        paragraph(table.caption),
        _lines("compared", COLUMNS, [_row(row) for row in filled.rows]),
        _trainings(filled),
        *(paragraph(part) for part in filled.comment.split("\n\n") if part),
        _details(filled),
    )


def _row(row: FilledRow) -> str:
    ours = "number measured" if isinstance(row.result, Measured) else "number"
    made = " ".join(filter(None, [escape(row.remark), _command(row.command)]))
    return (
        f"<td>{escape(row.row.method)}</td>{_cell(row.row.calls)}{_cell(row.ours, ours)}{_cell(row.row.paper)}"
        f"<td>{made}</td>"
    )


def _cell(text: str, name: str = "number") -> str:
    return f'<td class="{name}">{escape(text)}</td>'


def _command(line: str) -> str:
    """A command whose lines break between words alone."""
    words = " ".join(f"<span>{escape(word)}</span>" for word in line.split())
    return f"<code>{words}</code>" if words else ""


def _trainings(filled: FilledTable) -> str:
    lines = [
        f"<li>{_command(line)}{f'; {AT_FULL_SCALE} {_command(full)}' if full else ''}</li>"
        for line, full in filled.trainings()
    ]
    return f"<details><summary>{TRAINED_FIRST}</summary><ul>{''.join(lines)}</ul></details>" if lines else ""


def _details(filled: FilledTable) -> str:
    rows = ["".join(f"<td>{escape(cell)}</td>" for cell in cells) for cells in filled.details()]
    if not rows:
        return ""
    summary = "<summary>How these numbers were found</summary>"
    return f"<details>{summary}{_lines('details', DETAIL_COLUMNS, rows)}</details>"


def _lines(name: str, columns: Sequence[str], rows: Sequence[str]) -> str:
    """A table of rows that are HTML."""
    header = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    table = f'<table class="{name}"><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scrolls">{table}</div>'


def _picture(drawn: DrawnFigure) -> str:
    caption = drawn.figure.caption
    if drawn.shown is None or drawn.shown.picture is None:
        return figure(_command(drawn.command), f"{caption}: {NOT_RUN}")
    return figure(png_image(drawn.shown.picture.read_bytes(), caption), caption)


def _text(drawn: DrawnFigure) -> str:
    assert drawn.shown is not None
    return titled(sample_of(escape(drawn.shown.text)), drawn.figure.caption)
