"""Speed and memory of a preset's training step, and of a call of its network, on random items."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ardm.build import build_ardm
from ardm.config import RunConfig, SoundData, TextData
from ardm.data.alphabet import BYTES
from ardm.data.corpus import Corpus
from ardm.data.images import ImageCorpus
from ardm.data.sounds import AudioCorpus
from ardm.data.text import TEXT8_ALPHABET, TextCorpus
from ardm.objective import sample_corruption, sample_step_loss
from ardm.runtime.device import Runtime
from ardm.train.trainer import Trainer

WARMUP_STEPS = 3
"""Steps that compile and fill caches, not timed."""
COUNTED_ITEMS = 2
LASTING_SECONDS = {"cuda": 1.0, "cpu": 0.0}
"""For how long products are timed at least: a GPU slows down within the first second."""


@dataclass(frozen=True, kw_only=True)
class TrainTiming:
    """The training step of one preset."""

    preset: str
    num_parameters: int
    batch_size: int
    step_seconds: float
    items_per_second: float
    teraflops: float
    """10^12 floating-point operations a second, see `training_flops`."""
    share: float
    """The same as a part of `matrix_teraflops`."""
    matrix_teraflops: float
    """What the device reaches in large matrix products in the precision of training, one after another for seconds."""
    burst_share: float
    burst_teraflops: float
    """What it reaches in the first few, before a GPU slows down to the power that it may take."""
    peak_bytes: int | None
    """Most memory held at once on a CUDA device."""


@dataclass(frozen=True, kw_only=True)
class MatrixRates:
    """10^12 operations a second of large matrix products."""

    burst: float
    """Of the first few."""
    lasting: float
    """Of those that follow for seconds."""


def time_training(config: RunConfig, runtime: Runtime, *, seconds: float = 10.0) -> TrainTiming:
    """Whole training steps (batch, loss, gradients, optimisers, averages) as in runs, for about so many seconds."""
    trainer = Trainer(config, random_corpus(config), runtime)
    with runtime.deterministic():
        return timed_steps(
            config.preset,
            trainer.train_step,
            trainer.model,
            runtime,
            batch_size=config.train.batch_size,
            count_flops=lambda: flops_per_item(config, runtime),
            rates=matrix_rates(runtime, max(seconds / 4, LASTING_SECONDS[runtime.device.type])),
            seconds=seconds,
        )


def timed_steps(
    name: str,
    step: Callable[[], object],
    network: nn.Module,
    runtime: Runtime,
    *,
    batch_size: int,
    count_flops: Callable[[], float],
    rates: MatrixRates,
    seconds: float,
) -> TrainTiming:
    """Steps for about so many seconds.

    Operations of an item are counted at the end, so that what this takes is not in the peak of memory.
    """
    warm_up(step)
    reset_peak(runtime)
    step_seconds = seconds_a_step(step, runtime, seconds)
    peak = peak_bytes(runtime)
    items_per_second = batch_size / step_seconds
    teraflops = items_per_second * count_flops() / 1e12
    return TrainTiming(
        preset=name,
        num_parameters=sum(p.numel() for p in network.parameters()),
        batch_size=batch_size,
        step_seconds=step_seconds,
        items_per_second=items_per_second,
        teraflops=teraflops,
        share=teraflops / rates.lasting,
        matrix_teraflops=rates.lasting,
        burst_share=teraflops / rates.burst,
        burst_teraflops=rates.burst,
        peak_bytes=peak,
    )


@dataclass(frozen=True, kw_only=True)
class CallTiming:
    """One call of a preset's network, without gradients."""

    preset: str
    num_parameters: int
    batch_size: int
    call_seconds: float
    gigaflops_an_item: float
    """10^9 floating-point operations of products and convolutions for one item."""


def time_call(config: RunConfig, runtime: Runtime, *, batch_size: int = 1, seconds: float = 5.0) -> CallTiming:
    """The median time of a call on random items, nothing compiled."""
    corpus = random_corpus(config)
    model = build_ardm(config, corpus.num_classes).to(runtime.device).eval()
    generator = torch.Generator(runtime.device).manual_seed(0)
    x = corpus.sampler(config.data.shape, runtime.device).draw(batch_size, generator)
    corrupted = sample_corruption(model.depth, x, generator)
    times: list[float] = []
    with torch.no_grad(), runtime.autocast():
        while len(times) < 3 or sum(times) < seconds:
            synchronize(runtime.device)
            started = time.perf_counter()
            model.outputs(corrupted.inputs, corrupted.mask, corrupted.stage, corrupted.t)
            synchronize(runtime.device)
            times.append(time.perf_counter() - started)
    return CallTiming(
        preset=config.preset,
        num_parameters=sum(p.numel() for p in model.parameters()),
        batch_size=batch_size,
        call_seconds=statistics.median(times),
        gigaflops_an_item=flops_per_item(config, runtime) / 3e9,
    )


