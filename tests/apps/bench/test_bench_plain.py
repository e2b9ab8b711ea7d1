"""The plain loop has the sizes of the preset, and learns."""

import json
import math
from dataclasses import replace

import pytest
import torch
from tiny import tiny_config, tiny_image_config

from ardm.apps.bench.plain import OwnNetwork, PlainTransformer, plain_loss, plain_network, time_plain
from ardm.apps.bench.training import MatrixRates, flops_per_item
from ardm.cli.main import main
from ardm.config import PaperTransformerConfig
from ardm.nn import PaperTransformer
from ardm.presets import PRESETS
from ardm.runtime.device import Runtime

CPU = Runtime.choose("cpu")


def test_the_transformer_has_as_many_weights_as_the_papers():
    """Of which the preset with 85 million parameters is one; PyTorch's has biases and positions beside them."""
    config = PRESETS["text8-paper"]()
    with torch.device("meta"):
        plain, own = plain_network(config, 27), PaperTransformer(config.network, num_values=28, num_outputs=27)
    numbers = [sum(p.numel() for p in network.parameters() if p.ndim > 1) for network in (plain, own)]
    assert numbers[0] == numbers[1] + 250 * 768  # positions
    assert isinstance(plain, PlainTransformer)
    assert numbers[1] == pytest.approx(85e6, rel=0.01)


def test_images_have_the_presets_network():
    network = plain_network(tiny_image_config(), 256)
    assert isinstance(network, OwnNetwork)
    x = torch.randint(256, (2, 72))
    loss = plain_loss(network, x, 256)
    assert loss.item() == pytest.approx(math.log(256), abs=1e-4)  # the head begins at zero


class Sound(torch.nn.Module):
    """A network that keeps what it is shown, and finds 3 classes equally likely."""

    def forward(self, inputs, revealed):
        self.inputs, self.revealed = inputs, revealed
        return torch.zeros(*inputs.shape, 3)


def test_hidden_values_do_not_leak():
    network, x = Sound(), torch.randint(3, (200, 4))
    loss = plain_loss(network, x, hidden_value=3)
    assert torch.equal(network.inputs == 3, ~network.revealed)
    assert torch.equal(network.inputs[network.revealed], x[network.revealed])
    assert set(network.revealed.sum(1).tolist()) == {0, 1, 2, 3}
    assert loss.item() == pytest.approx(math.log(3))


@pytest.mark.parametrize(
    "config",
    [
        tiny_config(),
        replace(tiny_config(), network=PaperTransformerConfig(num_layers=1, width=16, num_heads=2, mlp_width=32)),
        tiny_image_config(),
    ],
    ids=["text", "paper", "images"],
)
def test_timings_are_consistent(config):
    row = time_plain(config, CPU, rates=MatrixRates(burst=0.8, sustained=0.5), seconds=0.01)
    assert row.items_per_second == pytest.approx(row.batch_size / row.step_seconds)
    assert row.share == pytest.approx(row.teraflops / 0.5)
    assert row.burst_share == pytest.approx(row.teraflops / 0.8)
    assert row.teraflops == pytest.approx(row.items_per_second * flops_per_item(config, CPU) / 1e12, rel=0.3)


def test_the_table_has_both(capsys, tmp_path):
    command = ["bench", "train", "--presets", "text", "--plain", "eager", "--seconds", "0.01", "--batch-size", "1"]
    command += ["--device", "cpu"]
    assert main(command) == 0
    _, _, ours, plain, ratio = capsys.readouterr().out.splitlines()
    assert ours.startswith("text ")
    assert plain.startswith("plain loop ")
    assert ratio.startswith("text in ardm: ")
    assert main([*command, "-o", str(tmp_path / "rows.json")]) == 0
    [row] = json.loads((tmp_path / "rows.json").read_text())
    assert row["speedup"] == pytest.approx(row["items_per_second"] / row["plain"]["items_per_second"])


@pytest.mark.parametrize("flags", [["audio"], ["text", "--base", "2"]])
def test_what_the_loop_does_not_train_is_refused(flags, capsys):
    assert main(["bench", "train", "--plain", "eager", "--device", "cpu", "--presets", *flags]) == 2
    assert "order-agnostic models of text and images: leave out --plain" in capsys.readouterr().err
