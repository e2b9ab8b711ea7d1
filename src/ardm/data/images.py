"""Images as items: 8-bit arrays (height, width, channels), cut to one size.

An item lists the sub-pixels of an image row by row, pixel by pixel, channel by channel, so that the raster order of
variables is the raster order of pixels.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int, UInt8
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from ardm.errors import DataError

Split = Literal["train", "valid", "test", "all"]
Pixels = UInt8[np.ndarray, "_ _ _"]
"""Height, width, channels; images of one collection may differ in size."""

IMAGE_SUFFIXES = {".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".jpg", ".jpeg"}
FEWEST_IMAGES = 3
"""One for each split."""


@dataclass(frozen=True, kw_only=True)
class ImageShape:
    """The size of an item."""

    height: int
    width: int
    channels: Literal[1, 3] = 3

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1:
            raise ValueError(f"an image needs a positive size, got {self.height} x {self.width}")

    @property
    def num_variables(self) -> int:
        """D: sub-pixels of an item."""
        return self.height * self.width * self.channels

    def to_images(self, items: np.ndarray) -> UInt8[np.ndarray, "N height width channels"]:
        """The images of items (N, D)."""
        return items.astype(np.uint8).reshape(-1, self.height, self.width, self.channels)


@dataclass(frozen=True, kw_only=True)
class ImageCorpus:
    """Images in three splits; they may differ in size but not in channels."""

    title: str
    train: Sequence[Pixels]
    valid: Sequence[Pixels]
    test: Sequence[Pixels]

    def split(self, name: Split) -> Sequence[Pixels]:
        """The images of a split."""
        splits = {"train": self.train, "valid": self.valid, "test": self.test}
        return [*self.train, *self.valid, *self.test] if name == "all" else splits[name]

    def items(self, name: Split, shape: ImageShape) -> UInt8[np.ndarray, "N D"]:
        """The split cut into tiles of one size; rests at the right and at the bottom are left out."""
        tiles = [tile for image in self.split(name) for tile in _tiles(image, shape)]
        if not tiles:
            raise DataError(
                f"{self.title}: no image of the {name} split is as large as {shape.height} x {shape.width}; "
                "use larger images or smaller items"
            )
        return np.stack(tiles).reshape(len(tiles), shape.num_variables)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all pixels and sizes, to recognise the data a model was trained on."""
        digest = hashlib.sha256()
        for image in self.split("all"):
            digest.update(repr(image.shape).encode())
            digest.update(image.tobytes())
        return digest.hexdigest()


def _tiles(image: Pixels, shape: ImageShape) -> list[Pixels]:
    rows, columns = image.shape[0] // shape.height, image.shape[1] // shape.width
    whole = image[: rows * shape.height, : columns * shape.width]
    grid = whole.reshape(rows, shape.height, columns, shape.width, shape.channels)
    return list(grid.transpose(0, 2, 1, 3, 4).reshape(-1, shape.height, shape.width, shape.channels))