def warm_up(step: Callable[[], object]) -> None:
    """Take the steps that are not timed."""
    for _ in range(WARMUP_STEPS):
        step()


def seconds_a_step(step: Callable[[], object], runtime: Runtime, seconds: float, *, at_a_time: int = 5) -> float:
    """The mean time of steps, so many at a time, once at least and for about so many seconds."""
    synchronize(runtime.device)
    started, steps = time.perf_counter(), 0
    while steps == 0 or time.perf_counter() - started < seconds:
        for _ in range(at_a_time):
            step()
        steps += at_a_time
        synchronize(runtime.device)
    return (time.perf_counter() - started) / steps


def flops_per_item(config: RunConfig, runtime: Runtime) -> float:
    """Floating-point operations of a preset's training for one item, see `training_flops`."""
    corpus = random_corpus(config)
    model = build_ardm(config, corpus.num_classes).to(runtime.device)
    generator = torch.Generator(runtime.device).manual_seed(0)
    x = corpus.sampler(config.data.shape, runtime.device).draw(COUNTED_ITEMS, generator)
    return training_flops(lambda x: sample_step_loss(model, x, generator), x, runtime)


def training_flops(loss: Callable[[Tensor], object], x: Int[Tensor, "B D"], runtime: Runtime) -> float:
    """Floating-point operations of products and convolutions for one item, three times those of the forward pass.

    The usual count: the backward pass has two products for each of the forward pass. (PyTorch's own count of the
    backward pass takes depthwise convolutions for dense ones.)
    """
    with FlopCounterMode(display=False) as counter, runtime.autocast(), torch.no_grad():
        loss(x)
    return 3 * float(counter.get_total_flops()) / len(x)


def matrix_rates(runtime: Runtime, seconds: float) -> MatrixRates:
    """The rates of a large product, bfloat16 on CUDA and float32 elsewhere: of a few, and for about so many seconds."""
    on_cuda = runtime.device.type == "cuda"
    size, dtype, few = (8192, torch.bfloat16, 20) if on_cuda else (1024, torch.float32, 5)
    a = torch.randn(size, size, dtype=dtype, device=runtime.device)  # zeros and ones take less power

    def rate(seconds: float) -> float:
        return 2 * size**3 / seconds_a_step(lambda: a @ a, runtime, seconds, at_a_time=few) / 1e12

    a @ a  # chooses the kernel
    return MatrixRates(burst=rate(0.0), lasting=rate(seconds))


def random_corpus(config: RunConfig) -> Corpus:
    """Data of the preset's kind and shape, with uniformly random classes."""
    generator = np.random.default_rng(0)
    if isinstance(config.data, TextData):
        alphabet, size = BYTES if config.data.kind == "bytes" else TEXT8_ALPHABET, 100 * config.data.num_variables
        classes = generator.integers(0, alphabet.num_classes, size, dtype=np.uint8)
        return TextCorpus(title="random", alphabet=alphabet, classes=classes, num_held_out=size // 20)
    if isinstance(config.data, SoundData):
        clips = generator.integers(-(2**15), 2**15, (3, 4, config.data.num_variables), dtype=np.int16)
        train, valid, test = map(list, clips)
        return AudioCorpus(title="random", train=train, valid=valid, test=test, sample_rate=16_000)
    train, valid, test = map(list, generator.integers(0, 256, (3, 64, *config.data.shape), dtype=np.uint8))
    return ImageCorpus(title="random", train=train, valid=valid, test=test)


def synchronize(device: torch.device) -> None:
    """Wait for a CUDA device to finish what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def reset_peak(runtime: Runtime) -> None:
    """Forget the most memory held so far."""
    if runtime.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(runtime.device)


def peak_bytes(runtime: Runtime) -> int | None:
    """The most memory held at once, on a CUDA device."""
    return torch.cuda.max_memory_allocated(runtime.device) if runtime.device.type == "cuda" else None
