"""Networks give the variables that are wanted what they give all of them."""

from dataclasses import replace

import pytest
import torch
from tiny import tiny_config, tiny_image_config, tiny_sound_config, tiny_upscale_config
from tiny_exact import tiny_exact

from ardm.build import build_ardm
from ardm.config import DepthConfig, PaperTransformerConfig, PaperUNetConfig, PaperWaveNetConfig, RunConfig
from ardm.model import SelectiveNetwork
from ardm.objective import sample_corruption

MIXTURES = DepthConfig(parametrization="logistic", num_components=3, absorbing_value=2**15)
CONFIGS: dict[str, RunConfig] = {
    "transformer": tiny_config(),
    "digits": tiny_upscale_config(),
    "paper-transformer": replace(
        tiny_config(), network=PaperTransformerConfig(num_layers=1, width=16, num_heads=2, mlp_width=16)
    ),
    "unet": tiny_image_config(),
    "unet-digits": tiny_image_config(DepthConfig(base=4)),
    "paper-unet": replace(tiny_image_config(), network=PaperUNetConfig(num_blocks=1, width=8, num_groups=2)),
    "sound": tiny_sound_config(),
    "paper-wavenet": replace(tiny_sound_config(MIXTURES), network=PaperWaveNetConfig(num_blocks=2, width=8)),
}


def assert_selected_like_all(model, num_wanted, generator):
    num_classes, num_variables = model.num_classes, model.num_variables
    x = torch.randint(num_classes, (3, num_variables), generator=generator)
    c = sample_corruption(model.depth, x, generator)
    where = torch.rand(3, num_variables, generator=generator).argsort(1)[:, :num_wanted]
    with torch.no_grad():
        every = model.outputs(c.inputs, c.mask, c.stage, c.t)
        some = model.outputs(c.inputs, c.mask, c.stage, c.t, where)
    assert every.std() > 0
    expected = every.gather(1, where[..., None].expand(-1, -1, every.shape[-1]))
    torch.testing.assert_close(some, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_some_outputs_are_those_of_all(kind, share, generator):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build_ardm(CONFIGS[kind], 2**16 if CONFIGS[kind].data.medium == "sound" else 256)
        for parameter in model.parameters():  # zero-initialised parts would hide what lies before them
            torch.nn.init.normal_(parameter, std=0.2)
    assert isinstance(model.network, SelectiveNetwork) == (kind != "paper-unet")  # its head is a convolution
    assert_selected_like_all(model, max(1, int(share * model.num_variables)), generator)


@pytest.mark.parametrize("kind", ["text", "colour", "sound"])
def test_some_outputs_of_exact_networks_are_those_of_all(kind, generator):
    model = tiny_exact(kind).model
    assert isinstance(model.network, SelectiveNetwork)
    assert_selected_like_all(model, 3, generator)
