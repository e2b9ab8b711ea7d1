"""Contents for the page: the content itself, its bits by place, and its size with other codecs."""

import io
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from ardm.apps.rivals.packages import PNG, WEBP
from ardm.apps.serve.inputs import encoded
from ardm.apps.serve.medium import png, rounded
from ardm.apps.serve.sounds import pictures_of
from ardm.codec.format.fields import ImageFields, SoundFields
from ardm.media.contents import Content, frames_of, pixels_of

BINS = 400
"""Columns of the drawn bits of a sound."""

Bits = Float[np.ndarray, "..."]


def other_sizes(content: Content) -> list[dict[str, Any]]:
    """The sizes of a content with common codecs that are fast and installed."""
    encoders: dict[str, Callable[[], bytes]] = {"zlib, level 9": lambda: zlib.compress(content.raw, 9)}
    if isinstance(content.fields, ImageFields):
        rivals, pixels = {"PNG": PNG, "WebP, lossless": WEBP}, pixels_of(content)
        encoders = {name: partial(one.encode_item, pixels) for name, one in rivals.items() if one.is_available()}
    elif isinstance(content.fields, SoundFields):
        encoders["FLAC"] = partial(flac_file, content)
    sizes = {name: _size(encode) for name, encode in encoders.items()}
    return [{"name": name, "bytes": size} for name, size in sizes.items() if size is not None]


def _size(encode: Callable[[], bytes]) -> int | None:
    """The bytes of a file; None if the codec is not installed, or has no such sizes or rates."""
    try:
        return len(encode())
    except (ImportError, ValueError, OSError, RuntimeError):
        return None


def flac_file(content: Content) -> bytes:
    """A sound as a FLAC file."""
    import soundfile

    assert isinstance(content.fields, SoundFields)
    file = io.BytesIO()
    soundfile.write(file, frames_of(content), content.fields.sample_rate, subtype="PCM_16", format="FLAC")
    return file.getvalue()


def display(content: Content) -> dict[str, Any]:
    """A content as the page shows it: a picture, a sound's pictures or a text."""
    if isinstance(content.fields, ImageFields):
        return {"picture": png(pixels_of(content)), "width": content.fields.width, "height": content.fields.height}
    if isinstance(content.fields, SoundFields):
        frames = frames_of(content)
        return pictures_of(frames[:, 0]) if len(frames) else {}
    return {"text": readable(content)}


def readable(content: Content) -> str:
    """A text, or bytes with a dot for each byte that is not a printable ASCII character."""
    if content.fields.kind == "text":
        return content.raw.decode()
    return "".join(chr(b) if 32 <= b < 127 or b == 10 else "·" for b in content.raw)


def pixel_bits(bits: Sequence[Bits]) -> Float[np.ndarray, "H W"]:
    """The bits of each pixel, summed over its channels on all canvases."""
    return np.asarray(np.sum([one.sum(axis=2) for one in bits], axis=0))


def bits_display(content: Content, bits: Sequence[Bits]) -> dict[str, Any]:
    """The bits of each pixel or character, or their means in the columns of a drawn sound."""
    total = sum(float(one.sum()) for one in bits)
    if isinstance(content.fields, ImageFields):
        return {"total": total, "pixels": encoded(pixel_bits(bits).astype("<f4").tobytes())}
    if isinstance(content.fields, SoundFields):
        samples = np.sum(list(bits), axis=0)
        parts = np.array_split(samples, min(BINS, len(samples)))
        return {"total": total, "columns": rounded([part.mean() for part in parts])}
    return {"total": total, "characters": rounded(bits[0])}
