import math
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ardm.orders import (
    NAMED_ORDERS,
    check_orders,
    halton,
    pseudorandom,
    random_orders,
    ranks,
    raster,
    revealed,
    reverse,
    spaced,
)
from table_model import assert_follows


@given(st.sampled_from(sorted(NAMED_ORDERS)), st.integers(1, 70))
def test_named_orders_are_permutations(name, num_variables):
    order = NAMED_ORDERS[name](num_variables)
    assert sorted(order.tolist()) == list(range(num_variables))


def test_raster_and_reverse():
    assert raster(4).tolist() == [0, 1, 2, 3]
    assert reverse(4).tolist() == [3, 2, 1, 0]


def test_spaced_takes_every_stride_th():
    assert spaced(7, 3).tolist() == [0, 3, 6, 1, 4, 2, 5]
    assert spaced(9).tolist() == spaced(9, 3).tolist()
    assert spaced(5, 1).tolist() == raster(5).tolist()


@pytest.mark.parametrize("stride", [-1, 0, 8])
def test_spaced_rejects_strides_out_of_range(stride):
    with pytest.raises(ValueError, match=rf"must lie in 1\.\.7, got {stride}"):
        spaced(7, stride)


def radical_inverse(index):
    """The binary digits of the index mirrored about the point, as a float."""
    return sum(int(bit) / 2 ** (place + 1) for place, bit in enumerate(reversed(f"{index:b}")))


@pytest.mark.parametrize("num_variables", [1, 2, 6, 8, 31])
def test_halton_sorts_by_radical_inverse(num_variables):
    assert halton(num_variables).tolist() == sorted(range(num_variables), key=radical_inverse)


def splitmix64(x):
    """Steele et al. (2014), in Python's integers."""
    z = (x + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@given(st.integers(-(2**63), 2**64 - 1), st.integers(1, 50))
def test_pseudorandom_sorts_by_splitmix64(seed, num_variables):
    start = splitmix64(seed % 2**64)
    expected = sorted(range(num_variables), key=lambda index: splitmix64((start + index) % 2**64))
    assert pseudorandom(num_variables, seed).tolist() == expected


def test_pseudorandom_never_changes():
    assert splitmix64(0) == 0xE220A8397B1DCDAF  # the generator's published first output
    assert pseudorandom(7).tolist() == [5, 1, 4, 2, 0, 6, 3]
    assert pseudorandom(7, seed=1).tolist() != pseudorandom(7).tolist()


def test_orders_are_checked():
    check_orders(torch.tensor([[[2, 0, 1]], [[0, 1, 2]]]), (2, 1, 3))
    with pytest.raises(ValueError, match=r"expected orders of shape \(items, stages, variables\) \(1, 1, 3\)"):
        check_orders(torch.tensor([[[2, 0, 1]], [[0, 1, 2]]]), (1, 1, 3))
    for bad in ([0, 0, 1], [1, 2, 3], [-1, 0, 1]):
        with pytest.raises(ValueError, match=r"each of 0\.\.2 exactly once"):
            check_orders(torch.tensor([[bad]]), (1, 1, 3))


def test_random_orders_are_uniform(generator):
    orders = random_orders(6000, 3, generator)
    counts = [(orders == torch.tensor(order)).all(1).sum() for order in permutations(range(3))]
    assert_follows(torch.stack(counts), [1 / 6] * 6)


def test_random_orders_follow_the_generator():
    first, again, other = (random_orders(5, 9, torch.Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_ranks_invert_orders(shape, generator):
    num_orders = math.prod(shape)
    order = random_orders(num_orders, 5, generator).view(*shape, 5)
    assert torch.equal(ranks(order).gather(-1, order), torch.arange(5).expand_as(order))
    assert torch.equal(ranks(ranks(order)), order)


def test_revealed_are_the_first_of_the_order():
    rank = ranks(torch.tensor([[2, 0, 1], [1, 2, 0]]))
    assert revealed(rank, 1).tolist() == [[False, False, True], [False, True, False]]
    steps = torch.tensor([0, 2])
    assert revealed(rank, steps).tolist() == [[False, False, False], [False, True, True]]
    assert revealed(rank, 3).all()
