"""D3PMs against dense matrices and enumerated paths, and the absorbing process against the ARDM that it becomes.

The oracle below is written from the definitions in plain Python: matrices, Bayes' rule, sums over paths. It shares
nothing with the package but the table of logits.
"""

import math
from collections.abc import Sequence
from itertools import combinations, pairwise, permutations, product

import pytest
import torch
from table_model import CASES, TableNetwork, assert_follows
from torch import Tensor, nn

from ardm.baselines.d3pm import D3PM, bound, bound_all_steps, from_ardm, sample_chain
from ardm.baselines.noise import (
    CHECKPOINT_EVERY,
    MIN_LOG_LIKELIHOOD,
    Absorbing,
    Gaussian,
    NoiseProcess,
    Uniform,
    cosine_alpha_bar,
    divergence,
    linear_betas,
)
from ardm.config import PaperTransformerConfig, TransformerConfig
from ardm.depth import absorbing
from ardm.likelihood import exact_bits
from ardm.model import ARDM
from ardm.nn import PaperTransformer, Transformer
from ardm.parametrizations import DataParametrization
from ardm.schedule import full_schedule

PROCESSES = ["absorbing", "uniform", "linear", "gaussian"]
each_process = pytest.mark.parametrize("name", PROCESSES)
each_form = pytest.mark.parametrize("weighted", [False, True])


def build(name: str, num_classes: int, num_steps: int) -> NoiseProcess:
    """A process by name, with the published schedule unless it is a linear alpha-bar."""
    if name == "absorbing":
        return Absorbing(num_classes, num_steps)
    if name == "gaussian":
        return Gaussian(num_classes, linear_betas(num_steps))
    time = torch.arange(1, num_steps + 1).double() / num_steps
    return Uniform(num_classes, 1 - time if name == "linear" else cosine_alpha_bar(num_steps))


# The oracle

Matrix = list[list[float]]
State = tuple[int, ...]


