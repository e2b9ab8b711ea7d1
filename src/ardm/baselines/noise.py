"""Noise that destroys data in T steps, and its reversal: the processes of D3PMs (Austin et al., 2021).

A Markov chain x_0 -> x_1 -> ... -> x_T takes each variable, independently, from its data class to noise:

    q(x_t | x_(t-1))         one step, a matrix Q_t
    q(x_t | x_0)             the marginal, a row of Q_1 Q_2 ... Q_t
    q(x_(t-1) | x_t, x_0)    the posterior, proportional to q(x_t | x_(t-1)) q(x_(t-1) | x_0)
    p(x_(t-1) | x_t)         the reverse step of a model that predicts the data,
                             sum over x_0 of q(x_(t-1) | x_t, x_0) p(x_0 | x_t)

Data classes from which x_t cannot have come have no posterior; p(x_0 | x_t) is renormalised over the others.

Notation (with that of `orders` and `depth`)
    T       number of steps of noise, `num_steps`
    step    the diffusion's t, for each item: 0 for data, T for pure noise; `t` keeps its meaning for networks of
            ARDMs, the number of revealed variables
    x0, xt  data, and the same items at a step
    V       values that a variable may take on the way: the K classes, and a mask in the absorbing process
All logarithms are natural. A row holds the log-probabilities of a distribution along the last axis, -inf if impossible.
"""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ardm.distributions import NEGATIVE_INFINITY, sample_categorical

Items = Int[Tensor, "B D"]
Steps = Int[Tensor, "B"]
PerVariable = Float[Tensor, "B D"]
ClassRows = Float[Tensor, "B D K"]
Rows = Float[Tensor, "B D V"]

MIN_LOG_LIKELIHOOD = -460.0
"""Below this log q(x_t | x_0), x_0 counts as impossible; above it, float64 holds the inverse probability."""
MIN_PROBABILITY = 1e-300
"""Lower limit of sums of products in float64, so that their logarithms are finite."""


class NetworkInputs(NamedTuple):
    """Noisy items in the form in which the network of an ARDM takes items (see `model.Network`)."""

    inputs: Items
    mask: Bool[Tensor, "B D"]
    t: Steps


class NoiseProcess(nn.Module, ABC):
    """How items decay to noise, and what reversing a step costs."""

    def __init__(self, num_classes: int, num_steps: int) -> None:
        super().__init__()
        if num_classes < 2:
            raise ValueError(f"a noise process needs at least 2 classes, got {num_classes}")
        _check_num_steps(num_steps)
        self.num_classes, self.num_steps = num_classes, num_steps

    @abstractmethod
    def sample(self, x0: Items, step: Steps, generator: torch.Generator) -> Items:
        """Items drawn from q(x_t | x_0)."""

    @abstractmethod
    def sample_last(self, num_items: int, num_variables: int, generator: torch.Generator) -> Items:
        """Items of pure noise, drawn from p(x_T)."""

    @abstractmethod
    def network_inputs(self, xt: Items, step: Steps) -> NetworkInputs:
        """The network's view of noisy items."""

    @abstractmethod
    def unknown(self, xt: Items) -> Bool[Tensor, "B D"]:
        """True where x_t does not determine the data class."""

    @abstractmethod
    def log_marginal(self, x0: Items, step: Steps) -> Rows:
        """Rows of log q(x_t | x_0) over x_t, for steps 0..T."""

    @abstractmethod
    def log_likelihood(self, xt: Items, step: Steps) -> ClassRows:
        """log q(x_t | x_0) for each x_0; these do not sum to one."""

    @abstractmethod
    def log_posterior(self, x0: Items, xt: Items, step: Steps) -> Rows:
        """Rows of log q(x_(t-1) | x_t, x_0) over x_(t-1), for steps 1..T."""

    @abstractmethod
    def log_reverse(self, log_x0: ClassRows, xt: Items, step: Steps) -> Rows:
        """Rows of log p(x_(t-1) | x_t) over x_(t-1), for steps 1..T, from rows of log p(x_0 | x_t)."""

    @abstractmethod
    def step_nats(self, log_x0: ClassRows, x0: Items, xt: Items, step: Steps) -> PerVariable:
        """KL(q(x_(t-1) | x_t, x_0) || p(x_(t-1) | x_t)) of each variable; at step 1 this is -log p(x_0 | x_1)."""

    @abstractmethod
    def prior_nats(self, x0: Items) -> PerVariable:
        """KL(q(x_T | x_0) || p(x_T)) of each variable."""


