"""An exact network beside its float32 twin: the time of one call of each."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ardm.apps.bench.training import synchronize
from ardm.build import build_ardm
from ardm.checkpoint import ExactPart, TrainedModel
from ardm.objective import sample_corruption

MIN_CALLS = 5


@dataclass(frozen=True, kw_only=True)
class ExactCallTiming:
    """Median times of a call for all variables of each item."""

    model: str
    num_parameters: int
    batch_size: int
    exact_seconds: float
    float_seconds: float
    """Of the same network in float32, with random weights: their values do not change its time."""


def time_exact_call(
    trained: TrainedModel, exact: ExactPart, *, name: str, batch_size: int = 1, seconds: float = 5.0
) -> ExactCallTiming:
    """Calls of both in turn, for about so many seconds, so that what else the machine does disturbs both alike."""
    model, device = trained.model, next(exact.network.buffers()).device
    twin = build_ardm(trained.config, model.depth.num_classes).to(device).eval()
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randint(model.depth.num_classes, (batch_size, model.num_variables), generator=generator, device=device)
    c = sample_corruption(twin.depth, x, generator)
    shape, where = (-1, *model.shape), torch.arange(model.num_variables, device=device).expand(batch_size, -1)
    ways: list[Callable[[], Tensor]] = [
        lambda: exact.network.integers(c.inputs.view(shape), c.mask.view(shape), c.stage, c.t, where),
        lambda: twin.outputs(c.inputs, c.mask, c.stage, c.t),
    ]
    times: list[list[float]] = []
    with torch.no_grad():
        [way() for way in ways]  # what is compiled or chosen once
        started = time.perf_counter()
        while len(times) < MIN_CALLS or time.perf_counter() - started < seconds:
            times.append([_seconds(way, device) for way in ways])
    exact_seconds, float_seconds = map(statistics.median, zip(*times, strict=True))
    return ExactCallTiming(
        model=name,
        num_parameters=sum(p.numel() for p in twin.parameters()),
        batch_size=batch_size,
        exact_seconds=exact_seconds,
        float_seconds=float_seconds,
    )


def _seconds(way: Callable[[], Tensor], device: torch.device) -> float:
    started = time.perf_counter()
    way()
    synchronize(device)
    return time.perf_counter() - started
