"""Autoregressive baselines: probabilities by enumeration, nothing leaks, all that came before matters.

The oracle takes one conditional at a time: a call in which everything that must not matter is scrambled.
"""

import math
from dataclasses import replace
from itertools import permutations, product

import pytest
import torch
from table_model import assert_follows
from torch import Tensor, nn

from ardm.baselines.causal import Autoregressive, sample, sample_chain, score
from ardm.baselines.transformers import CausalTransformer, OATransformer, position_codes
from ardm.baselines.wavenet import CausalWaveNet
from ardm.config import PaperTransformerConfig, PaperWaveNetConfig, TransformerConfig
from ardm.depth import BaseDepthMap, absorbing
from ardm.nn import PaperTransformer, PaperWaveNet, Transformer
from ardm.nn.paper_wavenet import Convolution
from ardm.nn.transformer import Attention, Depthwise, Rotation, rotary_angles, rotary_angles_at
from ardm.parametrizations import (
    CompandedMixtureParametrization,
    DataParametrization,
    DirectParametrization,
    LogisticMixtureParametrization,
    Parametrization,
)
from ardm.train.optim import is_hidden_matrix

OURS = TransformerConfig(num_layers=2, width=16, head_width=8, mlp_ratio=2)
PAPER = PaperTransformerConfig(num_layers=2, width=16, num_heads=2, mlp_width=32)
SOUND = PaperWaveNetConfig(num_blocks=4, width=8, dilation_cycle=3)
REACH = 2 * (1 + 2 + 4 + 1)  # how far back four blocks see; the input's convolution sees two more

NETWORKS = {
    "ours": lambda **sizes: CausalTransformer(OURS, **sizes),
    "ours-mixed": lambda **sizes: CausalTransformer(replace(OURS, kernel=3), **sizes),
    "paper": lambda **sizes: CausalTransformer(PAPER, **sizes),
    "sound": lambda **sizes: CausalWaveNet(SOUND, **sizes),
    "oa-ours": lambda **sizes: OATransformer(OURS, **sizes),
    "oa-paper": lambda **sizes: OATransformer(PAPER, **sizes),
}
PERMUTED = ["oa-ours", "oa-paper"]
each_network = pytest.mark.parametrize("name", NETWORKS)
each_permuted = pytest.mark.parametrize("name", PERMUTED)