def times(a: Matrix, b: Matrix) -> Matrix:
    return [
        [math.fsum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a
    ]


def identity(size: int) -> Matrix:
    return [[float(i == j) for j in range(size)] for i in range(size)]


def replacing(size: int, beta: float, target: Sequence[float]) -> Matrix:
    """A value is kept, or with probability beta drawn from the target."""
    return [[(1 - beta) * (i == j) + beta * target[j] for j in range(size)] for i in range(size)]


def gaussian_matrix(K: int, beta: float) -> Matrix:
    def weight(difference: int) -> float:
        return math.exp(-4 * difference**2 / ((K - 1) ** 2 * beta))

    total = math.fsum(weight(n) for n in range(-(K - 1), K))
    off = [[weight(i - j) / total if i != j else 0.0 for j in range(K)] for i in range(K)]
    return [[1 - math.fsum(off[i]) if i == j else off[i][j] for j in range(K)] for i in range(K)]


def cosine_beta(t: int, T: int) -> float:
    now, before = (math.cos((s / T + 0.008) / 1.008 * math.pi / 2) for s in (t, t - 1))
    return min(1 - now / before, 0.999)


def one_step(name: str, K: int, T: int, t: int) -> Matrix:
    """Q_t, by the definitions of Austin et al."""
    if name == "absorbing":
        return replacing(K + 1, 1 / (T - t + 1), [0.0] * K + [1.0])
    if name == "gaussian":
        fraction = (t - 1) / (T - 1) if T > 1 else 0.5
        return gaussian_matrix(K, 1000 / T * (1e-4 + fraction * (0.02 - 1e-4)))
    beta = 1 / (T - t + 1) if name == "linear" else cosine_beta(t, T)
    return replacing(K, beta, [1 / K] * K)


class Oracle:
    """Probabilities of a process, and of a model with a table of logits, by plain loops."""

    def __init__(
        self, name: str, K: int, T: int, network: "StepTable | None" = None, *, weighted: bool = False
    ) -> None:
        self.name, self.K, self.T, self.weighted = name, K, T, weighted
        self.num_values = K + (name == "absorbing")
        self.steps = [one_step(name, K, T, t) for t in range(1, T + 1)]
        self.marginals = [identity(self.num_values)]
        for matrix in self.steps:
            self.marginals.append(times(self.marginals[-1], matrix))
        self.table = None if network is None else network.table.tolist()
        self.num_variables = 0 if network is None else network.table.shape[2]

    def posterior(self, k: int, i: int, t: int) -> list[float] | None:
        """q(x_(t-1) | x_t = i, x_0 = k) by Bayes' rule; None if k does not become i."""
        joint = [self.marginals[t - 1][k][j] * self.steps[t - 1][j][i] for j in range(self.num_values)]
        chance = self.marginals[t][k][i]
        return [each / chance for each in joint] if chance > math.exp(MIN_LOG_LIKELIHOOD) else None

    def is_reached(self, i: int, t: int) -> bool:
        return any(self.posterior(k, i, t) is not None for k in range(self.K))

    def reverse(self, probs: Sequence[float], i: int, t: int) -> list[float]:
        """p(x_(t-1) | x_t = i): posteriors, mixed by the probabilities of the x_0 that have one."""
        rows = {k: self.posterior(k, i, t) for k in range(self.K)}
        possible = {k: row for k, row in rows.items() if row is not None}
        total = math.fsum(probs[k] for k in possible)
        return [math.fsum(probs[k] * row[j] for k, row in possible.items()) / total for j in range(self.num_values)]

    def states(self) -> list[State]:
        return list(product(range(self.num_values), repeat=self.num_variables))

    def items(self) -> list[State]:
        return list(product(range(self.K), repeat=self.num_variables))

    def predicted(self, state: State, variable: int, t: int) -> list[float]:
        """p(x_0 | x_t) of one variable."""
        assert self.table is not None
        D = self.num_variables
        level = sum(v < self.K for v in state) if self.name == "absorbing" else min(round((1 - t / self.T) * D), D - 1)
        row = sum(value * self.num_values**place for place, value in enumerate(state))
        weights = [math.exp(logit) for logit in self.table[level][row][variable]]
        if self.weighted:
            weights = [w * self.marginals[t][k][state[variable]] for k, w in enumerate(weights)]
        return [w / math.fsum(weights) for w in weights]

    def reverse_matrix(self, t: int) -> dict[State, dict[State, float]]:
        """p(x_(t-1) | x_t) of whole items, where x_t can be reached."""
        matrix = {}
        for state in self.states():
            if not all(self.is_reached(value, t) for value in state):
                continue
            rows = [self.reverse(self.predicted(state, d, t), state[d], t) for d in range(self.num_variables)]
            matrix[state] = {
                other: math.prod(r[v] for r, v in zip(rows, other, strict=True)) for other in self.states()
            }
        return matrix

    def prior(self, state: State) -> float:
        if self.name == "absorbing":
            return float(all(value == self.K for value in state))
        return self.K**-self.num_variables

    def item_probs(self) -> dict[State, float]:
        """p(x_0): the sum over all paths, by dynamic programming."""
        now = {state: self.prior(state) for state in self.states()}
        for t in range(self.T, 0, -1):
            matrix = self.reverse_matrix(t)
            now = {b: math.fsum(now[a] * matrix[a][b] for a in matrix) for b in self.states()}
        return now

    def path_bounds(self) -> dict[State, float]:
        """E_q[log q(x_1..T | x_0) - log p(x_0..T)] in nats, path by path."""
        matrices = [self.reverse_matrix(t) for t in range(1, self.T + 1)]
        return {x: self._path_bound(x, matrices) for x in self.items()}

    def _path_bound(self, x: State, matrices: list[dict[State, dict[State, float]]]) -> float:
        total = 0.0
        for path in product(self.states(), repeat=self.T):
            links = list(zip((x, *path), path, self.steps, matrices, strict=False))
            q = math.prod(Q[a][b] for before, after, Q, _ in links for a, b in zip(before, after, strict=True))
            if q > 0:
                p = self.prior(path[-1]) * math.prod(P[after][before] for before, after, _, P in links)
                total += q * math.log(q / p)
        return total


class StepTable(nn.Module):
    """A network with its own logits for every (t, inputs)."""

    def __init__(self, num_values: int, num_variables: int, num_classes: int) -> None:
        super().__init__()
        self.num_values = num_values
        generator = torch.Generator().manual_seed(num_values + 10 * num_classes)
        shape = (num_variables + 1, num_values**num_variables, num_variables, num_classes)
        self.table = nn.Parameter(1.5 * torch.randn(shape, generator=generator, dtype=torch.float64))

    def forward(self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor) -> Tensor:
        assert (stage == 0).all()
        places = self.num_values ** torch.arange(inputs.shape[1])
        return self.table[t, (inputs * places).sum(1)]


def tiny(name: str, K: int, T: int, *, weighted: bool = False) -> tuple[D3PM, Oracle]:
    """A model of two variables and its oracle."""
    network = StepTable(K + (name == "absorbing"), 2, K)
    model = D3PM(network, build(name, K, T), (2,), weighted=weighted)
    return model, Oracle(name, K, T, network, weighted=weighted)


def expected_nats(model: D3PM, x: State) -> float:
    """The bound of an item by the package, x_t enumerated instead of drawn."""
    process, items = model.process, torch.tensor([x])
    step = torch.arange(1, process.num_steps + 1)
    chance = process.log_marginal(items.expand(len(step), -1), step).exp()  # (T, D, V)
    states = torch.tensor(list(product(range(chance.shape[-1]), repeat=len(x))))
    weights = torch.stack([chance[:, d, values] for d, values in enumerate(states.T)]).prod(0)  # (T, states)
    index, state = (weights > 0).nonzero(as_tuple=True)
    nats = model.step_nats(items.expand(len(index), -1), states[state], step[index])
    return (model.prior_nats(items)[0] + (weights[index, state] * nats).sum()).item()


# Processes

SIZES = [(3, 1), (3, 2), (4, 3), (3, 5), (4, 2 * CHECKPOINT_EVERY + 3)]
each_size = pytest.mark.parametrize(("K", "T"), SIZES)


@each_process
@each_size
def test_marginals_are_rows_of_the_product_of_all_steps(name, K, T):
    process, oracle = build(name, K, T), Oracle(name, K, T)
    x0 = torch.arange(K).expand(T + 1, -1)
    probs = process.log_marginal(x0, torch.arange(T + 1)).exp()
    expected = torch.tensor([matrix[:K] for matrix in oracle.marginals], dtype=torch.float64)
    torch.testing.assert_close(probs, expected, rtol=1e-9, atol=1e-15)
    torch.testing.assert_close(probs.sum(-1), torch.ones(T + 1, K, dtype=torch.float64))


@each_process
@each_size
def test_posteriors_and_reverse_steps_are_those_of_matrices(name, K, T, generator):
    """For all pairs (x_0, x_t) that can meet, and for rows of random predictions."""
    process, oracle = build(name, K, T), Oracle(name, K, T)
    pairs = torch.tensor(list(product(range(K), range(oracle.num_values))))
    x0, xt = pairs[:, 0].expand(T, -1), pairs[:, 1].expand(T, -1)
    step = torch.arange(1, T + 1)
    log_x0 = torch.randn(T, len(pairs), K, generator=generator, dtype=torch.float64).mul(2).log_softmax(-1)
    posteriors = process.log_posterior(x0, xt, step).exp()
    reverse = process.log_reverse(log_x0, xt, step).exp()
    likelihoods = process.log_likelihood(xt, step).exp()
    for t, (index, (k, i)) in product(range(1, T + 1), enumerate(pairs.tolist())):
        if not oracle.is_reached(i, t):
            continue
        likely = oracle.posterior(k, i, t)
        if likely is not None:
            assert posteriors[t - 1, index].tolist() == pytest.approx(likely, rel=1e-9, abs=1e-14)
        expected = oracle.reverse(log_x0[t - 1, index].exp().tolist(), i, t)
        assert math.fsum(expected) == pytest.approx(1)
        assert reverse[t - 1, index].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-14)
        expected = [oracle.marginals[t][each][i] for each in range(K)]
        assert likelihoods[t - 1, index].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-14)


