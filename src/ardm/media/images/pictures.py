"""Pictures as arrays: grids of images, PNG files."""

import io
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from ardm.runtime.files import written_whole

GAP = 2
"""Pixels between the images of a grid."""

Picture = UInt8[np.ndarray, "_ _ _"]
"""Height, width, channels."""


def grid(images: UInt8[np.ndarray, "N H W C"], columns: int) -> Picture:
    """Images in rows on white; a single one as it is."""
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
    """Write a grey or colour image."""
    with written_whole(path) as temporary:
        _image(picture).save(temporary, format="PNG")


def quick_png(picture: Picture) -> bytes:
    """A grey or colour image as a PNG file that is made fast rather than small."""
    file = io.BytesIO()
    _image(picture).save(file, format="PNG", compress_level=1)
    return file.getvalue()


def _image(picture: Picture) -> Image.Image:
    return Image.fromarray(picture[:, :, 0] if picture.shape[2] == 1 else picture)
