"""Items of one shape to payloads and back, with an exact network, an order for each stage and one schedule.

Groups are coded in the sequence of the schedule, stage by stage (see `calls`), each variable by its rank. Where a
variable takes several symbols (see `symbols`), the first symbols of a group's variables come before all second ones.
Since the network gives the same integers in every batch, the encoder evaluates many calls of an item at once, and the
decoder one call of many items; the payloads depend on neither.

Several items may share a payload, so that what it costs besides its symbols is paid once: a bundle. Its items take
turns: the first group of each that is not empty, then the second of each, and so on; where variables take several
symbols, the first symbols of all items' groups come before all second ones.

The check of a bundle, or of an item, is the 2-byte BLAKE2b hash, read as a little-endian number, of the values of its
coded variables, item by item, by rising index, each as a 32-bit little-endian number.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from ardm.codec.bundles import Coded, batches, in_turns, ranges
from ardm.codec.calls import Batch, Context, Group, IntegerNetwork, NetworkCaller, Rows
from ardm.codec.coder import CHECK_BITS, Encoder
from ardm.codec.gpu import streams_for
from ardm.codec.streams import Streams
from ardm.codec.symbols import Spelling, spelling_of
from ardm.codec.tables import WEIGHT_BITS
from ardm.codec.threads import in_threads, rows_of_a_batch
from ardm.errors import DamagedError
from ardm.parametrizations import Parametrization
from ardm.schedule import Schedule

CPU = torch.device("cpu")
OnBatch = Callable[[int], None]


def _ignore(num_rows: int) -> None:
    pass


class ItemCodec:
    """Codes items of one shape with an exact network, an order for each stage and a schedule of all variables.

    In every method masks say which variables are given (the decoder knows them) and which are absent (they are left
    out). `batch_size` bounds the rows that the network evaluates at once and does not change any result; after each
    batch `on_batch` learns their number.
    """

    def __init__(
        self,
        network: IntegerNetwork,
        parametrization: Parametrization,
        shape: tuple[int, ...],
        orders: Int[np.ndarray, "S D"],
        schedule: Schedule,
        *,
        device: torch.device = CPU,
    ) -> None:
        self._caller = NetworkCaller(network, parametrization.depth, shape, orders, schedule, device)
        self._spelling = spelling_of(parametrization)
        self._num_classes = parametrization.depth.num_classes
        self._absorbing_value = parametrization.depth.absorbing_value

    def encode(
        self,
        x: Int[Tensor, "N D"],
        *,
        given: Bool[Tensor, "N D"] | None = None,
        absent: Bool[Tensor, "N D"] | None = None,
        batch_size: int = 64,
        on_batch: OnBatch = _ignore,
    ) -> list[bytes]:
        """The payload of each item; values of absent variables are ignored."""
        return self.encode_bundles(
            x, [1] * len(x), given=given, absent=absent, batch_size=batch_size, on_batch=on_batch
        )

    def encode_bundles(
        self,
        x: Int[Tensor, "N D"],
        sizes: Sequence[int],
        *,
        given: Bool[Tensor, "N D"] | None = None,
        absent: Bool[Tensor, "N D"] | None = None,
        batch_size: int = 64,
        on_batch: OnBatch = _ignore,
    ) -> list[bytes]:
        """The payload of each bundle of so many items; all items in turn fall in them."""
        context = self._context(len(x), given, absent)
        x = self._checked(x, ~context.absent)
        values, coded = x.cpu().numpy(), context.coded
        coded_items = self._coded_items(x, context, batch_size, on_batch)
        payloads = []
        for items in ranges(sizes):
            together = in_turns(list(itertools.islice(coded_items, len(items))))
            payloads.append(_payload(together, _check(values, coded, items)))
        return payloads

    def measure(
        self,
        x: Int[Tensor, "N D"],
        *,
        given: Bool[Tensor, "N D"] | None = None,
        absent: Bool[Tensor, "N D"] | None = None,
        batch_size: int = 64,
        on_batch: OnBatch = _ignore,
    ) -> Float64[np.ndarray, "N"]:
        """-log2 of the product of each item's weights / 2^24: what its payload comes to without rounding and check."""
        context = self._context(len(x), given, absent)
        x = self._checked(x, ~context.absent)
        return np.array([_bits(coded) for coded in self._coded_items(x, context, batch_size, on_batch)], np.float64)

    def measure_variables(
        self,
        x: Int[Tensor, "N D"],
        *,
        given: Bool[Tensor, "N D"] | None = None,
        absent: Bool[Tensor, "N D"] | None = None,
        batch_size: int = 64,
        on_batch: OnBatch = _ignore,
    ) -> Float64[np.ndarray, "N D"]:
        """What each variable adds to `measure`; 0 for those that are given or absent."""
        context = self._context(len(x), given, absent)
        x = self._checked(x, ~context.absent)
        bits = np.zeros(tuple(x.shape), np.float64)
        coded_items = self._coded_items(x, context, batch_size, on_batch)
        for own, plan, coded in zip(bits, self._caller.plans(context), coded_items, strict=True):
            places = (group.variables for group in plan for _ in range(self._spelling.length))
            for variables, (symbols, weights) in zip(places, coded, strict=True):
                own[variables] += _symbol_bits(symbols, weights)
        return bits

    def decode(
        self,
        payloads: Sequence[bytes],
        *,
        known: Int[Tensor, "N D"] | None = None,
        given: Bool[Tensor, "N D"] | None = None,
        absent: Bool[Tensor, "N D"] | None = None,
        batch_size: int = 64,
        on_batch: OnBatch = _ignore,
    ) -> Int[Tensor, "N D"]:
        """The items; `known` holds the values of given variables, and absent ones come out as 0.

        A `DamagedError` names the first item that is not what was encoded.
        """
        x, damaged = self.salvage(
            payloads, known=known, given=given, absent=absent, batch_size=batch_size, on_batch=on_batch
        )
        if damaged:
            item = min(damaged)
            raise DamagedError(f"item {item} is damaged: {damaged[item]}")
        return x

    def salvage(
        self,
        payloads: Sequence[bytes],
        *,
        known: Int[Tensor, "N D"] | None = None,
        given: Bool[Tensor, "N D"] | None = None,
        absent: Bool[Tensor, "N D"] | None = None,
        batch_size: int = 64,
        on_batch: OnBatch = _ignore,
    ) -> tuple[Int[Tensor, "N D"], dict[int, str]]:
        """The items, and what is wrong with those that are damaged (their values mean nothing)."""
        return self.try_decode_bundles(
            payloads,
            [1] * len(payloads),
            known=known,
            given=given,
            absent=absent,
            batch_size=batch_size,
            on_batch=on_batch,
        )

    def try_decode_bundles(
        self,
        payloads: Sequence[bytes],
        sizes: Sequence[int],
        *,
        known: Int[Tensor, "N D"] | None = None,
        given: Bool[Tensor, "N D"] | None = None,
        absent: Bool[Tensor, "N D"] | None = None,
        batch_size: int = 64,
        on_batch: OnBatch = _ignore,
    ) -> tuple[Int[Tensor, "N D"], dict[int, str]]:
        """The items, and what is wrong with bundles that are damaged (their values mean nothing).

        A batch has as many bundles as fit, and always one. A GPU has several smaller ones at a time: it computes for
        some while the symbols of others are read.
        """
        num_items = sum(sizes)
        context = self._context(num_items, given, absent)
        nothing = torch.zeros(num_items, self._caller.num_variables, dtype=torch.long)
        known = self._checked(nothing if known is None else known, context.given)
        x = known.clone()
        damaged: dict[int, str] = {}
        own_sizes = list(batches(sizes, rows_of_a_batch(num_items, batch_size, self._caller.device)))
        of_bundles, of_items = (ranges([count(own) for own in own_sizes]) for count in (len, sum))

        def decode(own: list[int], bundles: range, items: range) -> tuple[Int[Tensor, "B D"], dict[int, str]]:
            index = torch.arange(items.start, items.stop, device=known.device)
            here = context.of(index)
            batch = _Batch(self._caller, self._spelling, known[index], here, self._absorbing_value, ranges(own))
            values, errors = batch.decode(payloads[bundles.start : bundles.stop], on_batch)
            return values.cpu(), errors

        decoded = in_threads(self._caller.device, decode, own_sizes, of_bundles, of_items)
        for bundles, items, (values, damaged_here) in zip(of_bundles, of_items, decoded, strict=True):
            x[items.start : items.stop] = values
            damaged |= {bundles[bundle]: error for bundle, error in damaged_here.items()}
        return x, damaged

    def _context(self, num_items: int, given: Tensor | None, absent: Tensor | None) -> Context:
        shape, device = (num_items, self._caller.num_variables), self._caller.device
        for mask in (given, absent):
            if mask is not None and tuple(mask.shape) != shape:
                raise ValueError(f"expected masks of shape {shape}, got {tuple(mask.shape)}")
        nowhere = torch.zeros(1, 1, dtype=torch.bool, device=device).expand(shape)
        given, absent = (nowhere if mask is None else mask.to(device) for mask in (given, absent))
        if (given & absent).any():
            raise ValueError("a variable cannot be both given and absent")
        return Context(given=given, absent=absent)

    def _checked(self, x: Tensor, needed: Bool[Tensor, "N D"]) -> Int[Tensor, "N D"]:
        """The items on the network's device, with 0 where no value is needed; a ValueError for wrong ones."""
        if x.shape != needed.shape:
            raise ValueError(f"expected items of shape {tuple(needed.shape)}, got {tuple(x.shape)}")
        x = x.to(self._caller.device, torch.long).masked_fill(~needed, 0)
        if ((x < 0) | (x >= self._num_classes)).any():
            raise ValueError(f"values must lie in 0..{self._num_classes - 1}, got {int(x.min())}..{int(x.max())}")
        return x

    def _coded_items(
        self, x: Int[Tensor, "N D"], context: Context, batch_size: int, on_batch: OnBatch
    ) -> Iterator[Coded]:
        """The symbols of one item after the other."""
        plans = self._caller.plans(context)
        rows = ((item, group) for item, plan in enumerate(plans) for group in plan)
        num_rows = rows_of_a_batch(sum(map(len, plans)), batch_size, self._caller.device)
        batches = iter(lambda: list(itertools.islice(rows, num_rows)), [])
        coded = in_threads(self._caller.device, lambda batch: self._coded_groups(x, context, batch, on_batch), batches)
        coded_groups = itertools.chain.from_iterable(coded)
        for plan in plans:
            yield [pair for _ in plan for pair in next(coded_groups)]

    def _coded_groups(
        self, x: Int[Tensor, "N D"], context: Context, batch: Sequence[tuple[int, Group]], on_batch: OnBatch
    ) -> list[Coded]:
        """The symbols of several groups of any items, from one call."""
        call = self._caller.batch(*zip(*batch, strict=True))
        context, x = context.of(call.items), x[call.items]
        mask = self._caller.mask(call, context)
        level = (call.stage[:, None] + mask).masked_fill(context.absent, 0)
        rows = self._caller.call(self._caller.at_level(x, level), mask, call)
        children = self._caller.at_level(x[rows.item, rows.variable], rows.stage + 1)
        on_batch(len(batch))
        return self._spelled(rows, children)

    def _spelled(self, rows: Rows, children: Int[Tensor, "R"]) -> list[Coded]:
        """For each group the symbols of its children."""
        symbols = self._spelling.symbols(rows.stage, rows.parent, children)
        outputs, stage, parent = rows.outputs, rows.stage, rows.parent
        weights = [self._spelling.weights(outputs, stage, parent, symbols[:i]) for i in range(len(symbols))]
        words = [(column.cpu().numpy(), own.cpu().numpy()) for column, own in zip(symbols, weights, strict=True)]
        return [[(column[begin:end], own[begin:end]) for column, own in words] for begin, end in rows.bounds.tolist()]