@each_process
def test_a_step_costs_the_divergence_of_its_rows(name, generator):
    process = build(name, 4, 6)
    x0, step = torch.randint(4, (60, 3), generator=generator), 1 + torch.arange(60) % 6
    xt = process.sample(x0, step, generator)
    log_x0 = torch.randn(60, 3, 4, generator=generator, dtype=torch.float64).log_softmax(-1)
    nats = process.step_nats(log_x0, x0, xt, step)
    rows = divergence(process.log_posterior(x0, xt, step), process.log_reverse(log_x0, xt, step))
    torch.testing.assert_close(nats, rows, rtol=1e-9, atol=1e-14)
    assert (nats > -1e-12).all()


@each_process
def test_noise_is_drawn_from_its_marginal(name, generator):
    process, oracle = build(name, 3, 4), Oracle(name, 3, 4)
    for k, t in product(range(3), (1, 2, 4)):
        xt = process.sample(torch.full((500, 8), k), torch.full((500,), t), generator)
        assert_follows(xt.flatten().bincount(minlength=oracle.num_values), oracle.marginals[t][k])


@each_process
def test_the_end_is_noise(name, generator):
    process, oracle = build(name, 3, 10), Oracle(name, 3, 10)
    prior = [0, 0, 0, 1] if name == "absorbing" else [1 / 3] * 3
    assert_follows(process.sample_last(1000, 4, generator).flatten().bincount(minlength=oracle.num_values), prior)
    expected = [
        math.fsum(q * math.log(q / p) for q, p in zip(oracle.marginals[10][k], prior, strict=True) if q > 0)
        for k in range(3)
    ]
    assert process.prior_nats(torch.tensor([[0, 1, 2]]))[0].tolist() == pytest.approx(expected, abs=1e-12)
    assert max(expected) < 0.01


