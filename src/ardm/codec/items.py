"""Items of one shape to payloads and back, with an exact network, an order for each stage and one schedule.

Groups are coded in the sequence of the schedule, stage by stage (see `calls`), each variable by its rank. Where a
variable takes several symbols (see `symbols`), the first symbols of a group's variables come before all second ones.
Since the network gives the same integers in every batch, the encoder evaluates many calls of an item at once, and the
decoder one call of many items; the payloads depend on neither.

Several items may share a payload, and with it the bits that every payload costs besides its symbols: a bundle. Its
items take turns: the first group of each that is not empty, then the second of each, and so on; where variables take
several symbols, the first symbols of all items' groups come before all second ones.

The check of a bundle is the 2-byte BLAKE2b hash, read as a little-endian number, of the values of its coded variables,
item by item, by rising index, each as a 32-bit little-endian number.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from ardm.codec.batching import DEFAULT_BATCHING, Batching, OnBatch, map_batches, packed, rows_per_batch
from ardm.codec.calls import Batch, Group, IntegerNetwork, Items, NetworkCaller
from ardm.codec.decoder import Streams
from ardm.codec.encoder import CHECK_BITS, Encoder
from ardm.codec.gpu import streams_for
from ardm.codec.symbols import SymbolMap, symbol_map
from ardm.codec.tables import WEIGHT_BITS
from ardm.names import Shape
from ardm.parametrizations import Parametrization
from ardm.schedule import Schedule

CPU = torch.device("cpu")
CodedGroups = list[tuple[np.ndarray, np.ndarray]]
"""Groups of symbols (N,) with their weights (N, C), in the decoder's sequence."""