def fresh(name: str, length: int, parametrization: Parametrization) -> Autoregressive:
    """A model as training starts with it."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = NETWORKS[name](num_values=parametrization.depth.num_values, num_outputs=parametrization.num_outputs)
    return Autoregressive(network, parametrization, (length,))


def build(name: str, num_classes: int, length: int, parametrization: Parametrization | None = None) -> Autoregressive:
    """A model in float64 whose weights are all drawn, as those that begin at zero would hide what lies before."""
    model = fresh(name, length, parametrization or DataParametrization(absorbing(num_classes))).double()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.4)
    return model


# Enumeration

K, D = 3, 3
ITEMS = torch.tensor(list(product(range(K), repeat=D)))
ORDERS = list(permutations(range(D)))


def orders_of(model: Autoregressive) -> list[tuple[int, ...]]:
    return ORDERS if model.is_permuted else ORDERS[:1]


def conditional(model: Autoregressive, x: list[int], order: tuple[int, ...], place: int) -> float:
    """p(x at a place | x before it), from a call that knows nothing else; the rest is noise."""
    tokens = [K] + [x[order[d]] for d in range(place)]
    tokens += [(7 * d + place) % (K + 1) for d in range(len(tokens), D)]
    with torch.no_grad():
        logits = model.network(torch.tensor([tokens]), torch.tensor([order]))[0, place].tolist()
    return math.exp(logits[x[order[place]]]) / math.fsum(math.exp(logit) for logit in logits)


def enumerated(model: Autoregressive, order: tuple[int, ...]) -> list[float]:
    """p(x | order) of every item, as a product of conditionals."""
    return [math.prod(conditional(model, x, order, d) for d in range(D)) for x in ITEMS.tolist()]


@each_network
def test_bits_are_those_of_a_product_of_conditionals(name):
    model = build(name, K, D)
    for order in orders_of(model):
        given = torch.tensor(order).expand_as(ITEMS) if model.is_permuted else None
        probs = (-model.bits(ITEMS, given)).exp2().tolist()
        assert math.fsum(probs) == pytest.approx(1, abs=1e-12)
        assert probs == pytest.approx(enumerated(model, order), rel=1e-9)
    assert max(probs) > 2 * min(probs)


@each_permuted
def test_without_an_order_a_permuted_network_goes_left_to_right(name):
    model = build(name, K, D)
    assert torch.equal(model.bits(ITEMS), model.bits(ITEMS, torch.arange(D).expand_as(ITEMS)))


@each_permuted
def test_each_order_has_a_distribution_of_its_own(name):
    model = build(name, K, D)
    bits = torch.stack([model.bits(ITEMS, torch.tensor(order).expand_as(ITEMS)) for order in ORDERS])
    assert (bits.std(0) > 0.01).all()


@each_network
def test_a_score_is_the_mean_over_orders(name, generator):
    model = build(name, K, D)
    x = ITEMS[torch.randint(len(ITEMS), (40,), generator=generator)]
    expected = [-math.log2(p) for order in orders_of(model) for p in enumerated(model, order)]
    table = torch.tensor(expected).view(-1, len(ITEMS)).mean(0)
    mean = table[(x * torch.tensor([9, 3, 1])).sum(1)].mean().item() / D
    seen: list[int] = []
    estimate = score(model, x, generator, num_passes=200, batch_size=16, on_batch=seen.append)
    assert estimate.is_exact is not model.is_permuted
    assert estimate.estimator == (
        "mean over random orders, 200 passes" if model.is_permuted else "exact, left to right"
    )
    assert estimate.bits_per_dim == pytest.approx(mean, abs=0.01 if model.is_permuted else 1e-6)
    assert seen == [16, 16, 8] * (200 if model.is_permuted else 1)
    assert estimate.num_items == 40


@each_permuted
def test_a_loss_meets_all_orders_alike(name, generator):
    model = build(name, K, D)
    x = ITEMS[5].expand(6000, -1)
    expected = [
        -math.log2(math.prod(conditional(model, ITEMS[5].tolist(), o, d) for d in range(D))) / D for o in ORDERS
    ]
    losses = model.losses(x, generator).bits_per_dim.detach()
    counts = torch.tensor([(losses - one).abs().lt(1e-6).sum() for one in expected])
    assert_follows(counts, [1 / len(ORDERS)] * len(ORDERS))


@each_network
def test_samples_follow_the_enumerated_distribution(name, generator):
    model = build(name, K, D)
    seen = list(sample_chain(model, 20_000, generator))
    x = seen[-1]
    counts = (x * torch.tensor([9, 3, 1])).sum(1).bincount(minlength=len(ITEMS))
    rows = [enumerated(model, order) for order in orders_of(model)]
    assert_follows(counts, [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)])
    for state, number in zip(seen, (1, 2, 3), strict=True):
        assert (state.eq(K).sum(1) == D - number).all()
        assert torch.equal(state[state != K], x[state != K])


# What each place sees

LENGTH, CLASSES = 24, 5


@each_network
def test_a_place_sees_what_came_before_and_nothing_else(name, generator):
    """Every token is changed in turn; outputs change at its place and after it, as far as a network reaches."""
    model = build(name, CLASSES, LENGTH)
    order = model.draw_orders(1, generator)
    tokens = torch.randint(CLASSES, (1, LENGTH), generator=generator)
    changed = tokens.repeat(LENGTH, 1)
    changed.diagonal().add_(2).remainder_(CLASSES)
    outputs = model.network(torch.cat((tokens, changed)), order.expand(LENGTH + 1, -1))
    differs = ((outputs[1:] - outputs[0]).abs().amax(-1) > 1e-9).tolist()  # [token][place]
    reach = [REACH] + [REACH + 2] * (LENGTH - 1) if name == "sound" else [LENGTH] * LENGTH  # a start has no samples
    assert differs == [[0 <= place - token <= reach[token] for place in range(LENGTH)] for token in range(LENGTH)]


@each_network
def test_no_value_changes_its_own_place_or_those_before(name, generator):
    """The same of whole models, by the items instead of tokens; the last value is an input of nothing."""
    model = build(name, CLASSES, LENGTH)
    order = model.draw_orders(1, generator)
    x = torch.randint(CLASSES, (1, LENGTH), generator=generator)
    outputs = model.outputs(x, order)[0]
    for place in range(LENGTH):
        other = x.clone()
        other[0, order[0, place]] = (x[0, order[0, place]] + 1) % CLASSES
        differs = ((model.outputs(other, order)[0] - outputs).abs().amax(-1) > 1e-9).tolist()
        assert not any(differs[: place + 1])
        assert place == LENGTH - 1 or differs[place + 1]


@each_permuted
@pytest.mark.parametrize("place", [0, 10, LENGTH - 2])
def test_outputs_depend_on_the_targets_position_and_on_the_tokens(name, place, generator):
    """Two places change their targets; from the second on, tokens lie elsewhere too."""
    model = build(name, CLASSES, LENGTH)
    tokens = torch.randint(CLASSES, (1, LENGTH), generator=generator)
    order = torch.arange(LENGTH)[None]
    swapped = order.clone()
    swapped[0, [place, place + 1]] = order[0, [place + 1, place]]
    difference = (model.network(tokens, swapped) - model.network(tokens, order)).abs().amax(-1)[0]
    assert (difference[:place] == 0).all()
    assert (difference[place:] > 1e-4).all()


@each_permuted
def test_a_tokens_position_matters_to_all_later_places(name, generator):
    """Two variables of one value trade their places in the order: tokens stay the same, their positions do not."""
    model = build(name, CLASSES, LENGTH)
    x, order = torch.randint(CLASSES, (1, LENGTH), generator=generator), torch.arange(LENGTH)[None]
    moved = order.clone()
    moved[0, [3, 20]] = order[0, [20, 3]]
    x[0, 20] = x[0, 3]
    difference = (model.outputs(x, moved) - model.outputs(x, order)).abs().amax(-1)[0]
    assert (difference[:3] == 0).all()
    assert (difference[3:] > 1e-5).all()


def test_queries_are_turned_by_targets_and_keys_by_tokens():
    network = build("oa-ours", CLASSES, 4).network
    seen = []
    network.blocks[1].register_forward_pre_hook(lambda _, args: seen.extend(args[1:]))
    network(torch.tensor([[CLASSES, 0, 1, 2]]), torch.tensor([[2, 0, 3, 1]]))
    for rotation, positions in zip(seen, ([2, 0, 3, 1], [-1, 2, 0, 3]), strict=True):
        expected = rotary_angles_at(torch.tensor(positions), 8, torch.zeros(1).double())
        assert all(torch.equal(part[0, 0], one) for part, one in zip(rotation, expected, strict=True))


def test_position_codes_are_those_of_target_and_token():
    codes = position_codes(torch.tensor([[2, 0, 1]]), 8)
    frequencies = [1.0, 1e-4]

    def code(position: int) -> list[float]:
        return [math.sin(position * f) for f in frequencies] + [math.cos(position * f) for f in frequencies]

    expected = [code(2) + [0.0] * 4, code(0) + code(2), code(1) + code(0)]
    torch.testing.assert_close(codes[0], torch.tensor(expected))


# Learning


@each_network
def test_one_batch_is_learnt_by_heart(name, generator):
    """Four items that differ in all their values: after the first one, nothing is left to guess."""
    model = fresh(name, 8, DataParametrization(absorbing(8)))
    x = (torch.randint(8, (8,), generator=generator) + torch.arange(4)[:, None]) % 8
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(500 if model.is_permuted else 150):
        loss = model.losses(x.repeat(8, 1), generator).bits_per_dim.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() == pytest.approx(2 / 8, abs=0.1)  # which of the four, once; at random it would be 3


@each_network
def test_gradients_reach_every_parameter(name, generator):
    model = build(name, CLASSES, LENGTH)
    x = torch.randint(CLASSES, (64, LENGTH), generator=generator)
    model.losses(x, generator).bits_per_dim.mean().backward()
    assert [n for n, p in model.named_parameters() if p.grad is None or p.grad.abs().max() == 0] == []


@pytest.mark.parametrize("name", ["ours", "ours-mixed", "sound", "oa-ours"])
def test_training_starts_from_uniform_probabilities(name, generator):
    model = fresh(name, LENGTH, DataParametrization(absorbing(CLASSES)))
    x = torch.randint(CLASSES, (3, LENGTH), generator=generator)
    bits = model.losses(x, generator).bits_per_dim
    torch.testing.assert_close(bits, torch.full((3,), math.log2(CLASSES)))


# Sound

MIXTURES = {"logistic": LogisticMixtureParametrization, "companded": CompandedMixtureParametrization}
each_mixture = pytest.mark.parametrize("kind", MIXTURES)
VALUES = 16


def sound(kind: str, length: int) -> Autoregressive:
    """A model of sound in few classes, whose start is hidden by a class of the data."""
    return build("sound", VALUES, length, MIXTURES[kind](absorbing(VALUES, VALUES // 2), 3, -6.0))


class Whole(nn.Module):
    """A network that cannot go from sample to sample."""

    is_permuted = False

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor, order: Tensor) -> Tensor:
        return self.network(tokens, order)


@each_mixture
@pytest.mark.parametrize("value", [None, 2])
def test_mixtures_sum_to_one_and_are_sampled(kind, value, generator):
    model = build("sound", 5, D, MIXTURES[kind](absorbing(5, value), 3, -6.0))
    items = torch.tensor(list(product(range(5), repeat=D)))
    probs = (-model.bits(items)).exp2().tolist()
    assert math.fsum(probs) == pytest.approx(1, abs=1e-12)
    x = sample(model, 50_000, generator)
    assert_follows((x * torch.tensor([25, 5, 1])).sum(1).bincount(minlength=125), probs)


@each_mixture
def test_sampling_sample_by_sample_equals_the_naive_way(kind, generator):
    """The same draws, and outputs alike, on clips longer than the network sees; no call of the whole network."""
    model, length = sound(kind, 50), 50
    whole = Autoregressive(Whole(model.network), model.parametrization, (length,))
    clips = [sample(one, 4, generator.manual_seed(3)) for one in (model, whole)]
    assert torch.equal(*clips)
    assert clips[0].unique().numel() > VALUES // 2

    order = torch.arange(length).expand_as(clips[0])
    expected = whole.outputs(clips[0], order)
    step = model.network.incremental()
    model.network.register_forward_hook(lambda *call: pytest.fail("the whole network was called"))
    tokens = torch.cat((torch.full((4, 1), VALUES // 2), clips[0][:, :-1]), dim=1)
    outputs = torch.stack([step(token) for token in tokens.T], dim=1)
    torch.testing.assert_close(outputs, expected, rtol=1e-10, atol=1e-12)
    sample(model, 1, generator)


def test_a_sample_costs_the_same_wherever_it_lies(generator):
    """What is kept of the past does not grow: twice the dilation for each convolution."""
    network = sound("logistic", 50).network
    step = network.incremental()
    for number in range(100):
        step(torch.randint(VALUES, (2,), generator=generator))
        kept = [len(one.past) for one in (step.input_convolution, *step.convolutions)]
        assert kept == [2, 2, 4, 8, 2], number


def test_a_start_is_hidden_and_all_other_samples_are_not(generator):
    model = sound("logistic", LENGTH)
    seen = []
    model.network.input.convolution.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    x = torch.randint(VALUES, (2, LENGTH), generator=generator)
    model.bits(x)
    values, mask = seen[0].unbind(-1)
    assert (mask == (torch.arange(LENGTH) > 0)).all()
    torch.testing.assert_close(values[:, 1:], 2 * x[:, :-1].double() / VALUES - 1)
    assert (values[:, 0] == 0).all()


def test_sound_ends_in_full_precision(generator):
    """Under autocast too, sample by sample as well."""
    model = fresh("sound", LENGTH, LogisticMixtureParametrization(absorbing(2**16, 2**15), 3, -12.0))
    x = torch.randint(2**16, (2, LENGTH), generator=generator)
    with torch.autocast("cpu", torch.bfloat16):
        assert model.outputs(x, torch.arange(LENGTH).expand_as(x)).dtype == torch.float32
        assert model.network.incremental()(x[:, 0]).dtype == torch.float32
        assert sample(model, 2, generator).shape == (2, LENGTH)


# The blocks that ARDMs have too


def attention_by_hand(layer: Attention, x: Tensor, rotations: tuple[Rotation, Rotation], *, causal: bool) -> Tensor:
    """Softmax over what a variable sees, head by head."""
    length, mixed = x.shape[1], torch.zeros_like(x)
    for head in range(x.shape[2] // layer.head_width):
        rows = slice(head * layer.head_width, (head + 1) * layer.head_width)
        query, key, value = (x @ part[rows].T for part in layer.query_key_value)
        query, key = (turned(part, *rotation) for part, rotation in zip((query, key), rotations, strict=True))
        scores = query @ key.mT * layer.head_width**-0.5
        if causal:
            scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
        mixed[..., rows] = scores.softmax(-1) @ value
    return mixed @ layer.output.weight.T


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Normalised pairs, turned as complex numbers."""
    x = x / x.square().mean(-1, keepdim=True).sqrt()
    first, second = x.chunk(2, dim=-1)
    pairs = torch.complex(first, second) * torch.complex(cos, sin)
    return torch.cat((pairs.real, pairs.imag), dim=-1)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_what_its_formula_says(causal, generator):
    layer = Attention(16, 8, causal=causal).double()
    nn.init.normal_(layer.output.weight, generator=generator)
    x = torch.randn(2, 9, 16, generator=generator, dtype=torch.float64)
    rotation, other = rotary_angles(9, 8, x), rotary_angles_at(torch.arange(9).flip(0), 8, x)
    for rotations in ((rotation,), (rotation, other)):
        both = (rotations[0], rotations[-1])
        torch.testing.assert_close(layer(x, *rotations), attention_by_hand(layer, x, both, causal=causal))


