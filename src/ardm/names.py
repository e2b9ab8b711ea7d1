"""Names of orders, schedules and splits that users choose from; imports nothing of ardm, so `--help` is instant."""

from typing import Literal, get_args

Shape = tuple[int, ...]
NamedOrder = Literal["raster", "reverse", "spaced", "halton", "pseudorandom", "strands"]
ORDER_NAMES: tuple[NamedOrder, ...] = get_args(NamedOrder)
"""Orders determined by integers alone. Files hold an order's index in this list, so new orders go at the end."""
ScheduleKind = Literal["planned", "cosine", "uniform"]
Smoothing = Literal["smooth", "isotonic", "sort"]
StageSplit = Literal["joint", "even"]
Split = Literal["train", "valid", "test", "all"]
Scale = Literal["minutes", "paper"]
