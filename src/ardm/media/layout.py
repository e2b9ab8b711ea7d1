"""Layouts: contents as arrays of a model's classes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import numpy as np
from jaxtyping import Bool

from ardm.codec.format.fields import Fields
from ardm.codec.windows import Canvas
from ardm.media.contents import Content
from ardm.names import Shape

F = TypeVar("F", bound=Fields)


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """A content laid out for a model."""

    content: Content
    canvases: Sequence[Canvas]
    side: bytes = b""
    """Information that the canvases lack."""


class Layout(Generic[F]):
    """The layout of contents of one kind for one model, on canvases and in side bytes."""

    title: ClassVar[str]
    """Name of the contents in messages."""
    fields: type[F]
    dtype: type[np.unsignedinteger] = np.uint16
    """Type of the values on decoded canvases."""
    suffixes: Collection[str] = ()
    """Suffixes of the files to find in a folder; empty for all files."""

    def takes(self, fields: Fields) -> bool:
        """Whether the model can code contents with these fields."""
        return isinstance(fields, self.fields)

    def blank(self, fields: F, side: bytes) -> list[Canvas]:
        """The canvases before any window is decoded."""
        hidden = self.hidden(fields, side)
        return [Canvas(values=np.zeros(size, self.dtype), hidden=hidden) for size in self.sizes(fields, side)]

    def hidden(self, fields: F, side: bytes) -> Bool[np.ndarray, "..."] | None:
        """The places of a canvas that are not coded; None if all are."""
        return None

    def read(self, path: Path) -> Content:
        """The content of a user's file; a DataError if it cannot be kept exactly."""
        raise NotImplementedError

    def place(self, content: Content) -> Placement:
        """The canvases and the side bytes of a content."""
        raise NotImplementedError

    def sizes(self, fields: F, side: bytes) -> list[Shape]:
        """The sizes of the canvases; a DamagedError for side bytes that no content has."""
        raise NotImplementedError

    def raw(self, fields: F, side: bytes, canvases: Sequence[Canvas]) -> bytes:
        """The raw content that the canvases and the side bytes hold."""
        raise NotImplementedError