def test_all_is_masked_in_the_end_and_nothing_at_the_start(generator):
    process, x = Absorbing(3, 7), torch.zeros(100, 100, dtype=torch.int64)
    assert (process.sample(x, torch.full((100,), 7), generator) == 3).all()
    assert (process.sample(x, torch.full((100,), 0), generator) == 0).all()


def test_gaussian_noise_of_images(generator):
    """256 classes: far classes cannot be reached in few steps, and yet nothing overflows or vanishes."""
    process = Gaussian(256, linear_betas(1000)[:40])
    step = torch.tensor([1, 2, 15, 16, 17, 40])
    x0 = torch.randint(256, (6, 30), generator=generator)
    assert process.log_marginal(x0, step).isinf().any()
    logits = (300 * torch.randn(6, 30, 256, generator=generator)).requires_grad_()
    for xt in (process.sample(x0, step, generator), torch.randint(256, (6, 30), generator=generator)):
        rows = process.log_reverse(logits.log_softmax(-1), xt, step)
        torch.testing.assert_close(rows.exp().sum(-1), torch.ones(6, 30, dtype=torch.float64))
    nats = process.step_nats(logits.log_softmax(-1), x0, process.sample(x0, step, generator), step)
    nats.sum().backward()
    assert nats.isfinite().all()
    assert logits.grad.isfinite().all()
    assert logits.grad.abs().max() > 0


def test_gaussian_noise_stores_few_matrices():
    process = Gaussian(2, linear_betas(1000))
    assert len(process.checkpoints) * 256 * 256 * 8 == pytest.approx(33e6, rel=0.01)
    assert process.betas.tolist()[::999] == pytest.approx([1e-4, 0.02])


@pytest.mark.parametrize("num_steps", [1, 2, 10, 100])
def test_gaussian_variances_add_up_to_the_same(num_steps):
    assert linear_betas(num_steps).sum().item() == pytest.approx(linear_betas(1000).sum().item())


# What networks see


