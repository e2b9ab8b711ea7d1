"""Our codec as one of the rivals of `codecs`, and the share of its time that the network takes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from ardm.bench.codecs import Item, Media
from ardm.checkpoint import ExactPart, TrainedModel
from ardm.codec.canvases import BATCH_SIZE, Batching
from ardm.compression.contents import Content, content_of, value_of
from ardm.compression.modelled import ContentCodec
from ardm.container.single import read_single, write_single
from ardm.data.audio import Clip
from ardm.errors import DamagedError
from ardm.exact.network import ExactNetwork


class TimedNetwork(ExactNetwork):
    """An exact network that counts the seconds spent in it."""

    def __init__(self, network: ExactNetwork) -> None:
        super().__init__(network.core, network.units, network.test)
        self.seconds = 0.0

    def integers(self, *arguments: Tensor) -> Tensor:
        """The outputs of the network."""
        started = time.perf_counter()
        outputs = super().integers(*arguments)
        if outputs.is_cuda:
            outputs = outputs.cpu()
        self.seconds += time.perf_counter() - started
        return outputs


@dataclass(frozen=True, kw_only=True, eq=False)
class OurCodec:
    """A model's codec at a number of calls."""

    codec: ContentCodec
    network: TimedNetwork
    num_calls: int | None
    media: tuple[Media, ...]
    batch_size: int = BATCH_SIZE
    name: str = "ardm"
    source: str = "ardm itself"

    @classmethod
    def of(
        cls, trained: TrainedModel, num_calls: int | None, media: Media, *, batch_size: int = BATCH_SIZE
    ) -> "OurCodec":
        """The codec of an exact model; None: its own number of calls."""
        part = trained.exact
        if part is None:
            ContentCodec(trained)  # says what is missing
        assert part is not None
        network = TimedNetwork(part.network)
        timed = ExactPart(network=network, coding=part.coding, identity=part.identity)
        number = part.coding.default if num_calls is None else part.coding.schedule_for(num_calls)
        calls = part.coding.schedules[number].num_calls
        return cls(
            codec=ContentCodec(replace(trained, exact=timed)),
            network=network,
            num_calls=num_calls,
            media=(media,),
            batch_size=batch_size,
            name=f"ardm, {calls} calls",
        )

    def is_available(self) -> bool:
        """Always."""
        return True

    def prepare(self, training: Sequence[Item]) -> "OurCodec":
        """The model has learnt already."""
        return self

    def encode(self, items: Sequence[Item]) -> list[bytes]:
        """A single file for each item."""
        contents = [self._content(item) for item in items]
        options = self.codec.options(self.num_calls)
        return [write_single(entry) for entry in self.codec.encode(contents, options, self._batching())]

    def decode(self, files: Sequence[bytes]) -> list[Item]:
        """The items of the files."""
        entries = [read_single(file) for file in files]
        return [self._item(restored) for restored in self.codec.decode(entries, self._batching())]

    def _batching(self) -> Batching:
        return Batching(batch_size=self.batch_size)

    def _content(self, item: Item) -> Content:
        if isinstance(item, Clip):
            return content_of(item.samples, item.rate)
        if isinstance(item, bytes):
            return content_of(item.decode() if self.media == ("text",) else item)
        return content_of(item[:, :, 0] if item.shape[2] == 1 else item)

    def _item(self, restored: object) -> Item:
        if not isinstance(restored, Content):
            raise DamagedError(str(restored))
        value = value_of(restored)
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, bytes):
            return value
        if value.dtype == np.int16:
            rate = self.codec.sample_rate
            assert rate is not None
            return Clip(samples=value, rate=rate)
        return value if value.ndim == 3 else value[:, :, None]
