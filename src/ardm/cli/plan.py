"""ardm plan."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ardm.cli.common import OutputPath, require_calls, require_positive
from ardm.names import Smoothing, StageSplit
from ardm.runtime.files import to_json

if TYPE_CHECKING:
    from ardm.planner import Plan as SchedulePlan

MAX_SIZES = 50
"""Maximum number of groups of a stage that are listed one by one; more are listed as runs of equal groups."""
MAX_RUNS = 20
"""Maximum number of runs of a stage that are listed; if there are more, only groups at both ends are."""
SIZES_AT_AN_END = 10
"""Groups listed at each end."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Find the best schedule for a budget of network calls, and what it costs in bits."""

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL_OR_PROFILE")]
    """A run's folder, a model file, or a profile (.npy or .json: D or S x D bits)."""
    calls: int
    """The budget: network calls per item, over all stages."""
    split: StageSplit = "joint"
    """How several stages share the calls: jointly, losing the fewest bits, or evenly (the paper's way)."""
    method: Smoothing | None = None
    """How a noisy profile is made monotone: by default smooth for a model, sort (the paper's) for a file."""
    output: OutputPath = None
    """Draw the profile and the schedule in this image file."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Plan and print."""
        require_positive(calls=self.calls)
        if self.output is not None:
            from ardm.library.plots import check_image_path

            check_image_path(self.output)
        from ardm.planner import plan
        from ardm.tasks.plan import profile_warning, read_losses_and_source

        losses, source = read_losses_and_source(self.source, self.method)
        warning = profile_warning(source)
        require_calls(self.calls, len(losses))
        result = plan(losses, self.calls, split=self.split)
        if self.output is not None:
            from ardm.library.plots import draw_plan

            draw_plan(losses, result, self.output, warning)
        if self.json:
            schedule = {"calls": result.schedule.calls, "starts": result.schedule.starts}
            bits = {"bits": result.bits, "full_bits": result.full_bits, "lost_bits": result.lost_bits}
            print(to_json({**schedule, **bits, **({} if source is None else {"profile": source})}).decode())
        else:
            print_plan(result)
            if warning:
                print(warning)


def print_plan(result: "SchedulePlan") -> None:
    """Print the plan as text."""
    schedule, full_bits = result.schedule, result.full_bits
    per_dim = result.bits / schedule.num_steps
    stages = f"{schedule.num_stages} stage{'s' * (schedule.num_stages > 1)}"
    print(f"{schedule.num_calls} calls for {stages} of {schedule.num_steps} variables")
    print(f"{result.bits:.2f} bits per item ({per_dim:.4f} per variable); {full_bits:.2f} with one variable per call")
    print(f"{result.lost_bits:.2f} bits ({result.lost_share:.2%}) lost")
    for stage in range(schedule.num_stages):
        sizes = [stop - start for start, stop in schedule.groups(stage)]
        print(f"stage {stage + 1}: {len(sizes)} calls revealing {shortened(sizes)}")


def shortened(sizes: Sequence[int]) -> str:
    """Group sizes as text: each of them, runs of equal ones as calls x size, or those at both ends."""
    if len(sizes) <= MAX_SIZES:
        return " ".join(map(str, sizes))
    runs = [f"{len(list(equal))} x {size}" for size, equal in itertools.groupby(sizes)]
    if len(runs) <= MAX_RUNS:
        return ", ".join(runs)
    first, last = (" ".join(map(str, end)) for end in (sizes[:SIZES_AT_AN_END], sizes[-SIZES_AT_AN_END:]))
    return f"{first} ... {last} (all with --json)"