def test_the_network_sees_what_that_of_an_ardm_sees():
    process = Absorbing(5, 10, mask_value=2)
    seen = process.network_inputs(torch.tensor([[0, 5, 4], [5, 5, 5], [1, 2, 3]]), torch.tensor([3, 10, 1]))
    assert seen.inputs.tolist() == [[0, 2, 4], [2, 2, 2], [1, 2, 3]]
    assert seen.mask.tolist() == [[True, False, True], [False] * 3, [True] * 3]
    assert seen.t.tolist() == [2, 0, 3]
    assert Absorbing(5, 10).network_inputs(torch.tensor([[5, 1]]), torch.tensor([1])).inputs.tolist() == [[5, 1]]


@pytest.mark.parametrize("name", ["uniform", "gaussian"])
def test_the_network_is_told_the_noise_level(name):
    xt = torch.zeros(5, 20, dtype=torch.int64)
    seen = build(name, 3, 8).network_inputs(xt, torch.tensor([0, 1, 3, 7, 8]))
    assert seen.mask.all()
    assert seen.t.tolist() == [19, 18, 12, 2, 0]


def test_masked_values_do_not_leak(generator):
    """Other data at masked places changes neither x_t nor predictions, and only the cost of those very places."""
    network = Transformer(TransformerConfig(num_layers=2, width=16, head_width=8), num_values=6, num_outputs=5)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    model, step = D3PM(network, Absorbing(5, 9), (12,)), torch.tensor([2, 5, 8])
    x = torch.randint(5, (3, 12), generator=generator)
    xt = model.process.sample(x, step, torch.Generator().manual_seed(1))
    is_masked = xt == 5
    other = torch.where(is_masked, (x + 1) % 5, x)
    assert torch.equal(model.process.sample(other, step, torch.Generator().manual_seed(1)), xt)
    log_x0 = model(xt, step)
    one = torch.where(is_masked & (is_masked.cumsum(1) == 1), other, x)  # the first masked variable alone
    before, after = (model.process.step_nats(log_x0, items, xt, step) for items in (x, one))
    assert torch.equal((before != after), one != x)
    xt_changed = torch.where(is_masked, xt, (xt + 1) % 5)
    assert not torch.equal(model(xt_changed, step)[is_masked], log_x0[is_masked])


# The bound

TINY = [
    ("absorbing", 2, 3),
    ("uniform", 3, 3),
    ("linear", 2, 3),
    ("gaussian", 3, 3),
    ("absorbing", 3, 1),
    ("uniform", 2, 1),
]
each_tiny = pytest.mark.parametrize(("name", "K", "T"), TINY)


@each_tiny
@each_form
def test_the_bound_is_the_sum_over_paths(name, K, T, weighted):
    model, oracle = tiny(name, K, T, weighted=weighted)
    for x, nats in oracle.path_bounds().items():
        assert expected_nats(model, x) == pytest.approx(nats, rel=1e-9)


@each_tiny
@each_form
def test_the_bound_lies_above_the_exact_value(name, K, T, weighted):
    model, oracle = tiny(name, K, T, weighted=weighted)
    probs = oracle.item_probs()
    assert math.fsum(probs[x] for x in oracle.items()) == pytest.approx(1)
    gaps = [expected_nats(model, x) + math.log(probs[x]) for x in oracle.items()]
    if (name, T) == ("absorbing", 1):  # all variables at once, each by itself
        assert gaps == pytest.approx([0] * len(gaps), abs=1e-12)
    else:
        assert min(gaps) > 1e-6
        assert max(gaps) > 0.01


def test_both_forms_are_one_with_masks():
    plain, weighted = (tiny("absorbing", 3, 4, weighted=each)[0] for each in (False, True))
    for x in product(range(3), repeat=2):
        assert expected_nats(plain, x) == pytest.approx(expected_nats(weighted, x), rel=1e-12)


