"""Bits and times of lossless codecs on the same items: one file per item, every file decoded and compared.

Sizes are those of whole files. Encoder and decoder may both know training items (a dictionary, a text to prime with)
and, if all items have the same length, that length; like a model, these are not counted.

Each codec first codes and restores one item untimed (on a GPU all items, because every new batch size needs preparing),
so that loading libraries, compiling kernels and allocating memory do not count.
"""

import math
import subprocess
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float64, Int

from ardm.apps.bench.items import Item, Media, is_same, num_bytes, num_variables
from ardm.apps.rivals import rivals_for
from ardm.apps.rivals.rival import Rival
from ardm.likelihood import Z_95

ALLOWED_SHARE, ALLOWED_BITS = 0.005, 24
"""Allowance of a payload above its ideal bits: this share of them, and this number of bits."""

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class NetworkFigures:
    """Figures of a codec that calls a network."""

    num_calls: int
    """Calls actually made per item."""
    device: str
    batch_size: int
    """Maximum number of rows per call."""
    ideal_bits_per_variable: float
    """-log2 of the network's probability of the items, in the order and with the calls used to code them."""
    payload_above_ideal_bits: float
    """Mean per coded item, including what is kept outside the payload, such as escapes."""
    payload_above_ideal_share: float
    """Excess bits as a share of the ideal ones."""
    num_within_allowance: int
    """Items whose payload is at most 0.5% and 24 bits above the ideal bits, or that are stored."""
    num_stored: int
    """Items stored as they are, because coding would make them longer."""
    header_bytes: float
    """Mean bytes of a file outside its payload."""
    encode_share: float
    """Share of the time to encode that is spent in the network."""
    decode_share: float


@dataclass(frozen=True, kw_only=True)
class CodecTiming:
    """The bits and times of one codec."""

    name: str
    media: Media
    num_items: int
    num_variables: int
    """Sub-pixels, characters, bytes or samples of all items."""
    item_bytes: int
    """Bytes of all items, uncoded."""
    failure: str | None = None
    """Why there are no figures: not installed, an error, or items that were not restored."""
    bits_per_variable: float | None = None
    half_width: float | None = None
    """Half of the 95% interval of the bits over items; None for a single item."""
    prepare_seconds: float | None = None
    """Seconds to learn from training items, once."""
    encode_seconds: float | None = None
    """Mean seconds per item."""
    decode_seconds: float | None = None
    encode_items_per_second: float | None = None
    decode_items_per_second: float | None = None
    encode_bytes_per_second: float | None = None
    """Bytes of items, not of files, per second."""
    decode_bytes_per_second: float | None = None
    network: NetworkFigures | None = None
    """Figures of the network; None for codecs without one."""
    model: Mapping[str, Any] | None = None
    """The origin and size of the model, if known."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedBits:
    """The bits of N items, each coded alone."""

    ideal: Float64[np.ndarray, "N"]
    """Bits according to the network's probabilities."""
    payload: Int[np.ndarray, "N"]
    """Bits of the files without their headers and checks."""
    is_stored: Bool[np.ndarray, "N"]
    """Whether the payload is the uncoded item, because coding would make it longer."""


@dataclass(frozen=True, kw_only=True)
class NetworkCodec(Rival):
    """A codec that calls a network."""

    num_calls: int
    """Calls per item."""
    device: str
    """The network's device."""
    batch_size: int
    """Maximum number of rows per call."""

    @abstractmethod
    def coded_bits(self, items: Sequence[Item], files: Sequence[bytes]) -> CodedBits:
        """The actual and the ideal bits of each item."""


def compare(
    items: Sequence[Item],
    media: Media,
    ours: Sequence[Rival] = (),
    training: Sequence[Item] = (),
    *,
    others: bool = True,
) -> Iterator[CodecTiming]:
    """A row for each of our codecs and, with `others`, for each rival, which learns from the training items if any."""
    rivals = rivals_for(media, items, has_training=bool(training)) if others else []
    return (time_codec(codec, items, training, media) for codec in (*ours, *rivals))


