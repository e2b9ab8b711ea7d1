"""Units of the integer outputs of exact networks, and the conversion to floating point.

The integer for an output r is factor * r + offset, rounded. Logits and log-scales are in 1/64 nat; means of mixtures in
1/64 class, counted from class 0, companded means in 2^-18 nat, counted from the middle.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int32
from torch import Tensor

from ardm.parametrizations import CompandedMixtureParametrization, LogisticMixtureParametrization, Parametrization

UNITS_PER_NAT = 64
MEANS_PER_CLASS = 64
COMPANDED_PER_NAT = 1 << 18


@dataclass(frozen=True, kw_only=True)
class OutputUnits:
    """Factor and offset of each output of a network."""

    factor: Float64[Tensor, "O"]
    offset: Float64[Tensor, "O"]

    @classmethod
    def of(cls, parametrization: Parametrization) -> "OutputUnits":
        """The units of a parametrization's outputs."""
        if isinstance(parametrization, LogisticMixtureParametrization):
            return _mixture_units(parametrization)
        factor = torch.full((parametrization.num_outputs,), UNITS_PER_NAT, dtype=torch.float64)
        return cls(factor=factor, offset=torch.zeros_like(factor))

    def to_integers(self, outputs: Float[Tensor, "*B O"]) -> Int32[Tensor, "*B O"]:
        """Real outputs in these units, rounded."""
        return (outputs.double() * self.factor + self.offset).round().int()

    def to_floats(self, outputs: Int32[Tensor, "*B O"]) -> Float64[Tensor, "*B O"]:
        """The real outputs, as a parametrization takes them."""
        return (outputs - self.offset.to(outputs.device)) / self.factor.to(outputs.device)


def _mixture_units(parametrization: LogisticMixtureParametrization) -> OutputUnits:
    """Units of logits, of means (relative to even centres in -1..1) and of log-scales (relative to the centres')."""
    half_range = (parametrization.depth.num_classes - 1) / 2
    if isinstance(parametrization, CompandedMixtureParametrization):
        per_place, middle = COMPANDED_PER_NAT * parametrization.reach, 0.0
    else:
        per_place = middle = MEANS_PER_CLASS * half_range
    centres = parametrization.centres()
    log_scales = parametrization.first_log_scales(centres) + math.log(half_range)
    offset = torch.cat((torch.zeros_like(centres), per_place * centres + middle, UNITS_PER_NAT * log_scales))
    factors = torch.tensor([UNITS_PER_NAT, per_place, UNITS_PER_NAT], dtype=torch.float64)
    return OutputUnits(factor=factors.repeat_interleave(parametrization.num_components), offset=offset)
