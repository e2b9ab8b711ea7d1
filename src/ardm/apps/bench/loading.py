"""Speed of a packed data set's loader, alone and in training, beside what training steps need."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from ardm.apps.bench.training import random_corpus, seconds_a_step, synchronize, warm_up
from ardm.config import RunConfig
from ardm.data.packed.description import open_pack
from ardm.data.packed.sampler import AHEAD, StreamSampler, num_bytes
from ardm.media import load_corpus
from ardm.runtime.device import Runtime
from ardm.train.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class Loading:
    """How fast batches come."""

    items_per_second: float
    bytes_per_second: float
    """Of items as they are stored."""


@dataclass(frozen=True, kw_only=True)
class Streaming:
    """Training steps on the packed data."""

    items_per_second: float
    waiting: float
    """The share of the time that steps waited for their batches."""


@dataclass(frozen=True, kw_only=True)
class LoaderTiming:
    """The loader of a packed data set for one preset."""

    preset: str
    data: str
    batch_size: int
    cold: Loading
    """After the system was asked to forget the shards; it may keep them, as may the disk."""
    warm: Loading
    """The same batches again."""
    needed_items_per_second: float
    """What training steps take when all items are on the device already, or what was given instead."""
    headroom: float
    """How many times as fast the warm loader is."""
    streaming: Streaming | None
    """None where a number of items was given."""


def time_loader(
    config: RunConfig, path: Path, runtime: Runtime, *, needed: float | None = None, seconds: float = 10.0
) -> LoaderTiming:
    """The loader alone, cold and warm, and training steps with and without it, each for about so many seconds."""
    forget(path)
    sampler = load_corpus(config.data, path).sampler(config.data.shape, runtime.device)
    assert isinstance(sampler, StreamSampler)
    sampler.finish = lambda values, generator: values  # what is done on the device is no part of loading
    cold, num_batches = time_batches(sampler, config.train.shard_size, seconds=seconds)
    warm, _ = time_batches(sampler, config.train.shard_size, num_batches=num_batches)
    streaming = None if needed is not None else time_streaming(config, path, runtime, seconds)
    if needed is None:
        needed = time_resident(config, runtime, seconds)
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
    """Batches drawn one after the other for so many seconds, or so many of them, and how many there were."""
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
    """Training steps on the packed data."""
    trainer = Trainer(config, load_corpus(config.data, path), runtime)
    warm_up(trainer.train_step)
    sampler = trainer.sampler
    assert isinstance(sampler, StreamSampler)
    before, first = sampler.waited_seconds, trainer.step
    a_step = seconds_a_step(trainer.train_step, runtime, seconds)
    waiting = (sampler.waited_seconds - before) / (a_step * (trainer.step - first))
    return Streaming(items_per_second=config.train.batch_size / a_step, waiting=waiting)


def time_resident(config: RunConfig, runtime: Runtime, seconds: float) -> float:
    """Items a second of training steps on random items that are on the device."""
    trainer = Trainer(config, random_corpus(config), runtime)
    warm_up(trainer.train_step)
    return config.train.batch_size / seconds_a_step(trainer.train_step, runtime, seconds)


def forget(path: Path) -> None:
    """Ask the system to drop what it keeps of a packed data set in memory, where it can be asked."""
    for shard in open_pack(path).about.shards:
        if hasattr(os, "posix_fadvise"):
            descriptor = os.open(path / shard.file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


WORDS = """\
Items a second: of the loader alone, cold (shards read from disk) and warm (from memory), beside those that training
steps need when all items are on the device, and of training steps with the loader, which wait for it so much of their
time.
"""


def loader_header() -> str:
    """The columns of `loader_line`, below what they are."""
    columns = f"{'':14} {'batch':>5} {'cold':>20} {'warm':>20} {'needed':>9} {'ratio':>8} training with the loader"
    return f"{WORDS}{columns}"


def loader_line(row: LoaderTiming) -> str:
    """A row for a reader."""
    cold, warm = (
        f"{speed.items_per_second:,.0f} {speed.bytes_per_second / 1e6:,.0f} MB/s" for speed in (row.cold, row.warm)
    )
    streaming = (
        "" if row.streaming is None else f"{row.streaming.items_per_second:,.1f} ({row.streaming.waiting:.1%} waiting)"
    )
    return (
        f"{row.preset:14} {row.batch_size:>5} {cold:>20} {warm:>20} {row.needed_items_per_second:>9,.1f} "
        f"{row.headroom:>7.1f}x {streaming}"
    )
