"""Contents to entries and back with exact models: many at once, in common batches."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from ardm.checkpoint import TrainedModel
from ardm.codec.canvases import Batching, BundleCodec, CanvasCodec
from ardm.codec.format.entries import Coded, Entry, Limits, Raw, or_raw
from ardm.codec.format.options import Options, OrderChoice, find_identity, short_identity
from ardm.codec.format.short import SHORT_DIGITS, Short, is_short, read_short, write_short
from ardm.codec.format.single import read_single, write_single
from ardm.codec.items import ItemCodec
from ardm.codec.plan import orders_and_schedule
from ardm.codec.windows import Canvas, num_bundles
from ardm.errors import ArdmError, DamagedError, DataError, UnknownModelError, UsageError
from ardm.media.contents import Content
from ardm.media.layout import Placement
from ardm.media.layouts import layout_of, own_fields
from ardm.schedule import Schedule

MAX_ITEM_CODECS = 16
Restored = Content | ArdmError
"""A content, or why there is none."""
ShareItems = Callable[[ItemCodec, Options], BundleCodec]
"""What shares the work of a codec of items for some options with others."""


class ContentCodec:
    """Codes contents with an exact model."""

    def __init__(self, trained: TrainedModel) -> None:
        if trained.exact is None:
            raise UsageError("this model holds trained weights; make an exact model of it with `ardm export`")
        self.identity, self.sample_rate = trained.exact.identity, trained.sample_rate
        self.layout, self._own_fields = layout_of(trained), own_fields(trained)
        self._exact, self._model, self._shape = trained.exact, trained.model, trained.model.shape
        self._device = next(trained.exact.network.buffers()).device
        self._item_codecs: dict[Options, ItemCodec] = {}
        self._shared: ShareItems = lambda items, options: items

    def share_items(self, shared: "ShareItems") -> None:
        """Have bundles coded by what a function makes of the codec of items for some options."""
        self._shared = shared

    def options(self, num_calls: int | None = None, order: OrderChoice | None = None) -> Options:
        """The model's own options, or the richest schedule within a number of calls and another order."""
        coding = self._exact.coding
        schedule = None if num_calls is None else coding.schedule_for(num_calls)
        return Options(
            model=short_identity(self.identity),
            order=None if order == coding.order else order,
            schedule=None if schedule == coding.default else schedule,
        )

    def encode(self, contents: Sequence[Content], options: Options, batching: Batching) -> list[Entry]:
        """The entries of contents, raw where coding would expand; each must pass `place`."""
        placements = [self.place(content) for content in contents]
        canvases = [canvas for one in placements for canvas in one.canvases]
        payloads = iter(self._canvas_codec(options, batching).encode(canvases))
        chunks = [tuple(payload for _ in one.canvases for payload in next(payloads)) for one in placements]
        return [self._entry(*parts, options) for parts in zip(contents, placements, chunks, strict=True)]

    def _entry(self, content: Content, placement: Placement, chunks: tuple[bytes, ...], options: Options) -> Entry:
        if not chunks:
            return Entry(fields=content.fields, content=Raw(content=content.raw))
        coded = Coded(options=options, chunks=chunks, side=placement.side)
        return or_raw(Entry(fields=content.fields, content=coded), content.raw, self.file_of)

    def measure(self, content: Content, options: Options, batching: Batching) -> list[Float64[np.ndarray, "..."]]:
        """The bits of every place of each canvas that a content lies on; side bytes and rounding come on top."""
        return self._canvas_codec(options, batching).measure(self.place(content).canvases)

    def file_of(self, entry: Entry) -> bytes:
        """The compressed file of an entry: a short one where the model can tell all but the payload."""
        if isinstance(entry.content, Coded):
            payload = entry.content.chunks[0]
            if payload and entry == self.own_entry(payload):
                return write_short(Short(model=self.identity.hex()[:SHORT_DIGITS], payload=payload))
        return write_single(entry)

    def own_entry(self, payload: bytes) -> Entry:
        """The entry that a short file of this model stands for."""
        return Entry(fields=self._own_fields, content=Coded(options=self.options(), chunks=(payload,)))

    def place(self, content: Content) -> Placement:
        """A content laid out for the model; a DataError or TooLargeError if it is of another medium or too large."""
        if not self.layout.takes(content.fields):
            raise DataError(f"this model is for {self.layout.title}, and this content is {content.fields.kind}")
        Limits().check("content_bytes", content.fields.content_bytes)
        placement = self.layout.place(content) if content.raw else Placement(canvases=[])
        Limits().check("chunks", sum(num_bundles(canvas.values.shape, self._shape) for canvas in placement.canvases))
        return placement

    def decode(self, entries: Sequence[Entry], batching: Batching) -> list[Restored]:
        """The contents of entries that are raw or coded by this model, or what is wrong with them."""
        opened = [self._opened(entry) for entry in entries]
        groups: dict[Options, list[_Opened]] = {}
        for one in opened:
            if isinstance(one, _Opened):
                groups.setdefault(one.coded.options, []).append(one)
        for options, group in groups.items():
            self._decode_group(group, self._canvas_codec(options, batching))
        return [self._restored(one) if isinstance(one, _Opened) else one for one in opened]

    def _opened(self, entry: Entry) -> "_Opened | Restored":
        """A coded entry with blank canvases, once its numbers fit each other."""
        if isinstance(entry.content, Raw):
            return Content(fields=entry.fields, raw=entry.content.content)
        try:
            find_identity(entry.content.options.model.hex(), [self.identity])
            chunks = self._chunks_of_canvases(entry, entry.content)
            canvases = self.layout.blank(entry.fields, entry.content.side)
        except (DamagedError, UnknownModelError) as error:
            return error
        return _Opened(entry=entry, coded=entry.content, canvases=canvases, chunks=chunks)

    def _chunks_of_canvases(self, entry: Entry, coded: Coded) -> list[list[bytes]]:
        """The chunks as they belong to the canvases that the entry has by its fields."""
        num_schedules = len(self._exact.coding.schedules)
        if coded.options.schedule is not None and coded.options.schedule >= num_schedules:
            raise DamagedError(f"it names schedule {coded.options.schedule}, and its model has {num_schedules}")
        if not self.layout.takes(entry.fields):
            raise DamagedError(f"it holds {entry.fields.kind}, and its model is for {self.layout.title}")
        sizes = self.layout.sizes(entry.fields, coded.side)
        counts = [num_bundles(size, self._shape) if 0 not in size else 0 for size in sizes]
        if sum(counts) != len(coded.chunks):
            raise DamagedError(f"it has {len(coded.chunks)} chunks where its size needs {sum(counts)}")
        chunks = iter(coded.chunks)
        return [[next(chunks) for _ in range(count)] for count in counts]

    def _decode_group(self, group: "Sequence[_Opened]", codec: CanvasCodec) -> None:
        """Fill in the canvases of entries with the same options."""
        owners = [one for one in group for _ in one.canvases]
        canvases = [canvas for one in group for canvas in one.canvases]
        errors = codec.decode(canvases, [chunks for one in group for chunks in one.chunks])
        for canvas, error in errors.items():
            owners[canvas].errors.append(error)

    def _restored(self, one: "_Opened") -> Restored:
        fields = one.entry.fields
        if one.errors:
            return DamagedError(one.errors[0])
        try:
            raw = self.layout.raw(fields, one.coded.side, one.canvases)
        except DamagedError as error:
            return error
        return Content(fields=fields, raw=raw)

    def _canvas_codec(self, options: Options, batching: Batching) -> CanvasCodec:
        items, schedule = self._shared(self.item_codec(options), options), self._schedule(options)
        return CanvasCodec(items, self._shape, schedule.num_calls, batching, self._device)

    def item_codec(self, options: Options) -> ItemCodec:
        """The codec of items for some options."""
        items = self._item_codecs.get(options)
        if items is None:
            if len(self._item_codecs) >= MAX_ITEM_CODECS:
                self._item_codecs.clear()  # an archive may name another seed for every entry
            items = self._item_codecs[options] = self._new_item_codec(options)
        return items

    def _new_item_codec(self, options: Options) -> ItemCodec:
        network, parametrization = self._exact.network, self._model.parametrization
        order, schedule = options.order or self._exact.coding.order, self._schedule(options)
        coding = orders_and_schedule(order, self._shape, schedule)
        return ItemCodec(network, parametrization, self._shape, *coding, device=self._device)

    def _schedule(self, options: Options) -> Schedule:
        coding = self._exact.coding
        return coding.schedules[coding.default if options.schedule is None else options.schedule]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Opened:
    """A coded entry and its canvases, which decoding fills."""

    entry: Entry
    coded: Coded
    canvases: list[Canvas]
    chunks: list[list[bytes]]
    """Of each canvas's bundles."""
    errors: list[str] = field(default_factory=list)
    """What is wrong with them."""