class ItemCodec:
    """Codes items of one shape with an exact network, an order for each stage and a schedule of all variables.

    `sizes` are the numbers of neighbouring items that share a payload; by default each has its own.
    """

    def __init__(
        self,
        network: IntegerNetwork,
        parametrization: Parametrization,
        shape: Shape,
        orders: Int[np.ndarray, "S D"],
        schedule: Schedule,
        *,
        device: torch.device = CPU,
    ) -> None:
        self._caller = NetworkCaller(network, parametrization.depth, shape, orders, schedule, device)
        self._map, self._shape, self._device = symbol_map(parametrization), shape, device
        self._num_classes = parametrization.depth.num_classes
        self._absorbing_value = parametrization.depth.absorbing_value

    def encode(
        self, items: Items, sizes: Sequence[int] | None = None, batching: Batching = DEFAULT_BATCHING
    ) -> list[bytes]:
        """The payload of each bundle; values of absent variables are ignored."""
        items = self._checked(items, len(items.x), ~items.absent)
        values, coded, coded_items = items.x.cpu().numpy(), items.coded, self._coded_items(items, batching)
        payloads = []
        for bundle in _ranges([1] * len(values) if sizes is None else sizes):
            encoder = Encoder()
            for symbols, weights in _interleaved(list(itertools.islice(coded_items, len(bundle)))):
                encoder.write(symbols, weights)
            payloads.append(encoder.finish(_check(values, coded, bundle)))
        return payloads

    def measure(self, items: Items, batching: Batching = DEFAULT_BATCHING) -> Float64[np.ndarray, "N"]:
        """Bits per item, -log2 of the product of its weights / 2^24: its payload without rounding and check."""
        items = self._checked(items, len(items.x), ~items.absent)
        coded_items = self._coded_items(items, batching)
        return np.array([math.fsum(float(_symbol_bits(*pair).sum()) for pair in groups) for groups in coded_items])

    def measure_variables(self, items: Items, batching: Batching = DEFAULT_BATCHING) -> Float64[np.ndarray, "N D"]:
        """Bits per variable, which sum to those of `measure`; 0 for variables that are given or absent."""
        items = self._checked(items, len(items.x), ~items.absent)
        bits = np.zeros(tuple(items.x.shape))
        coded_items = self._coded_items(items, batching)
        for row, plan, groups in zip(bits, self._caller.plans(items), coded_items, strict=True):
            places = (group.variables for group in plan for _ in range(self._map.length))
            for variables, (symbols, weights) in zip(places, groups, strict=True):
                row[variables] += _symbol_bits(symbols, weights)
        return bits

    def decode(
        self,
        payloads: Sequence[bytes],
        sizes: Sequence[int] | None = None,
        known: Items | None = None,
        batching: Batching = DEFAULT_BATCHING,
    ) -> tuple[Int[Tensor, "N D"], dict[int, str]]:
        """The items, with 0 for absent variables, and the errors of damaged bundles, whose values are meaningless.

        A batch holds the bundles that fit, but at least one.
        """
        sizes = [1] * len(payloads) if sizes is None else sizes
        num_items, device = sum(sizes), self._device
        if known is None:
            known = Items.of(torch.zeros(num_items, self._caller.num_variables, dtype=torch.long))
        known = self._checked(known, num_items, known.given)
        x = known.x.clone()
        damaged: dict[int, str] = {}
        num_rows = rows_per_batch(num_items, batching.rows(self._shape, device), device)
        batches = list(packed(sizes, int, num_rows))
        bundle_ranges, item_ranges = (_ranges([count(batch) for batch in batches]) for count in (len, sum))

        def decode(batch: list[int], bundles: range, items: range) -> tuple[Int[Tensor, "B D"], dict[int, str]]:
            decoder = _Decoder(self._caller, self._map, known[_slice(items)], self._absorbing_value, _ranges(batch))
            values, errors = decoder.decode(payloads[_slice(bundles)], batching.on_batch)
            return values.cpu(), errors

        decoded = map_batches(device, decode, batches, bundle_ranges, item_ranges)
        for bundles, items, (values, errors) in zip(bundle_ranges, item_ranges, decoded, strict=True):
            x[_slice(items)] = values
            damaged |= {bundles[bundle]: error for bundle, error in errors.items()}
        return x, damaged

    def _checked(self, items: Items, num_items: int, needed: Bool[Tensor, "N D"]) -> Items:
        """The items on the network's device, with 0 where no value is needed; a ValueError if they are invalid."""
        shapes = [tuple(part.shape) for part in (items.x, items.given, items.absent)]
        if shapes != [(num_items, self._caller.num_variables)] * 3:
            expected = (num_items, self._caller.num_variables)
            raise ValueError(f"expected items and masks of shape {expected}, got {', '.join(map(str, shapes))}")
        given, absent = items.given.to(self._device), items.absent.to(self._device)
        if (given & absent).any():
            raise ValueError("a variable cannot be both given and absent")
        x = items.x.to(self._device, torch.long).masked_fill(~needed.to(self._device), 0)
        if ((x < 0) | (x >= self._num_classes)).any():
            raise ValueError(f"values must lie in 0..{self._num_classes - 1}, got {int(x.min())}..{int(x.max())}")
        return Items(x=x, given=given, absent=absent)

    def _coded_items(self, items: Items, batching: Batching) -> Iterator[CodedGroups]:
        """The coded groups of each item in turn."""
        plans = self._caller.plans(items)
        rows = ((item, group) for item, plan in enumerate(plans) for group in plan)
        batch_size = batching.rows(self._shape, self._device)
        num_rows = rows_per_batch(sum(map(len, plans)), batch_size, self._device)
        batches = iter(lambda: list(itertools.islice(rows, num_rows)), [])

        def code(groups: Sequence[tuple[int, Group]]) -> list[CodedGroups]:
            coded = self._coded_groups(items, self._caller.batch(*zip(*groups, strict=True)))
            batching.on_batch(len(groups))
            return coded

        coded_groups = itertools.chain.from_iterable(map_batches(self._device, code, batches))
        for plan in plans:
            yield [pair for _ in plan for pair in next(coded_groups)]

    def _coded_groups(self, items: Items, batch: Batch) -> list[CodedGroups]:
        """The symbols and weights of each group of a batch, from one call."""
        items = items[batch.items]
        mask = self._caller.mask(batch, items)
        level = (batch.stage[:, None] + mask).masked_fill(items.absent, 0)
        rows = self._caller.call(self._caller.at_level(items.x, level), mask, batch)
        symbols = self._map.symbols(rows, self._caller.at_level(items.x[rows.item, rows.variable], rows.stage + 1))
        weights = [self._map.weights(rows, symbols[:i]) for i in range(len(symbols))]
        columns = [(column.cpu().numpy(), row.cpu().numpy()) for column, row in zip(symbols, weights, strict=True)]
        return [[(column[begin:end], row[begin:end]) for column, row in columns] for begin, end in rows.bounds.tolist()]


