"""D3PMs: discrete diffusion in T steps (Austin et al., 2021), with the networks of order-agnostic ARDMs.

The bound is a sum over the steps of a noise process (notation as in `noise`),

    -log p(x_0) <= KL(q(x_T | x_0) || p(x_T)) + sum over t = 1..T of L_t,
    L_t = E_q(x_t | x_0) KL(q(x_(t-1) | x_t, x_0) || p(x_(t-1) | x_t)),

where L_1 is the reconstruction -log p(x_0 | x_1). Drawing t uniformly and weighting by T is unbiased.

A network may output p(x_0 | x_t), or only what the other variables say about x_0: then its probabilities are weighted
by q(x_t | x_0), as in Eq. 4 of Austin et al. (their code leaves the weights out at t = 1). The absorbing process needs
no weights. For others they save the network from learning the known noise: with outputs of zero it then starts near
log2 K bits per dimension, and far above that without weights, as errors of a step count T times.

The absorbing process with T -> infinity is an order-agnostic ARDM (App. B of the ARDM paper): variables that are
revealed in the same step are independent given the others, and the chance of sharing a step falls as 1 / T.
"""

import math
from collections.abc import Iterator
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ardm.baselines.noise import Absorbing, NoiseProcess
from ardm.depth import checked_classes
from ardm.distributions import sample_categorical
from ardm.likelihood import (
    ALONE,
    Estimate,
    OnBatch,
    Processes,
    check_items,
    evaluate_batches,
    mean_bits,
    passes_in_words,
    stratified_half_width,
)
from ardm.model import ARDM, evaluating
from ardm.objective import Losses, stratified_steps
from ardm.parametrizations import DataParametrization


class D3PM(nn.Module):
    """A network that predicts the data from noisy items, and the process that made them noisy.

    `network` has the interface of `model.Network` with K outputs, logits of x_0, for `process.network_inputs`. Items
    are rows of D variables, which the network takes in their `shape`. If the model is `weighted`, the network's
    probabilities are multiplied by q(x_t | x_0) and normalised.

    Many networks ignore the step t. With `num_levels` above 1 the noise level takes the place of an upscale model's
    stage: the network must have that many stages.

    >>> from ardm import build, presets
    >>> from ardm.baselines import d3pm, noise
    >>> network = build.build_ardm(presets.text8_small(), num_classes=4).network
    >>> d3pm.D3PM(network, noise.Absorbing(num_classes=4, num_steps=20), shape=(250,)).num_calls
    20
    """

    num_stages: ClassVar[int] = 1

    def __init__(
        self,
        network: nn.Module,
        process: NoiseProcess,
        shape: tuple[int, ...],
        *,
        weighted: bool = False,
        num_levels: int = 1,
    ) -> None:
        super().__init__()
        if not shape or min(shape) < 1:
            raise ValueError(f"an item needs a shape of at least one variable, got {shape}")
        self.network = network
        self.process = process
        self.shape = shape
        self.weighted = weighted
        self.num_levels = num_levels
        self.num_variables = math.prod(shape)

    @property
    def num_classes(self) -> int:
        """The number of data classes K."""
        return self.process.num_classes

    @property
    def num_calls(self) -> int:
        """Calls per sample: T."""
        return self.process.num_steps

    def with_steps(self, num_steps: int) -> "D3PM":
        """This model with another number of steps of the absorbing process."""
        if not isinstance(self.process, Absorbing):
            raise ValueError("only a D3PM with the absorbing process can change its number of steps")
        process = self.process.with_steps(num_steps)
        return D3PM(self.network, process, self.shape, weighted=self.weighted, num_levels=self.num_levels)

    def forward(self, xt: Int[Tensor, "B D"], step: Int[Tensor, "B"]) -> Float[Tensor, "B D K"]:
        """Rows of log p(x_0 | x_t). One call."""
        logits = self._logits(xt, step)
        if self.weighted:
            logits = logits + self.process.log_likelihood(xt, step)
        return logits.log_softmax(-1)

    def _logits(self, xt: Int[Tensor, "B D"], step: Int[Tensor, "B"]) -> Float[Tensor, "B D K"]:
        """The network's outputs in float32 (float64 if it computes in that)."""
        (inputs, mask, t), shape = self.process.network_inputs(xt, step), (-1, *self.shape)
        stage = (step - 1) * self.num_levels // self.process.num_steps
        logits: Tensor = self.network(inputs.view(shape), mask.view(shape), stage, t).flatten(1, -2)
        if logits.shape[-1] != self.process.num_classes:
            raise ValueError(f"expected {self.process.num_classes} logits for each variable, got {logits.shape[-1]}")
        return logits if logits.dtype.itemsize >= 4 else logits.float()

    def step_nats(self, x: Int[Tensor, "B D"], xt: Int[Tensor, "B D"], step: Int[Tensor, "B"]) -> Float[Tensor, "B"]:
        """The divergence of one reverse step from the posterior: L_t in nats if x_t is drawn from q(x_t | x_0)."""
        return self.process.step_nats(self(xt, step), x, xt, step).sum(1)

    def prior_nats(self, x: Int[Tensor, "B D"]) -> Float[Tensor, "B"]:
        """KL(q(x_T | x_0) || p(x_T)) in nats."""
        return self.process.prior_nats(x).sum(1)

    def losses(self, x: Int[Tensor, "B D"], generator: torch.Generator) -> Losses:
        """An unbiased estimate of each item's bound, and its cross-entropy; steps are stratified over the batch."""
        x, step = checked_classes(x, self.num_classes), 1 + stratified_steps(len(x), self.process.num_steps, generator)
        return self.losses_of(x, self.process.sample(x, step, generator), step)

    def losses_of(self, x: Int[Tensor, "B D"], xt: Int[Tensor, "B D"], step: Int[Tensor, "B"]) -> Losses:
        """Losses of given noisy items. The cross-entropy is that of the variables whose class the noise hides."""
        log_x0 = self(xt, step)
        step_nats = self.process.step_nats(log_x0, x, xt, step).sum(1)
        nats = self.process.num_steps * step_nats + self.prior_nats(x)
        hidden_nats = -log_x0.gather(-1, x[..., None])[..., 0].masked_fill(~self.process.unknown(xt), 0.0)
        per_bit = self.num_variables * math.log(2)  # from nats per item to bits per variable
        return Losses(bits_per_dim=nats / per_bit, cross_entropy=hidden_nats.sum(1) / per_bit)


