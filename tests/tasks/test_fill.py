"""Gaps are filled given all the rest, in any order and at any size."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_exact import tiny_exact

from ardm.media.medium import GappedItem
from ardm.runtime.device import Runtime
from ardm.schedule import uniform_schedule
from ardm.tasks.draw import DrawOptions
from ardm.tasks.fill import fill, with_known
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


def staged_gaps() -> GappedItem:
    known = np.arange(16) % 3 > 0
    return GappedItem(values=np.where(known, 5, 0), known=known, shape=(16,), length=16)


def test_particles_keep_what_is_known_and_only_refine():
    model, gaps, calls = loaded("staged"), staged_gaps(), []
    schedule = uniform_schedule(16, 4, num_stages=model.ardm.num_stages, first_step=10)
    options = DrawOptions(
        num_items=5, particles=3, batch_size=6, order="halton", num_states=9, on_call=lambda: calls.append(1)
    )
    drawn = fill(model, gaps, schedule, options)
    assert options.sizes() == [2, 2, 1]
    assert len(calls) == 3 * schedule.num_calls
    assert list(drawn.calls) == list(range(1, schedule.num_calls + 1))
    assert (drawn.samples[:, gaps.known] == 5).all()
    assert (drawn.samples < model.ardm.num_classes).all()
    settled = [(state == drawn.samples).mean() for state in drawn.states]
    assert settled[0] < 1
    assert settled[-1] == 1
    again = fill(model, gaps, schedule, options)
    other = fill(model, gaps, schedule, replace(options, seed=1))
    assert np.array_equal(drawn.samples, again.samples)
    assert not np.array_equal(drawn.samples, other.samples)


@pytest.mark.parametrize("kind", ["text", "staged"])
def test_particles_change_nothing_where_nothing_is_weighed(kind):
    """With one stage, or with nothing known, the draws are those of a single particle."""
    model, gaps = loaded(kind), staged_gaps()
    if kind == "staged":
        gaps = replace(gaps, known=np.zeros(16, bool))
    one, many = (fill(model, gaps, options=DrawOptions(num_items=2, particles=number)) for number in (1, 4))
    assert np.array_equal(one.samples, many.samples)


def test_known_variables_are_weighed_in_as_many_calls_as_gaps_are_filled():
    model = loaded("staged")
    stages = model.ardm.num_stages
    schedule = uniform_schedule(16, 4 * stages, num_stages=stages, first_step=10)
    whole = with_known(model.trained, schedule)
    assert (whole.first_step, whole.num_steps) == (0, 16)
    assert whole.num_calls == 2 * schedule.num_calls
    for stage in range(stages):
        assert [group for group in whole.groups(stage) if group[0] >= 10] == schedule.groups(stage)
