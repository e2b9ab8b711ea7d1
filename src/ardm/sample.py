"""Sampling and infilling (Alg. 1 and 3) with any order, any schedule and any set of given variables."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ardm.depth import DepthMap
from ardm.model import ARDM, Context, evaluating
from ardm.orders import check_orders, ranks, revealed
from ardm.schedule import Schedule, check_fits

BATCH_SIZE = 64
"""Default number of samples drawn together."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """Variables that are known before sampling: where `mask` is True, `values` holds their data value.

    >>> import ardm, torch
    >>> given = ardm.Given(values=torch.tensor([[7, 0, 0]]), mask=torch.tensor([[True, False, False]]))
    >>> given.values[given.mask].tolist()
    [7]
    """

    values: Int[Tensor, "B D"]
    mask: Bool[Tensor, "B D"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """The state after a call: values at level stage+1 where `mask` is True, at level stage elsewhere.

    >>> import torch
    >>> from ardm import depth, sample
    >>> step = sample.Step(stage=0, values=torch.tensor([[4, 9]]), mask=torch.tensor([[True, False]]))
    >>> step.shown(depth.absorbing(num_classes=9)).tolist()
    [[4, 9]]
    """

    stage: int
    values: Int[Tensor, "B D"]
    mask: Bool[Tensor, "B D"]

    def shown(self, depth: DepthMap) -> Int[Tensor, "B D"]:
        """Values to show: K where a one-stage model hides one; else the mean of the classes a value may become."""
        if depth.num_stages == 1:
            return self.values.masked_fill(~self.mask, depth.num_classes)
        return depth.middle(self.values, self.stage + self.mask.long())


def sample_items(
    model: ARDM,
    orders: Int[Tensor, "B S D"],
    schedule: Schedule,
    generator: torch.Generator,
    *,
    given: Given | None = None,
    context: Context = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> Int[Tensor, "B D"]:
    """Items drawn from the distribution that the orders and the schedule define; exact with the defaults.

    >>> import ardm.build, ardm.presets, torch
    >>> model, orders = ardm.build.build_ardm(ardm.presets.text8_small(), 4), torch.arange(250).expand(2, 1, -1)
    >>> ardm.sample_items(model, orders, ardm.uniform_schedule(250, 3), torch.Generator()).shape
    torch.Size([2, 250])
    """
    how: Any = {"given": given, "context": context, "temperature": temperature, "top_p": top_p}
    *_, last = sample_chain(model, orders, schedule, generator, **how)
    return last.values


def sample_chain(
    model: ARDM,
    orders: Int[Tensor, "B S D"],
    schedule: Schedule,
    generator: torch.Generator,
    *,
    given: Given | None = None,
    context: Context = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> Iterator[Step]:
    """The state after each call of `sample_items`.

    Given variables must come first in every order (see `given_first`) and the schedule must begin after them.
    With one stage the others follow p(x_A | x_B) exactly. In an upscale model each stage sees the given values at
    its own depth only, which approximates the conditional.

    >>> import ardm.build, ardm.presets, torch
    >>> model, orders = ardm.build.build_ardm(ardm.presets.text8_small(), 4), torch.arange(250).view(1, 1, -1)
    >>> steps = ardm.sample_chain(model, orders, ardm.uniform_schedule(250, 2), torch.Generator())
    >>> [step.mask.sum().item() for step in steps]
    [125, 250]
    """
    _check(model, orders, schedule, given)
    values = torch.full_like(orders[:, 0], model.depth.absorbing_value)
    for s in range(model.num_stages):
        order, rank = orders[:, s], ranks(orders[:, s])
        if given is not None:
            known = model.depth.at_level(torch.where(given.mask, given.values, 0), s + 1)
            values = torch.where(given.mask, known, values)
        mask = revealed(rank, schedule.first_step)
        for start, stop in schedule.groups(s):
            where = order[:, start:stop]
            with torch.no_grad(), evaluating(model):  # not around the yield, where the caller may train
                children = model.predict(values, mask, s, start, where, context)
            drawn = children.sample(generator, temperature=temperature, top_p=top_p)
            values, mask = values.scatter(1, where, drawn), revealed(rank, stop)
            yield Step(stage=s, values=values, mask=mask)


def batch_sizes(num_items: int, batch_size: int) -> list[int]:
    """The sizes of the batches in which items are drawn; the last may be smaller."""
    return [min(batch_size, num_items - done) for done in range(0, num_items, batch_size)]


def batch_generator(seed: int, batch: int, device: torch.device) -> torch.Generator:
    """The generator of one batch, so that the items are the same whichever process draws them."""
    return torch.Generator(device).manual_seed(seed + (batch << 32))


def _check(model: ARDM, orders: Tensor, schedule: Schedule, given: Given | None) -> None:
    check_orders(orders, (len(orders), model.num_stages, model.num_variables))
    check_fits(schedule, model.num_stages, model.num_variables)
    first = schedule.first_step
    if given is None and first == 0:
        return
    if given is None or not (given.mask.sum(1) == first).all():
        raise ValueError(f"the schedule begins after {first} variables; give exactly these in every item")
    if first and not given.mask[:, None].expand_as(orders).gather(-1, orders[..., :first]).all():
        raise ValueError("given variables must come first in every order; see `given_first`")
    known = given.values[given.mask]
    if ((known < 0) | (known >= model.depth.num_classes)).any():
        raise ValueError(f"given values must lie in 0..{model.depth.num_classes - 1}")
