"""Speed and memory of a preset's training step on random items."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ardm.apps.bench.stopwatch import seconds_per_step
from ardm.build import build_ardm
from ardm.config import RunConfig, SoundData, TextData
from ardm.data.alphabet import BYTES
from ardm.data.corpus import Corpus
from ardm.data.images import ImageCorpus
from ardm.data.sounds import SoundCorpus
from ardm.data.text import TEXT8_ALPHABET, TextCorpus
from ardm.objective import sample_step_loss
from ardm.runtime.device import Runtime
from ardm.train.trainer import Trainer

WARMUP_STEPS = 3
"""Untimed steps, which compile and fill caches."""
COUNTED_ITEMS = 2
"""Items whose operations are counted."""
MIN_SECONDS = {"cuda": 1.0, "cpu": 0.0}
"""Minimum time of matrix products in seconds: a GPU slows down within the first second."""


@dataclass(frozen=True, kw_only=True)
class TrainTiming:
    """The training step of one preset."""

    preset: str
    num_parameters: int
    batch_size: int
    step_seconds: float
    items_per_second: float
    teraflops: float
    """10^12 floating-point operations per second, see `training_flops`."""
    share: float
    """Speed as a fraction of `matrix_teraflops`."""
    matrix_teraflops: float
    """The device's rate in large matrix products in the precision of training, sustained for seconds."""
    burst_share: float
    burst_teraflops: float
    """The rate in the first few products, before a GPU slows down to its power limit."""
    peak_bytes: int | None
    """Peak memory of a CUDA device."""


@dataclass(frozen=True, kw_only=True)
class MatrixRates:
    """10^12 operations per second of large matrix products."""

    burst: float
    """Rate of the first few products."""
    sustained: float
    """Rate sustained for seconds."""


def time_training(config: RunConfig, runtime: Runtime, *, seconds: float = 10.0) -> TrainTiming:
    """The timing of whole training steps as in runs (batch, loss, gradients, optimisers, averages), for `seconds`."""
    trainer = Trainer(config, random_corpus(config), runtime)
    with runtime.deterministic():
        return timed_steps(
            config.preset,
            trainer.train_step,
            trainer.model,
            runtime,
            batch_size=config.train.batch_size,
            count_flops=lambda: flops_per_item(config, runtime),
            rates=matrix_rates(runtime, max(seconds / 4, MIN_SECONDS[runtime.device.type])),
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
    """The timing of steps, for about `seconds`; operations are counted later, so as not to raise the peak memory."""
    warm_up(step)
    reset_peak(runtime)
    step_seconds = seconds_per_step(step, runtime.device, seconds)
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
        share=teraflops / rates.sustained,
        matrix_teraflops=rates.sustained,
        burst_share=teraflops / rates.burst,
        burst_teraflops=rates.burst,
        peak_bytes=peak,
    )


def warm_up(step: Callable[[], object]) -> None:
    """Take the untimed steps."""
    for _ in range(WARMUP_STEPS):
        step()


def flops_per_item(config: RunConfig, runtime: Runtime) -> float:
    """Floating-point operations per item of a preset's training, see `training_flops`."""
    corpus = random_corpus(config)
    model = build_ardm(config, corpus.num_classes).to(runtime.device)
    generator = torch.Generator(runtime.device).manual_seed(0)
    x = corpus.sampler(config.data.shape, runtime.device).draw(COUNTED_ITEMS, generator)
    return training_flops(lambda x: sample_step_loss(model, x, generator), x, runtime)


def training_flops(loss: Callable[[Tensor], object], x: Int[Tensor, "B D"], runtime: Runtime) -> float:
    """Floating-point operations per item of products and convolutions: three times those of the forward pass.

    The backward pass has two products for each product of the forward pass. (PyTorch's own count of the backward pass
    treats depthwise convolutions as dense ones.)
    """
    with FlopCounterMode(display=False) as counter, runtime.autocast(), torch.no_grad():
        loss(x)
    return 3 * float(counter.get_total_flops()) / len(x)


def matrix_rates(runtime: Runtime, seconds: float) -> MatrixRates:
    """The rates of a large product, bfloat16 on CUDA and float32 elsewhere."""
    on_cuda = runtime.device.type == "cuda"
    size, dtype, few = (8192, torch.bfloat16, 20) if on_cuda else (1024, torch.float32, 5)
    a = torch.randn(size, size, dtype=dtype, device=runtime.device)  # zeros and ones take less power

    def rate(seconds: float) -> float:
        return 2 * size**3 / seconds_per_step(lambda: a @ a, runtime.device, seconds, steps_at_once=few) / 1e12

    a @ a  # chooses a kernel
    return MatrixRates(burst=rate(0.0), sustained=rate(seconds))


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
        return SoundCorpus(title="random", train=train, valid=valid, test=test, sample_rate=16_000)
    train, valid, test = map(list, generator.integers(0, 256, (3, 64, *config.data.shape), dtype=np.uint8))
    return ImageCorpus(title="random", train=train, valid=valid, test=test)


def reset_peak(runtime: Runtime) -> None:
    """Forget the peak memory so far."""
    if runtime.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(runtime.device)


def peak_bytes(runtime: Runtime) -> int | None:
    """The peak memory of a CUDA device."""
    return torch.cuda.max_memory_allocated(runtime.device) if runtime.device.type == "cuda" else None
