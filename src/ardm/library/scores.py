"""Scores: the bits of a user's items, from the bits of their rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from ardm.errors import ArdmError, UsageError
from ardm.library.items import Rows
from ardm.likelihood import Z_95, Bound, bound, partial_bound, passes_in_words
from ardm.model import Context
from ardm.names import ScheduleKind
from ardm.profile import Profile
from ardm.tasks.load import ModelOnDevice
from ardm.tasks.plan import make_schedule
from ardm.tasks.score import schedule_bits


@dataclass(frozen=True, kw_only=True)
class ScoreHow:
    """How items are scored."""

    order: str
    calls: int | None
    passes: int
    schedule: ScheduleKind
    seed: int
    batch_size: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Score:
    """The bits of items under a model.

    >>> import ardm
    >>> score = ardm.load("text").score(["the cat", "sat on the mat"], order="raster", calls=2)
    >>> score.bits.shape, score.estimator
    ((2,), 'exact, raster order, planned schedule of 2 calls')
    """

    bits: Float64[np.ndarray, "N"]
    """The bits of each item; for a bound, an unbiased estimate of each."""
    num_variables: Int[np.ndarray, "N"]
    """The variables of each item that were scored."""
    half_width: float
    """Half the 95% interval of `bits_per_dim` over the items; infinite for a single one."""
    draws_half_width: float
    """Half the 95% interval over the random draws of a bound, for these very items; 0 for exact bits."""
    unit: str
    is_exact: bool
    """True for the bits of one distribution, False for a bound on average over orders."""
    estimator: str
    """The method of estimation, in words."""
    profile: Profile | None = None
    """The loss profile that a bound measured on whole items."""

    @property
    def bits_per_dim(self) -> float:
        """Bits of all items over their variables: bits per character, sub-pixel or sample."""
        return float(self.bits.sum() / self.num_variables.sum())

    @property
    def nats(self) -> Float64[np.ndarray, "N"]:
        """The negative log-likelihood of each item in nats."""
        return self.bits * math.log(2)

    def __str__(self) -> str:
        """The mean with its interval, the unit and the method."""
        half = self.half_width if math.isfinite(self.half_width) else self.draws_half_width
        interval = f" ± {half:.4f}" if 0 < half < math.inf else ""
        count = len(self.bits)
        return f"{self.bits_per_dim:.4f}{interval} {self.unit}, {count} item{'s' * (count > 1)}; {self.estimator}"


def score_rows(parts: Sequence[tuple[ModelOnDevice, Rows]], how: ScoreHow, context: Context, unit: str) -> Score:
    """The score of rows, of one or several shapes, each with the model for its shape."""
    number = 1 + max(int(rows.owner.max()) for _, rows in parts)
    bits, variables, draws = np.zeros(number), np.zeros(number, np.int64), 0.0
    profile = None
    for model, rows in parts:
        own = None if context is None else context[rows.owner.to(context.device)]
        row_bits, row_draws, profile = _bits_of(model, rows, how, own)
        np.add.at(bits, rows.owner.numpy(), row_bits.cpu().numpy())
        np.add.at(variables, rows.owner.numpy(), rows.num_scored.numpy())
        draws += row_draws
    if np.isnan(bits).any():
        raise ArdmError("the bits are not numbers: the network's outputs are not finite; `ardm.check` tells more")
    is_exact = how.order != "random"
    return Score(
        bits=bits,
        num_variables=variables,
        half_width=ratio_half_width(bits, variables),
        draws_half_width=Z_95 * math.sqrt(draws) / variables.sum(),
        unit=unit,
        is_exact=is_exact,
        estimator=_estimator(how),
        profile=profile if len(parts) == 1 else None,
    )


def ratio_half_width(bits: Float64[np.ndarray, "N"], variables: Int[np.ndarray, "N"]) -> float:
    """Half the 95% interval of the mean bits per variable over items, some of which may be longer than others."""
    if len(bits) < 2:
        return math.inf
    residual = bits - bits.sum() / variables.sum() * variables
    return float(Z_95 * residual.std(ddof=1) * math.sqrt(len(bits)) / variables.sum())


def _estimator(how: ScoreHow) -> str:
    if how.order == "random" and how.calls is None:
        return f"bound over random orders, single steps, {passes_in_words(how.passes)}"
    name = "bound over random orders" if how.order == "random" else f"exact, {how.order} order"
    if how.calls is None:
        return f"{name}, one variable per call"
    return f"{name}, {how.schedule} schedule of {how.calls} calls"


def _bits_of(
    model: ModelOnDevice, rows: Rows, how: ScoreHow, context: Context
) -> tuple[Float64[Tensor, "R"], float, Profile | None]:
    """The bits of each row, the variance of their sum over random draws, and the measured profile."""
    runtime, x = model.runtime, rows.x.to(model.runtime.device)
    generator = torch.Generator(runtime.device).manual_seed(how.seed)
    with runtime.autocast():
        if how.order == "random" and how.calls is None:
            return _bound(model, x, rows, how, context, generator)
        bits = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        for chosen, first, last in _groups(rows):
            own = None if context is None else context[chosen]
            bits[chosen] = _whole_bits(model, x[chosen], rows, chosen, (first, last), how, own, generator)
    return bits, 0.0, None


def _bound(
    model: ModelOnDevice, x: Tensor, rows: Rows, how: ScoreHow, context: Context, generator: torch.Generator
) -> tuple[Float64[Tensor, "R"], float, Profile | None]:
    if rows.scored is None:
        whole: Bound = bound(
            model.ardm, x, generator, context=context, num_passes=how.passes, batch_size=how.batch_size
        )
        spread = whole.draws_half_width / Z_95 * x.numel()
        return whole.item_bits, spread**2, whole.profile
    bits = partial_bound(
        model.ardm,
        x,
        rows.scored.to(x.device),
        given_of(rows).to(x.device),
        generator,
        context=context,
        num_passes=how.passes,
        batch_size=how.batch_size,
    )
    if how.passes < 2:
        return bits[0], math.inf, None
    variance = bits.diff(dim=0).square().sum(0) / (2 * (how.passes - 1) * how.passes)  # passes are sorted by step
    return bits.mean(0), float(variance.sum()), None


def given_of(rows: Rows) -> Bool[Tensor, "R D"]:
    """The given variables of rows."""
    return torch.zeros_like(rows.x, dtype=torch.bool) if rows.given is None else rows.given


def _groups(rows: Rows) -> list[tuple[Int[Tensor, "M"], int, int]]:
    """Rows with equally many given and scored variables: their numbers, the first step and the last."""
    first = given_of(rows).sum(1)
    pairs = torch.stack([first, first + rows.num_scored], dim=1)
    kinds, member = pairs.unique(dim=0, return_inverse=True)
    return [((member == kind).nonzero()[:, 0], *pair) for kind, pair in enumerate(kinds.tolist())]


def _whole_bits(
    model: ModelOnDevice,
    x: Tensor,
    rows: Rows,
    chosen: Tensor,
    steps: tuple[int, int],
    how: ScoreHow,
    context: Context,
    generator: torch.Generator,
) -> Float64[Tensor, "M"]:
    """The bits of whole schedules for rows whose scored variables take these steps."""
    ardm = model.ardm
    is_whole = steps == (0, ardm.num_variables)
    if ardm.num_stages > 1 and not is_whole:
        raise UsageError("an upscale model scores whole items only; `model.conditional` takes parts of them")
    schedule = make_schedule(model, how.calls, how.schedule, *steps)
    if how.order == "strands" and not is_whole:
        raise UsageError("strands need whole items; choose another order for shorter ones")
    part: Any = {}
    if not is_whole:
        scored = torch.ones_like(rows.x, dtype=torch.bool) if rows.scored is None else rows.scored
        part = {"scored": scored[chosen].to(x.device), "given": given_of(rows)[chosen].to(x.device)}
    options: Any = {"context": context, "batch_size": how.batch_size}
    return schedule_bits(ardm, x, schedule, how.order, generator, **part, **options)
