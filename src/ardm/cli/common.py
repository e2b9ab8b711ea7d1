"""What several commands share: progress, models, schedules and orders from flags."""

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
from ardm.runtime.launch import launched_rank

if TYPE_CHECKING:
    import numpy as np
    import torch
    from rich.progress import Progress, TaskID
    from torch import Tensor

    from ardm.baselines.d3pm import D3PM
    from ardm.baselines.methods import Baseline
    from ardm.checkpoint import AnyTrained, TrainedModel
    from ardm.data.corpus import Split
    from ardm.model import ARDM
    from ardm.schedule import Schedule

ScheduleName = Literal["planned", "cosine", "uniform"]
NamedOrder = Literal["raster", "reverse", "spaced", "halton", "pseudorandom", "strands"]
OrderName = Literal["random", "raster", "reverse", "spaced", "halton", "pseudorandom", "strands"]
OutputPath = Annotated[Path | None, tyro.conf.arg(aliases=["-o"])]

SECONDS_A_LINE = 30
"""Least time between two lines of progress where there is no terminal."""


@contextmanager
def progress(title: str, total: int, opening: str | None = None) -> Iterator[Callable[[int], None]]:
    """A function that advances a progress bar on stderr; without a terminal there are the opening and lines instead.

    Of several processes the first one shows how far it is.
    """
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
    """A function that advances a bar or, where it is disabled for want of a terminal, says now and then how far it is.

    What is done within 30 seconds is done in silence.
    """
    if not bar.disable:
        return lambda count: bar.advance(task, count)
    done, started = 0, time.monotonic()
    said = started

    def advance(count: int) -> None:
        nonlocal done, said
        done, now = done + count, time.monotonic()
        if now - said >= SECONDS_A_LINE and done < total:
            said = now
            print(progress_line(title, done, total, now - started), file=sys.stderr)

    return advance


def progress_line(title: str, done: int, total: int, seconds: float) -> str:
    """How far something is after so many seconds, for a reader."""
    percent, minutes = 100 * done // total, math.ceil(seconds * (total - done) / done / 60)
    left = f", about {minutes} min left" if percent else ""  # the beginning says little about the rest
    return f"{title}: {done:,} of {total:,} ({percent}%){left}"


def require_positive(**flags: float | int | None) -> None:
    """A usage error for the first flag that is given and not positive."""
    for name, value in flags.items():
        if value is not None and not value > 0:
            raise UsageError(f"--{name.replace('_', '-')} must be positive, got {value}")


def require_a_call_a_stage(num_calls: int, num_stages: int) -> None:
    """A usage error for fewer calls than stages."""
    if num_calls < num_stages:
        raise UsageError(f"--calls must be at least {num_stages}, one for each stage; got {num_calls}")


def load(source: Path, device: str | None) -> "tuple[TrainedModel, torch.device, Callable[[], Any]]":
    """The model of a path or a name on the chosen device, the device, and a context in which to call it."""
    from ardm import pretrained
    from ardm.runtime.device import Runtime

    runtime = Runtime.choose(device)
    return pretrained.load(source, runtime.device), runtime.device, runtime.autocast


def load_any(source: Path, device: str | None) -> "tuple[AnyTrained, torch.device, Callable[[], Any]]":
    """The same, where the model may be a baseline too."""
    from ardm import pretrained
    from ardm.runtime.device import Runtime

    runtime = Runtime.choose(device)
    return pretrained.load_any(source, runtime.device), runtime.device, runtime.autocast


def with_diffusion_steps(model: "ARDM | Baseline", num_steps: int) -> "D3PM":
    """A model as a D3PM with the absorbing process in so many steps; a usage error if it is none."""
    from ardm.baselines.d3pm import D3PM, from_ardm
    from ardm.model import ARDM

    try:
        if isinstance(model, ARDM):
            return from_ardm(model, num_steps)
        if isinstance(model, D3PM):
            return model.with_steps(num_steps)
    except ValueError as error:
        raise UsageError(str(error)) from None
    raise UsageError("an autoregressive baseline has no steps of diffusion")


