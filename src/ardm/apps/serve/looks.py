"""How the page shows what it compresses: the content itself, where its bits went, and what other codecs make of it."""

import io
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from ardm.apps.rivals.images import PNG, WEBP, Pillow
from ardm.apps.serve.inputs import encoded
from ardm.apps.serve.medium import png, rounded
from ardm.apps.serve.sound import looks
from ardm.codec.format.fields import ImageFields, SoundFields
from ardm.media.contents import Content, frames_of, pixels_of

BINS = 400
"""Columns in which the bits of a sound are drawn."""

Bits = Float[np.ndarray, "..."]


def other_sizes(content: Content) -> list[dict[str, Any]]:
    """What common codecs make of a content, where they are cheap and installed."""
    sizes = {"zlib, level 9": len(zlib.compress(content.raw, 9))}
    if isinstance(content.fields, ImageFields):
        pixels = pixels_of(content)
        rivals = [("PNG", PNG), ("WebP, lossless", WEBP)]
        each = {name: _image_size(rival, pixels) for name, rival in rivals}
        sizes = {name: size for name, size in each.items() if size is not None}
    elif isinstance(content.fields, SoundFields) and (flac := _flac_size(content)) is not None:
        sizes["FLAC"] = flac
    return [{"name": name, "bytes": size} for name, size in sizes.items()]


def _image_size(rival: Pillow, pixels: UInt8[np.ndarray, "H W C"]) -> int | None:
    """The bytes that a format takes; None where it is not installed or has no images of this size."""
    try:
        return len(rival.encode_item(pixels)) if rival.is_available() else None
    except (ValueError, OSError):
        return None


def _flac_size(content: Content) -> int | None:
    assert isinstance(content.fields, SoundFields)
    try:
        import soundfile
    except (ImportError, OSError):
        return None
    file = io.BytesIO()
    try:
        soundfile.write(file, frames_of(content), content.fields.sample_rate, subtype="PCM_16", format="FLAC")
    except (soundfile.SoundFileError, ValueError):  # FLAC has a highest rate
        return None
    return len(file.getvalue())


def looks_of(content: Content) -> dict[str, Any]:
    """How the page shows a content."""
    if isinstance(content.fields, ImageFields):
        return {"picture": png(pixels_of(content)), "width": content.fields.width, "height": content.fields.height}
    if isinstance(content.fields, SoundFields):
        frames = frames_of(content)
        return looks(frames[:, 0]) if len(frames) else {}
    return {"text": readable(content)}


def readable(content: Content) -> str:
    """A text, or bytes with a dot for each that is no ASCII character."""
    if content.fields.kind == "text":
        return content.raw.decode()
    return "".join(chr(b) if 32 <= b < 127 or b == 10 else "·" for b in content.raw)


def shown_bits(content: Content, bits: Sequence[Bits]) -> dict[str, Any]:
    """The bits of each pixel or character, or their mean in each column of a drawn sound."""
    total = sum(float(one.sum()) for one in bits)
    if isinstance(content.fields, ImageFields):
        pixels = np.sum([one.sum(axis=2) for one in bits], axis=0)
        return {"total": total, "pixels": encoded(pixels.astype("<f4").tobytes())}
    if isinstance(content.fields, SoundFields):
        samples = np.sum(list(bits), axis=0)
        parts = np.array_split(samples, min(BINS, len(samples)))
        return {"total": total, "columns": rounded([part.mean() for part in parts])}
    return {"total": total, "characters": rounded(bits[0])}