class CropSampler:
    """Random crops of images of any sizes, held on the device as one run of pixels.

    Every place where a crop fits is equally likely.
    """

    def __init__(self, images: Sequence[Pixels], shape: ImageShape, device: torch.device) -> None:
        fitting = [i for i in images if i.shape[0] >= shape.height and i.shape[1] >= shape.width]
        if not fitting:
            raise DataError(f"no image is as large as an item of {shape.height} x {shape.width}; use smaller items")
        self.shape = shape
        self.pixels = torch.from_numpy(np.concatenate([i.ravel() for i in fitting])).to(device)
        sizes = torch.tensor([[i.shape[0], i.shape[1], i.size] for i in fitting], device=device)
        self.rows, self.columns = sizes[:, 0] - shape.height + 1, sizes[:, 1] - shape.width + 1
        self.widths, self.firsts = sizes[:, 1], sizes[:, 2].cumsum(0) - sizes[:, 2]
        self.places = (self.rows * self.columns).cumsum(0)

    def draw(self, num_items: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
        """Crops at uniformly random places."""
        total, device = int(self.places[-1]), self.pixels.device
        place = torch.randint(0, total, (num_items,), generator=generator, device=device)
        image = torch.searchsorted(self.places, place, right=True)
        within = place - (self.places[image] - self.rows[image] * self.columns[image])
        top, left = within // self.columns[image], within % self.columns[image]
        corner = self.firsts[image] + (top * self.widths[image] + left) * self.shape.channels
        row = torch.arange(self.shape.height, device=device)[:, None] * self.widths[image][:, None, None]
        column = torch.arange(self.shape.width * self.shape.channels, device=device)
        index = corner[:, None, None] + row * self.shape.channels + column  # (B, height, width * channels)
        return self.pixels[index].long().flatten(1)


def augment(items: Int[Tensor, "B D"], shape: ImageShape, generator: torch.Generator) -> Int[Tensor, "B D"]:
    """Each item flipped left to right with probability 1/2, then turned by a random multiple of 90 degrees.

    Items that are not square are turned by 0 or 180 degrees only.
    """
    images = items.view(-1, shape.height, shape.width, shape.channels)
    square = shape.height == shape.width
    draws = torch.randint(0, 8, (len(items), 1, 1, 1), generator=generator, device=items.device)
    images = torch.where(draws % 2 == 1, images.flip(2), images)
    images = torch.where(draws // 2 % 2 == 1, images.flip(1, 2), images)
    if square:
        images = torch.where(draws // 4 == 1, images.rot90(1, (1, 2)), images)
    return images.flatten(1)


def load_image_folder(path: Path, channels: Literal[1, 3]) -> ImageCorpus:
    """All images below a folder: 90% train, 5% valid, 5% test (at least one each), by a hash of their names."""
    if not path.is_dir():
        raise DataError(f"there is no folder {path}")
    files = [f for f in path.rglob("*") if f.suffix.lower() in IMAGE_SUFFIXES and f.is_file()]
    if len(files) < FEWEST_IMAGES:
        raise DataError(f"{path} has {len(files)} images; at least {FEWEST_IMAGES} are needed, one for each split")
    files.sort(key=lambda f: hashlib.sha256(str(f.relative_to(path)).encode()).digest())
    held = max(1, len(files) // 20)
    images = [read_image(f, channels) for f in files]
    return ImageCorpus(title=path.name, train=images[2 * held :], valid=images[:held], test=images[held : 2 * held])


def read_image(path: Path, channels: Literal[1, 3]) -> Pixels:
    """An 8-bit image as an array; grey ones serve as colour, but nothing that would lose information is done."""
    try:
        with Image.open(path) as image:
            image.load()
            plain = _without_palette(image)
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as an image ({error})") from None
    plain = _without_alpha(plain, path)
    if plain.mode not in ("L", "RGB"):
        raise DataError(f"{path} has mode {plain.mode}; 8-bit grey and RGB images are handled, convert it first")
    if channels == 1 and plain.mode == "RGB":
        raise DataError(f"{path} is in colour, and this model is for grey images; convert it first")
    pixels = np.asarray(plain.convert("RGB" if channels == 3 else "L"))
    return pixels.reshape(*pixels.shape[:2], channels)


def _without_palette(image: Image.Image) -> Image.Image:
    if image.mode == "1":
        return image.convert("L")
    if image.mode == "P":
        return image.convert("RGBA" if "transparency" in image.info else "RGB")
    return image


def _without_alpha(image: Image.Image, path: Path) -> Image.Image:
    if image.mode not in ("RGBA", "LA"):
        return image
    if np.asarray(image.getchannel("A")).min() < 255:
        raise DataError(f"{path} is partly transparent; remove its alpha channel first, models have none")
    return image.convert(image.mode[:-1])
