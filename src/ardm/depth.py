"""Depth maps: how a data value decays, level by level, to one absorbing value, and how it is refined back.

Notation (with that of `orders`)
    K       number of data classes
    V       number of values a variable may take at any level: K, or more when maps add classes (a mask, say)
    S       number of stages
    level   0..S: level 0 is the absorbing value, level S the data (the paper's x^(0), ..., x^(S))
    stage   s = 0..S-1 refines a variable from level s (its parent) to level s+1 (its child);
            the paper's stage is ours + 1

An order-agnostic ARDM is the case S = 1: the only parent is the absorbing value and every class is its child.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn


class DepthMap(nn.Module):
    """S deterministic maps that take every data class to a common absorbing value.

    `maps[s][v]` is the value at level s of a variable whose value at level s+1 is v; each map lists all V
    values, and entries that no data class reaches are never read. The last map is applied to the data.
    """

    levels: Int[Tensor, "L K"]
    """levels[i, k] is the value of data class k at level i = 0..S; the paper's P-bar^(i+1) as a table."""

    def __init__(self, maps: Sequence[Sequence[int]], num_classes: int) -> None:
        super().__init__()
        if not maps or len({len(m) for m in maps}) != 1:
            raise ValueError("a depth map needs at least one map, all of the same length")
        self.num_stages = len(maps)
        self.num_classes = num_classes
        self.num_values = len(maps[0])
        self.register_buffer("levels", _cumulative(maps, num_classes), persistent=False)
        self.absorbing_value = int(self.levels[0, 0])

    def at_level(self, x: Int[Tensor, "B D"], level: Int[Tensor, "B"] | int) -> Int[Tensor, "B D"]:
        """The data x downscaled to a level (one for all items or one for each): P-bar^(level+1) x.

        See `checked_classes` for values that are not classes.
        """
        if isinstance(level, Tensor):
            level = level[:, None]
        return self.levels[level, checked_classes(x, self.num_classes)]

    def middle(self, values: Int[Tensor, "B D"], level: Int[Tensor, "B D"]) -> Int[Tensor, "B D"]:
        """A class to show for each value of a level: the mean of the classes that decay to it, rounded down."""
        classes = torch.arange(self.num_classes, device=self.levels.device).expand_as(self.levels)
        zeros = classes.new_zeros(len(self.levels), self.num_values)
        sums, counts = (zeros.scatter_add(1, self.levels, part) for part in (classes, torch.ones_like(classes)))
        return (sums // counts.clamp(min=1))[level, values]

    def transition_matrix(self, stage: int) -> Float[Tensor, "V V"]:
        """The paper's P of a stage: P[l, k] = 1 where child k, reachable at level stage+1, has parent l."""
        matrix = torch.zeros(self.num_values, self.num_values)
        matrix[self.levels[stage], self.levels[stage + 1]] = 1
        return matrix


def _cumulative(maps: Sequence[Sequence[int]], num_classes: int) -> Int[Tensor, "L K"]:
    num_values = len(maps[0])
    if not 1 <= num_classes <= num_values:
        raise ValueError(f"the maps list {num_values} values, too few for {num_classes} classes")
    tables = torch.tensor([list(m) for m in maps])
    if tables.min() < 0 or tables.max() >= num_values:
        raise ValueError(f"every entry of a depth map must lie in 0..{num_values - 1}")
    rows = [torch.arange(num_classes)]
    for table in tables.flip(0):
        rows.append(table[rows[-1]])
    levels = torch.stack(rows[::-1])
    if (levels[0] != levels[0, 0]).any():
        raise ValueError("the maps must take every class to one absorbing value; they end in several")
    return levels


class BaseDepthMap(DepthMap):
    """Downscaling k -> floor(k / b^i) b^i: stage s generates digit s, most significant first, in base b.

    S = ceil(log_b K); K need not be a power of b.
    """

    def __init__(self, num_classes: int, base: int) -> None:
        if base < 2 or num_classes < 2:
            raise ValueError(f"base-b depth needs b >= 2 and K >= 2, got b={base}, K={num_classes}")
        num_stages = 1
        while base**num_stages < num_classes:
            num_stages += 1
        scales = [base ** (num_stages - s) for s in range(num_stages)]
        super().__init__([[v // c * c for v in range(num_classes)] for c in scales], num_classes)
        self.base = base

    def digit_scale(self, stage: Int[Tensor, "B"]) -> Int[Tensor, "B"]:
        """The weight b^(S-1-stage) of the digit that a stage generates."""
        return torch.pow(self.base, self.num_stages - 1 - stage)


def absorbing(num_classes: int, value: int | None = None) -> DepthMap:
    """A depth map of one stage: every class decays at once to `value`, by default a new class with index K."""
    value = num_classes if value is None else value
    return DepthMap([[value] * max(num_classes, value + 1)], num_classes)


def check_classes(x: Integer[Tensor, "*N"], num_classes: int) -> None:
    """Raise a ValueError unless all values are classes 0..K-1; this waits for the device that holds them.

    >>> import torch
    >>> from ardm.depth import check_classes
    >>> check_classes(torch.tensor([3, -1]), num_classes=4)
    Traceback (most recent call last):
    ValueError: values must lie in 0..3, got -1..3
    """
    if x.numel() and (int(x.min()) < 0 or int(x.max()) >= num_classes):
        raise ValueError(f"values must lie in 0..{num_classes - 1}, got {int(x.min())}..{int(x.max())}")


def checked_classes(x: Int[Tensor, "*N"], num_classes: int) -> Int[Tensor, "*N"]:
    """The values, to be used as indices of classes; a ValueError unless all are classes.

    On a GPU this would make every training step wait for the device. There a negative value, which would count from
    the last class, becomes K, so that indexing itself fails (with a device-side assertion). Corpora and scoring check
    their values with `check_classes`, once.

    >>> import torch
    >>> from ardm.depth import checked_classes
    >>> checked_classes(torch.tensor([3, 0]), num_classes=4).tolist()
    [3, 0]
    """
    if x.device.type != "cpu":
        return x.masked_fill(x < 0, num_classes)
    check_classes(x, num_classes)
    return x
