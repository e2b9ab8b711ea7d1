"""The table of sizes, with the same cells on the screen and in the report."""

from collections.abc import Sequence
from dataclasses import dataclass

from ardm.apps.demo.coding import Row, total_rows
from ardm.apps.demo.results import DemoResults

COLUMNS = ("codec", "bytes", "bits", "encodes", "restores")


@dataclass(frozen=True, kw_only=True)
class Block:
    """The rows of a file, or of all files of a model."""

    title: str
    rows: Sequence[Row]
    unit: str

    def cells(self, row: Row) -> tuple[str, ...]:
        """The text of a row by column."""
        times = (row.encode_seconds, row.decode_seconds)
        return row.codec, f"{row.num_bytes:,}", f"{row.bits:.3f}", *map(seconds_text, times)


def blocks_of(results: DemoResults) -> list[Block]:
    """The blocks of all models."""
    blocks = []
    for part in results.parts:
        unit, count = part.model.unit, len(part.coded)
        blocks += [Block(title=one.example.name, rows=one.rows, unit=unit) for one in part.coded]
        if count > 1:
            title = f"all {count} {'images' if part.model.medium == 'images' else 'files'}"
            blocks.append(Block(title=title, rows=total_rows(part.coded), unit=unit))
    return blocks


def notes_of(results: DemoResults) -> list[str]:
    """The reasons why codecs are missing from the table, without repetition."""
    return list(dict.fromkeys(note for part in results.parts for one in part.coded for note in one.notes))


def screen_table(blocks: Sequence[Block]) -> str:
    """The table as text: words left-aligned, numbers right-aligned."""
    rows: list[tuple[str, ...]] = [("file", *COLUMNS, "unit of bits")]
    for block in blocks:
        titles = [block.title] + [""] * (len(block.rows) - 1)
        rows += [(title, *block.cells(row), block.unit) for title, row in zip(titles, block.rows, strict=True)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (map("{:{}{}}".format, row, "<<>>>><", widths) for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def seconds_text(seconds: float | None) -> str:
    """A time in seconds or milliseconds; an empty string for None."""
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" if seconds >= 0.0995 else f"{1000 * seconds:.1f} ms"
