"""Networks of masked models as those of ARDMs: they see tokens between special ones, and give logits for each."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ardm.errors import NetworkError, UsageError
from ardm.masked.tokens import Tokens

TIMES = ("timesteps", "timestep", "time", "t", "sigma")
"""Usual names of the argument for the time, by which it is found."""
SHIFTED = ("dream",)
"""Types of models whose logits at a place are those of the next token."""
PROBE_LENGTH = 6
"""Usual number of tokens of the sequences on which a network is tried."""
Time = Callable[[Float[Tensor, "B"]], Tensor]
"""The time that a network is given for the share of tokens that are hidden."""


def as_it_is(share: Float[Tensor, "B"]) -> Float[Tensor, "B"]:
    """The share itself as the time."""
    return share


class MaskedNetwork(nn.Module):
    """A masked model's network `(input_ids[, attention_mask][, time]) -> logits` as the network of an ARDM.

    The ARDM's classes are the tokens, and a hidden variable holds the mask token. Special tokens are put around the
    variables, and get logits of minus infinity. Items shorter than the others of a batch, whose `lengths` say where
    they end, are padded.
    """

    excluded: Tensor

    def __init__(
        self,
        network: nn.Module,
        tokens: Tokens,
        num_classes: int,
        *,
        is_shifted: bool = False,
        time: str | None = None,
        time_of: Time = as_it_is,
    ) -> None:
        super().__init__()
        if is_shifted and not tokens.start:
            raise UsageError("logits shifted by one need a first token that is never hidden; name it with start_id=")
        self.network, self.tokens, self.is_shifted = network, tokens, is_shifted
        self.num_classes, self.time, self.time_of = num_classes, time, time_of
        self._takes_attention = "attention_mask" in arguments_of(network)
        beyond = range(len(tokens.names), num_classes)
        excluded = [number for number in sorted({*tokens.special, *beyond}) if number < num_classes]
        self.register_buffer("excluded", torch.tensor(excluded, dtype=torch.int64), persistent=False)

    def forward(
        self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor, lengths: Tensor | None = None
    ) -> Float[Tensor, "B D K"]:
        """Logits for every variable; zeros beyond the longest item."""
        size = inputs.shape[1]
        if lengths is None:
            return self._logits(inputs, None)
        if self._takes_attention:
            longest = int(lengths.max())
            logits = self._logits(inputs[:, :longest], None if bool((lengths == longest).all()) else lengths)
            return logits if longest == size else nn.functional.pad(logits, (0, 0, 0, size - longest))
        by_length = [(lengths == length).nonzero()[:, 0] for length in lengths.unique()]
        parts = [self._logits(inputs[rows, : int(lengths[rows[0]])], None) for rows in by_length]
        padded = [nn.functional.pad(part, (0, 0, 0, size - part.shape[1])) for part in parts]
        return torch.cat(padded)[torch.cat(by_length).argsort()]

    def _logits(self, inputs: Int[Tensor, "B D"], lengths: Int[Tensor, "B"] | None) -> Float[Tensor, "B D K"]:
        ids, seen = self.surrounded(inputs, lengths)
        arguments: dict[str, Tensor] = {} if seen is None else {"attention_mask": seen.long()}
        if self.time is not None:
            hidden = (ids == self.tokens.mask) if seen is None else (ids == self.tokens.mask) & seen
            count = inputs.shape[1] if lengths is None else lengths
            arguments[self.time] = self.time_of(hidden.sum(1) / count)
        first = len(self.tokens.start) - self.is_shifted
        with head_on_part(self.network, ids.shape[1], slice(first, first + inputs.shape[1])):
            logits = logits_of(self.network(ids, **arguments))
        if logits.shape[1] != inputs.shape[1]:
            logits = logits[:, first : first + inputs.shape[1]]
        logits = logits[..., : self.num_classes]
        if logits.shape[2] < self.num_classes:  # some networks have no logits for the mask
            logits = nn.functional.pad(logits, (0, self.num_classes - logits.shape[2]))
        if torch.is_grad_enabled() or not self._may_overwrite(logits):
            return logits.index_fill(-1, self.excluded, float("-inf"))
        return logits.index_fill_(-1, self.excluded, float("-inf"))  # a copy takes long where there are many tokens

    def _may_overwrite(self, logits: Tensor) -> bool:
        """Whether logits may be changed in place: they share no memory with the weights or with each other."""
        weights = chain(self.network.parameters(), self.network.buffers())
        stored = (tensor.untyped_storage().data_ptr() for tensor in weights)
        return 0 not in logits.stride() and logits.untyped_storage().data_ptr() not in stored

    def surrounded(
        self, inputs: Int[Tensor, "B D"], lengths: Int[Tensor, "B"] | None = None
    ) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"] | None]:
        """The input with special tokens around it, and the places that are not padding; None if all are."""
        count, start, end = len(inputs), self.tokens.start, self.tokens.end
        before, after = (torch.tensor(ids, device=inputs.device, dtype=inputs.dtype) for ids in (start, end))
        ids = torch.cat([before.expand(count, -1), inputs, after.expand(count, -1)], dim=1)
        if lengths is None:
            return ids, None
        place, stop = torch.arange(ids.shape[1], device=ids.device), lengths[:, None] + len(start)
        ids = torch.where(place < stop, ids, self.tokens.pad)
        ids = ids.scatter(1, stop + torch.arange(len(end), device=ids.device), after.expand(count, -1))
        return ids, place < stop + len(end)


@contextmanager
def head_on_part(network: nn.Module, length: int, part: slice) -> Iterator[None]:
    """A context in which the last layer of a network of `transformers` sees only some of the places.

    Where there are many tokens that layer takes as long as the rest, and a part of its output would have to be copied.
    """
    head = getattr(network, "get_output_embeddings", lambda: None)()

    def cut(module: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        fits = len(arguments) == 1 and arguments[0].ndim == 3 and arguments[0].shape[1] == length
        return (arguments[0][:, part],) if fits else None

    hook = head.register_forward_pre_hook(cut) if isinstance(head, nn.Module) else None
    try:
        yield
    finally:
        if hook is not None:
            hook.remove()


def arguments_of(network: nn.Module) -> list[str]:
    """The names of the arguments of a network's forward()."""
    return list(inspect.signature(network.forward).parameters)


