"""Alphabets: the symbols of a text as classes 0..K-1."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Integer

from ardm.errors import DataError

MAX_CHARACTERS = 4096
HIDDEN_SYMBOL = "_"
"""Stands for variables that are not yet revealed, as in the paper's figures."""


@dataclass(frozen=True, kw_only=True)
class Alphabet:
    """Characters in a fixed order, or the 256 bytes."""

    characters: str | None
    """The characters of classes 0, 1, ...; None for raw bytes (K = 256)."""

    def __post_init__(self) -> None:
        if self.characters is not None and not self.characters:
            raise DataError("an alphabet needs at least one character")
        if self.characters is not None and len(set(self.characters)) != len(self.characters):
            raise DataError("an alphabet contains a character twice")
        if self.characters is not None and any("\ud800" <= c <= "\udfff" for c in self.characters):
            raise DataError("an alphabet cannot hold surrogates")

    @property
    def num_classes(self) -> int:
        """The number of classes K."""
        return 256 if self.characters is None else len(self.characters)

    def encode(self, content: bytes | str, source: str = "the text") -> Integer[np.ndarray, "N"]:
        """The classes of a text, or of a file's content, whose characters are read as UTF-8.

        >>> from ardm.data.alphabet import Alphabet
        >>> Alphabet(characters="acfé").encode("café").tolist()
        [1, 0, 2, 3]
        """
        if isinstance(content, str):
            content = utf8(content, source)
        if self.characters is None:
            return np.frombuffer(content, np.uint8)
        if not content:
            raise DataError(f"{source} is empty")
        if self.characters.isascii() and content.isascii():
            codes = np.frombuffer(content, np.uint8)
        else:
            codes = code_points(content, source)
        return self.classes_of(codes, source)

    def classes_of(self, codes: Integer[np.ndarray, "N"], source: str) -> Integer[np.ndarray, "N"]:
        """The classes of characters given by their code points."""
        assert self.characters is not None
        table = np.array([ord(c) for c in self.characters], np.uint32)
        class_of = np.full(max(int(table.max()), int(codes.max())) + 1, -1, np.int16)
        class_of[table] = np.arange(len(table))
        classes = class_of[codes]
        if classes.min() < 0:
            position, known = int(classes.argmin()), self.characters
            shown = known if len(known) <= 40 else f"{known[:40]}... ({len(known)} characters)"
            raise DataError(
                f"{source}: character {chr(codes[position])!r} at position {position} is not in the model's alphabet "
                f"{shown!r}; remove it, or train on text that has it"
            )
        return classes.astype(np.uint8) if len(table) <= 256 else classes

    def decode(self, classes: Integer[np.ndarray, "N"]) -> bytes:
        """The bytes that these classes stand for."""
        if self.characters is None:
            return classes.astype(np.uint8).tobytes()
        return "".join(self.characters[c] for c in classes).encode()

    def show(self, classes: Integer[np.ndarray, "N"]) -> str:
        """The classes as one line of text, with an underscore for values from K on (not yet revealed)."""
        if self.characters is None:
            shown = [chr(c) if 32 <= c < 127 else "·" for c in range(256)]
        else:
            shown = [c if c.isprintable() else " " for c in self.characters]
        shown.append(HIDDEN_SYMBOL)
        return "".join(shown[min(int(c), self.num_classes)] for c in classes)


BYTES = Alphabet(characters=None)


def alphabet_of(content: bytes, source: str) -> Alphabet:
    """The alphabet of all characters that occur in a UTF-8 text, in code-point order."""
    return alphabet_of_codes(np.unique(code_points(content, source)), source)


def alphabet_of_codes(codes: Integer[np.ndarray, "N"], source: str) -> Alphabet:
    """The alphabet of characters given by their code points, in order; a DataError for more than MAX_CHARACTERS."""
    if len(codes) > MAX_CHARACTERS:
        raise DataError(
            f"{source} has {len(codes)} different characters, more than {MAX_CHARACTERS}; "
            "train on raw bytes instead (preset `bytes`)"
        )
    return Alphabet(characters="".join(map(chr, codes)))


def code_points(content: bytes, source: str) -> Integer[np.ndarray, "N"]:
    """The Unicode code points of UTF-8 content."""
    if not content:
        raise DataError(f"{source} is empty")
    check_utf8(content, source)
    return np.frombuffer(content.decode().encode("utf-32-le"), "<u4").astype(np.uint32)


def utf8(text: str, source: str) -> bytes:
    """The UTF-8 bytes of a text; a DataError for half of a surrogate pair, which has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{source} is not Unicode text (character {error.start} is the surrogate {text[error.start]!a}); remove it"
        ) from None


def check_utf8(content: bytes, source: str, start: int = 0) -> None:
    """Raise a DataError that names the first byte that is not UTF-8, counted from `start`."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{source} is not UTF-8 text (byte {start + error.start} is {content[error.start]:#04x}); "
            "use a model of raw bytes (preset `bytes`)"
        ) from None
