"""Scores: the bits of a user's items, from the bits of their rows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from ardm.errors import ArdmError, UsageError
from ardm.library.items import Rows
from ardm.likelihood import Z_95, Estimate, bound, partial_bound, passes_in_words
from ardm.model import Context
from ardm.names import ScheduleKind
from ardm.profile import Profile
from ardm.tasks.load import ModelOnDevice
from ardm.tasks.plan import make_schedule
from ardm.tasks.score import bits_under_schedule


@dataclass(frozen=True, kw_only=True)
class ScoreHow:
    """How items are scored."""

    order: str
    calls: int | None
    passes: int
    schedule: ScheduleKind
    seed: int
    batch_size: int
    on_batch: Callable[[int], None] = lambda count: None
    """Called with the number of rows of each batch; a row is one item in one pass or in one call."""

    def num_rows(self, rows: Rows) -> int:
        """The number of rows that the network sees for items of one stage, for progress."""
        if self.order == "random" and self.calls is None:
            return self.passes * len(rows.x)
        most = int(rows.x.shape[1]) if self.calls is None else self.calls
        return int(rows.num_scored.clamp(max=most).sum())


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
    """The loss profile that a bound measured, by the share of variables that are revealed."""
    sizes: dict[str, Int[np.ndarray, "N"]] = field(default_factory=dict)
    """The size of each item in other units, such as characters and bytes."""

    @property
    def bits_per_dim(self) -> float:
        """Bits of all items over their variables: bits per character, sub-pixel or sample."""
        return float(self.bits.sum() / self.num_variables.sum())

    @property
    def nats(self) -> Float64[np.ndarray, "N"]:
        """The negative log-likelihood of each item in nats."""
        return self.bits * math.log(2)

    def bits_per(self, unit: str) -> float:
        """Bits of all items over their size in a unit of `sizes`."""
        if unit not in self.sizes:
            raise UsageError(
                f"these items have no size in {unit!r}; they have one in {', '.join(self.sizes) or 'none'}"
            )
        return float(self.bits.sum() / self.sizes[unit].sum())

    def to_estimate(self) -> Estimate:
        """The mean with its interval, as the functions of `ardm.likelihood` give it."""
        names = ("bits_per_dim", "half_width", "is_exact", "estimator")
        return Estimate(num_items=len(self.bits), **{name: getattr(self, name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an unknown interval is None."""
        draws = self.draws_half_width if 0 < self.draws_half_width < math.inf else None
        facts = {"unit": self.unit, "draws_half_width": draws, "variables": int(self.num_variables.sum())}
        return self.to_estimate().to_dict() | facts | {f"bits_per_{unit}": self.bits_per(unit) for unit in self.sizes}

    @property
    def figure(self) -> str:
        """The mean with its interval and its unit."""
        half = self.half_width if math.isfinite(self.half_width) else self.draws_half_width
        interval = f" ± {half:.4f}" if 0 < half < math.inf else ""
        others = [f"{self.bits_per(unit):.4f} bits/{unit}" for unit in self.sizes if f"bits/{unit}" != self.unit]
        more = f" ({', '.join(others)})" if others else ""
        return f"{self.bits_per_dim:.4f}{interval} {self.unit}{more}"

    def __str__(self) -> str:
        """The mean with its interval, the unit and the method."""
        count = len(self.bits)
        return f"{self.figure}, {count} item{'s' * (count > 1)}; {self.estimator}"


def score_rows(parts: Sequence[tuple[ModelOnDevice, Rows]], how: ScoreHow, context: Context, unit: str) -> Score:
    """The score of rows, of one or several shapes, each with the model for its shape."""
    number = 1 + max(int(rows.owner.max()) for _, rows in parts)
    bits, variables = np.zeros(number), np.zeros(number, np.int64)
    found = []
    for model, rows in parts:
        own = rows.lengths if context is None else context[rows.owner.to(context.device)]
        own = None if own is None else own.to(model.runtime.device)
        found.append(_bits_of(model, rows, how, own))
        np.add.at(bits, rows.owner.numpy(), found[-1].bits.cpu().numpy())
        np.add.at(variables, rows.owner.numpy(), rows.num_scored.numpy())
    if np.isnan(bits).any():
        raise ArdmError("the bits are not numbers: the network's outputs are not finite; `ardm.check` tells more")
    is_exact = how.order != "random"
    return Score(
        bits=bits,
        num_variables=variables,
        half_width=_half_width([(rows, part) for (_, rows), part in zip(parts, found, strict=True)], bits, variables),
        draws_half_width=math.hypot(*(part.draws_half_width for part in found)) / int(variables.sum()),
        unit=unit,
        is_exact=is_exact,
        estimator=_estimator(how),
        profile=_joined_profile([part.profile for part in found]),
    )


