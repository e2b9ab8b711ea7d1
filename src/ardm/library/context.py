"""Contexts of conditional models, checked against the network and the number of items."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from ardm.errors import UsageError
from ardm.model import Context

NUM_ARGUMENTS = 4
"""Arguments of a network that takes no context: inputs, mask, stage, t."""


def takes_context(network: nn.Module) -> tuple[bool, bool]:
    """Whether a network can take a context, and whether it needs one."""
    parameters = inspect.signature(network.forward).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True, False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) <= NUM_ARGUMENTS:
        return False, False
    return True, positional[NUM_ARGUMENTS].default is inspect.Parameter.empty


def check_context(network: nn.Module, context: Any, num_items: int, device: torch.device) -> Context:
    """The context as a tensor on the device; a UsageError if the network takes none, needs one, or rows are missing.

    >>> import torch
    >>> from torch import nn
    >>> from ardm.library.context import check_context
    >>> check_context(nn.Bilinear(2, 2, 1), None, 3, torch.device("cpu")) is None
    True
    """
    can_take, needs = takes_context(network)
    if context is None:
        if needs:
            raise UsageError("this network takes a context; give context= with a row for each item")
        return None
    if not can_take:
        raise UsageError("this network takes no context; give its forward() a fifth argument for it")
    tensor = as_context(context)
    if tensor.ndim == 0 or len(tensor) != num_items:
        came = "a single number" if tensor.ndim == 0 else f"{len(tensor)} rows"
        raise UsageError(f"expected a context with a row for each of {num_items} items, got {came}")
    return tensor.to(device)


def as_context(values: Any) -> Tensor:
    """A context as a tensor; a UsageError for what cannot be one.

    >>> from ardm.library.context import as_context
    >>> as_context([1, 0]).tolist()
    [1, 0]
    """
    try:
        return values if isinstance(values, Tensor) else torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        kind = type(values).__name__
        raise UsageError(f"a context is a tensor, an array or a list of numbers, got {kind} of another kind") from None


def fresh_generator(device: torch.device) -> torch.Generator:
    """A generator on a device, seeded by PyTorch's own."""
    return torch.Generator(device).manual_seed(int(torch.randint(2**62, ())))