def time_argument(network: nn.Module) -> str | None:
    """The name of the argument that takes the time, if there is one.

    >>> from torch import nn
    >>> from ardm.masked.network import time_argument
    >>> time_argument(nn.Linear(1, 1)) is None
    True
    """
    return next((name for name in arguments_of(network) if name in TIMES), None)


def is_shifted_type(network: nn.Module) -> bool:
    """Whether the type of a model is one of those whose logits are those of the next token."""
    kind = str(getattr(getattr(network, "config", None), "model_type", "")).lower()
    return kind.startswith(SHIFTED)


def logits_of(outputs: Any) -> Tensor:
    """The logits among what a network returns: a tensor, a tuple that begins with it, or an object that has it."""
    if isinstance(outputs, dict) and not hasattr(outputs, "logits"):
        outputs = outputs.get("logits")
    found = getattr(outputs, "logits", outputs[0] if isinstance(outputs, tuple | list) and outputs else outputs)
    if not isinstance(found, Tensor):
        raise NetworkError(f"the network returned a {type(found).__name__}, expected logits")
    return found


@torch.no_grad()
def probed_classes(network: MaskedNetwork, length: int = PROBE_LENGTH) -> int:
    """The number of logits that a network gives for a token; a NetworkError for one that is no masked model.

    It is tried on two short sequences of random tokens, once with another last token and once with another first one.
    """
    tokens = network.tokens
    ordinary = torch.tensor([i for i in range(len(tokens.names)) if i not in tokens.special])
    if len(ordinary) < 2:
        raise UsageError(f"expected at least two tokens that are not special, got {len(ordinary)}")
    generator = torch.Generator().manual_seed(0)
    base = ordinary[torch.randint(len(ordinary), (length,), generator=generator)]
    others = [base.clone() for _ in range(2)]
    for row, place in zip(others, (-1, 0), strict=True):
        row[place] = ordinary[(ordinary == row[place]).nonzero()[0, 0] - 1]
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    ids, _ = network.surrounded(torch.stack([base, *others]).to(device))
    logits = _tried(network, ids)
    if logits.ndim != 3 or logits.shape[:2] != ids.shape:
        came = tuple(logits.shape)
        raise NetworkError(f"the network returned logits of shape {came} for tokens of shape {tuple(ids.shape)}")
    first, last = len(tokens.start), len(tokens.start) + length - 1
    sees_back = not torch.equal(logits[0, last], logits[2, last])
    if length > 1 and sees_back and torch.allclose(logits[0, first:last], logits[1, first:last], rtol=1e-6, atol=1e-9):
        raise NetworkError(
            "this is a causal language model: it sees only what stands before a token; give a masked one"
        )
    if logits.shape[2] <= int(ordinary.max()):
        raise NetworkError(
            f"the tokenizer does not fit: it has {len(tokens.names)} tokens, but the network has {logits.shape[2]} "
            "logits for each"
        )
    return logits.shape[2]


def _tried(network: MaskedNetwork, ids: Int[Tensor, "B L"]) -> Tensor:
    name, inner = network.time, network.network
    share = torch.zeros(len(ids), device=ids.device)
    more = {} if name is None else {name: network.time_of(share)}
    training = [module for module in inner.modules() if module.training]
    inner.eval()
    try:
        return logits_of(inner(ids, **more))
    except (IndexError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0]
        fit = f"the tokenizer does not fit: the network cannot be called with its {len(network.tokens.names)} tokens"
        raise NetworkError(f"{fit}: {reason}; a network of one length only needs length= and window=") from None
    finally:
        for module in training:
            module.training = True
