"""What codecs are compared on: items of a corpus as users have them, their sizes, and whether they came back."""

import math
from typing import Literal

import numpy as np

from ardm.data.audio import ZERO_CLASS, Clip
from ardm.data.corpus import Corpus, Split
from ardm.data.images import ImageCorpus, Pixels
from ardm.orders import Shape

Media = Literal["images", "text", "bytes", "audio"]
Item = bytes | Pixels | Clip
"""Text is UTF-8; images are grey or RGB, sounds mono."""

UNITS: dict[Media, str] = {"images": "sub-pixel", "text": "character", "bytes": "byte", "audio": "sample"}
"""What a variable of an item is."""


def media_of(corpus: Corpus) -> Media:
    """What a corpus holds."""
    if corpus.alphabet is not None:
        return "bytes" if corpus.alphabet.characters is None else "text"
    return "images" if isinstance(corpus, ImageCorpus) else "audio"


def spread_items(corpus: Corpus, split: Split, shape: Shape, num_items: int, seed: int | None = None) -> list[Item]:
    """So many items, or all if there are fewer: one of each of as many equal stretches of a split.

    It is the first of its stretch or, with a seed, a random one.
    """
    rows = corpus.items(split, shape)
    count = min(num_items, len(rows))
    bounds = np.arange(count + 1) * len(rows) // count
    places = bounds[:-1] if seed is None else np.random.default_rng(seed).integers(bounds[:-1], bounds[1:])
    return [item_of(rows[place], corpus, shape) for place in places]


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
    return Clip(samples=(classes ^ np.uint16(ZERO_CLASS)).view(np.int16), rate=corpus.sample_rate)


def num_variables(item: Item, media: Media) -> int:
    """Sub-pixels, characters, bytes or samples."""
    if isinstance(item, bytes):
        return len(item.decode()) if media == "text" else len(item)
    return item.samples.size if isinstance(item, Clip) else item.size


def num_bytes(item: Item) -> int:
    """The size of an item as it is."""
    if isinstance(item, bytes):
        return len(item)
    return item.samples.nbytes if isinstance(item, Clip) else item.nbytes


def is_same(item: Item, again: Item) -> bool:
    """Whether an item was restored, a grey image perhaps as three equal channels (WebP knows no others)."""
    match item, again:
        case bytes(), bytes():
            return item == again
        case Clip(), Clip():
            return item.rate == again.rate and np.array_equal(item.samples, again.samples)
        case np.ndarray(), np.ndarray():
            return _is_same_image(item, again)
    return False


def _is_same_image(item: Pixels, again: Pixels) -> bool:
    if item.shape[:2] != again.shape[:2] or again.shape[2] not in (item.shape[2], 3) or again.dtype != item.dtype:
        return False
    return bool((item == again).all())
