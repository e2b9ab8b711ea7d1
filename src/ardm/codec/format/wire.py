"""Numbers, checksums and deflated parts in files: little endian, each value in one form only.

A varint is an unsigned LEB128: seven bits per byte, the lowest first, bit 7 set on every byte but the last. Only the
shortest form is read, and nothing above 64 bits.
"""

import zlib
from functools import reduce

from ardm.errors import DamagedError

MAX_VARINT = 2**64 - 1
CHECK_BYTES = 4


def varint(number: int) -> bytes:
    """The shortest LEB128 form of a number in 0..2^64-1."""
    if not 0 <= number <= MAX_VARINT:
        raise ValueError(f"a varint holds 0..{MAX_VARINT}, got {number}")
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def uint32(number: int) -> bytes:
    """A number as four little-endian bytes."""
    return number.to_bytes(4, "little")


def uint64(number: int) -> bytes:
    """A number as eight little-endian bytes."""
    return number.to_bytes(8, "little")


def check_of(*parts: bytes) -> int:
    """The CRC-32 (as in zlib) of the concatenated parts."""
    return reduce(lambda check, part: zlib.crc32(part, check), parts, 0)


class Cursor:
    """Reads bytes from the front; a DamagedError if they end too soon or hold an invalid value."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def remaining(self) -> int:
        """The number of unread bytes."""
        return len(self._data) - self._position

    def take(self, num_bytes: int) -> bytes:
        """The next bytes."""
        if num_bytes > self.remaining:
            raise DamagedError(f"it ends too soon: {num_bytes} bytes expected, {self.remaining} left")
        start, self._position = self._position, self._position + num_bytes
        return self._data[start : self._position]

    def rest(self) -> bytes:
        """All unread bytes."""
        return self.take(self.remaining)

    def byte(self, maximum: int = 0xFF) -> int:
        """The next byte, 0..maximum."""
        return _in_range(self.take(1)[0], 0, maximum)

    def uint32(self) -> int:
        """The next four bytes as a number."""
        return int.from_bytes(self.take(4), "little")

    def varint(self, minimum: int = 0, maximum: int = MAX_VARINT) -> int:
        """The next varint, minimum..maximum."""
        number, shift = 0, 0
        while (byte := self.take(1)[0]) > 0x7F:
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise DamagedError("a number of more than 64 bits")
        if byte == 0 and shift:
            raise DamagedError("a number that is not in its shortest form")
        return _in_range(number | byte << shift, minimum, maximum)

    def finish(self) -> None:
        """Raise a DamagedError unless every byte has been read."""
        if self.remaining:
            raise DamagedError(f"{self.remaining} bytes too many")


def _in_range(number: int, minimum: int, maximum: int) -> int:
    if not minimum <= number <= maximum:
        raise DamagedError(f"a number lies outside {minimum}..{maximum}: {number}")
    return number


def deflate(data: bytes) -> bytes:
    """A raw deflate stream (RFC 1951)."""
    return zlib.compress(data, 9, -zlib.MAX_WBITS)


def inflate(data: bytes, max_bytes: int) -> bytes:
    """The content of a raw deflate stream that ends with the data; a DamagedError if it has more than `max_bytes`."""
    decoder = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = decoder.decompress(data, max_bytes + 1)  # one more, to reach the end and notice any excess
    except zlib.error as error:
        raise DamagedError(f"a deflated part cannot be restored: {error}") from None
    if len(content) > max_bytes or not decoder.eof or decoder.unused_data:
        raise DamagedError("a deflated part does not have its stated size")
    return content
