"""Conditional bits and tables of `Model` against enumeration, with masks in every form."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from own_models import Conditional, around, other_table
from table_model import CASES

import ardm
from ardm.errors import DataError, UsageError

NAN = math.nan


def joint(case, order=(0, 1, 2)):
    """p(x) of every item in an order, the same in all stages."""
    orders = (order,) * case.num_stages
    return {x: math.exp(case.oracle.log_prob(x, orders)) for x in product(range(case.num_classes), repeat=3)}


def bits_given(probs, x, target, given):
    """-log2 p(x at target | x at given)."""

    def mass(places):
        return sum(p for y, p in probs.items() if all(y[d] == x[d] for d in places))

    return -math.log2(mass([*target, *given]) / mass(given))


@pytest.mark.parametrize("target", [[1], slice(1, 2), [(1, 2)], [False, True, False], np.array([1])])
def test_targets_in_every_form(target):
    case, model = around("oa-2")
    probs = joint(case, (0, 2, 1))  # given first
    found = model.conditional(case.items(), target=target)
    expected = [bits_given(probs, x, [1], [0, 2]) for x in case.items()]
    assert found.bits.tolist() == pytest.approx(expected, rel=1e-12)
    assert not found.half_width.any()


def test_nothing_given_asks_for_the_marginal():
    case, model = around("oa-2")
    found = model.conditional([1, 0, 1], target=[0, 1], given=[])
    assert found.bits.item() == pytest.approx(bits_given(joint(case), (1, 0, 1), [0, 1], []), rel=1e-12)


def test_masks_may_differ_from_item_to_item():
    case, model = around("oa-2")
    items, target = [(0, 1, 1), (1, 1, 0)], np.array([[True, False, False], [False, True, False]])
    given = np.array([[False, True, False], [True, False, True]])
    found = model.conditional(items, target, given)
    first = bits_given(joint(case, (1, 0, 2)), items[0], [0], [1])
    second = bits_given(joint(case, (0, 2, 1)), items[1], [1], [0, 2])
    assert found.bits.tolist() == pytest.approx([first, second], rel=1e-12)


def test_missing_values_are_not_given():
    case, model = around("oa-2")
    found = model.conditional([[1.0, NAN, 1.0]], target=[2])
    assert found.bits.item() == pytest.approx(bits_given(joint(case, (0, 2, 1)), (1, 0, 1), [2], [0]), rel=1e-12)


def test_an_upscale_model_estimates_with_an_interval():
    case, model = around("base2-4-direct")
    x = (1, 3, 2)
    found = model.conditional([x], target=[0], given=[2], particles=200, repetitions=16)
    truth = bits_given(joint(case, (2, 0, 1)), x, [0], [2])
    assert 0 < found.half_width.item() < 0.5
    assert found.bits.item() == pytest.approx(truth, abs=2 * found.half_width.item())


def test_tables_are_the_conditionals_of_every_class():
    case, model = around("oa-2")
    table = model.table([1.0, NAN, NAN])
    probs = joint(case)
    for row, (order, place) in enumerate([((0, 1, 2), 1), ((0, 2, 1), 2)]):
        probs = joint(case, order)
        expected = [2 ** -bits_given(probs, [1, k, k], [place], [0]) for k in range(2)]
        assert table[row] == pytest.approx(expected, rel=1e-12)


def test_tables_of_upscale_models_come_close():
    case, model = around("base2-4-data")
    table = model.table([1, 3, 2], mask=[0], particles=500, repetitions=16)
    probs = joint(case, (1, 2, 0))
    expected = [2 ** -bits_given(probs, [k, 3, 2], [0], [1, 2]) for k in range(4)]
    assert table.shape == (1, 4)
    assert table[0] == pytest.approx(expected, abs=0.05)


def test_tables_of_several_hidden_places_are_those_of_each_alone():
    """By enumeration: each hidden place comes right after what is known, in every stage."""
    case, model = around("base2-4-direct")
    table = model.table([1.0, NAN, NAN], particles=4000, repetitions=8)
    for row, (order, place) in zip(table, [((0, 1, 2), 1), ((0, 2, 1), 2)], strict=True):
        probs = joint(case, order)
        expected = [2 ** -bits_given(probs, [1, k, k], [place], [0]) for k in range(4)]
        assert row == pytest.approx(expected, abs=0.01)


def test_each_item_has_its_context():
    first, second = CASES["oa-2"]().model.network, other_table()
    model = ardm.order_agnostic(Conditional([first, second]), 2, 3)
    alone = [ardm.order_agnostic(network, 2, 3) for network in (first, second)]
    found = model.conditional([[1, 0, 1]] * 2, target=[1], context=torch.tensor([1, 0])).bits.tolist()
    expected = [alone[label].conditional([1, 0, 1], target=[1]).bits.item() for label in (1, 0)]
    assert found == pytest.approx(expected, rel=1e-12)
    tables = [model.table([1, 0, 1], mask=[1], context=torch.tensor([label])) for label in (0, 1)]
    assert tables[1] == pytest.approx(alone[1].table([1, 0, 1], mask=[1]), rel=1e-12)
    assert abs(tables[0] - tables[1]).max() > 0.01


def test_places_are_those_of_the_text_itself():
    model = ardm.load("text")
    last = model.conditional("the cat sat", target=[10]).bits.item()
    mask = np.arange(11) == 10
    for target in ([-1], slice(-1, None), mask, mask[None], [(10, 11)]):
        assert model.conditional("the cat sat", target=target).bits.item() == last
    by_row = np.array([mask, np.arange(11) == 6])
    pair = model.conditional(["the cat sat", "the cat sat"], target=by_row).bits.tolist()
    assert pair == pytest.approx([last, model.conditional("the cat sat", target=[6]).bits.item()])
    assert model.conditional(["a cat", "the cat sat"], target=[-1]).bits[1].item() == pytest.approx(last)
    with pytest.raises(DataError, match=r"the given must lie in 0..10, got 100..100"):
        model.conditional("the cat sat", target=[10], given=[100])
    with pytest.raises(DataError, match="the target has rows for 3 items, expected 1"):
        model.conditional("the cat sat", target=np.ones((3, 11), bool))
    with pytest.raises(DataError, match=r"ranges of the target are tuples \(start, stop\)"):
        model.conditional(["the cat", "the dog"], target=[[3, 4], [5, 6]])


def test_pixels_of_an_image_may_be_named_as_in_infill():
    image, model = np.zeros((4, 4, 3), np.uint8), ardm.load("images")
    mask = np.zeros((4, 4), bool)
    mask[1:3, 0:2] = True
    assert (model.items.places(mask, (4, 4, 3), "mask") == mask[..., None]).all()
    for box in ((0, 1, 2, 3), [0, 1, 2, 3]):
        assert (model.items.places(box, (4, 4, 3), "mask") == mask[..., None]).all()
    (rows,) = model.items.rows(image.tolist())
    assert rows.shape == (4, 4, 3)


@pytest.mark.parametrize(
    ("target", "given", "error", "text"),
    [
        ([3], None, DataError, "the target must lie in 0..2, got 3..3"),
        ([True, False], None, DataError, r"the target has shape \(2,\)"),
        ([0], [0], ValueError, "the target must name at least one variable and none that is given"),
        ([], None, ValueError, "the target must name at least one variable"),
    ],
)
def test_wrong_masks_are_told_in_one_line(target, given, error, text):
    _, model = around("oa-2")
    with pytest.raises(error, match=text):
        model.conditional([0, 1, 1], target=target, given=given)


def test_texts_in_pieces_have_no_conditionals():
    with pytest.raises(UsageError, match="none longer than the model's own"):
        ardm.load("text").conditional("a" * 300, target=[0])
