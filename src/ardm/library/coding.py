"""`CodingTexts`: a trained coding model with the methods that it has, and clear words for those that it has not."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np
import torch
from jaxtyping import Int
from torch import nn

from ardm.errors import DataError, UsageError
from ardm.library.items import TextItems, as_text_bytes
from ardm.library.scores import Score, ratio_half_width
from ardm.model import evaluating
from ardm.tasks.draw import DrawOptions, draw_coding
from ardm.tasks.load import LoadedCoding
from ardm.tasks.score import coding_calls


class CodingTexts(nn.Module):
    """A coding model of texts: exact bits in one pass, and texts drawn in calls that share their work.

    It goes through texts in strands, with a number of calls per window, or from left to right. `ardm.load` returns one
    for a run that `ardm train --coding` trained.

    >>> import ardm, torch
    >>> from ardm import build, presets
    >>> from ardm.checkpoint import TrainedCoding
    >>> from ardm.data.text import TEXT8_ALPHABET
    >>> from ardm.runtime.device import Runtime
    >>> from ardm.tasks.load import LoadedCoding
    >>> config, source = presets.coding(presets.text8_small()), {"data_title": "none", "data_fingerprint": ""}
    >>> model = build.build_model(config, num_classes=27)  # untrained: uniform
    >>> trained = TrainedCoding(config=config, alphabet=TEXT8_ALPHABET, model=model, step=0, **source)
    >>> texts = ardm.CodingTexts(LoadedCoding(trained=trained, runtime=Runtime(device=torch.device("cpu"))))
    >>> str(texts.score(["the cat", "sat on the mat"], calls=4))
    '4.7549 bits/char, 2 items; exact, strands, 4 calls'
    """

    def __init__(self, loaded: LoadedCoding) -> None:
        super().__init__()
        alphabet = loaded.trained.alphabet
        assert alphabet is not None
        self.loaded, self.model = loaded, loaded.trained.model
        self.items = TextItems(self.model.shape, alphabet)

    def __repr__(self) -> str:
        number = sum(p.numel() for p in self.parameters())
        size = "exact" if self.is_exact else f"{number:,} parameters"
        return f"Coding model of text: {self.model.num_variables} variables, {self.model.num_classes} classes, {size}"

    @property
    def is_exact(self) -> bool:
        """Whether the network computes in integers, with the same results on every machine."""
        return self.loaded.trained.exact is not None

    @property
    def trained(self) -> Any:
        """The trained model with its configuration and its data's title."""
        return self.loaded.trained

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.loaded.runtime.device

    def score(
        self,
        items: Any,
        order: str | None = None,
        calls: int | None = None,
        *,
        window: int | None = None,
        batch_size: int = 64,
    ) -> Score:
        """The exact bits of texts of any lengths, and their mean with its 95% interval.

        With `calls`, in strands with that many calls for each window; else from left to right. A text longer than the
        model's items is cut into windows, by default of half an item, which see the text before them.
        """
        calls = coding_calls(order, calls)
        for name, number in (("calls", calls), ("window", window), ("batch_size", batch_size)):
            if number is not None and number < 1:
                raise UsageError(f"{name} must be positive, got {number}")
        texts = self._classes(items)
        bits = np.zeros(len(texts))
        for chosen in _alike(texts, batch_size):
            x = torch.from_numpy(np.stack([texts[i] for i in chosen])).to(self.device)
            with torch.no_grad(), self.loaded.runtime.autocast(), evaluating(self.model):
                bits[chosen] = self.model.bits(x, calls=calls, window=window).double().cpu().numpy()
        lengths = np.array([len(text) for text in texts])
        how = "left to right" if calls is None else f"strands, {calls} calls"
        return Score(
            bits=bits,
            num_variables=lengths,
            half_width=ratio_half_width(bits, lengths),
            draws_half_width=0.0,
            unit=self.items.unit,
            is_exact=True,
            estimator=f"exact, {how}",
        )

    def sample(
        self,
        n: int = 1,
        calls: int | None = None,
        order: str | None = None,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int = 0,
        batch_size: int = 64,
    ) -> Any:
        """New texts in strands with `calls` calls, or from left to right."""
        if n < 1 or (calls is not None and calls < 1):
            raise UsageError(f"n and calls must be positive, got {n} and {calls}")
        options = DrawOptions(num_items=n, temperature=temperature, top_p=top_p, batch_size=batch_size, seed=seed)
        drawn = draw_coding(self.loaded, coding_calls(order, calls), options)
        return self.items.shown(drawn.samples, drawn.shape)

    def infill(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise a UsageError: a coding model fills no gaps."""
        raise _not_for_this("fills no gaps")

    def conditional(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise a UsageError: a coding model knows no conditionals of parts."""
        raise _not_for_this("has no probabilities of parts given others")

    def table(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise a UsageError: a coding model knows no conditionals of parts."""
        raise _not_for_this("has no probabilities of parts given others")

    def measure(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise a UsageError: a coding model has no bound over random orders."""
        raise _not_for_this("has no bound over random orders, nor a loss profile")

    def plan(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise a UsageError: strands need no plan."""
        raise _not_for_this("needs no plan, since each call takes a character of every strand")

    def _classes(self, items: Any) -> list[Int[np.ndarray, "_"]]:
        """The classes of each text."""
        is_several = isinstance(items, Iterable) and not isinstance(items, str | bytes | bytearray)
        texts: list[Any] = list(items) if is_several else [items]
        rows = [self.items.alphabet.encode(as_text_bytes(text), "the text").astype(np.int64) for text in texts]
        if not rows or not all(map(len, rows)):
            raise DataError("expected at least one text, none of them empty")
        return rows


def _alike(texts: list[Int[np.ndarray, "_"]], batch_size: int) -> Iterator[list[int]]:
    """The numbers of texts of one length, in batches."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        by_length[len(text)].append(number)
    for numbers in by_length.values():
        for start in range(0, len(numbers), batch_size):
            yield numbers[start : start + batch_size]


def _not_for_this(reason: str) -> UsageError:
    return UsageError(f"a coding model {reason}; train an order-agnostic model for this: ardm train without --coding")
