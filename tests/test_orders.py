import math
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from table_model import assert_follows

from ardm.orders import (
    NAMED_ORDERS,
    check_orders,
    halton,
    pseudorandom,
    random_orders,
    random_strand_ranks,
    ranks,
    raster,
    revealed,
    reverse,
    spaced,
    strand_ranks,
    strands,
)

SIZES = st.integers(1, 9)
SHAPES = st.tuples(st.integers(1, 70)) | st.tuples(SIZES, SIZES, st.integers(1, 4))
IMAGE = (32, 32, 3)


@given(st.sampled_from(sorted(NAMED_ORDERS)), SHAPES)
def test_named_orders_are_permutations(name, shape):
    order = NAMED_ORDERS[name](shape)
    assert sorted(order.tolist()) == list(range(math.prod(shape)))


@pytest.mark.parametrize("name", NAMED_ORDERS)
@pytest.mark.parametrize("shape", [(), (0,), (4, 4), (4, 0, 3), (4, -4, -3), (1, 4, 4, 3)])
def test_named_orders_reject_other_shapes(name, shape):
    with pytest.raises(ValueError, match=r"shape \(D,\) or \(height, width, channels\), each at least 1; got \("):
        NAMED_ORDERS[name](shape)


def test_raster_and_reverse():
    assert raster((4,)).tolist() == raster((2, 1, 2)).tolist() == [0, 1, 2, 3]
    assert reverse((4,)).tolist() == reverse((2, 1, 2)).tolist() == [3, 2, 1, 0]


def test_spaced_takes_every_stride_th():
    assert spaced((7,), 3).tolist() == [0, 3, 6, 1, 4, 2, 5]
    assert spaced((9,)).tolist() == spaced((9,), 3).tolist()
    assert spaced((5,), 1).tolist() == raster((5,)).tolist()


@pytest.mark.parametrize("num_variables", range(1, 50))
def test_spaced_has_a_stride_of_about_the_root(num_variables):
    stride = min(range(1, num_variables + 1), key=lambda stride: abs(stride - num_variables**0.5))
    expected = [index for first in range(stride) for index in range(first, num_variables, stride)]
    assert spaced((num_variables,)).tolist() == expected


def spaced_pixels(shape, stride_y, stride_x):
    """Lattice by lattice, channel by channel, pixel by pixel."""
    height, width, channels = shape
    order = []
    for dy, dx in product(range(stride_y), range(stride_x)):
        for channel in range(channels):
            for y, x in product(range(dy, height, stride_y), range(dx, width, stride_x)):
                order.append((y * width + x) * channels + channel)
    return order


@pytest.mark.parametrize("shape", [(4, 6, 3), (5, 7, 1), (1, 7, 2), (7, 1, 3)])
@pytest.mark.parametrize("stride", [1, 2, 3, 5])
def test_spaced_takes_lattices_of_pixels(shape, stride):
    assert spaced(shape, stride).tolist() == spaced_pixels(shape, stride, stride)


@pytest.mark.parametrize(("shape", "strides"), [((9, 9, 3), (3, 3)), ((4, 16, 1), (2, 4)), ((1, 9, 2), (1, 3))])
def test_spaced_has_a_default_for_each_axis(shape, strides):
    assert spaced(shape).tolist() == spaced_pixels(shape, *strides)


@pytest.mark.parametrize("stride", [-1, 0, 8])
@pytest.mark.parametrize("shape", [(7,), (2, 7, 30), (7, 1, 30)])
def test_spaced_rejects_strides_out_of_range(shape, stride):
    with pytest.raises(ValueError, match=rf"must lie in 1\.\.7, got {stride}"):
        spaced(shape, stride)


