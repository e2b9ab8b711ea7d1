"""Images: 8-bit grey or RGB, with or without alpha, of any size.

| model | image | canvases |
|---|---|---|
| colour | RGB | one of 3 channels |
| colour | grey | one of 3 channels, of which the second and third are hidden |
| grey | grey | one |
| grey | RGB | three: G, R - G + 128, B - G + 128, modulo 256 |

RGB with three equal channels is placed like grey, marked in the side bytes. They also hold alpha: a form, and data of
that form, deflated (a constant alpha is one byte instead).

| first side byte | a pixel's byte, modulo 256 |
|---|---|
| 0 | alpha |
| 1 | alpha - left |
| 2 | alpha - above |
| 3 | alpha - left - above + above left |
| 4 | the constant alpha |
| 7 | no alpha |
| + 8 | as above, with three equal channels |
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, UInt8

from ardm.codec.format.fields import ImageFields
from ardm.codec.format.wire import deflate, inflate
from ardm.codec.windows import Canvas
from ardm.data.image_files import IMAGE_SUFFIXES, opened_image, unpacked
from ardm.errors import DamagedError, DataError
from ardm.media.contents import Content, image_content, pixels_of
from ardm.media.layout import Layout, Placement
from ardm.names import Shape

GREY_IN_COLOUR = np.array([[[False, True, True]]])
"""Hidden channels of a grey image in a colour model."""
CONSTANT = 4
NO_ALPHA = 7
EQUAL_CHANNELS = 8

Plane = UInt8[np.ndarray, "H W"]


class ImageLayout(Layout[ImageFields]):
    """Images for a model of 1 or 3 channels."""

    title, fields, dtype, suffixes = "images", ImageFields, np.uint8, IMAGE_SUFFIXES

    def __init__(self, num_channels: int) -> None:
        self._num_channels = num_channels

    def read(self, path: Path) -> Content:
        """The pixels of an image file; palettes and single bits are expanded."""
        with opened_image(path) as image:
            plain = unpacked(image)
        if plain.mode not in ("L", "RGB", "LA", "RGBA"):
            raise DataError(f"{path} has mode {plain.mode}; convert it to 8-bit grey or RGB first")
        return image_content(np.asarray(plain))

    def place(self, content: Content) -> Placement:
        """The colours placed on canvases, and alpha in the side bytes."""
        pixels = pixels_of(content)
        has_alpha = pixels.shape[2] in (2, 4)
        side = encode_alpha(pixels[:, :, -1]) if has_alpha else b""
        colours = pixels[:, :, : pixels.shape[2] - has_alpha]
        if colours.shape[2] == 3 and (colours == colours[:, :, :1]).all():
            side = bytes([EQUAL_CHANNELS | (side[0] if side else NO_ALPHA)]) + side[1:]
            colours = colours[:, :, :1]
        return Placement(content=content, canvases=self._canvases(colours), side=side)

    def _canvases(self, colours: UInt8[np.ndarray, "H W C"]) -> list[Canvas]:
        if self._num_channels == 1:
            planes = _differences(colours) if colours.shape[2] == 3 else colours
            return [Canvas(values=plane[:, :, None]) for plane in np.moveaxis(planes, 2, 0)]
        if colours.shape[2] == 3:
            return [Canvas(values=colours)]
        return [Canvas(values=np.broadcast_to(colours, (*colours.shape[:2], 3)), hidden=GREY_IN_COLOUR)]

    def sizes(self, fields: ImageFields, side: bytes) -> list[Shape]:
        """The size of one canvas, or of three for a colour image and a grey model."""
        num_canvases = 3 if self._num_channels == 1 and not _is_grey(fields, side) else 1
        return [(fields.height, fields.width, self._num_channels)] * num_canvases

    def hidden(self, fields: ImageFields, side: bytes) -> Bool[np.ndarray, "..."] | None:
        """The second and third channels of a grey image in a colour model."""
        return GREY_IN_COLOUR if self._num_channels == 3 and _is_grey(fields, side) else None

    def raw(self, fields: ImageFields, side: bytes, canvases: Sequence[Canvas]) -> bytes:
        """The pixels row by row."""
        colours = np.concatenate([canvas.values for canvas in canvases], axis=2)
        if _is_grey(fields, side):
            colours = np.repeat(colours[:, :, :1], 3 if fields.mode.startswith("RGB") else 1, axis=2)
        elif self._num_channels == 1:
            colours = _from_differences(colours)
        if fields.mode.endswith("A"):
            alpha = decode_alpha(side, fields.height, fields.width)
            colours = np.concatenate((colours, alpha[:, :, None]), axis=2)
        return colours.tobytes()


def _is_grey(fields: ImageFields, side: bytes) -> bool:
    """Whether an image is placed like a grey one; a DamagedError for side bytes that no image of its mode has."""
    first, is_rgb = side[0] if side else NO_ALPHA, fields.mode.startswith("RGB")
    equal_channels, has_alpha = bool(first & EQUAL_CHANNELS), first & ~EQUAL_CHANNELS != NO_ALPHA
    fits = has_alpha == fields.mode.endswith("A") and (has_alpha or len(side) == equal_channels)
    if not fits or (equal_channels and not is_rgb):
        raise DamagedError(f"its side bytes do not fit an image of mode {fields.mode}")
    return equal_channels or not is_rgb


def _differences(colours: UInt8[np.ndarray, "H W 3"]) -> UInt8[np.ndarray, "H W 3"]:
    red, green, blue = np.moveaxis(colours, 2, 0)
    return np.stack((green, red - green + np.uint8(128), blue - green + np.uint8(128)), axis=2)


def _from_differences(planes: UInt8[np.ndarray, "H W 3"]) -> UInt8[np.ndarray, "H W 3"]:
    green, red, blue = np.moveaxis(planes, 2, 0)
    return np.stack((red + green - np.uint8(128), green, blue + green - np.uint8(128)), axis=2)


def encode_alpha(alpha: Plane) -> bytes:
    """The side bytes of an alpha plane: the shortest form."""
    if (alpha == alpha[0, 0]).all():
        return bytes([CONSTANT, alpha[0, 0]])
    left = np.diff(alpha, axis=1, prepend=np.uint8(0))
    forms = (alpha, left, _minus_above(alpha), _minus_above(left))
    return min((bytes([form]) + deflate(plane.tobytes()) for form, plane in enumerate(forms)), key=len)


def decode_alpha(side: bytes, height: int, width: int) -> Plane:
    """The alpha plane that side bytes hold."""
    form, data = side[0] & ~EQUAL_CHANNELS, side[1:]
    if form > CONSTANT or (form == CONSTANT and len(data) != 1):
        raise DamagedError(f"its alpha has an unknown form: {form}")
    if form == CONSTANT:
        return np.full((height, width), data[0], np.uint8)
    plain = inflate(data, height * width)
    if len(plain) != height * width:
        raise DamagedError("its alpha does not have the image's size")
    plane = np.frombuffer(plain, np.uint8).reshape(height, width)
    if form & 2:
        plane = np.cumsum(plane, axis=0, dtype=np.uint8)
    return np.cumsum(plane, axis=1, dtype=np.uint8) if form & 1 else plane


def _minus_above(plane: Plane) -> Plane:
    return np.diff(plane, axis=0, prepend=np.uint8(0))
