"""Our image network: nothing hidden leaks, every part matters, other sizes work."""

import pytest
import torch

from ardm.config import UNetConfig
from ardm.depth import BaseDepthMap, absorbing
from ardm.model import ARDM
from ardm.nn import UNet
from ardm.nn.unet import cosine_features, depth_to_space, pad_to_multiple, space_to_depth
from ardm.objective import corrupt, sample_step_loss, step_loss
from ardm.orders import random_orders
from ardm.parametrizations import DataParametrization, DirectParametrization, Parametrization

SHAPE = (6, 5, 3)
D, K = 90, 16
CONFIG = UNetConfig(widths=(16, 24, 32), depths=(1, 1, 2), kernel=3)

PARAMETRIZATIONS: dict[str, Parametrization] = {
    "order-agnostic": DataParametrization(absorbing(K)),
    "absorbing inside": DataParametrization(absorbing(K, K // 2)),
    "data": DataParametrization(BaseDepthMap(K, 4)),
    "direct": DirectParametrization(BaseDepthMap(K, 4)),
}


def build(kind: str, shape: tuple[int, int, int] = SHAPE) -> ARDM:
    parametrization = PARAMETRIZATIONS[kind]
    depth = parametrization.depth
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = UNet(
            CONFIG,
            num_values=depth.num_values,
            num_outputs=parametrization.num_outputs,
            num_stages=depth.num_stages,
            num_channels=shape[2],
        )
        for parameter in network.parameters():  # zero-initialised parts would hide what lies before them
            torch.nn.init.normal_(parameter, std=0.2)
    return ARDM(network, parametrization, shape)


@pytest.mark.parametrize("kind", PARAMETRIZATIONS)
def test_hidden_values_do_not_leak(kind, generator):
    model = build(kind)
    x = torch.randint(0, K, (6, D), generator=generator)
    stage, rank = torch.arange(6) % model.num_stages, random_orders(6, D, generator)
    before = corrupt(model.depth, x, stage, torch.full((6,), 40), rank)
    other = torch.randint(0, K, (6, D), generator=generator)
    same_parent = model.depth.at_level(other, stage) == model.depth.at_level(x, stage)
    after = corrupt(model.depth, torch.where(before.mask | ~same_parent, x, other), stage, before.t, rank)
    assert not torch.equal(before.child, after.child)
    outputs = [model.outputs(c.inputs, c.mask, c.stage, c.t) for c in (before, after)]
    assert torch.equal(*outputs)


@pytest.mark.parametrize("kind", PARAMETRIZATIONS)
def test_a_value_a_mask_and_a_stage_matter(kind, generator):
    model = build(kind)
    inputs, zero = torch.randint(0, K, (1, D), generator=generator), torch.zeros(1, dtype=torch.int64)
    mask = torch.rand(1, D, generator=generator) < 0.5
    outputs = model.outputs(inputs, mask, zero, zero)
    other = inputs.clone()
    other[0, 44] = (inputs[0, 44] + 1) % K
    assert (model.outputs(other, mask, zero, zero) - outputs).abs().max() > 1e-4
    flipped = mask.clone()
    flipped[0, 44] ^= True
    assert (model.outputs(inputs, flipped, zero, zero) - outputs).abs().max() > 1e-4
    if model.num_stages > 1:
        assert (model.outputs(inputs, mask, zero + 1, zero) - outputs).abs().max() > 1e-4


@pytest.mark.parametrize("kind", PARAMETRIZATIONS)
def test_gradients_reach_every_parameter(kind, generator):
    model = build(kind)
    x = torch.randint(0, K, (32, D), generator=generator)
    sample_step_loss(model, x, generator).nats.mean().backward()
    missing = [n for n, p in model.named_parameters() if p.grad is None or p.grad.abs().max() == 0]
    assert missing == []


@pytest.mark.parametrize("kind", ["order-agnostic", "direct"])
def test_one_batch_is_learnt_by_heart(kind, generator):
    model = build(kind)
    x = torch.randint(0, K, (2, D), generator=generator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    stage = torch.arange(16) % model.num_stages
    for _ in range(200):
        rank, t = random_orders(16, D, generator), torch.randint(45, D, (16,), generator=generator)
        loss = step_loss(model, corrupt(model.depth, x.repeat(8, 1), stage, t, rank)).nats.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1


@pytest.mark.parametrize("shape", [(1, 1, 3), (4, 8, 3), (7, 3, 3), (9, 2, 1)])
def test_other_sizes_work(shape, generator):
    model = build("order-agnostic", shape)
    num_variables = model.num_variables
    inputs = torch.randint(0, K, (2, num_variables), generator=generator)
    zeros = torch.zeros(2, dtype=torch.int64)
    assert model.outputs(inputs, inputs > 0, zeros, zeros).shape == (2, num_variables, K)


def test_it_is_convolutional(generator):
    """Moved by a multiple of the lowest resolution's pixel, an image far from the borders gives moved outputs."""
    model, size = build("order-agnostic", (64, 64, 1)), 4
    inputs = torch.full((1, 64, 64, 1), K)
    inputs[0, 30:34, 30:34, 0] = torch.randint(0, K, (4, 4), generator=generator)
    moved, zero = inputs.roll((size, -size), (1, 2)), torch.zeros(1, dtype=torch.int64)
    outputs = model.network(inputs, inputs < K, zero, zero)
    expected = outputs.roll((size, -size), (1, 2))[:, 24:44, 24:44]
    torch.testing.assert_close(model.network(moved, moved < K, zero, zero)[:, 24:44, 24:44], expected)


def test_space_and_depth_are_inverse(generator):
    x = torch.randn(2, 4, 6, 5, generator=generator)
    y = space_to_depth(x, (2, 2))
    assert torch.equal(y[0, 1, 2], x[0, 2:4, 4:6].flatten())
    assert torch.equal(depth_to_space(y, (2, 2)), x)
    z = space_to_depth(x.transpose(1, 2), (1, 4))
    assert torch.equal(z[1, 5, 0], x[1, :, 5].flatten())
    assert torch.equal(depth_to_space(z, (1, 4)).transpose(1, 2), x)
    assert pad_to_multiple(x, 4, 4).shape == (2, 4, 8, 5)
    assert pad_to_multiple(x, 2, 6) is x


def test_features_tell_values_apart():
    features = cosine_features(257)
    distances = torch.cdist(features, features)
    assert (distances + torch.eye(257) * 9).min() > 0.1
    assert distances[100, 101] < distances[100, 104] < distances[100, 130]
    features = cosine_features(65537)
    near, far = features[1000:1100], features[40_000:40_100]
    assert (torch.cdist(near, near) + torch.eye(100) * 9).min() > 0.05
    assert torch.cdist(near, near).max() < torch.cdist(near, far).min()


@pytest.mark.parametrize("length", [1, 16, 70])
def test_sequences_are_images_one_pixel_high(length, generator):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = UNet(CONFIG, num_values=300, num_outputs=6)
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
    inputs, stage = torch.randint(0, 256, (2, length), generator=generator), torch.zeros(2, dtype=torch.int64)
    mask = torch.rand(2, length, generator=generator) < 0.5
    mask[:, length // 2] = True
    outputs = network(inputs, mask, stage, stage)
    assert outputs.shape == (2, length, 6)
    other = inputs.clone()
    other[:, length // 2] += 1
    changed = (network(other, mask, stage, stage) - outputs).abs().amax((0, 2)) > 1e-6
    assert changed[length // 2]
    with torch.autocast("cpu", torch.bfloat16):
        assert network(inputs, mask, stage, stage).dtype == torch.float32


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"widths": (8,), "depths": (1, 2)}, "the same resolutions"),
        ({"widths": (), "depths": ()}, "the same resolutions"),
        ({"widths": (8, 0), "depths": (1, 1)}, "at least 1"),
        ({"widths": (8,), "depths": (1,), "kernel": 4}, "odd"),
    ],
)
def test_configurations_without_sense_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        UNetConfig(**fields)
