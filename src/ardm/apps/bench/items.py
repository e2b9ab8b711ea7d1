"""Items for codecs, from a corpus or from files: their sizes, and whether they were restored."""

import math
from typing import Literal

import numpy as np

from ardm.codec.format.fields import ImageFields, SoundFields
from ardm.data.corpus import Corpus, spread
from ardm.data.images import Pixels
from ardm.data.sound_files import Sound
from ardm.data.sounds import ZERO_CLASS
from ardm.media.contents import Content, frames_of, pixels_of
from ardm.names import Shape, Split

Media = Literal["images", "text", "bytes", "audio"]
Item = bytes | Pixels | Sound
"""Text is UTF-8; images are grey or RGB, with or without alpha; sounds are mono or stereo."""

UNITS: dict[Media, str] = {"images": "sub-pixel", "text": "character", "bytes": "byte", "audio": "sample"}
"""The name of a variable."""
TRAINING_VARIABLES = 8_000_000
"""Variables of the training items; more would help further, but PPMd reads all of them for each item."""


def media_of(corpus: Corpus) -> Media:
    """The kind of a corpus's items."""
    if corpus.alphabet is not None:
        return "bytes" if corpus.alphabet.characters is None else "text"
    return "images" if corpus.sample_rate is None else "audio"


def spread_items(corpus: Corpus, split: Split, shape: Shape, num_items: int, seed: int | None = None) -> list[Item]:
    """At most this number of items, spread over a split (see `spread_places`)."""
    rows = corpus.items(split, shape)
    return [item_of(rows[place], corpus, shape) for place in spread_places(len(rows), num_items, seed)]


def spread_places(length: int, count: int, seed: int | None = None) -> list[int]:
    """At most `count` places below a length, one from each equal stretch: its first or, with a seed, a random one."""
    count = min(count, length)
    bounds = np.array([*spread(count, length), length])
    places = bounds[:-1] if seed is None else np.random.default_rng(seed).integers(bounds[:-1], bounds[1:])
    return [int(place) for place in places]


def training_items(corpus: Corpus, shape: Shape, num_variables: int = TRAINING_VARIABLES) -> list[Item]:
    """The last items of the training split with this many variables; none if no rival learns from them."""
    if media_of(corpus) not in ("text", "bytes"):
        return []
    rows = corpus.items("train", shape)[-max(1, num_variables // math.prod(shape)) :]
    return [item_of(row, corpus, shape) for row in rows]


def item_of(classes: np.ndarray, corpus: Corpus, shape: Shape) -> Item:
    """The item that the classes of a corpus represent."""
    if corpus.alphabet is not None:
        return corpus.alphabet.decode(classes)
    if corpus.sample_rate is None:
        return classes.reshape(shape)
    samples = (classes ^ np.uint16(ZERO_CLASS)).view(np.int16)
    return Sound(frames=samples[:, None], rate=corpus.sample_rate)


def media_of_content(content: Content) -> Media:
    """The kind of a user's file."""
    kinds: dict[str, Media] = {"image": "images", "sound": "audio", "text": "text", "bytes": "bytes"}
    return kinds[content.fields.kind]


def item_of_content(content: Content) -> Item:
    """A user's file as an item."""
    if isinstance(content.fields, ImageFields):
        return pixels_of(content)
    if isinstance(content.fields, SoundFields):
        return Sound(frames=frames_of(content), rate=content.fields.sample_rate)
    return content.raw


def num_variables(item: Item, media: Media) -> int:
    """The number of sub-pixels, characters, bytes or samples."""
    if isinstance(item, bytes):
        return len(item.decode()) if media == "text" else len(item)
    return item.frames.size if isinstance(item, Sound) else item.size


def num_bytes(item: Item) -> int:
    """The size of an uncoded item."""
    if isinstance(item, bytes):
        return len(item)
    return item.frames.nbytes if isinstance(item, Sound) else item.nbytes


def has_alpha(item: Item) -> bool:
    """Whether an item is an image with alpha."""
    return isinstance(item, np.ndarray) and item.shape[2] in (2, 4)


def is_same(item: Item, restored: Item) -> bool:
    """Whether an item was restored; grey may come back as RGB and opaque alpha may be missing, as with WebP."""
    match item, restored:
        case bytes(), bytes():
            return item == restored
        case Sound(), Sound():
            return item.rate == restored.rate and np.array_equal(item.frames, restored.frames)
        case np.ndarray(), np.ndarray():
            return _is_same_image(item, restored)
    return False


def _is_same_image(item: Pixels, restored: Pixels) -> bool:
    num_colours = [pixels.shape[2] - has_alpha(pixels) for pixels in (item, restored)]
    is_like = item.dtype == restored.dtype and num_colours[0] <= num_colours[1]
    return is_like and np.array_equal(_rgba(item), _rgba(restored))


def _rgba(pixels: Pixels) -> Pixels:
    opaque = np.full_like(pixels[:, :, :1], 255)
    colours, alpha = (pixels[:, :, :-1], pixels[:, :, -1:]) if has_alpha(pixels) else (pixels, opaque)
    return np.dstack([np.broadcast_to(colours, (*pixels.shape[:2], 3)), alpha])
