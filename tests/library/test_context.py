"""Contexts are checked against the network and the number of items."""

import functools

import numpy as np
import pytest
import torch
from own_models import Labelled, Small
from torch import nn

import ardm
from ardm.errors import UsageError
from ardm.library.context import check_context, fresh_generator, takes_context

CPU = torch.device("cpu")


class Optional(Labelled):
    """A network that computes without a label as well."""

    def forward(self, inputs, mask, stage, t, label=None):
        return super().forward(inputs, mask, stage, t, stage if label is None else label)


class Starred(Labelled):
    def forward(self, *arguments):
        return super().forward(*arguments)


class KeywordOnly(Small):
    def forward(self, inputs, mask, stage, t, *, scale=1.0):
        return super().forward(inputs, mask, stage, t) * scale


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (Small(), (False, False)),
        (Labelled(), (True, True)),
        (Optional(), (True, False)),
        (Starred(), (True, False)),
        (KeywordOnly(), (False, False)),
    ],
)
def test_the_signature_tells_whether_a_network_takes_a_context(network, expected):
    assert takes_context(network) == expected


@pytest.mark.parametrize("context", [[0, 1, 1], np.array([0, 1, 1]), torch.tensor([0, 1, 1]), (0, 1, 1)])
def test_contexts_come_in_many_forms(context):
    assert check_context(Labelled(), context, 3, CPU).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("network", "context", "text"),
    [
        (Labelled(), None, "this network takes a context; give context= with a row for each item"),
        (Small(), [1, 1, 1], "this network takes no context; give its forward"),
        (Labelled(), [1, 1], "expected a context with a row for each of 3 items, got 2 rows"),
        (Labelled(), 1, "expected a context with a row for each of 3 items, got a single number"),
        (Labelled(), ["a", "b", "c"], "a context is a tensor, an array or a list of numbers, got list"),
        (Labelled(), [[1], [1, 2], [1]], "a context is a tensor, an array or a list of numbers, got list"),
    ],
)
def test_contexts_that_do_not_fit_are_refused(network, context, text):
    with pytest.raises(UsageError, match=text) as caught:
        check_context(network, context, 3, CPU)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda m, **c: m.score([[0] * 5] * 3, **c),
        lambda m, **c: m.score([[0] * 5] * 3, "raster", **c),
        lambda m, **c: m.sample(3, **c),
        lambda m, **c: m.chain(3, **c),
        lambda m, **c: m.infill([0] * 5, [1], n=3, **c),
        lambda m, **c: m.loss(torch.zeros(3, 5).long(), **c),
    ],
)
def test_every_verb_checks_its_context(call):
    conditional, plain = ardm.order_agnostic(Labelled(), 2, 5), ardm.order_agnostic(Small(), 2, 5)
    call(conditional, context=[0, 1, 0])
    call(plain)
    for model, options, text in (
        (conditional, {}, "takes a context"),
        (conditional, {"context": [0, 1]}, "each of 3 items, got 2 rows"),
        (plain, {"context": [0, 1, 0]}, "takes no context"),
    ):
        with pytest.raises(UsageError, match=text):
            call(model, **options)


def test_a_network_may_do_without():
    model = ardm.order_agnostic(Optional(), 2, 5)
    assert model.sample(2).tolist() == model.sample(2, context=[0, 0]).tolist()


def test_fresh_generators_follow_the_seed_of_pytorch():
    with torch.random.fork_rng(devices=[]):
        states = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            states.append(fresh_generator(CPU).initial_seed())
    assert states[0] == states[1] != states[2]


def test_wrapped_networks_are_read_through():
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Labelled()
            self.forward = functools.partial(self.inner.forward)

    assert takes_context(Wrapped()) == (True, True)
