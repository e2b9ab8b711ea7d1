"""Models around networks of one's own: configurations, and variables with different numbers of classes."""

import json
import math
from itertools import product

import numpy as np
import pytest
import torch
from own_models import Small, as_users_call, small
from table_model import TableNetwork, assert_follows
from torch import nn

import ardm
from ardm.errors import DataError, UsageError
from ardm.library.limited import LimitedClasses
from ardm.library.networks import OwnConfig


class Flattened(nn.Module):
    """A network for items of any shape, from one for a row of variables."""

    def __init__(self, network):
        super().__init__()
        self.inner = network

    def forward(self, inputs, mask, stage, t):
        return self.inner(inputs.flatten(1), mask.flatten(1), stage, t).view(*inputs.shape, -1)


COUNTS = (2, 4, 3)
EVERY = list(product(*map(range, COUNTS)))


def limited(kind):
    """A table model whose variables have different numbers of classes."""
    if kind == "order-agnostic":
        return ardm.order_agnostic(TableNetwork(1, 5, 3, 4), COUNTS, 3)
    return ardm.upscale(TableNetwork(2, 4, 3, 4), COUNTS, 2, 3, parametrization="data")


each_kind = pytest.mark.parametrize("kind", ["order-agnostic", "upscale"])
each_order = pytest.mark.parametrize("order", ["raster", "reverse", "spaced", "halton", "pseudorandom"])


@each_kind
@each_order
def test_items_within_the_classes_have_all_the_probability(kind, order):
    for calls in (None, 3):
        bits = limited(kind).score(EVERY, order, calls, schedule="uniform").bits
        assert (2.0**-bits).sum() == pytest.approx(1, abs=1e-12)


@each_kind
def test_samples_stay_within_the_classes(kind):
    model = limited(kind)
    draws = torch.from_numpy(model.sample(6000, order="raster", batch_size=6000))
    assert (draws >= 0).all()
    assert (draws < torch.tensor(COUNTS)).all()
    counts = (draws * torch.tensor([12, 3, 1])).sum(1).bincount(minlength=24)
    assert_follows(counts, (2.0 ** -model.score(EVERY, "raster").bits).tolist())
    assert (model.sample(500, temperature=5.0) < COUNTS).all()
    assert (model.infill([1, 3, 0], [2], n=200) < COUNTS).all()


@each_kind
def test_limits_leave_finite_gradients(kind):
    model = limited(kind)
    for _ in range(5):
        model.loss(torch.tensor(EVERY)).backward()
    assert model.network.table.grad.isfinite().all()
    assert ardm.check(model).startswith("fine")


def test_missing_values_and_limits_together():
    model = limited("order-agnostic")
    bits = model.score([[1, math.nan, z] for z in range(3)] + [[0, math.nan, z] for z in range(3)], "reverse").bits
    assert (2.0**-bits).sum() == pytest.approx(1, abs=1e-12)
    loss = model.loss(torch.tensor([[1, math.nan, 2]]))
    loss.backward()
    assert model.network.table.grad.isfinite().all()


def test_the_first_class_beyond_a_variable_is_refused():
    model = limited("order-agnostic")
    with pytest.raises(DataError, match=r"item 1 has the value 3 at variable 2, whose classes are 0\.\.2"):
        model.score([[0, 0, 0], [0, 0, 3]])


@pytest.mark.parametrize("outputs", [1, 3, 5])
def test_wrong_outputs_of_a_limited_network_are_not_stretched(outputs):
    class Wrong(nn.Module):
        def forward(self, inputs, mask, stage, t):
            return torch.zeros(*inputs.shape, outputs)

    model = ardm.order_agnostic(Wrong(), COUNTS, 3)
    with pytest.raises(ValueError, match=rf"the network returned shape \(1, 3, {outputs}\), expected \(1, 3, 4\)"):
        model.loss(torch.zeros(1, 3).long())


def test_a_network_must_return_a_tensor():
    class Pair(Small):
        def forward(self, inputs, mask, stage, t):
            return super().forward(inputs, mask, stage, t), None

    with pytest.raises(ValueError, match="the network returned a tuple, expected a tensor"):
        ardm.order_agnostic(Pair(), 2, 5).loss(torch.zeros(1, 5).long())


