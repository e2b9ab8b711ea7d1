"""PNG and WebP by Pillow."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, features

from ardm.apps.rivals.rival import OneByOne
from ardm.data.images import Pixels
from ardm.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Pillow(OneByOne):
    """A format that Pillow writes and reads."""

    feature: str
    """The feature that Pillow must be built with."""
    settings: Mapping[str, Any]
    """Arguments of Image.save."""

    def is_available(self) -> bool:
        return bool(features.check(self.feature))

    def encode_item(self, item: Pixels) -> bytes:
        return saved(item, **self.settings)

    def decode_item(self, file: bytes) -> Pixels:
        """The pixels; WebP restores grey as RGB."""
        return pixels_of(file)


PNG = Pillow(
    name="PNG (Pillow, optimize)",
    source="a Pillow with zlib",
    feature="zlib",
    settings={"format": "PNG", "optimize": True},
)
WEBP = Pillow(
    name="WebP (Pillow, lossless, method 6)",
    source="a Pillow with WebP",
    feature="webp",
    settings={"format": "WEBP", "lossless": True, "quality": 100, "method": 6, "exact": True},
)
"""The slowest and smallest setting; `exact` keeps invisible colours."""


def saved(pixels: Pixels, **settings: Any) -> bytes:
    """An image file of the pixels, grey or RGB, with or without alpha."""
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, **settings)
    return file.getvalue()


def pixels_of(file: bytes) -> Pixels:
    """The pixels of an image file, grey or RGB, with or without alpha."""
    with Image.open(io.BytesIO(file)) as image:
        if image.mode not in ("L", "LA", "RGB", "RGBA"):
            raise DataError(f"an image came back in mode {image.mode}, neither grey nor RGB")
        pixels = np.asarray(image)
    return pixels.reshape(*pixels.shape[:2], -1)
