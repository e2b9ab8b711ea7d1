"""Codecs in Python packages: PNG and WebP with Pillow, FLAC with soundfile, and deflate, brotli and zstd for bytes."""

import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image, features

from ardm.apps.bench.items import Item
from ardm.apps.rivals.rival import OneByOne
from ardm.codec.format.wire import deflate
from ardm.data.images import Pixels
from ardm.data.sound_files import Sound
from ardm.errors import DataError

DICTIONARY_BYTES = 1_000_000
"""Maximum size of a dictionary for zstd."""


@dataclass(frozen=True, kw_only=True)
class Pillow(OneByOne):
    """A format that Pillow writes and reads."""

    feature: str
    """The feature that Pillow must be built with."""
    settings: Mapping[str, Any]
    """Arguments of Image.save."""

    def is_available(self) -> bool:
        return bool(features.check(self.feature))

    def encode_item(self, item: Pixels) -> bytes:
        return saved(item, **self.settings)

    def decode_item(self, file: bytes) -> Pixels:
        """The pixels; WebP restores grey as RGB."""
        return pixels_of(file)


PNG = Pillow(
    name="PNG (Pillow, optimize)",
    source="a Pillow with zlib",
    feature="zlib",
    settings={"format": "PNG", "optimize": True},
)
WEBP = Pillow(
    name="WebP (Pillow, lossless, method 6)",
    source="a Pillow with WebP",
    feature="webp",
    settings={"format": "WEBP", "lossless": True, "quality": 100, "method": 6, "exact": True},
)
"""The slowest and smallest setting; `exact` keeps invisible colours."""


def saved(pixels: Pixels, **settings: Any) -> bytes:
    """An image file of the pixels, grey or RGB, with or without alpha."""
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, **settings)
    return file.getvalue()


def pixels_of(file: bytes) -> Pixels:
    """The pixels of an image file, grey or RGB, with or without alpha."""
    with Image.open(io.BytesIO(file)) as image:
        if image.mode not in ("L", "LA", "RGB", "RGBA"):
            raise DataError(f"an image came back in mode {image.mode}, neither grey nor RGB")
        pixels = np.asarray(image)
    return pixels.reshape(*pixels.shape[:2], -1)


@dataclass(frozen=True, kw_only=True)
class SoundfileFlac(OneByOne):
    """FLAC with soundfile, whose highest level is the tool's -8."""

    name: str = "FLAC (soundfile, highest level)"
    source: str = "pip install 'ardm[audio]'"
    package: str | None = "soundfile"

    def encode_item(self, item: Sound) -> bytes:
        import soundfile

        file = io.BytesIO()
        soundfile.write(file, item.frames, item.rate, subtype="PCM_16", format="FLAC", compression_level=1.0)
        return file.getvalue()

    def decode_item(self, file: bytes) -> Sound:
        import soundfile

        frames, rate = soundfile.read(io.BytesIO(file), dtype="int16", always_2d=True)
        return Sound(frames=frames, rate=rate)


@dataclass(frozen=True, kw_only=True)
class Deflate(OneByOne):
    """Deflate at its highest level, without zlib's header and checksum."""

    name: str = "zlib (level 9, raw deflate)"

    def encode_item(self, item: bytes) -> bytes:
        return deflate(item)

    def decode_item(self, file: bytes) -> bytes:
        return zlib.decompress(file, wbits=-zlib.MAX_WBITS)


@dataclass(frozen=True, kw_only=True)
class Brotli(OneByOne):
    """Brotli with its built-in dictionary."""

    name: str = "brotli (quality 11)"
    package: str | None = "brotli"
    is_text: bool = False
    """Whether items are UTF-8."""

    def encode_item(self, item: bytes) -> bytes:
        import brotli

        return brotli.compress(item, mode=brotli.MODE_TEXT if self.is_text else brotli.MODE_GENERIC, quality=11)

    def decode_item(self, file: bytes) -> bytes:
        import brotli

        return brotli.decompress(file)


@dataclass(frozen=True, kw_only=True)
class Zstandard(OneByOne):
    """Zstandard with a trained dictionary; frames have no magic number, sizes or checksum."""

    name: str = "zstd (level 19, trained dictionary)"
    package: str | None = "zstandard"
    dictionary: bytes = b""

    def prepare(self, training: Sequence[Item]) -> "Zstandard":
        """A copy with a dictionary, if there are training items."""
        if not training:
            return self
        import zstandard

        samples: list[Any] = [item for item in training if isinstance(item, bytes)]
        return replace(self, dictionary=zstandard.train_dictionary(DICTIONARY_BYTES, samples).as_bytes())

    def encode_item(self, item: bytes) -> bytes:
        return self._compressor.compress(item)

    def decode_item(self, file: bytes) -> bytes:
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
