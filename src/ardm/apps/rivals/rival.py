"""What a codec is to the benchmark: it turns items into files and files into items."""

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ardm.apps.bench.items import Item


@runtime_checkable
class Rival(Protocol):
    """A lossless codec."""

    @property
    def name(self) -> str:
        """With the settings that matter."""

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
class OneByOne(ABC):
    """A rival that handles one item at a time."""

    name: str
    source: str = "pip install 'ardm[bench]'"
    package: str | None = None
    """The optional package that it needs."""

    @abstractmethod
    def encode_item(self, item: Any) -> bytes:
        """The content of an item's file."""

    @abstractmethod
    def decode_item(self, file: bytes) -> Item:
        """The item of a file."""

    def is_available(self) -> bool:
        """Whether its package is there."""
        return self.package is None or importlib.util.find_spec(self.package) is not None

    def prepare(self, training: Sequence[Item]) -> "OneByOne":
        """Most learn nothing."""
        return self

    def encode(self, items: Sequence[Item]) -> list[bytes]:
        """A file for each item."""
        return [self.encode_item(item) for item in items]

    def decode(self, files: Sequence[bytes]) -> list[Item]:
        """The item of each file."""
        return [self.decode_item(file) for file in files]