def make_schedule(
    trained: "TrainedModel",
    num_calls: int | None,
    name: ScheduleName,
    first_step: int = 0,
    last_step: int | None = None,
) -> "Schedule":
    """A schedule of a model for a budget (None: one variable a call) over the steps first..last.

    Plans come from the model's profile, which is an average over random orders.
    """
    from ardm import schedule as s

    num_stages, num_steps = trained.model.num_stages, last_step or trained.model.num_variables
    if num_calls is None:
        return s.full_schedule(num_steps, num_stages=num_stages, first_step=first_step)
    require_a_call_a_stage(num_calls, num_stages)
    if name == "planned":
        return s.plan_gaps(planning_losses(trained), num_calls, first_step, num_steps).schedule
    make = s.cosine_schedule if name == "cosine" else s.uniform_schedule
    num_calls = min(num_calls, num_stages * (num_steps - first_step))
    return make(num_steps, num_calls, num_stages=num_stages, first_step=first_step)


def planning_losses(trained: "TrainedModel") -> Any:
    """The model's profile made monotone for planning, and stretched to the size of its items."""
    from ardm.profile import monotone, stretch

    bits, counts = measured_losses(trained)
    return stretch(monotone(bits, counts, method="smooth"), trained.model.num_variables)


def measured_losses(trained: "TrainedModel") -> "tuple[np.ndarray, np.ndarray]":
    """The model's profile and the observations behind it; a usage error where a stage has none."""
    profile = trained.profile
    if not profile.counts.any(dim=1).all():
        raise UsageError(
            "nothing to plan from: this run was stopped before its losses were measured; "
            "go on with `ardm train --resume`, or choose --schedule cosine or uniform"
        )
    return profile.bits.cpu().numpy(), profile.counts.cpu().numpy()


def make_orders_and_schedule(
    name: OrderName, schedule: "Schedule", num_items: int, shape: tuple[int, ...], generator: "torch.Generator"
) -> "tuple[Tensor, Schedule]":
    """Orders (N, S, D), fresh random ones for each item and stage or a named one for all, and the schedule in them."""
    import torch

    from ardm.codec.format.options import OrderChoice
    from ardm.codec.plan import orders_and_schedule
    from ardm.orders import random_stage_orders

    if name == "random":
        return random_stage_orders(num_items, schedule.num_stages, math.prod(shape), generator), schedule
    orders, schedule = orders_and_schedule(OrderChoice(name=name), shape, schedule)
    return torch.from_numpy(orders).to(generator.device).expand(num_items, -1, -1), schedule


def items_to_score(
    trained: "AnyTrained", path: Path, split: "Split | None", limit: int | None
) -> "tuple[np.ndarray, str]":
    """Items to score, spread evenly over a split, and a title that says which they are.

    Without a split: the test split of a published data set or of the data that the model was trained on, and all of any
    other. A single image or sound has no splits; a text is split by position.
    """
    import numpy as np

    from ardm.media import medium_of

    corpus = medium_of(trained).corpus(path)
    if split is None:
        seen = (trained.data_fingerprint, *trained.config.initial_data)
        split = "test" if corpus.is_published or corpus.fingerprint in seen else "all"
    items = corpus.items(split, trained.model.shape)
    count = len(items) if limit is None else min(limit, len(items))
    chosen = items[np.arange(count) * len(items) // count]
    is_one_file = path.is_file() and trained.config.data.medium != "text"
    of_split = "" if is_one_file else f", {split} split"
    return chosen.astype(np.int64), f"{count} of {len(items)} items of {corpus.title}{of_split}"


def facts_of(trained: "AnyTrained") -> dict[str, Any]:
    """What a model is, for a record of its figures."""
    from ardm.build import build_model

    config, model = trained.config, trained.model
    if next(model.parameters(), None) is None:  # an exact model, made of one with parameters
        model = build_model(config, model.num_classes)
    return {
        "preset": config.preset,
        "method": config.method.name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "step": trained.step,
        "seed": config.seed,
    }


def hardware(device: "torch.device") -> dict[str, str]:
    """What a figure was computed by."""
    import torch

    from ardm.version import __version__

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    cpu = f"{cpu_name()}, {torch.get_num_threads()} threads"
    return {"device": name, "cpu": cpu, "torch": torch.__version__, "ardm": __version__}


def cpu_name() -> str:
    """The processor's name, or at least its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    except (OSError, StopIteration):  # another system, or a processor without a name
        return platform.processor() or platform.machine()
