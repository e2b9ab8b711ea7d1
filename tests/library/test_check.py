"""`ardm.check` tells each fault of a network in one line, and leaves the model as it was."""

import math

import pytest
import torch
from own_models import SOME_CASES, Conditional, Labelled, Small, around, other_table
from tiny_exact import tiny_exact
from torch import nn

import ardm
from ardm.errors import NetworkError, UsageError
from ardm.library.items import items_of


class WrongShape(Small):
    def forward(self, inputs, mask, stage, t):
        return super().forward(inputs, mask, stage, t)[..., :1]


class Flat(Small):
    def forward(self, inputs, mask, stage, t):
        return super().forward(inputs, mask, stage, t).flatten(1)


class Pair(Small):
    def forward(self, inputs, mask, stage, t):
        return super().forward(inputs, mask, stage, t), None


class Mixing(Small):
    """Centres its outputs over the batch, as batch normalisation does in training."""

    def forward(self, inputs, mask, stage, t):
        outputs = super().forward(inputs, mask, stage, t)
        return outputs - outputs.mean(0, keepdim=True)


class SizeOfBatch(Small):
    def forward(self, inputs, mask, stage, t):
        return super().forward(inputs, mask, stage, t) * len(inputs)


def in_place(which):
    class InPlace(Small):
        def forward(self, inputs, mask, stage, t):
            outputs = super().forward(inputs, mask, stage, t)
            arguments = {"inputs": inputs, "mask": mask, "stage": stage, "t": t}
            arguments[which][:1] = 1 - arguments[which][:1].long()
            return outputs

    return InPlace


class Random(Small):
    def forward(self, inputs, mask, stage, t):
        return super().forward(inputs, mask, stage, t) + 0.1 * torch.rand(1)


class AlwaysDropout(Small):
    def forward(self, inputs, mask, stage, t):
        return nn.functional.dropout(super().forward(inputs, mask, stage, t), 0.5, training=True)


class Remembers(Small):
    """Adds what it was shown in the call before."""

    last = 0.0

    def forward(self, inputs, mask, stage, t):
        outputs = super().forward(inputs, mask, stage, t) + self.last
        self.last = inputs.float().mean()
        return outputs


class Cache(Small):
    """Keeps the value of the first variable, once it was revealed."""

    first = 0.0

    def forward(self, inputs, mask, stage, t):
        if mask[0, 0]:
            self.first = inputs[0, 0].float()
        return super().forward(inputs, mask, stage, t) + self.first


class Unused(Small):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(3, 3)


class Detached(Small):
    def forward(self, inputs, mask, stage, t):
        return super().forward(inputs, mask, stage, t).detach()


class BadGradient(Small):
    """The square root of zero has no finite gradient, though its value is fine."""

    def forward(self, inputs, mask, stage, t):
        return super().forward(inputs, mask, stage, t) + (0 * self.layer.bias.sum()).sqrt()


def adding(value):
    class Adding(Small):
        def forward(self, inputs, mask, stage, t):
            outputs = super().forward(inputs, mask, stage, t)
            return outputs + torch.tensor([0.0, 0.0, 0.0, 0.0, value])[:, None]

    return Adding


