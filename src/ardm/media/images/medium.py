"""The medium of images: files and masks in, PNG files out."""

import re
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int, UInt8

from ardm.checkpoint import AnyTrained
from ardm.codec.format.fields import ImageFields
from ardm.config import MAX_VARIABLES, ImageData
from ardm.data.cifar10 import find_cifar10, load_cifar10
from ardm.data.corpus import Corpus
from ardm.data.image_files import opened_image
from ardm.data.images import load_images, parse_size, read_image
from ardm.data.packed.corpora import PackedImages
from ardm.data.packed.description import Pack, is_packed, open_kind, open_medium
from ardm.errors import DataError, UsageError
from ardm.media.images.layout import ImageLayout
from ardm.media.images.pictures import grid, write_png
from ardm.media.medium import GappedItem, Medium, Samples, gapped
from ardm.names import Shape
from ardm.runtime.files import check_writable, to_json, write_output

HIDDEN_GREY = 128
"""The value of hidden sub-pixels in pictures: the paper's absorbing value."""


class ImageMedium(Medium):
    """The pixels of an image model."""

    data: ImageData
    unit = "bits/dim"
    budgets = (3072, 500, 100, 50)
    num_states = 8
    orders = ("raster", "spaced", "halton")

    def __init__(self, trained: AnyTrained) -> None:
        super().__init__(trained)
        height, width, channels = self.own_shape
        self.layout = ImageLayout(self.data.channels)
        self.item_fields = ImageFields(width=width, height=height, mode="RGB" if channels == 3 else "L")

    @staticmethod
    def load(data: ImageData, path: Path) -> Corpus:
        """The images to train on."""
        if is_packed(path):
            pack = check_channels(open_kind(path, data.kind), data.channels)
            return PackedImages(pack=pack, augmentation=data.augmentation, holds_out=data.holds_out)
        if data.kind == "cifar10":
            return load_cifar10(path, data.augmentation, holds_out=data.holds_out)
        return load_images(path, data.channels, data.augmentation)

    def corpus(self, path: Path) -> Corpus:
        """CIFAR-10 if it is there, or an image or a folder of images, perhaps packed."""
        if is_packed(path):
            pack = check_channels(open_medium(path, "images"), self.data.channels)
            return PackedImages(pack=pack, holds_out=self.data.holds_out or pack.about.kind != "cifar10")
        if self.data.kind == "cifar10" and find_cifar10(path) is not None:
            return load_cifar10(path, holds_out=self.data.holds_out)  # held out as in training: the same fingerprint
        return load_images(path, self.data.channels, to_score=True)

    def shape(self, size: str | None) -> Shape:
        """WIDTHxHEIGHT, or the size that the model was trained on."""
        if size is None:
            return self.own_shape
        return self._checked((*parse_size(size), self.data.channels), f"--size {size}")

    def gapped_item(self, source: str, mask: str | None) -> GappedItem:
        """An image file to fill where a mask image is white, in a rectangle, or where it is transparent."""
        path = Path(source)
        pixels = read_image(path, self.data.channels, with_alpha=mask is None)
        shape = self._checked(pixels.shape, str(path))
        gaps = read_gaps(path, mask, shape[0], shape[1])
        if not gaps.any():
            raise UsageError("nothing to fill: no pixel of the mask is white; white pixels are filled")
        return gapped(pixels, ~np.broadcast_to(gaps[:, :, None], shape))

    def check_output(self, path: Path | None, count: int, *, as_json: bool) -> None:
        """Raise a UsageError unless the samples go to a PNG file, or to JSON as lists of rows of pixels."""
        if as_json:
            check_writable(path)
            return
        if path is None:
            raise UsageError("images go to a file: give one with -o, such as -o samples.png")
        if path.suffix.lower() != ".png":
            raise UsageError(f"images are written as PNG; give a name that ends in .png, got {path.name}")
        check_writable(path)

    def write(self, samples: Samples, path: Path | None, *, as_json: bool) -> None:
        """Write one image, a grid of them, or a grid with a row for each chain."""
        chains = visible(np.array(samples.chains)).reshape(len(samples.chains), -1, *samples.shape)  # (N, states, ...)
        if as_json:
            shown = {"samples": chains[:, -1].tolist()}
            if samples.is_chain:
                shown = {"state_calls": list(samples.calls), "chains": chains.tolist()}
            write_output(path, to_json({"calls": samples.calls[-1]} | shown, indent=None))
            return
        assert path is not None
        if samples.is_chain:
            picture = grid(chains.reshape(-1, *chains.shape[2:]), columns=chains.shape[1])
        else:
            picture = grid(chains[:, -1], columns=round(len(chains) ** 0.5))
        write_png(path, picture)

    def _checked(self, shape: Shape, name: str) -> Shape:
        if np.prod(shape) > MAX_VARIABLES:
            raise UsageError(f"{name} has more than {MAX_VARIABLES} sub-pixels, too many for one item; crop it")
        return shape


def visible(classes: Int[np.ndarray, "..."]) -> UInt8[np.ndarray, "..."]:
    """The sub-pixels of classes, grey where hidden."""
    return np.where(classes < 256, classes, HIDDEN_GREY).astype(np.uint8)


def check_channels(pack: Pack, channels: int) -> Pack:
    """The pack itself; a UsageError if it holds grey images and the model needs colour, or the reverse."""
    if pack.about.channels != channels:
        raise UsageError(
            f"{pack.folder} was packed with {pack.about.channels} channels, but {channels} are needed; "
            f"pack it with --channels {channels}"
        )
    return pack


def read_gaps(path: Path, mask: str | None, height: int, width: int) -> Bool[np.ndarray, "H W"]:
    """True at each pixel to fill."""
    if mask is None:
        return transparent_pixels(path)
    rectangle = re.fullmatch(r"(\d+),(\d+),(\d+),(\d+)", mask)
    if rectangle is None:
        return read_mask(Path(mask), height, width)
    left, top, right, bottom = map(int, rectangle.groups())
    if not (left < right <= width and top < bottom <= height):
        raise UsageError(f"--mask {mask} is not a rectangle LEFT,TOP,RIGHT,BOTTOM within {width} x {height} pixels")
    gaps = np.zeros((height, width), bool)
    gaps[top:bottom, left:right] = True
    return gaps


def read_mask(path: Path, height: int, width: int) -> Bool[np.ndarray, "H W"]:
    """The bright pixels of a mask image of at most 8 bits per sample."""
    if not path.is_file():
        raise UsageError(f"--mask must be a rectangle LEFT,TOP,RIGHT,BOTTOM or an image file, and {path} is neither")
    with opened_image(path) as image:
        bright = np.asarray(image.convert("L")) >= 128
    if bright.shape != (height, width):
        raise UsageError(
            f"the mask {path} has {bright.shape[1]} x {bright.shape[0]} pixels, the image {width} x {height}"
        )
    return bright


def transparent_pixels(path: Path) -> Bool[np.ndarray, "H W"]:
    """The transparent pixels of an image; an error if there are none, or if some are partly transparent."""
    with opened_image(path) as image:
        alpha = np.asarray(image.convert("RGBA").getchannel("A"))
    if (alpha == 255).all():
        raise UsageError(f"{path} has no transparent pixels to fill; use --mask to say what to fill")
    if ((alpha > 0) & (alpha < 255)).any():
        raise DataError(
            f"{path} has partly transparent pixels; make pixels to fill fully transparent and the others opaque"
        )
    return alpha == 0
