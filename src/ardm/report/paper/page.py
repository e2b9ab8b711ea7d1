"""The report as one HTML page with everything in it."""

from collections.abc import Sequence
from html import escape

from ardm.report.paper.filled import COLUMNS, DETAIL_COLUMNS, NOT_RUN, FilledRow, FilledTable
from ardm.report.paper.report import DrawnFigure, Report
from ardm.report.pieces import document, figure, gallery, paragraph, png_image, sample_of, section, titled

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
        section("Figures", gallery(map(_picture, pictures)), *map(_text, texts)),
    )


def _missing(report: Report) -> str:
    if not report.scripts:
        return ""
    lines = "".join(f"<li><code>{escape(line)}</code></li>" for line in report.scripts)
    return f"<details><summary>Not everything has been run. What is missing:</summary><ul>{lines}</ul></details>"


def _table(filled: FilledTable) -> str:
    table = filled.table
    return section(
        f"{table.title} ({table.unit})",
        paragraph(table.caption),
        _lines("compared", COLUMNS, [_row(row) for row in filled.rows]),
        *(paragraph(part) for part in filled.comment.split("\n\n") if part),
        _details(filled),
    )


def _row(row: FilledRow) -> str:
    numbers = "".join(f'<td class="number">{escape(cell)}</td>' for cell in (row.row.calls, row.ours, row.row.paper))
    command = f"<code>{escape(row.command)}</code>" if row.command else ""
    remark = f"{escape(row.remark)} " if row.remark else ""
    return f"<td>{escape(row.row.method)}</td>{numbers}<td>{remark}{command}</td>"


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
        return figure(f"<code>{escape(drawn.command)}</code>", f"{caption}: {NOT_RUN}")
    return figure(png_image(drawn.shown.picture.read_bytes(), caption), caption)


def _text(drawn: DrawnFigure) -> str:
    assert drawn.shown is not None
    return titled(sample_of(escape(drawn.shown.text)), drawn.figure.caption)
