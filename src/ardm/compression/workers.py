"""The work of coding shared by the processes of a team; files, names and reports remain the first one's.

The first process compresses or restores as if it were alone, but the bundles of windows that fill the network's batches
are parted among all. A bundle's bytes depend on nothing beside it, so they are those of one process. The others have
their part handed over, with the file of the model to code it with, and do nothing else.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ardm.codec.format.options import Options
from ardm.codec.items import ItemCodec
from ardm.compression.content_codec import ContentCodec
from ardm.runtime.team import Team

LoadCodec = Callable[[Path], ContentCodec]


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The bundles that one process is to code."""

    model: Path
    options: Options
    sizes: list[int]
    """Windows of each bundle."""
    masks: dict[str, Tensor]
    """Which variables of the windows are given and absent."""
    values: Tensor
    payloads: list[bytes] | None
    """What to decode; None to encode the values."""
    batch_size: int


class Workers:
    """The processes of a team that code; `load` gives each of them the codec of a model's file."""

    def __init__(self, team: Team, load: LoadCodec) -> None:
        self.team, self._load = team, cache(load)

    def codec(self, model: Path) -> ContentCodec:
        """The codec of a model's file, whose work the workers share."""
        codec = self._load(model)
        if self.team.size > 1:
            codec.share_items(lambda items, options: SharedItems(items, self, model, options))
        return codec

    @contextmanager
    def at_work(self) -> Iterator[bool]:
        """Whether this process is the one that leads; the others have done their parts then.

        Where the leader fails, the others end as any that lose a process.
        """
        if not self.team.is_first:
            self._help()
        yield self.team.is_first
        if self.team.is_first:
            self.team.scatter([None] * self.team.size)

    def _help(self) -> None:
        part: _Part | None
        while (part := self.team.scatter(None)) is not None:
            items = self._load(part.model).item_codec(part.options)
            self.team.gather(_coded(items, part, on_batch=lambda num_rows: None))

    def code(self, items: ItemCodec, parts: Sequence[_Part], on_batch: Callable[[int], None]) -> list[Any]:
        """What becomes of the parts, one for each process; that of this one is coded by `items`."""
        own = self.team.scatter(parts)
        return self.team.gather(_coded(items, own, lambda num_rows: on_batch(self.team.size * num_rows)))


def _coded(items: ItemCodec, part: _Part, on_batch: Callable[[int], None]) -> Any:
    if not part.sizes:
        return [] if part.payloads is None else (part.values, {})
    how: Any = {**part.masks, "batch_size": part.batch_size, "on_batch": on_batch}
    if part.payloads is None:
        return items.encode_bundles(part.values, part.sizes, **how)
    x, damaged = items.try_decode_bundles(part.payloads, part.sizes, known=part.values, **how)
    return x.cpu(), damaged


class SharedItems:
    """What `CanvasCodec` needs of an `ItemCodec`, by workers."""

    def __init__(self, items: ItemCodec, workers: Workers, model: Path, options: Options) -> None:
        self._items, self._workers, self._model, self._options = items, workers, model, options
        self.measure_variables = items.measure_variables

    def encode_bundles(
        self,
        x: Int[Tensor, "N D"],
        sizes: Sequence[int],
        *,
        given: Bool[Tensor, "N D"],
        absent: Bool[Tensor, "N D"],
        batch_size: int,
        on_batch: Callable[[int], None],
    ) -> list[bytes]:
        """See `ItemCodec`."""
        parts = self._parts(x, sizes, None, {"given": given, "absent": absent}, batch_size)
        return [payload for payloads in self._workers.code(self._items, parts, on_batch) for payload in payloads]

    def try_decode_bundles(
        self,
        payloads: Sequence[bytes],
        sizes: Sequence[int],
        *,
        known: Int[Tensor, "N D"],
        given: Bool[Tensor, "N D"],
        absent: Bool[Tensor, "N D"],
        batch_size: int,
        on_batch: Callable[[int], None],
    ) -> tuple[Int[Tensor, "N D"], dict[int, str]]:
        """See `ItemCodec`."""
        parts = self._parts(known, sizes, payloads, {"given": given, "absent": absent}, batch_size)
        decoded = self._workers.code(self._items, parts, on_batch)
        damaged: dict[int, str] = {}
        first = 0
        for part, (_, errors) in zip(parts, decoded, strict=True):
            damaged |= {first + bundle: error for bundle, error in errors.items()}
            first += len(part.sizes)
        return torch.cat([x for x, _ in decoded]), damaged

    def _parts(
        self,
        values: Tensor,
        sizes: Sequence[int],
        payloads: Sequence[bytes] | None,
        masks: dict[str, Tensor],
        batch_size: int,
    ) -> list[_Part]:
        """A part for each process: bundles in turn, with about as many windows."""
        parts, first_item = [], 0
        for bundles in even_ranges(sizes, self._workers.team.size):
            own = list(sizes[bundles.start : bundles.stop])
            items = slice(first_item, first_item + sum(own))
            first_item = items.stop
            parts.append(
                _Part(
                    model=self._model,
                    options=self._options,
                    sizes=own,
                    masks={name: mask[items] for name, mask in masks.items()},
                    values=values[items],
                    payloads=None if payloads is None else list(payloads[bundles.start : bundles.stop]),
                    batch_size=batch_size,
                )
            )
        return parts


def even_ranges(sizes: Sequence[int], count: int) -> list[range]:
    """So many ranges of neighbours, some of which may be empty, whose sizes come to about the same."""
    ends, total, reached = [0], sum(sizes), 0
    for place, size in enumerate(sizes):
        while len(ends) < count and reached + size / 2 > total * len(ends) / count:
            ends.append(place)
        reached += size
    ends += [len(sizes)] * (count + 1 - len(ends))
    return [range(start, stop) for start, stop in itertools.pairwise(ends)]
