"""Items that share a payload: which they are, which are decoded together, and how their symbols take turns."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

Coded = list[tuple[np.ndarray, np.ndarray]]
"""Groups of symbols (N,) with their weights (N, C), in the decoder's sequence."""


def ranges(sizes: Sequence[int]) -> list[range]:
    """The numbers of the items of each bundle."""
    return [range(*bounds) for bounds in itertools.pairwise([0, *itertools.accumulate(sizes)])]


def batches(sizes: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """The sizes in turn, in lists of a limited sum, or of one size."""
    batch: list[int] = []
    total = 0
    for size in sizes:
        if batch and total + size > batch_size:
            yield batch
            batch, total = [], 0
        batch.append(size)
        total += size
    if batch:
        yield batch


def in_turns(coded_items: Sequence[Coded]) -> Coded:
    """The symbols of several items; those of each are a list of groups, one for each symbol of a variable."""
    turns = itertools.zip_longest(*coded_items)
    return [group for turn in turns for group in turn if group is not None]
