"""Images as items: arrays of 8-bit values (height, width, channels), cut to one size.

An item lists the sub-pixels of an image row by row, pixel by pixel, channel by channel, so that the raster order of
variables is the raster order of pixels.
"""

import math
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Int, UInt8
from PIL import Image
from torch import Tensor

from ardm.config import Augmentation
from ardm.data.corpus import PieceCorpus, Split, on_device_if_it_fits
from ardm.data.folders import split_folder
from ardm.data.image_files import IMAGE_SUFFIXES, opened_image, unpacked
from ardm.errors import DataError, UsageError
from ardm.orders import Shape

Pixels = UInt8[np.ndarray, "_ _ _"]
"""Height, width, channels."""


class ImageCorpus(PieceCorpus):
    """Images in three splits; they may differ in size but not in channels."""

    num_classes: ClassVar[int] = 256
    sample_rate: ClassVar[None] = None

    def items(self, name: Split, shape: Shape) -> UInt8[np.ndarray, "N D"]:
        """The split cut into tiles of one size; remainders at the right and at the bottom are dropped."""
        tiles = [_tiles(image, shape) for image in self._large_enough(name, shape)]
        return np.concatenate(tiles).reshape(-1, math.prod(shape))

    def sampler(self, shape: Shape, device: torch.device) -> "ImageSampler":
        """Random crops of the training split, augmented."""
        return ImageSampler(self._large_enough("train", shape), shape, device, self.augmentation)

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


class ImageSampler:
    """Random crops of images at least that large, held in memory as one run of pixels.

    Every place where a crop fits is equally likely.
    """

    def __init__(
        self, images: Sequence[Pixels], shape: Shape, device: torch.device, augmentation: Augmentation = "none"
    ) -> None:
        self.height, self.width, self.channels = shape
        self.finish = partial(augment_flat, shape=shape, augmentation=augmentation)
        self.pixels = on_device_if_it_fits(torch.from_numpy(np.concatenate([i.ravel() for i in images])), device)
        sizes = torch.tensor([[i.shape[0], i.shape[1], i.size] for i in images], device=self.pixels.device)
        self.rows, self.columns = sizes[:, 0] - self.height + 1, sizes[:, 1] - self.width + 1
        self.widths, self.firsts = sizes[:, 1], sizes[:, 2].cumsum(0) - sizes[:, 2]
        self.places = (self.rows * self.columns).cumsum(0)
        self.num_places = int(self.places[-1])

    def draw(self, num_items: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
        """Crops at uniformly random places, augmented, on the generator's device."""
        device = self.pixels.device
        place = torch.randint(0, self.num_places, (num_items,), generator=generator, device=generator.device).to(device)
        image = torch.searchsorted(self.places, place, right=True)
        within = place - (self.places[image] - self.rows[image] * self.columns[image])
        top, left = within // self.columns[image], within % self.columns[image]
        corner = self.firsts[image] + (top * self.widths[image] + left) * self.channels
        row = torch.arange(self.height, device=device)[:, None] * self.widths[image][:, None, None]
        column = torch.arange(self.width * self.channels, device=device)
        index = corner[:, None, None] + row * self.channels + column  # (B, height, width * channels)
        return self.finish(self.pixels[index].to(generator.device).long().flatten(1), generator)


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
    """The pixels of an 8-bit image; grey ones become colour where needed, but nothing that loses information is done.

    Transparent images are refused, or with `with_alpha` their transparency is dropped.
    """
    with opened_image(path) as image:
        plain = unpacked(image)
    if with_alpha and plain.mode in ("RGBA", "LA"):
        plain = plain.convert(plain.mode[:-1])
    plain = _without_alpha(plain, path)
    if plain.mode not in ("L", "RGB"):
        raise DataError(f"{path} has mode {plain.mode}; 8-bit grey and RGB images are handled, convert it first")
    if channels == 1 and plain.mode == "RGB":
        raise DataError(f"{path} is in colour, and this model is for grey images; convert it first")
    pixels = np.asarray(plain.convert("RGB" if channels == 3 else "L"))
    return pixels.reshape(*pixels.shape[:2], channels)


def _without_alpha(image: Image.Image, path: Path) -> Image.Image:
    if image.mode not in ("RGBA", "LA"):
        return image
    if np.asarray(image.getchannel("A")).min() < 255:
        raise DataError(f"{path} is partly transparent; remove its alpha channel first, models have none")
    return image.convert(image.mode[:-1])
