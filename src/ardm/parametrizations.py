"""Parametrizations: how the outputs of a network become p(child | parent) at a stage (Sec. 3.2).

    data       K logits per variable. theta^(s) sums the class probabilities below each child and renormalises them
               over the children of the parent. Needs nothing but the maps.
    direct     S*b logits per variable, b for each stage: the digit of the base-b expansion.
    logistic   3M outputs per variable: a mixture of M discretized logistics over all K classes. One stage only.
    companded  a logistic mixture with means on a logarithmic scale.
All work in log space throughout: the children that the maps cannot reach, and only they, have log-probability -inf.
Notation as in `depth`.
"""

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from ardm.depth import BaseDepthMap, DepthMap
from ardm.distributions import NEGATIVE_INFINITY, ChildDistribution, Children, LogisticMixture

Outputs = Float[Tensor, "B N O"]
Values = Int[Tensor, "B N"]
Stages = Int[Tensor, "B"]


@runtime_checkable
class Parametrization(Protocol):
    """How the outputs of a network become p(child | parent) at a stage."""

    depth: DepthMap
    num_outputs: int

    def log_prob(self, outputs: Outputs, parent: Values, child: Values, stage: Stages) -> Float[Tensor, "B N"]:
        """log p(child | parent) in nats, exact."""

    def children(self, outputs: Outputs, parent: Values, stage: int) -> ChildDistribution:
        """The distribution of each variable's child."""


class DataParametrization:
    """K logits per variable, restricted to the children of the parent: theta^(s) of Sec. 3.2.

    p(child | parent) = sum of p(k) over classes k below the child / sum of p(k) over classes k below the parent.
    """

    def __init__(self, depth: DepthMap) -> None:
        self.depth = depth
        self.num_outputs = depth.num_classes

    def log_prob(self, outputs: Outputs, parent: Values, child: Values, stage: Stages) -> Float[Tensor, "B N"]:
        """log p(child | parent), the ratio of two masked log-sum-exps; a plain log-softmax when S = 1."""
        if self.depth.num_stages == 1:
            return outputs.log_softmax(-1).gather(-1, child[..., None])[..., 0]
        below_parent = self.depth.levels[stage][:, None] == parent[..., None]
        below_child = (self.depth.levels[stage + 1][:, None] == child[..., None]) & below_parent
        return _masked_logsumexp(outputs, below_child) - _masked_logsumexp(outputs, below_parent)

    def children(self, outputs: Outputs, parent: Values, stage: int) -> Children:
        """All values that occur at level stage+1, with their log-probabilities given the parent."""
        if self.depth.num_stages == 1:
            return Children(outputs.log_softmax(-1), self.depth.levels[1].expand_as(outputs))
        values, group = self.depth.levels[stage + 1].unique(return_inverse=True)
        below_parent = self.depth.levels[stage] == parent[..., None]
        logits = outputs.masked_fill(~below_parent, NEGATIVE_INFINITY)
        grouped = _grouped_logsumexp(logits, group, len(values))
        log_probs = grouped - grouped.logsumexp(-1, keepdim=True)
        return Children(log_probs, values.expand_as(log_probs))


class DirectParametrization:
    """S*b logits per variable, b for each stage: one for each digit (Sec. 3.2).

    Digits that would lead beyond class K-1 have probability zero.
    """

    def __init__(self, depth: BaseDepthMap) -> None:
        self.depth: DepthMap = depth
        self._base_depth = depth
        self.num_outputs = depth.num_stages * depth.base

    def log_prob(self, outputs: Outputs, parent: Values, child: Values, stage: Stages) -> Float[Tensor, "B N"]:
        """log p(digit | parent), the digit being (child - parent) / b^(S-1-s)."""
        log_probs = self._digit_log_probs(outputs, parent, stage)
        scale = self._base_depth.digit_scale(stage)[:, None]
        digit = (child - parent) // scale
        return log_probs.gather(-1, digit[..., None])[..., 0]

    def children(self, outputs: Outputs, parent: Values, stage: int) -> Children:
        """The b digits of the stage with their log-probabilities."""
        stages = torch.full(parent.shape[:1], stage, device=parent.device)
        log_probs = self._digit_log_probs(outputs, parent, stages)
        return Children(log_probs, self._digit_values(parent, stages))

    def _digit_values(self, parent: Values, stage: Stages) -> Int[Tensor, "B N b"]:
        digits = torch.arange(self._base_depth.base, device=parent.device)
        return parent[..., None] + self._base_depth.digit_scale(stage)[:, None, None] * digits

    def _digit_log_probs(self, outputs: Outputs, parent: Values, stage: Stages) -> Float[Tensor, "B N b"]:
        logits = outputs.unflatten(-1, (self.depth.num_stages, self._base_depth.base))
        index = stage[:, None, None, None].expand(-1, logits.shape[1], 1, logits.shape[3])
        logits = logits.gather(2, index)[:, :, 0]  # (B, N, b)
        beyond = self._digit_values(parent, stage) >= self.depth.num_classes
        return logits.masked_fill(beyond, NEGATIVE_INFINITY).log_softmax(-1)


MAX_LOG_SCALE = 5.0
"""The largest log-scale, in half ranges: wider logistics are flat over the classes anyway."""


