"""Bits and times of lossless codecs on the same items: one file for each item, every file decoded and compared.

Sizes are those of whole files. What both sides may know beforehand is the training items (a dictionary, a text to prime
with) and, where all items have one length, that length; it is not counted, as a model is not.

Each codec first codes and restores one item (on a GPU all of them, as every size of a batch is new to it) that is not
timed: libraries are loaded, kernels compiled and memory is taken then.
"""

import math
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int

from ardm.apps.bench.items import Item, Media, is_same, media_of, num_bytes, num_variables, spread_items, training_items
from ardm.apps.rivals import rivals_for
from ardm.apps.rivals.rival import Rival
from ardm.data.corpus import Corpus, Split
from ardm.likelihood import Z_95
from ardm.orders import Shape

TRAINING_VARIABLES = 8_000_000
"""Of the training items that rivals get; more would still help, but PPMd reads all of them for each item."""
ALLOWED_SHARE, ALLOWED_BITS = 0.005, 24
"""What a payload may have above its ideal bits: a part of them, and so many bits more."""

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class NetworkFigures:
    """What is known of a codec that calls a network."""

    num_calls: int
    """For each item, as they are made."""
    device: str
    batch_size: int
    """Rows of a call at most."""
    ideal_bits_per_variable: float
    """-log2 of what the network itself gives the items, in the order and with the calls that they are coded with."""
    payload_above_ideal_bits: float
    """For an item that is not stored, on average; what is kept beside the payload, such as escapes, included."""
    payload_above_ideal_share: float
    """The same as a part of the ideal bits."""
    num_within_allowance: int
    """Items whose payload is at most 0.5% and 24 bits above the ideal bits, or that are stored."""
    num_stored: int
    """Items that are stored as they are, since coding would make them longer."""
    header_bytes: float
    """What a file has besides its payload, on average."""
    encode_share: float
    """The part of the time to encode that is spent in the network."""
    decode_share: float


@dataclass(frozen=True, kw_only=True)
class CodecTiming:
    """One codec on the items of a benchmark."""

    name: str
    media: Media
    num_items: int
    num_variables: int
    """Of all items together: sub-pixels, characters, bytes or samples."""
    item_bytes: int
    """All items together as they are, uncoded."""
    failure: str | None = None
    """Why there are no numbers: not installed, an error, or items that were not restored."""
    bits_per_variable: float | None = None
    """Of all files together."""
    half_width: float | None = None
    """Of the 95% interval of the bits over items; None for a single item."""
    prepare_seconds: float | None = None
    """To learn from training items, once."""
    encode_seconds: float | None = None
    """For an item, on average."""
    decode_seconds: float | None = None
    encode_items_per_second: float | None = None
    decode_items_per_second: float | None = None
    encode_bytes_per_second: float | None = None
    """Bytes of items, not of files."""
    decode_bytes_per_second: float | None = None
    network: NetworkFigures | None = None
    """None for codecs that have no network."""
    model: Mapping[str, Any] | None = None
    """What the model behind the network is, if it is told."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedBits:
    """The bits of N items, each coded alone."""

    ideal: Float64[np.ndarray, "N"]
    """What the network itself gives them."""
    payload: Int[np.ndarray, "N"]
    """Of their files without headers and checks of the file."""
    is_stored: Bool[np.ndarray, "N"]
    """Whether the payload is the item as it is, since coding would make it longer."""


@runtime_checkable
class NetworkCodec(Rival, Protocol):
    """A codec that calls a network."""

    @property
    def num_calls(self) -> int:
        """For each item."""

    @property
    def device(self) -> str:
        """Where the network computes."""

    @property
    def batch_size(self) -> int:
        """Rows of a call at most."""

    @property
    def network_seconds(self) -> float:
        """Spent in the network so far."""

    def coded_bits(self, items: Sequence[Item], files: Sequence[bytes]) -> CodedBits:
        """What the items' files come to, and what they would ideally."""


def run_codec_benchmark(
    corpus: Corpus,
    shape: Shape,
    ours: Sequence[Rival] = (),
    *,
    num_items: int = 200,
    split: Split = "test",
    seed: int | None = None,
    num_training_variables: int = TRAINING_VARIABLES,
    others: bool = True,
) -> Iterator[CodecTiming]:
    """A row for each of our codecs and, with `others`, for each rival of the corpus's kind, one after the other.

    All get the same items, spread over the split (see `spread_items`); rivals learn from the end of the training split.
    """
    items = spread_items(corpus, split, shape, num_items, seed)
    training = training_items(corpus, shape, num_training_variables) if others else []
    return compare(items, media_of(corpus), ours, training, others=others)


def compare(
    items: Sequence[Item],
    media: Media,
    ours: Sequence[Rival] = (),
    training: Sequence[Item] = (),
    *,
    others: bool = True,
) -> Iterator[CodecTiming]:
    """A row for each of our codecs and, with `others`, for each rival, which learns from the training items if any."""
    for codec in ours:
        yield time_codec(codec, items, [], media)
    for rival in rivals_for(media, items, has_training=bool(training)) if others else ():
        yield time_codec(rival, items, training, media)