def test_a_causal_depthwise_convolution_looks_back(generator):
    x, layer = torch.randn(2, 9, 4, generator=generator), Depthwise(4, 5, causal=True)
    padded = nn.functional.pad(x.mT, (4, 0))
    torch.testing.assert_close(layer(x), nn.functional.conv1d(padded, layer.weight.t()[:, None], groups=4).mT)
    assert layer.weight[-1].mean() > layer.weight[:-1].mean() + 0.4  # at first mostly the variable itself


@pytest.mark.parametrize("dilation", [1, 4])
def test_a_causal_convolution_looks_back(dilation, generator):
    x, layer = torch.randn(2, 12, 3, generator=generator), Convolution(3, 5, dilation=dilation, causal=True)
    before = nn.functional.pad(x, (0, 0, 2 * dilation, 0))
    taps = (before[:, k * dilation : k * dilation + 12] @ layer.weight[:, :, 0, k].T for k in range(3))
    torch.testing.assert_close(layer(x), sum(taps) + layer.bias)


@pytest.mark.parametrize("config", [OURS, replace(OURS, kernel=3), PAPER, SOUND])
def test_baselines_have_the_weights_of_the_ardms_network(config):
    """The same names, sizes and, for Transformers, first draws; a causal WaveNet has no step."""
    ardm, baseline = {
        TransformerConfig: (Transformer, CausalTransformer),
        PaperTransformerConfig: (PaperTransformer, CausalTransformer),
        PaperWaveNetConfig: (PaperWaveNet, CausalWaveNet),
    }[type(config)]
    weights = []
    for network in (ardm, baseline):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            built = network(config, num_values=6, num_outputs=5)
        weights.append({n: p for n, p in built.named_parameters() if not n.startswith("step") and ".step." not in n})
    assert [*weights[0]] == [*weights[1]]
    assert [p.shape for p in weights[0].values()] == [p.shape for p in weights[1].values()]
    if config is OURS or config is PAPER:
        assert all(torch.equal(p, weights[1][n]) for n, p in weights[0].items())


