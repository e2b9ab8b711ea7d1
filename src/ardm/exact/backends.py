"""The choice of a backend for an exact network: the first that gives the integers in the model file."""

import math
import os
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from ardm.errors import ExactError
from ardm.exact.operations import ChosenOutputs, Operations, available_operations
from ardm.model import Mask, PerItem, Values, Where

FORCED_OPERATIONS = "ARDM_EXACT"
"""Environment variable that forces a backend: compiled, int8, float32 or float64."""
TERMINAL_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MAX_REASON = 120
"""Characters shown of an error's message; compilers write pages."""

_PRECISION = threading.Lock()
_PRECISIONS: list[str] = []
"""PyTorch's process-wide precision before each user of full float32; all but the first one's are "highest"."""


@contextmanager
def full_float32() -> Iterator[None]:
    """Compute float32 products without TF32, until the last thread leaves."""
    with _PRECISION:
        _PRECISIONS.append(torch.get_float32_matmul_precision())
        torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        with _PRECISION:
            torch.set_float32_matmul_precision(_PRECISIONS.pop())


@runtime_checkable
class MachineTest(Protocol):
    """Inputs of a network, with the outputs that every machine must give for them."""

    def passes(self, core: nn.Module, ops: Operations) -> bool:
        """Whether a network gives these outputs with a backend."""


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    """Inputs of a network, with the outputs that every machine must give for them."""

    inputs: Values
    mask: Mask
    stage: PerItem
    where: Where
    outputs: ChosenOutputs

    def check(self, num_values: int, num_stages: int, shape: tuple[int, ...]) -> None:
        """Raise an error unless the inputs are valid for a network, as files are not trusted."""
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
        """Whether a network gives these outputs with a backend: for one item and a batch, few variables and many."""
        device = next(core.buffers()).device
        inputs, mask, stage, where = (x.to(device) for x in (self.inputs, self.mask, self.stage, self.where))
        times = -(-inputs[0].numel() // where.shape[1])  # networks take another code path for many variables
        alone = core(inputs[:1], mask[:1], stage[:1], where[:1], ops).cpu()
        together = core(inputs, mask, stage, where.repeat(1, times), ops).cpu()
        return torch.equal(alone, self.outputs[:1]) and torch.equal(together, self.outputs.repeat(1, times, 1))


@full_float32()
def choose_operations(core: nn.Module, test: MachineTest, device: torch.device) -> Operations:
    """The first of a device's backends with which a network passes its self-test."""
    available = available_operations(device)
    forced = os.environ.get(FORCED_OPERATIONS)
    if forced and forced not in available:
        raise ExactError(f"{FORCED_OPERATIONS}={forced} is not one of {', '.join(available)}")
    failures = []
    for name in [forced] if forced else available:
        failure = _failure(core, test, available[name])
        if failure is None:
            return available[name]
        failures.append(f"{name} {failure}")
    raise ExactError(f"no backend on {device} gives the integers in the model file: {'; '.join(failures)}")


@torch.no_grad()
def _failure(core: nn.Module, test: MachineTest, ops: Operations) -> str | None:
    """How a backend fails the self-test, in one line; None if it passes.

    Another backend may work after any error; a RuntimeError, as for a missing operation, gives no warning.
    """
    try:
        return None if test.passes(core, ops) else "gives different integers"
    except Exception as error:
        text = " ".join(TERMINAL_COLOURS.sub("", str(error)).split())  # Numba colours its messages
        reason = f"fails ({type(error).__name__}: {text[:MAX_REASON]})"
        if not isinstance(error, RuntimeError):
            warnings.warn(f"a backend for exact networks {reason}; trying the next one", stacklevel=2)
        return reason
