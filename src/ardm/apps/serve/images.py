"""Images on the page: pixels and a painted mask in, pictures out."""

from typing import Any

import numpy as np
from jaxtyping import Bool, UInt8

from ardm.apps.serve.inputs import PageRequest
from ardm.apps.serve.medium import all_gaps, png
from ardm.apps.serve.models import PageModel
from ardm.config import ImageData
from ardm.errors import DataError
from ardm.media.images.medium import visible
from ardm.media.medium import GappedItem, gapped
from ardm.names import Shape
from ardm.tasks.draw import States

MAX_SIDE = 512
GREY_PARTS = np.array([299, 587, 114])
"""Thousandths of red, green and blue in grey (ITU-R 601)."""


class ImagePage:
    """The page's images for one model."""

    def __init__(self, model: PageModel) -> None:
        assert isinstance(model.trained.config.data, ImageData)
        self._data = model.trained.config.data

    def facts(self) -> dict[str, Any]:
        """The size and the channels that the model was trained on."""
        return {"width": self._data.width, "height": self._data.height, "channels": self._data.channels}

    def start(self, request: PageRequest) -> GappedItem:
        """The page's pixels, with gaps where they are painted over; or an image of the given size that is all gap."""
        width, height = (request.integer(side, 1, MAX_SIDE) for side in ("width", "height"))
        if width * height > request.limits.pixels:
            raise DataError(f"{width} x {height} pixels are too many; this page takes {request.limits.pixels:,}")
        shape = (height, width, self._data.channels)
        if not request.has("pixels"):
            return all_gaps(shape)
        painted = read_mask(request, height, width)
        return gapped(self._pixels(request, shape), ~np.broadcast_to(painted[:, :, None], shape))

    def _pixels(self, request: PageRequest, shape: Shape) -> UInt8[np.ndarray, "H W C"]:
        data, (height, width, channels) = request.content("pixels"), shape
        if len(data) != 3 * height * width:
            raise DataError(f"{width} x {height} pixels have {3 * height * width} bytes, got {len(data)}")
        colours = np.frombuffer(data, np.uint8).reshape(height, width, 3)
        if channels == 3:
            return colours
        return ((colours.astype(np.int64) @ GREY_PARTS + 500) // 1000).astype(np.uint8)[:, :, None]

    def show_states(self, states: States, gaps: GappedItem) -> dict[str, Any]:
        """One picture of all samples, from top to bottom; hidden values are grey."""
        height, width, channels = gaps.shape
        return {"picture": png(visible(states).reshape(len(states) * height, width, channels))}

    def show_samples(self, samples: States, gaps: GappedItem) -> dict[str, Any]:
        """The picture and the size of a sample."""
        return self.show_states(samples, gaps) | {"width": gaps.shape[1], "height": gaps.shape[0]}


def read_mask(request: PageRequest, height: int, width: int) -> Bool[np.ndarray, "H W"]:
    """True at each pixel to fill, from a string of 0s and 1s."""
    mask = request.text("mask", height * width)
    if len(mask) != height * width or set(mask) - {"0", "1"}:
        raise DataError(f"mask must be {height * width} characters, each 0 or 1")
    if "1" not in mask:
        raise DataError("nothing to fill: paint over the part of the image that the model should fill")
    return (np.frombuffer(mask.encode(), np.uint8) == ord("1")).reshape(height, width)
