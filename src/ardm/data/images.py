"""Images as items: arrays of 8-bit values (height, width, channels), cut to one size.

An item lists the sub-pixels of an image row by row, pixel by pixel, channel by channel, so that the raster order of
variables is the raster order of pixels.
"""

import math
import re
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ardm.config import Augmentation
from ardm.data.corpus import PieceCorpus, PieceSampler
from ardm.data.folders import split_folder
from ardm.data.image_files import IMAGE_SUFFIXES, opened_image, unpacked
from ardm.errors import DataError, UsageError
from ardm.names import Shape, Split

Pixels = UInt8[np.ndarray, "_ _ _"]
"""Height, width, channels."""


class ImageCorpus(PieceCorpus):
    """Images in three splits; they may differ in size but not in channels."""

    num_classes: ClassVar[int] = 256
    sample_rate: ClassVar[None] = None

    def items(self, name: Split, shape: Shape) -> UInt8[np.ndarray, "N D"]:
        """The split cut into tiles of one size; remainders on the right and at the bottom are dropped."""
        tiles = [_tiles(image, shape) for image in self._large_enough(name, shape)]
        return np.concatenate(tiles).reshape(-1, math.prod(shape))

    def sampler(self, shape: Shape, device: torch.device) -> PieceSampler:
        """Random crops of the training split, augmented."""
        finish = partial(augment_flat, shape=shape, augmentation=self.augmentation)
        return PieceSampler(self._large_enough("train", shape), shape, device, finish)

    def _large_enough(self, name: Split, shape: Shape) -> list[Pixels]:
        """The images of a split that hold an item."""
        images = [i for i in self.split(name) if i.shape[0] >= shape[0] and i.shape[1] >= shape[1]]
        if not images:
            raise no_tiles(self.title, name, shape)
        return images


def no_tiles(title: str, split: Split, shape: Shape) -> DataError:
    """The error for a split without an image as large as an item."""
    of_split = "" if split == "all" else f" of the {split} split"
    return DataError(
        f"{title}: no image{of_split} is as large as {shape[0]} x {shape[1]}; "
        "use larger images, or train with a smaller --size"
    )


def _tiles(image: Pixels, shape: Shape) -> UInt8[np.ndarray, "N H W C"]:
    height, width, channels = shape
    rows, columns = image.shape[0] // height, image.shape[1] // width
    grid = image[: rows * height, : columns * width].reshape(rows, height, columns, width, channels)
    return grid.transpose(0, 2, 1, 3, 4).reshape(-1, height, width, channels)


def parse_size(size: str) -> tuple[int, int]:
    """The height and the width of a size written WIDTHxHEIGHT."""
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", size)
    if match is None:
        raise UsageError(f"--size must be WIDTHxHEIGHT in pixels, such as 48x32; got {size!r}")
    return int(match[2]), int(match[1])


def augment_flat(
    pixels: Int[Tensor, "B D"], generator: torch.Generator, *, shape: Shape, augmentation: Augmentation
) -> Int[Tensor, "B D"]:
    """Items of one shape, augmented."""
    return augment(pixels.unflatten(1, shape), augmentation, generator).flatten(1)


def augment(
    images: Int[Tensor, "B H W C"], augmentation: Augmentation, generator: torch.Generator
) -> Int[Tensor, "B H W C"]:
    """Each image flipped left to right with probability 1/2, then perhaps turned by a random multiple of 90 degrees.

    Images that are not square are turned by 0 or 180 degrees only.
    """
    if augmentation == "none":
        return images
    draws = torch.randint(0, 8, (len(images), 1, 1, 1), generator=generator, device=images.device)
    images = torch.where(draws % 2 == 1, images.flip(2), images)
    if augmentation == "flips":
        return images
    images = torch.where(draws // 2 % 2 == 1, images.flip(1, 2), images)
    if images.shape[1] == images.shape[2]:
        images = torch.where(draws // 4 == 1, images.rot90(1, (1, 2)), images)
    return images


def load_images(
    path: Path, channels: Literal[1, 3], augmentation: Augmentation = "none", *, to_score: bool = False
) -> ImageCorpus:
    """All images below a folder, or one file to score, split by their names (see `split_folder`)."""
    splits = split_folder(path, IMAGE_SUFFIXES, "images", to_score=to_score)
    train, valid, test = ([read_image(file, channels) for file in files] for files in splits)
    return ImageCorpus(title=path.absolute().name, train=train, valid=valid, test=test, augmentation=augmentation)


def read_image(path: Path, channels: Literal[1, 3], *, with_alpha: bool = False) -> Pixels:
    """The pixels of an 8-bit image; grey becomes colour where needed, but no conversion that loses information is made.

    Transparent images are refused or, with `with_alpha`, lose their transparency.
    """
    with opened_image(path) as image:
        plain = unpacked(image)
    if plain.mode in ("RGBA", "LA"):
        if not with_alpha and np.asarray(plain.getchannel("A")).min() < 255:
            raise DataError(f"{path} is partly transparent; remove its alpha channel first, as models have none")
        plain = plain.convert(plain.mode[:-1])
    if plain.mode not in ("L", "RGB"):
        raise DataError(f"{path} has mode {plain.mode}; convert it to 8-bit grey or RGB first")
    if channels == 1 and plain.mode == "RGB":
        raise DataError(f"{path} is in colour, but this model is for grey images; convert it first")
    pixels = np.asarray(plain.convert("RGB" if channels == 3 else "L"))
    return pixels.reshape(*pixels.shape[:2], channels)
