"""Texts and bytes of any length.

Characters outside a model's alphabet are hidden from it and kept in the side bytes, as escapes:

    form: 0 plain, 1 deflated | number | for each the number of other places since the last one | their UTF-8
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int, UInt32

from ardm.codec.format.fields import BytesFields, TextFields
from ardm.codec.format.wire import Cursor, deflate, inflate, varint
from ardm.codec.windows import Canvas
from ardm.data.alphabet import check_utf8
from ardm.errors import DamagedError
from ardm.media.contents import Content, bytes_content, text_content
from ardm.media.layout import Layout, Placement
from ardm.names import Shape

PLAIN, DEFLATED = 0, 1

Codes = UInt32[np.ndarray, "N"]
"""Unicode code points."""


class BytesLayout(Layout[BytesFields]):
    """Any file for a model of bytes."""

    title, fields, dtype = "bytes", BytesFields, np.uint8

    def read(self, path: Path) -> Content:
        """The bytes of a file."""
        return bytes_content(path.read_bytes())

    def place(self, content: Content) -> Placement:
        """The bytes themselves."""
        return Placement(content=content, canvases=[Canvas(values=np.frombuffer(content.raw, np.uint8))])

    def sizes(self, fields: BytesFields, side: bytes) -> list[Shape]:
        """One canvas."""
        if side:
            raise DamagedError("bytes have no side bytes")
        return [(fields.length,)]

    def raw(self, fields: BytesFields, side: bytes, canvases: Sequence[Canvas]) -> bytes:
        """The bytes themselves."""
        return canvases[0].values.tobytes()


class TextLayout(Layout[TextFields]):
    """UTF-8 texts for a model of characters."""

    title, fields = "text", TextFields

    def __init__(self, characters: str) -> None:
        self._codes = _code_points(characters)
        self._class_of = np.full(int(self._codes.max()) + 1, -1, np.int64)
        self._class_of[self._codes] = np.arange(len(self._codes))

    def read(self, path: Path) -> Content:
        """The text of a file, to the byte; a DataError if it is not UTF-8."""
        content = path.read_bytes()
        check_utf8(content, str(path))
        return text_content(content.decode())

    def place(self, content: Content) -> Placement:
        """The classes of the characters, and the escapes."""
        codes = _code_points(content.raw.decode())
        classes = self._class_of[np.minimum(codes, len(self._class_of) - 1)]
        unknown = (classes < 0) | (codes >= len(self._class_of))
        if not unknown.any():
            return Placement(content=content, canvases=[Canvas(values=classes)])
        side = encode_escapes(np.flatnonzero(unknown), codes[unknown])
        return Placement(
            content=content, canvases=[Canvas(values=np.where(unknown, 0, classes), hidden=unknown)], side=side
        )

    def sizes(self, fields: TextFields, side: bytes) -> list[Shape]:
        """One canvas."""
        return [(fields.length,)]

    def hidden(self, fields: TextFields, side: bytes) -> Bool[np.ndarray, "N"] | None:
        """The escaped places."""
        if not side:
            return None
        hidden = np.zeros(fields.length, bool)
        hidden[decode_escapes(side, fields.length)[0]] = True
        return hidden

    def raw(self, fields: TextFields, side: bytes, canvases: Sequence[Canvas]) -> bytes:
        """The text in UTF-8."""
        codes = self._codes[canvases[0].values]
        if side:
            places, escaped = decode_escapes(side, fields.length)
            codes[places] = escaped
        return codes.astype("<u4").tobytes().decode("utf-32-le").encode()


def encode_escapes(places: Int[np.ndarray, "E"], codes: UInt32[np.ndarray, "E"]) -> bytes:
    """The side bytes of characters at increasing places."""
    gaps = np.diff(places, prepend=-1) - 1
    plain = (
        b"".join(map(varint, [len(places), *gaps.tolist()]))
        + codes.astype("<u4").tobytes().decode("utf-32-le").encode()
    )
    return min(bytes([PLAIN]) + plain, bytes([DEFLATED]) + deflate(plain), key=len)


def decode_escapes(side: bytes, length: int) -> tuple[Int[np.ndarray, "E"], UInt32[np.ndarray, "E"]]:
    """The places and code points in the side bytes of a text of `length` characters."""
    cursor = Cursor(side)
    form, data = cursor.byte(maximum=DEFLATED), cursor.rest()
    # A gap of k bytes stands for k places or more, a character for one.
    cursor = Cursor(inflate(data, 5 * length + 10) if form == DEFLATED else data)
    count = cursor.varint(minimum=1, maximum=length)
    places = np.cumsum([cursor.varint(maximum=length) + 1 for _ in range(count)]) - 1
    try:
        codes = _code_points(cursor.rest().decode())
    except UnicodeDecodeError:
        raise DamagedError("its escaped characters are not valid UTF-8") from None
    if len(codes) != count or places[-1] >= length:
        raise DamagedError("its escaped characters do not fit their places")
    return places, codes


def _code_points(text: str) -> Codes:
    return np.frombuffer(text.encode("utf-32-le"), "<u4").astype(np.uint32)
