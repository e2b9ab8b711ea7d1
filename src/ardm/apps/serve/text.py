"""Text on the page: characters with gaps in, filled ones out."""

from typing import Any

import numpy as np

from ardm.apps.serve.inputs import PageRequest
from ardm.apps.serve.medium import all_gaps
from ardm.apps.serve.models import PageModel
from ardm.errors import DataError
from ardm.media.medium import GappedItem
from ardm.media.text.gaps import parse_gaps
from ardm.tasks.draw import States

GAP = "_"
"""Marks a character to fill."""


class TextPage:
    """The page's texts for one model."""

    def __init__(self, model: PageModel) -> None:
        assert model.trained.alphabet is not None
        self._alphabet, self._num_variables = model.trained.alphabet, model.ardm.num_variables

    def facts(self) -> dict[str, Any]:
        """The longest text and its characters (None: any bytes)."""
        return {"length": self._num_variables, "alphabet": self._alphabet.characters}

    def start(self, request: PageRequest) -> GappedItem:
        """A text whose gaps are underscores; an empty text is all gaps."""
        text = request.text("text", request.limits.characters)
        if not text:
            return all_gaps((self._num_variables,))
        if GAP not in text:
            raise DataError(f"nothing to fill: put {GAP} for each character that the model should fill")
        return parse_gaps(text.encode(), GAP, self._alphabet, self._num_variables)

    def whole(self, request: PageRequest) -> GappedItem:
        """A text without gaps, all of it known."""
        text = request.text("text", request.limits.characters)
        values = self._alphabet.encode(text.encode(), "the text")
        if not 0 < len(values) <= self._num_variables:
            raise DataError(f"the text has {len(values)} characters; this model takes 1 to {self._num_variables}")
        known = np.arange(self._num_variables) < len(values)
        padded = np.zeros(self._num_variables, np.int64)
        padded[known] = values
        return GappedItem(values=padded, known=known, shape=(self._num_variables,), length=len(values))

    def show_states(self, states: States, gaps: GappedItem) -> dict[str, Any]:
        """Lines of text with underscores for hidden characters."""
        return {"texts": [self._alphabet.show(state[: gaps.length]) for state in states]}

    def show_samples(self, samples: States, gaps: GappedItem) -> dict[str, Any]:
        """The texts, and which of their characters were filled."""
        return self.show_states(samples, gaps) | {"filled": (~gaps.known[: gaps.length]).tolist()}
