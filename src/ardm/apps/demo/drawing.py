"""Samples from nothing, and gaps filled."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from ardm.apps.demo.exhibits import Exhibit
from ardm.codec.coding_plan import orders_and_schedule
from ardm.codec.format.options import OrderChoice
from ardm.data.alphabet import Alphabet
from ardm.media.contents import pixels_of
from ardm.media.medium import GappedItem, steps_to_fill
from ardm.media.text.gaps import parse_gaps
from ardm.media.text.medium import TextMedium
from ardm.orders import Shape
from ardm.sample import Given, sample_chain
from ardm.schedule import Schedule

GAP_ORDER = OrderChoice(name="halton")
"""Gaps are filled in an order that spreads out, which loses least with few calls."""
GAP_CALLS = 50
"""Of the network for what is filled, at most."""
GAP_TEMPERATURE = 0.8
"""A little below 1, which is the model itself: of few fillings none should be an odd one."""
WORDS_A_GAP = 4
"""Of so many words of a text one is taken out."""

States = Int[np.ndarray, "N D"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """Samples, and the states on the way to them."""

    states: Sequence[States]
    """The last ones are the samples; a variable that is not revealed yet has a class beyond the last one."""
    calls: Sequence[int]
    """The number of calls made when each state was reached."""
    shape: Shape
    seconds: float

    @property
    def samples(self) -> States:
        """The classes of each sample."""
        return self.states[-1]


@dataclass(frozen=True, kw_only=True, eq=False)
class Filled:
    """An item whose gaps were filled several times."""

    name: str
    original: Int[np.ndarray, "D"]
    """The item without gaps."""
    gaps: GappedItem
    drawn: Drawn


def draw(exhibit: Exhibit, num_samples: int, num_states: int, seed: int) -> Drawn:
    """Samples from nothing, in the order and with the calls that the model codes with."""
    shape = exhibit.served.trained.model.shape
    orders, schedule = orders_and_schedule(exhibit.exact.coding.order, shape, exhibit.schedule)
    own = torch.from_numpy(orders).to(exhibit.served.device).expand(num_samples, -1, -1)
    return _chain(exhibit, shape, own, schedule, None, num_states, seed)


def fill(exhibit: Exhibit, gaps: GappedItem, num_samples: int, seed: int) -> Drawn:
    """Fillings of the same gaps."""
    served, num_variables = exhibit.served, len(gaps.values)
    steps = steps_to_fill(gaps, num_variables, served.trained.model.num_stages)
    schedule = served.schedule(GAP_CALLS, *steps)
    orders, _ = orders_and_schedule(GAP_ORDER, gaps.shape, schedule)
    own = torch.from_numpy(orders).to(served.device).expand(num_samples, -1, -1)
    given = gaps.given(num_samples, served.device)
    return _chain(exhibit, gaps.shape, gaps.sorted(own), schedule, given, 1, seed)


def _chain(
    exhibit: Exhibit,
    shape: Shape,
    orders: Int[Tensor, "N S D"],
    schedule: Schedule,
    given: Given | None,
    num_states: int,
    seed: int,
) -> Drawn:
    served, started = exhibit.served, time.perf_counter()
    model = served.trained.for_shape(shape).model
    generator = torch.Generator(served.device).manual_seed(seed)
    shown = {*np.linspace(schedule.num_calls, 1, num_states, dtype=int).tolist()}
    temperature = 1.0 if given is None else GAP_TEMPERATURE
    chain = sample_chain(model, orders, schedule, generator, given=given, temperature=temperature)
    states: list[States] = []
    with served.autocast():
        for call, step in enumerate(chain, start=1):
            if call in shown:
                states.append(step.shown(model.depth).cpu().numpy())
    return Drawn(states=states, calls=sorted(shown), shape=shape, seconds=time.perf_counter() - started)


def fill_images(exhibit: Exhibit, num_images: int, num_samples: int, seed: int) -> list[Filled]:
    """The middle of some examples filled, of those that have the model's channels."""
    channels = exhibit.served.trained.model.shape[2]
    pictures = {one.path.name: pixels_of(one.content) for one in exhibit.examples}
    fitting = {name: pixels for name, pixels in pictures.items() if pixels.shape[2] == channels}
    return [_fill_image(exhibit, name, fitting[name], num_samples, seed) for name in [*fitting][:num_images]]


def _fill_image(exhibit: Exhibit, name: str, pixels: UInt8[np.ndarray, "H W C"], num_samples: int, seed: int) -> Filled:
    known = ~np.broadcast_to(middle(*pixels.shape[:2])[:, :, None], pixels.shape).ravel()
    original = pixels.ravel().astype(np.int64)
    gaps = GappedItem(values=original * known, known=known, shape=pixels.shape, length=pixels.size)
    return Filled(name=name, original=original, gaps=gaps, drawn=fill(exhibit, gaps, num_samples, seed))


def middle(height: int, width: int) -> Bool[np.ndarray, "H W"]:
    """True in the middle quarter of an image each way."""
    down, right = (abs(2 * np.arange(size) + 1 - size) < max(2, size / 4) for size in (height, width))
    return down[:, None] & right


def fill_texts(exhibit: Exhibit, num_texts: int, num_samples: int, seed: int) -> list[Filled]:
    """Some words filled at the beginning of some examples, as far as the model's items reach."""
    alphabet, length = TextMedium(exhibit.served.trained).alphabet, exhibit.served.trained.model.num_variables
    examples = {one.path.name: one.content.raw.decode(errors="replace") for one in exhibit.examples}
    texts = {name: passage(text, alphabet, length) for name, text in examples.items()}
    return [
        _fill_text(exhibit, name, texts[name], num_samples, seed) for name in [*filter(texts.get, texts)][:num_texts]
    ]


def _fill_text(exhibit: Exhibit, name: str, text: str, num_samples: int, seed: int) -> Filled:
    trained = exhibit.served.trained
    alphabet = TextMedium(trained).alphabet
    gaps = parse_gaps(text.encode(), missing_words(text), alphabet, trained.model.num_variables)
    original = alphabet.encode(text.encode()).astype(np.int64)
    return Filled(name=name, original=original, gaps=gaps, drawn=fill(exhibit, gaps, num_samples, seed))


def passage(text: str, alphabet: Alphabet, length: int) -> str:
    """The beginning of a text in the characters of an alphabet, up to the last whole word of so many characters.

    Capitals that it lacks are small letters, and one space stands for the rest.
    """
    known = set(alphabet.characters or map(chr, range(128)))
    kept = (next((c for c in (one, one.lower()) if c in known), " ") for one in text)
    short = (" " if " " in known else "").join("".join(kept).split())
    return short if len(short) <= length else short[: length + 1].rsplit(" ", 1)[0][:length]


def missing_words(text: str) -> str:
    """Ranges of positions of some words, as a mask; of a text of one word its middle."""
    words = [f"{word.start()}:{word.end()}" for word in re.finditer(r"\S+", text)]
    third = len(text) // 3
    return ",".join(words[1::WORDS_A_GAP]) or f"{third}:{third + max(1, third)}"
