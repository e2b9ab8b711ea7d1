"""Canvases to payloads and back: the windows of many arrays in common batches."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ardm.codec.items import ItemCodec
from ardm.codec.windows import Canvas, Item, Window, cut, paste, windows
from ardm.orders import Shape

BATCH_SIZE = 64
SLAB_VARIABLES = 2**21
"""Windows are cut out when their turn comes; about so many variables are held at once."""
OnBatch = Callable[[int], None]


def ignore(num_rows: int) -> None:
    """For callers that do not follow the progress."""


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How the work is done, which changes no result."""

    batch_size: int = BATCH_SIZE
    """Rows that the network evaluates at once."""
    on_batch: OnBatch = ignore
    """Learns the number of rows after each batch."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Job:
    """One window to code."""

    canvas: int
    window: Window
    payload: bytes = b""


class CanvasCodec:
    """Codes canvases with a codec of items."""

    def __init__(self, items: ItemCodec, shape: Shape, batching: Batching) -> None:
        self._items, self._shape, self._batching = items, shape, batching

    def encode(self, canvases: Sequence[Canvas]) -> list[list[bytes]]:
        """The payloads of each canvas's windows."""
        jobs = (
            _Job(canvas=number, window=window)
            for number, canvas in enumerate(canvases)
            for window in windows(canvas.values.shape, self._shape)
        )
        payloads: list[list[bytes]] = [[] for _ in canvases]
        for slab in self._slabs(jobs):
            tensors = self._tensors(slab, canvases)
            encoded = self._items.encode(
                tensors[0],
                given=tensors[1],
                absent=tensors[2],
                batch_size=self._batching.batch_size,
                on_batch=self._batching.on_batch,
            )
            for job, payload in zip(slab, encoded, strict=True):
                payloads[job.canvas].append(payload)
        return payloads

    def decode(self, canvases: Sequence[Canvas], payloads: Sequence[Sequence[bytes]]) -> dict[int, str]:
        """Fill the canvases in; what is wrong with those that are damaged, whose values mean nothing then."""
        damaged: dict[int, str] = {}
        num_axes = len(self._shape)
        for wave in range(num_axes + 1):
            jobs = (job for job in self._jobs(canvases, payloads) if job.window.wave == wave)
            for slab in self._slabs(job for job in jobs if job.canvas not in damaged):
                damaged |= self._decode_slab(slab, canvases)
        return damaged

    def _jobs(self, canvases: Sequence[Canvas], payloads: Sequence[Sequence[bytes]]) -> Iterator[_Job]:
        for number, (canvas, own) in enumerate(zip(canvases, payloads, strict=True)):
            for window, payload in zip(windows(canvas.values.shape, self._shape), own, strict=True):
                yield _Job(canvas=number, window=window, payload=payload)

    def _decode_slab(self, slab: Sequence[_Job], canvases: Sequence[Canvas]) -> dict[int, str]:
        known, given, absent = self._tensors(slab, canvases)
        x, errors = self._items.salvage(
            [job.payload for job in slab],
            known=known,
            given=given,
            absent=absent,
            batch_size=self._batching.batch_size,
            on_batch=self._batching.on_batch,
        )
        for job, row in zip(slab, x.cpu().numpy(), strict=True):
            paste(canvases[job.canvas], job.window, row, self._shape)
        return {slab[place].canvas: error for place, error in errors.items()}

    def _slabs(self, jobs: Iterable[_Job]) -> Iterator[list[_Job]]:
        size = max(1, SLAB_VARIABLES // math.prod(self._shape))
        jobs = iter(jobs)
        return iter(lambda: list(itertools.islice(jobs, size)), [])

    def _tensors(
        self, slab: Sequence[_Job], canvases: Sequence[Canvas]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What the windows show: values, which of them are given, and which are absent."""
        items = [cut(canvases[job.canvas], job.window, self._shape) for job in slab]
        return _stacked(items, "x"), _stacked(items, "given"), _stacked(items, "absent")


def _stacked(items: Sequence[Item], part: str) -> torch.Tensor:
    return torch.from_numpy(np.stack([getattr(item, part) for item in items]))
