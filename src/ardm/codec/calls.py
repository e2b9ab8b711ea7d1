"""Calls of an exact network: their groups of variables, what the network sees, and its outputs.

The schedule puts each variable in a group by its rank in the stage's order. Two kinds of variables are left out of
the groups, and groups that are then empty cost no call:

    given    known to the decoder: revealed from the start, at level s+1 in every stage s
    absent   outside the data (beyond the ragged edge of an image): hidden throughout, at level 0

The network sees in `t` how many variables are revealed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int, Integer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ardm.codec.symbols import Rows
from ardm.depth import DepthMap
from ardm.model import Mask, PerItem, Values, Where
from ardm.names import Shape
from ardm.schedule import Schedule


@runtime_checkable
class IntegerNetwork(Protocol):
    """A network with the same integer outputs on every machine and in every batch."""

    def integers(
        self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem, where: Where
    ) -> Integer[Tensor, "B N O"]:
        """The outputs of the variables `where`: logits in 1/64 nat (for mixtures see `frequencies`)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """The variables of one item that one call codes, by rank."""

    stage: int
    start: int
    """The number of revealed variables: those of lower rank."""
    variables: Int[np.ndarray, "G"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Items:
    """N items of D variables, with masks of those that are not coded."""

    x: Int[Tensor, "N D"]
    """Values; the decoder needs only those of given variables."""
    given: Bool[Tensor, "N D"]
    absent: Bool[Tensor, "N D"]

    @classmethod
    def of(
        cls,
        x: Int[Tensor, "N D"],
        *,
        given: Bool[Tensor, "N D"] | None = None,
        absent: Bool[Tensor, "N D"] | None = None,
    ) -> "Items":
        """Items whose variables are all coded except those in the masks."""
        nowhere = torch.zeros((), dtype=torch.bool, device=x.device).expand(x.shape)
        return cls(x=x, given=nowhere if given is None else given, absent=nowhere if absent is None else absent)

    @property
    def coded(self) -> Bool[np.ndarray, "N D"]:
        """The mask of the variables to code."""
        return (~(self.given | self.absent)).cpu().numpy()

    def __getitem__(self, items: slice | Int[Tensor, "B"]) -> "Items":
        """The chosen items."""
        return Items(x=self.x[items], given=self.given[items], absent=self.absent[items])


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """One group of each of B items, for one call. All but the bounds are on the network's device."""

    items: Int[Tensor, "B"]
    """Indices of the items."""
    stage: Int[Tensor, "B"]
    start: Int[Tensor, "B"]
    where: Int[Tensor, "B N"]
    """The variables of each group, padded with 0."""
    size: Int[Tensor, "B"]
    """Variables per group."""
    bounds: Int[np.ndarray, "B 2"]
    """Start and end of each group's rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupRows(Rows):
    """Rows of several groups, one group after another. All but the bounds are on the network's device."""

    item: Int[Tensor, "R"]
    """The place of each row's item in the batch."""
    variable: Int[Tensor, "R"]
    bounds: Int[np.ndarray, "B 2"]
    """Start and end of each group's rows."""


class NetworkCaller:
    """Plans and makes the calls for items of one shape."""

    def __init__(
        self,
        network: IntegerNetwork,
        depth: DepthMap,
        shape: Shape,
        orders: Int[np.ndarray, "S D"],
        schedule: Schedule,
        device: torch.device,
    ) -> None:
        num_variables = math.prod(shape)
        if not np.array_equal(np.sort(orders), np.arange(num_variables)[None].repeat(depth.num_stages, 0)):
            raise ValueError(f"expected an order of 0..{num_variables - 1} for each of {depth.num_stages} stages")
        if (schedule.num_stages, schedule.first_step, schedule.num_steps) != (depth.num_stages, 0, num_variables):
            raise ValueError(
                f"expected a schedule from step 0, of stages x steps = {depth.num_stages} x {num_variables}"
            )
        self.num_variables, self.device = num_variables, device
        self._levels = depth.levels.to(device)
        self._network, self._shape = network, shape
        self._ranks = torch.from_numpy(np.argsort(orders)).to(device)
        self._groups = [
            Group(stage=stage, start=start, variables=orders[stage, start:stop])
            for stage in range(depth.num_stages)
            for start, stop in schedule.groups(stage)
        ]

    def plans(self, items: Items) -> list[list[Group]]:
        """The non-empty groups of each item, in the decoder's sequence."""
        coded = items.coded
        different = {mask.tobytes(): mask for mask in coded}  # most items have the same variables to code
        plans = {key: self._plan(mask) for key, mask in different.items()}
        return [plans[mask.tobytes()] for mask in coded]

    def at_level(self, x: Int[Tensor, "*B"], level: Int[Tensor, "*#B"]) -> Int[Tensor, "*B"]:
        """The data x downscaled to the level of each variable."""
        return self._levels.take(level * self._levels.shape[1] + x)

    def batch(self, items: Sequence[int], groups: Sequence[Group]) -> Batch:
        """One group of each of some items, copied to the device in one transfer."""
        different = {id(group): group for group in groups}  # most items share their groups
        number = {key: i for i, key in enumerate(different)}
        sizes = np.array([group.variables.size for group in groups])
        ends = sizes.cumsum()
        stage, start, which = np.array([(group.stage, group.start, number[id(group)]) for group in groups]).T
        rows = pad_sequence([torch.from_numpy(group.variables) for group in different.values()], batch_first=True)
        moved = to_device((np.array(items), stage, start, sizes, which, rows.numpy()), self.device)
        bounds = np.stack([ends - sizes, ends], axis=1)
        return Batch(
            items=moved[0], stage=moved[1], start=moved[2], size=moved[3], where=moved[5][moved[4]], bounds=bounds
        )

    def mask(self, batch: Batch, items: Items) -> Bool[Tensor, "B D"]:
        """The variables that are revealed when each group is coded."""
        return ((self._ranks[batch.stage] < batch.start[:, None]) & ~items.absent) | items.given

    def call(self, inputs: Int[Tensor, "B D"], mask: Bool[Tensor, "B D"], batch: Batch) -> GroupRows:
        """The rows of the groups, with the outputs of one call."""
        shape = (-1, *self._shape)
        outputs = self._network.integers(inputs.view(shape), mask.view(shape), batch.stage, mask.sum(1), batch.where)
        item = torch.repeat_interleave(batch.size, output_size=int(batch.bounds[-1, 1]))
        first = batch.size.cumsum(0) - batch.size
        column = torch.arange(len(item), device=self.device) - first[item]
        variable = batch.where[item, column]
        return GroupRows(
            outputs=outputs[item, column],
            item=item,
            variable=variable,
            stage=batch.stage[item],
            parent=inputs[item, variable],
            bounds=batch.bounds,
        )

    def _plan(self, coded: Bool[np.ndarray, "D"]) -> list[Group]:
        plan = (replace(group, variables=group.variables[coded[group.variables]]) for group in self._groups)
        return [group for group in plan if group.variables.size]


def to_device(arrays: Sequence[Int[np.ndarray, "..."]], device: torch.device) -> list[Int[Tensor, "..."]]:
    """Integer arrays as tensors on a device, in one asynchronous copy."""
    flat = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
    moved = flat.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else flat
    parts = moved.split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]
