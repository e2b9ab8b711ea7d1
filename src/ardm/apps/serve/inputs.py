"""The values of a request, each checked for its type and its range before anything is done with it."""

import base64
import binascii
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ardm.apps.serve.limits import PageLimits
from ardm.errors import ArdmError, DataError

LONGEST_NAME = 60
"""Characters; file systems take 255 bytes."""


class PageRequest:
    """The values of a request; errors are DataErrors that name the value."""

    def __init__(self, values: Mapping[str, Any], limits: PageLimits) -> None:
        self._values, self.limits = values, limits

    def has(self, name: str) -> bool:
        """Whether a value is there."""
        return self._values.get(name) is not None

    def whole(self, name: str, least: int, most: int) -> int:
        """A whole number in a range."""
        value = self._values.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise DataError(f"{name} must be a whole number from {least} to {most}, got {_shown(value)}")
        return value

    def number(self, name: str, least: float, most: float) -> float:
        """A number in a range."""
        value = self._values.get(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not least <= value <= most:  # type: ignore[operator]
            raise DataError(f"{name} must be a number from {least:g} to {most:g}, got {_shown(value)}")
        return float(value)  # type: ignore[arg-type]

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._values.get(name)
        if not isinstance(value, bool):
            raise DataError(f"{name} must be true or false, got {_shown(value)}")
        return value

    def choice(self, name: str, choices: Collection[str]) -> str:
        """One of some words."""
        value = self._values.get(name)
        if not isinstance(value, str) or value not in choices:
            raise DataError(f"{name} must be one of {', '.join(choices)}, got {_shown(value)}")
        return value

    def text(self, name: str, most: int) -> str:
        """A text of a limited number of characters, which UTF-8 can hold."""
        value = self._values.get(name)
        if not isinstance(value, str):
            raise DataError(f"{name} must be a text, got {_shown(value)}")
        if len(value) > most:
            raise DataError(f"{name} has {len(value):,} characters; at most {most:,} are taken here")
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise DataError(f"{name} holds half a character (a surrogate); type it again")
        return value

    def content(self, name: str) -> bytes:
        """A file in base64."""
        value = self._values.get(name)
        if not isinstance(value, str):
            raise DataError(f"{name} must be a file in base64, got {_shown(value)}")
        self.limits.check_file(len(value) * 3 // 4 - 2)
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise DataError(f"{name} is no valid base64") from None
        self.limits.check_file(len(data))
        return data


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def plain_name(name: str, otherwise: str) -> str:
    """The last part of a file's name, of ordinary characters only: what a browser sends is not trusted."""
    last = re.split(r"[/\\]", name)[-1]
    kept = re.sub(r"[^\w .()+-]", "_", last).strip(" .")
    stem, suffix = os.path.splitext(kept)
    return (stem[: LONGEST_NAME - len(suffix[:12])] + suffix[:12]) or otherwise


@contextmanager
def as_file(data: bytes, name: str) -> Iterator[Path]:
    """A file with some content in a folder of its own, for as long as the block; errors do not tell where it lay."""
    with TemporaryDirectory(prefix="ardm-") as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            yield path
        except ArdmError as error:
            raise type(error)(str(error).replace(f"{folder}{os.sep}", "")) from None


def encoded(data: bytes) -> str:
    """Bytes for JSON."""
    return base64.b64encode(data).decode()
