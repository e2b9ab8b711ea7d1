"""ardm plan."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ardm.cli.common import OutputPath, load, measured_losses, require_positive
from ardm.errors import DataError, UsageError
from ardm.runtime.files import to_json

if TYPE_CHECKING:
    from ardm.planner import Plan as SchedulePlan

MAX_SIZES = 50
"""Groups of a stage that are listed one by one."""
MAX_RUNS = 20
"""Runs of equal groups that are listed where there are more."""
SIZES_AT_AN_END = 10
"""Groups listed from either end where even the runs are many."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The best schedule for a budget of network calls, and what it costs in bits."""

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL_OR_PROFILE")]
    """A run's folder, a model file, or a profile (.npy or .json: D or S x D bits)."""
    calls: int
    """The budget: network calls for an item, over all stages."""
    split: Literal["joint", "even"] = "joint"
    """Calls of several stages: shared out best, or the same for each (the paper's)."""
    method: Literal["smooth", "isotonic", "sort"] | None = None
    """How a noisy profile is made monotone: by default smooth for a model's, sort (the paper's) for a file's."""
    output: OutputPath = None
    """Draw the profile and the schedule to this image file."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Plan and print."""
        require_positive(calls=self.calls)
        if self.output is not None:
            from ardm.apps.report.figures import check_image_path

            check_image_path(self.output)
        from ardm.planner import plan
        from ardm.profile import monotone

        bits, counts = self._profile()
        losses = monotone(bits, counts, method=self.method or ("sort" if counts is None else "smooth"))
        if self.calls < len(losses):
            raise UsageError(f"--calls must be at least {len(losses)}, one for each stage; got {self.calls}")
        result = plan(losses, self.calls, split=self.split)
        if self.output is not None:
            from ardm.apps.report.figures import draw_plan

            draw_plan(losses, result, self.output)
        if self.json:
            print(to_json(describe(result)).decode())
        else:
            print_plan(result)

    def _profile(self) -> tuple[Any, Any]:
        if self.source.suffix.lower() in {".npy", ".json"}:
            return read_profile(self.source), None
        trained, *_ = load(self.source, "cpu")
        return measured_losses(trained)


def describe(result: "SchedulePlan") -> dict[str, Any]:
    """The plan as plain values."""
    return {
        "calls": list(result.schedule.calls),
        "starts": [list(starts) for starts in result.schedule.starts],
        "bits": result.bits,
        "full_bits": result.full_bits,
        "lost_bits": result.lost_bits,
    }


def print_plan(result: "SchedulePlan") -> None:
    """The plan for a reader."""
    schedule = result.schedule
    per_dim = result.bits / schedule.num_steps
    print(f"{schedule.num_calls} calls for {schedule.num_stages} stage(s) of {schedule.num_steps} variables")
    print(f"{result.bits:.2f} bits an item ({per_dim:.4f} a variable) against {result.full_bits:.2f} with every call")
    print(f"{result.lost_bits:.2f} bits ({result.lost_share:.2%}) lost")
    for stage in range(schedule.num_stages):
        sizes = [stop - start for start, stop in schedule.groups(stage)]
        print(f"stage {stage + 1}: {len(sizes)} calls revealing {shortened(sizes)}")


def shortened(sizes: Sequence[int]) -> str:
    """Sizes of groups for a reader: each of them, or runs of equal ones as calls x size, or those at both ends."""
    if len(sizes) <= MAX_SIZES:
        return " ".join(map(str, sizes))
    runs = [f"{len(list(equal))} x {size}" for size, equal in itertools.groupby(sizes)]
    if len(runs) <= MAX_RUNS:
        return ", ".join(runs)
    first, last = (" ".join(map(str, end)) for end in (sizes[:SIZES_AT_AN_END], sizes[-SIZES_AT_AN_END:]))
    return f"{first} ... {last} (all with --json)"


def read_profile(path: Path) -> Any:
    """A profile file as an array (S, D)."""
    import numpy as np

    if not path.is_file():
        raise DataError(f"there is no profile {path}")
    try:
        if path.suffix.lower() == ".npy":
            values = np.load(path, allow_pickle=False)
        else:
            values = np.array(json.loads(path.read_text(encoding="utf-8")), dtype=float)
        if values.dtype.kind not in "fiu":
            raise TypeError(f"numbers of type {values.dtype}")
        values = np.atleast_2d(np.asarray(values, dtype=float))
    except (ValueError, TypeError, EOFError, OSError, OverflowError, RecursionError) as error:
        raise DataError(f"{path} is not a profile ({error}); expected D numbers or S x D") from None
    if values.ndim != 2 or values.size == 0:
        raise DataError(f"{path} has shape {values.shape}; expected D numbers or S x D")
    if np.isinf(values).any() or (values < 0).any():
        raise DataError(f"{path} holds infinite or negative values; a profile holds bits")
    return values