def test_positions_of_any_shape_are_turned_as_a_line_is():
    positions = torch.tensor([[3, 0, 2], [1, 1, 5]])
    line = rotary_angles(6, 8, torch.zeros(1))
    for part, expected in zip(rotary_angles_at(positions, 8, torch.zeros(1)), line, strict=True):
        assert torch.equal(part, expected[positions])


@pytest.mark.parametrize("name", ["ours-mixed", "oa-ours"])
def test_muon_finds_the_matrices_inside_blocks(name):
    network = fresh(name, LENGTH, DataParametrization(absorbing(CLASSES))).network
    hidden = {n.split(".", 2)[2] for n, p in network.named_parameters() if is_hidden_matrix(n, p)}
    assert hidden == {"attention.query_key_value", "attention.output.weight", "expand.weight", "contract.weight"}


# Errors


def test_what_makes_no_sense_is_refused(generator):
    data = DataParametrization(absorbing(CLASSES))
    network = build("ours", CLASSES, LENGTH).network
    with pytest.raises(ValueError, match="has one stage, got 3"):
        Autoregressive(network, DataParametrization(BaseDepthMap(CLASSES, 2)), (LENGTH,))
    with pytest.raises(ValueError, match="a shape of at least one variable"):
        Autoregressive(network, data, ())
    with pytest.raises(ValueError, match="needs a causal network; Transformer is not one"):
        Autoregressive(Transformer(OURS, num_values=6, num_outputs=5), data, (LENGTH,))
    with pytest.raises(ValueError, match="the kernel must be 1, got 3"):
        OATransformer(replace(OURS, kernel=3), num_values=6, num_outputs=5)
    with pytest.raises(ValueError, match="a multiple of 4, got 6"):
        OATransformer(replace(PAPER, width=6), num_values=6, num_outputs=5)
    with pytest.raises(ValueError, match="at least one pass, got 0"):
        score(build("ours", CLASSES, LENGTH), torch.zeros(1, LENGTH, dtype=torch.int64), generator, num_passes=0)


@pytest.mark.parametrize("method", ["bits", "score"])
def test_items_that_do_not_fit_are_refused(method, generator):
    model = build("ours", CLASSES, LENGTH)
    call = {"bits": model.bits, "score": lambda x: score(model, x, generator)}[method]
    with pytest.raises(ValueError, match=r"of 24 variables, got shape \(2, 23\)"):
        call(torch.zeros(2, LENGTH - 1, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"in 0\.\.4, got 5\.\.5"):
        call(torch.full((2, LENGTH), CLASSES))


def test_orders_that_do_not_fit_are_refused():
    x = torch.zeros(2, LENGTH, dtype=torch.int64)
    with pytest.raises(ValueError, match="takes no orders"):
        build("ours", CLASSES, LENGTH).bits(x, torch.arange(LENGTH).expand_as(x))
    with pytest.raises(ValueError, match="exactly once"):
        build("oa-ours", CLASSES, LENGTH).bits(x, x)


def test_digits_of_one_stage_are_logits_too():
    model = build("ours", K, D, DirectParametrization(BaseDepthMap(K, K)))
    assert (-model.bits(ITEMS)).exp2().sum().item() == pytest.approx(1)