class Indifferent(nn.Module):
    """A network that puts out zeros."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes

    def forward(self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor) -> Tensor:
        return torch.zeros(*inputs.shape, self.num_classes, dtype=torch.float64)


@each_process
def test_a_weighted_network_without_knowledge_knows_the_noise(name):
    """Of uniform data it is the true model, for which the bound is their entropy; the plain form has to learn that."""
    for weighted in (True, False):
        model = D3PM(Indifferent(8), build(name, 8, 40), (1,), weighted=weighted)
        bits = math.fsum(expected_nats(model, (k,)) for k in range(8)) / (8 * math.log(2))
        is_true_model = weighted or name == "absorbing"
        assert bits == pytest.approx(3, abs=1e-3) if is_true_model else bits > 5


@each_process
def test_estimates_are_unbiased(name, generator):
    """The mean of many draws lies within its interval, a little widened, of what enumeration gives."""
    model, _ = tiny(name, 2, 3)
    x = (1, 0)
    exact, items = expected_nats(model, x) / (2 * math.log(2)), torch.tensor([x]).expand(8000, -1)
    for result in (
        bound(model, items, generator, num_passes=2, batch_size=3000),
        bound_all_steps(model, items, generator, batch_size=3000),
    ):
        assert abs(result.bits_per_dim - exact) < 1.5 * result.half_width
        assert result.half_width < 0.06
        assert (result.num_items, result.is_exact) == (8000, False)
    losses = model.losses(items, generator).bits_per_dim
    assert losses.mean().item() == pytest.approx(exact, abs=3 * losses.std().item() / 8000**0.5)


def test_the_interval_is_that_of_repeated_estimates(generator):
    """Where losses fall steeply over the steps, too: the first ones of Gaussian noise cost far more than the rest."""
    model = D3PM(Indifferent(16), Gaussian(16, linear_betas(50)), (2,), weighted=True)
    items = torch.randint(16, (400, 2), generator=generator)
    results = [bound(model, items, generator, num_passes=2, batch_size=400) for _ in range(60)]
    spread = 1.96 * torch.tensor([r.bits_per_dim for r in results]).std().item()
    widths = torch.tensor([r.half_width for r in results])
    assert 0.6 * spread < widths.mean().item() < 2.5 * spread


def test_the_cross_entropy_is_that_of_what_is_unknown(generator):
    """Of a network that knows nothing: log2 K for each variable, of which (T + 1) / 2T are masked."""
    items = torch.zeros(6000, 2, dtype=torch.int64)
    for name, expected in (("absorbing", 5 / 8), ("uniform", 1.0), ("gaussian", 1.0)):
        losses = D3PM(Indifferent(3), build(name, 3, 4), (2,)).losses(items, generator).cross_entropy
        assert losses.mean().item() == pytest.approx(expected * math.log2(3), abs=0.03)


def test_estimates_count_their_calls(generator):
    model, _ = tiny("uniform", 3, 4)
    items, calls = torch.zeros(7, 2, dtype=torch.int64), []
    result = bound(model, items, generator, num_passes=3, batch_size=4, on_batch=calls.append)
    assert calls == [4, 3] * 3
    assert result.estimator == "bound of 4 steps of diffusion, stratified, 3 passes"
    calls.clear()
    result = bound_all_steps(model, items, generator, batch_size=4, on_batch=calls.append)
    assert calls == [4] * 4 + [3] * 4
    assert result.estimator == "bound of 4 steps of diffusion, all of them"


# Samples


@each_tiny
def test_samples_follow_the_model(name, K, T, generator):
    model, oracle = tiny(name, K, T)
    probs = oracle.item_probs()
    *chain, draws = sample_chain(model, 8000, generator)
    counts = (draws * torch.tensor([K, 1])).sum(1).bincount(minlength=K**2)
    assert draws.max() < K
    assert_follows(counts, [probs[x] for x in oracle.items()])
    assert len(chain) == model.num_calls - 1 == T - 1


# The ARDM as the limit of many steps

D = 3
NUM_STEPS = [1, 2, 4, 16, 64, 256]


def entropy(joint: Tensor, places: Sequence[int]) -> float:
    """Of some variables of a joint distribution, in nats."""
    others = [d for d in range(D) if d not in places]
    probs = (joint.sum(others) if others else joint).flatten()
    return -(probs * probs.log()).sum().item()


def model_of(joint: Tensor) -> ARDM:
    """The ARDM that knows every conditional of a distribution of three bits."""
    depth = absorbing(2)
    network = TableNetwork(1, 3, D, 2)
    with torch.no_grad():
        for inputs in product(range(3), repeat=D):
            column = sum(2**d for d in range(D) if inputs[d] < 2)
            row = sum(value * 3**d for d, value in enumerate(inputs))
            for d in range(D):
                known = tuple(slice(None) if v == 2 or e == d else slice(v, v + 1) for e, v in enumerate(inputs))
                probs = joint[known].sum([e for e in range(D) if e != d])
                network.table[0, column, row, d] = probs.log()
    return ARDM(network, DataParametrization(depth), (D,))


def test_the_bound_falls_to_that_of_the_ardm():
    """A model of true conditionals, averaged over the data.

    In any order the ARDM's bits are the entropy. T steps cost more by what variables that meet in one tell of each
    other: all there is if T = 1, and C / T for large T. C sums over pairs, and each third variable is known by then
    with probability 1/2.
    """
    weights = torch.rand(2, 2, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64).square()
    joint = weights / weights.sum()
    model, items = model_of(joint), list(product(range(2), repeat=D))

    def mean(values: Sequence[float]) -> float:
        return math.fsum(joint[x].item() * value for x, value in zip(items, values, strict=True))

    orders = torch.tensor(list(permutations(range(D))))[:, None]
    bits = [exact_bits(model, torch.tensor([x] * 6), orders, full_schedule(D)).mean().item() for x in items]
    assert mean(bits) * math.log(2) == pytest.approx(entropy(joint, [0, 1, 2]))

    bounds = [mean([expected_nats(from_ardm(model, T), x) for x in items]) for T in NUM_STEPS]
    excess = [each - entropy(joint, [0, 1, 2]) for each in bounds]
    assert bounds[0] == pytest.approx(sum(entropy(joint, [d]) for d in range(D)))
    assert all(fewer > more for fewer, more in pairwise(excess))
    assert excess[-1] > 0
    C = sum(
        (entropy(joint, [i]) + entropy(joint, [j]) - entropy(joint, [i, j])) / 2
        + (entropy(joint, [i, k]) + entropy(joint, [j, k]) - entropy(joint, [i, j, k]) - entropy(joint, [k])) / 2
        for i, j in combinations(range(D), 2)
        for k in {*range(D)} - {i, j}
    )
    assert C > 0.05
    assert [e * T for e, T in zip(excess[-2:], NUM_STEPS[-2:], strict=True)] == pytest.approx([C, C], rel=0.02)


@pytest.mark.parametrize("name", ["oa-2", "oa-3-in-data"])
def test_every_item_costs_the_same_in_the_limit(name):
    """Any table at all: conditionals that fit no distribution, with a mask of its own or one among the data."""
    case = CASES[name]()
    for x in case.items()[1::3]:
        exact = case.mean_nats(x)
        few, many = (expected_nats(from_ardm(case.model, T), x) for T in (64, 256))
        assert (4 * many - few) / 3 == pytest.approx(exact, abs=3e-4)  # what is left if the excess is C / T
        assert many == pytest.approx(exact, abs=0.02)


def test_changing_the_steps_keeps_the_network():
    model = from_ardm(CASES["oa-3-in-data"]().model, 5)
    other = model.with_steps(9)
    assert other.network is model.network
    assert (model.process.num_steps, other.process.num_steps) == (5, 9)
    assert (other.process.num_classes, other.process.mask_value) == (3, 1)


# Training


@each_process
@each_form
def test_one_batch_can_be_learnt_by_heart(name, weighted, generator):
    config = PaperTransformerConfig(num_layers=1, width=32, num_heads=2, mlp_width=64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = PaperTransformer(config, num_values=5, num_outputs=4)
    model = D3PM(Flat(network), build(name, 4, 8), (2, 3, 1), weighted=weighted)
    x = torch.tensor([[0, 3, 1, 1, 2, 0]]).expand(32, -1)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    before = bound_all_steps(model, x, generator).bits_per_dim
    for _ in range(70):
        loss = model.losses(x, generator).bits_per_dim.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    after = bound_all_steps(model, x, generator).bits_per_dim
    assert before > 1.8
    assert after < before / 5


class Flat(nn.Module):
    """A network of rows for items of any shape."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor) -> Tensor:
        assert inputs.shape[1:] == mask.shape[1:] == (2, 3, 1)
        return self.network(inputs.flatten(1), mask.flatten(1), stage, t).view(*inputs.shape, -1)


