"""Coding models: exact bits of texts in strands from one pass, and texts drawn in few calls that share their work.

    -log p(x | windows, strands) = sum over characters of -log p(x_d | characters of earlier calls)

The network sees, at each character, the one before it in its strand and what it computed for all characters of lower
or equal rank (see `strands`). So one pass gives every term, and nothing is computed twice when the calls are made one
after another. Each window size and strand length is a distribution of its own; one model is trained for all of them.

A coding model predicts in strands and from left to right alone. Filling gaps and random orders need an order-agnostic
ARDM.
"""

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ardm.depth import checked_classes
from ardm.likelihood import ALONE, Estimate, OnBatch, Processes, check_items, evaluate_batches, mean_bits
from ardm.model import NetworkModel, evaluating
from ardm.objective import Losses, stratified_places
from ardm.parametrizations import Parametrization
from ardm.strands import (
    Call,
    StrandLayout,
    characters_before,
    random_layout,
    strand_calls,
    training_windows,
    uniform_layout,
    window_calls,
)

M = TypeVar("M", bound="Memory")


class Memory(Protocol):
    """The state that a network keeps of the characters so far."""

    def forget_before(self, position: int) -> None:
        """Drop all characters before a position."""


class CodingNetwork(Protocol[M]):
    """Outputs for every character of strands from the characters before."""

    def __call__(self, before: Int[Tensor, "B T"], layout: StrandLayout) -> Float[Tensor, "B T O"]:
        """The outputs of all characters at once."""

    def new_memory(self, num_items: int) -> M:
        """The memory before the first character."""

    def advance(
        self, before: Int[Tensor, "B N"], positions: Int[Tensor, "N"], num_before: Int[Tensor, "N"], memory: M
    ) -> Float[Tensor, "B N O"]:
        """The outputs of the characters of the next ranks, in their sequence; the memory learns them."""


