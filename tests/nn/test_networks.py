"""Networks: nothing hidden leaks, gradients reach every parameter, one batch can be learnt by heart."""

from dataclasses import replace

import pytest
import torch

from ardm.config import PaperTransformerConfig, TransformerConfig
from ardm.depth import BaseDepthMap, absorbing
from ardm.model import ARDM
from ardm.nn import PaperTransformer, Transformer
from ardm.nn.transformer import Depthwise, rotary_angles, rotate
from ardm.objective import corrupt, sample_step_loss, step_loss
from ardm.orders import random_orders
from ardm.parametrizations import DataParametrization, Parametrization
from ardm.presets import PRESETS

D, K = 12, 5
SMALL = TransformerConfig(num_layers=2, width=32, head_width=16)
SMALL_PAPER = PaperTransformerConfig(num_layers=2, width=32, num_heads=2, mlp_width=64)


each_kind = pytest.mark.parametrize("kind", ["ours", "upscale", "mixed", "paper", "paper-upscale"])


def build(kind: str) -> ARDM:
    parametrization: Parametrization = DataParametrization(BaseDepthMap(K, 2) if "upscale" in kind else absorbing(K))
    depth = parametrization.depth
    shape = {
        "num_values": depth.num_values,
        "num_outputs": parametrization.num_outputs,
        "num_stages": depth.num_stages,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        own = replace(SMALL, kernel=5) if kind == "mixed" else SMALL
        network = PaperTransformer(SMALL_PAPER, **shape) if "paper" in kind else Transformer(own, **shape)
        for parameter in network.parameters():  # zero-initialised parts would hide what lies before them
            torch.nn.init.normal_(parameter, std=0.2)
    return ARDM(network, parametrization, (D,))


@each_kind
def test_hidden_values_do_not_leak(kind, generator):
    model = build(kind)
    x = torch.randint(0, K, (6, D), generator=generator)
    stage = torch.arange(6) % model.num_stages
    rank = random_orders(6, D, generator)
    before = corrupt(model.depth, x, stage, torch.full((6,), 7), rank)
    other = torch.randint(0, K, (6, D), generator=generator)
    same_parent = model.depth.at_level(other, stage) == model.depth.at_level(x, stage)
    after = corrupt(model.depth, torch.where(before.mask | ~same_parent, x, other), stage, before.t, rank)
    assert not torch.equal(before.child, after.child)
    outputs = [model.outputs(c.inputs, c.mask, c.stage, c.t) for c in (before, after)]
    assert torch.equal(*outputs)


@each_kind
def test_revealed_values_matter_everywhere(kind, generator):
    model = build(kind)
    inputs = torch.randint(0, K, (1, D), generator=generator)
    mask, zero = torch.ones(1, D, dtype=torch.bool), torch.zeros(1, dtype=torch.int64)
    outputs = model.outputs(inputs, mask, zero, zero + D)
    inputs[0, 3] = (inputs[0, 3] + 1) % K
    changed = (model.outputs(inputs, mask, zero, zero + D) - outputs).abs().amax(-1)
    assert (changed > 1e-4).all()


@each_kind
def test_gradients_reach_every_parameter(kind, generator):
    model = build(kind)
    x = torch.randint(0, K, (64, D), generator=generator)
    sample_step_loss(model, x, generator).nats.mean().backward()
    missing = [n for n, p in model.named_parameters() if p.grad is None or p.grad.abs().max() == 0]
    assert missing == []


@each_kind
def test_one_batch_is_learnt_by_heart(kind, generator):
    model = build(kind)
    x = torch.randint(0, K, (2, D), generator=generator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    stage = torch.arange(32) % model.num_stages
    for _ in range(250):
        rank, t = random_orders(32, D, generator), torch.randint(6, D, (32,), generator=generator)
        loss = step_loss(model, corrupt(model.depth, x.repeat(16, 1), stage, t, rank)).nats.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


@pytest.mark.parametrize("length", [1, 7, 40])
def test_other_lengths_work(length, generator):
    inputs = torch.randint(0, K, (2, length), generator=generator)
    zeros = torch.zeros(2, dtype=torch.int64)
    for kind in ("ours", "mixed", "paper"):
        model = build(kind)
        other = ARDM(model.network, model.parametrization, (length,))
        assert other.outputs(inputs, inputs > 0, zeros, zeros).shape == (2, length, K)


def test_depthwise_is_a_convolution(generator):
    x, layer = torch.randn(2, 9, 4, generator=generator), Depthwise(4, 5)
    expected = torch.nn.functional.conv1d(x.mT, layer.weight.t()[:, None], padding=2, groups=4).mT
    torch.testing.assert_close(layer(x), expected)


def test_rotary_scores_depend_on_the_distance_alone(generator):
    query, key = torch.randn(2, 1, 1, 1, 16, generator=generator, dtype=torch.float64)
    cos, sin = rotary_angles(30, 16, query)
    turned = rotate(query.expand(1, 1, 30, 16), cos, sin), rotate(key.expand(1, 1, 30, 16), cos, sin)
    scores = (turned[0] @ turned[1].mT)[0, 0]
    for distance in range(-5, 6):
        diagonal = scores.diagonal(distance)
        assert torch.allclose(diagonal, diagonal[0].expand_as(diagonal), atol=1e-5)


def test_the_papers_preset_has_the_papers_size():
    config = PRESETS["text8-paper"]()
    with torch.device("meta"):
        network = PaperTransformer(config.network, num_values=28, num_outputs=27)
    attention, mlp = 4 * 768 * 768, 2 * 768 * 3072 + 3072 + 768
    blocks = 12 * (attention + mlp + 4 * 768)
    assert sum(p.numel() for p in network.parameters()) == blocks + 28 * 768 + 2 * 768 + 27 * 769


def test_absurd_sizes_are_refused():
    with pytest.raises(ValueError, match="not a multiple of the head width"):
        TransformerConfig(num_layers=1, width=100, head_width=64)
    with pytest.raises(ValueError, match="the kernel must be odd"):
        TransformerConfig(num_layers=1, width=64, kernel=4)
    with pytest.raises(ValueError, match="not a multiple of 12 heads"):
        PaperTransformerConfig(width=100)
