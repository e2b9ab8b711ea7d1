"""Scores of the library are those of the tasks below it."""

import pytest
from serving import with_profile
from tiny_exact import tiny_exact

from ardm.library.items import items_of
from ardm.library.model import Model
from ardm.runtime.device import Runtime
from ardm.tasks.load import LoadedModel
from ardm.tasks.plan import make_schedule
from ardm.tasks.score import ScoreOptions, passes_for, score


@pytest.mark.parametrize(("order", "calls"), [("random", None), ("random", 3), ("halton", None), ("reverse", 2)])
@pytest.mark.parametrize("text", ["the cat", "the cat sat on i"], ids=["short", "whole"])
def test_a_text_costs_the_same_in_the_library_and_on_the_command_line(text, order, calls):
    trained = with_profile(tiny_exact("text"))
    model = Model(trained.model, items_of(trained), profile=trained.profile, trained=trained)
    (rows,) = model.items.rows(text)
    x = rows.x[:, : len(text)]
    options = ScoreOptions(num_passes=passes_for(1) if calls is None else 1)
    schedule = None if calls is None else make_schedule(trained, calls, last_step=len(text))
    below = score(LoadedModel(trained=trained, runtime=Runtime.choose("cpu")), x, schedule, order, options=options)
    above = model.score(text, order, calls)
    assert above.bits_per_dim == pytest.approx(below.bits_per_dim, rel=1e-6)
    assert above.is_exact == below.is_exact
