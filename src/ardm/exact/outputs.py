"""Units of the integer outputs of exact networks, and the way back to floating point.

An output r is held as the integer factor * r + offset, rounded. Logits and log-scales count 64ths of a nat; means of
mixtures 64ths of a class, from class 0 on.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int32
from torch import Tensor

from ardm.parametrizations import LogisticMixtureParametrization, Parametrization

UNITS_PER_NAT = 64
MEANS_PER_CLASS = 64


@dataclass(frozen=True, kw_only=True)
class OutputUnits:
    """The factor and the offset of each output of a network."""

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
        """The outputs of a float network in these units."""
        return (outputs.double() * self.factor + self.offset).round().int()

    def to_floats(self, outputs: Int32[Tensor, "*B O"]) -> Float64[Tensor, "*B O"]:
        """The outputs as a parametrization takes them."""
        return (outputs - self.offset.to(outputs.device)) / self.factor.to(outputs.device)


def _mixture_units(parametrization: LogisticMixtureParametrization) -> OutputUnits:
    """Logits, means (relative to evenly spaced centres in -1..1) and log-scales (relative to 1/M half ranges)."""
    num_components = parametrization.num_components
    half_range = (parametrization.depth.num_classes - 1) / 2
    factors = torch.tensor([UNITS_PER_NAT, MEANS_PER_CLASS * half_range, UNITS_PER_NAT], dtype=torch.float64)
    centres = (2 * torch.arange(num_components, dtype=torch.float64) + 1) / num_components - 1
    log_scale = UNITS_PER_NAT * (math.log(half_range) - math.log(num_components))
    zeros = torch.zeros(num_components, dtype=torch.float64)
    offset = torch.cat((zeros, factors[1] * (centres + 1), zeros + log_scale))
    return OutputUnits(factor=factors.repeat_interleave(num_components), offset=offset)
