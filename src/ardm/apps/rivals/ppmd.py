"""PPMd (variant H, as in 7-Zip) that has read the training text before it codes an item.

The package cannot keep a primed state, so both sides code the training text again for each item, and their times
include this. The stream of text and item begins with bytes that the text alone determines. The item's file is the
difference between the rest of the stream and the rest of the text's own stream, which the decoder has:

    rest(text + item) = rest(text) * 256^m + excess,    0 <= excess < 256^(m + 4)

with m the number of bytes that the item added. The coder's last range is at least 256^3 wide, so the excess
may be rounded up to a multiple of 256^3 and is written in m + 1 bytes: the item's bits and at most 2 bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ardm.apps.bench.items import Item
from ardm.apps.rivals.rival import OneByOne
from ardm.codec.format.wire import Cursor, varint


@dataclass(frozen=True, kw_only=True)
class Ppmd(OneByOne):
    """PPMd primed with a text."""

    name: str = "PPMd (order 8, primed)"
    package: str | None = "pyppmd"
    order: int = 8
    memory_bytes: int = 2**28
    """Enough for the statistics of the training text at this order; with less some would be dropped."""
    text: bytes = b""
    """The training text."""
    item_length: int | None = None
    """The common length of all items; None writes it to each file."""

    def prepare(self, training: Sequence[Item]) -> "Ppmd":
        """A copy that is primed with all training items in order."""
        return replace(self, text=b"".join(item for item in training if isinstance(item, bytes)))

    def encode_item(self, item: bytes) -> bytes:
        """The item's length, unless it is known, and the excess."""
        if self.item_length not in (None, len(item)):
            raise ValueError(f"an item has {len(item)} bytes where all should have {self.item_length}")
        length = b"" if self.item_length is not None else varint(len(item))
        text_rest, rest = self._primed.rest, self._stream(item).rest
        num_new = len(rest) - len(text_rest)
        excess = int.from_bytes(rest) - (int.from_bytes(text_rest) << 8 * num_new)
        return length + (-(-excess >> 24)).to_bytes(num_new + 1)

    def decode_item(self, file: bytes) -> bytes:
        import pyppmd

        cursor = Cursor(file)
        length = cursor.varint() if self.item_length is None else self.item_length
        text_rest, excess = self._primed.rest, cursor.rest()
        num_new = len(excess) - 1
        rest = (int.from_bytes(text_rest) << 8 * num_new) + (int.from_bytes(excess) << 24)
        stream = self._primed.known + rest.to_bytes(len(text_rest) + num_new)
        decoder = pyppmd.Ppmd7Decoder(self.order, self.memory_bytes)
        return decoder.decode(stream, len(self.text) + length)[len(self.text) :]

    @cached_property
    def _primed(self) -> "_Stream":
        return self._stream(b"")

    def _stream(self, item: bytes) -> "_Stream":
        import pyppmd

        encoder = pyppmd.Ppmd7Encoder(self.order, self.memory_bytes)
        known = encoder.encode(self.text)
        return _Stream(known=known, rest=encoder.encode(item) + encoder.flush())


@dataclass(frozen=True, kw_only=True)
class _Stream:
    """The stream of a text and an item."""

    known: bytes
    """The output after reading the text, which no later carry can change."""
    rest: bytes