# Errors


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Absorbing(1, 5), "at least 2 classes, got 1"),
        (lambda: Absorbing(5, 0), "at least 1 step, got 0"),
        (lambda: Uniform(1, cosine_alpha_bar(3)), "at least 2 classes, got 1"),
        (lambda: Uniform(3, torch.empty(0)), "at least 1 step, got 0"),
        (lambda: Uniform(3, torch.tensor([0.5, 0.5])), "must fall in every step, from below 1"),
        (lambda: Uniform(3, torch.tensor([1.0, 0.5])), "must fall in every step, from below 1"),
        (lambda: Uniform(3, torch.tensor([0.5, -0.1])), "must fall in every step, from below 1"),
        (lambda: Gaussian(1, linear_betas(3)), "at least 2 classes, got 1"),
        (lambda: Gaussian(3, torch.tensor([0.1, 0.0])), "beta must be positive and finite, got 0.0"),
        (lambda: Gaussian(3, torch.tensor([0.1, math.inf])), "beta must be positive and finite"),
        (lambda: cosine_alpha_bar(0), "at least 1 step, got 0"),
        (lambda: linear_betas(-1), "at least 1 step, got -1"),
        (lambda: D3PM(Indifferent(3), Absorbing(3, 5), ()), r"a shape of at least one variable, got \(\)"),
        (lambda: D3PM(Indifferent(3), Absorbing(3, 5), (2, 0)), r"a shape of at least one variable, got \(2, 0\)"),
        (lambda: tiny("uniform", 2, 3)[0].with_steps(5), "only a D3PM with the absorbing process"),
        (lambda: tiny("absorbing", 2, 3)[0].with_steps(0), "at least 1 step, got 0"),
        (lambda: from_ardm(CASES["base2-4-data"]().model, 3), "only a one-stage ARDM with a logit for each class"),
    ],
)
def test_processes_and_models_that_cannot_be(make, text):
    with pytest.raises(ValueError, match=text) as error:
        make()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        ([[0, 1, 1]], r"at least one item of 2 variables, got shape \(1, 3\)"),
        (torch.empty(0, 2, dtype=torch.long), r"at least one item of 2 variables, got shape \(0, 2\)"),
        ([[0, 2]], r"values must lie in 0\.\.1, got 0\.\.2"),
        ([[0, -1]], r"values must lie in 0\.\.1, got -1\.\.0"),
    ],
)
def test_items_that_cannot_be_scored(x, text, generator):
    model, _ = tiny("absorbing", 2, 3)
    for score in (lambda *a: bound(model, *a), lambda *a: bound_all_steps(model, *a)):
        with pytest.raises(ValueError, match=text):
            score(torch.as_tensor(x), generator)


def test_outputs_and_passes_that_do_not_fit(generator):
    x = torch.tensor([[0, 1]])
    with pytest.raises(ValueError, match="expected 3 logits for each variable, got 4"):
        D3PM(Indifferent(4), Absorbing(3, 5), (2,)).losses(x, generator)
    with pytest.raises(ValueError, match="at least one pass, got 0"):
        bound(tiny("absorbing", 2, 3)[0], x, generator, num_passes=0)


def test_only_an_items_own_impossible_variables_cost_infinitely_much(generator):
    """-inf logits at variables that are not masked must not turn into NaN."""
    model, _ = tiny("absorbing", 2, 2)
    with torch.no_grad():
        model.network.table[..., 1, 1] = -math.inf  # the second variable is never 1
    items = torch.tensor([[0, 0], [0, 1]]).repeat(20, 1)
    result = torch.stack([model.losses(items, generator).bits_per_dim for _ in range(5)])
    assert not result.isnan().any()
    assert result[:, ::2].isfinite().all()
    assert result[:, 1::2].isinf().any()
