"""Several items in one payload, so that what a payload costs besides its symbols is paid once.

The items of a bundle take turns: the first group of each that is not empty, then the second of each, and so on. Where
variables take several symbols, the first symbols of all items' groups come before all second ones. The check is that
of all values, item by item. A bundle of one item is what `items` makes of it.
"""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ardm.codec.coder import Decoder
from ardm.codec.items import Coded, ItemCodec, OnBatch, _Batch, _check, _payload
from ardm.errors import DamagedError


class BundleCodec(ItemCodec):
    """Codes items of one shape in bundles of the given sizes, which all items in turn fall in."""

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
        """The payload of each bundle; values of absent variables are ignored."""
        context = self._context(len(x), given, absent)
        x = self._checked(x, ~context.absent)
        values, coded = x.cpu().numpy(), context.coded
        coded_items = self._coded_items(x, context, batch_size, on_batch)
        payloads = []
        for items in ranges(sizes):
            in_turns = _in_turns(list(itertools.islice(coded_items, len(items))))
            payloads.append(_payload(in_turns, _check_of(values, coded, items)))
        return payloads

    def salvage_bundles(
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
        """The items, and what is wrong with bundles that are damaged (their values mean nothing).

        A batch has as many bundles as fit, and always one.
        """
        context = self._context(len(known), given, absent)
        known = self._checked(known, context.given)
        x = known.clone()
        damaged: dict[int, str] = {}
        first = start = 0
        for own_sizes in _batches(sizes, batch_size):
            items = torch.arange(start, start + sum(own_sizes), device=known.device)
            batch = _BundleBatch(self._caller, self._spelling, known[items], context.of(items), self._absorbing_value)
            batch.ranges = ranges(own_sizes)
            x[items] = batch.decode(payloads[first : first + len(own_sizes)], on_batch)
            damaged |= {first + place: error for place, error in batch.damaged.items()}
            first, start = first + len(own_sizes), start + sum(own_sizes)
        return x, damaged


class _BundleBatch(_Batch):
    """Bundles that are decoded together. The items of one share a decoder; damage is numbered by bundle."""

    ranges: list[range]
    """The items of each bundle."""

    def decode(self, payloads: Sequence[bytes], on_batch: OnBatch) -> Int[Tensor, "B D"]:
        """The items; `damaged` tells which bundles are not to be trusted."""
        plans = self._caller.plans(self._context)
        for payload, items in zip(payloads, self.ranges, strict=True):
            with self._noting_damage(items.start):
                num_variables = sum(group.variables.size for item in items for group in plans[item])
                decoder = Decoder(payload, num_variables * self._spelling.length)
                self._decoders |= dict.fromkeys(items, decoder)
        for turn in range(max(map(len, plans), default=0)):
            groups = {item: plans[item][turn] for item in self._decoders if turn < len(plans[item])}
            if groups:
                self._decode_groups(groups)
                on_batch(len(groups))
        x = torch.where(self._context.given, self._known, self._values).masked_fill(self._context.absent, 0)
        self._compare_checks(x.cpu().numpy())
        return x

    def _compare_checks(self, x: Int[np.ndarray, "B D"]) -> None:
        coded = self._context.coded
        for items in self.ranges:
            with self._noting_damage(items.start):
                decoder = self._decoders.get(items.start)
                if decoder is not None and decoder.finish() != _check_of(x, coded, items):
                    raise DamagedError("its values do not match their check")

    @contextmanager
    def _noting_damage(self, item: int) -> Iterator[None]:
        """Damage ends the decoding of the item's bundle alone."""
        try:
            yield
        except DamagedError as error:
            bundle = next(place for place, items in enumerate(self.ranges) if item in items)
            self.damaged[bundle] = str(error)
            for other in self.ranges[bundle]:
                self._decoders.pop(other, None)


def ranges(sizes: Sequence[int]) -> list[range]:
    """The numbers of the items of each bundle."""
    return [range(*bounds) for bounds in itertools.pairwise([0, *itertools.accumulate(sizes)])]


def _batches(sizes: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """The sizes in turn, in lists of a limited sum, or of one size."""
    batch: list[int] = []
    total = 0
    for size in sizes:
        if batch and total + size > batch_size:
            yield batch
            batch, total = [], 0
        batch.append(size)
        total += size
    if batch:
        yield batch


def _in_turns(coded_items: Sequence[Coded]) -> Coded:
    """The symbols of several items; those of each are a list of groups, one for each symbol of a variable."""
    turns = itertools.zip_longest(*coded_items)
    return [group for turn in turns for group in turn if group is not None]


def _check_of(x: Int[np.ndarray, "N D"], coded: Bool[np.ndarray, "N D"], items: range) -> int:
    own = slice(items.start, items.stop)
    return _check(x[own].ravel(), coded[own].ravel())
