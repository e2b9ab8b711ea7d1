"""Plan which variables share a call: losses from a model or a profile file, schedules for a budget, orders by name."""

import json
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ardm.checkpoint import TrainedModel, load_profile_and_source
from ardm.codec.coding_plan import orders_and_schedule
from ardm.codec.format.options import OrderChoice
from ardm.errors import DataError, UsageError
from ardm.masked import is_masked
from ardm.masked.hub import read_facts, saved_profile
from ardm.model import ARDM
from ardm.names import AVERAGED, ProfileSource, ScheduleKind, Shape, Smoothing
from ardm.orders import random_stage_orders
from ardm.planner import schedule_of_kind
from ardm.pretrained import find_model
from ardm.profile import Profile, monotone, stretch
from ardm.runtime.files import to_json, write_output, written_whole
from ardm.schedule import Schedule, full_schedule

Losses = Float[np.ndarray, "S D"]


@runtime_checkable
class Profiled(Protocol):
    """An ARDM with its loss profile."""

    @property
    def ardm(self) -> ARDM: ...

    @property
    def profile(self) -> Profile: ...


def read_losses(source: str | Path, method: Smoothing | None = None) -> Losses:
    """The monotone losses of a profile file or of a model (without building its network).

    By default a model's losses are smoothed, and a file's are sorted as in the paper.

    >>> from ardm.tasks.plan import read_losses
    >>> read_losses("text").shape
    (1, 250)
    """
    return read_losses_and_source(source, method)[0]


def read_losses_and_source(source: str | Path, method: Smoothing | None = None) -> tuple[Losses, ProfileSource | None]:
    """The losses of `read_losses`, and whether a model's were measured; None for a file, which does not say.

    >>> from ardm.tasks.plan import read_losses_and_source
    >>> read_losses_and_source("text")[1]
    'measured on held-out data'
    """
    if Path(source).suffix.lower() in (".npy", ".json"):
        return monotone(read_profile(Path(source)), method=method or "sort"), None
    if is_masked(source):
        found = saved_profile(read_facts(source), source)
        if found is None:
            raise UsageError(
                f"{source} has no loss profile; `ardm eval {source} DATA --profile p.json` measures one in p.json"
            )
        profile, profile_source = found
    else:
        profile, profile_source = load_profile_and_source(find_model(source))
    return monotone_losses(profile, method or "smooth"), profile_source


def profile_warning(source: ProfileSource | None) -> str:
    """A warning about losses that are an average during training; empty for losses that were measured, even earlier.

    >>> from ardm.tasks.plan import profile_warning
    >>> profile_warning("average during training")
    'not measured: the losses are an average during training, higher than those of the model itself'
    """
    if source == AVERAGED:
        return f"not measured: the losses are an {source}, higher than those of the model itself"
    return ""


def read_profile(path: Path) -> Losses:
    """The bits in a .npy or .json file of D or S x D numbers; NaN where there are no observations."""
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


def write_profile(path: Path, profile: Profile) -> None:
    """Write the bits of a profile as .npy (NaN where there are no observations) or .json (null)."""
    bits = profile.observed_bits().cpu().numpy()
    if path.suffix == ".json":
        write_output(path, to_json([[None if np.isnan(b) else b for b in stage] for stage in bits.tolist()]))
        return
    with written_whole(path) as temporary, temporary.open("wb") as file:
        np.save(file, bits)


def monotone_losses(profile: Profile, method: Smoothing = "smooth") -> Losses:
    """The losses of a profile made monotone; a UsageError unless every stage has been measured."""
    if not is_measured(profile):
        raise UsageError(
            "nothing to plan from: this model's losses have not been measured; continue its training, measure them "
            "(`model.measure(items)`, or `ardm eval --profile` for --losses of a masked model), or choose a cosine or "
            "uniform schedule"
        )
    return monotone(profile.bits.cpu().numpy(), profile.counts.cpu().numpy(), method=method)


def is_measured(profile: Profile) -> bool:
    """Whether every stage has observations."""
    return bool(profile.counts.any(dim=1).all())


def planning_losses(model: Profiled, losses: Losses | None = None) -> Float[np.ndarray, "S steps"]:
    """A model's losses, averages over random orders, made monotone (unless given so) and stretched to its items' size.

    >>> from ardm.tasks.load import load
    >>> from ardm.tasks.plan import planning_losses
    >>> planning_losses(load("text").for_shape((100,))).shape
    (1, 100)
    """
    return stretch(monotone_losses(model.profile) if losses is None else losses, model.ardm.num_variables)


def make_schedule(
    model: Profiled,
    num_calls: int | None = None,
    kind: ScheduleKind = "planned",
    first_step: int = 0,
    last_step: int | None = None,
    losses: Losses | None = None,
) -> Schedule:
    """A schedule for the steps of an item, or some of them, with this many calls or one variable per call.

    Whoever plans often from one model gives its `monotone_losses`, which take a moment.

    >>> from ardm.tasks.load import load
    >>> from ardm.tasks.plan import make_schedule
    >>> make_schedule(load("text"), 20).num_calls
    20
    """
    num_stages, num_steps = model.ardm.num_stages, last_step or model.ardm.num_variables
    if num_calls in (None, num_stages * (num_steps - first_step)):
        return full_schedule(num_steps, num_stages=num_stages, first_step=first_step)
    losses = planning_losses(model, losses) if kind == "planned" else np.zeros((num_stages, num_steps))
    return schedule_of_kind(kind, losses, num_calls, first_step, num_steps)


def default_order(trained: TrainedModel | None, *, for_gaps: bool = False) -> str | OrderChoice:
    """The order in which items are drawn by default: an exact model's own, random orders for any other model.

    Strands order whole items only, so that gaps are filled in random orders where strands are the model's own order.

    >>> from ardm.tasks.load import load
    >>> from ardm.tasks.plan import default_order
    >>> default_order(load("text").trained).name, default_order(load("text").trained, for_gaps=True)
    ('strands', 'random')
    """
    if trained is None or trained.exact is None:
        return "random"
    order = trained.exact.coding.order
    return "random" if for_gaps and order.name == "strands" else order


def make_orders(
    order: str | OrderChoice, schedule: Schedule, num_items: int, shape: Shape, generator: torch.Generator
) -> tuple[Int[Tensor, "N S D"], Schedule]:
    """Orders for items of a shape, and the schedule in these orders: strands change it.

    "random" means a fresh order for each item and stage; any other order is the same for all.

    >>> import ardm, torch
    >>> from ardm.tasks.plan import make_orders
    >>> orders, schedule = make_orders("reverse", ardm.uniform_schedule(4, 2), 3, (4,), torch.Generator())
    >>> orders.shape, orders[0, 0].tolist()
    (torch.Size([3, 1, 4]), [3, 2, 1, 0])
    """
    if order == "random":
        num_variables = int(np.prod(shape))
        return random_stage_orders(num_items, schedule.num_stages, num_variables, generator), schedule
    choice = OrderChoice(name=order) if isinstance(order, str) else order
    orders, schedule = orders_and_schedule(choice, _line_or_image(shape), schedule)
    return torch.from_numpy(orders).to(generator.device).expand(num_items, -1, -1), schedule


def _line_or_image(shape: Shape) -> Shape:
    """The shape that orders take for items of any: two axes are an image of one channel, four or more a line."""
    if len(shape) == 2:
        return (*shape, 1)
    return shape if len(shape) in (1, 3) else (int(np.prod(shape)),)
