"""Texts with gaps, parsed into known variables and variables to fill."""

import re

import numpy as np
from jaxtyping import Bool

from ardm.data.alphabet import Alphabet, check_utf8
from ardm.errors import DataError, UsageError
from ardm.media.medium import GappedItem


def parse_gaps(content: bytes, mask: str, alphabet: Alphabet, num_variables: int) -> GappedItem:
    """A text with gaps at a character that marks them, or in ranges such as 10:20,35:40."""
    if alphabet.characters is None:
        symbols = [bytes([b]) for b in content]
    else:
        check_utf8(content, "the text")
        symbols = [c.encode() for c in content.decode()]
    if not 0 < len(symbols) <= num_variables:
        raise DataError(f"the text has {len(symbols)} characters; this model takes 1 to {num_variables}")
    gaps = gap_positions(symbols, mask)
    if not gaps.any():
        shown = content[:40].decode("utf-8", "replace")
        raise UsageError(f"nothing to fill: there is no {mask!r} in {shown!r}; mark gaps with it or give --mask ranges")
    kept = [symbol for symbol, gap in zip(symbols, gaps, strict=True) if not gap]
    known, values = np.zeros(num_variables, bool), np.zeros(num_variables, np.int64)
    known[: len(symbols)] = ~gaps
    if kept:
        values[known] = alphabet.encode(b"".join(kept), "the text without its gaps")
    return GappedItem(values=values, known=known, shape=(num_variables,), length=len(symbols))


def gap_positions(symbols: list[bytes], mask: str) -> Bool[np.ndarray, "N"]:
    """True at each position to fill."""
    if (ranges := ranges_in(mask)) is None:
        return np.array([symbol == mask.encode() for symbol in symbols])
    gaps = np.zeros(len(symbols), bool)
    for start, stop in ranges:
        if not start < stop <= len(symbols):
            raise UsageError(f"--mask range {start}:{stop} does not lie within the text's {len(symbols)} characters")
        gaps[start:stop] = True
    return gaps


def ranges_in(mask: str) -> list[tuple[int, int]] | None:
    """The ranges of a mask such as 10:20,35:40; None for a single character, which marks gaps."""
    if re.fullmatch(r"\d+:\d+(,\d+:\d+)*", mask):
        pairs = (part.split(":") for part in mask.split(","))
        return [(int(start), int(stop)) for start, stop in pairs]
    if len(mask) != 1:
        raise UsageError(f"--mask must be one character or ranges such as 10:20,35:40, got {mask!r}")
    return None
