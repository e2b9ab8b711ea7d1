"""One driver draws for all programs: equal draws in batches and in processes, and the states that are kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from serving import with_profile
from tiny_exact import tiny_exact

from ardm.errors import UsageError
from ardm.orders import random_stage_orders
from ardm.runtime.device import Runtime
from ardm.runtime.team import Team
from ardm.sample import batch_generator, sample_chain, sample_items
from ardm.schedule import uniform_schedule
from ardm.tasks.draw import DrawOptions, calls_to_keep, draw
from ardm.tasks.load import LoadedModel, with_diffusion_steps

CPU = Runtime.choose("cpu")
SCHEDULE = uniform_schedule(16, 6)


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return LoadedModel(trained=with_profile(tiny_exact("text")), runtime=CPU)


def test_batches_are_those_of_their_generators(loaded):
    drawn = draw(loaded, SCHEDULE, DrawOptions(num_items=5, batch_size=2, seed=3))
    expected = []
    for batch, size in enumerate([2, 2, 1]):
        generator = batch_generator(3, batch, CPU.device)
        orders = random_stage_orders(size, 1, 16, generator)
        expected.append(sample_items(loaded.ardm, orders, SCHEDULE, generator).numpy())
    assert np.array_equal(drawn.samples, np.concatenate(expected))
    assert (drawn.calls, drawn.shape) == ([6], (16,))


def test_states_are_those_after_the_calls_that_are_kept(loaded):
    seen, calls = [], []
    options = DrawOptions(
        num_items=2, num_states=3, on_state=lambda call, states: seen.append(call), on_call=lambda: calls.append(1)
    )
    drawn = draw(loaded, SCHEDULE, options)
    assert drawn.calls == seen == [1, 3, 6]
    assert len(calls) == 6
    generator = batch_generator(0, 0, CPU.device)
    chain = [*sample_chain(loaded.ardm, random_stage_orders(2, 1, 16, generator), SCHEDULE, generator)]
    for call, states in zip(drawn.calls, drawn.states, strict=True):
        assert np.array_equal(states, chain[call - 1].shown(loaded.ardm.depth).numpy())


@pytest.mark.parametrize("num_calls", [1, 2, 5, 40, 250, 3072])
@pytest.mark.parametrize("num_states", [1, 2, 5, 8, 40])
def test_calls_that_are_kept_are_evenly_spread_from_the_first_to_the_last(num_calls, num_states):
    calls = calls_to_keep(num_calls, num_states)
    assert calls == sorted({*np.linspace(num_calls, 1, num_states, dtype=int).tolist()})
    assert calls[-1] == num_calls


def test_processes_share_the_batches(loaded, monkeypatch):
    """Each draws its own, which together are those of one process."""
    options = DrawOptions(num_items=5, batch_size=2, seed=1)
    pieces = {}
    monkeypatch.setattr(Team, "all_gather_in_order", lambda team, own: pieces.update(own) or [one for _, one in own])
    for rank in (0, 1):
        draw(replace(loaded, runtime=replace(CPU, team=Team(rank=rank, size=2))), SCHEDULE, options)
    together = np.concatenate([pieces[batch][-1] for batch in range(3)])
    assert np.array_equal(together, draw(loaded, SCHEDULE, options).samples)


def test_baselines_are_drawn_by_the_same_driver(loaded):
    baseline = with_diffusion_steps(loaded, 4)
    drawn = draw(baseline, options=DrawOptions(num_items=3, batch_size=2, num_states=2))
    assert drawn.calls == [1, 4]
    assert drawn.samples.shape == (3, 16)
    assert (drawn.samples < baseline.trained.model.num_classes).all()
    again = draw(baseline, options=DrawOptions(num_items=3, batch_size=2))
    assert np.array_equal(drawn.samples, again.samples)


def test_top_p_needs_a_list_of_classes():
    loaded = LoadedModel(trained=tiny_exact("logistic"), runtime=CPU)
    with pytest.raises(UsageError, match="logistic mixtures"):
        draw(loaded, options=DrawOptions(top_p=0.5))
    assert torch.is_grad_enabled()