class _Decoder:
    """Decodes items together, each by its own plan: in every turn the next group of each, in one call.

    The items of a bundle share a stream.
    """

    def __init__(
        self, caller: NetworkCaller, symbols: SymbolMap, known: Items, absorbing_value: int, bundles: list[range]
    ) -> None:
        self._caller, self._map, self._known, self._bundles = caller, symbols, known, bundles
        self._values = torch.full_like(known.x, absorbing_value)
        self._stream_of = np.arange(len(bundles)).repeat([len(items) for items in bundles])

    def decode(self, payloads: Sequence[bytes], on_batch: OnBatch) -> tuple[Int[Tensor, "B D"], dict[int, str]]:
        """The items, and the errors of damaged bundles."""
        plans = self._caller.plans(self._known)
        num_symbols = [
            self._map.length * sum(g.variables.size for plan in plans[_slice(items)] for g in plan)
            for items in self._bundles
        ]
        streams = streams_for(payloads, num_symbols, self._caller.device, self._map.gpu_width)
        for turn in range(max(map(len, plans), default=0)):
            intact = ~np.isin(self._stream_of, list(streams.damaged))
            items = [item for item in np.flatnonzero(intact).tolist() if turn < len(plans[item])]
            if items:
                self._decode_groups(streams, items, [plans[item][turn] for item in items])
                on_batch(len(items))
        x = torch.where(self._known.given, self._known.x, self._values).masked_fill(self._known.absent, 0)
        values, coded = x.cpu().numpy(), self._known.coded
        for number, bundle in enumerate(self._bundles):
            if streams.check(number) not in (None, _check(values, coded, bundle)):
                streams.damaged[number] = "its values do not match their check"
        return x, streams.damaged

    def _decode_groups(self, streams: Streams, items: Sequence[int], groups: Sequence[Group]) -> None:
        """Reveal one group of each of some items."""
        batch = self._caller.batch(items, groups)
        known = self._known[batch.items]
        values = self._caller.at_level(known.x, (batch.stage + 1)[:, None])
        inputs = torch.where(known.given, values, self._values[batch.items])
        rows = self._caller.call(inputs, self._caller.mask(batch, known), batch)
        symbols: list[Tensor] = []
        for _ in range(self._map.length):  # all first symbols of the groups' variables, then all second ones
            weights = self._map.weights(rows, symbols)
            symbols.append(streams.read(weights, rows.bounds, self._stream_of[items]))
        self._values[batch.items[rows.item], rows.variable] = self._map.child(rows, symbols)


def _check(x: Int[np.ndarray, "N D"], coded: Bool[np.ndarray, "N D"], items: range) -> int:
    values = x[_slice(items)][coded[_slice(items)]].astype("<u4").tobytes()
    return int.from_bytes(blake2b(values, digest_size=CHECK_BITS // 8).digest(), "little")


def _symbol_bits(symbols: Int[np.ndarray, "R"], weights: Int[np.ndarray, "R C"]) -> Float64[np.ndarray, "R"]:
    return WEIGHT_BITS - np.log2(np.take_along_axis(weights, symbols[:, None], axis=1)[:, 0])


def _slice(indices: range) -> slice:
    return slice(indices.start, indices.stop)


def _ranges(sizes: Sequence[int]) -> list[range]:
    """Neighbouring ranges of these sizes, starting at 0."""
    return [range(*bounds) for bounds in itertools.pairwise([0, *itertools.accumulate(sizes)])]


def _interleaved(coded_items: Sequence[CodedGroups]) -> CodedGroups:
    """The first entry of each item, then the second of each, and so on."""
    turns = itertools.zip_longest(*coded_items)
    return [group for turn in turns for group in turn if group is not None]
