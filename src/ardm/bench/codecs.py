"""Bits and times of lossless codecs on the same items: one file for each item, every file decoded and compared.

A rival is whatever turns items into files and files into items; ours is one of them. Sizes are those of whole files.
What both sides may know beforehand is the training items (a dictionary, a text to prime with) and, where all items
have one length, that length; it is not counted, as a model is not. Rivals have strong settings and small files:
zlib's header and checksum, zstd's magic number and FLAC's padding are left out.

Command-line tools are timed with what it takes to start them and to read and write files.
"""

import importlib.util
import io
import math
import shutil
import subprocess
import time
import wave
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from PIL import Image, features

from ardm.data.audio import ZERO_CLASS, Clip
from ardm.data.corpus import Corpus, Split
from ardm.data.images import ImageCorpus, Pixels
from ardm.errors import DataError
from ardm.likelihood import Z_95
from ardm.orders import Shape

Media = Literal["images", "text", "bytes", "audio"]
Item = bytes | Pixels | Clip
"""Text is UTF-8; images are grey or RGB, sounds mono."""

UNITS: dict[Media, str] = {"images": "sub-pixel", "text": "character", "bytes": "byte", "audio": "sample"}
"""What a variable of an item is."""
TRAINING_VARIABLES = 8_000_000
"""Of the training items that rivals get; more would still help, but PPMd reads all of them for each item."""
DICTIONARY_BYTES = 1_000_000


@runtime_checkable
class Rival(Protocol):
    """A lossless codec."""

    @property
    def name(self) -> str:
        """With the settings that matter."""

    @property
    def media(self) -> tuple[Media, ...]:
        """What it takes."""

    @property
    def source(self) -> str:
        """What to install to have it."""

    def is_available(self) -> bool:
        """Whether it is installed."""

    def prepare(self, training: Sequence[Item]) -> "Rival":
        """The codec after it has learnt from training items, which its decoder has too."""

    def encode(self, items: Sequence[Item]) -> list[bytes]:
        """The content of a file for each item, of which each can be decoded alone."""

    def decode(self, files: Sequence[bytes]) -> list[Item]:
        """The items of the files."""


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
    encode_bytes_per_second: float | None = None
    """Bytes of items, not of files."""
    decode_bytes_per_second: float | None = None


def run_codec_benchmark(
    corpus: Corpus,
    shape: Shape,
    ours: Sequence[Rival] = (),
    *,
    num_items: int = 200,
    num_training_variables: int = TRAINING_VARIABLES,
    others: bool = True,
) -> Iterator[CodecTiming]:
    """A row for each of our codecs and, with `others`, for each rival of the corpus's kind, one after the other.

    Items are spread evenly over the test split; rivals learn from the end of the training split.
    """
    media = media_of(corpus)
    items = spread_items(corpus, "test", shape, num_items)
    training = training_items(corpus, shape, num_training_variables)
    for rival in (*ours, *(rivals_for(media, items) if others else ())):
        yield time_codec(rival, items, training, media)


def time_codecs(
    items: Sequence[Item], training: Sequence[Item], rivals: Sequence[Rival], media: Media
) -> list[CodecTiming]:
    """The rows of all rivals that take this kind of items."""
    return [time_codec(rival, items, training, media) for rival in rivals if media in rival.media]


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
        return _timed(row, rival, items, training, sizes)
    except Exception as error:  # a codec may raise anything; the others go on
        return replace(row, failure=f"failed: {_one_line(error)}")


