"""Orders in which variables are revealed, and the masks that follow from an order and a step.

Notation (the whole package)
    D       number of variables of an item
    order   a permutation sigma: order[t] is the variable revealed at step t, t = 0..D-1
    rank    its inverse: rank[d] is the step at which variable d is revealed
    t       the number of variables already revealed, 0..D-1; the paper's t is ours + 1
    mask    True where a variable is revealed (the paper's m): rank < t

Deterministic orders are NumPy arrays that depend on integers alone, so that they are the same on every
machine. Uniformly random orders for training and estimation come from a `torch.Generator`.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt64
from torch import Tensor

Order = Int[np.ndarray, "D"]


def raster(num_variables: int) -> Order:
    """The order 0, 1, ..., D-1: left to right."""
    return np.arange(num_variables)


def reverse(num_variables: int) -> Order:
    """The order D-1, ..., 1, 0: right to left."""
    return np.arange(num_variables)[::-1].copy()


def spaced(num_variables: int, stride: int | None = None) -> Order:
    """Every stride-th variable, then the same shifted by one, and so on: 0, k, 2k, ..., 1, k+1, ...

    Members of a group that is revealed in one call lie `stride` apart. The default is about sqrt(D).
    """
    stride = max(1, round(num_variables**0.5)) if stride is None else stride
    if not 1 <= stride <= num_variables:
        raise ValueError(f"the stride of a spaced order must lie in 1..{num_variables}, got {stride}")
    return np.concatenate([np.arange(first, num_variables, stride) for first in range(stride)])


def halton(num_variables: int) -> Order:
    """The variables by their base-2 radical inverse (van der Corput): each new one far from those before."""
    num_bits = max(1, (num_variables - 1).bit_length())
    indices = np.arange(num_variables)
    inverse = np.zeros(num_variables, np.int64)
    for bit in range(num_bits):
        inverse |= ((indices >> bit) & 1) << (num_bits - 1 - bit)
    return np.argsort(inverse, kind="stable")


def pseudorandom(num_variables: int, seed: int = 0) -> Order:
    """A fixed random-looking order: the variables sorted by the SplitMix64 hash of (seed, index).

    Defined by 64-bit integer arithmetic alone, so it never changes with a library's version.
    """
    start = np.uint64(_splitmix64(np.array([seed & (2**64 - 1)], np.uint64))[0])
    return np.argsort(_splitmix64(start + np.arange(num_variables, dtype=np.uint64)), kind="stable")


def _splitmix64(x: UInt64[np.ndarray, "N"]) -> UInt64[np.ndarray, "N"]:
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


NAMED_ORDERS: dict[str, Callable[[int], Order]] = {
    "raster": raster,
    "reverse": reverse,
    "spaced": spaced,
    "halton": halton,
    "pseudorandom": pseudorandom,
}
"""Orders that a name alone determines (the command line adds `random`: a fresh one for each item)."""


def check_orders(orders: Int[Tensor, "..."], shape: tuple[int, int, int]) -> None:
    """A ValueError unless the orders have shape (N, S, D) and each row is a permutation of 0..D-1."""
    if tuple(orders.shape) != shape:
        raise ValueError(f"expected orders of shape (items, stages, variables) {shape}, got {tuple(orders.shape)}")
    if not (orders.sort(-1).values == torch.arange(shape[-1], device=orders.device)).all():
        raise ValueError(f"every order must hold each of 0..{shape[-1] - 1} exactly once")


def random_orders(num_items: int, num_variables: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
    """Independent uniform orders, one a row, on the generator's device.

    The inverse of a uniform permutation is uniform too, so the rows serve as ranks as well.
    """
    keys = torch.rand(num_items, num_variables, generator=generator, device=generator.device, dtype=torch.float64)
    return keys.argsort(dim=1)


def random_stage_orders(
    num_items: int, num_stages: int, num_variables: int, generator: torch.Generator
) -> Int[Tensor, "B S D"]:
    """A fresh uniform order for each item and stage (Alg. 3)."""
    return random_orders(num_items * num_stages, num_variables, generator).view(num_items, num_stages, num_variables)


def ranks(order: Int[Tensor, "*B D"]) -> Int[Tensor, "*B D"]:
    """The step at which each variable is revealed: rank[order[t]] = t."""
    steps = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, steps)


def revealed(rank: Int[Tensor, "*B D"], step: Int[Tensor, "*B"] | int) -> Bool[Tensor, "*B D"]:
    """The mask at a step: True for the `step` variables that are already revealed."""
    if isinstance(step, Tensor):
        step = step[..., None]
    return rank < step