@pytest.mark.parametrize(
    ("network", "text"),
    [
        (
            WrongShape,
            r"the network returned shape \(4, 5, 1\), expected \(4, 5, 2\): a row of outputs for each variable",
        ),
        (Flat, r"the network returned shape \(4, 10\), expected \(4, 5, 2\)"),
        (Pair, "the network returned a tuple, expected a tensor"),
        (Mixing, "the outputs for an item depend on the other items of its batch; keep items apart"),
        (SizeOfBatch, "the outputs for an item depend on the size of its batch"),
        (in_place("inputs"), "the network changes its inputs in place; let it work on a copy"),
        (in_place("mask"), "the network changes its inputs in place"),
        (in_place("stage"), "the network changes its inputs in place"),
        (in_place("t"), "the network changes its inputs in place"),
        (Random, "outputs differ when it is called again; it must not draw random numbers"),
        (AlwaysDropout, "outputs differ when it is called again; it must not draw random numbers"),
        (Remembers, "hidden values leak: the outputs depend on an earlier call of the network"),
        (Cache, "hidden values leak: the outputs depend on an earlier call of the network"),
        (Unused, "these parameters get no gradient: spare.weight, spare.bias; they do not change the outputs"),
        (Detached, "the loss has no gradient; does the network detach its outputs"),
        (BadGradient, "the gradient of these parameters is not finite: .*layer.bias"),
        (adding(math.nan), "the network's outputs are not finite; only -inf is allowed, for some classes"),
        (adding(math.inf), "the network's outputs are not finite"),
        (adding(-math.inf), "the network's outputs are not finite"),
    ],
)
def test_each_fault_is_told(network, text):
    model = ardm.order_agnostic(network(), 2, 5)
    with pytest.raises(NetworkError, match=text) as caught:
        ardm.check(model)
    assert "\n" not in str(caught.value)


def test_a_context_that_is_changed_or_ignored():
    class Changes(Labelled):
        def forward(self, inputs, mask, stage, t, label):
            outputs = super().forward(inputs, mask, stage, t, label)
            label.zero_()
            return outputs

    with pytest.raises(NetworkError, match="changes its inputs in place"):
        ardm.check(ardm.order_agnostic(Changes(), 2, 5), torch.tensor([0, 1, 1, 0]))
    with pytest.raises(UsageError, match="this network takes a context"):
        ardm.check(ardm.order_agnostic(Labelled(), 2, 5))
    with pytest.raises(UsageError, match="a row for each of 4 items, got 3 rows"):
        ardm.check(ardm.order_agnostic(Labelled(), 2, 5), [0, 1, 1])
    assert ardm.check(ardm.order_agnostic(Labelled(), 2, 5), [0, 1, 1, 0]).startswith("fine")


@pytest.mark.parametrize("name", SOME_CASES)
def test_table_models_are_fine(name):
    assert ardm.check(around(name)[1]).startswith("fine: shapes, determinism")


def test_networks_of_all_kinds_are_fine():
    normalised = nn.BatchNorm1d(5)

    class Normalised(Small):
        def __init__(self):
            super().__init__(dropout=0.5)
            self.norm = normalised

        def forward(self, inputs, mask, stage, t):
            return self.norm(super().forward(inputs, mask, stage, t))

    class Impossible(Small):
        """Its first variable is never 1."""

        def forward(self, inputs, mask, stage, t):
            never = torch.zeros(5, 2, dtype=torch.bool)
            never[0, 1] = True
            return super().forward(inputs, mask, stage, t).masked_fill(never, -math.inf)

    assert ardm.check(ardm.order_agnostic(Normalised(), 2, 5)).startswith("fine")
    assert normalised.num_batches_tracked == 0
    frozen = Small()
    frozen.embedding.requires_grad_(False)
    assert ardm.check(ardm.order_agnostic(frozen, 2, 5)).startswith("fine")
    tables = Conditional([other_table(), other_table()])
    assert ardm.check(ardm.order_agnostic(tables, 2, 3), [0, 1, 0, 1]).startswith("fine")


@pytest.mark.parametrize("kind", ["text", "grey", "sound"])
def test_models_of_media_are_fine(kind):
    trained = tiny_exact(kind)
    assert ardm.check(ardm.Model(trained.model, items_of(trained), trained=trained)).startswith("fine")


def test_the_model_is_left_as_it_was():
    network = Small(dropout=0.5)
    network.layer.eval()
    model = ardm.order_agnostic(network, 2, 5)
    network.layer.weight.grad = torch.ones_like(network.layer.weight)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    ardm.check(model)
    assert modes == [module.training for module in model.modules()]
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert (network.layer.weight.grad == 1).all()
    assert network.embedding.weight.grad is None