class CodingModel(NetworkModel):
    """A network that follows strands, and how its outputs become probabilities. Items are rows of D characters.

    >>> import dataclasses
    >>> from ardm import build, presets
    >>> build.build_model(presets.coding(presets.text8_small()), num_classes=27).num_variables
    250
    """

    num_stages: ClassVar[int] = 1

    def __init__(self, network: nn.Module, parametrization: Parametrization, shape: tuple[int, ...]) -> None:
        if parametrization.depth.num_stages != 1 or len(shape) != 1:
            raise ValueError(f"a coding model takes texts in one stage, got items of shape {shape}")
        super().__init__(network, parametrization, shape)

    @property
    def start(self) -> int:
        """The class that stands for no character before."""
        return self.depth.absorbing_value

    def outputs(
        self, x: Int[Tensor, "B T"], layout: StrandLayout, last: Int[Tensor, "B"] | None = None
    ) -> Float[Tensor, "B T O"]:
        """The network's outputs for every character, in float32 (float64 if it computes in that). One pass."""
        before = characters_before(x, layout.num_before, self.start, last)
        outputs: Tensor = self.network(before, layout)
        return outputs if outputs.dtype.itemsize >= 4 else outputs.float()

    def forward(self, x: Int[Tensor, "B T"], layout: StrandLayout) -> Float[Tensor, "B T"]:
        """log p of every character given those of earlier calls, in nats. One pass."""
        return self.log_probs(self.outputs(x, layout), x)

    def log_probs(self, outputs: Float[Tensor, "B N O"], x: Int[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        """log p of characters from the network's outputs, in nats."""
        stage = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        return self.parametrization.log_prob(outputs, torch.full_like(x, self.start), x, stage)

    def bits(self, x: Int[Tensor, "B T"], *, calls: int | None = None, window: int | None = None) -> Float[Tensor, "B"]:
        """-log2 p(x) of each text in bits, exact, with `calls` calls for each window, or from left to right.

        A text that is no longer than the model's items is a single window by default, and takes one pass. A longer one
        is cut into windows of half an item; each window sees `kept_before` characters of the text before it.
        """
        length = x.shape[1]
        window = min(window or self.default_window(length), length)
        strand = min(calls or window, window)
        if length <= self.num_variables:
            log_probs = self(x, uniform_layout(len(x), length, window, strand, x.device))
            return -log_probs.sum(1) / math.log(2)
        memory, total = self.new_memory(len(x)), torch.zeros(len(x), device=x.device)
        for call in window_calls(length, window, strand, x.device):
            memory.forget_before(call.window_start - self.kept_before(window))
            total = total - self.log_probs(self.continued(x, call, memory), x[:, call.positions]).sum(1)
        return total / math.log(2)

    def default_window(self, length: int) -> int:
        """The window of a text of this length: the text itself, or half an item if it is longer than one."""
        return length if length <= self.num_variables else max(1, self.num_variables // 2)

    def continued(self, x: Int[Tensor, "B T"], call: Call, memory: Any) -> Float[Tensor, "B N O"]:
        """The network's outputs for the characters of a call, of which `x` need hold only those of earlier calls."""
        earlier = x[:, (call.positions - 1).clamp(min=0)]
        before = torch.where(call.num_before > 0, earlier, self.start)
        network: Any = self.network
        outputs: Tensor = network.advance(before, call.positions, call.num_before, memory)
        return outputs if outputs.dtype.itemsize >= 4 else outputs.float()

    def new_memory(self, num_items: int) -> Any:
        """The memory of the network before the first character."""
        network: Any = self.network
        return network.new_memory(num_items)

    def kept_before(self, window: int) -> int:
        """The number of characters before a window that it sees: with the window, at most a training item."""
        return max(0, self.num_variables - window)

    def losses(self, x: Int[Tensor, "B D"], generator: torch.Generator) -> Losses:
        """Bits per character of each item, from one pass, in strands of random lengths and windows of random sizes."""
        x = checked_classes(x, self.num_classes)
        layout = self.draw_layout(len(x), generator)
        bits = -self(x, layout).mean(1) / math.log(2)
        return Losses(bits_per_dim=bits, cross_entropy=torch.zeros_like(bits))

    def draw_layout(self, num_items: int, generator: torch.Generator) -> StrandLayout:
        """Windows and strands for each of a batch of training items, spread evenly over the sizes and lengths."""
        places, device = stratified_places(1, num_items, generator)[0], generator.device
        num_windows = len(training_windows(self.num_variables))
        numbers = torch.randint(0, num_windows, (num_items,), generator=generator, device=device)
        return random_layout(self.num_variables, places, numbers)


@torch.no_grad()
def score(
    model: CodingModel,
    x: Int[Tensor, "N D"],
    *,
    calls: int | None = None,
    batch_size: int = 64,
    on_batch: OnBatch = lambda num_items: None,
    team: Processes = ALONE,
) -> Estimate:
    """Mean bits per character in strands with `calls` calls per window, or from left to right: exact.

    Windows are those of `CodingModel.bits`, for texts of any length.

    >>> import torch
    >>> from ardm import build, presets
    >>> from ardm.coding import score
    >>> model = build.build_model(presets.coding(presets.text8_small()), num_classes=4)  # untrained: uniform
    >>> round(score(model, torch.zeros(1, 250).long(), calls=50).bits_per_dim, 3)
    2.0
    """
    check_items(x, x.shape[1], model.num_classes)
    with evaluating(model):
        batches = ((items,) for items in x.split(batch_size))
        scores = evaluate_batches(batches, lambda batch: model.bits(batch[0], calls=calls).double(), on_batch, team)
    how = "left to right" if calls is None else f"strands, {calls} calls"
    return mean_bits(torch.cat(scores).to(x.device), x.shape[1], f"exact, {how}", is_exact=True)


def sample_chain(
    model: CodingModel,
    num_items: int,
    generator: torch.Generator,
    *,
    calls: int | None = None,
    length: int | None = None,
    window: int | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> Iterator[Int[Tensor, "B T"]]:
    """The texts after each call, K where nothing is drawn yet; exact with the defaults.

    Windows and calls are those of `CodingModel.bits`; the length is by default that of the model's items.

    >>> import torch
    >>> from ardm import build, presets
    >>> from ardm.coding import sample_chain
    >>> model = build.build_model(presets.coding(presets.text8_small()), num_classes=4)
    >>> [int((x < 4).sum()) for x in sample_chain(model, 1, torch.Generator(), calls=3)]
    [84, 167, 250]
    """
    length = length or model.num_variables
    window = min(window or model.default_window(length), length)
    memory = model.new_memory(num_items)
    x = torch.full((num_items, length), model.num_classes, device=generator.device)
    for call in strand_calls(length, window, min(calls or window, window), generator.device):
        with torch.no_grad(), evaluating(model):  # not around the yield, where the caller may train
            memory.forget_before(call.window_start - model.kept_before(window))
            outputs = model.continued(x, call, memory)
        parent = torch.full((num_items, len(call.positions)), model.start, device=x.device)
        children = model.parametrization.children(outputs, parent, 0)
        x = x.clone()
        x[:, call.positions] = children.sample(generator, temperature=temperature, top_p=top_p)
        yield x