def time_codec(rival: Rival, items: Sequence[Item], training: Sequence[Item], media: Media) -> CodecTiming:
    """Bits and times of one codec, or why there are none."""
    sizes = np.array([num_variables(item, media) for item in items])
    row = CodecTiming(
        name=rival.name,
        media=media,
        num_items=len(items),
        num_variables=int(sizes.sum()),
        item_bytes=sum(map(num_bytes, items)),
    )
    if not rival.is_available():
        return replace(row, failure=f"not installed: {rival.source}")
    try:
        return _filled(row, rival, items, training, sizes)
    except Exception as error:  # a codec may raise anything; the others go on
        return replace(row, failure=f"failed: {_one_line(error)}")


def _filled(
    row: CodecTiming, rival: Rival, items: Sequence[Item], training: Sequence[Item], sizes: Int[np.ndarray, "N"]
) -> CodecTiming:
    """The row with its numbers, or with a failure where items were lost."""
    ready, preparing = _timed(rival, lambda: rival.prepare(training))
    ready.decode(ready.encode(items if _is_on_gpu(ready) else items[:1]))
    files, encoding = _timed(ready, lambda: ready.encode(items))
    restored, decoding = _timed(ready, lambda: ready.decode(files))
    num_lost = _num_lost(items, files, restored)
    if num_lost:
        return replace(row, failure=f"failed: {num_lost} of {len(items)} items are not restored")
    bits = 8 * np.array([len(file) for file in files])
    return replace(
        row,
        bits_per_variable=float(bits.sum() / sizes.sum()),
        half_width=ratio_half_width(bits, sizes),
        prepare_seconds=preparing.seconds,
        encode_seconds=encoding.seconds / len(items),
        decode_seconds=decoding.seconds / len(items),
        encode_items_per_second=len(items) / encoding.seconds,
        decode_items_per_second=len(items) / decoding.seconds,
        encode_bytes_per_second=row.item_bytes / encoding.seconds,
        decode_bytes_per_second=row.item_bytes / decoding.seconds,
        network=_figures(ready, items, files, sizes, encoding, decoding) if isinstance(ready, NetworkCodec) else None,
    )


@dataclass(frozen=True, kw_only=True)
class _Times:
    """How long something took, and how much of that in a network."""

    seconds: float
    network_seconds: float

    @property
    def share(self) -> float:
        return self.network_seconds / self.seconds


def _timed(rival: Rival, work: Callable[[], Result]) -> tuple[Result, _Times]:
    before, started = _network_seconds(rival), time.perf_counter()
    result = work()
    seconds = time.perf_counter() - started
    return result, _Times(seconds=seconds, network_seconds=_network_seconds(rival) - before)


def _network_seconds(rival: Rival) -> float:
    return rival.network_seconds if isinstance(rival, NetworkCodec) else 0.0


def _is_on_gpu(rival: Rival) -> bool:
    return isinstance(rival, NetworkCodec) and rival.device != "cpu"


def _figures(
    codec: NetworkCodec,
    items: Sequence[Item],
    files: Sequence[bytes],
    sizes: Int[np.ndarray, "N"],
    encoding: _Times,
    decoding: _Times,
) -> NetworkFigures:
    bits = codec.coded_bits(items, files)
    is_coded = ~bits.is_stored
    above, ideal = (bits.payload - bits.ideal)[is_coded], bits.ideal[is_coded]
    num_within = int((above <= ALLOWED_SHARE * ideal + ALLOWED_BITS).sum())
    return NetworkFigures(
        num_calls=codec.num_calls,
        device=codec.device,
        batch_size=codec.batch_size,
        ideal_bits_per_variable=float(bits.ideal.sum() / sizes.sum()),
        payload_above_ideal_bits=float(above.sum() / max(1, len(above))),
        payload_above_ideal_share=float(above.sum() / max(1.0, ideal.sum())),
        num_within_allowance=num_within + int(bits.is_stored.sum()),
        num_stored=int(bits.is_stored.sum()),
        header_bytes=float(np.mean([len(file) for file in files]) - bits.payload.mean() / 8),
        encode_share=encoding.share,
        decode_share=decoding.share,
    )


def _num_lost(items: Sequence[Item], files: Sequence[bytes], restored: Sequence[Item]) -> int:
    if len(files) != len(items) or len(restored) != len(items):
        raise ValueError(f"{len(items)} items gave {len(files)} files and {len(restored)} items again")
    return sum(not is_same(item, again) for item, again in zip(items, restored, strict=True))


def _one_line(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        said = (error.stderr or b"").decode(errors="replace").split("\n")
        return f"{error.cmd[0]} exited with {error.returncode}: {next(filter(None, reversed(said)), '')}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def ratio_half_width(bits: np.ndarray, sizes: np.ndarray) -> float | None:
    """Half the 95% interval of sum(bits) / sum(sizes) over items, to first order; that of the mean for equal sizes."""
    if len(bits) < 2:
        return None
    rests = bits - bits.sum() / sizes.sum() * sizes
    return float(Z_95 * rests.std(ddof=1) / sizes.mean() / math.sqrt(len(bits)))
