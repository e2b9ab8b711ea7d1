"""The values of a request, each checked for its type and range before it is used."""

import base64
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ardm.apps.serve.limits import PageLimits
from ardm.errors import ArdmError, DataError

MAX_NAME = 60
"""Characters of a file's name; file systems take 255 bytes."""


class PageRequest:
    """The values of a request; errors are DataErrors that name the value."""

    def __init__(self, values: Mapping[str, Any], limits: PageLimits) -> None:
        self._values, self.limits = values, limits

    def has(self, name: str) -> bool:
        """Whether a value is given."""
        return self._values.get(name) is not None

    def integer(self, name: str, low: int, high: int) -> int:
        """An integer from low to high."""
        value = self._values.get(name)
        is_fine = type(value) is int and low <= value <= high
        return int(_checked(name, value, is_fine, f"a whole number from {low} to {high}"))

    def number(self, name: str, low: float, high: float) -> float:
        """A number from low to high."""
        value = self._values.get(name)
        is_fine = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        return float(_checked(name, value, is_fine, f"a number from {low:g} to {high:g}"))

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._values.get(name)
        return bool(_checked(name, value, isinstance(value, bool), "true or false"))

    def choice(self, name: str, choices: Collection[str]) -> str:
        """One of the given words."""
        value = self._values.get(name)
        is_fine = isinstance(value, str) and value in choices
        return str(_checked(name, value, is_fine, f"one of {', '.join(choices)}"))

    def text(self, name: str, max_length: int) -> str:
        """A text of at most `max_length` characters, all valid in UTF-8."""
        value = self._string(name, "a text")
        if len(value) > max_length:
            raise DataError(f"{name} has {len(value):,} characters; this page takes up to {max_length:,}")
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise DataError(f"{name} holds half a character (a surrogate); type it again")
        return value

    def content(self, name: str) -> bytes:
        """A file in base64."""
        value = self._string(name, "a file in base64")
        self.limits.check_file(len(value) * 3 // 4 - 2)
        try:
            data = base64.b64decode(value, validate=True)
        except ValueError:
            raise DataError(f"{name} is not valid base64") from None
        self.limits.check_file(len(data))
        return data

    def _string(self, name: str, expected: str) -> str:
        value = self._values.get(name)
        return str(_checked(name, value, isinstance(value, str), expected))


def _checked(name: str, value: Any, is_fine: bool, expected: str) -> Any:
    if not is_fine:
        text = repr(value)
        raise DataError(f"{name} must be {expected}, got {text if len(text) <= 40 else f'{text[:37]}...'}")
    return value


def plain_name(name: str, default: str) -> str:
    """The last part of a file's name in plain characters; the name that a browser sends is not trusted."""
    last = re.split(r"[/\\]", name)[-1]
    kept = re.sub(r"[^\w .()+-]", "_", last).strip(" .")
    stem, suffix = os.path.splitext(kept)
    return (stem[: MAX_NAME - len(suffix[:12])] + suffix[:12]) or default


@contextmanager
def as_file(data: bytes, name: str) -> Iterator[Path]:
    """A temporary file with some content; errors do not reveal its folder."""
    with TemporaryDirectory(prefix="ardm-") as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            yield path
        except ArdmError as error:
            raise type(error)(str(error).replace(f"{folder}{os.sep}", "")) from None


def encoded(data: bytes) -> str:
    """Bytes in base64, for JSON."""
    return base64.b64encode(data).decode()