def from_ardm(model: ARDM, num_steps: int) -> D3PM:
    """An order-agnostic ARDM as a D3PM with the absorbing process; they share the network.

    >>> from ardm import build, presets
    >>> from ardm.baselines.d3pm import from_ardm
    >>> from_ardm(build.build_ardm(presets.text8_small(), num_classes=4), num_steps=20).with_steps(50).num_calls
    50
    """
    if model.num_stages > 1 or not isinstance(model.parametrization, DataParametrization):
        raise ValueError("only a one-stage ARDM with a logit for each class is also a D3PM")
    process = Absorbing(model.depth.num_classes, num_steps, model.depth.absorbing_value)
    return D3PM(model.network, process, model.shape)


@torch.no_grad()
def bound(
    model: D3PM,
    x: Int[Tensor, "N D"],
    generator: torch.Generator,
    *,
    num_passes: int = 1,
    batch_size: int = 64,
    on_batch: OnBatch = lambda num_items: None,
    team: Processes = ALONE,
) -> Estimate:
    """An unbiased estimate of the bound: in each pass every item is scored at one step, stratified over the items.

    The interval counts only the spread that stratification leaves. The processes of a team share the batches, and
    each of them returns the result.

    >>> import torch
    >>> from ardm import build, presets
    >>> from ardm.baselines import d3pm
    >>> model = d3pm.from_ardm(build.build_ardm(presets.text8_small(), num_classes=4), num_steps=9)
    >>> d3pm.bound(model, torch.zeros(2, 250).long(), torch.Generator(), num_passes=2).estimator
    'bound of 9 steps of diffusion, stratified, 2 passes'
    """
    check_items(x, model.num_variables, model.num_classes, num_passes)
    steps = torch.stack([1 + stratified_steps(len(x), model.process.num_steps, generator) for _ in range(num_passes)])
    batches = (
        (items, model.process.sample(items, step, generator), step)
        for row in steps
        for items, step in zip(x.split(batch_size), row.split(batch_size), strict=True)
    )
    with evaluating(model):
        losses = evaluate_batches(batches, lambda batch: model.losses_of(*batch).bits_per_dim.double(), on_batch, team)
    bits = torch.cat(losses).view(num_passes, len(x)).to(x.device)
    return Estimate(
        bits_per_dim=bits.mean().item(),
        half_width=stratified_half_width(bits, steps),
        num_items=len(x),
        is_exact=False,
        estimator=f"bound of {model.process.num_steps} steps of diffusion, stratified, {passes_in_words(num_passes)}",
    )


@torch.no_grad()
def bound_all_steps(
    model: D3PM,
    x: Int[Tensor, "N D"],
    generator: torch.Generator,
    *,
    batch_size: int = 64,
    on_batch: OnBatch = lambda num_calls: None,
) -> Estimate:
    """An unbiased estimate of the bound from all T steps of every item, with one draw of x_t for each.

    >>> import torch
    >>> from ardm import build, presets
    >>> from ardm.baselines import d3pm
    >>> model = d3pm.from_ardm(build.build_ardm(presets.text8_small(), num_classes=4), num_steps=2)
    >>> d3pm.bound_all_steps(model, torch.zeros(1, 250).long(), torch.Generator()).estimator
    'bound of 2 steps of diffusion, all of them'
    """
    check_items(x, model.num_variables, model.num_classes)
    nats = []
    for items in x.split(batch_size):
        total = model.prior_nats(items).double()
        for number in range(1, model.process.num_steps + 1):
            step = torch.full(items.shape[:1], number, device=x.device)
            with evaluating(model):
                total += model.step_nats(items, model.process.sample(items, step, generator), step)
            on_batch(len(items))
        nats.append(total)
    estimator = f"bound of {model.process.num_steps} steps of diffusion, all of them"
    return mean_bits(torch.cat(nats) / math.log(2), model.num_variables, estimator, is_exact=False)


def sample(model: D3PM, num_items: int, generator: torch.Generator) -> Int[Tensor, "B D"]:
    """Items drawn from p(x_0) in T calls.

    >>> import torch
    >>> from ardm import build, presets
    >>> from ardm.baselines import d3pm
    >>> model = d3pm.from_ardm(build.build_ardm(presets.text8_small(), num_classes=4), num_steps=2)
    >>> d3pm.sample(model, 1, torch.Generator()).shape
    torch.Size([1, 250])
    """
    *_, last = sample_chain(model, num_items, generator)
    return last


def sample_chain(model: D3PM, num_items: int, generator: torch.Generator) -> Iterator[Int[Tensor, "B D"]]:
    """The noisy items x_(T-1), ..., x_0 of `sample`, one after each call."""
    x = model.process.sample_last(num_items, model.num_variables, generator)
    for number in range(model.process.num_steps, 0, -1):
        step = torch.full((num_items,), number, device=x.device)
        with torch.no_grad(), evaluating(model):  # not around the yield, where the caller may train
            x = sample_categorical(model.process.log_reverse(model(x, step), x, step), generator)
        yield x
