"""Speed of a packed data set's loader, alone and in training, compared with what training steps need."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from ardm.apps.bench.stopwatch import seconds_per_step, synchronize
from ardm.apps.bench.training import random_corpus, warm_up
from ardm.config import RunConfig
from ardm.data.packed.description import open_pack
from ardm.data.packed.sampler import AHEAD, StreamSampler, num_bytes
from ardm.media import load_corpus
from ardm.runtime.device import Runtime
from ardm.train.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class Loading:
    """The speed of the loader alone."""

    items_per_second: float
    bytes_per_second: float
    """Bytes of items as they are stored."""


@dataclass(frozen=True, kw_only=True)
class Streaming:
    """The speed of training steps with the loader."""

    items_per_second: float
    waiting: float
    """Fraction of the time that steps spent waiting for their batches."""


@dataclass(frozen=True, kw_only=True)
class LoaderTiming:
    """The loader of a packed data set for one preset."""

    preset: str
    data: str
    batch_size: int
    cold: Loading
    """Speed after asking the system to drop the shards from its cache; it may refuse, and the disk has a cache too."""
    warm: Loading
    """Speed for the same batches again."""
    needed_items_per_second: float
    """Speed of training steps with all items on the device, or the speed given as `needed`."""
    headroom: float
    """Ratio of the warm loader's speed to the needed one."""
    streaming: Streaming | None
    """Training with the loader; None if the needed speed was given."""


def time_loader(
    config: RunConfig, path: Path, runtime: Runtime, *, needed: float | None = None, seconds: float = 10.0
) -> LoaderTiming:
    """The speed of the loader alone, cold and warm, and of training with and without it; about `seconds` for each."""
    drop_from_cache(path)
    sampler = load_corpus(config.data, path).sampler(config.data.shape, runtime.device)
    assert isinstance(sampler, StreamSampler)
    sampler.finish = lambda values, generator: values  # work on the device is not part of loading
    cold, num_batches = time_batches(sampler, config.train.shard_size, seconds=seconds)
    warm, _ = time_batches(sampler, config.train.shard_size, num_batches=num_batches)
    streaming = None
    if needed is None:
        streaming, needed = time_streaming(config, path, runtime, seconds), time_resident(config, runtime, seconds)
    return LoaderTiming(
        preset=config.preset,
        data=open_pack(path).about.title,
        batch_size=config.train.batch_size,
        cold=cold,
        warm=warm,
        needed_items_per_second=needed,
        headroom=warm.items_per_second / needed,
        streaming=streaming,
    )


def time_batches(
    sampler: StreamSampler, num_items: int, *, seconds: float | None = None, num_batches: int | None = None
) -> tuple[Loading, int]:
    """The speed of drawing batches, for some seconds or up to a number of batches, and the number drawn."""
    generator, count, started = torch.Generator(sampler.device), 0, time.perf_counter()

    def is_done() -> bool:
        return count == num_batches if num_batches else time.perf_counter() - started >= (seconds or 0)

    while count == 0 or not is_done():
        sampler.expect(range(count, count + AHEAD), num_items)
        sampler.draw(num_items, generator.manual_seed(count))
        count += 1
    synchronize(sampler.device)
    speed = count * num_items / (time.perf_counter() - started)
    return Loading(items_per_second=speed, bytes_per_second=speed * num_bytes(sampler.places)), count


def time_streaming(config: RunConfig, path: Path, runtime: Runtime, seconds: float) -> Streaming:
    """The speed of training steps on the packed data."""
    trainer = Trainer(config, load_corpus(config.data, path), runtime)
    warm_up(trainer.train_step)
    sampler = trainer.sampler
    assert isinstance(sampler, StreamSampler)
    before, first = sampler.waited_seconds, trainer.step
    mean = seconds_per_step(trainer.train_step, runtime.device, seconds)
    waiting = (sampler.waited_seconds - before) / (mean * (trainer.step - first))
    return Streaming(items_per_second=config.train.batch_size / mean, waiting=waiting)


def time_resident(config: RunConfig, runtime: Runtime, seconds: float) -> float:
    """Items per second of training steps on random items that are on the device."""
    trainer = Trainer(config, random_corpus(config), runtime)
    warm_up(trainer.train_step)
    return config.train.batch_size / seconds_per_step(trainer.train_step, runtime.device, seconds)


def drop_from_cache(path: Path) -> None:
    """Ask the system to drop a packed data set from its cache, if it can."""
    for shard in open_pack(path).about.shards if hasattr(os, "posix_fadvise") else ():
        with (path / shard.file).open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
