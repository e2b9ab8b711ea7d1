"""Orders: the sequence in which variables are revealed, and the mask at each step.

Notation (the whole package)
    shape   of an item: (D,) for text and audio, (height, width, channels) for images
    D       number of variables of an item, numbered row by row, pixel by pixel, channel by channel
    order   a permutation sigma: order[t] is the variable revealed at step t, t = 0..D-1
    rank    its inverse: rank[d] is the step at which variable d is revealed
    t       the number of variables already revealed, 0..D-1; the paper's t is ours + 1
    mask    True where a variable is revealed (the paper's m): rank < t

Deterministic orders are NumPy arrays that depend on integers alone, so that they are the same on every
machine. Uniformly random orders for training and estimation come from a `torch.Generator`.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt64
from torch import Tensor

from ardm.names import Shape

Order = Int[np.ndarray, "D"]


def raster(shape: Shape) -> Order:
    """The order 0, 1, ..., D-1: left to right.

    >>> from ardm.orders import raster
    >>> raster((1, 2, 3)).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    return np.arange(_num_variables(shape))


def reverse(shape: Shape) -> Order:
    """The order D-1, ..., 1, 0: right to left.

    >>> from ardm.orders import reverse
    >>> reverse((4,)).tolist()
    [3, 2, 1, 0]
    """
    return np.arange(_num_variables(shape))[::-1].copy()


def spaced(shape: Shape, stride: int | None = None) -> Order:
    """Every stride-th variable from the first, then from the second, and so on: 0, k, 2k, ..., 1, k+1, ...

    In an image the pixels a stride apart on both axes form a lattice; the lattices follow each other in the order
    of their offsets (row, column), each channel by channel. Members of a group that is revealed in one call
    lie `stride` apart. The default, for each axis, is about the square root of its size.

    >>> from ardm.orders import spaced
    >>> spaced((7,), 3).tolist()
    [0, 3, 6, 1, 4, 2, 5]
    """
    num_variables = _num_variables(shape)
    longest = max(shape[:2])
    if stride is not None and not 1 <= stride <= longest:
        raise ValueError(f"the stride of a spaced order must lie in 1..{longest}, got {stride}")
    strides = [round(size**0.5) if stride is None else stride for size in shape[:2]] + [*shape[2:]]
    axes = np.unravel_index(np.arange(num_variables), shape)
    offsets = [axis % step for axis, step in zip(axes, strides, strict=True)]  # a channel is its own offset
    return np.lexsort(offsets[::-1])  # sorts by the last key first, and stably, so equals stay in raster order


def strands(num_variables: int, length: int) -> Order:
    """The order of strands of k = `length` neighbouring variables that grow side by side: 0, k, 2k, ..., 1, k+1, ...

    With k calls, each adds one variable to every strand (see `schedule.in_strands`).
    """
    return spaced((num_variables,), length)


def halton(shape: Shape) -> Order:
    """An order whose next variable lies far from all before it, by radical inverses (Halton, 1960).

    Variables on a line are sorted by their base-2 radical inverse (van der Corput). Those of an image are listed by
    their first visit from the Halton sequence in bases 2, 3 and 5: point n lies in the cell
    floor(size * inverse(n)) of each axis.

    >>> from ardm.orders import halton
    >>> halton((8,)).tolist()
    [0, 4, 2, 6, 1, 5, 3, 7]
    """
    num_variables = _num_variables(shape)
    if len(shape) == 1:
        power = 1 << (num_variables - 1).bit_length()
        return np.argsort(_scaled_inverses(num_variables, 2, power), kind="stable")
    axes = list(zip((2, 3, 5), shape, strict=True))
    num_points = math.prod(_period(base, size) for base, size in axes)
    cells = np.ravel_multi_index(tuple(_scaled_inverses(num_points, base, size) for base, size in axes), shape)
    _, first_visits = np.unique(cells, return_index=True)
    return cells[np.sort(first_visits)]


def pseudorandom(shape: Shape, seed: int = 0) -> Order:
    """A fixed random-looking order: the variables sorted by the SplitMix64 hash of (seed, index).

    Defined by 64-bit integer arithmetic alone, so it never changes with a library's version.

    >>> from ardm.orders import pseudorandom
    >>> pseudorandom((6,), seed=1).tolist()
    [0, 5, 1, 3, 2, 4]
    """
    start = np.uint64(_splitmix64(np.array([seed & (2**64 - 1)], np.uint64))[0])
    return np.argsort(_splitmix64(start + np.arange(_num_variables(shape), dtype=np.uint64)), kind="stable")


def _num_variables(shape: Shape) -> int:
    if len(shape) not in (1, 3) or min(shape) < 1:
        raise ValueError(f"an item has shape (D,) or (height, width, channels), each at least 1; got {shape}")
    return math.prod(shape)