class Absorbing(NoiseProcess):
    """Each variable is masked at one of the T steps, all equally likely, and stays so.

    Q_t masks with probability 1 / (T - t + 1), so that q(x_t is masked) = t / T. A masked variable is revealed in the
    reverse step t with probability 1 / t, whatever its value. The mask is the value K.

    The network sees the inputs of an order-agnostic ARDM: `mask_value` where a variable is masked (K by default,
    as in `depth.absorbing`), and as t the number of variables that are not. It need not know T.
    """

    def __init__(self, num_classes: int, num_steps: int, mask_value: int | None = None) -> None:
        super().__init__(num_classes, num_steps)
        self.mask_value = num_classes if mask_value is None else mask_value

    def with_steps(self, num_steps: int) -> "Absorbing":
        """The process with another number of steps."""
        return Absorbing(self.num_classes, num_steps, self.mask_value)

    def sample(self, x0: Items, step: Steps, generator: torch.Generator) -> Items:
        """Each variable masked with probability t / T."""
        uniform = torch.rand(x0.shape, generator=generator, device=x0.device, dtype=torch.float64)
        return x0.masked_fill(uniform < step[:, None].double() / self.num_steps, self.num_classes)

    def sample_last(self, num_items: int, num_variables: int, generator: torch.Generator) -> Items:
        """Items with every variable masked."""
        return torch.full((num_items, num_variables), self.num_classes, device=generator.device)

    def network_inputs(self, xt: Items, step: Steps) -> NetworkInputs:
        """`mask_value` where a variable is masked, and the number of the others."""
        mask = xt != self.num_classes
        return NetworkInputs(inputs=xt.masked_fill(~mask, self.mask_value), mask=mask, t=mask.sum(1))

    def unknown(self, xt: Items) -> Bool[Tensor, "B D"]:
        """True where a variable is masked."""
        return xt == self.num_classes

    def log_marginal(self, x0: Items, step: Steps) -> Rows:
        """Probability t / T for the mask, the rest for x_0."""
        masked = step[:, None].double() / self.num_steps
        return _masked_with(masked.expand(x0.shape), _log_one_hot(x0, self.num_classes))

    def log_likelihood(self, xt: Items, step: Steps) -> ClassRows:
        """t / T for every class where a variable is masked; elsewhere only x_t itself is possible."""
        masked = step[:, None, None].double() / self.num_steps
        unmasked = (1 - masked).log() + _log_one_hot(xt, self.num_classes)
        return torch.where((xt == self.num_classes)[..., None], masked.log(), unmasked)

    def log_posterior(self, x0: Items, xt: Items, step: Steps) -> Rows:
        """The reverse step of a model that knows x_0."""
        return self.log_reverse(_log_one_hot(x0, self.num_classes), xt, step)

    def log_reverse(self, log_x0: ClassRows, xt: Items, step: Steps) -> Rows:
        """A masked variable becomes x_0 with probability 1 / t; the others stay as they are."""
        is_masked = xt == self.num_classes
        stays_masked = is_masked * (1 - 1 / step[:, None].double())
        log_probs = torch.where(is_masked[..., None], log_x0.double(), _log_one_hot(xt, self.num_classes))
        return _masked_with(stays_masked, log_probs)

    def step_nats(self, log_x0: ClassRows, x0: Items, xt: Items, step: Steps) -> PerVariable:
        """-log p(x_0 | x_t) / t where a variable is masked, 0 elsewhere."""
        nats = -log_x0.gather(-1, x0[..., None])[..., 0]
        return nats.masked_fill(xt != self.num_classes, 0.0) / step[:, None]

    def prior_nats(self, x0: Items) -> PerVariable:
        """Zero: x_T is masked throughout."""
        return torch.zeros(x0.shape, device=x0.device)


