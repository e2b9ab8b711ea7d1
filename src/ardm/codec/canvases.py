"""Canvases to payloads and back: the windows of many arrays in common batches."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from ardm.codec.windows import Canvas, Window, bundles, cut, num_bundles, num_windows, paste
from ardm.orders import Shape

BATCH_SIZE = 64
"""Rows of a batch of items of 4096 variables, on a CPU."""
BATCH_VARIABLES = {"cpu": 4096 * BATCH_SIZE, "cuda": 16 * 4096 * BATCH_SIZE}
"""The rows of a batch have about so many variables, by the kind of device."""
SLAB_VARIABLES = 2**21
"""Windows are cut out when their turn comes; about so many variables, or a batch, are held at once."""
OnBatch = Callable[[int], None]


def ignore(num_rows: int) -> None:
    """For callers that do not follow the progress."""


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How the work is done, which changes no result."""

    batch_size: int | None = None
    """Rows that the network evaluates at once; None: as many as suit the device."""
    num_processes: int = 1
    """Processes that do so at a time."""
    on_start: OnBatch = ignore
    """Learns before the work how many rows it takes at most."""
    on_batch: OnBatch = ignore
    """Learns after each batch how many rows it had."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Job:
    """A bundle of windows to code."""

    canvas: int
    windows: Sequence[Window]
    payload: bytes = b""


@runtime_checkable
class BundleCodec(Protocol):
    """What codes bundles of items: an `ItemCodec`, or several processes."""

    def encode_bundles(
        self,
        x: Int[Tensor, "N D"],
        sizes: Sequence[int],
        *,
        given: Bool[Tensor, "N D"],
        absent: Bool[Tensor, "N D"],
        batch_size: int,
        on_batch: OnBatch,
    ) -> list[bytes]:
        """The payload of each bundle."""

    def try_decode_bundles(
        self,
        payloads: Sequence[bytes],
        sizes: Sequence[int],
        *,
        known: Int[Tensor, "N D"],
        given: Bool[Tensor, "N D"],
        absent: Bool[Tensor, "N D"],
        batch_size: int,
        on_batch: OnBatch,
    ) -> tuple[Int[Tensor, "N D"], dict[int, str]]:
        """The items, and what is wrong with damaged bundles."""

    @property
    def measure_variables(self) -> Callable[..., Float64[np.ndarray, "N D"]]:
        """See `ItemCodec.measure_variables`."""


class CanvasCodec:
    """Codes canvases with a codec of items."""

    def __init__(
        self, items: BundleCodec, shape: Shape, num_calls: int, batching: Batching, device: torch.device
    ) -> None:
        """`num_calls` is what an item takes at most."""
        self._items, self._shape, self._num_calls, self._batching = items, shape, num_calls, batching
        self._batch_size = batching.batch_size or max(1, BATCH_VARIABLES[device.type] // math.prod(shape))

    def encode(self, canvases: Sequence[Canvas]) -> list[list[bytes]]:
        """The payloads of each canvas's bundles."""
        self._announce(canvases)
        payloads: list[list[bytes]] = [[] for _ in canvases]
        unknown = [[b""] * num_bundles(canvas.values.shape, self._shape) for canvas in canvases]
        for slab in self._slabs(self._jobs(canvases, unknown)):
            x, given, absent = self._tensors(slab, canvases)
            encoded = self._items.encode_bundles(
                x,
                [len(job.windows) for job in slab],
                given=given,
                absent=absent,
                batch_size=self._batch_size,
                on_batch=self._batching.on_batch,
            )
            for job, payload in zip(slab, encoded, strict=True):
                payloads[job.canvas].append(payload)
        return payloads

    def measure(self, canvases: Sequence[Canvas]) -> list[Float64[np.ndarray, "..."]]:
        """The bits that each place of each canvas is coded with (see `ItemCodec.measure_variables`); 0 where hidden."""
        self._announce(canvases)
        bits = [np.zeros(canvas.values.shape) for canvas in canvases]
        unknown = [[b""] * num_bundles(canvas.values.shape, self._shape) for canvas in canvases]
        for slab in self._slabs(self._jobs(canvases, unknown)):
            x, given, absent = self._tensors(slab, canvases)
            rows = iter(
                self._items.measure_variables(
                    x, given=given, absent=absent, batch_size=self._batch_size, on_batch=self._batching.on_batch
                )
            )
            for job in slab:
                for window in job.windows:
                    bits[job.canvas][window.coded_area] = next(rows).reshape(self._shape)[window.coded]
        return bits

    def decode(self, canvases: Sequence[Canvas], payloads: Sequence[Sequence[bytes]]) -> dict[int, str]:
        """Fill the canvases in; what is wrong with those that are damaged, whose values mean nothing then."""
        self._announce(canvases)
        damaged: dict[int, str] = {}
        for wave in range(len(self._shape) + 1):
            jobs = (job for job in self._jobs(canvases, payloads) if job.windows[0].wave == wave)
            for slab in self._slabs(job for job in jobs if job.canvas not in damaged):
                damaged |= self._decode_slab(slab, canvases)
        return damaged

    def _jobs(self, canvases: Sequence[Canvas], payloads: Sequence[Sequence[bytes]]) -> Iterator[_Job]:
        for number, (canvas, own) in enumerate(zip(canvases, payloads, strict=True)):
            for windows, payload in zip(bundles(canvas.values.shape, self._shape), own, strict=True):
                yield _Job(canvas=number, windows=windows, payload=payload)

    def _decode_slab(self, slab: Sequence[_Job], canvases: Sequence[Canvas]) -> dict[int, str]:
        known, given, absent = self._tensors(slab, canvases)
        x, errors = self._items.try_decode_bundles(
            [job.payload for job in slab],
            [len(job.windows) for job in slab],
            known=known,
            given=given,
            absent=absent,
            batch_size=self._batch_size,
            on_batch=self._batching.on_batch,
        )
        rows = iter(x.cpu().numpy())
        for job in slab:
            for window in job.windows:
                paste(canvases[job.canvas], window, next(rows), self._shape)
        return {slab[place].canvas: error for place, error in errors.items()}

    def _announce(self, canvases: Sequence[Canvas]) -> None:
        count = sum(num_windows(canvas.values.shape, self._shape) for canvas in canvases)
        self._batching.on_start(count * self._num_calls)

    def _slabs(self, jobs: Iterable[_Job]) -> Iterator[list[_Job]]:
        most = self._batching.num_processes * max(self._batch_size, SLAB_VARIABLES // math.prod(self._shape))
        slab: list[_Job] = []
        num_held = 0
        for job in jobs:
            if slab and num_held + len(job.windows) > most:
                yield slab
                slab, num_held = [], 0
            slab.append(job)
            num_held += len(job.windows)
        if slab:
            yield slab

    def _tensors(self, slab: Sequence[_Job], canvases: Sequence[Canvas]) -> tuple[Tensor, Tensor, Tensor]:
        """What the windows show: values, which of them are given, and which are absent."""
        items = [cut(canvases[job.canvas], window, self._shape) for job in slab for window in job.windows]
        x, given, absent = (np.stack(part) for part in zip(*((i.x, i.given, i.absent) for i in items), strict=True))
        return torch.from_numpy(x), torch.from_numpy(given), torch.from_numpy(absent)
