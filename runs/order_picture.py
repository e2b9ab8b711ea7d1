"""Draw docs/order.svg: a text revealed in one order, in five calls, with what each call sees and reveals.

Run `python runs/order_picture.py docs/order.svg`.
"""

import sys
from pathlib import Path

TEXT = "the cat sat"
CALLS = ((4,), (8, 1), (2, 6), (10, 0, 3), (5, 7, 9))
"""The variables that each call reveals: together, an order of all of them."""
CELL, LEFT, TOP, GAP = 34, 70, 46, 10
HIDDEN, KNOWN, NEW = "#e4e6ee", "#8da0cb", "#fc8d62"


def picture() -> str:
    """The picture as SVG."""
    width, height = LEFT + CELL * len(TEXT) + 300, TOP + (CELL + GAP) * len(CALLS) + 16
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    parts = [head, f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>', title(14, 26, "call")]
    parts += [title(LEFT, 26, "what it sees, and what it reveals"), title(LEFT + CELL * len(TEXT) + 24, 26, "step t")]
    known: list[int] = []
    for number, revealed in enumerate(CALLS):
        parts += row(number, known, revealed)
        known += revealed
    return "\n".join([*parts, "</svg>"]) + "\n"


def row(number: int, known: list[int], revealed: tuple[int, ...]) -> list[str]:
    """One call: a cell for each character, and what the schedule says."""
    y = TOP + number * (CELL + GAP)
    cells = [cell(place, y, known, revealed) for place in range(len(TEXT))]
    step = len(known)
    shared = "" if len(revealed) == 1 else f" to {step + len(revealed) - 1}, all paid at the loss of step {step}"
    return [title(26, y + 22, str(number + 1)), *cells, title(LEFT + CELL * len(TEXT) + 24, y + 22, f"{step}{shared}")]


def cell(place: int, y: int, known: list[int], revealed: tuple[int, ...]) -> str:
    """One character: known before the call, revealed by it, or hidden."""
    x, colour = LEFT + place * CELL, KNOWN if place in known else NEW if place in revealed else HIDDEN
    shown = TEXT[place].replace(" ", "\u2423") if place in known or place in revealed else ""
    box = f'<rect x="{x}" y="{y}" width="{CELL - 4}" height="{CELL - 4}" rx="4" fill="{colour}"/>'
    letter = f'<text x="{x + (CELL - 4) / 2}" y="{y + 21}" text-anchor="middle" font-size="16">{shown}</text>'
    return box + letter


def title(x: float, y: float, words: str) -> str:
    """A few words."""
    return f'<text x="{x}" y="{y}" font-size="14" fill="#333333">{words}</text>'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
