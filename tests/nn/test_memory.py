"""What a training step of sound keeps for its gradients: in proportion to the clip, hardly to the number of classes."""

from dataclasses import replace

import pytest
import torch
from tiny import tiny_sound_config

from ardm.build import build_ardm
from ardm.config import DepthConfig
from ardm.objective import sample_step_loss

DEPTHS = {
    "companded": DepthConfig(parametrization="companded"),
    "upscale 4": DepthConfig(base=4, parametrization="direct"),
    "upscale 16": DepthConfig(base=16, parametrization="direct"),
}


def kept_bytes(depth: DepthConfig, num_classes: int, length: int, generator: torch.Generator) -> int:
    """Bytes of activations that a step keeps for the way back, each storage once; weights and tables do not count."""
    config = tiny_sound_config(depth)
    model = build_ardm(replace(config, data=replace(config.data, num_variables=length)), num_classes)
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers(), model.depth.levels)}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    x = torch.randint(num_classes, (2, length), generator=generator)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        sample_step_loss(model, x, generator).bits_per_dim.sum()
    return sum(kept.values())


@pytest.mark.parametrize("name", DEPTHS)
def test_memory_grows_with_the_clip_and_not_with_the_classes(name, generator):
    """256 times the classes are twice the digits: some more logits and features of a value, nothing else."""
    few, many, long = (
        kept_bytes(DEPTHS[name], num_classes, length, generator)
        for num_classes, length in ((2**8, 4000), (2**16, 4000), (2**16, 16_000))
    )
    assert many < 1.5 * few
    assert 3.9 < long / many < 4.1