class _UniformPrior(NoiseProcess):
    """A process of symmetric matrices among the K classes, so that x_T is uniform; subclasses define four methods.

    The network sees x_t with nothing masked. It learns the noise level only from t = (1 - step / T) D, rounded, in
    0..D-1; one that ignores t (our `Transformer`) must guess the level unless it is given as a stage
    (`D3PM.num_levels`).

    Rows are computed in float64: a term of the bound is small and counts T times, and autocast leaves float64 alone.
    """

    @abstractmethod
    def log_step_to(self, xt: Items, step: Steps) -> ClassRows:
        """log q(x_t | x_(t-1)) for each x_(t-1)."""

    @abstractmethod
    def log_carried(self, log_weights: ClassRows, step: Steps) -> ClassRows:
        """log of the sum over x_0 of weight(x_0) q(x_t | x_0), for each x_t."""

    def sample(self, x0: Items, step: Steps, generator: torch.Generator) -> Items:
        """Items drawn from the rows of `log_marginal`."""
        return sample_categorical(self.log_marginal(x0, step), generator)

    def sample_last(self, num_items: int, num_variables: int, generator: torch.Generator) -> Items:
        """Items of uniform classes."""
        shape = (num_items, num_variables)
        return torch.randint(self.num_classes, shape, generator=generator, device=generator.device)

    def network_inputs(self, xt: Items, step: Steps) -> NetworkInputs:
        """The noisy items with nothing masked, and the noise level as a number of variables."""
        num_variables = xt.shape[1]
        level = ((self.num_steps - step) * num_variables).double() / self.num_steps
        t = level.round().long().clamp(max=num_variables - 1)
        return NetworkInputs(inputs=xt, mask=torch.ones_like(xt, dtype=torch.bool), t=t)

    def unknown(self, xt: Items) -> Bool[Tensor, "B D"]:
        """True everywhere: any class may have been replaced."""
        return torch.ones_like(xt, dtype=torch.bool)

    def log_posterior(self, x0: Items, xt: Items, step: Steps) -> ClassRows:
        """The posterior by Bayes' rule."""
        return (self.log_step_to(xt, step) + self.log_marginal(x0, step - 1)).log_softmax(-1)

    def log_reverse(self, log_x0: ClassRows, xt: Items, step: Steps) -> ClassRows:
        """q(x_t | x_(t-1)) times the sum over x_0 of q(x_(t-1) | x_0) p(x_0 | x_t) / q(x_t | x_0), as logarithms."""
        likelihood = self.log_likelihood(xt, step)
        is_impossible = likelihood < MIN_LOG_LIKELIHOOD
        log_probs = log_x0.double().masked_fill(is_impossible, NEGATIVE_INFINITY).log_softmax(-1)
        log_weights = log_probs - likelihood.masked_fill(is_impossible, 0.0)
        return self.log_step_to(xt, step) + self.log_carried(log_weights, step - 1)

    def step_nats(self, log_x0: ClassRows, x0: Items, xt: Items, step: Steps) -> PerVariable:
        """The divergence of the reverse step from the posterior."""
        return divergence(self.log_posterior(x0, xt, step), self.log_reverse(log_x0, xt, step))

    def prior_nats(self, x0: Items) -> PerVariable:
        """The divergence of uniform classes from x_T."""
        last = torch.full(x0.shape[:1], self.num_steps, device=x0.device)
        log_marginal = self.log_marginal(x0, last)
        return divergence(log_marginal, torch.full_like(log_marginal, -math.log(self.num_classes)))


