"""What codecs are compared on: items of a corpus or whole files, their sizes, and whether they came back."""

import math
from typing import Literal

import numpy as np

from ardm.codec.format.fields import ImageFields, SoundFields
from ardm.data.corpus import Corpus, Split
from ardm.data.images import Pixels
from ardm.data.sound_files import Sound
from ardm.data.sounds import ZERO_CLASS
from ardm.media.contents import Content, frames_of, pixels_of
from ardm.orders import Shape

Media = Literal["images", "text", "bytes", "audio"]
Item = bytes | Pixels | Sound
"""Text is UTF-8; images are grey or RGB, with or without alpha; sounds are mono or stereo."""

UNITS: dict[Media, str] = {"images": "sub-pixel", "text": "character", "bytes": "byte", "audio": "sample"}
"""What a variable of an item is."""


def media_of(corpus: Corpus) -> Media:
    """What a corpus holds."""
    if corpus.alphabet is not None:
        return "bytes" if corpus.alphabet.characters is None else "text"
    return "images" if corpus.sample_rate is None else "audio"


def spread_items(corpus: Corpus, split: Split, shape: Shape, num_items: int, seed: int | None = None) -> list[Item]:
    """So many items, or all if there are fewer: one of each of as many equal stretches of a split.

    See `spread_places` for which of its stretch it is.
    """
    rows = corpus.items(split, shape)
    return [item_of(rows[place], corpus, shape) for place in spread_places(len(rows), num_items, seed)]


def spread_places(length: int, count: int, seed: int | None = None) -> list[int]:
    """So many places below a length, or all: of as many equal stretches each its first or, with a seed, any of it."""
    count = min(count, length)
    bounds = np.arange(count + 1) * length // count
    places = bounds[:-1] if seed is None else np.random.default_rng(seed).integers(bounds[:-1], bounds[1:])
    return [int(place) for place in places]


def training_items(corpus: Corpus, shape: Shape, num_variables: int) -> list[Item]:
    """The last items of the training split, of so many variables together; none where no rival learns from them."""
    if media_of(corpus) not in ("text", "bytes"):
        return []
    rows = corpus.items("train", shape)[-max(1, num_variables // math.prod(shape)) :]
    return [item_of(row, corpus, shape) for row in rows]


def item_of(classes: np.ndarray, corpus: Corpus, shape: Shape) -> Item:
    """What the classes of a corpus's item stand for."""
    if corpus.alphabet is not None:
        return corpus.alphabet.decode(classes)
    if corpus.sample_rate is None:
        return classes.reshape(shape)
    samples = (classes ^ np.uint16(ZERO_CLASS)).view(np.int16)
    return Sound(frames=samples[:, None], rate=corpus.sample_rate)


def media_of_content(content: Content) -> Media:
    """What a user's file holds."""
    kinds: dict[str, Media] = {"image": "images", "sound": "audio", "text": "text", "bytes": "bytes"}
    return kinds[content.fields.kind]


def item_of_content(content: Content) -> Item:
    """A user's file as codecs take it."""
    if isinstance(content.fields, ImageFields):
        return pixels_of(content)
    if isinstance(content.fields, SoundFields):
        return Sound(frames=frames_of(content), rate=content.fields.sample_rate)
    return content.raw


def num_variables(item: Item, media: Media) -> int:
    """Sub-pixels, characters, bytes or samples."""
    if isinstance(item, bytes):
        return len(item.decode()) if media == "text" else len(item)
    return item.frames.size if isinstance(item, Sound) else item.size


def num_bytes(item: Item) -> int:
    """The size of an item as it is."""
    if isinstance(item, bytes):
        return len(item)
    return item.frames.nbytes if isinstance(item, Sound) else item.nbytes


def has_alpha(item: Item) -> bool:
    """Whether it is an image whose last channel is alpha."""
    return isinstance(item, np.ndarray) and item.shape[2] in (2, 4)


def is_same(item: Item, again: Item) -> bool:
    """Whether an item was restored.

    A grey image may come back as three equal channels, and without an alpha that is opaque everywhere: so does WebP.
    """
    match item, again:
        case bytes(), bytes():
            return item == again
        case Sound(), Sound():
            return item.rate == again.rate and np.array_equal(item.frames, again.frames)
        case np.ndarray(), np.ndarray():
            return _is_same_image(item, again)
    return False


def _is_same_image(item: Pixels, again: Pixels) -> bool:
    if item.dtype != again.dtype or _colours(item).shape[2] > _colours(again).shape[2]:
        return False
    return np.array_equal(_with_alpha(item), _with_alpha(again))


def _colours(pixels: Pixels) -> Pixels:
    return pixels[:, :, :-1] if has_alpha(pixels) else pixels


def _with_alpha(pixels: Pixels) -> Pixels:
    """As RGB and alpha."""
    alpha = pixels[:, :, -1:] if has_alpha(pixels) else np.full((*pixels.shape[:2], 1), 255, pixels.dtype)
    return np.concatenate((np.broadcast_to(_colours(pixels), (*pixels.shape[:2], 3)), alpha), axis=2)
