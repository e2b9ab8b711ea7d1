"""Groups of variables that share a call of an exact network, and what the calls say of them.

Every variable falls in the group that its rank in the stage's order has in the schedule. Two kinds of variables are
left out of the groups, and groups without any other cost no call:

    given    known to the decoder: revealed from the start, at level s+1 in every stage s
    absent   not there (beyond the ragged edge of an image): hidden for ever, at level 0

The network sees in `t` how many variables are revealed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int, Integer
from torch import Tensor

from ardm.depth import DepthMap
from ardm.schedule import Schedule


@runtime_checkable
class IntegerNetwork(Protocol):
    """A network whose outputs are the same integers on every machine and in every batch."""

    def integers(
        self,
        inputs: Int[Tensor, "B *shape"],
        mask: Bool[Tensor, "B *shape"],
        stage: Int[Tensor, "B"],
        t: Int[Tensor, "B"],
        where: Int[Tensor, "B N"],
    ) -> Integer[Tensor, "B N O"]:
        """The outputs of the variables `where`: logits in 1/64 nat (units of mixtures: see `frequencies`)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """The variables of one call, by rank."""

    stage: int
    start: int
    """Variables of a lower rank are revealed."""
    variables: Int[np.ndarray, "G"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Context:
    """What the decoder knows of N items beforehand: which variables are given and which are absent."""

    given: Bool[Tensor, "N D"]
    absent: Bool[Tensor, "N D"]

    @property
    def coded(self) -> Bool[np.ndarray, "N D"]:
        """The variables that are to be coded."""
        return (~(self.given | self.absent)).cpu().numpy()

    def of(self, items: Int[Tensor, "B"]) -> "Context":
        """The context of some of the items."""
        return Context(given=self.given[items], absent=self.absent[items])


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """One group of each of B items, for one call. All but the bounds are where the network is."""

    items: Int[Tensor, "B"]
    """Their numbers in a batch."""
    stage: Int[Tensor, "B"]
    start: Int[Tensor, "B"]
    where: Int[Tensor, "B N"]
    """The variables of each group, with 0 in the places that a group leaves."""
    size: Int[Tensor, "B"]
    """How many they are."""
    bounds: Int[np.ndarray, "B 2"]
    """Where the rows of each group begin and end."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The R variables of several groups, one group after the other, and what the network says of them.

    All but the bounds are where the network is.
    """

    outputs: Integer[Tensor, "R O"]
    item: Int[Tensor, "R"]
    """Each row's place in the batch."""
    variable: Int[Tensor, "R"]
    stage: Int[Tensor, "R"]
    parent: Int[Tensor, "R"]
    bounds: Int[np.ndarray, "B 2"]
    """Where the rows of each group begin and end."""


class NetworkCaller:
    """Plans the calls for items of one shape and makes them."""

    def __init__(
        self,
        network: IntegerNetwork,
        depth: DepthMap,
        shape: tuple[int, ...],
        orders: Int[np.ndarray, "S D"],
        schedule: Schedule,
        device: torch.device,
    ) -> None:
        num_variables = math.prod(shape)
        if not np.array_equal(np.sort(orders), np.arange(num_variables)[None].repeat(depth.num_stages, 0)):
            raise ValueError(
                f"expected {depth.num_stages} order(s) that hold each of 0..{num_variables - 1} exactly once"
            )
        if (schedule.num_stages, schedule.first_step, schedule.num_steps) != (depth.num_stages, 0, num_variables):
            raise ValueError(f"the schedule must have {depth.num_stages} stage(s) of steps 0..{num_variables - 1}")
        self.num_variables, self.device = num_variables, device
        self._levels = depth.levels.to(device)
        self._network, self._shape = network, shape
        self._ranks = torch.from_numpy(np.argsort(orders)).to(device)
        self._groups = [
            Group(stage=stage, start=start, variables=orders[stage, start:stop])
            for stage in range(depth.num_stages)
            for start, stop in schedule.groups(stage)
        ]

    def plans(self, context: Context) -> list[list[Group]]:
        """For each item its groups that are not empty, in the decoder's sequence."""
        known: dict[bytes, list[Group]] = {}  # most items have the same variables to code
        plans = []
        for coded in context.coded:
            key = coded.tobytes()
            if key not in known:
                known[key] = self._plan(coded)
            plans.append(known[key])
        return plans

    def at_level(self, x: Int[Tensor, "*B"], level: Int[Tensor, "*#B"]) -> Int[Tensor, "*B"]:
        """The data x downscaled, each variable to a level of its own."""
        return self._levels.take(level * self._levels.shape[1] + x)

    def batch(self, items: Sequence[int], groups: Sequence[Group]) -> Batch:
        """One group of each of some items; one copy takes all numbers to the device."""
        different = {id(group): group for group in groups}  # most items have the same
        number = {key: i for i, key in enumerate(different)}
        sizes = np.array([group.variables.size for group in groups])
        ends = sizes.cumsum()
        stage, start, which = np.array([(group.stage, group.start, number[id(group)]) for group in groups]).T
        arrays = (np.array(items), stage, start, sizes, which, _in_rows([g.variables for g in different.values()]))
        there = to_device(arrays, self.device)
        return Batch(
            items=there[0],
            stage=there[1],
            start=there[2],
            size=there[3],
            where=there[5][there[4]],
            bounds=np.stack([ends - sizes, ends], axis=1),
        )

    def mask(self, batch: Batch, context: Context) -> Bool[Tensor, "B D"]:
        """The variables that are revealed when each group is coded."""
        return ((self._ranks[batch.stage] < batch.start[:, None]) & ~context.absent) | context.given

    def call(self, inputs: Int[Tensor, "B D"], mask: Bool[Tensor, "B D"], batch: Batch) -> Rows:
        """What the network says of the groups. One call."""
        shape = (-1, *self._shape)
        outputs = self._network.integers(inputs.view(shape), mask.view(shape), batch.stage, mask.sum(1), batch.where)
        item = torch.repeat_interleave(batch.size, output_size=int(batch.bounds[-1, 1]))
        first = batch.size.cumsum(0) - batch.size
        column = torch.arange(len(item), device=self.device) - first[item]
        variable = batch.where[item, column]
        return Rows(
            outputs=outputs[item, column],
            item=item,
            variable=variable,
            stage=batch.stage[item],
            parent=inputs[item, variable],
            bounds=batch.bounds,
        )

    def _plan(self, coded: Bool[np.ndarray, "D"]) -> list[Group]:
        plan = []
        for group in self._groups:
            variables = group.variables[coded[group.variables]]
            if variables.size:
                plan.append(Group(stage=group.stage, start=group.start, variables=variables))
        return plan


def _in_rows(arrays: Sequence[Int[np.ndarray, "_"]]) -> Int[np.ndarray, "P N"]:
    """Arrays as rows, filled up with 0."""
    sizes = np.array([array.size for array in arrays])
    rows = np.zeros((len(arrays), sizes.max()), np.int64)
    rows[np.arange(sizes.max()) < sizes[:, None]] = np.concatenate(arrays)
    return rows


def to_device(arrays: Sequence[Int[np.ndarray, "..."]], device: torch.device) -> list[Int[Tensor, "..."]]:
    """Whole numbers on a device, by one copy that neither it nor this thread waits for."""
    flat = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
    there = flat.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else flat
    parts = there.split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]