class CodecSet:
    """The models that may decode, each for its own entries."""

    def __init__(self, codecs: Iterable[ContentCodec] = ()) -> None:
        self._codecs = {codec.identity: codec for codec in codecs}

    def entry_of(self, data: bytes, limits: Limits | None = None) -> Entry:
        """The entry that a compressed file holds.

        A DamagedError, UnknownVersionError or TooLargeError where there is none; an UnknownModelError where it takes
        the model to know.
        """
        if not is_short(data):
            return read_single(data, limits)
        short = read_short(data)
        entry = self._codecs[find_identity(short.model, self._codecs)].own_entry(short.payload)
        (limits or Limits()).check("content_bytes", entry.fields.content_bytes)
        return entry

    def decode(self, entries: Sequence[Entry], batching: Batching) -> list[Restored]:
        """The contents of entries; for those that cannot be restored a DamagedError or an UnknownModelError."""
        restored: dict[int, Restored] = {}
        own: dict[bytes, list[int]] = {}
        for place, entry in enumerate(entries):
            if isinstance(entry.content, Raw):
                restored[place] = Content(fields=entry.fields, raw=entry.content.content)
                continue
            try:
                own.setdefault(find_identity(entry.content.options.model.hex(), self._codecs), []).append(place)
            except UnknownModelError as error:
                restored[place] = error
        for identity, places in own.items():
            decoded = self._codecs[identity].decode([entries[place] for place in places], batching)
            restored |= dict(zip(places, decoded, strict=True))
        return [restored[place] for place in range(len(entries))]
