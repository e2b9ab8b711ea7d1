"""Time per network call, for a preset's network with random weights or for an exact model and its float32 twin."""

from dataclasses import dataclass

import torch

from ardm.apps.bench.stopwatch import median_seconds
from ardm.apps.bench.training import flops_per_item, random_corpus
from ardm.build import build_ardm
from ardm.checkpoint import ExactPart, TrainedModel
from ardm.config import RunConfig
from ardm.objective import sample_corruption
from ardm.runtime.device import Runtime

MIN_CALLS, MIN_EXACT_CALLS = 3, 5


@dataclass(frozen=True, kw_only=True)
class CallTiming:
    """The median time of a call without gradients."""

    preset: str
    num_parameters: int
    batch_size: int
    call_seconds: float
    gigaflops_an_item: float
    """10^9 floating-point operations per item, in products and convolutions."""


def time_call(config: RunConfig, runtime: Runtime, *, batch_size: int = 1, seconds: float = 5.0) -> CallTiming:
    """The time per call of a preset's network, not compiled, on random items, measured for about this many seconds."""
    corpus = random_corpus(config)
    model = build_ardm(config, corpus.num_classes).to(runtime.device).eval()
    generator = torch.Generator(runtime.device).manual_seed(0)
    x = corpus.sampler(config.data.shape, runtime.device).draw(batch_size, generator)
    c = sample_corruption(model.depth, x, generator)
    with torch.no_grad(), runtime.autocast():
        calls = [lambda: model.outputs(c.inputs, c.mask, c.stage, c.t)]
        [call_seconds] = median_seconds(calls, runtime.device, min_rounds=MIN_CALLS, seconds=seconds)
    return CallTiming(
        preset=config.preset,
        num_parameters=sum(p.numel() for p in model.parameters()),
        batch_size=batch_size,
        call_seconds=call_seconds,
        gigaflops_an_item=flops_per_item(config, runtime) / 3e9,
    )


@dataclass(frozen=True, kw_only=True)
class ExactCallTiming:
    """Median times of a call for all variables of each item."""

    model: str
    num_parameters: int
    batch_size: int
    exact_seconds: float
    float_seconds: float
    """Seconds of the same network in float32; its weights are random, which does not affect the time."""


def time_exact_call(
    trained: TrainedModel, exact: ExactPart, *, name: str, batch_size: int = 1, seconds: float = 5.0
) -> ExactCallTiming:
    """The times per call of both networks, called in turn for about `seconds` seconds."""
    model, device = trained.model, next(exact.network.buffers()).device
    twin = build_ardm(trained.config, model.depth.num_classes).to(device).eval()
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randint(model.depth.num_classes, (batch_size, model.num_variables), generator=generator, device=device)
    c = sample_corruption(twin.depth, x, generator)
    shape, where = (-1, *model.shape), torch.arange(model.num_variables, device=device).expand(batch_size, -1)
    calls = [
        lambda: exact.network.integers(c.inputs.view(shape), c.mask.view(shape), c.stage, c.t, where),
        lambda: twin.outputs(c.inputs, c.mask, c.stage, c.t),
    ]
    with torch.no_grad():
        median_seconds(calls, device, min_rounds=1)  # compiles, and chooses kernels
        exact_seconds, float_seconds = median_seconds(calls, device, min_rounds=MIN_EXACT_CALLS, seconds=seconds)
    return ExactCallTiming(
        model=name,
        num_parameters=sum(p.numel() for p in twin.parameters()),
        batch_size=batch_size,
        exact_seconds=exact_seconds,
        float_seconds=float_seconds,
    )