@dataclass(frozen=True, kw_only=True)
class _RowBits:
    """The bits of the rows of one shape."""

    bits: Float64[Tensor, "R"]
    residuals: Float64[Tensor, "R"] | None = None
    """The bits less what the rows have in common, for a bound from stratified steps: see `likelihood.bound`."""
    draws_half_width: float = 0.0
    """Half the 95% interval of the sum of the bits over random draws."""
    profile: Profile | None = None


def _half_width(
    parts: Sequence[tuple[Rows, _RowBits]], bits: Float64[np.ndarray, "N"], variables: Int[np.ndarray, "N"]
) -> float:
    """Half the 95% interval of the mean bits per variable over items, from what stratified steps leave of their spread.

    Residuals of a part are relative to its own mean. For a single part this is the half-width of its bound.
    """
    if any(part.residuals is None for _, part in parts):
        return ratio_half_width(bits, variables)
    if len(bits) < 2:
        return math.inf
    residuals, mean = np.zeros(len(bits)), bits.sum() / variables.sum()
    for rows, part in parts:
        assert part.residuals is not None
        count = rows.num_scored.to(part.bits.device)
        own_mean = part.bits.sum() / count.sum()
        np.add.at(residuals, rows.owner.numpy(), (part.residuals + (own_mean - mean) * count).cpu().numpy())
    correction = 1 if len(parts) == 1 else len(bits) / (len(bits) - 1)
    return float(Z_95 * math.sqrt(correction * np.square(residuals).sum()) / variables.sum())


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


def _bits_of(model: ModelOnDevice, rows: Rows, how: ScoreHow, context: Context) -> _RowBits:
    """The bits of each row with their intervals."""
    runtime, x = model.runtime, rows.x.to(model.runtime.device)
    generator = torch.Generator(runtime.device).manual_seed(how.seed)
    with runtime.autocast():
        if how.order == "random" and how.calls is None:
            return _bound(model, x, rows, how, context, generator)
        bits = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        for chosen, first, last in _groups(rows):
            own = None if context is None else context[chosen]
            sized, part = model, rows
            if rows.lengths is not None:  # these rows are alike in length, too
                sized, part, own = model.for_shape((last,)), rows.cut_to(last), None
            group = part.x[chosen].to(x.device)
            bits[chosen] = _whole_bits(sized, group, part, chosen, (first, last), how, own, generator)
    return _RowBits(bits=bits)


def _bound(
    model: ModelOnDevice, x: Tensor, rows: Rows, how: ScoreHow, context: Context, generator: torch.Generator
) -> _RowBits:
    """The bound of whole rows, or of parts; whole rows among parts share the strata of these."""
    kwargs: Any = {"context": context, "num_passes": how.passes}
    kwargs |= {"batch_size": how.batch_size, "on_batch": how.on_batch}
    if rows.scored is None or bool(rows.scored.all()):
        whole = bound(model.ardm, x, generator, **kwargs)
        draws = whole.draws_half_width * x.numel()
        return _RowBits(
            bits=whole.item_bits, residuals=whole.item_residuals, draws_half_width=draws, profile=whole.profile
        )
    scored, given = rows.scored.to(x.device), given_of(rows).to(x.device)
    part = partial_bound(model.ardm, x, scored, given, generator, **kwargs)
    return _RowBits(
        bits=part.item_bits,
        residuals=part.item_residuals,
        draws_half_width=part.draws_half_width,
        profile=part.profile,
    )


def _joined_profile(profiles: Sequence[Profile | None]) -> Profile | None:
    found = [profile for profile in profiles if profile is not None]
    return Profile.joined(found) if found else None


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
    calls = how.calls
    if calls is not None and rows.lengths is not None:
        calls = min(calls, steps[1] - steps[0])  # short items need no more
    schedule = make_schedule(model, calls, how.schedule, *steps)
    if how.order == "strands" and not is_whole:
        raise UsageError("strands need whole items; choose another order for shorter ones")
    part: Any = {}
    if not is_whole:
        scored = torch.ones_like(rows.x, dtype=torch.bool) if rows.scored is None else rows.scored
        part = {"scored": scored[chosen].to(x.device), "given": given_of(rows)[chosen].to(x.device)}
    options: Any = {"context": context, "batch_size": how.batch_size, "on_batch": how.on_batch}
    return bits_under_schedule(ardm, x, schedule, how.order, generator, **part, **options)
