"""`ardm.check`: what a network of your own must do, tried on random items."""

from collections.abc import Callable

import torch
from torch import Tensor

from ardm.errors import NetworkError
from ardm.library.context import check_context
from ardm.library.model import Model
from ardm.model import Context
from ardm.objective import Corrupted, corrupt
from ardm.orders import random_orders

NUM_ITEMS = 4
TOLERANCE = 1e-4
"""Outputs may differ by this much, relative to the largest: sums in another order round in another way."""


def check(model: Model, context: Context = None) -> str:
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
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for stage in range(model.ardm.num_stages):
                _check_outputs(model, stage, checked, generator)
    finally:
        model.train(was_training)
    _check_gradients(model, checked, generator)
    return "fine: shapes, determinism, inputs kept, items apart, hidden values, gradients"


def _check_outputs(model: Model, stage: int, context: Context, generator: torch.Generator) -> None:
    items = _corrupted(model, stage, context, generator)
    before = items.inputs.clone(), items.mask.clone()
    outputs = _outputs(model, items)
    if not (torch.equal(before[0], items.inputs) and torch.equal(before[1], items.mask)):
        raise NetworkError("the network changes its inputs in place; let it work on a copy")
    if not outputs.isfinite().any():
        raise NetworkError("the network's outputs are not finite")
    if _differ(outputs, _outputs(model, items)):
        raise NetworkError("the network's outputs differ when it is called again; it must not draw random numbers")
    others = _corrupted(model, stage, None if context is None else context.flip(0), generator)
    mixed = _map(lambda own, other: torch.cat([own[:1], other[1:]]), items, others)
    if _differ(outputs[:1], _outputs(model, mixed)[:1]):
        raise NetworkError("the outputs for an item depend on the other items of its batch; keep items apart")
    if _differ(outputs[:1], _outputs(model, _map(lambda own, _: own[:1], items, items))):
        raise NetworkError("the outputs for an item depend on the size of its batch")
    _check_hidden(model, stage, context, generator)


def _check_hidden(model: Model, stage: int, context: Context, generator: torch.Generator) -> None:
    """Raise a NetworkError if the network keeps what it was shown in another call."""
    num_variables = model.ardm.num_variables
    x = _random_items(model, generator)
    steps = torch.full((NUM_ITEMS,), num_variables // 2, device=model.device)
    stages, rank = torch.full_like(steps, stage), random_orders(NUM_ITEMS, num_variables, generator)
    shown = corrupt(model.ardm.depth, x, stages, steps, rank, context)
    outputs = _outputs(model, shown)
    _outputs(model, _corrupted(model, stage, context, generator))  # a call with other values in between
    if _differ(outputs, _outputs(model, shown)):
        raise NetworkError("hidden values leak: the outputs depend on an earlier call of the network")


def _check_gradients(model: Model, context: Context, generator: torch.Generator) -> None:
    before = {name: p.grad for name, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = None
    loss = model.loss(_random_items(model, generator), context=context, generator=generator)
    trainable = {name: p for name, p in model.network.named_parameters() if p.requires_grad}
    if trainable and not loss.requires_grad:
        raise NetworkError("the loss has no gradient; does the network detach its outputs?")
    if trainable:
        loss.backward()
    lost = [name for name, p in trainable.items() if p.grad is None]
    wrong = [name for name, p in trainable.items() if p.grad is not None and not p.grad.isfinite().all()]
    for name, parameter in model.named_parameters():
        parameter.grad = before[name]
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
    except ValueError as error:
        raise NetworkError(str(error)) from None


def _map(function: Callable[[Tensor, Tensor], Tensor], items: Corrupted, others: Corrupted) -> Corrupted:
    """A function of each tensor of two batches."""
    pairs = {name: (own, getattr(others, name)) for name, own in items._asdict().items()}
    return items._replace(**{name: function(*pair) for name, pair in pairs.items() if pair[0] is not None})


def _differ(first: Tensor, second: Tensor) -> bool:
    scale = first.masked_fill(~first.isfinite(), 0.0).abs().amax().clamp(min=1.0)
    return not torch.allclose(first / scale, second / scale, rtol=0.0, atol=TOLERANCE, equal_nan=True)
