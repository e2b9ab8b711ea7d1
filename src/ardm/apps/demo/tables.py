"""The table of sizes, in the same words for the screen and for the report."""

from collections.abc import Sequence
from dataclasses import dataclass

from ardm.apps.demo.coding import Row, total_rows
from ardm.apps.demo.show import Part, Show

COLUMNS = ("codec", "bytes", "bits", "encodes", "restores")


@dataclass(frozen=True, kw_only=True)
class Block:
    """The rows of a file, or of all files of a model."""

    title: str
    rows: Sequence[Row]
    unit: str

    def cells(self, row: Row) -> tuple[str, ...]:
        """A row in words, by column."""
        times = (row.encode_seconds, row.decode_seconds)
        return row.codec, f"{row.num_bytes:,}", f"{row.bits:.3f}", *map(seconds_text, times)


def blocks_of(show: Show) -> list[Block]:
    """All blocks, in turn."""
    return [block for part in show.parts for block in _blocks(part)]


def _blocks(part: Part) -> list[Block]:
    unit = part.exhibit.unit
    blocks = [Block(title=one.name, rows=one.rows, unit=unit) for one in part.coded]
    if len(blocks) > 1:
        title = f"all {len(blocks)} {'images' if part.medium == 'images' else 'files'}"
        blocks.append(Block(title=title, rows=total_rows(part.coded), unit=unit))
    return blocks


def notes_of(show: Show) -> list[str]:
    """What is missing from the table, each once."""
    return list(dict.fromkeys(note for part in show.parts for one in part.coded for note in one.notes))


def screen_table(blocks: Sequence[Block]) -> str:
    """The table for the screen."""
    rows: list[tuple[str, ...]] = [("file", *COLUMNS, "unit of bits")]
    for block in blocks:
        titles = [block.title] + [""] * (len(block.rows) - 1)
        rows += [(title, *block.cells(row), block.unit) for title, row in zip(titles, block.rows, strict=True)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Words to the left, numbers to the right."""
    signs = "<<>>>><"
    return "  ".join(f"{cell:{sign}{width}}" for cell, sign, width in zip(row, signs, widths, strict=True)).rstrip()


def seconds_text(seconds: float | None) -> str:
    """A time in words; nothing for none."""
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" if seconds >= 0.0995 else f"{1000 * seconds:.1f} ms"