def test_the_network_is_the_users_own():
    network = TableNetwork(1, 5, 3, 4)
    assert ardm.order_agnostic(network, COUNTS, 3).network is network
    assert isinstance(ardm.order_agnostic(network, COUNTS, 3).ardm.network, LimitedClasses)
    assert ardm.order_agnostic(network, [4, 4, 4], 3).ardm.network is network


@pytest.mark.parametrize("shape", [6, np.int64(6), (6,), [6], torch.Size([6]), (2, 3), np.array([3, 2])])
def test_shapes_come_in_many_forms(shape):
    model = ardm.order_agnostic(Small(num_variables=6), torch.tensor(2), shape)
    assert model.ardm.num_variables == 6
    assert all(type(size) is int for size in model.shape)
    assert model.sample(2).shape == (2, *model.shape)
    assert model.score(model.sample(3)).bits.shape == (3,)


@each_order
@pytest.mark.parametrize("shape", [(2, 3), (3, 1, 2), (1, 2, 1, 3)])
def test_items_of_any_shape_have_orders(shape, order):
    model = ardm.order_agnostic(TableNetwork(1, 3, 6, 2), 2, 6)
    shaped = ardm.order_agnostic(Flattened(model.network), 2, shape)
    items = np.array(list(product(range(2), repeat=6)))
    score = shaped.score(items.reshape(-1, *shape), order)
    assert (2.0**-score.bits).sum() == pytest.approx(1, abs=1e-12)
    if order == "raster":
        assert score.bits == pytest.approx(model.score(items, order).bits)
    if order == "strands":
        assert shaped.sample(2, order="strands").shape == (2, *shape)


@pytest.mark.parametrize("name", ["logistic", "companded"])
def test_mixtures_take_three_numbers_for_each_component(name):
    model = ardm.order_agnostic(Small(num_classes=6), 2, 5, parametrization=name, num_components=2)
    assert model.sample(3).max() < 2
    assert model.score([[0, 1, 0, 1, 1]]).bits.shape == (1,)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda n: ardm.order_agnostic(n, 1, 5), r"every variable needs a class, and some variable two; got \(1,\)"),
        (lambda n: ardm.order_agnostic(n, [], 5), r"every variable needs a class, and some variable two; got \(\)"),
        (lambda n: ardm.order_agnostic(n, [2, 0, 3], 3), "every variable needs a class"),
        (lambda n: ardm.order_agnostic(n, [2, 3], 5), "num_classes must be one number or one for each of 5 variables"),
        (lambda n: ardm.order_agnostic(n, 2.5, 5), "num_classes must be a whole number or several, got float64"),
        (lambda n: ardm.order_agnostic(n, 2, (5, 0)), r"an item's shape has axes of at least 1, got \(5, 0\)"),
        (lambda n: ardm.order_agnostic(n, 2, ()), r"an item's shape has axes of at least 1, got \(\)"),
        (lambda n: ardm.order_agnostic(n, 2, 5.0), "an item's shape must be a whole number or several, got float64"),
        (lambda n: ardm.order_agnostic(n, 2, 5, parametrization="direct"), "the parametrization must be one of data, "),
        (lambda n: ardm.upscale(n, 4, 2, 5, parametrization="logistic"), "must be one of direct, data, got 'logistic'"),
        (lambda n: ardm.upscale(n, 4, 4, 5), r"the base must lie in 2\.\.3 for 4 classes, got 4"),
        (lambda n: ardm.upscale(n, 4, 1, 5), r"the base must lie in 2\.\.3 for 4 classes, got 1"),
        (lambda n: ardm.upscale(n, [4, 3], 2, 2), "different numbers of classes need the data parametrization"),
        (lambda n: ardm.order_agnostic(Small, 2, 5), "a network is a torch.nn.Module, got type; call the class"),
        (lambda n: ardm.order_agnostic(len, 2, 5), "a network is a torch.nn.Module, got builtin_function_or_method"),
    ],
)
def test_wrong_descriptions_are_told_in_one_line(make, text):
    with as_users_call(), pytest.raises(UsageError, match=text) as caught:
        make(Small())
    assert "\n" not in str(caught.value)


def test_a_configuration_survives_json():
    config = OwnConfig(num_classes=COUNTS, shape=(3,), base=2)
    assert OwnConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_model_takes_the_dtype_of_its_network():
    model = small()
    model.double()
    assert model.loss(torch.zeros(2, 5).long()).dtype == torch.float64