def radical_inverse(index, base=2):
    """The digits of the index mirrored about the point."""
    if index == 0:
        return Fraction(0)
    return (index % base + radical_inverse(index // base, base)) / base


@pytest.mark.parametrize("num_variables", [1, 2, 6, 8, 31])
def test_halton_sorts_by_radical_inverse(num_variables):
    assert halton((num_variables,)).tolist() == sorted(range(num_variables), key=radical_inverse)


def halton_visits(shape):
    """The cells of an image at the first visit of a Halton point, until none is left."""
    _, width, channels = shape
    visited, n = {}, 0
    while len(visited) < math.prod(shape):
        y, x, channel = (int(size * radical_inverse(n, base)) for size, base in zip(shape, (2, 3, 5), strict=True))
        visited[(y * width + x) * channels + channel] = None
        n += 1
    return list(visited)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (1, 1, 3), (1, 8, 1), (8, 1, 3), (4, 9, 5), (7, 5, 3), (6, 10, 4), (3, 3, 3), (16, 16, 1)]
)
def test_halton_visits_cells_of_an_image(shape):
    assert halton(shape).tolist() == halton_visits(shape)


def test_halton_never_changes():
    assert halton((11,)).tolist() == [0, 8, 4, 2, 10, 6, 1, 9, 5, 3, 7]
    assert halton(IMAGE)[:12].tolist() == [0, 1566, 832, 2314, 428, 1992, 1173, 2740, 277, 1733, 993, 2562]


def first_of_image(order, number):
    """Rows, columns and channels of the first variables in an image."""
    return np.unravel_index(order[:number], IMAGE)


def closest_squared(y, x):
    """The least squared distance between two of the pixels."""
    return min((y[i] - y[j]) ** 2 + (x[i] - x[j]) ** 2 for i, j in combinations(range(len(y)), 2))


def test_halton_spreads_over_an_image():
    y, x, _ = first_of_image(halton(IMAGE), 27)
    assert len(set(y)) == len(set(x)) == 27  # the inverses are whole multiples of 1/32 and of 1/27
    y, x, channel = first_of_image(halton(IMAGE), 48)
    assert (np.bincount(y // 2) == 3).all()  # in 48 = 3 * 16 points each sixteenth occurs thrice
    assert np.bincount(channel).tolist() == [18, 16, 14]
    assert closest_squared(y, x) == 5  # a square grid of 48 pixels has 32 * 32 / 48 = 21


def test_spaced_spreads_over_an_image():
    y, x, channel = first_of_image(spaced(IMAGE), 48)
    assert channel.tolist() == [0] * 36 + [1] * 12  # the stride is 6, so a lattice has 6 * 6 pixels
    assert closest_squared(y[:36], x[:36]) == closest_squared(y[36:], x[36:]) == 6**2


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
    assert pseudorandom((num_variables,), seed).tolist() == expected


def test_pseudorandom_never_changes():
    assert splitmix64(0) == 0xE220A8397B1DCDAF  # the generator's published first output
    assert pseudorandom((7,)).tolist() == [5, 1, 4, 2, 0, 6, 3]
    assert pseudorandom((2, 1, 3)).tolist() == pseudorandom((6,)).tolist()
    assert pseudorandom((7,), seed=1).tolist() != pseudorandom((7,)).tolist()


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


def test_ranks_of_strands_are_the_inverses_of_their_orders():
    for num_variables in (1, 7, 16, 250):
        lengths = torch.arange(1, num_variables + 1)
        orders = torch.from_numpy(np.stack([strands(num_variables, length) for length in lengths.tolist()]))
        assert torch.equal(strand_ranks(num_variables, lengths), ranks(orders))


def test_random_strands_have_lengths_with_uniform_logarithms():
    rows = random_strand_ranks(4000, 250, torch.Generator().manual_seed(0))
    lengths = (rows == 1).int().argmax(dim=1)  # where the second strand begins, or 1 for a single strand
    assert lengths[lengths > 1].min() == 10
    assert abs(((lengths > 1) & (lengths < 50)).float().mean() - math.log(5) / math.log(25.1)) < 0.03
    assert torch.equal(random_strand_ranks(3, 4, torch.Generator()), torch.arange(4).expand(3, -1))


def test_random_strands_of_long_items_have_at_most_250_variables():
    rows = random_strand_ranks(500, 16_000, torch.Generator().manual_seed(0))
    lengths = (rows == 1).int().argmax(dim=1)
    assert lengths.min() == 10
    assert 240 < lengths.max() <= 250
