"""Tiny exact models of every medium, made by the real exporter from networks of random weights.

Their windows are 9 x 17 pixels, 20 samples or 16 characters: large enough to overlap.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch import nn

from ardm.checkpoint import ExactPart, TrainedModel
from ardm.compression.modelled import ContentCodec
from ardm.config import AudioData, DepthConfig, ImageData, RunConfig, TextData
from ardm.data.alphabet import Alphabet
from ardm.exact.network import ExactNetwork, SelfTest
from ardm.export import export_model
from ardm.model import ARDM
from ardm.objective import Profile
from fake_network import HashNetwork
from tiny import tiny_audio_config, tiny_config, tiny_image_config

ALPHABET = " abcdefghijklmnopqrstuvwxyzéя"
SAMPLE_RATE = 8000
DIRECT = DepthConfig(base=16, parametrization="direct")
KINDS = ("colour", "grey", "sound", "text", "bytes")


def tiny_exact_config(kind: str) -> RunConfig:
    """The configuration of a model of images, sound, text or bytes."""
    if kind in ("colour", "grey"):
        data = ImageData(kind="images", height=9, width=17, channels=3 if kind == "colour" else 1)
        return replace(tiny_image_config(DIRECT), data=data)
    if kind == "sound":
        return replace(tiny_audio_config(DIRECT), data=AudioData(kind="audio", num_variables=20))
    data = TextData(kind="characters" if kind == "text" else "bytes", num_variables=16)
    return replace(tiny_config(), data=data)


@cache
def tiny_exact(kind: str) -> TrainedModel:
    """An exact model."""
    config = tiny_exact_config(kind)
    alphabets = {"text": Alphabet(characters=ALPHABET), "bytes": Alphabet(characters=None)}
    num_classes = {"text": len(ALPHABET), "sound": 2**16}.get(kind, 256)
    generator = torch.Generator().manual_seed(7)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = config.build_model(num_classes)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5 * (parameter[0].numel() if parameter.ndim > 1 else 4) ** -0.5)
    trained = TrainedModel(
        config=config,
        alphabet=alphabets.get(kind),
        sample_rate=SAMPLE_RATE if kind == "sound" else None,
        model=model.eval(),
        profile=Profile.empty(model.num_stages, model.num_variables),
        step=0,
        data_title="random",
        data_fingerprint="",
    )
    items = torch.randint(num_classes, (6, model.num_variables), generator=generator)
    losses = np.linspace(3, 1, model.num_variables)[None].repeat(model.num_stages, 0)
    return export_model(trained, items[:4], items[4:], losses, num_calls=10)


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