class Uniform(_UniformPrior):
    """Each step replaces a variable, with some probability, by a uniformly random class.

    `alpha_bar[t-1]` is the probability that nothing was replaced in steps 1..t: see `cosine_alpha_bar`.
    """

    kept: Float[Tensor, "T+1"]
    """alpha-bar of steps 0..T."""

    def __init__(self, num_classes: int, alpha_bar: Float[Tensor, "T"]) -> None:
        super().__init__(num_classes, len(alpha_bar))
        kept = torch.cat((torch.ones(1, dtype=torch.float64), alpha_bar.double().cpu()))
        if not (kept.diff() < 0).all() or kept[-1] < 0:
            raise ValueError("alpha-bar must fall in every step, from below 1 to no less than 0")
        self.register_buffer("kept", kept, persistent=False)

    def log_step_to(self, xt: Items, step: Steps) -> ClassRows:
        return self._rows(xt, self.kept[step] / self.kept[step - 1])

    def log_marginal(self, x0: Items, step: Steps) -> ClassRows:
        return self._rows(x0, self.kept[step])

    def log_likelihood(self, xt: Items, step: Steps) -> ClassRows:
        """The marginal's rows: its matrix is symmetric."""
        return self._rows(xt, self.kept[step])

    def log_carried(self, log_weights: ClassRows, step: Steps) -> ClassRows:
        """A class keeps its weight with probability alpha-bar, and gets a share 1/K of all weight that is lost."""
        kept = self.kept[step][:, None, None]
        shared = log_weights.logsumexp(-1, keepdim=True) - math.log(self.num_classes)
        return torch.logaddexp(kept.log() + log_weights, (1 - kept).log() + shared)

    def _rows(self, x: Items, kept: Float[Tensor, "B"]) -> ClassRows:
        """log(kept + (1 - kept) / K) at x and log((1 - kept) / K) elsewhere."""
        share = (1 - kept) / self.num_classes
        same, other = (kept + share).log()[:, None, None], share.log()[:, None, None]
        return torch.where(_is_class(x, self.num_classes), same, other)


def cosine_alpha_bar(num_steps: int) -> Float[Tensor, "T"]:
    """The schedule of Austin et al. for uniform noise: cos((t/T + 0.008) / 1.008 * pi/2), normalised to 1 at t = 0.

    As in their code a step replaces with probability at most 0.999; that of the last step would be 1.
    """
    _check_num_steps(num_steps)
    time = torch.arange(num_steps + 1, dtype=torch.float64) / num_steps
    curve = ((time + 0.008) / 1.008 * (math.pi / 2)).cos()
    return (curve[1:] / curve[:-1]).clamp(min=0.001).cumprod(0)


CHECKPOINT_EVERY = 16
"""Steps from one stored product of matrices to the next."""


