"""Encodes contents as entries, and decodes entries, with exact models; many at once in shared batches."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float64

from ardm.checkpoint import ExactPart, TrainedModel, load_model
from ardm.codec.batching import Batching
from ardm.codec.canvases import BundleCodec, CanvasCodec
from ardm.codec.coding_plan import orders_and_schedule
from ardm.codec.format.entries import Coded, Entry, Limits, Raw, coded_or_raw
from ardm.codec.format.options import Options, OrderChoice, find_identity, short_identity
from ardm.codec.format.short import SHORT_DIGITS, SHORT_EXTRA_BYTES, Short, is_short, read_short, write_short
from ardm.codec.format.single import read_single, single_length, write_single
from ardm.codec.items import ItemCodec
from ardm.codec.windows import Canvas, num_bundles
from ardm.errors import ArdmError, CheckpointError, DamagedError, DataError, UnknownModelError, UsageError
from ardm.media import medium_of
from ardm.media.contents import Content
from ardm.media.layout import Placement
from ardm.names import Shape
from ardm.parametrizations import Parametrization
from ardm.pretrained import find_model, is_model
from ardm.schedule import Schedule

MAX_ITEM_CODECS = 16
T = TypeVar("T")
Restored = Content | ArdmError
"""A content, or the reason why it cannot be restored."""
ShareItems = Callable[[ItemCodec, Options], BundleCodec]
"""Wraps each ItemCodec to share its work with other processes."""


class ContentCodec:
    """Codes contents with an exact model."""

    def __init__(self, trained: TrainedModel) -> None:
        if trained.exact is None:
            raise UsageError("this model holds trained weights; make an exact model from it with `ardm export`")
        self.identity, self.sample_rate = trained.exact.identity, trained.sample_rate
        medium = medium_of(trained)
        self.layout, self._own_fields = medium.layout, medium.item_fields
        self._exact, self._shape = trained.exact, trained.model.shape
        self._device = next(trained.exact.network.buffers()).device
        new_codec = partial(_item_codec, trained.exact, trained.model.parametrization, self._shape, self._device)
        self.item_codec = lru_cache(MAX_ITEM_CODECS)(new_codec)  # an archive may name another seed for every entry
        self.share_items: ShareItems = lambda items, options: items

    def options(self, num_calls: int | None = None, order: OrderChoice | None = None) -> Options:
        """The model's default options, or those for its best schedule within `num_calls` and for another order."""
        coding = self._exact.coding
        schedule = None if num_calls is None else coding.schedule_for(num_calls)
        return Options(
            model=short_identity(self.identity),
            order=None if order == coding.order else order,
            schedule=None if schedule == coding.default else schedule,
        )

    def place(self, content: Content) -> Placement:
        """A content laid out for the model; a DataError or TooLargeError if the model cannot code it."""
        if not self.layout.takes(content.fields):
            raise DataError(f"this model is for {self.layout.title}, but this content is {content.fields.kind}")
        Limits().check("content_bytes", content.fields.content_bytes)
        placement = self.layout.place(content) if content.raw else Placement(content=content, canvases=[])
        Limits().check("chunks", sum(num_bundles(canvas.values.shape, self._shape) for canvas in placement.canvases))
        return placement

    def encode(self, placements: Sequence[Placement], options: Options, batching: Batching) -> list[Entry]:
        """The entries of contents, raw if coding would not make their files shorter."""
        canvases = [canvas for one in placements for canvas in one.canvases]
        payloads = iter(self._canvas_codec(options, batching).encode(canvases))
        chunks = [tuple(payload for _ in one.canvases for payload in next(payloads)) for one in placements]
        return [self._entry(*parts, options) for parts in zip(placements, chunks, strict=True)]

    def _entry(self, placement: Placement, chunks: tuple[bytes, ...], options: Options) -> Entry:
        content = placement.content
        if not chunks:
            return Entry(fields=content.fields, content=Raw(content=content.raw))
        coded = Coded(options=options, chunks=chunks, side=placement.side)
        return coded_or_raw(Entry(fields=content.fields, content=coded), content.raw, self._file_length)

    def measure(self, placement: Placement, options: Options, batching: Batching) -> list[Float64[np.ndarray, "..."]]:
        """The bits at each place of a content's canvases, without side bytes and rounding."""
        return self._canvas_codec(options, batching).measure(placement.canvases)

    def file_of(self, entry: Entry) -> bytes:
        """The compressed file of an entry: a short one if the model determines all but the payload."""
        if not self._is_short(entry):
            return write_single(entry)
        return write_short(Short(model=self.identity.hex()[:SHORT_DIGITS], payload=entry.packed.body))

    def _file_length(self, entry: Entry) -> int:
        return SHORT_EXTRA_BYTES + len(entry.packed.body) if self._is_short(entry) else single_length(entry)

    def _is_short(self, entry: Entry) -> bool:
        payload = entry.content.chunks[0] if isinstance(entry.content, Coded) else b""
        return payload != b"" and entry == self.own_entry(payload)

    def own_entry(self, payload: bytes) -> Entry:
        """The entry that a short file of this model represents."""
        return Entry(fields=self._own_fields, content=Coded(options=self.options(), chunks=(payload,)))

    def decode(self, entries: Sequence[Entry], batching: Batching) -> list[Restored]:
        """The contents of entries that are raw or coded with this model, or their errors."""
        opened = [self._opened(entry) for entry in entries]
        groups: dict[Options, list[_Opened]] = {}
        for one in opened:
            if isinstance(one, _Opened):
                groups.setdefault(one.coded.options, []).append(one)
        for options, group in groups.items():
            owners = [one for one in group for _ in one.canvases]
            canvases = [canvas for one in group for canvas in one.canvases]
            chunks = [chunks for one in group for chunks in one.chunks]
            for canvas, error in self._canvas_codec(options, batching).decode(canvases, chunks).items():
                owners[canvas].errors.append(error)
        return [self._restored(one) if isinstance(one, _Opened) else one for one in opened]

    def _opened(self, entry: Entry) -> "_Opened | Restored":
        """A coded entry with blank canvases, the content of a raw one, or the error of an inconsistent one."""
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
        """The chunks of each canvas; a DamagedError if an entry's numbers contradict each other or the model."""
        num_schedules = len(self._exact.coding.schedules)
        if coded.options.schedule is not None and coded.options.schedule >= num_schedules:
            raise DamagedError(f"it names schedule {coded.options.schedule}, but its model has {num_schedules}")
        if not self.layout.takes(entry.fields):
            raise DamagedError(f"it holds {entry.fields.kind}, but its model is for {self.layout.title}")
        sizes = self.layout.sizes(entry.fields, coded.side)
        counts = [num_bundles(size, self._shape) if 0 not in size else 0 for size in sizes]
        if sum(counts) != len(coded.chunks):
            raise DamagedError(f"it has {len(coded.chunks)} chunks where its size needs {sum(counts)}")
        chunks = iter(coded.chunks)
        return [[next(chunks) for _ in range(count)] for count in counts]

    def _restored(self, one: "_Opened") -> Restored:
        if one.errors:
            return DamagedError(one.errors[0])
        try:
            return Content(fields=one.entry.fields, raw=self.layout.raw(one.entry.fields, one.coded.side, one.canvases))
        except DamagedError as error:
            return error

    def _canvas_codec(self, options: Options, batching: Batching) -> CanvasCodec:
        items = self.share_items(self.item_codec(options), options)
        return CanvasCodec(items, self._shape, _schedule(self._exact, options).num_calls, batching, self._device)


