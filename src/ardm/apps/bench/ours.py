"""Our codec in the benchmark: its files, its ideal bits, and the time that its network takes."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from ardm.apps.bench.codecs import CodedBits
from ardm.apps.bench.items import Item, item_of_content
from ardm.apps.bench.stopwatch import Stopwatch
from ardm.checkpoint import TrainedModel
from ardm.codec.batching import Batching
from ardm.codec.canvases import SLAB_VARIABLES, stacked
from ardm.codec.coding_plan import orders_and_schedule
from ardm.codec.format.entries import pack
from ardm.codec.items import ItemCodec
from ardm.codec.windows import cut, windows
from ardm.compression.content_codec import CodecSet, ContentCodec, Restored
from ardm.data.sound_files import Sound
from ardm.exact.network import ExactNetwork
from ardm.media.contents import Content, bytes_content, image_content, sound_content, text_content
from ardm.orders import Shape


class TimedNetwork(ExactNetwork):
    """An exact network whose calls are timed."""

    def __init__(self, network: ExactNetwork) -> None:
        super().__init__(network.core, network.units, network.test)
        self.watch = Stopwatch(next(network.buffers()).device)

    def integers(self, *arguments: Tensor) -> Tensor:
        """The outputs of the network."""
        with self.watch.running():
            return super().integers(*arguments)


@dataclass(frozen=True, kw_only=True, eq=False)
class OurCodec:
    """A model's codec at a number of calls."""

    codec: ContentCodec
    item_codec: ItemCodec
    """Measures what the network itself gives items."""
    network: TimedNetwork
    shape: Shape
    is_text: bool
    """Whether bytes are UTF-8."""
    num_calls: int
    batch_size: int
    device: str
    source: str = "ardm itself"

    @property
    def name(self) -> str:
        """With the calls that it makes for an item."""
        return f"ardm, {self.num_calls} calls"

    @property
    def network_seconds(self) -> float:
        """Spent in the network so far."""
        return self.network.watch.seconds

    def is_available(self) -> bool:
        """Always."""
        return True

    def prepare(self, training: Sequence[Item]) -> "OurCodec":
        """The model has learnt already."""
        return self

    def encode(self, items: Sequence[Item]) -> list[bytes]:
        """A single file for each item."""
        contents, options = [self._content(item) for item in items], self.codec.options(self.num_calls)
        return [self.codec.file_of(entry) for entry in self.codec.encode(contents, options, self._batching)]

    def decode(self, files: Sequence[bytes]) -> list[Item]:
        """The items of the files."""
        models = CodecSet([self.codec])
        entries = [models.entry_of(file) for file in files]
        return [_item(restored) for restored in self.codec.decode(entries, self._batching)]

    def coded_bits(self, items: Sequence[Item], files: Sequence[bytes]) -> CodedBits:
        """The sizes of the files' bodies, and the bits of the exact network."""
        models = CodecSet([self.codec])
        packed = [pack(models.entry_of(file)) for file in files]
        return CodedBits(
            ideal=self._ideal_bits(items),
            payload=8 * np.array([len(body) for _, body in packed]),
            is_stored=np.array([header.raw for header, _ in packed]),
        )

    def _ideal_bits(self, items: Sequence[Item]) -> Float64[np.ndarray, "N"]:
        shown = (
            (number, cut(canvas, window, self.shape))
            for number, item in enumerate(items)
            for canvas in self.codec.place(self._content(item)).canvases
            for window in windows(canvas.values.shape, self.shape)
        )
        bits, num_held = np.zeros(len(items)), max(self.batch_size, SLAB_VARIABLES // math.prod(self.shape))
        while slab := list(itertools.islice(shown, num_held)):
            own = self.item_codec.measure(stacked([one for _, one in slab]), self._batching)
            bits += np.bincount([number for number, _ in slab], own, minlength=len(items))
        return bits

    @property
    def _batching(self) -> Batching:
        return Batching(batch_size=self.batch_size)

    def _content(self, item: Item) -> Content:
        if isinstance(item, Sound):
            return sound_content(item.frames, item.rate)
        if isinstance(item, bytes):
            return text_content(item.decode()) if self.is_text else bytes_content(item)
        return image_content(item[:, :, 0] if item.shape[2] == 1 else item)


def our_codecs(trained: TrainedModel, budgets: Sequence[int] = (), *, batch_size: int | None = None) -> list[OurCodec]:
    """An exact model's codec at the richest of its schedules within each budget of calls, each schedule once.

    Without budgets: at its own number of calls. Without a batch size: as many rows as `ardm compress` would take.
    """
    ContentCodec(trained)  # or an error that says what is missing
    assert trained.exact is not None
    coding = trained.exact.coding
    numbers = dict.fromkeys(map(coding.schedule_for, budgets)) or [coding.default]
    return [_our_codec(trained, number, batch_size) for number in numbers]


def _our_codec(trained: TrainedModel, number: int, batch_size: int | None) -> OurCodec:
    """The codec with one of the model's schedules."""
    assert trained.exact is not None
    coding, model = trained.exact.coding, trained.model
    network, schedule = TimedNetwork(trained.exact.network), coding.schedules[number]
    device = next(network.buffers()).device
    orders, schedule = orders_and_schedule(coding.order, model.shape, schedule)
    return OurCodec(
        codec=ContentCodec(replace(trained, exact=replace(trained.exact, network=network))),
        item_codec=ItemCodec(network, model.parametrization, model.shape, orders, schedule, device=device),
        network=network,
        shape=model.shape,
        is_text=trained.alphabet is not None and trained.alphabet.characters is not None,
        num_calls=schedule.num_calls,
        batch_size=Batching(batch_size=batch_size).rows(model.shape, device),
        device=str(device),
    )


def _item(restored: Restored) -> Item:
    """What `OurCodec` was given."""
    if not isinstance(restored, Content):
        raise restored
    return item_of_content(restored)
