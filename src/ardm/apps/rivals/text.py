"""Codecs of bytes: deflate, brotli and zstd."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ardm.apps.bench.items import Item
from ardm.apps.rivals.rival import OneByOne
from ardm.codec.format.wire import deflate

DICTIONARY_BYTES = 1_000_000


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
        """A copy with a dictionary of at most 1 MB, if there are training items."""
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
