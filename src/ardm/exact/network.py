"""An exact network in use: operations chosen by a self-test, items spread over threads, outputs as floats too."""

import math
import os
import re
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Int32
from torch import Tensor, nn

from ardm.errors import ExactError
from ardm.exact.operations import Operations, available_operations
from ardm.exact.outputs import OutputUnits
from ardm.runtime.cuda_graphs import Recorded, padded

PART_POSITIONS = 8192
"""On a CPU so many variables are evaluated at a time in a thread: more would leave its caches."""
FORCED_OPERATIONS = "ARDM_EXACT"
"""Environment variable that names the only operations to use: compiled, int8, float32 or float64."""
TERMINAL_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MAX_REASON = 120
"""So many characters of an error's message are shown; compilers write pages."""
_CHOOSING = threading.Lock()


@dataclass
class _Precision:
    """PyTorch's setting for float32 products, which all threads share."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    num_users: int = 0
    before: str = "highest"


_PRECISION = _Precision()


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    """Inputs of a network with the outputs that every machine must give for them."""

    inputs: Int[Tensor, "B *shape"]
    mask: Bool[Tensor, "B *shape"]
    stage: Int[Tensor, "B"]
    where: Int[Tensor, "B N"]
    outputs: Int32[Tensor, "B N O"]

    def check(self, num_values: int, num_stages: int, shape: tuple[int, ...]) -> None:
        """An error unless a network can be given these inputs; nothing in a file is trusted."""
        limits = {"inputs": num_values, "stage": num_stages, "where": math.prod(shape)}
        in_range = all(
            int(x.min()) >= 0 and int(x.max()) < limit
            for name, limit in limits.items()
            if (x := getattr(self, name)).dtype == torch.int64 and x.numel()
        )
        batch = len(self.inputs)
        shapes = self.inputs.shape == self.mask.shape == (batch, *shape) and self.stage.shape == (batch,)
        types = [x.dtype for x in (self.inputs, self.mask, self.stage, self.where, self.outputs)]
        as_written = [torch.int64, torch.bool, torch.int64, torch.int64, torch.int32]
        if not (batch and in_range and shapes and self.where.shape[:1] == (batch,) and types == as_written):
            raise ExactError("the self-test of the model file is malformed")

    def passes(self, core: nn.Module, ops: Operations) -> bool:
        """Whether a network gives the outputs with these operations, for single items and batches, few and many."""
        device = next(core.buffers()).device
        inputs, mask, stage, where = (x.to(device) for x in (self.inputs, self.mask, self.stage, self.where))
        times = -(-inputs[0].numel() // where.shape[1])  # a network may take another way where many are wanted
        alone = core(inputs[:1], mask[:1], stage[:1], where[:1], ops).cpu()
        together = core(inputs, mask, stage, where.repeat(1, times), ops).cpu()
        return torch.equal(alone, self.outputs[:1]) and torch.equal(together, self.outputs.repeat(1, times, 1))


class ExactNetwork(nn.Module):
    """Outputs of an exact network that do not depend on the machine, the batch or the number of threads.

    As floating-point numbers they serve wherever those of a trained network do.
    """

    def __init__(self, core: nn.Module, units: OutputUnits, test: SelfTest) -> None:
        super().__init__()
        self.core, self.units, self.test = core, units, test
        self._chosen: dict[torch.device, Operations] = {}
        self._recordings: dict[Operations, Recorded] = {}

    @torch.no_grad()
    def integers(
        self,
        inputs: Int[Tensor, "B *shape"],
        mask: Bool[Tensor, "B *shape"],
        stage: Int[Tensor, "B"],
        t: Int[Tensor, "B"],
        where: Int[Tensor, "B N"],
    ) -> Int32[Tensor, "B N O"]:
        """The outputs of the variables `where`; t is not used: a network that sees the step counts what is revealed."""
        with full_float32():
            return self._integers(inputs, mask, stage, where, self.operations(inputs.device))

    def _integers(self, inputs: Tensor, mask: Tensor, stage: Tensor, where: Tensor, ops: Operations) -> Tensor:
        if inputs.device.type != "cpu":
            return self._recorded(ops)(inputs, mask, stage, padded(where))[:, : where.shape[1]]
        cores = torch.get_num_threads()
        num_items = max(1, min(PART_POSITIONS // inputs[0].numel(), -(-len(inputs) // cores)))
        parts = list(zip(*(x.split(num_items) for x in (inputs, mask, stage, where)), strict=True))
        threads = min(cores, len(parts))
        evaluate = _pool(threads, cores // threads).map if threads > 1 else map
        return torch.cat(list(evaluate(lambda part: self.core(*part, ops), parts)))

    def _apply(self, *arguments: Any, **options: Any) -> "ExactNetwork":
        """For moves to another device: recordings hold the addresses of buffers."""
        self._recordings.clear()
        return super()._apply(*arguments, **options)

    def _recorded(self, ops: Operations) -> Recorded:
        with _CHOOSING:
            if ops not in self._recordings:
                self._recordings[ops] = Recorded(lambda *arguments: self.core(*arguments, ops))
        return self._recordings[ops]

    def forward(
        self,
        inputs: Int[Tensor, "B *shape"],
        mask: Bool[Tensor, "B *shape"],
        stage: Int[Tensor, "B"],
        t: Int[Tensor, "B"],
    ) -> Float[Tensor, "B *shape O"]:
        """The outputs of every variable as floating-point numbers."""
        where = torch.arange(inputs[0].numel(), device=inputs.device).expand(len(inputs), -1)
        return self.units.to_floats(self.integers(inputs, mask, stage, t, where)).unflatten(1, inputs.shape[1:])

    def outputs_at(
        self,
        inputs: Int[Tensor, "B *shape"],
        mask: Bool[Tensor, "B *shape"],
        stage: Int[Tensor, "B"],
        t: Int[Tensor, "B"],
        where: Int[Tensor, "B N"],
    ) -> Float[Tensor, "B N O"]:
        """The outputs of some variables as floating-point numbers."""
        return self.units.to_floats(self.integers(inputs, mask, stage, t, where))

    def operations(self, device: torch.device) -> Operations:
        """The fastest operations of a device that pass the self-test."""
        with _CHOOSING:
            if device not in self._chosen:
                self._chosen[device] = choose_operations(self.core, self.test, device)
        return self._chosen[device]


def choose_operations(core: nn.Module, test: SelfTest, device: torch.device) -> Operations:
    """The first of a device's operations with which a network passes its self-test."""
    available = available_operations(device)
    forced = os.environ.get(FORCED_OPERATIONS)
    if forced and forced not in available:
        raise ExactError(f"{FORCED_OPERATIONS}={forced} is not one of {', '.join(available)}")
    failures = []
    with full_float32():
        for name in [forced] if forced else available:
            failure = _failure(core, test, available[name])
            if failure is None:
                return available[name]
            failures.append(f"{name} {failure}")
    raise ExactError(
        f"no way of computing on {device} gives the integers that the model file holds: {'; '.join(failures)}"
    )


