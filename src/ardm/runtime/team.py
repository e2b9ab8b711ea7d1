"""The processes that share the work of one command, as torchrun starts them: `torchrun ... -m ardm train`.

Every process has the whole model, unless it trains with `--fsdp`, and makes the same random draws for what the others
do, so that the answer does not depend on how many there are. Tensors travel by NCCL between GPUs and by Gloo between
CPUs; decisions, which must not wait for a GPU, by Gloo always.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ardm.errors import ArdmError
from ardm.runtime.launch import is_launched, meeting, num_launched
from ardm.runtime.signals import ignore_signals

T = TypeVar("T")
PATIENCE = timedelta(days=7)
"""How long a process waits for work or for a decision; a process that has died is noticed at once all the same."""


@dataclass(frozen=True)
class Team:
    """This process among those that work together; the first one speaks and writes for all."""

    rank: int = 0
    size: int = 1
    control: Any = None
    """The group of processes that decisions travel in; None for a process alone."""

    @property
    def is_first(self) -> bool:
        """Whether this process speaks and writes."""
        return self.rank == 0

    def share_of(self, count: int) -> range:
        """Which of so many pieces of work are this process's."""
        return range(self.rank, count, self.size)

    def has(self, number: int) -> bool:
        """Whether a piece of work is this process's."""
        return number % self.size == self.rank

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        if self.size == 1:
            return flag
        flags = torch.tensor([int(flag)])
        dist.all_reduce(flags, group=self.control)
        return bool(flags.item())

    def barrier(self) -> None:
        """Go on when all processes have come here."""
        if self.size > 1:
            dist.barrier(group=self.control)

    def all_gather(self, values: Sequence[T]) -> list[T]:
        """What all processes have, those of the first one first; values must be small and not on a GPU."""
        if self.size == 1:
            return list(values)
        lists: list[Any] = [None] * self.size
        dist.all_gather_object(lists, list(values), group=self.control)
        return [value for part in lists for value in part]

    def scatter(self, values: Sequence[T] | None) -> T:
        """This process's one of the values, one for each, that the first process gives."""
        if self.size == 1:
            assert values is not None
            return values[0]
        own: list[Any] = [None]
        dist.scatter_object_list(own, None if values is None else list(values), src=0, group=self.control)
        return own[0]

    def gather(self, value: T) -> list[T]:
        """What all processes have, for the first; nothing for the others."""
        if self.size == 1:
            return [value]
        values: list[Any] | None = [None] * self.size if self.is_first else None
        dist.gather_object(value, values, dst=0, group=self.control)
        return values or []

    def all_gather_in_order(self, pieces: Sequence[tuple[int, T]]) -> list[T]:
        """The pieces of work of all processes, each of which comes with its number, by their numbers."""
        return [piece for _, piece in sorted(self.all_gather(pieces), key=lambda numbered: numbered[0])]

    def sendable(self, value: Any) -> Any:
        """A tensor, or losses, as they can travel to other processes; where there are none, no device is waited for."""
        return value if self.size == 1 else value.to("cpu")

    def all_gather_rows(self, tensor: Tensor) -> Tensor:
        """The rows of all processes, those of the first one first; all must have as many."""
        if self.size == 1:
            return tensor
        rows = tensor.new_empty(self.size * len(tensor), *tensor.shape[1:])
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # the name before torch 2.13
        gather(rows, tensor.contiguous())
        return rows


ALONE = Team()


@contextmanager
def joined_team(device: torch.device) -> Iterator[Team]:
    """The processes that torchrun has started; a team of one without it."""
    if not is_launched():
        yield ALONE
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # A dimension of size 1 may have any stride, and DDP warns of all but one.
    warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
    try:
        with meeting():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
            control = dist.new_group(backend="gloo", timeout=PATIENCE)
        yield Team(dist.get_rank(), dist.get_world_size(), control)
    except RuntimeError as error:
        if is_about_others(error):
            ignore_signals()
            raise LostProcessError(num_launched(), str(error)) from error
        raise
    # Where this process has failed it leaves the group by ending: the others hear of it after it has spoken.
    dist.destroy_process_group()


class LostProcessError(ArdmError):
    """Another process has ended before its work was done."""

    def __init__(self, num_processes: int, reason: str) -> None:
        super().__init__(
            f"another of the {num_processes} processes has ended or cannot be reached, and the rest cannot go on "
            f"without it ({_in_short(reason)}); a training goes on from its last checkpoint with --resume"
        )


def _in_short(reason: str) -> str:
    """The first sentence, without the place in a library's sources that begins it."""
    first = re.sub(r"^\[[^\]]*\.(cc|cpp|h):\d+\]\s*", "", reason.strip().splitlines()[0])
    return re.split(r"[.!] ", first)[0].rstrip(".")


def is_about_others(error: RuntimeError) -> bool:
    """Whether an error says that another process cannot be reached."""
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower()
