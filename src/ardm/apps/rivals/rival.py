"""Codecs as the benchmark uses them: items to files and back."""

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ardm.apps.bench.items import Item


@dataclass(frozen=True, kw_only=True)
class Rival(ABC):
    """A lossless codec."""

    name: str
    """The codec with the settings that matter."""
    source: str = "pip install 'ardm[bench]'"
    """How to install the codec."""
    package: str | None = None
    """The optional package that it needs."""

    @property
    def network_seconds(self) -> float:
        """Seconds spent in a network so far."""
        return 0.0

    def is_available(self) -> bool:
        """Whether it is installed."""
        return self.package is None or importlib.util.find_spec(self.package) is not None

    def prepare(self, training: Sequence[Item]) -> "Rival":
        """The codec after learning from training items, which its decoder has too; most learn nothing."""
        return self

    @abstractmethod
    def encode(self, items: Sequence[Item]) -> list[bytes]:
        """The content of a file for each item, which can be decoded alone."""

    @abstractmethod
    def decode(self, files: Sequence[bytes]) -> list[Item]:
        """The item of each file."""


class OneByOne(Rival):
    """A codec that handles one item at a time."""

    @abstractmethod
    def encode_item(self, item: Any) -> bytes:
        """The content of an item's file."""

    @abstractmethod
    def decode_item(self, file: bytes) -> Item:
        """The item of a file."""

    def encode(self, items: Sequence[Item]) -> list[bytes]:
        return [self.encode_item(item) for item in items]

    def decode(self, files: Sequence[bytes]) -> list[Item]:
        return [self.decode_item(file) for file in files]