def time_codec(rival: Rival, items: Sequence[Item], training: Sequence[Item], media: Media) -> CodecTiming:
    """The bits and times of one codec, or the reason why there are none."""
    row = CodecTiming(
        name=rival.name,
        media=media,
        num_items=len(items),
        num_variables=sum(num_variables(item, media) for item in items),
        item_bytes=sum(map(num_bytes, items)),
    )
    if not rival.is_available():
        return replace(row, failure=f"not installed: {rival.source}")
    try:
        return _filled(row, rival, items, training)
    except Exception as error:  # a codec may raise anything; the others continue
        return replace(row, failure=f"failed: {_one_line(error)}")


def _filled(row: CodecTiming, rival: Rival, items: Sequence[Item], training: Sequence[Item]) -> CodecTiming:
    """The row with its measured numbers, or with a failure if items were lost."""
    ready, prepare_seconds, _ = _timed(rival, lambda: rival.prepare(training))
    network = ready if isinstance(ready, NetworkCodec) else None
    ready.decode(ready.encode(items if network and network.device != "cpu" else items[:1]))
    files, encode_seconds, encode_share = _timed(ready, lambda: ready.encode(items))
    restored, decode_seconds, decode_share = _timed(ready, lambda: ready.decode(files))
    num_lost = _num_lost(items, files, restored)
    if num_lost:
        return replace(row, failure=f"failed: {num_lost} of {len(items)} items are not restored")
    bits = 8 * np.array([len(file) for file in files])
    sizes = np.array([num_variables(item, row.media) for item in items])
    return replace(
        row,
        bits_per_variable=float(bits.sum() / row.num_variables),
        half_width=ratio_half_width(bits, sizes),
        prepare_seconds=prepare_seconds,
        encode_seconds=encode_seconds / len(items),
        decode_seconds=decode_seconds / len(items),
        encode_items_per_second=len(items) / encode_seconds,
        decode_items_per_second=len(items) / decode_seconds,
        encode_bytes_per_second=row.item_bytes / encode_seconds,
        decode_bytes_per_second=row.item_bytes / decode_seconds,
        network=None if network is None else _figures(network, items, files, row, (encode_share, decode_share)),
    )


def _timed(rival: Rival, work: Callable[[], Result]) -> tuple[Result, float, float]:
    """The result, the seconds that it took, and the share of them spent in a network."""
    before, started = rival.network_seconds, time.perf_counter()
    result = work()
    seconds = time.perf_counter() - started
    return result, seconds, (rival.network_seconds - before) / seconds


def _figures(
    codec: NetworkCodec, items: Sequence[Item], files: Sequence[bytes], row: CodecTiming, shares: tuple[float, float]
) -> NetworkFigures:
    bits = codec.coded_bits(items, files)
    is_coded, num_stored = ~bits.is_stored, int(bits.is_stored.sum())
    above, ideal = (bits.payload - bits.ideal)[is_coded], bits.ideal[is_coded]
    num_within = int((above <= ALLOWED_SHARE * ideal + ALLOWED_BITS).sum())
    return NetworkFigures(
        num_calls=codec.num_calls,
        device=codec.device,
        batch_size=codec.batch_size,
        ideal_bits_per_variable=float(bits.ideal.sum() / row.num_variables),
        payload_above_ideal_bits=float(above.sum() / max(1, len(above))),
        payload_above_ideal_share=float(above.sum() / max(1.0, ideal.sum())),
        num_within_allowance=num_within + num_stored,
        num_stored=num_stored,
        header_bytes=float(np.mean([len(file) for file in files]) - bits.payload.mean() / 8),
        encode_share=shares[0],
        decode_share=shares[1],
    )


def _num_lost(items: Sequence[Item], files: Sequence[bytes], restored: Sequence[Item]) -> int:
    if len(files) != len(items) or len(restored) != len(items):
        raise ValueError(f"{len(items)} items gave {len(files)} files and {len(restored)} restored items")
    return sum(not is_same(item, again) for item, again in zip(items, restored, strict=True))


def _one_line(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = (error.stderr or b"").decode(errors="replace").split("\n")
        return f"{error.cmd[0]} exited with {error.returncode}: {next(filter(None, reversed(lines)), '')}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def ratio_half_width(bits: np.ndarray, sizes: np.ndarray) -> float | None:
    """Half the 95% interval of sum(bits) / sum(sizes) over items, to first order; that of the mean for equal sizes."""
    if len(bits) < 2:
        return None
    residuals = bits - bits.sum() / sizes.sum() * sizes
    return float(Z_95 * residuals.std(ddof=1) / sizes.mean() / math.sqrt(len(bits)))