@torch.no_grad()
def _failure(core: nn.Module, test: SelfTest, ops: Operations) -> str | None:
    """What is wrong with operations, in one line, if anything.

    Another way may serve whatever the error, but only a RuntimeError is how PyTorch says that it lacks an operation.
    """
    try:
        return None if test.passes(core, ops) else "gives others"
    except Exception as error:
        text = " ".join(TERMINAL_COLOURS.sub("", str(error)).split())  # Numba colours its messages
        reason = f"fails ({type(error).__name__}: {text[:MAX_REASON]})"
        if not isinstance(error, RuntimeError):
            warnings.warn(f"one way of computing exactly {reason}; trying the next", stacklevel=2)
        return reason


@contextmanager
def full_float32() -> Iterator[None]:
    """float32 products without TF32, until the last thread leaves."""
    with _PRECISION.lock:
        if _PRECISION.num_users == 0:
            _PRECISION.before = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision("highest")
        _PRECISION.num_users += 1
    try:
        yield
    finally:
        with _PRECISION.lock:
            _PRECISION.num_users -= 1
            if _PRECISION.num_users == 0:
                torch.set_float32_matmul_precision(_PRECISION.before)


@cache
def _pool(threads: int, cores: int) -> ThreadPoolExecutor:
    """Threads in each of which PyTorch computes on so many cores."""
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(cores,))
