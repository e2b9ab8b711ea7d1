"""Exact networks: items spread over threads, outputs as integers or floats."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ardm.exact.backends import SelfTest, choose_operations, full_float32
from ardm.exact.operations import ChosenOutputs, Operations
from ardm.exact.outputs import OutputUnits
from ardm.model import Mask, Outputs, PerItem, Values, Where
from ardm.runtime.cuda_graphs import Recorded, padded

THREAD_POSITIONS = 8192
"""Variables that a CPU thread evaluates at a time; more would not fit its caches."""
_CHOICE_LOCK = threading.Lock()


class ExactNetwork(nn.Module):
    """A network whose outputs do not depend on the machine, the batch or the number of threads.

    Called like a trained network, it gives its outputs as floating-point numbers.
    """

    def __init__(self, core: nn.Module, units: OutputUnits, test: SelfTest) -> None:
        super().__init__()
        self.core, self.units, self.test = core, units, test
        self._chosen: dict[torch.device, Operations] = {}
        self._captured: dict[Operations, Recorded] = {}

    @torch.no_grad()
    @full_float32()
    def integers(self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem, where: Where) -> ChosenOutputs:
        """The integer outputs of the variables `where`. `t` is ignored: networks that need the step count the mask."""
        ops = self.operations(inputs.device)
        if inputs.device.type != "cpu":
            return self._capturing(ops)(inputs, mask, stage, padded(where))[:, : where.shape[1]]
        cores = torch.get_num_threads()
        num_items = max(1, min(THREAD_POSITIONS // inputs[0].numel(), -(-len(inputs) // cores)))
        parts = list(zip(*(x.split(num_items) for x in (inputs, mask, stage, where)), strict=True))
        threads = min(cores, len(parts))
        evaluate = worker_pool(threads, cores // threads).map if threads > 1 else map
        return torch.cat(list(evaluate(lambda part: self.core(*part, ops), parts)))

    def _apply(self, *arguments: Any, **options: Any) -> "ExactNetwork":
        """Drop captured calls when the module moves to another device, as they hold the addresses of buffers."""
        self._captured.clear()
        return super()._apply(*arguments, **options)

    def _capturing(self, ops: Operations) -> Recorded:
        with _CHOICE_LOCK:
            if ops not in self._captured:
                self._captured[ops] = Recorded(lambda *arguments: self.core(*arguments, ops))
        return self._captured[ops]

    def forward(self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem) -> Outputs:
        """The outputs of every variable as floating-point numbers."""
        where = torch.arange(inputs[0].numel(), device=inputs.device).expand(len(inputs), -1)
        return self.outputs_at(inputs, mask, stage, t, where).unflatten(1, inputs.shape[1:])

    def outputs_at(
        self, inputs: Values, mask: Mask, stage: PerItem, t: PerItem, where: Where
    ) -> Float[Tensor, "B N O"]:
        """The outputs of N variables of each item as floating-point numbers."""
        return self.units.to_floats(self.integers(inputs, mask, stage, t, where))

    def operations(self, device: torch.device) -> Operations:
        """The fastest backend on a device that passes the self-test."""
        with _CHOICE_LOCK:
            if device not in self._chosen:
                self._chosen[device] = choose_operations(self.core, self.test, device)
        return self._chosen[device]


@cache
def worker_pool(threads: int, cores: int) -> ThreadPoolExecutor:
    """A pool of threads, in each of which PyTorch uses this number of cores."""
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(cores,))
