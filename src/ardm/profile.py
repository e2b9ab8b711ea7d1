"""Loss profiles: the bits of each step as they are measured, and made monotone for the planner.

The expected loss components do not increase with the step: a variable is no harder to predict when more is known
(the paper's monotonicity). Measured ones are noisy, and a planner that takes noise for structure promises bits it
cannot keep. There are three remedies, each applied to every stage separately:

    sort       descending order (the paper's appendix). Keeps the values, exaggerates the slope.
    isotonic   the least-squares monotone fit. Unbiased in the mean, but its flat blocks look free to the planner.
    smooth     a smoothing spline on the grid (Whittaker, 1923): least squares plus a penalty on second differences,
               the penalty chosen by cross-validation; then sorted. The best of the three on measured profiles.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import no_type_check

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from ardm.names import Smoothing
from ardm.objective import StepLoss
from ardm.runtime.jit import compiled

LossArray = Float[np.ndarray, "S D"] | Float[np.ndarray, "D"]
Counts = Real[np.ndarray, "S D"] | Real[np.ndarray, "D"]

STIFFNESSES = 10.0 ** np.arange(0, 11.5, 0.5)
"""Penalties tried on second differences, relative to the mean weight of a loss; the last bends over ~600 steps."""
MIN_STEPS_TO_SMOOTH = 8
"""Minimum number of visited steps to smooth; fewer cannot choose a penalty, so the fit is then isotonic."""
FIXED_POINT = 2.0**32
"""Fixed-point units per bit in which losses are summed."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The loss components L_{s,t} in bits and the number of observations behind each (0: not visited).

    >>> from ardm.profile import Profile
    >>> Profile.empty(num_stages=1, num_variables=2).observed_bits().tolist()
    [[nan, nan]]
    """

    bits: Float[Tensor, "S D"]
    counts: Int[Tensor, "S D"]

    @classmethod
    def empty(cls, num_stages: int, num_variables: int, device: torch.device | str = "cpu") -> "Profile":
        """A profile with no observations."""
        shape = (num_stages, num_variables)
        return cls(
            bits=torch.zeros(shape, dtype=torch.float64, device=device),
            counts=torch.zeros(shape, dtype=torch.int64, device=device),
        )

    @classmethod
    def of_bits(cls, bits: Float[np.ndarray, "S D"]) -> "Profile":
        """A profile of given components, each counted as one observation; NaN where there is none."""
        found = torch.from_numpy(np.array(bits, dtype=np.float64))
        return cls(bits=found.nan_to_num(0.0), counts=(~found.isnan()).long())

    def observed_bits(self) -> Float[Tensor, "S D"]:
        """The components, NaN where there is no observation."""
        return self.bits.masked_fill(self.counts == 0, math.nan)

    def updated(self, loss: StepLoss, momentum: float | None = None) -> "Profile":
        """The profile with a batch of step losses added.

        With a momentum each visited component is an exponential moving average of batch means, set by its first
        visit; without, every observation counts alike.
        """
        index, bits = loss.stage * self.bits.shape[1] + loss.t, loss.nats.detach().double() / math.log(2)
        if momentum is None:
            return self.observed(index, bits)
        new, hits = self._batch_means(index, bits)
        counts = self.counts + hits
        rate = torch.full_like(self.bits, 1 - momentum).masked_fill(self.counts == 0, 1.0)
        weight = rate * (hits > 0)
        return type(self)(bits=self.bits + weight * (new - self.bits), counts=counts)

    def observed(self, index: Int[Tensor, "B"], bits: Float[Tensor, "B"]) -> "Profile":
        """The profile with losses in bits added, each at the number of its component, counted stage by stage.

        >>> import torch
        >>> from ardm.profile import Profile
        >>> Profile.empty(1, 2).observed(torch.tensor([0, 0]), torch.tensor([2.0, 4.0])).observed_bits().tolist()
        [[3.0, nan]]
        """
        new, hits = self._batch_means(index, bits.double())
        counts = self.counts + hits
        weight = hits.double() / counts.clamp(min=1)
        return type(self)(bits=self.bits + weight * (new - self.bits), counts=counts)

    @classmethod
    def joined(cls, profiles: Sequence["Profile"]) -> "Profile":
        """The profile of items of several sizes, by the share of revealed variables, in the steps of the largest.

        Each step of a smaller profile is spread over the steps that it covers, and each loss counts by the size of its
        item, so that the mean of the profile is that of all variables.

        >>> import torch
        >>> from ardm.profile import Profile
        >>> of = lambda *bits: Profile(bits=torch.tensor([bits]).double(), counts=torch.ones(1, len(bits)).long())
        >>> Profile.joined([of(3.0, 1.0), of(5.0, 4.0, 2.0, 2.0)]).bits.tolist()
        [[4.6, 3.8, 1.8, 1.8]]
        """
        if len(profiles) == 1:
            return profiles[0]
        largest = max(profiles, key=lambda profile: profile.bits.shape[1])
        (num_stages, size), device = largest.bits.shape, largest.bits.device
        sums, weights, hits = (torch.zeros(num_stages, size, dtype=torch.float64, device=device) for _ in range(3))
        for profile in profiles:
            own = profile.bits.shape[1]
            step = (2 * torch.arange(size, device=device) + 1) * own // (2 * size)
            counts = profile.counts[:, step] * (own / size)
            sums += own * counts * profile.bits[:, step]
            weights += own * counts
            hits += counts
        return cls(bits=sums / weights.clamp(min=1e-12), counts=hits.ceil().long())

    def _batch_means(
        self, index: Int[Tensor, "B"], bits: Float[Tensor, "B"]
    ) -> tuple[Float[Tensor, "S D"], Int[Tensor, "S D"]]:
        """Mean loss in bits and number of items for each component.

        Sums are taken in fixed point: adding integers gives the same value in any order, on any device.
        """
        fixed = (bits * FIXED_POINT).round().long()
        empty = torch.zeros(self.bits.numel(), dtype=torch.int64, device=index.device)
        hits = empty.index_add(0, index, torch.ones_like(index))
        sums = empty.index_add(0, index, fixed).double() / FIXED_POINT
        means = sums / hits.clamp(min=1)
        return means.view_as(self.bits), hits.view_as(self.counts)


def monotone(losses: LossArray, counts: Counts | None = None, method: Smoothing = "sort") -> LossArray:
    """The losses made non-increasing in each stage, in the same shape.

    Fits are weighted by `counts`, the observations behind each loss. Losses that are NaN or have count 0 were
    never visited: "smooth" bridges them and holds its fit constant beyond the ends; the other methods interpolate
    linearly between visited neighbours, constant beyond the ends ("sort" before sorting, "isotonic" after fitting).

    >>> import ardm, numpy as np
    >>> ardm.monotone(np.array([5.0, 2.0, 3.0])).tolist()
    [5.0, 3.0, 2.0]
    """
    profile = as_stages(losses)
    weights = np.ones_like(profile) if counts is None else as_stages(counts)
    if weights.shape != profile.shape:
        raise ValueError(f"expected counts of shape {profile.shape}, got {weights.shape}; one for each loss")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError(f"counts must be finite and not negative, got {weights.min()}; use 0 for unvisited")
    weights = np.where(np.isnan(profile), 0.0, weights)
    check_losses(np.where(weights > 0, profile, 0.0))
    if not weights.any(axis=1).all():
        raise ValueError("expected a visited step in every stage, but one has none; observe more losses")
    fits = {"sort": _sorted_fit, "isotonic": _isotonic_fit, "smooth": _smooth_fit}
    if method not in fits:
        raise ValueError(f"method must be one of {', '.join(fits)}, got {method!r}; the paper sorts")
    fit = fits[method]
    return np.stack([fit(*stage) for stage in zip(profile, weights, strict=True)]).reshape(losses.shape)


def as_stages(values: LossArray | Counts) -> Float[np.ndarray, "S D"]:
    """A float64 copy with a row for each stage."""
    stages = np.array(values, dtype=np.float64, order="C", ndmin=2)  # numba would recompile for other layouts
    if stages.ndim != 2 or stages.size == 0:
        raise ValueError(f"expected shape (D,) or (S, D), got {np.shape(values)}; give each stage a row")
    return stages


def check_losses(profile: Float[np.ndarray, "S D"]) -> Float[np.ndarray, "S D"]:
    """The losses unchanged; a ValueError unless all of them are finite and not negative."""
    if not (np.isfinite(profile) & (profile >= 0)).all():
        interval = f"{profile.min()} to {profile.max()}"
        raise ValueError(f"losses must be finite and not negative, got {interval}; monotone() fills NaN")
    return profile


def _interpolate(values: np.ndarray, visited: np.ndarray) -> np.ndarray:
    return np.asarray(np.interp(np.arange(values.size), np.flatnonzero(visited), values[visited]))


def _sorted_fit(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.sort(_interpolate(values, weights > 0))[::-1]


def _isotonic_fit(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    fitted, visited = values.copy(), weights > 0
    fitted[visited] = _pool_adjacent_violators(values[visited], weights[visited])
    return _interpolate(fitted, visited)


@compiled()
@no_type_check
def _pool_adjacent_violators(values, weights):
    """The non-increasing sequence nearest to `values` in weighted squares, in O(D)."""
    means, masses, sizes = np.empty_like(values), np.empty_like(values), np.empty(values.size, np.int64)
    blocks = 0
    for value, weight in zip(values, weights):  # noqa: B905 (numba does not support `strict`)
        mean, mass, size = value, weight, 1
        while blocks > 0 and means[blocks - 1] < mean:
            blocks -= 1
            mass += masses[blocks]
            mean = mean + (means[blocks] - mean) * (masses[blocks] / mass)
            size += sizes[blocks]
        means[blocks], masses[blocks], sizes[blocks] = mean, mass, size
        blocks += 1
    return np.repeat(means[:blocks], sizes[:blocks])


def _smooth_fit(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    visited = weights > 0
    if visited.sum() < MIN_STEPS_TO_SMOOTH:
        return _isotonic_fit(values, weights)
    values = np.where(visited, values, 0.0)
    stiffnesses = STIFFNESSES * weights[visited].mean()
    errors = [_validation_error(values, weights, stiffness) for stiffness in stiffnesses]
    fitted = whittaker(values, weights, float(stiffnesses[np.argmin(errors)]))
    first, last = np.flatnonzero(visited)[[0, -1]]
    within = np.clip(np.arange(values.size), first, last)  # constant beyond the ends: a line would leave the range
    return np.sort(fitted[within].clip(values[visited].min(), values[visited].max()))[::-1]


def _validation_error(values: np.ndarray, weights: np.ndarray, stiffness: float) -> float:
    """The squared error of two-fold cross-validation: fits to every other visited step, scored at the others."""
    odd = np.cumsum(weights > 0) % 2 == 1
    error = 0.0
    for held_out in (odd, ~odd):
        fitted = whittaker(values, np.where(held_out, 0.0, weights), stiffness)
        error += float((np.where(held_out, weights, 0.0) * (values - fitted) ** 2).sum())
    return error


@compiled()
@no_type_check
def whittaker(values, weights, stiffness):
    """The z that minimises sum w (y - z)^2 + stiffness * sum (second differences of z)^2, in O(D).

    Solves the pentadiagonal system (W + stiffness * P) z = W y by an LDL factorisation, where P is the penalty's
    matrix. At least two weights must be positive.
    """
    size = values.size
    pivot, below, below_two = np.zeros(size + 2), np.zeros(size + 2), np.zeros(size + 2)
    solution = np.zeros(size + 2)
    for row in range(size):  # entries are stored two places late, so that the first rows see zeros before them
        diagonal, next_one, next_two = _penalty_row(row, size)
        i = row + 2
        pivot[i] = weights[row] + stiffness * diagonal
        pivot[i] -= below[i - 1] ** 2 * pivot[i - 1] + below_two[i - 2] ** 2 * pivot[i - 2]
        below[i] = (stiffness * next_one - below_two[i - 1] * pivot[i - 1] * below[i - 1]) / pivot[i]
        below_two[i] = stiffness * next_two / pivot[i]
        solution[i] = weights[row] * values[row]
        solution[i] -= below[i - 1] * solution[i - 1] + below_two[i - 2] * solution[i - 2]
    for i in range(size + 1, 1, -1):
        solution[i] /= pivot[i]
        if i + 1 < size + 2:
            solution[i] -= below[i] * solution[i + 1]
        if i + 2 < size + 2:
            solution[i] -= below_two[i] * solution[i + 2]
    return solution[2:]


@compiled()
@no_type_check
def _penalty_row(row, size):
    """The entries (row, row), (row, row + 1), (row, row + 2) of the matrix of squared second differences."""
    diagonal = next_one = next_two = 0.0
    for first in range(max(0, row - 2), min(row, size - 3) + 1):  # differences that involve this row
        here = -2.0 if row - first == 1 else 1.0
        diagonal += here * here
        if row + 1 <= first + 2:
            next_one += here * (-2.0 if row + 1 - first == 1 else 1.0)
        if row + 2 <= first + 2:
            next_two += here
    return diagonal, next_one, next_two


def stretch(losses: Float[np.ndarray, "S D"], num_steps: int) -> Float[np.ndarray, "S steps"]:
    """Monotone losses for items of another size, read off at equal fractions of revealed variables."""
    return losses[:, np.arange(num_steps) * losses.shape[1] // num_steps]
