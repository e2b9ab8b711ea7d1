"""Text on the page: characters with gaps in, filled ones out."""

from typing import Any

import numpy as np

from ardm.apps.serve.inputs import PageRequest
from ardm.apps.serve.medium import Start, States
from ardm.apps.serve.models import LoadedModel
from ardm.errors import DataError
from ardm.media.medium import GappedItem
from ardm.media.text.gaps import parse_gaps

GAP = "_"
"""Marks a character to fill."""


class TextPage:
    """Texts of a model."""

    def __init__(self, served: LoadedModel) -> None:
        assert served.trained.alphabet is not None
        self._alphabet, self._num_variables = served.trained.alphabet, served.trained.model.num_variables

    def facts(self) -> dict[str, Any]:
        """The longest text and its characters (None: any bytes)."""
        return {"length": self._num_variables, "alphabet": self._alphabet.characters}

    def start(self, asked: PageRequest) -> Start:
        """A text whose gaps are underscores; an empty one: nothing."""
        text = asked.text("text", asked.limits.characters)
        if text and GAP not in text:
            raise DataError(f"nothing to fill: mark each character that the model shall fill with {GAP}")
        if not text:
            return Start(shape=(self._num_variables,), gaps=None, length=self._num_variables)
        gaps = parse_gaps(text.encode(), GAP, self._alphabet, self._num_variables)
        return Start(shape=gaps.shape, gaps=gaps, length=gaps.length)

    def whole(self, asked: PageRequest) -> Start:
        """A text without gaps, all of it known."""
        text = asked.text("text", asked.limits.characters)
        values = self._alphabet.encode(text.encode(), "the text")
        if not 0 < len(values) <= self._num_variables:
            raise DataError(f"the text has {len(values)} characters; this model takes 1 to {self._num_variables}")
        known = np.arange(self._num_variables) < len(values)
        padded = np.zeros(self._num_variables, np.int64)
        padded[known] = values
        gaps = GappedItem(values=padded, known=known, shape=(self._num_variables,), length=len(values))
        return Start(shape=gaps.shape, gaps=gaps, length=gaps.length)

    def shown(self, states: States, start: Start) -> dict[str, Any]:
        """Lines of text with underscores for what is hidden."""
        return {"texts": [self._alphabet.show(state[: start.length]) for state in states]}

    def finished(self, states: States, start: Start) -> dict[str, Any]:
        """The texts, and which characters were filled."""
        known = [False] * start.length if start.gaps is None else start.gaps.known[: start.length].tolist()
        return self.shown(states, start) | {"filled": [not one for one in known]}
