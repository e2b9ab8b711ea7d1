"""Our codec in the benchmark: its files, its ideal bits, and the time of its network."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from torch import Tensor

from ardm.apps.bench.codecs import CodedBits, NetworkCodec
from ardm.apps.bench.items import Item, item_of_content, spread_places
from ardm.apps.bench.stopwatch import Stopwatch
from ardm.checkpoint import TrainedModel
from ardm.codec.batching import Batching
from ardm.codec.coding_plan import orders_and_schedule
from ardm.codec.format.entries import Entry, Limits
from ardm.codec.format.options import Options
from ardm.compression.content_codec import CodecSet, ContentCodec, unless_failed
from ardm.compression.sources import find_sources
from ardm.data.sound_files import Sound
from ardm.errors import DataError, TooLargeError
from ardm.exact.network import ExactNetwork
from ardm.media.contents import Content, content_of
from ardm.media.layout import Placement


class TimedNetwork(ExactNetwork):
    """An exact network whose calls are timed."""

    def __init__(self, network: ExactNetwork) -> None:
        super().__init__(network.core, network.units, network.test)
        self.watch = Stopwatch(next(network.buffers()).device)

    def integers(self, *arguments: Tensor) -> Tensor:
        with self.watch.running():
            return super().integers(*arguments)


@dataclass(frozen=True, kw_only=True, eq=False)
class OurCodec(NetworkCodec):
    """A model's codec at a number of calls."""

    codec: ContentCodec
    network: TimedNetwork
    options: Options
    batching: Batching
    is_text: bool
    """Whether bytes are UTF-8."""

    @property
    def network_seconds(self) -> float:
        return self.network.watch.seconds

    def encode(self, items: Sequence[Item]) -> list[bytes]:
        entries = self.codec.encode(list(map(self._placed, items)), self.options, self.batching)
        return [self.codec.file_of(entry) for entry in entries]

    def decode(self, files: Sequence[bytes]) -> list[Item]:
        return [item_of_content(unless_failed(one)) for one in self.codec.decode(self._entries(files), self.batching)]

    def coded_bits(self, items: Sequence[Item], files: Sequence[bytes]) -> CodedBits:
        """The sizes of the files' bodies, and the bits according to the exact network."""
        packed = [entry.packed for entry in self._entries(files)]
        return CodedBits(
            ideal=self._ideal_bits(items),
            payload=8 * np.array([len(body) for _, body in packed]),
            is_stored=np.array([header.raw for header, _ in packed]),
        )

    def _ideal_bits(self, items: Sequence[Item]) -> Float64[np.ndarray, "N"]:
        placed = list(map(self._placed, items))
        together = replace(placed[0], canvases=[canvas for one in placed for canvas in one.canvases])
        bits = iter(self.codec.measure(together, self.options, self.batching))
        return np.array([sum(float(next(bits).sum()) for _ in one.canvases) for one in placed])

    def _entries(self, files: Sequence[bytes]) -> list[Entry]:
        codecs = CodecSet([self.codec])
        return [codecs.entry_of(file) for file in files]

    def _placed(self, item: Item) -> Placement:
        if isinstance(item, Sound):
            return self.codec.place(content_of(item.frames, item.rate))
        if isinstance(item, bytes):
            return self.codec.place(content_of(item.decode() if self.is_text else item))
        return self.codec.place(content_of(item[:, :, 0] if item.shape[2] == 1 else item))


def our_codecs(trained: TrainedModel, budgets: Sequence[int] = (), *, batch_size: int | None = None) -> list[OurCodec]:
    """An exact model's codec with its best schedule within each budget of calls, without repetition.

    Without budgets it uses the model's default schedule; without a batch size, as many rows as `ardm compress` does.
    """
    ContentCodec(trained)  # or an error that says what is missing
    assert trained.exact is not None
    coding = trained.exact.coding
    numbers = dict.fromkeys(map(coding.schedule_for, budgets)) or [coding.default]
    return [_our_codec(trained, number, batch_size) for number in numbers]


def _our_codec(trained: TrainedModel, number: int, batch_size: int | None) -> OurCodec:
    assert trained.exact is not None
    coding, network = trained.exact.coding, TimedNetwork(trained.exact.network)
    device, shape = next(network.buffers()).device, trained.model.shape
    _, schedule = orders_and_schedule(coding.order, shape, coding.schedules[number])
    codec = ContentCodec(replace(trained, exact=replace(trained.exact, network=network)))
    rows = Batching(batch_size=batch_size).rows(shape, device)
    return OurCodec(
        name=f"ardm, {schedule.num_calls} calls",
        codec=codec,
        network=network,
        options=codec.options(schedule.num_calls),
        batching=Batching(batch_size=rows),
        is_text=trained.alphabet is not None and trained.alphabet.characters is not None,
        num_calls=schedule.num_calls,
        batch_size=rows,
        device=str(device),
    )


def read_files(arguments: Sequence[str], codec: ContentCodec, num_files: int, seed: int | None = None) -> list[Content]:
    """The contents of at most this number of files, spread over those of the arguments that are not empty.

    Raises a DataError or a TooLargeError for a file that the model cannot code.
    """
    sources = find_sources(arguments, codec.layout.suffixes)
    paths = [source.path for source in sources if source.path.stat().st_size]
    if not paths:
        raise DataError(f"{', '.join(arguments)}: nothing to code, all files are empty")
    return [_read(paths[place], codec) for place in spread_places(len(paths), num_files, seed)]


def _read(path: Path, codec: ContentCodec) -> Content:
    try:
        Limits().check("content_bytes", path.stat().st_size)
        content = codec.layout.read(path)
        codec.place(content)
    except TooLargeError as error:
        raise TooLargeError(f"{path} is {error}") from None
    if not content.num_variables:
        raise DataError(f"{path} holds nothing to code; leave it out")
    return content
