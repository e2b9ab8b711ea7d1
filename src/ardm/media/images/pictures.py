"""Pictures: grids of images, and PNG files."""

import io
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from ardm.runtime.files import write_file

GAP = 2
"""Pixels between the images of a grid."""

Picture = UInt8[np.ndarray, "_ _ _"]
"""Height, width, channels."""


def grid(images: UInt8[np.ndarray, "N H W C"], columns: int) -> Picture:
    """Images in rows on white, or a single image unchanged."""
    count, height, width, channels = images.shape
    if count == 1:
        return images[0]
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    picture = np.full((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, channels), 255, np.uint8)
    for i, image in enumerate(images):
        top, left = i // columns * (height + GAP), i % columns * (width + GAP)
        picture[top : top + height, left : left + width] = image
    return picture


def write_png(path: Path, picture: Picture) -> None:
    """Write a picture to a PNG file."""
    write_file(path, png_file(picture))


def quick_png(picture: Picture) -> bytes:
    """A PNG file that is made fast rather than small."""
    return png_file(picture, compress_level=1)


def png_file(picture: Picture, compress_level: int = -1) -> bytes:
    """A PNG file of a picture with 1 to 4 channels."""
    file = io.BytesIO()
    image = Image.fromarray(picture[:, :, 0] if picture.shape[2] == 1 else picture)
    image.save(file, format="PNG", compress_level=compress_level)
    return file.getvalue()
