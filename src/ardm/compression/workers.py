"""Coding shared by the processes of a team, of which only the first one handles files, names and reports.

The first process compresses or restores as if it were alone, but scatters the bundles of windows that fill the
network's batches among all processes. A bundle's bytes depend on nothing outside it, so they are the same as with a
single process. The other processes receive their bundles with the path of the model, and do nothing else.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from ardm.codec.batching import Batching
from ardm.codec.calls import Items
from ardm.codec.format.options import Options
from ardm.codec.items import ItemCodec
from ardm.compression.content_codec import ContentCodec
from ardm.runtime.team import Team

T = TypeVar("T")


@dataclass(frozen=True)
class _Part:
    """The bundles that one process codes."""

    model: Path
    options: Options
    sizes: list[int]
    """Windows per bundle."""
    items: Items
    payloads: list[bytes] | None
    """The payloads to decode; None to encode the items."""
    batch_size: int | None


class Workers:
    """The coding processes of a team, each of which loads the codecs of models by their paths."""

    def __init__(self, team: Team, load: Callable[[Path], ContentCodec]) -> None:
        self.team, self._load = team, cache(load)

    def codec(self, model: Path) -> ContentCodec:
        """The codec of a model, whose work all processes share."""
        codec = self._load(model)
        if self.team.size > 1:
            codec.share_items = lambda items, options: SharedItems(items, self, model, options)
        return codec

    def run_on_leader(self, work: Callable[["Workers"], T]) -> T | None:
        """The result of `work`, which the first process runs with the help of the others; None in the others.

        If it fails, the others end as they do whenever a process is lost.
        """
        if not self.team.is_first:
            part: _Part | None
            while (part := self.team.scatter(None)) is not None:
                items = self._load(part.model).item_codec(part.options)
                self.team.gather(_coded(items, part, Batching(batch_size=part.batch_size)))
            return None
        result = work(self)
        self.team.scatter([None] * self.team.size)
        return result

    def code(self, items: ItemCodec, parts: Sequence[_Part], batching: Batching) -> list[Any]:
        """The results of all processes, each of which codes one part; `items` codes this process's part."""
        part = self.team.scatter(parts)
        scaled = replace(batching, on_batch=lambda num_rows: batching.on_batch(self.team.size * num_rows))
        return self.team.gather(_coded(items, part, scaled))


def _coded(items: ItemCodec, part: _Part, batching: Batching) -> Any:
    if not part.sizes:
        return [] if part.payloads is None else (part.items.x, {})
    if part.payloads is None:
        return items.encode(part.items, part.sizes, batching)
    x, damaged = items.decode(part.payloads, part.sizes, part.items, batching)
    return x.cpu(), damaged


class SharedItems:
    """A codec of bundles that divides its work among workers."""

    def __init__(self, items: ItemCodec, workers: Workers, model: Path, options: Options) -> None:
        self._items, self._workers, self._model, self._options = items, workers, model, options
        self.measure_variables = items.measure_variables

    def encode(self, items: Items, sizes: Sequence[int], batching: Batching) -> list[bytes]:
        """See `ItemCodec`."""
        parts = self._parts(items, sizes, None, batching)
        return [payload for payloads in self._workers.code(self._items, parts, batching) for payload in payloads]

    def decode(
        self, payloads: Sequence[bytes], sizes: Sequence[int], known: Items, batching: Batching
    ) -> tuple[Int[Tensor, "N D"], dict[int, str]]:
        """See `ItemCodec`."""
        parts = self._parts(known, sizes, payloads, batching)
        decoded = self._workers.code(self._items, parts, batching)
        damaged: dict[int, str] = {}
        first = 0
        for part, (_, errors) in zip(parts, decoded, strict=True):
            damaged |= {first + bundle: error for bundle, error in errors.items()}
            first += len(part.sizes)
        return torch.cat([x for x, _ in decoded]), damaged

    def _parts(
        self, items: Items, sizes: Sequence[int], payloads: Sequence[bytes] | None, batching: Batching
    ) -> list[_Part]:
        """A part for each process: neighbouring bundles, with about equal numbers of windows."""
        parts, first_item = [], 0
        for bundles in even_ranges(sizes, self._workers.team.size):
            part_sizes = list(sizes[bundles.start : bundles.stop])
            end_item = first_item + sum(part_sizes)
            own_payloads = None if payloads is None else list(payloads[bundles.start : bundles.stop])
            own_items = items[first_item:end_item]
            parts.append(_Part(self._model, self._options, part_sizes, own_items, own_payloads, batching.batch_size))
            first_item = end_item
        return parts


def even_ranges(sizes: Sequence[int], count: int) -> list[range]:
    """Consecutive ranges, some of which may be empty, with about equal sums of sizes."""
    ends, total, reached = [0], sum(sizes), 0
    for place, size in enumerate(sizes):
        while len(ends) < count and reached + size / 2 > total * len(ends) / count:
            ends.append(place)
        reached += size
    ends += [len(sizes)] * (count + 1 - len(ends))
    return [range(start, stop) for start, stop in itertools.pairwise(ends)]
