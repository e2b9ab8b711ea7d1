"""Canvases to payloads and back: the windows of many arrays in shared batches."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from ardm.codec.batching import Batching, packed
from ardm.codec.calls import Items
from ardm.codec.windows import Canvas, Window, bundles, cut, num_bundles, num_windows, paste
from ardm.names import Shape

SLAB_VARIABLES = 2**21
"""Variables of the windows held in memory at once; more if a single batch holds more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Job:
    """A bundle of windows to code."""

    canvas: int
    windows: Sequence[Window]
    payload: bytes = b""


@runtime_checkable
class BundleCodec(Protocol):
    """A codec of bundles of items: an `ItemCodec`, or one that several processes share."""

    def encode(self, items: Items, sizes: Sequence[int], batching: Batching) -> list[bytes]:
        """The payload of each bundle."""

    def decode(
        self, payloads: Sequence[bytes], sizes: Sequence[int], known: Items, batching: Batching
    ) -> tuple[Int[Tensor, "N D"], dict[int, str]]:
        """The items, and the errors of damaged bundles."""

    def measure_variables(self, items: Items, batching: Batching) -> Float64[np.ndarray, "N D"]:
        """The bits of each variable."""


class CanvasCodec:
    """Codes canvases with a codec of items."""

    def __init__(
        self, items: BundleCodec, shape: Shape, num_calls: int, batching: Batching, device: torch.device
    ) -> None:
        """`num_calls` is an upper bound on the calls per item."""
        self._items, self._shape, self._num_calls, self._batching = items, shape, num_calls, batching
        self._batch_size = batching.rows(shape, device)

    def encode(self, canvases: Sequence[Canvas]) -> list[list[bytes]]:
        """The payloads of each canvas's bundles."""
        payloads: list[list[bytes]] = [[] for _ in canvases]
        for slab in self._slabs_to_encode(canvases):
            encoded = self._items.encode(self._cut(slab, canvases), _sizes(slab), self._batching)
            for job, payload in zip(slab, encoded, strict=True):
                payloads[job.canvas].append(payload)
        return payloads

    def measure(self, canvases: Sequence[Canvas]) -> list[Float64[np.ndarray, "..."]]:
        """The bits of each place of each canvas (see `ItemCodec.measure_variables`); 0 for hidden places."""
        bits = [np.zeros(canvas.values.shape) for canvas in canvases]
        for slab in self._slabs_to_encode(canvases):
            rows = iter(self._items.measure_variables(self._cut(slab, canvases), self._batching))
            for job in slab:
                for window in job.windows:
                    bits[job.canvas][window.coded_area] = next(rows).reshape(self._shape)[window.coded]
        return bits

    def decode(self, canvases: Sequence[Canvas], payloads: Sequence[Sequence[bytes]]) -> dict[int, str]:
        """Fill in the canvases, and return the errors of damaged ones, whose values are meaningless."""
        self._announce(canvases)
        damaged: dict[int, str] = {}
        for wave in range(len(self._shape) + 1):
            jobs = (job for job in self._jobs(canvases, payloads) if job.windows[0].wave == wave)
            for slab in self._slabs(job for job in jobs if job.canvas not in damaged):
                damaged |= self._decode_slab(slab, canvases)
        return damaged

    def _jobs(self, canvases: Sequence[Canvas], payloads: Sequence[Sequence[bytes]]) -> Iterator[_Job]:
        for number, (canvas, parts) in enumerate(zip(canvases, payloads, strict=True)):
            for windows, payload in zip(bundles(canvas.values.shape, self._shape), parts, strict=True):
                yield _Job(canvas=number, windows=windows, payload=payload)

    def _slabs_to_encode(self, canvases: Sequence[Canvas]) -> Iterator[list[_Job]]:
        self._announce(canvases)
        unknown = [[b""] * num_bundles(canvas.values.shape, self._shape) for canvas in canvases]
        return self._slabs(self._jobs(canvases, unknown))

    def _decode_slab(self, slab: Sequence[_Job], canvases: Sequence[Canvas]) -> dict[int, str]:
        payloads, known = [job.payload for job in slab], self._cut(slab, canvases)
        x, errors = self._items.decode(payloads, _sizes(slab), known, self._batching)
        rows = iter(x.cpu().numpy())
        for job in slab:
            for window in job.windows:
                paste(canvases[job.canvas], window, next(rows), self._shape)
        return {slab[place].canvas: error for place, error in errors.items()}

    def _announce(self, canvases: Sequence[Canvas]) -> None:
        count = sum(num_windows(canvas.values.shape, self._shape) for canvas in canvases)
        self._batching.on_start(count * self._num_calls)

    def _slabs(self, jobs: Iterable[_Job]) -> Iterator[list[_Job]]:
        """The jobs in lists of a limited number of windows."""
        max_windows = self._batching.num_processes * max(self._batch_size, SLAB_VARIABLES // math.prod(self._shape))
        return packed(jobs, lambda job: len(job.windows), max_windows)

    def _cut(self, slab: Sequence[_Job], canvases: Sequence[Canvas]) -> Items:
        """The items of the slab's windows."""
        parts = [cut(canvases[job.canvas], window, self._shape) for job in slab for window in job.windows]
        rows = {name: np.stack([getattr(part, name) for part in parts]) for name in ("x", "given", "absent")}
        return Items(**{name: torch.from_numpy(values) for name, values in rows.items()})


def _sizes(slab: Sequence[_Job]) -> list[int]:
    return [len(job.windows) for job in slab]
