"""Tiny exact coding models, made by the real exporter from networks of random weights."""

from dataclasses import replace
from functools import cache

import torch
from tiny import tiny_config
from tiny_exact import ALPHABET
from torch import nn

from ardm.build import build_model
from ardm.checkpoint import TrainedCoding
from ardm.coding import CodingModel
from ardm.config import MethodConfig, RunConfig, TextData, TransformerConfig
from ardm.data.alphabet import Alphabet
from ardm.export import export_coding

NETWORK = TransformerConfig(num_layers=2, width=32, head_width=8, mlp_ratio=2, kernel=4 + 1)
CODING_KINDS = {
    "coding-text": ("characters", 16, NETWORK),
    "coding-bytes": ("bytes", 24, replace(NETWORK, num_layers=3, kernel=7)),
    "coding-plain": ("bytes", 6, replace(NETWORK, kernel=1)),
    "coding-long": ("bytes", 300, replace(NETWORK, num_layers=1)),
}
"""The kind of data, the length of an item and the network."""


def tiny_coding_config(kind: str) -> RunConfig:
    """The configuration of a tiny coding model."""
    data, length, network = CODING_KINDS[kind]
    data = TextData(kind=data, num_variables=length)
    return replace(tiny_config(), data=data, network=network, method=MethodConfig(name="coding"))


@cache
def tiny_float_coding(kind: str) -> TrainedCoding:
    """A coding model of random weights; at initialisation residual outputs and heads would be zero."""
    config = tiny_coding_config(kind)
    alphabet = Alphabet(characters=ALPHABET if config.data.kind == "characters" else None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = build_model(config, alphabet.num_classes)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5 * (parameter[0].numel() if parameter.ndim > 1 else 4) ** -0.5)
    assert isinstance(model, CodingModel)
    facts = {"config": config, "alphabet": alphabet, "step": 0, "data_title": "random", "data_fingerprint": ""}
    return TrainedCoding(model=model.eval(), **facts)


@cache
def tiny_exact_coding(kind: str) -> TrainedCoding:
    """Its exact form."""
    trained = tiny_float_coding(kind)
    generator = torch.Generator().manual_seed(7)
    items = torch.randint(trained.model.num_classes, (4, trained.model.num_variables), generator=generator)
    return export_coding(trained, items, calls=5, clips=[1.0])
