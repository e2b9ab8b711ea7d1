"""The paper's WaveNet: nothing hidden leaks, it sees as far as its dilations reach, the full size is the paper's."""

import math

import pytest
import torch

from ardm.config import PaperWaveNetConfig
from ardm.depth import BaseDepthMap, absorbing
from ardm.model import ARDM
from ardm.nn.paper_wavenet import GatedBlock, PaperWaveNet
from ardm.objective import corrupt, sample_step_loss, step_loss
from ardm.orders import random_orders
from ardm.parametrizations import (
    DataParametrization,
    DirectParametrization,
    LogisticMixtureParametrization,
    Parametrization,
)

K = 16
LENGTH = 40
SMALL = PaperWaveNetConfig(num_blocks=4, width=16, dilation_cycle=3)
RADIUS = 1 + 1 + 2 + 4 + 1  # the input's convolution, then four blocks
KINDS = ["class", "mask", "upscale", "direct", "logistic"]


def parametrization(kind: str) -> Parametrization:
    """With a hidden class inside the data, a mask of its own, or two stages in base 4."""
    if kind == "upscale":
        return DataParametrization(BaseDepthMap(K, 4))
    if kind == "direct":
        return DirectParametrization(BaseDepthMap(K, 4))
    if kind == "logistic":
        return LogisticMixtureParametrization(absorbing(K), 3, -9.0)
    return DataParametrization(absorbing(K, None if kind == "mask" else K // 2))


def fresh(kind: str) -> ARDM:
    """A model as training starts with it."""
    parameters = parametrization(kind)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = PaperWaveNet(
            SMALL,
            num_values=parameters.depth.num_values,
            num_outputs=parameters.num_outputs,
            num_stages=parameters.depth.num_stages,
        )
    return ARDM(network, parameters, (LENGTH,))


def build(kind: str) -> ARDM:
    """A model whose zero-initialised parts, which would hide what lies before them, are drawn anew."""
    model = fresh(kind)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        for parameter in model.parameters():
            if parameter.count_nonzero() == 0:
                torch.nn.init.normal_(parameter, std=0.2)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_values_do_not_leak(kind, generator):
    model = build(kind)
    x = torch.randint(0, K, (4, LENGTH), generator=generator)
    stage = torch.arange(4) % model.num_stages
    rank = random_orders(4, LENGTH, generator)
    before = corrupt(model.depth, x, stage, torch.full((4,), LENGTH // 2), rank)
    other = torch.randint(0, K, (4, LENGTH), generator=generator)
    same_parent = model.depth.at_level(other, stage) == model.depth.at_level(x, stage)
    after = corrupt(model.depth, torch.where(before.mask | ~same_parent, x, other), stage, before.t, rank)
    assert not torch.equal(before.child, after.child)
    outputs = [model.outputs(c.inputs, c.mask, c.stage, c.t) for c in (before, after)]
    assert torch.equal(*outputs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("position", [0, 20, 37])
def test_a_revealed_value_matters_as_far_as_the_dilations_reach(kind, position, generator):
    model = build(kind).double()
    inputs = torch.randint(0, K, (1, LENGTH), generator=generator)
    mask, zero = torch.ones_like(inputs, dtype=torch.bool), torch.zeros(1, dtype=torch.int64)
    outputs = model.outputs(inputs, mask, zero, zero)
    inputs[0, position] = (inputs[0, position] + 7) % K
    changed = (model.outputs(inputs, mask, zero, zero) != outputs).any(-1)[0]
    assert torch.equal(changed, (torch.arange(LENGTH) - position).abs() <= RADIUS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mask_and_the_step_matter(kind):
    model = build(kind)
    inputs = torch.full((1, LENGTH), K // 2)
    mask, zero = torch.ones_like(inputs, dtype=torch.bool), torch.zeros(1, dtype=torch.int64)
    outputs = model.outputs(inputs, mask, zero, zero)
    assert not torch.allclose(model.outputs(inputs, ~mask, zero, zero), outputs, atol=1e-3)
    assert not torch.allclose(model.outputs(inputs, mask, zero, zero + 1), outputs, atol=1e-3)


@pytest.mark.parametrize("kind", ["upscale", "direct"])
def test_the_stage_matters_beyond_the_step(kind):
    model = build(kind)
    inputs = torch.zeros(1, LENGTH, dtype=torch.int64)
    mask, zero = inputs > 0, torch.zeros(1, dtype=torch.int64)
    last = model.outputs(inputs, mask, zero, zero + LENGTH)
    assert not torch.allclose(model.outputs(inputs, mask, zero + 1, zero), last, atol=1e-3)


def test_planes_are_the_normalised_value_then_the_mask_then_the_stage(generator):
    x = torch.randint(0, K, (2, LENGTH), generator=generator)
    mask, stage = torch.rand(x.shape, generator=generator) < 0.5, torch.tensor([0, 1])
    planes = fresh("class").network.input.planes(x, mask, stage * 0)
    assert torch.equal(planes[..., 0], torch.where(mask, 2 * x / K - 1, 0.0))
    assert torch.equal(planes[..., 1:], mask[..., None].float())
    planes = fresh("upscale").network.input.planes(x, mask, stage)
    assert torch.equal(planes[..., 0], 2 * x / K - 1)
    assert torch.equal(planes[..., 1], mask.float())
    assert torch.equal(planes[..., 2:], torch.eye(2)[:, None].expand(2, LENGTH, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_every_parameter(kind, generator):
    model = build(kind)
    x = torch.randint(0, K, (16, LENGTH), generator=generator)
    sample_step_loss(model, x, generator).nats.mean().backward()
    missing = [n for n, p in model.named_parameters() if p.grad is None or p.grad.abs().max() == 0]
    assert missing == []


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_one_batch_is_learnt_by_heart(kind, generator):
    model = fresh(kind)
    x = torch.randint(0, K, (4, LENGTH), generator=generator)
    stage, t = torch.arange(4) % model.num_stages, torch.full((4,), LENGTH // 2)
    batch = corrupt(model.depth, x, stage, t, random_orders(4, LENGTH, generator))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(100):
        loss = step_loss(model, batch).nats.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_training_starts_from_uniform_probabilities(kind, generator):
    model = fresh(kind)
    x = torch.randint(0, K, (3, LENGTH), generator=generator)
    nats = sample_step_loss(model, x, generator).nats
    torch.testing.assert_close(nats, torch.full((3,), math.log(K) / model.num_stages))


@pytest.mark.parametrize("length", [1, 3, 100])
def test_other_lengths_work(length, generator):
    for kind in KINDS:
        model = build(kind)
        x = torch.randint(0, K, (2, length), generator=generator)
        zeros = torch.zeros(2, dtype=torch.int64)
        outputs = model.network(x, x > 3, zeros, zeros)
        assert outputs.shape == (2, length, model.parametrization.num_outputs)
        other = ARDM(model.network, model.parametrization, (length,))
        assert torch.equal(other.outputs(x, x > 3, zeros, zeros), outputs)


def test_a_part_gives_what_the_whole_gives_there(generator):
    network = build("class").double().network
    x = torch.randint(0, K, (2, 100), generator=generator)
    zeros = torch.zeros(2, dtype=torch.int64)
    whole = network(x, x > 3, zeros, zeros)[:, 20 + RADIUS : 70 - RADIUS]
    part = network(x[:, 20:70], x[:, 20:70] > 3, zeros, zeros)[:, RADIUS:-RADIUS]
    torch.testing.assert_close(part, whole)


@pytest.mark.parametrize("dilation", [1, 4, 64])
def test_a_block_is_what_its_formula_says(dilation, generator):
    block = GatedBlock(4, dilation).double()
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    x = torch.randn(2, 10, 4, generator=generator, dtype=torch.float64)
    step = torch.randn(2, 16, generator=generator, dtype=torch.float64)

    h = x + (step @ block.step.weight.T + block.step.bias)[:, None]
    taps = block.convolution.weight[:, :, 0]
    gates = []
    for i in range(10):
        neighbours = [(k, i + (k - 1) * dilation) for k in range(3)]
        seen = sum(h[:, j] @ taps[..., k].T for k, j in neighbours if 0 <= j < 10)
        gates.append(seen + block.convolution.bias)
    gates = torch.stack(gates, dim=1)
    gated = gates[..., :4].tanh() / (1 + (-gates[..., 4:]).exp())
    output = gated @ block.output.weight.T + block.output.bias
    following, skip = block(x, step)
    torch.testing.assert_close(following, (x + output[..., :4]) / 2**0.5)
    torch.testing.assert_close(skip, output[..., 4:])


def test_the_skips_are_summed_over_the_root_of_their_number(generator):
    network = build("class").double().network
    seen = []
    for block in network.blocks:
        block.register_forward_hook(lambda *call: seen.append(call[-1][1]))
    network.last.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    x, zeros = torch.randint(0, K, (2, LENGTH), generator=generator), torch.zeros(2, dtype=torch.int64)
    network(x, x > 3, zeros, zeros)
    *skips, total = seen
    assert len(skips) == 4
    torch.testing.assert_close(total, torch.stack(skips).sum(0) / 2)


def test_blocks_work_on_contiguous_features(generator):
    model = fresh("class")
    seen = []
    for block in model.network.blocks:
        block.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
        block.convolution.register_forward_hook(lambda _, args, output: seen.extend((args[0], output)))
    sample_step_loss(model, torch.randint(0, K, (2, LENGTH), generator=generator), generator)
    assert len(seen) == 3 * 4
    assert all(x.is_contiguous() for x in seen)


def test_a_table_of_sixteen_bits_has_gradients_where_it_was_looked_up(generator):
    network = PaperWaveNet(SMALL, num_values=2**16 + 1, num_outputs=3)
    x = torch.randint(0, 2**16, (2, LENGTH), generator=generator)
    x[0, :2], zeros = torch.tensor([2**16, 2**16 - 1]), torch.zeros(2, dtype=torch.int64)
    assert network(x, x < 2**16, zeros, zeros).shape == (2, LENGTH, 3)
    network.input(x, x < 2**16, zeros).square().sum().backward()
    touched = network.input.embedding.weight.grad.abs().amax(1).nonzero()[:, 0]
    assert torch.equal(touched, x.unique())


@pytest.mark.parametrize(
    ("num_stages", "num_values", "num_outputs"), [(1, 2**16, 90), (1, 2**16 + 1, 90), (8, 2**16, 32)]
)
def test_the_full_size_is_the_papers(num_stages, num_values, num_outputs):
    with torch.device("meta"):
        network = PaperWaveNet(
            PaperWaveNetConfig(), num_values=num_values, num_outputs=num_outputs, num_stages=num_stages
        )
    cycle = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]
    assert [block.convolution.dilation for block in network.blocks] == [(1, d) for d in 3 * cycle]
    assert {block.convolution.kernel_size for block in network.blocks} == {(1, 3)}

    def layer(num_inputs: int, num_outputs: int) -> int:
        return (num_inputs + 1) * num_outputs

    planes = 2 + (num_stages if num_stages > 1 else 0)
    features = layer(3 * planes, 192) + num_values * 64 + layer(64, 64)
    steps = layer(256, 1024) + layer(1024, 1024)
    block = layer(1024, 256) + layer(3 * 256, 512) + layer(256, 256) + layer(256, 256)
    head = layer(256, 256) + layer(256, num_outputs)
    assert sum(p.numel() for p in network.parameters()) == features + steps + 36 * block + head


def test_absurd_sizes_are_refused():
    with pytest.raises(ValueError, match="num_blocks must be at least 1, got 0"):
        PaperWaveNetConfig(num_blocks=0)
    with pytest.raises(ValueError, match="dilation_cycle must be at least 1, got 0"):
        PaperWaveNetConfig(dilation_cycle=0)
    with pytest.raises(ValueError, match="a multiple of 4, got 30"):
        PaperWaveNetConfig(width=30)


def test_its_ends_are_in_full_precision(generator):
    """Under autocast the outputs are float32, and a value differs from its neighbour of 2^16."""
    network = PaperWaveNet(SMALL, num_values=65536, num_outputs=6)
    inputs, mask, stage = torch.full((1, 8), 40_000), torch.ones(1, 8, dtype=torch.bool), torch.zeros(1).long()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    torch.nn.init.zeros_(network.input.embedding.weight)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = network(inputs, mask, stage, stage)
        features = [network.input(inputs + shift, mask, stage) for shift in (0, 1)]
    assert outputs.dtype == torch.float32
    assert not torch.equal(*features)