def _timed(
    row: CodecTiming, rival: Rival, items: Sequence[Item], training: Sequence[Item], sizes: np.ndarray
) -> CodecTiming:
    started = time.perf_counter()
    ready = rival.prepare(training)
    prepared = time.perf_counter()
    ready.decode(ready.encode(items[:1]))  # loads and compiles what it needs
    begin = time.perf_counter()
    files = ready.encode(items)
    encoded = time.perf_counter()
    restored = ready.decode(files)
    decoded = time.perf_counter()
    num_lost = _num_lost(items, files, restored)
    if num_lost:
        return replace(row, failure=f"failed: {num_lost} of {len(items)} items are not restored")
    bits = 8 * np.array([len(file) for file in files])
    return replace(
        row,
        bits_per_variable=float(bits.sum() / sizes.sum()),
        half_width=ratio_half_width(bits, sizes),
        prepare_seconds=prepared - started,
        encode_seconds=(encoded - begin) / len(items),
        decode_seconds=(decoded - encoded) / len(items),
        encode_bytes_per_second=row.item_bytes / (encoded - begin),
        decode_bytes_per_second=row.item_bytes / (decoded - encoded),
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


def codec_header(media: Media) -> str:
    """The line above the rows of a table."""
    return (
        f"{'':36} {'bits per ' + UNITS[media]:>19} {'prepare':>9} "
        f"{'encode':>11} {'decode':>11} {'encode':>13} {'decode':>13}"
    )


def codec_line(row: CodecTiming) -> str:
    """A row for a reader: bits, seconds once, milliseconds for an item, KB of items in a second."""
    if row.failure is not None:
        return f"{row.name:36} {row.failure}"
    interval = "" if row.half_width is None else f" ± {row.half_width:.4f}"
    return (
        f"{row.name:36} {f'{row.bits_per_variable:.4f}{interval}':>19} {row.prepare_seconds:>7.2f} s "
        f"{_milliseconds(row.encode_seconds)} {_milliseconds(row.decode_seconds)} "
        f"{_kilobytes(row.encode_bytes_per_second)} {_kilobytes(row.decode_bytes_per_second)}"
    )


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:>8.2f} ms"


def _kilobytes(rate: float | None) -> str:
    return "" if rate is None else f"{rate / 1000:>8,.1f} KB/s"


# Items


def media_of(corpus: Corpus) -> Media:
    """What a corpus holds."""
    if corpus.alphabet is not None:
        return "bytes" if corpus.alphabet.characters is None else "text"
    return "images" if isinstance(corpus, ImageCorpus) else "audio"


def spread_items(corpus: Corpus, split: Split, shape: Shape, num_items: int) -> list[Item]:
    """So many items, or all if there are fewer, spread evenly over a split."""
    rows = corpus.items(split, shape)
    places = np.arange(min(num_items, len(rows))) * len(rows) // min(num_items, len(rows))
    return [item_of(rows[place], corpus, shape) for place in places]