class _Batch:
    """Items that are decoded together, each by its own plan: in every turn the next group of each, by one call.

    The items of a bundle share a stream.
    """

    def __init__(
        self,
        caller: NetworkCaller,
        spelling: Spelling,
        known: Int[Tensor, "B D"],
        context: Context,
        absorbing_value: int,
        bundles: list[range],
    ) -> None:
        self._caller, self._spelling = caller, spelling
        self._known, self._context, self._bundles = known, context, bundles
        self._values = torch.full_like(known, absorbing_value)
        self._stream_of = np.arange(len(bundles)).repeat([len(items) for items in bundles])

    def decode(self, payloads: Sequence[bytes], on_batch: OnBatch) -> tuple[Int[Tensor, "B D"], dict[int, str]]:
        """The items, and what is wrong with bundles that are damaged."""
        plans = self._caller.plans(self._context)
        num_symbols = [self._num_symbols(plans[items.start : items.stop]) for items in self._bundles]
        streams = streams_for(payloads, num_symbols, self._caller.device, self._spelling.gpu_width)
        for turn in range(max(map(len, plans), default=0)):
            items = [
                item
                for item, stream in enumerate(self._stream_of.tolist())
                if turn < len(plans[item]) and stream not in streams.damaged
            ]
            if items:
                self._decode_groups(streams, items, [plans[item][turn] for item in items])
                on_batch(len(items))
        x = torch.where(self._context.given, self._known, self._values).masked_fill(self._context.absent, 0)
        self._compare_checks(streams, x.cpu().numpy())
        return x, streams.damaged

    def _num_symbols(self, plans: Sequence[Sequence[Group]]) -> int:
        return self._spelling.length * sum(group.variables.size for plan in plans for group in plan)

    def _decode_groups(self, streams: Streams, items: Sequence[int], groups: Sequence[Group]) -> None:
        """Reveal one group of each of some items."""
        call = self._caller.batch(items, groups)
        rows = self._call(call)
        symbols = self._symbols(streams, rows, self._stream_of[items])
        self._values[call.items[rows.item], rows.variable] = self._spelling.child(rows.stage, rows.parent, symbols)

    def _call(self, call: Batch) -> Rows:
        context = self._context.of(call.items)
        known = self._caller.at_level(self._known[call.items], (call.stage + 1)[:, None])
        inputs = torch.where(context.given, known, self._values[call.items])
        return self._caller.call(inputs, self._caller.mask(call, context), call)

    def _symbols(self, streams: Streams, rows: Rows, stream_of: Int[np.ndarray, "B"]) -> list[Int[Tensor, "R"]]:
        """The next symbols of each group's stream: those of one place in the words, then of the next."""
        symbols: list[Tensor] = []
        for _ in range(self._spelling.length):
            weights = self._spelling.weights(rows.outputs, rows.stage, rows.parent, symbols)
            symbols.append(streams.read(weights, rows.bounds, stream_of))
        return symbols

    def _compare_checks(self, streams: Streams, x: Int[np.ndarray, "B D"]) -> None:
        coded = self._context.coded
        for bundle, items in enumerate(self._bundles):
            if streams.check(bundle) not in (None, _check(x, coded, items)):
                streams.damaged[bundle] = "its values do not match their check"


def _check(x: Int[np.ndarray, "N D"], coded: Bool[np.ndarray, "N D"], items: range) -> int:
    own = slice(items.start, items.stop)
    values = x[own][coded[own]].astype("<u4").tobytes()
    return int.from_bytes(blake2b(values, digest_size=CHECK_BITS // 8).digest(), "little")


def _payload(coded: Coded, check: int) -> bytes:
    encoder = Encoder()
    for symbols, weights in coded:
        encoder.write(symbols, weights)
    return encoder.finish(check)


def _bits(coded: Coded) -> float:
    return math.fsum(float(_symbol_bits(symbols, weights).sum()) for symbols, weights in coded)


def _symbol_bits(symbols: Int[np.ndarray, "R"], weights: Int[np.ndarray, "R C"]) -> Float64[np.ndarray, "R"]:
    return WEIGHT_BITS - np.log2(np.take_along_axis(weights, symbols[:, None], axis=1)[:, 0])
