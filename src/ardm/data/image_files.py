"""Image files: one picture of at most 8 bits a sample, opened exactly or refused."""

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
"""Of these Pillow tells how deep they are; others (AVIF, JPEG 2000) it may cut to 8 bits without a word."""
DAMAGE = (
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
"""What Pillow raises for files that it cannot read."""


@contextmanager
def opened_image(path: Path) -> Iterator[Image.Image]:
    """An image file of one image with at most 8 bits a sample, read whole; an error in one line where that fails."""
    try:
        with Image.open(path, formats=IMAGE_FORMATS) as image:
            loss = _silent_loss(image)
            if loss is None:
                image.load()
    except DAMAGE as error:
        raise DataError(f"{path} cannot be read as an image ({str(error) or type(error).__name__})") from None
    if loss is not None:
        raise DataError(f"{path} {loss}")
    yield image


def _silent_loss(image: Image.Image) -> str | None:
    """What Pillow would not keep of a file and not tell; seen before the file is loaded."""
    # The further pictures of an MPO file, a camera's JPEG, are previews and the like.
    if getattr(image, "is_animated", False) and image.format != "MPO":
        return "holds several frames or pages; save the one you mean as an image of its own"
    depth = _excess_depth(image)
    if depth is not None:
        return f"has samples {depth}; 8-bit images are handled, convert it first"
    if isinstance(image, PngImageFile) and image.tile[0][3] in ("L;2", "L;4") and "transparency" in image.info:
        return "has a transparent shade of grey in fewer than 8 bits; convert it to 8 bits first"
    return None


def _excess_depth(image: Image.Image) -> str | None:
    """The depth that a file itself gives for its samples, unless 8 bits hold them as they are."""
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
    """A palette, single bits and a transparent colour written out; grey where every colour is."""
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
