"""Image files of one picture with at most 8 bits per sample, opened exactly or refused."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.TiffImagePlugin import BITSPERSAMPLE, TiffImageFile

from ardm.errors import DataError

IMAGE_SUFFIXES = {".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".jpg", ".jpeg"}
IMAGE_FORMATS = ("PNG", "BMP", "GIF", "TIFF", "PPM", "JPEG", "WEBP")
"""Formats whose depth Pillow reports; others (AVIF, JPEG 2000) may be cut to 8 bits silently."""
READ_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    EOFError,
    LookupError,
    ArithmeticError,
    struct.error,
    Image.DecompressionBombError,
)
"""Raised by Pillow for files that it cannot read."""


@contextmanager
def opened_image(path: Path) -> Iterator[Image.Image]:
    """A context with an image of at most 8 bits per sample, fully loaded; a DataError if that fails."""
    try:
        with Image.open(path, formats=IMAGE_FORMATS) as image:
            loss = _silent_loss(image)
            if loss is None:
                image.load()
    except READ_ERRORS as error:
        raise DataError(f"{path} cannot be read as an image ({str(error) or type(error).__name__})") from None
    if loss is not None:
        raise DataError(f"{path} {loss}")
    yield image


def _silent_loss(image: Image.Image) -> str | None:
    """The reason to refuse a file if Pillow would silently lose some of it, else None. The file is not loaded."""
    # The further pictures of an MPO file, a camera's JPEG, are previews and the like.
    if getattr(image, "is_animated", False) and image.format != "MPO":
        return "holds several frames or pages; save the one you want as a separate image"
    depth = _excess_depth(image)
    if depth is not None:
        return f"has samples {depth}; convert it to 8 bits first"
    if isinstance(image, PngImageFile) and image.tile[0][3] in ("L;2", "L;4") and "transparency" in image.info:
        return "has a transparent shade of grey in fewer than 8 bits; convert it to 8 bits first"
    return None


def _excess_depth(image: Image.Image) -> str | None:
    """The depth that a file states for its samples, unless 8 bits hold them exactly."""
    if isinstance(image, TiffImageFile):
        bits = max(image.tag_v2.get(BITSPERSAMPLE, (1,)))
        return f"of {bits} bits" if bits > 8 else None
    if isinstance(image, PngImageFile):
        return "of 16 bits" if ";16" in str(image.tile[0][3]) else None
    if isinstance(image, PpmImageFile):
        return _excess_ppm_depth(image)
    return None


def _excess_ppm_depth(image: PpmImageFile) -> str | None:
    if image.mode == "F":
        return "of floating point"
    arguments = image.tile[0][3]
    raw_largest = 65535 if image.mode == "I" else 255
    largest = arguments[1] if isinstance(arguments, tuple) else raw_largest
    return f"up to {largest}" if largest != 255 else None


def unpacked(image: Image.Image) -> Image.Image:
    """An image without a palette, single bits or a transparent colour; grey if every colour of its palette is."""
    alpha = "A" if "transparency" in image.info else ""
    if image.mode == "P":
        colours = image.convert("RGB" + alpha)
        return colours.convert("L" + alpha) if _is_grey(colours) else colours
    if image.mode in ("1", "L"):
        return image.convert("L" + alpha)
    return image.convert("RGBA") if image.mode == "RGB" and alpha else image


def _is_grey(image: Image.Image) -> bool:
    pixels = np.asarray(image)
    return bool((pixels[:, :, 1:3] == pixels[:, :, :1]).all())