def _scaled_inverses(num_points: int, base: int, size: int) -> Int[np.ndarray, "N"]:
    """floor(size * inverse(n)) for n = 0..N-1; the inverse of ...d2 d1 d0 in digits of the base is 0.d0 d1 d2...

    Horner's rule from the last digit on. As size * digit is whole, the floor of each quotient loses nothing, and no
    value reaches size * base.
    """
    points = np.arange(num_points)
    scaled, place = np.zeros_like(points), 1
    while place * base < num_points:
        place *= base
    while place:
        scaled = (size * (points // place % base) + scaled) // base
        place //= base
    return scaled


def _period(base: int, size: int) -> int:
    """The least power q of the base such that each of `size` equal cells of [0, 1) holds a whole [a/q, (a+1)/q).

    n modulo q decides which of these intervals an inverse lies in. The q of several bases are coprime, so as many
    points as their product meet every combination, and so every cell. q is below 2 * base * size.
    """
    q = 1  # in units of 1/q a cell is q/size long, and the next whole number is up to 1 - gcd/size from its start
    while q < 2 * size - math.gcd(q, size):
        q *= base
    return q


def _splitmix64(x: UInt64[np.ndarray, "N"]) -> UInt64[np.ndarray, "N"]:
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


MIN_STRAND, MAX_STRAND = 10, 250
"""The shortest and longest strands in training, the range of calls per stage that items are coded with."""

NAMED_ORDERS: dict[str, Callable[[Shape], Order]] = {
    "raster": raster,
    "reverse": reverse,
    "spaced": spaced,
    "halton": halton,
    "pseudorandom": pseudorandom,
}
"""The orders that need only a shape; the command line adds `random`, a fresh order for each item."""


def check_orders(orders: Int[Tensor, "..."], shape: tuple[int, int, int]) -> None:
    """Raise a ValueError unless the orders have shape (N, S, D) and each row is a permutation of 0..D-1."""
    if tuple(orders.shape) != shape:
        raise ValueError(f"expected orders of shape (items, stages, variables) {shape}, got {tuple(orders.shape)}")
    if not (orders.sort(-1).values == torch.arange(shape[-1], device=orders.device)).all():
        raise ValueError(f"every order must hold each of 0..{shape[-1] - 1} exactly once")


def random_orders(num_items: int, num_variables: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
    """Independent uniform orders, one per row, on the generator's device.

    The inverse of a uniform permutation is uniform too, so the rows serve as ranks as well.
    """
    keys = torch.rand(num_items, num_variables, generator=generator, device=generator.device, dtype=torch.float64)
    return keys.argsort(dim=1)


def strand_ranks(num_variables: int, lengths: Int[Tensor, "B"]) -> Int[Tensor, "B D"]:
    """The ranks of orders in strands, one strand length per row."""
    lengths = lengths[:, None]
    index = torch.arange(num_variables, device=lengths.device)
    offset, num_whole, rest = index % lengths, num_variables // lengths, num_variables % lengths
    return offset * num_whole + torch.minimum(offset, rest) + index // lengths


def random_strand_ranks(num_items: int, num_variables: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
    """The ranks of orders in strands of random lengths, whose logarithms are uniform and which are at most D."""
    least, most = min(MIN_STRAND, num_variables), min(MAX_STRAND, num_variables)
    power = torch.rand(num_items, generator=generator, device=generator.device, dtype=torch.float64)
    lengths = least * ((most + 1) / least) ** power
    return strand_ranks(num_variables, lengths.long().clamp(max=most))


def random_stage_orders(
    num_items: int, num_stages: int, num_variables: int, generator: torch.Generator
) -> Int[Tensor, "B S D"]:
    """A fresh uniform order for each item and stage (Alg. 3).

    >>> import ardm, torch
    >>> ardm.random_stage_orders(2, 1, 4, torch.Generator()).sort(-1).values.tolist()
    [[[0, 1, 2, 3]], [[0, 1, 2, 3]]]
    """
    return random_orders(num_items * num_stages, num_variables, generator).view(num_items, num_stages, num_variables)


def given_first(orders: Int[Tensor, "B S D"], given: Bool[Tensor, "B D"]) -> Int[Tensor, "B S D"]:
    """The orders with the given variables moved to the front; each part keeps its sequence.

    >>> import ardm, torch
    >>> ardm.given_first(torch.tensor([[[2, 0, 3, 1]]]), torch.tensor([[True, True, False, False]])).tolist()
    [[[0, 1, 2, 3]]]
    """
    hidden = (~given)[:, None].expand_as(orders).gather(-1, orders)
    return orders.gather(-1, hidden.long().argsort(dim=-1, stable=True))


def ranks(order: Int[Tensor, "*B D"]) -> Int[Tensor, "*B D"]:
    """The step at which each variable is revealed: rank[order[t]] = t."""
    steps = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, steps)


def revealed(rank: Int[Tensor, "*B D"], step: Int[Tensor, "*B"] | int) -> Bool[Tensor, "*B D"]:
    """The mask at a step: True for the `step` variables that are already revealed."""
    if isinstance(step, Tensor):
        step = step[..., None]
    return rank < step
