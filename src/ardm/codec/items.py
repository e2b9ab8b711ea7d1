"""Items of one shape to payloads and back, with an exact network, one order and one schedule.

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
from contextlib import contextmanager
from hashlib import blake2b

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from ardm.codec.bundles import Coded, batches, in_turns, ranges
from ardm.codec.calls import Caller, Context, Group, IntegerNetwork, Rows
from ardm.codec.coder import CHECK_BITS, Decoder, Encoder
from ardm.codec.frequencies import Weights
from ardm.codec.symbols import Spelling, spelling_of
from ardm.codec.tables import WEIGHT_BITS
from ardm.errors import DamagedError
from ardm.orders import Order
from ardm.parametrizations import Parametrization
from ardm.schedule import Schedule

CPU = torch.device("cpu")

OnBatch = Callable[[int], None]


def _ignore(num_rows: int) -> None:
    pass


class ItemCodec:
    """Codes items of one shape with an exact network, an order and a schedule of all variables.

    In every method masks say which variables are given (the decoder knows them) and which are absent (they are left
    out). `batch_size` bounds the rows that the network evaluates at once and does not change any result; after each
    batch `on_batch` learns their number.
    """

    def __init__(
        self,
        network: IntegerNetwork,
        parametrization: Parametrization,
        shape: tuple[int, ...],
        order: Order,
        schedule: Schedule,
        *,
        device: torch.device = CPU,
    ) -> None:
        self._caller = Caller(network, parametrization.depth, shape, order, schedule, device)
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
        return self.salvage_bundles(
            payloads,
            [1] * len(payloads),
            known=known,
            given=given,
            absent=absent,
            batch_size=batch_size,
            on_batch=on_batch,
        )

    def salvage_bundles(
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

        A batch has as many bundles as fit, and always one.
        """
        num_items = sum(sizes)
        context = self._context(num_items, given, absent)
        nothing = torch.zeros(num_items, self._caller.num_variables, dtype=torch.long)
        known = self._checked(nothing if known is None else known, context.given)
        x = known.clone()
        damaged: dict[int, str] = {}
        first = start = 0
        for own_sizes in batches(sizes, batch_size):
            items = torch.arange(start, start + sum(own_sizes), device=known.device)
            context_here, bundles = context.of(items), ranges(own_sizes)
            batch = _Batch(self._caller, self._spelling, known[items], context_here, self._absorbing_value, bundles)
            x[items] = batch.decode(payloads[first : first + len(own_sizes)], on_batch)
            damaged |= {first + bundle: error for bundle, error in batch.damaged.items()}
            first, start = first + len(own_sizes), start + sum(own_sizes)
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
        batches = iter(lambda: list(itertools.islice(rows, batch_size)), [])
        coded_groups = itertools.chain.from_iterable(self._coded_groups(x, context, b, on_batch) for b in batches)
        for plan in plans:
            yield [pair for _ in plan for pair in next(coded_groups)]

    def _coded_groups(
        self, x: Int[Tensor, "N D"], context: Context, batch: Sequence[tuple[int, Group]], on_batch: OnBatch
    ) -> Iterator[Coded]:
        """The symbols of several groups of any items, from one call."""
        items = self._caller.tensor([item for item, _ in batch])
        groups = [group for _, group in batch]
        context, x = context.of(items), x[items]
        mask, stage = self._caller.mask(groups, context), self._caller.tensor([group.stage for group in groups])
        level = (stage[:, None] + mask).masked_fill(context.absent, 0)
        rows = self._caller.call(self._caller.at_level(x, level), mask, groups)
        item, variable, level = map(self._caller.tensor, (rows.item, rows.variable, rows.stage + 1))
        children = self._caller.at_level(x[item, variable], level).cpu().numpy()
        on_batch(len(batch))
        yield from self._spelled(rows, children)

    def _spelled(self, rows: Rows, children: Int[np.ndarray, "R"]) -> Iterator[Coded]:
        """For each group the symbols of its children."""
        symbols = self._spelling.symbols(rows.stage, rows.parent, children)
        positions = range(self._spelling.length)
        weights = [self._spelling.weights(rows.outputs, rows.stage, rows.parent, symbols[:, :i]) for i in positions]
        for begin, end in rows.bounds:
            yield [(symbols[begin:end, i], weights[i][begin:end]) for i in positions]


class _Batch:
    """Items that are decoded together, each by its own plan: in every turn the next group of each, by one call.

    The items of a bundle share a decoder; damage is numbered by bundle.
    """

    def __init__(
        self,
        caller: Caller,
        spelling: Spelling,
        known: Int[Tensor, "B D"],
        context: Context,
        absorbing_value: int,
        bundles: list[range],
    ) -> None:
        self.damaged: dict[int, str] = {}
        self._caller, self._spelling = caller, spelling
        self._known, self._context, self._bundles = known, context, bundles
        self._values = torch.full_like(known, absorbing_value)
        self._decoders: dict[int, Decoder] = {}

    def decode(self, payloads: Sequence[bytes], on_batch: OnBatch) -> Int[Tensor, "B D"]:
        """The items; `damaged` tells which bundles are not to be trusted."""
        plans = self._caller.plans(self._context)
        for payload, items in zip(payloads, self._bundles, strict=True):
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

    def _decode_groups(self, groups: dict[int, Group]) -> None:
        """Reveal one group of each of some items."""
        items = self._caller.tensor(list(groups))
        rows = self._call(items, list(groups.values()))
        symbols = np.zeros((len(rows.parent), self._spelling.length), np.int64)
        for i in range(self._spelling.length):
            weights = self._spelling.weights(rows.outputs, rows.stage, rows.parent, symbols[:, :i])
            for item, (begin, end) in zip(groups, rows.bounds, strict=True):
                self._read(item, weights[begin:end], symbols[begin:end, i])
        children = self._spelling.child(rows.stage, rows.parent, symbols)
        place, variable, child = map(self._caller.tensor, (rows.item, rows.variable, children))
        self._values[items[place], variable] = child

    def _call(self, items: Int[Tensor, "B"], groups: Sequence[Group]) -> Rows:
        context = self._context.of(items)
        level = self._caller.tensor([group.stage + 1 for group in groups])
        known = self._caller.at_level(self._known[items], level[:, None])
        inputs = torch.where(context.given, known, self._values[items])
        return self._caller.call(inputs, self._caller.mask(groups, context), groups)

    def _read(self, item: int, weights: Weights, symbols: Int[np.ndarray, "G"]) -> None:
        """Fill in the next symbols of an item that is not damaged so far."""
        if item in self._decoders:
            with self._noting_damage(item):
                symbols[:] = self._decoders[item].read(weights)

    def _compare_checks(self, x: Int[np.ndarray, "B D"]) -> None:
        coded = self._context.coded
        for items in self._bundles:
            with self._noting_damage(items.start):
                decoder = self._decoders.get(items.start)
                if decoder is not None and decoder.finish() != _check(x, coded, items):
                    raise DamagedError("its values do not match their check")

    @contextmanager
    def _noting_damage(self, item: int) -> Iterator[None]:
        """Damage ends the decoding of the item's bundle alone."""
        try:
            yield
        except DamagedError as error:
            bundle = next(place for place, items in enumerate(self._bundles) if item in items)
            self.damaged[bundle] = str(error)
            for other in self._bundles[bundle]:
                self._decoders.pop(other, None)


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
    chosen = [np.take_along_axis(weights, symbols[:, None], axis=1) for symbols, weights in coded]
    return math.fsum(float((WEIGHT_BITS - np.log2(weights)).sum()) for weights in chosen)
