"""The processes that share one command's work when torchrun starts it: `torchrun ... -m ardm train`.

Every process holds the whole model (unless it trains with `--fsdp`) and makes all random draws, its own and the
others', so that results do not depend on the number of processes. Tensors travel by NCCL between GPUs and by Gloo
between CPUs; decisions, which must not wait for a GPU, always by Gloo.
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
from ardm.runtime.launch import connecting, is_launched, num_launched
from ardm.runtime.signals import ignore_signals

T = TypeVar("T")
TIMEOUT = timedelta(days=7)
"""Timeout for work and decisions; a process that has died is still noticed at once."""


@dataclass(frozen=True)
class Team:
    """This process's place among those that share the work; the first one prints and writes files for all."""

    rank: int = 0
    size: int = 1
    control: Any = None
    """Gloo process group for decisions; None for a single process."""

    @property
    def is_first(self) -> bool:
        """Whether this process prints and writes files."""
        return self.rank == 0

    def share_of(self, count: int) -> range:
        """The numbers of this process's pieces among `count` pieces of work."""
        return range(self.rank, count, self.size)

    def has(self, number: int) -> bool:
        """Whether this process does the piece of work with this number."""
        return number % self.size == self.rank

    def any(self, flag: bool) -> bool:
        """Whether the flag is True in any process."""
        if self.size == 1:
            return flag
        flags = torch.tensor([int(flag)])
        dist.all_reduce(flags, group=self.control)
        return bool(flags.item())

    def barrier(self) -> None:
        """Wait until all processes have reached this point."""
        if self.size > 1:
            dist.barrier(group=self.control)

    def all_gather(self, values: Sequence[T]) -> list[T]:
        """The values of all processes, by rank; they must be small and not on a GPU."""
        if self.size == 1:
            return list(values)
        lists: list[Any] = [None] * self.size
        dist.all_gather_object(lists, list(values), group=self.control)
        return [value for part in lists for value in part]

    def scatter(self, values: Sequence[T] | None) -> T:
        """This process's value from the list of the first process, which holds one value per process."""
        if self.size == 1:
            assert values is not None
            return values[0]
        own: list[Any] = [None]
        dist.scatter_object_list(own, None if values is None else list(values), src=0, group=self.control)
        return own[0]

    def gather(self, value: T) -> list[T]:
        """The values of all processes, for the first one; an empty list for the others."""
        if self.size == 1:
            return [value]
        values: list[Any] | None = [None] * self.size if self.is_first else None
        dist.gather_object(value, values, dst=0, group=self.control)
        return values or []

    def all_gather_in_order(self, pieces: Sequence[tuple[int, T]]) -> list[T]:
        """The numbered pieces of all processes, sorted by number."""
        return [piece for _, piece in sorted(self.all_gather(pieces), key=lambda numbered: numbered[0])]

    def sendable(self, value: Any) -> Any:
        """A tensor or losses on the CPU, ready to travel; unchanged for one process, to save a synchronisation."""
        return value if self.size == 1 else value.to("cpu")

    def all_gather_rows(self, tensor: Tensor) -> Tensor:
        """The rows of all processes, by rank; all must have the same number."""
        if self.size == 1:
            return tensor
        rows = tensor.new_empty(self.size * len(tensor), *tensor.shape[1:])
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # its name before torch 2.13
        gather(rows, tensor.contiguous())
        return rows


ALONE = Team()


@contextmanager
def joined_team(device: torch.device) -> Iterator[Team]:
    """The team of all processes that torchrun started; a team of one without it."""
    if not is_launched():
        yield ALONE
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # A dimension of size 1 may have any stride, but DDP warns about most.
    warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
    try:
        with connecting():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
            control = dist.new_group(backend="gloo", timeout=TIMEOUT)
        yield Team(dist.get_rank(), dist.get_world_size(), control)
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or "gloo" in str(error).lower():
            ignore_signals()
            raise LostProcessError(num_launched(), str(error)) from error
        raise
    # A process that failed leaves the group by exiting, after it has reported why.
    dist.destroy_process_group()


class LostProcessError(ArdmError):
    """Another process ended before the work was done."""

    def __init__(self, num_processes: int, reason: str) -> None:
        super().__init__(
            f"another of the {num_processes} processes has ended or cannot be reached, and the others cannot "
            f"continue without it ({_first_sentence(reason)}); resume training from the last checkpoint with --resume"
        )


def _first_sentence(reason: str) -> str:
    """The first sentence, without the source location that libraries put before it."""
    first = re.sub(r"^\[[^\]]*\.(cc|cpp|h):\d+\]\s*", "", reason.strip().splitlines()[0])
    return re.split(r"[.!] ", first)[0].rstrip(".")
