"""Images on the page: pixels and a painted mask in, pictures out."""

from typing import Any

import numpy as np
from jaxtyping import Bool, UInt8

from ardm.apps.serve.inputs import PageRequest
from ardm.apps.serve.medium import Start, States, png
from ardm.apps.serve.models import LoadedModel
from ardm.config import ImageData
from ardm.errors import DataError
from ardm.media.images.medium import HIDDEN_GREY
from ardm.media.medium import GappedItem
from ardm.orders import Shape

LONGEST_SIDE = 512
GREY_PARTS = np.array([299, 587, 114])
"""Of red, green and blue in grey, in thousandths (ITU-R 601)."""


class ImagePage:
    """Images of a model."""

    def __init__(self, served: LoadedModel) -> None:
        assert isinstance(served.trained.config.data, ImageData)
        self._data = served.trained.config.data

    def facts(self) -> dict[str, Any]:
        """The size and the channels that it was trained on."""
        return {"width": self._data.width, "height": self._data.height, "channels": self._data.channels}

    def start(self, asked: PageRequest) -> Start:
        """Pixels, as the page has drawn them, and where they are painted over; or nothing but a size."""
        width, height = (asked.whole(side, 1, LONGEST_SIDE) for side in ("width", "height"))
        if width * height > asked.limits.pixels:
            raise DataError(f"{width} x {height} pixels are too many; this page takes {asked.limits.pixels:,}")
        shape = (height, width, self._data.channels)
        length = height * width * self._data.channels
        if not asked.has("pixels"):
            return Start(shape=shape, gaps=None, length=length)
        painted = read_mask(asked, height, width)
        known = ~np.broadcast_to(painted[:, :, None], shape).ravel()
        values = np.where(known, self._pixels(asked, shape).ravel(), 0).astype(np.int64)
        gaps = GappedItem(values=values, known=known, shape=shape, length=length) if known.any() else None
        return Start(shape=shape, gaps=gaps, length=length)

    def _pixels(self, asked: PageRequest, shape: Shape) -> UInt8[np.ndarray, "H W C"]:
        data, (height, width, channels) = asked.content("pixels"), shape
        if len(data) != 3 * height * width:
            raise DataError(f"{width} x {height} pixels have {3 * height * width} bytes, got {len(data)}")
        colours = np.frombuffer(data, np.uint8).reshape(height, width, 3)
        if channels == 3:
            return colours
        return ((colours.astype(np.int64) @ GREY_PARTS + 500) // 1000).astype(np.uint8)[:, :, None]

    def shown(self, states: States, start: Start) -> dict[str, Any]:
        """One picture of all samples, one below the other; what is hidden is grey."""
        height, width, channels = start.shape
        visible = np.where(states < 256, states, HIDDEN_GREY).astype(np.uint8)
        return {"picture": png(visible.reshape(len(states) * height, width, channels))}

    def finished(self, states: States, start: Start) -> dict[str, Any]:
        """The same picture."""
        return self.shown(states, start) | {"width": start.shape[1], "height": start.shape[0]}


def read_mask(asked: PageRequest, height: int, width: int) -> Bool[np.ndarray, "H W"]:
    """True at each pixel to fill, from a text of 0 and 1."""
    mask = asked.text("mask", height * width)
    if len(mask) != height * width or set(mask) - {"0", "1"}:
        raise DataError(f"mask must be {height * width} of the characters 0 and 1")
    if "1" not in mask:
        raise DataError("nothing to fill: paint over the part of the image that the model shall fill")
    return (np.frombuffer(mask.encode(), np.uint8) == ord("1")).reshape(height, width)
