"""Tiny exact models of every medium, made by the real exporter from networks of random weights.

Their windows are 9 x 17 pixels, 20 samples or 16 characters: large enough to overlap. `KINDS` are what the codec is
tested with everywhere, `VARIANTS` the other combinations of networks and depths that a model file may hold.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import torch
from fake_network import HashNetwork
from tiny import tiny_config, tiny_image_config, tiny_sound_config
from torch import nn

from ardm.build import build_ardm
from ardm.checkpoint import ExactPart, TrainedModel
from ardm.compression.content_codec import ContentCodec
from ardm.config import (
    DataConfig,
    DepthConfig,
    ImageData,
    PaperWaveNetConfig,
    RunConfig,
    SoundData,
    TextData,
    TransformerConfig,
    UNetConfig,
)
from ardm.data.alphabet import Alphabet
from ardm.exact.backends import SelfTest
from ardm.exact.network import ExactNetwork
from ardm.export import export_model
from ardm.model import ARDM
from ardm.profile import Profile

ALPHABET = " abcdefghijklmnopqrstuvwxyzéя"
SAMPLE_RATE = 8000
DIRECT = DepthConfig(base=16, parametrization="direct")
KINDS = ("colour", "grey", "sound", "text", "bytes")


def tiny_exact_config(kind: str) -> RunConfig:
    """The configuration of a model of images, sound, text or bytes."""
    if kind in VARIANTS:
        base, changes = VARIANTS[kind]
        return replace(tiny_exact_config(base), **changes)
    if kind in ("colour", "grey"):
        data = ImageData(kind="images", height=9, width=17, channels=3 if kind == "colour" else 1)
        return replace(tiny_image_config(DIRECT), data=data)
    if kind == "sound":
        return replace(tiny_sound_config(DIRECT), data=SoundData(kind="audio", num_variables=20))
    data = TextData(kind="characters" if kind == "text" else "bytes", num_variables=16)
    return replace(tiny_config(), data=data)


DEEP_UNET = UNetConfig(widths=(8, 12, 16), depths=(2, 2, 2), kernel=5, mlp_ratio=2)
DEEP_TRANSFORMER = TransformerConfig(num_layers=3, width=32, head_width=8, mlp_ratio=2)
WAVENET = PaperWaveNetConfig(num_blocks=3, width=8, dilation_cycle=2)
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "logistic": ("sound", {"depth": DepthConfig(parametrization="logistic", num_components=3)}),
    "companded": ("sound", {"depth": DepthConfig(parametrization="companded", num_components=3)}),
    "companded-grey": ("grey", {"depth": DepthConfig(parametrization="companded", min_log_scale=-7.0)}),
    "logistic-grey": ("grey", {"depth": DepthConfig(parametrization="logistic", min_log_scale=-7.0)}),
    "upscaled": ("grey", {"depth": DepthConfig(base=6)}),
    "upscaled-colour": ("colour", {"depth": DepthConfig(base=4)}),
    "odd-digits": ("colour", {"depth": DepthConfig(base=7, parametrization="direct")}),
    "one-stage": ("grey", {"depth": DepthConfig()}),
    "one-stage-colour": ("colour", {"depth": DepthConfig()}),
    "absorbing": ("colour", {"depth": DepthConfig(absorbing_value=128)}),
    "absorbing-beyond": ("text", {"depth": DepthConfig(absorbing_value=40)}),
    "absorbing-text": ("text", {"depth": DepthConfig(absorbing_value=3)}),
    "absorbing-sound": ("sound", {"depth": DepthConfig(parametrization="logistic", absorbing_value=2**15)}),
    "staged": ("text", {"depth": DepthConfig(base=3)}),
    "staged-bytes": ("bytes", {"depth": DepthConfig(base=5, parametrization="direct")}),
    "deep-text": ("text", {"network": DEEP_TRANSFORMER}),
    "mixed": ("text", {"network": replace(DEEP_TRANSFORMER, kernel=5)}),
    "deep-images": ("colour", {"network": DEEP_UNET}),
    "deep-sound": ("sound", {"network": DEEP_UNET}),
    "wavenet": ("logistic", {"network": WAVENET}),
    "wavenet-silence": ("absorbing-sound", {"network": replace(WAVENET, num_blocks=7, dilation_cycle=7)}),
    "wavenet-upscaled": ("sound", {"network": WAVENET, "depth": DepthConfig(base=2, parametrization="direct")}),
}
"""By name the kind that each resembles, and what is different."""


def alphabet_of(data: DataConfig) -> Alphabet | None:
    """The alphabet of a model of text or bytes."""
    return Alphabet(characters=ALPHABET if data.kind == "characters" else None) if data.medium == "text" else None


@cache
def tiny_exact(kind: str) -> TrainedModel:
    """An exact model."""
    config = tiny_exact_config(kind)
    alphabet, is_sound = alphabet_of(config.data), config.data.medium == "sound"
    num_classes = alphabet.num_classes if alphabet else 2**16 if is_sound else 256
    generator = torch.Generator().manual_seed(7)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = build_ardm(config, num_classes)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5 * (parameter[0].numel() if parameter.ndim > 1 else 4) ** -0.5)
    trained = TrainedModel(
        config=config,
        alphabet=alphabet,
        sample_rate=SAMPLE_RATE if is_sound else None,
        model=model.eval(),
        profile=Profile.empty(model.num_stages, model.num_variables),
        step=0,
        data_title="random",
        data_fingerprint="",
    )
    items = torch.randint(num_classes, (6, model.num_variables), generator=generator)
    losses = np.linspace(3, 1, model.num_variables)[None].repeat(model.num_stages, 0)
    calibration = items[: 1 if kind in VARIANTS else 4]  # one item has a short self-test: files stay small
    return export_model(trained, calibration, items[4:], losses, num_calls=10)


class HashCore(nn.Module):
    """A network for codecs that leaks nothing and forgets nothing (see `fake_network`)."""

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.register_buffer("place", torch.zeros(1))
        self._network = HashNetwork(num_outputs=num_outputs)

    def forward(self, inputs, mask, stage, where, ops):
        return self._network.integers(inputs, mask, stage, mask.flatten(1).sum(1), where)


@cache
def hashing_model(kind: str) -> TrainedModel:
    """A model of which every output depends on all that the network is shown."""
    trained = tiny_exact(kind)
    assert trained.exact is not None
    core, test = HashCore(trained.model.parametrization.num_outputs), trained.exact.network.test
    outputs = core(test.inputs, test.mask, test.stage, test.where, None)
    test = SelfTest(inputs=test.inputs, mask=test.mask, stage=test.stage, where=test.where, outputs=outputs)
    network = ExactNetwork(core, trained.exact.network.units, test)
    exact = ExactPart(network=network, coding=trained.exact.coding, identity=trained.exact.identity)
    return replace(trained, model=ARDM(network, trained.model.parametrization, trained.model.shape), exact=exact)


@cache
def hashing_codec(kind: str) -> ContentCodec:
    """The codec of such a model."""
    return ContentCodec(hashing_model(kind))
