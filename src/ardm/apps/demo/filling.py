"""Images and texts with gaps that a model fills."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from ardm.apps.demo.models import DemoModel
from ardm.data.alphabet import Alphabet
from ardm.media.contents import pixels_of
from ardm.media.medium import GappedItem, gapped
from ardm.media.text.gaps import parse_gaps
from ardm.media.text.medium import TextMedium
from ardm.tasks.draw import Drawn, DrawOptions
from ardm.tasks.fill import fill

GAP_ORDER = "halton"
"""An order that spreads variables out, which costs the fewest bits with few calls."""
GAP_CALLS = 50
"""Maximum number of network calls for the gaps of an item."""
GAP_TEMPERATURE = 0.8
"""Slightly below 1 (the model itself), to avoid outliers among the few samples."""
WORDS_PER_GAP = 4
"""One in this many words of a text is removed."""

Gapped = tuple[str, Int[np.ndarray, "D"], GappedItem]
"""A name, the item without gaps and the item with gaps."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Filled:
    """An item whose gaps were filled several times."""

    name: str
    original: Int[np.ndarray, "D"]
    """The item without gaps."""
    gaps: GappedItem
    drawn: Drawn


def fill_examples(model: DemoModel, num_items: int, num_samples: int, seed: int) -> list[Filled]:
    """The first suitable images or texts, each with its gaps filled several times."""
    kwargs: Any = {"num_items": num_samples, "batch_size": num_samples, "seed": seed}
    options, filled = DrawOptions(order=GAP_ORDER, temperature=GAP_TEMPERATURE, **kwargs), []
    gapped = _gapped_images(model) if model.medium == "images" else _gapped_texts(model)
    for name, original, gaps in islice(gapped, num_items):
        schedule = model.schedule(GAP_CALLS, gaps.shape, *gaps.steps(model.ardm.num_stages))
        filled.append(Filled(name=name, original=original, gaps=gaps, drawn=fill(model, gaps, schedule, options)))
    return filled


def _gapped_images(model: DemoModel) -> Iterator[Gapped]:
    """Examples with the model's number of channels, each with its middle removed."""
    for example in model.examples:
        pixels = pixels_of(example.content)
        if pixels.shape[2] == model.ardm.shape[2]:
            known = ~np.broadcast_to(middle(*pixels.shape[:2])[:, :, None], pixels.shape)
            yield example.name, pixels.ravel().astype(np.int64), gapped(pixels, known)


def _gapped_texts(model: DemoModel) -> Iterator[Gapped]:
    """The beginnings of examples, as long as the model's items, with some words removed."""
    alphabet, length = TextMedium(model.trained).alphabet, model.ardm.num_variables
    for example in model.examples:
        if text := passage(example.content.raw.decode(errors="replace"), alphabet, length):
            gaps = parse_gaps(text.encode(), missing_words(text), alphabet, length)
            yield example.name, alphabet.encode(text.encode()).astype(np.int64), gaps


def middle(height: int, width: int) -> Bool[np.ndarray, "H W"]:
    """True in the middle quarter of an image each way."""
    down, right = (abs(2 * np.arange(size) + 1 - size) < max(2, size / 4) for size in (height, width))
    return down[:, None] & right


def passage(text: str, alphabet: Alphabet, length: int) -> str:
    """The beginning of a text, at most `length` characters of an alphabet, ending with a whole word.

    Capitals outside the alphabet become small letters, other characters become spaces, and spaces are merged.
    """
    known = set(alphabet.characters or map(chr, range(128)))
    kept = (next((c for c in (one, one.lower()) if c in known), " ") for one in text)
    short = (" " if " " in known else "").join("".join(kept).split())
    return short if len(short) <= length else short[: length + 1].rsplit(" ", 1)[0][:length]


def missing_words(text: str) -> str:
    """A mask of ranges that covers some words, or the middle of a single word."""
    words = [f"{word.start()}:{word.end()}" for word in re.finditer(r"\S+", text)]
    third = len(text) // 3
    return ",".join(words[1::WORDS_PER_GAP]) or f"{third}:{third + max(1, third)}"
