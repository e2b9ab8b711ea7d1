"""An integer network whose outputs are a hash of all inputs that it may use."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class HashNetwork:
    """Outputs in -spread..spread that change with every visible value, the mask, the stage, the step and the variable.

    A decoder whose inputs differ from the encoder's gets other outputs at once.
    """

    num_outputs: int
    spread: int = 400

    def integers(
        self,
        inputs: Int[Tensor, "B *shape"],
        mask: Bool[Tensor, "B *shape"],
        stage: Int[Tensor, "B"],
        t: Int[Tensor, "B"],
        where: Int[Tensor, "B N"],
    ) -> Int[Tensor, "B N O"]:
        seen = 2 * inputs.flatten(1) + mask.flatten(1)
        place = torch.arange(seen.shape[1], device=inputs.device)
        state = _mixed(_mixed(seen * 1_000_003 + place).sum(1) * 31 + stage * 7919 + t)
        outputs = torch.arange(self.num_outputs, device=inputs.device)
        key = state[:, None, None] + where[..., None] * self.num_outputs + outputs
        return (_mixed(key) % (2 * self.spread + 1) - self.spread).int()


def _mixed(x: Tensor) -> Tensor:
    """A pseudorandom number in 0..2^31-1 for each number; 64-bit products wrap around alike everywhere."""
    for _ in range(2):
        x = (x ^ (x >> 29)) * 0x1B873593CC9E2D51
    return (x >> 32) & 0x7FFFFFFF
