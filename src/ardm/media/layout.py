"""What every medium offers the codec: files, and contents as arrays of a model's classes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from ardm.codec.format.fields import Fields
from ardm.codec.windows import Canvas
from ardm.media.contents import Content
from ardm.orders import Shape


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """A content laid out for a model."""

    canvases: Sequence[Canvas]
    side: bytes = b""
    """What the canvases leave out."""


@runtime_checkable
class Layout(Protocol):
    """How contents of one medium lie on canvases for one model."""

    title: str
    """What the model takes."""
    suffixes: Collection[str]
    """Of the files that a folder is searched for; none: all files."""

    def read(self, path: Path) -> Content:
        """The content of a user's file; a DataError where it cannot be kept exactly."""

    def takes(self, fields: Fields) -> bool:
        """Whether the model can code such contents."""

    def place(self, content: Content) -> Placement:
        """The canvases of a content, and what they leave out."""

    def sizes(self, fields: Fields, side: bytes) -> list[Shape]:
        """The sizes of the canvases; a DamagedError for side bytes that no content has."""

    def blank(self, fields: Fields, side: bytes) -> list[Canvas]:
        """The canvases before any window is decoded."""

    def raw(self, fields: Fields, side: bytes, canvases: Sequence[Canvas]) -> bytes:
        """The raw content that the canvases and the side bytes hold."""