class LogisticMixtureParametrization:
    """3M outputs per variable: logits, means and log-scales of a mixture of M discretized logistics over K classes.

    Outputs of zero give a nearly uniform distribution: means spread over the classes, scales as wide as their gaps.
    `min_log_scale` bounds scales from below, in units of half the range of classes: a bin of K = 2^16 classes is
    e^-10.4 wide, so that -7 (the authors') would keep the probability of every class below 2^-6.9.
    """

    def __init__(self, depth: DepthMap, num_components: int, min_log_scale: float) -> None:
        if depth.num_stages != 1:
            raise ValueError(f"a mixture of logistics needs one stage, got {depth.num_stages}")
        if num_components < 1:
            raise ValueError(f"a mixture needs at least one component, got {num_components}")
        self.depth = depth
        self.num_components, self.min_log_scale = num_components, min_log_scale
        self.num_outputs = 3 * num_components
        self._starts: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}

    def log_prob(self, outputs: Outputs, parent: Values, child: Values, stage: Stages) -> Float[Tensor, "B N"]:
        """log p(child), the logarithm of a difference of the mixture's cumulative distribution."""
        return self._mixture(outputs).log_prob(child)

    def children(self, outputs: Outputs, parent: Values, stage: int) -> LogisticMixture:
        """The mixture itself; no row over all classes is built."""
        return self._mixture(outputs)

    def _mixture(self, outputs: Outputs) -> LogisticMixture:
        logits, places, log_scales = outputs.chunk(3, dim=-1)
        centres, first_log_scales = self._start(outputs.device, outputs.dtype)
        return LogisticMixture(
            log_weights=logits.log_softmax(-1),
            means=self.means(places + centres),
            log_scales=(log_scales + first_log_scales).clamp(self.min_log_scale, MAX_LOG_SCALE),
            num_classes=self.depth.num_classes,
        )

    def _start(self, device: torch.device, dtype: torch.dtype) -> tuple[Float[Tensor, "M"], Float[Tensor, "M"]]:
        """The centres and log-scales that outputs of zero stand for, computed once per device."""
        if (device, dtype) not in self._starts:
            centres = self.centres(device).to(dtype)
            self._starts[device, dtype] = (centres, self.first_log_scales(centres))
        return self._starts[device, dtype]

    def centres(self, device: torch.device | None = None) -> Float64[Tensor, "M"]:
        """The places of means, in -1..1, that outputs of zero stand for."""
        places = torch.arange(self.num_components, dtype=torch.float64, device=device)
        return (2 * places + 1) / self.num_components - 1

    def first_log_scales(self, centres: Float[Tensor, "M"]) -> Float[Tensor, "M"]:
        """The log-scales, in half ranges, that outputs of zero stand for: those of the gaps between means."""
        return torch.full_like(centres, -math.log(self.num_components))

    def means(self, places: Float[Tensor, "B N M"]) -> Float[Tensor, "B N M"]:
        """The means, in half ranges, at places in -1..1."""
        return places


COMPANDED_UNIT = 8
"""Companded means are linear within about this many classes around the middle, and logarithmic beyond."""
MAX_NATS = 10
"""The limit of the logarithm of a companded mean, in units: 2^16 classes lie within 8.4."""


class CompandedMixtureParametrization(LogisticMixtureParametrization):
    """A logistic mixture with means on a logarithmic scale: v stands for 8 (e^|v| - 1) classes on the side of its sign.

    Sound has most of its samples near the middle class, and the scales of loud passages are thousands of times those
    of quiet ones. The gradient of a mean grows with the inverse of its scale, so that quiet clips destabilise a network
    whose outputs are means; on this scale an output counts in proportion to its size (docs/LOG.md).
    """

    def __init__(self, depth: DepthMap, num_components: int, min_log_scale: float) -> None:
        super().__init__(depth, num_components, min_log_scale)
        self._half_range_in_units = (depth.num_classes - 1) / (2 * COMPANDED_UNIT)
        self.reach = math.log1p(self._half_range_in_units)
        """Nats from the middle to the first and to the last class."""

    def first_log_scales(self, centres: Float[Tensor, "M"]) -> Float[Tensor, "M"]:
        return self.reach * centres.abs() + math.log(self.reach / self._half_range_in_units / self.num_components)

    def means(self, places: Float[Tensor, "B N M"]) -> Float[Tensor, "B N M"]:
        nats = (self.reach * places).clamp(-MAX_NATS, MAX_NATS)
        units = torch.where(nats < 0, -torch.expm1(-nats), torch.expm1(nats))  # a sign would have no gradient at 0
        return units / self._half_range_in_units


def _masked_logsumexp(logits: Float[Tensor, "*B K"], keep: Tensor) -> Float[Tensor, "*B"]:
    return logits.masked_fill(~keep, NEGATIVE_INFINITY).logsumexp(-1)


def _grouped_logsumexp(
    logits: Float[Tensor, "B N K"], group: Int[Tensor, "K"], num_groups: int
) -> Float[Tensor, "B N C"]:
    """Log-sum-exp over the classes of each group, each with its own maximum so that no tail underflows."""
    index = group.expand_as(logits)
    shape = (*logits.shape[:-1], num_groups)
    peak = logits.new_full(shape, NEGATIVE_INFINITY).scatter_reduce(-1, index, logits, "amax")
    shift = peak.masked_fill(peak == NEGATIVE_INFINITY, 0.0)
    sums = logits.new_zeros(shape).scatter_add(-1, index, (logits - shift.gather(-1, index)).exp())
    return sums.log() + shift
