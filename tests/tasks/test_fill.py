"""Gaps are filled given all the rest, in any order and at any size."""

import numpy as np
import pytest
from tiny_exact import tiny_exact

from ardm.media.medium import GappedItem
from ardm.runtime.device import Runtime
from ardm.schedule import uniform_schedule
from ardm.tasks.draw import DrawOptions
from ardm.tasks.fill import fill
from ardm.tasks.load import LoadedModel


def loaded(kind: str) -> LoadedModel:
    return LoadedModel(trained=tiny_exact(kind), runtime=Runtime.choose("cpu"))


@pytest.mark.parametrize("order", ["random", "halton", "reverse"])
@pytest.mark.parametrize("kind", ["text", "staged"])
def test_what_is_known_is_kept(kind, order):
    known = np.arange(16) % 3 > 0
    known[12:] = False
    gaps = GappedItem(values=np.where(known, 5, 0), known=known, shape=(16,), length=12)
    model = loaded(kind)
    first, last = gaps.steps(model.ardm.num_stages)
    assert (first, last) == (8, 12 if kind == "text" else 16)
    drawn = fill(model, gaps, uniform_schedule(last, 4, num_stages=model.ardm.num_stages, first_step=first),
                 DrawOptions(num_items=3, order=order, num_states=2))  # fmt: skip
    assert all((states[:, known] == 5).all() for states in drawn.states[-1:])
    assert (drawn.samples[:, :12] < model.ardm.num_classes).all()


def test_gaps_may_have_another_size_than_the_model():
    shape = (4, 6, 3)
    known = np.ones(72, bool)
    known[30:40] = False
    gaps = GappedItem(values=np.where(known, 9, 0), known=known, shape=shape, length=72)
    drawn = fill(loaded("one-stage-colour"), gaps)
    assert (drawn.shape, drawn.calls) == (shape, [10])
    assert (drawn.samples[0, known] == 9).all()
