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
ProfileSource = Literal[
    "measured on held-out data", "measured on held-out data at an earlier step", "average during training"
]
"""Origin of the losses in a model's profile; only the first describes the model's own weights."""
PROFILE_SOURCES: tuple[ProfileSource, ...] = get_args(ProfileSource)
MEASURED, MEASURED_EARLIER, AVERAGED = PROFILE_SOURCES
Scale = Literal["minutes", "paper", "cpu"]
SINGLE_SUFFIX, ARCHIVE_SUFFIX = ".ardm", ".ardma"
"""Suffixes of a compressed file and of an archive."""
MODEL_FILE, CONFIG_FILE = "model.safetensors", "config.json"
"""In the folder of a run."""
