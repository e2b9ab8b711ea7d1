"""The paper's U-Net: nothing hidden leaks, all inputs matter, one batch can be learnt, the full size is the paper's."""

import math

import pytest
import torch

from ardm.config import PaperUNetConfig
from ardm.depth import BaseDepthMap, absorbing
from ardm.model import ARDM
from ardm.nn.layers import StepEmbedding, sinusoids
from ardm.nn.paper_unet import PaperUNet, PixelAttention, ResBlock
from ardm.objective import corrupt, sample_step_loss, step_loss
from ardm.orders import random_orders
from ardm.parametrizations import DataParametrization, Parametrization

K = 16
SMALL = PaperUNetConfig(num_blocks=2, width=16, num_groups=4)
KINDS = ["class", "mask", "upscale", "grey"]


def parametrization(kind: str) -> Parametrization:
    """With a hidden class inside the data, a mask of its own, or two stages in base 4."""
    if kind == "upscale":
        return DataParametrization(BaseDepthMap(K, 4))
    return DataParametrization(absorbing(K, None if kind == "mask" else K // 2))


def fresh(kind: str, height: int = 8, width: int = 6) -> ARDM:
    """A model as training starts with it."""
    parameters = parametrization(kind)
    num_channels = 1 if kind == "grey" else 3
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = PaperUNet(
            SMALL,
            num_values=parameters.depth.num_values,
            num_outputs=parameters.num_outputs,
            num_stages=parameters.depth.num_stages,
            num_channels=num_channels,
        )
    return ARDM(network, parameters, (height, width, num_channels))


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
    num_variables = model.num_variables
    x = torch.randint(0, K, (4, num_variables), generator=generator)
    stage = torch.arange(4) % model.num_stages
    rank = random_orders(4, num_variables, generator)
    before = corrupt(model.depth, x, stage, torch.full((4,), num_variables // 2), rank)
    other = torch.randint(0, K, (4, num_variables), generator=generator)
    same_parent = model.depth.at_level(other, stage) == model.depth.at_level(x, stage)
    after = corrupt(model.depth, torch.where(before.mask | ~same_parent, x, other), stage, before.t, rank)
    assert not torch.equal(before.child, after.child)
    outputs = [model.outputs(c.inputs, c.mask, c.stage, c.t) for c in (before, after)]
    assert torch.equal(*outputs)


@pytest.mark.parametrize("kind", KINDS)
def test_revealed_values_matter_everywhere(kind, generator):
    model = build(kind)
    inputs = torch.randint(0, K, (1, model.num_variables), generator=generator)
    mask, zero = torch.ones_like(inputs, dtype=torch.bool), torch.zeros(1, dtype=torch.int64)
    outputs = model.outputs(inputs, mask, zero, zero)
    inputs[0, 3] = (inputs[0, 3] + 1) % K
    changed = (model.outputs(inputs, mask, zero, zero) - outputs).abs().amax(-1)
    assert (changed > 1e-5).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_mask_and_the_step_matter(kind, generator):
    model = build(kind)
    inputs = torch.full((1, model.num_variables), K // 2)
    mask, zero = torch.ones_like(inputs, dtype=torch.bool), torch.zeros(1, dtype=torch.int64)
    outputs = model.outputs(inputs, mask, zero, zero)
    assert not torch.allclose(model.outputs(inputs, ~mask, zero, zero), outputs, atol=1e-3)
    assert not torch.allclose(model.outputs(inputs, mask, zero, zero + 1), outputs, atol=1e-3)


def test_the_stage_matters_beyond_the_step():
    model = build("upscale")
    inputs = torch.zeros(1, model.num_variables, dtype=torch.int64)
    mask, zero = inputs > 0, torch.zeros(1, dtype=torch.int64)
    last = model.outputs(inputs, mask, zero, zero + model.num_variables)
    assert not torch.allclose(model.outputs(inputs, mask, zero + 1, zero), last, atol=1e-3)


def test_planes_are_normalised_values_then_the_mask_then_the_stage(generator):
    x = torch.randint(0, K, (2, 8, 6, 3), generator=generator)
    mask, stage = torch.rand(x.shape, generator=generator) < 0.5, torch.tensor([0, 1])
    planes = fresh("class").network.input._planes(x, mask, stage * 0)
    assert torch.equal(planes[..., :3], torch.where(mask, x / K - 0.5, 0.0))
    assert torch.equal(planes[..., 3:], mask.float())
    planes = fresh("upscale").network.input._planes(x, mask, stage)
    assert torch.equal(planes[..., :3], x / K - 0.5)
    assert torch.equal(planes[..., 3:6], mask.float())
    assert torch.equal(planes[..., 6:], torch.eye(2)[:, None, None].expand(2, 8, 6, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_every_parameter(kind, generator):
    model = build(kind)
    x = torch.randint(0, K, (16, model.num_variables), generator=generator)
    sample_step_loss(model, x, generator).nats.mean().backward()
    missing = [n for n, p in model.named_parameters() if p.grad is None or p.grad.abs().max() == 0]
    assert missing == []


@pytest.mark.parametrize("kind", ["class", "upscale"])
def test_one_batch_is_learnt_by_heart(kind, generator):
    model = fresh(kind)
    x = torch.randint(0, K, (2, model.num_variables), generator=generator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    stage = torch.arange(8) % model.num_stages
    for _ in range(200):
        rank = random_orders(8, model.num_variables, generator)
        t = torch.randint(16, model.num_variables, (8,), generator=generator)
        loss = step_loss(model, corrupt(model.depth, x.repeat_interleave(4, 0), stage, t, rank)).nats.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_training_starts_from_uniform_probabilities(kind, generator):
    model = fresh(kind)
    x = torch.randint(0, K, (3, model.num_variables), generator=generator)
    nats = sample_step_loss(model, x, generator).nats
    torch.testing.assert_close(nats, torch.full((3,), math.log(K) / model.num_stages))


@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 9), (16, 12)])
def test_other_sizes_work(height, width, generator):
    for kind in ("mask", "upscale", "grey"):
        model = build(kind)
        shape = (height, width, model.shape[2])
        x = torch.randint(0, K, (2, *shape), generator=generator)
        zeros = torch.zeros(2, dtype=torch.int64)
        outputs = model.network(x, x > 3, zeros, zeros)
        assert outputs.shape == (*x.shape, K)
        other = ARDM(model.network, model.parametrization, shape)
        assert torch.equal(other.outputs(x.flatten(1), x.flatten(1) > 3, zeros, zeros), outputs.flatten(1, -2))


def test_blocks_work_on_channels_last_tensors(generator):
    model = fresh("class")
    seen = []
    for block in model.network.blocks:
        block.register_forward_hook(lambda _, args, output: seen.extend((args[0], output)))
    sample_step_loss(model, torch.randint(0, K, (2, model.num_variables), generator=generator), generator)
    assert len(seen) == 2 * 7
    assert all(x.is_contiguous(memory_format=torch.channels_last) for x in seen)


def test_a_block_is_what_its_formula_says(generator, monkeypatch):
    block = ResBlock(8, 4, 2).double()
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    x, skip = torch.randn(2, 2, 4, 5, 3, generator=generator, dtype=torch.float64).unbind(1)
    step = torch.randn(2, 16, generator=generator, dtype=torch.float64)

    def norm_swish(x, norm):
        groups = x.unflatten(1, (2, -1))
        mean = groups.mean((2, 3, 4), keepdim=True)
        scale = ((groups - mean).square().mean((2, 3, 4), keepdim=True) + 1e-6).sqrt()
        x = ((groups - mean) / scale).flatten(1, 2) * norm.weight[:, None, None] + norm.bias[:, None, None]
        return x / (1 + (-x).exp())

    def convolve(x, layer):
        padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
        windows = padded.unfold(2, 3, 1).unfold(3, 3, 1)
        return torch.einsum("bihwyx,oiyx->bohw", windows, layer.weight) + layer.bias[:, None, None]

    both = torch.cat((x, skip), 1)
    h = convolve(norm_swish(both, block.first_norm), block.first) + (step @ block.step.weight.T)[:, :, None, None]
    h = convolve(norm_swish(h, block.second_norm), block.second)
    shortcut = torch.einsum("bihw,oi->bohw", both, block.shortcut.weight[..., 0, 0])
    shortcut = shortcut + block.shortcut.bias[:, None, None]
    torch.testing.assert_close(block(x, step, skip), shortcut + h)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)  # when norms are written out
    torch.testing.assert_close(block(x, step, skip), shortcut + h)


def test_attention_is_a_softmax_over_all_pixels(generator):
    attention = PixelAttention(8, 2).double()
    torch.nn.init.normal_(attention.output.weight, generator=generator)
    x = torch.randn(2, 8, 5, 3, generator=generator, dtype=torch.float64)
    pixels = attention.norm(x).permute(0, 2, 3, 1).reshape(2, 15, 8)
    query, key, value = attention.query_key_value(pixels).split(8, dim=-1)
    mixed = (query @ key.mT / math.sqrt(8)).softmax(-1) @ value
    expected = x + attention.output(mixed).view(2, 5, 3, 8).permute(0, 3, 1, 2)
    torch.testing.assert_close(attention(x), expected)


def test_the_step_runs_through_the_stages_over_a_thousand():
    step = StepEmbedding(16, num_stages=4)
    ends, starts = step(torch.arange(3), torch.full((3,), 20), 20), step(torch.arange(1, 4), torch.zeros(3).long(), 20)
    assert torch.equal(ends, starts)
    code = []
    step.first.register_forward_pre_hook(lambda _, args: code.append(args[0]))
    step(torch.tensor([0, 2, 3]), torch.tensor([0, 5, 19]), 20)
    assert torch.allclose(code[0], sinusoids(torch.tensor([0.0, 562.5, 987.5]), 16), atol=1e-4)
    expected = [f(1.5 / 10_000 ** (i / 7)) for f in (math.sin, math.cos) for i in range(8)]
    assert sinusoids(torch.tensor([1.5]), 16)[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("num_stages", "num_values", "num_channels"), [(1, 256, 3), (1, 257, 1), (4, 256, 3)])
def test_the_full_size_is_the_papers(num_stages, num_values, num_channels):
    with torch.device("meta"):
        network = PaperUNet(
            PaperUNetConfig(),
            num_values=num_values,
            num_outputs=256,
            num_stages=num_stages,
            num_channels=num_channels,
        )
    blocks = list(network.blocks)
    assert [block.first.in_channels for block in blocks] == (32 + 2) * [256] + 33 * [512]
    assert {block.second.out_channels for block in blocks} == {256}

    def layer(num_inputs: int, num_outputs: int) -> int:
        return (num_inputs + 1) * num_outputs

    width, step = 256, 1024
    norm = 2 * width
    narrow = norm + layer(9 * width, width) + step * width + norm + layer(9 * width, width)
    wide = narrow + norm + 9 * width * width + layer(2 * width, width)
    planes = 2 * num_channels + (num_stages if num_stages > 1 else 0)
    features = layer(9 * planes, 192) + num_values * 64 + layer(64 * num_channels, 64)
    steps = layer(width, step) + layer(step, step)
    attention = norm + 4 * layer(width, width)
    head = norm + layer(9 * width, 256 * num_channels)
    expected = features + steps + 34 * narrow + attention + 33 * wide + head
    assert sum(p.numel() for p in network.parameters()) == expected


def test_absurd_sizes_are_refused():
    with pytest.raises(ValueError, match="num_blocks must be at least 1, got 0"):
        PaperUNetConfig(num_blocks=0)
    with pytest.raises(ValueError, match="a multiple of 4, got 30"):
        PaperUNetConfig(width=30)
    with pytest.raises(ValueError, match="not a multiple of 32 groups"):
        PaperUNetConfig(width=16)