def training_items(corpus: Corpus, shape: Shape, num_variables: int) -> list[Item]:
    """The last items of the training split, of so many variables together; none where no rival learns from them."""
    if media_of(corpus) not in ("text", "bytes"):
        return []
    rows = corpus.items("train", shape)[-max(1, num_variables // math.prod(shape)) :]
    return [item_of(row, corpus, shape) for row in rows]


def item_of(classes: np.ndarray, corpus: Corpus, shape: Shape) -> Item:
    """What the classes of a corpus's item stand for."""
    if corpus.alphabet is not None:
        return corpus.alphabet.decode(classes)
    if corpus.sample_rate is None:
        return classes.reshape(shape)
    return Clip(samples=(classes ^ np.uint16(ZERO_CLASS)).view(np.int16), rate=corpus.sample_rate)


def num_variables(item: Item, media: Media) -> int:
    """Sub-pixels, characters, bytes or samples."""
    if isinstance(item, bytes):
        return len(item.decode()) if media == "text" else len(item)
    return item.samples.size if isinstance(item, Clip) else item.size


def num_bytes(item: Item) -> int:
    """The size of an item as it is."""
    if isinstance(item, bytes):
        return len(item)
    return item.samples.nbytes if isinstance(item, Clip) else item.nbytes


def is_same(item: Item, again: Item) -> bool:
    """Whether an item was restored, a grey image perhaps as three equal channels (WebP knows no others)."""
    if isinstance(item, bytes) or isinstance(again, bytes):
        return isinstance(item, bytes) and isinstance(again, bytes) and item == again
    if isinstance(item, Clip) or isinstance(again, Clip):
        return isinstance(item, Clip) and isinstance(again, Clip) and _is_same_sound(item, again)
    if item.shape[:2] != again.shape[:2] or again.shape[2] not in (item.shape[2], 3) or again.dtype != item.dtype:
        return False
    return bool((item == again).all())


def _is_same_sound(item: Clip, again: Clip) -> bool:
    return item.rate == again.rate and np.array_equal(item.samples, again.samples)


# Rivals


def rivals_for(media: Media, items: Sequence[Item]) -> list[Rival]:
    """The rivals for items of this kind; where all have one length, PPMd's files need not tell it."""
    lengths = {len(item) for item in items if isinstance(item, bytes)}
    item_length = lengths.pop() if len(lengths) == 1 else None
    rivals: list[Rival] = [
        Png(),
        WebP(),
        JPEG_XL,
        FLIF,
        Deflate(),
        Brotli(is_text=media == "text"),
        Zstandard(),
        Ppmd(item_length=item_length),
        SoundfileFlac(),
        FLAC,
        WAVPACK,
    ]
    return [rival for rival in rivals if media in rival.media]


@dataclass(frozen=True, kw_only=True)
class ItemCodec(ABC):
    """A rival that handles one item at a time."""

    name: str
    media: tuple[Media, ...]
    source: str = "pip install 'ardm[bench]'"

    @abstractmethod
    def is_available(self) -> bool:
        """Whether it is installed."""

    @abstractmethod
    def encode_item(self, item: Any) -> bytes:
        """The content of an item's file."""

    @abstractmethod
    def decode_item(self, file: bytes) -> Item:
        """The item of a file."""

    def prepare(self, training: Sequence[Item]) -> "ItemCodec":
        """Most learn nothing."""
        return self

    def encode(self, items: Sequence[Item]) -> list[bytes]:
        """A file for each item."""
        return [self.encode_item(item) for item in items]

    def decode(self, files: Sequence[bytes]) -> list[Item]:
        """The item of each file."""
        return [self.decode_item(file) for file in files]


@dataclass(frozen=True, kw_only=True)
class Png(ItemCodec):
    """PNG by Pillow."""

    name: str = "PNG (Pillow, optimize)"
    media: tuple[Media, ...] = ("images",)

    def is_available(self) -> bool:
        """Pillow is always there."""
        return True

    def encode_item(self, item: Pixels) -> bytes:
        """The best of zlib's levels and of PNG's filters as Pillow chooses them."""
        return _saved(item, format="PNG", optimize=True)

    def decode_item(self, file: bytes) -> Pixels:
        """The pixels."""
        return pixels_of(file)


@dataclass(frozen=True, kw_only=True)
class WebP(ItemCodec):
    """Lossless WebP by Pillow."""

    name: str = "WebP (Pillow, lossless, method 6)"
    media: tuple[Media, ...] = ("images",)
    source: str = "a Pillow with WebP"

    def is_available(self) -> bool:
        """Pillow may have been built without it."""
        return bool(features.check("webp"))

    def encode_item(self, item: Pixels) -> bytes:
        """Slowest and smallest; `exact` also keeps colours that are not seen."""
        return _saved(item, format="WEBP", lossless=True, quality=100, method=6, exact=True)

    def decode_item(self, file: bytes) -> Pixels:
        """The pixels; grey ones come back as RGB."""
        return pixels_of(file)


@dataclass(frozen=True, kw_only=True)
class Deflate(ItemCodec):
    """Deflate at its highest level, without zlib's header and checksum."""

    name: str = "zlib (level 9, raw deflate)"
    media: tuple[Media, ...] = ("text", "bytes")

    def is_available(self) -> bool:
        """Python has it."""
        return True

    def encode_item(self, item: bytes) -> bytes:
        """The bare stream."""
        return zlib.compress(item, 9, wbits=-zlib.MAX_WBITS)

    def decode_item(self, file: bytes) -> bytes:
        """The content of the stream."""
        return zlib.decompress(file, wbits=-zlib.MAX_WBITS)


@dataclass(frozen=True, kw_only=True)
class Brotli(ItemCodec):
    """Brotli with its built-in dictionary."""

    name: str = "brotli (quality 11)"
    media: tuple[Media, ...] = ("text", "bytes")
    is_text: bool = False
    """Whether to expect UTF-8."""

    def is_available(self) -> bool:
        """An optional package."""
        return _has_package("brotli")

    def encode_item(self, item: bytes) -> bytes:
        """A stream, for text in text mode."""
        import brotli

        return brotli.compress(item, mode=brotli.MODE_TEXT if self.is_text else brotli.MODE_GENERIC, quality=11)

    def decode_item(self, file: bytes) -> bytes:
        """The content of the stream."""
        import brotli

        return brotli.decompress(file)


@dataclass(frozen=True, kw_only=True)
class Zstandard(ItemCodec):
    """Zstandard with a dictionary trained on training items; frames without magic number, sizes and checksum."""

    name: str = "zstd (level 19, trained dictionary)"
    media: tuple[Media, ...] = ("text", "bytes")
    dictionary: bytes = b""

    def is_available(self) -> bool:
        """An optional package."""
        return _has_package("zstandard")

    def prepare(self, training: Sequence[Item]) -> "Zstandard":
        """With a dictionary of at most 1 MB."""
        import zstandard

        samples: list[Any] = [item for item in training if isinstance(item, bytes)]
        return replace(self, dictionary=zstandard.train_dictionary(DICTIONARY_BYTES, samples).as_bytes())

    def encode_item(self, item: bytes) -> bytes:
        """A frame."""
        return self._compressor.compress(item)

    def decode_item(self, file: bytes) -> bytes:
        """The content of the frame."""
        return self._decompressor.decompressobj().decompress(file)

    @cached_property
    def _compressor(self) -> Any:
        import zstandard

        settings = zstandard.ZstdCompressionParameters.from_level(
            19,
            dict_size=len(self.dictionary),
            format=zstandard.FORMAT_ZSTD1_MAGICLESS,
            write_content_size=False,
            write_dict_id=False,
            write_checksum=False,
        )
        return zstandard.ZstdCompressor(dict_data=self._dictionary, compression_params=settings)

    @cached_property
    def _decompressor(self) -> Any:
        import zstandard

        return zstandard.ZstdDecompressor(dict_data=self._dictionary, format=zstandard.FORMAT_ZSTD1_MAGICLESS)

    @cached_property
    def _dictionary(self) -> Any:
        import zstandard

        return zstandard.ZstdCompressionDict(self.dictionary) if self.dictionary else None


@dataclass(frozen=True, kw_only=True)
class Ppmd(ItemCodec):
    """PPMd (variant H, that of 7-Zip) which has read the training text before it codes an item.

    The package cannot keep a primed state, so both sides code the training text again for each item, and their times
    hold this. The stream of text and item begins with bytes that the text alone decides; of the rest, the number by
    which it exceeds the end of the text's own stream is the item's file, as the decoder has the latter:

        rest(text + item) = rest(text) * 256^m + excess,    0 <= excess < 256^(m + 4)

    with m the bytes that the item made the coder put out. The coder's last range is at least 256^3 wide, so excess
    may be rounded up to a multiple of 256^3 and is written in m + 1 bytes: the item's bits and at most 2 bytes.
    """

    name: str = "PPMd (order 8, primed)"
    media: tuple[Media, ...] = ("text", "bytes")
    order: int = 8
    memory_bytes: int = 2**28
    """Enough for the statistics of the training text at this order; with less they would be dropped on the way."""
    text: bytes = b""
    """What was read before."""
    item_length: int | None = None
    """The length that all items have; None writes it in each file."""

    def is_available(self) -> bool:
        """An optional package."""
        return _has_package("pyppmd")

    def prepare(self, training: Sequence[Item]) -> "Ppmd":
        """Primed with all training items, the last one nearest."""
        return replace(self, text=b"".join(item for item in training if isinstance(item, bytes)))

    def encode_item(self, item: bytes) -> bytes:
        """The item's length, unless it is known, and its excess."""
        if self.item_length not in (None, len(item)):
            raise ValueError(f"an item has {len(item)} bytes where all should have {self.item_length}")
        length = b"" if self.item_length is not None else _varint(len(item))
        text_rest, rest = self._primed.rest, self._stream(item).rest
        num_new = len(rest) - len(text_rest)
        excess = int.from_bytes(rest) - (int.from_bytes(text_rest) << 8 * num_new)
        return length + (-(-excess >> 24)).to_bytes(num_new + 1)

    def decode_item(self, file: bytes) -> bytes:
        """The item, after the training text."""
        import pyppmd

        length, start = (self.item_length, 0) if self.item_length is not None else _read_varint(file)
        text_rest, num_new = self._primed.rest, len(file) - start - 1
        rest = (int.from_bytes(text_rest) << 8 * num_new) + (int.from_bytes(file[start:]) << 24)
        stream = self._primed.known + rest.to_bytes(len(text_rest) + num_new)
        decoder = pyppmd.Ppmd7Decoder(self.order, self.memory_bytes)
        return decoder.decode(stream, len(self.text) + length)[len(self.text) :]

    @cached_property
    def _primed(self) -> "_PpmdStream":
        return self._stream(b"")

    def _stream(self, item: bytes) -> "_PpmdStream":
        import pyppmd

        encoder = pyppmd.Ppmd7Encoder(self.order, self.memory_bytes)
        known = encoder.encode(self.text)
        return _PpmdStream(known=known, rest=encoder.encode(item) + encoder.flush())


@dataclass(frozen=True, kw_only=True)
class _PpmdStream:
    """A text and an item, coded."""

    known: bytes
    """What was put out when the text had been read; no later carry can change it."""
    rest: bytes


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first, the top bit set in all but the last."""
    low, high = value % 128, value // 128
    return bytes([low]) if high == 0 else bytes([128 + low]) + _varint(high)


def _read_varint(file: bytes) -> tuple[int, int]:
    """The value at the beginning of a file, and where it ends."""
    end = next(place for place, byte in enumerate(file) if byte < 128) + 1
    return sum(byte % 128 << 7 * place for place, byte in enumerate(file[:end])), end


@dataclass(frozen=True, kw_only=True)
class SoundfileFlac(ItemCodec):
    """FLAC by soundfile, whose highest level is the tool's -8."""

    name: str = "FLAC (soundfile, highest level)"
    media: tuple[Media, ...] = ("audio",)
    source: str = "pip install 'ardm[audio]'"

    def is_available(self) -> bool:
        """An optional package."""
        return _has_package("soundfile")

    def encode_item(self, item: Clip) -> bytes:
        """A whole FLAC file."""
        import soundfile

        file = io.BytesIO()
        soundfile.write(file, item.samples, item.rate, subtype="PCM_16", format="FLAC", compression_level=1.0)
        return file.getvalue()

    def decode_item(self, file: bytes) -> Clip:
        """Samples and rate."""
        import soundfile

        samples, rate = soundfile.read(io.BytesIO(file), dtype="int16")
        return Clip(samples=samples, rate=rate)


@dataclass(frozen=True, kw_only=True)
class Tool(ItemCodec):
    """A pair of commands that turn files into files."""

    encoder: str
    """A command; SOURCE and TARGET stand for the files it reads and writes."""
    decoder: str
    suffix: str
    """Of its files."""

    @property
    def plain_suffix(self) -> str:
        """Of the files that it encodes."""
        return ".wav" if self.media == ("audio",) else ".ppm"

    def is_available(self) -> bool:
        """Whether both commands are found."""
        return all(shutil.which(command.split()[0]) for command in (self.encoder, self.decoder))

    def encode_item(self, item: Pixels | Clip) -> bytes:
        """The file that the encoder writes for a PPM, PGM or WAV file."""
        plain = _wav(item) if isinstance(item, Clip) else _saved(item, format="PPM")
        return _converted(plain, self.plain_suffix, self.encoder, self.suffix)

    def decode_item(self, file: bytes) -> Pixels | Clip:
        """What the decoder writes."""
        plain = _converted(file, self.suffix, self.decoder, self.plain_suffix)
        return _read_wav(plain) if self.media == ("audio",) else pixels_of(plain)


JPEG_XL = Tool(
    name="JPEG XL (cjxl -d 0 -e 9 -E 3 -I 100)",
    media=("images",),
    source="apt-get install libjxl-tools",
    encoder="cjxl SOURCE TARGET -d 0 -e 9 -E 3 -I 100 --num_threads=0 --quiet",
    decoder="djxl SOURCE TARGET --num_threads=0 --quiet",
    suffix=".jxl",
)
FLIF = Tool(
    name="FLIF (-E100)",
    media=("images",),
    source="build it from github.com/FLIF-hub/FLIF",
    encoder="flif -e -E100 SOURCE TARGET",
    decoder="flif -d SOURCE TARGET",
    suffix=".flif",
)
FLAC = Tool(
    name="FLAC (flac -8, no padding)",
    media=("audio",),
    source="apt-get install flac",
    encoder="flac --silent --force -8 --no-padding --no-seektable -o TARGET SOURCE",
    decoder="flac --silent --force --decode -o TARGET SOURCE",
    suffix=".flac",
)
WAVPACK = Tool(
    name="WavPack (-hh -x6)",
    media=("audio",),
    source="apt-get install wavpack",
    encoder="wavpack -q -y -hh -x6 SOURCE -o TARGET",
    decoder="wvunpack -q -y SOURCE -o TARGET",
    suffix=".wv",
)


def _has_package(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _converted(content: bytes, suffix: str, command: str, target_suffix: str) -> bytes:
    """What a command writes for a file of this content."""
    with TemporaryDirectory() as folder:
        source, target = Path(folder, f"source{suffix}"), Path(folder, f"target{target_suffix}")
        source.write_bytes(content)
        paths = {"SOURCE": str(source), "TARGET": str(target)}
        subprocess.run(
            [paths.get(word, word) for word in command.split()],
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        return target.read_bytes()


def _saved(pixels: Pixels, **settings: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, **settings)
    return file.getvalue()


def pixels_of(file: bytes) -> Pixels:
    """The pixels of an image file, grey or RGB."""
    with Image.open(io.BytesIO(file)) as image:
        if image.mode not in ("L", "RGB"):
            raise DataError(f"an image came back in mode {image.mode}, neither grey nor RGB")
        pixels = np.asarray(image)
    return pixels.reshape(*pixels.shape[:2], -1)


def _wav(clip: Clip) -> bytes:
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(clip.rate)
        file.writeframes(clip.samples.astype("<i2", copy=False).tobytes())
    return content.getvalue()


def _read_wav(content: bytes) -> Clip:
    with wave.open(io.BytesIO(content)) as file:
        if (file.getnchannels(), file.getsampwidth()) != (1, 2):
            raise DataError(f"a sound came back as {file.getnchannels()} channels of {file.getsampwidth()} bytes")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.int16)
        return Clip(samples=samples, rate=file.getframerate())