class Gaussian(_UniformPrior):
    """Each step moves a variable among K ordered classes as a discretised Gaussian would (Austin et al., App. A.2.3).

    Q_t[i, j] = exp(-4 (i-j)^2 / ((K-1)^2 beta_t)) / Z for i != j, where Z sums the exponentials over all differences
    -(K-1)..K-1; the diagonal makes rows sum to one. See `linear_betas`.

    The edges keep these matrices from sharing eigenvectors, so products of them are stored: one in 16, in float64,
    which is 33 MB for K = 256 and T = 1000 instead of 524, and leaves at most 15 products of matrices to compute.
    """

    betas: Float[Tensor, "T"]
    checkpoints: Float[Tensor, "C K K"]
    """Q_1 Q_2 ... Q_t for t = 0, 16, 32, ..."""

    def __init__(self, num_classes: int, betas: Float[Tensor, "T"]) -> None:
        super().__init__(num_classes, len(betas))
        if not (betas > 0).all() or not betas.isfinite().all():
            raise ValueError(f"every beta must be positive and finite, got {float(betas.min())}..{float(betas.max())}")
        self.register_buffer("betas", betas.double().cpu(), persistent=False)
        self.register_buffer("checkpoints", self._products(), persistent=False)

    def log_step_to(self, xt: Items, step: Steps) -> ClassRows:
        """log q(x_t | x_(t-1)) for each x_(t-1): a row, since the matrix is symmetric."""
        return _rows_of(self._log_transition(step), xt)

    def log_marginal(self, x0: Items, step: Steps) -> ClassRows:
        return _rows_of(self._cumulative(step).log(), x0)

    def log_likelihood(self, xt: Items, step: Steps) -> ClassRows:
        """log q(x_t | x_0) for each x_0: a column, since products of symmetric matrices are not symmetric."""
        return _rows_of(self._cumulative(step).mT.log(), xt)

    def log_carried(self, log_weights: ClassRows, step: Steps) -> ClassRows:
        """A product of (B, D, K) and (B, K, K); weights of what is possible do not overflow."""
        carried = log_weights.exp() @ self._cumulative(step)
        return carried.clamp(min=MIN_PROBABILITY).log()

    def _log_transition(self, step: Steps) -> Float[Tensor, "B K K"]:
        """log Q_t for steps 1..T."""
        K = self.num_classes
        classes = torch.arange(K, device=step.device)
        distance = (classes[:, None] - classes).abs()
        exponent = -4 / ((K - 1) ** 2 * self.betas[step - 1][:, None]) * classes.square()  # (B, K), by distance
        log_total = (2 * exponent.exp().sum(-1) - 1).log()
        log_off = (exponent - log_total[:, None])[:, distance]
        off = log_off.exp().masked_fill(distance == 0, 0.0)
        return torch.where(distance == 0, (1 - off.sum(-1)).log()[:, None], log_off)

    def _products(self) -> Float[Tensor, "C K K"]:
        product = torch.eye(self.num_classes, dtype=torch.float64)
        products = [product]
        for step in range(1, self.num_steps + 1):
            product = product @ self._log_transition(torch.tensor([step]))[0].exp()
            if step % CHECKPOINT_EVERY == 0:
                products.append(product)
        return torch.stack(products)

    def _cumulative(self, step: Steps) -> Float[Tensor, "B K K"]:
        """Q_1 Q_2 ... Q_t for steps 0..T."""
        steps, index = step.unique(return_inverse=True)
        product, beyond = self.checkpoints[steps // CHECKPOINT_EVERY], steps % CHECKPOINT_EVERY
        for offset in range(1, int(beyond.max()) + 1):
            (further,) = (beyond >= offset).nonzero(as_tuple=True)
            factor = self._log_transition((steps - beyond)[further] + offset).exp()
            product[further] = product[further] @ factor
        return product[index]


def linear_betas(num_steps: int) -> Float[Tensor, "T"]:
    """The schedule of Austin et al. for Gaussian noise: 1e-4 to 0.02 in 1000 steps.

    With T steps all are 1000 / T times as large, so that the sum of variances stays the same.
    """
    _check_num_steps(num_steps)
    first, last = 0.1 / num_steps, 20 / num_steps
    if num_steps == 1:
        first = last = (first + last) / 2
    return torch.linspace(first, last, num_steps, dtype=torch.float64)


def divergence(log_q: Float[Tensor, "*B V"], log_p: Float[Tensor, "*B V"]) -> Float[Tensor, "*B"]:
    """KL(q || p) of each row in nats; classes that q excludes add nothing, even where p excludes them too."""
    q = log_q.exp()
    return torch.where(q > 0, q * (log_q - log_p), 0.0).sum(-1)


def _check_num_steps(num_steps: int) -> None:
    if num_steps < 1:
        raise ValueError(f"a noise process needs at least 1 step, got {num_steps}")


def _is_class(x: Items, num_classes: int) -> Bool[Tensor, "B D K"]:
    return x[..., None] == torch.arange(num_classes, device=x.device)


def _log_one_hot(x: Items, num_classes: int) -> ClassRows:
    """Log-probabilities that put all mass on x; -inf for all classes if x is none of them."""
    zeros = torch.zeros((), dtype=torch.float64, device=x.device)
    return torch.where(_is_class(x, num_classes), zeros, NEGATIVE_INFINITY)


def _masked_with(probability: PerVariable, log_classes: ClassRows) -> Rows:
    """Rows over classes and the mask, which has this probability."""
    probability = probability[..., None]
    return torch.cat(((1 - probability).log() + log_classes, probability.log()), dim=-1)


def _rows_of(matrix: Float[Tensor, "B K K"], x: Items) -> ClassRows:
    return matrix[torch.arange(len(x), device=x.device)[:, None], x]
