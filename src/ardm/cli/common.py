"""Shared by several commands: names of orders and schedules, progress, checks of flags, facts for records."""

import math
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ardm.errors import UsageError
from ardm.names import ORDER_NAMES, NamedOrder, ProfileSource
from ardm.runtime.launch import launched_rank

if TYPE_CHECKING:
    import torch
    from rich.progress import Progress, TaskID

    from ardm.checkpoint import AnyTrained
    from ardm.tasks.load import ModelOnDevice

OrderName = Literal["random", NamedOrder]
Order = Annotated[OrderName, tyro.conf.arg(help="Order of the variables; random draws one for each item.")]
OwnOrder = Annotated[
    OrderName | None,
    tyro.conf.arg(
        help="Order of the variables; random draws one for each item.",
        help_behavior_hint="(default: an exact model's own order, but random to fill gaps if that is strands; "
        "random for other models)",
    ),
]
CODING_ORDERS = f"{', '.join(name for name in ORDER_NAMES if name != 'pseudorandom')} or pseudorandom:SEED"
OutputPath = Annotated[Path | None, tyro.conf.arg(aliases=["-o"])]
BatchSize = Annotated[int, tyro.conf.arg(help="Rows that the network evaluates at once; lower it if memory runs out.")]
Seed = Annotated[int, tyro.conf.arg(help="Seed of the random draws.")]
Device = Annotated[
    str | None,
    tyro.conf.arg(help="Device to compute on: cpu or cuda.", help_behavior_hint="(default: cuda if available)"),
]

SECONDS_PER_LINE = 30
"""Minimum time between two lines of progress, which replace the bar where there is no terminal."""


@contextmanager
def progress(title: str, total: int, opening: str | None = None) -> Iterator[Callable[[int], None]]:
    """A function that advances a bar or, without a terminal, prints lines; only the first process shows anything."""
    if launched_rank():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not sys.stderr.isatty(), transient=True) as bar:
        if bar.disable and opening is not None:
            print(opening, file=sys.stderr)
        yield advancing(bar, bar.add_task(title, total=total), title, total)


def advancing(bar: "Progress", task: "TaskID", title: str, total: int) -> Callable[[int], None]:
    """A function that advances a bar or, if it is disabled, prints a line every half minute."""
    if not bar.disable:
        return lambda count: bar.advance(task, count)
    done, started = 0, time.monotonic()
    printed = started

    def advance(count: int) -> None:
        nonlocal done, printed
        done, now = done + count, time.monotonic()
        if now - printed >= SECONDS_PER_LINE and done < total:
            printed = now
            print(progress_line(title, done, total, now - started), file=sys.stderr)

    return advance


def progress_line(title: str, done: int, total: int, seconds: float) -> str:
    """A line that says how much is done after some seconds, and how long the rest will take."""
    percent, minutes = 100 * done // total, math.ceil(seconds * (total - done) / done / 60)
    left = f", about {minutes} min left" if percent else ""  # the first percent predicts little
    return f"{title}: {done:,} of {total:,} ({percent}%){left}"


def require_positive(**flags: float | int | None) -> None:
    """Raise a UsageError for the first given flag that is not positive."""
    for name, value in flags.items():
        if value is not None and not value > 0:
            raise UsageError(f"--{name.replace('_', '-')} must be positive, got {value}")


def require_calls(num_calls: int | None, num_stages: int) -> None:
    """Raise a UsageError if there are fewer calls than stages."""
    if num_calls is not None and num_calls < num_stages:
        raise UsageError(f"--calls must be at least {num_stages}, one for each stage; got {num_calls}")


def warn_about_profile(loaded: "ModelOnDevice") -> None:
    """Print a line on stderr if the profile from which schedules are planned is an average during training."""
    if loaded.runtime.team.is_first:
        warn_about_source(loaded.profile_source)


def warn_about_source(source: ProfileSource) -> None:
    """Print a line on stderr if losses with this source are an average during training."""
    from ardm.tasks.plan import profile_warning

    if warning := profile_warning(source):
        print(f"the planned schedule may not be the best: {warning}", file=sys.stderr)


def facts_of(trained: "AnyTrained") -> dict[str, Any]:
    """The origin and size of a model, for a record of its figures."""
    from ardm.build import build_model

    config, model = trained.config, trained.model
    if next(model.parameters(), None) is None:  # an exact model: count those of its original
        model = build_model(config, model.num_classes)
    return {
        "preset": config.preset,
        "method": config.method.name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "step": trained.step,
        "seed": config.seed,
    }


def hardware(device: "torch.device") -> dict[str, str]:
    """The device and the versions that a figure was computed with."""
    import torch

    from ardm.version import __version__

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    cpu = f"{cpu_name()}, {torch.get_num_threads()} threads"
    return {"device": name, "cpu": cpu, "torch": torch.__version__, "ardm": __version__}


def cpu_name() -> str:
    """The processor's name, or its architecture if it has none."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    except (OSError, StopIteration):  # not Linux, or no name
        return platform.processor() or platform.machine()
