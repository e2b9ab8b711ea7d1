"""`ardm.check`: what a network of your own must do, tried on random items."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ardm.errors import NetworkError
from ardm.library.context import check_context
from ardm.library.model import Model
from ardm.model import Context
from ardm.objective import Corrupted, corrupt, step_loss
from ardm.orders import random_orders

NUM_ITEMS = 4
NUM_ROUNDS = 8
"""Tries to find a network that remembers: it may do so for some values only."""
TOLERANCE = 1e-4
"""Outputs may differ by this much, relative to the largest: sums in another order round in another way."""


def check(model: Model, context: Any = None) -> str:
    """Try a network on random items: the result says what was tried, a NetworkError what is wrong.

    Outputs must have the right shape, be finite, be the same again in evaluation mode, leave the inputs as they are,
    and depend on no other item of the batch nor on hidden values; every parameter must get a gradient. A conditional
    model needs a context with four rows.

    >>> import ardm
    >>> from torch import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layers = nn.Sequential(nn.Embedding(3, 8), nn.Linear(8, 2))
    ...     def forward(self, inputs, mask, stage, t):
    ...         return self.layers(inputs)
    >>> ardm.check(ardm.order_agnostic(Net(), 2, shape=5))
    'fine: shapes, determinism, inputs kept, items apart, hidden values, gradients'
    """
    checked = check_context(model.network, context, NUM_ITEMS, model.device)
    generator = torch.Generator(model.device).manual_seed(0)
    in_training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            for stage in range(model.ardm.num_stages):
                _check_outputs(model, stage, checked, generator)
    finally:
        for module in in_training:
            module.training = True
    _check_gradients(model, checked, generator)
    return "fine: shapes, determinism, inputs kept, items apart, hidden values, gradients"


def _check_outputs(model: Model, stage: int, context: Context, generator: torch.Generator) -> None:
    items = _corrupted(model, stage, context, generator)
    before = _map(lambda own, _: own.clone(), items, items)
    _outputs(model, items)
    pairs = zip(items, before, strict=True)
    if not all(torch.equal(own, kept) for own, kept in pairs if own is not None and kept is not None):
        raise NetworkError("the network changes its inputs in place; let it work on a copy")
    outputs = _outputs(model, items)
    if outputs.isnan().any() or outputs.isposinf().any() or not outputs.isfinite().any(-1).all():
        raise NetworkError("the network's outputs are not finite; only -inf is allowed, for some classes of a variable")
    if _differ(outputs, _outputs(model, items)):  # the call before both was the same, so no memory tells them apart
        raise NetworkError("the network's outputs differ when it is called again; it must not draw random numbers")
    _check_hidden(model, stage, context, generator)
    others = _corrupted(model, stage, None if context is None else context.flip(0), generator)
    mixed = _map(lambda own, other: torch.cat([own[:1], other[1:]]), items, others)
    if _differ(outputs[:1], _outputs(model, mixed)[:1]):
        raise NetworkError("the outputs for an item depend on the other items of its batch; keep items apart")
    if _differ(outputs[:1], _outputs(model, _map(lambda own, _: own[:1], items, items))):
        raise NetworkError("the outputs for an item depend on the size of its batch")


def _check_hidden(model: Model, stage: int, context: Context, generator: torch.Generator) -> None:
    """Raise a NetworkError if the network keeps what it was shown in another call, in which other values were known."""
    num_variables = model.ardm.num_variables
    for _ in range(NUM_ROUNDS):
        steps = torch.full((NUM_ITEMS,), num_variables // 2, device=model.device)
        stages, rank = torch.full_like(steps, stage), random_orders(NUM_ITEMS, num_variables, generator)
        shown = corrupt(model.ardm.depth, _random_items(model, generator), stages, steps, rank, context)
        between = corrupt(
            model.ardm.depth,
            _random_items(model, generator),
            stages,
            torch.full_like(steps, num_variables - 1),
            random_orders(NUM_ITEMS, num_variables, generator),
            context,
        )
        outputs = _outputs(model, shown)
        _outputs(model, between)
        if _differ(outputs, _outputs(model, shown)):
            raise NetworkError("hidden values leak: the outputs depend on an earlier call of the network")


def _check_gradients(model: Model, context: Context, generator: torch.Generator) -> None:
    """Raise a NetworkError unless the losses of all stages have a gradient for each parameter of a copy."""
    model = copy.deepcopy(model)
    model.zero_grad()
    trainable = {name: p for name, p in model.network.named_parameters() if p.requires_grad}
    if not trainable:
        return
    corrupted = [_corrupted(model, stage, context, generator) for stage in range(model.ardm.num_stages)]
    loss = torch.stack([step_loss(model.ardm, items).bits_per_dim.mean() for items in corrupted]).sum()
    if not loss.requires_grad:
        raise NetworkError("the loss has no gradient; does the network detach its outputs?")
    loss.backward()
    lost = [name for name, p in trainable.items() if p.grad is None]
    wrong = [name for name, p in trainable.items() if p.grad is not None and not p.grad.isfinite().all()]
    if lost:
        raise NetworkError(f"these parameters get no gradient: {', '.join(lost[:5])}; they do not change the outputs")
    if wrong:
        raise NetworkError(f"the gradient of these parameters is not finite: {', '.join(wrong[:5])}")


def _corrupted(model: Model, stage: int, context: Context, generator: torch.Generator) -> Corrupted:
    num_variables = model.ardm.num_variables
    steps = torch.randint(num_variables, (NUM_ITEMS,), generator=generator, device=model.device)
    rank = random_orders(NUM_ITEMS, num_variables, generator)
    x = _random_items(model, generator)
    return corrupt(model.ardm.depth, x, torch.full_like(steps, stage), steps, rank, context)


def _random_items(model: Model, generator: torch.Generator) -> Tensor:
    counts = torch.as_tensor(getattr(model.items, "num_classes", model.ardm.num_classes), device=model.device)
    shape = (NUM_ITEMS, model.ardm.num_variables)
    uniform = torch.rand(shape, generator=generator, device=model.device, dtype=torch.float64)
    return (uniform * counts).long()


def _outputs(model: Model, items: Corrupted) -> Tensor:
    try:
        return model.ardm.outputs(items.inputs, items.mask, items.stage, items.t, context=items.context)
    except IndexError as error:
        count = model.ardm.depth.num_values
        raise NetworkError(
            f"the network cannot look up its inputs ({error}); they are 0..{count - 1}: an embedding has {count} rows"
        ) from None
    except (ValueError, TypeError, RuntimeError) as error:
        raise NetworkError(str(error).splitlines()[0]) from None


def _map(function: Callable[[Tensor, Tensor], Tensor], items: Corrupted, others: Corrupted) -> Corrupted:
    """A function of each tensor of two batches."""
    pairs = {name: (own, getattr(others, name)) for name, own in items._asdict().items()}
    return items._replace(**{name: function(*pair) for name, pair in pairs.items() if pair[0] is not None})


def _differ(first: Tensor, second: Tensor) -> bool:
    scale = first.masked_fill(~first.isfinite(), 0.0).abs().amax().clamp(min=1.0)
    return not torch.allclose(first / scale, second / scale, rtol=0.0, atol=TOLERANCE, equal_nan=True)