def _item_codec(
    exact: ExactPart, parametrization: Parametrization, shape: Shape, device: torch.device, options: Options
) -> ItemCodec:
    coding = orders_and_schedule(options.order or exact.coding.order, shape, _schedule(exact, options))
    return ItemCodec(exact.network, parametrization, shape, *coding, device=device)


def _schedule(exact: ExactPart, options: Options) -> Schedule:
    return exact.coding.schedules[exact.coding.default if options.schedule is None else options.schedule]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Opened:
    """A coded entry and its canvases, which are decoded in place."""

    entry: Entry
    coded: Coded
    canvases: list[Canvas]
    chunks: list[list[bytes]]
    """The payloads of each canvas's bundles."""
    errors: list[str] = field(default_factory=list)


class CodecSet:
    """The codecs of several models, each of which decodes its own entries."""

    def __init__(self, codecs: Iterable[ContentCodec] = ()) -> None:
        self._codecs = {codec.identity: codec for codec in codecs}

    def has(self, digits: str) -> bool:
        """Whether the identity of a model starts with these hexadecimal digits."""
        return any(identity.hex().startswith(digits) for identity in self._codecs)

    def entry_of(self, data: bytes, limits: Limits | None = None) -> Entry:
        """The entry in a compressed file; an UnknownModelError for a short file of another model."""
        if not is_short(data):
            return read_single(data, limits)
        short = read_short(data)
        entry = self._codecs[find_identity(short.model, self._codecs)].own_entry(short.payload)
        (limits or Limits()).check("content_bytes", entry.fields.content_bytes)
        return entry

    def decode(self, entries: Sequence[Entry], batching: Batching) -> list[Restored]:
        """The contents of entries, or a DamagedError or UnknownModelError for each that cannot be restored."""
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


def verified_files(
    codec: ContentCodec, entries: Sequence[Entry], contents: Sequence[Content], batching: Batching
) -> list[bytes | ArdmError]:
    """The compressed file of each entry, or an error if decoding it does not give its content."""
    models, files = CodecSet([codec]), list(map(codec.file_of, entries))
    restored = models.decode([models.entry_of(data) for data in files], batching)
    wrong = ArdmError("it did not decode exactly, so there is no compressed file; please report this")
    return [data if one == content else wrong for data, one, content in zip(files, restored, contents, strict=True)]


def unless_failed(result: T | ArdmError) -> T:
    """The result itself; if it is an error, that is raised."""
    if isinstance(result, ArdmError):
        raise DamagedError(f"the file is damaged: {result}") if isinstance(result, DamagedError) else result
    return result


def load_codec(source: str | Path, device: torch.device | str = "cpu") -> ContentCodec:
    """The codec of an exact model, given as a path, a bundled name or OWNER/NAME[/FILE] on the Hugging Face hub."""
    path = find_model(source)
    if not is_model(path):
        raise CheckpointError(f"{path} is not a model; give the file of an exact model, which `ardm export` writes")
    trained = load_model(path, device)
    if trained.exact is None:
        raise UsageError(f"{path} holds trained weights; convert it with `ardm export {path} -o MODEL`")
    return ContentCodec(trained)
