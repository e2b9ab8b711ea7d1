"""Exact coding networks: outputs of texts in strands as integers or floats, in one pass or continued call by call."""

import threading
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Int32
from torch import Tensor, nn

from ardm.errors import ExactError
from ardm.exact.backends import choose_operations, full_float32
from ardm.exact.coding_transformer import ExactCodingTransformer, ExactMemory
from ardm.exact.network import worker_pool
from ardm.exact.operations import ChosenOutputs, Operations
from ardm.exact.outputs import OutputUnits
from ardm.strands import StrandLayout, characters_before, strand_calls, uniform_layout

PASS_ROWS = 1024
"""Characters that a CPU thread evaluates at a time in a full pass, or a whole text; more would not fit its caches."""
_CHOICE_LOCK = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class CodingTest:
    """Texts in strands, with the outputs that every machine must give for some of their characters."""

    inputs: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]
    """The length of each text's strands; a text is a single window."""
    where: Int[Tensor, "B N"]
    outputs: ChosenOutputs

    def check(self, num_values: int, max_length: int) -> None:
        """Raise an error unless the inputs are valid for a network, as files are not trusted."""
        tensors = (self.inputs, self.lengths, self.where, self.outputs)
        types = [x.dtype for x in tensors] == [torch.int64, torch.int64, torch.int64, torch.int32]
        if not (types and self.inputs.ndim == 2 and self.inputs.numel() and self.where.ndim == 2):
            raise ExactError("the self-test of the model file is malformed")
        batch, length = self.inputs.shape
        limits = ((self.inputs, 0, num_values), (self.lengths, 1, length + 1), (self.where, 0, length))
        in_range = all(int(x.min()) >= low and int(x.max()) < limit for x, low, limit in limits if x.numel())
        shapes = self.lengths.shape == (batch,) and len(self.where) == batch and self.where.numel() > 0
        if not (in_range and shapes and length <= max_length and self.outputs.shape[:2] == self.where.shape):
            raise ExactError("the self-test of the model file is malformed")

    def passes(self, core: nn.Module, ops: Operations) -> bool:
        """Whether a network gives these outputs with a backend, in one pass and in the calls of its first text."""
        assert isinstance(core, ExactCodingTransformer)
        device, start = next(core.buffers()).device, core.start
        inputs, lengths, where = (x.to(device) for x in (self.inputs, self.lengths, self.where))
        outputs = []
        for text, length in zip(inputs[:, None], lengths.tolist(), strict=True):
            layout = uniform_layout(1, text.shape[1], text.shape[1], length, device)
            before = characters_before(text, layout.num_before, start)
            outputs.append(full_pass(core, before, layout, ops)[0])
        together = torch.stack([rows[chosen] for rows, chosen in zip(outputs, where, strict=True)]).cpu()
        continued = in_calls(core, inputs[:1], int(lengths[0]), ops)
        return torch.equal(together, self.outputs) and torch.equal(continued[0], outputs[0])


def in_calls(core: ExactCodingTransformer, x: Int[Tensor, "B T"], length: int, ops: Operations) -> Tensor:
    """The outputs of texts in strands of a length, with a call for every place."""
    memory, outputs = core.new_memory(len(x), x.shape[1]), []
    calls = strand_calls(x.shape[1], x.shape[1], length, x.device)
    for call in calls:
        before = torch.where(call.num_before > 0, x[:, (call.positions - 1).clamp(min=0)], core.start)
        outputs.append(advance(core, before, call.positions, call.num_before, memory, ops))
    order = torch.cat([call.positions for call in calls]).argsort()
    return torch.cat(outputs, dim=1)[:, order]


def advance(
    core: ExactCodingTransformer,
    before: Int[Tensor, "B N"],
    positions: Int[Tensor, "N"],
    num_before: Int[Tensor, "N"],
    memory: ExactMemory,
    ops: Operations,
) -> Int32[Tensor, "B N O"]:
    """The outputs of the characters of the next ranks, at the same positions of all items."""
    num_items, size = before.shape
    item = torch.arange(num_items, device=before.device).repeat_interleave(size)
    rows = memory.add(item, positions.repeat(num_items), num_before.repeat(num_items))
    outputs: Tensor = core(before.flatten(), rows, memory, ops)
    return outputs.unflatten(0, before.shape)


def full_pass(
    core: ExactCodingTransformer, before: Int[Tensor, "B T"], layout: StrandLayout, ops: Operations
) -> Int32[Tensor, "B T O"]:
    """The outputs of all characters of texts."""
    num_items, length = before.shape
    memory = core.new_memory(num_items, length)
    item = torch.arange(num_items, device=before.device).repeat_interleave(length)
    by_rank = (x.gather(1, layout.order).flatten() for x in (before, layout.num_before))
    before, num_before = by_rank
    rows = memory.add(item, layout.order.flatten(), num_before)
    outputs: Tensor = core(before, rows, memory, ops)
    return outputs.unflatten(0, (num_items, length)).take_along_dim(layout.rank[..., None], 1)


class ExactCodingNetwork(nn.Module):
    """A coding network whose outputs depend neither on the machine nor on the batch, the threads or the calls.

    Called like a trained network, it gives its outputs as floating-point numbers.
    """

    def __init__(self, core: ExactCodingTransformer, units: OutputUnits, test: CodingTest) -> None:
        super().__init__()
        self.core, self.units, self.test = core, units, test
        self._chosen: dict[torch.device, Operations] = {}

    def forward(self, before: Int[Tensor, "B T"], layout: StrandLayout) -> Float[Tensor, "B T O"]:
        """The outputs of all characters."""
        return self.units.to_floats(self.integers(before, layout))

    @torch.no_grad()
    @full_float32()
    def integers(self, before: Int[Tensor, "B T"], layout: StrandLayout) -> Int32[Tensor, "B T O"]:
        """The integer outputs of all characters, in one pass."""
        ops = self.operations(before.device)
        cores = torch.get_num_threads() if before.device.type == "cpu" else 1
        num_items = max(1, PASS_ROWS // before.shape[1])
        parts = list(zip(*(x.split(num_items) for x in (before, *vars(layout).values())), strict=True))
        threads = min(cores, len(parts))
        evaluate = worker_pool(threads, cores // threads).map if threads > 1 else map
        return torch.cat(
            list(evaluate(lambda part: full_pass(self.core, part[0], StrandLayout(*part[1:]), ops), parts))
        )

    def new_memory(self, num_items: int) -> ExactMemory:
        """The memory before the first character."""
        return self.core.new_memory(num_items)

    @torch.no_grad()
    @full_float32()
    def advance_integers(
        self, before: Int[Tensor, "B N"], positions: Int[Tensor, "N"], num_before: Int[Tensor, "N"], memory: ExactMemory
    ) -> Int32[Tensor, "B N O"]:
        """The integer outputs of the characters of the next ranks, in their sequence; the memory learns them."""
        return advance(self.core, before, positions, num_before, memory, self.operations(before.device))

    def advance(
        self, before: Int[Tensor, "B N"], positions: Int[Tensor, "N"], num_before: Int[Tensor, "N"], memory: ExactMemory
    ) -> Float[Tensor, "B N O"]:
        """The outputs of `advance_integers` as floating-point numbers."""
        return self.units.to_floats(self.advance_integers(before, positions, num_before, memory))

    def operations(self, device: torch.device) -> Operations:
        """The fastest backend on a device that passes the self-test."""
        with _CHOICE_LOCK:
            if device not in self._chosen:
                self._chosen[device] = choose_operations(self.core, self.test, device)
        return self._chosen[device]
