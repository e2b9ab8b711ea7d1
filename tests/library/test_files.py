"""`ardm.save` and `ardm.load`: models of one's own network, and trained ones."""

import gzip

import pytest
import torch
from own_models import Labelled, Small, as_users_call, small
from tiny import tiny_config, tiny_corpus
from tiny_exact import tiny_exact
from torch import nn

import ardm
from ardm.build import build_ardm
from ardm.checkpoint import TrainedModel, save_model
from ardm.errors import CheckpointError, UsageError
from ardm.library.items import items_of
from ardm.profile import Profile

BITS = torch.randint(2, (60, 5), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "own.safetensors"


def fitted():
    model = small(dropout=0.3, width=4)
    ardm.fit(model, BITS, steps=5, progress=False)
    return model


@pytest.mark.parametrize("network", [Small, lambda **options: Small(**options), Small(width=4)])
def test_a_model_comes_back(path, network):
    model = fitted()
    ardm.save(model, path, arguments={"width": 4})
    before = torch.random.get_rng_state()
    loaded = ardm.load(path, network=network)
    if not isinstance(network, nn.Module):
        assert torch.equal(torch.random.get_rng_state(), before)
    assert repr(loaded) == repr(model)
    assert not loaded.training
    assert torch.equal(loaded.profile.bits, model.profile.bits)
    assert loaded.plan(3) is not None
    assert loaded.score(BITS, "raster").bits.tolist() == model.score(BITS, "raster").bits.tolist()
    assert loaded.sample(4, 3, seed=1).tolist() == model.sample(4, 3, seed=1).tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda n: ardm.order_agnostic(n(3, 4), [2, 3, 3, 2], (2, 2)),
        lambda n: ardm.upscale(n(4, 4), 4, 2, 4),
        lambda n: ardm.upscale(n(3, 4), [2, 3, 3, 2], 2, 4, parametrization="data"),
        lambda n: ardm.order_agnostic(n(6, 4), 9, 4, parametrization="logistic", num_components=2, min_log_scale=-5.0),
    ],
)
def test_every_description_comes_back(path, make):
    class Sized(Small):
        def __init__(self, num_classes, num_variables):
            super().__init__(num_classes, num_variables)
            self.embedding = nn.Embedding(10, 8)

    model = make(Sized)
    ardm.save(model, path)
    loaded = ardm.load(path, network=Sized(model.ardm.parametrization.num_outputs, 4))
    assert loaded.own == model.own
    x = model.sample(5)
    assert loaded.score(x, "raster").bits.tolist() == model.score(x, "raster").bits.tolist()


def test_tied_weights_come_back(path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(3, 8)
            self.head = nn.Linear(8, 3, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, inputs, mask, stage, t):
            return self.head(self.embedding(inputs))[..., :2]

    model = ardm.order_agnostic(Tied(), 2, 5)
    ardm.save(model, path)
    loaded = ardm.load(path, network=Tied)
    assert loaded.network.head.weight is loaded.network.embedding.weight
    assert torch.equal(loaded.network.head.weight, model.network.head.weight)


def test_a_conditional_model_comes_back(path):
    model = ardm.order_agnostic(Labelled(), 2, 5)
    ardm.save(model, path, {"num_labels": 2})
    assert ardm.load(path, network=Labelled).sample(2, context=[0, 1]).shape == (2, 5)


def test_a_trained_model_with_its_new_profile_comes_back(path, tmp_path):
    """A model of float weights, trained on: its file has the new weights and the profile measured with them."""
    config, corpus = tiny_config(), tiny_corpus(tmp_path)
    ardm_model = build_ardm(config, corpus.num_classes)
    facts = {"config": config, "alphabet": corpus.alphabet, "sample_rate": None, "step": 3, "data_title": "tiny"}
    profile = Profile.empty(1, 16)
    trained = TrainedModel(model=ardm_model, profile=profile, data_fingerprint="", **facts)
    model = ardm.Model(ardm_model, items_of(trained), profile=profile, trained=trained)
    model.profile = model.score(["the cat sat on m"] * 5, passes=40).profile
    ardm.save(model, path)
    loaded = ardm.load(path)
    assert torch.equal(loaded.profile.bits, model.profile.bits)
    assert loaded.score("the cat", "raster").bits == pytest.approx(model.score("the cat", "raster").bits)
    assert loaded.sample(1, 3, seed=1) == model.sample(1, 3, seed=1)


def test_a_bundled_model_comes_back(tmp_path):
    path, model = tmp_path / "copy.model", ardm.load("text")
    ardm.save(model, path)
    loaded = ardm.load(path)
    assert repr(loaded) == repr(model) == "Model of text: 250 variables, 27 classes, 1 stage, exact"
    assert loaded.compress("the cat", calls=5) == model.compress("the cat", calls=5)


def test_what_does_not_fit_is_refused(path, tmp_path):
    ardm.save(fitted(), path, {"width": 4})
    exact = tmp_path / "exact.model"
    save_model(exact, tiny_exact("text"))
    whole = path.read_bytes()
    damaged = {
        "cut": whole[:-5],
        "changed": whole[:-1] + bytes([whole[-1] ^ 1]),
        "empty": b"",
        "zip": gzip.compress(b"a"),
    }
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
    cases = [
        (lambda: ardm.load(path), CheckpointError, "holds weights for a network of your own; give it with network="),
        (
            lambda: ardm.load(path, network=Small(width=5)),
            CheckpointError,
            "do not fit this network: size mismatch for",
        ),
        (lambda: ardm.load(path, network=nn.Linear(2, 2)), CheckpointError, "do not fit this network: Missing key"),
        (lambda: ardm.load(path, network=nn.Linear), UsageError, "cannot be made from its class"),
        (lambda: ardm.load(path, network=lambda width: 3), UsageError, "a network is a torch.nn.Module, got int"),
        (
            lambda: ardm.load(exact, network=Small),
            CheckpointError,
            "is of kind exact model, expected model of one's own",
        ),
        (
            lambda: ardm.load("text", network=Small),
            CheckpointError,
            "is of kind exact model, expected model of one's own",
        ),
        (lambda: ardm.load(tmp_path / "cut", network=Small), CheckpointError, "is damaged"),
        (lambda: ardm.load(tmp_path / "changed", network=Small), CheckpointError, "content does not match its hash"),
        (lambda: ardm.load(tmp_path / "empty", network=Small), CheckpointError, "is damaged"),
        (lambda: ardm.load(tmp_path / "empty"), CheckpointError, "is damaged"),
        (lambda: ardm.load(tmp_path / "zip", network=Small), CheckpointError, "damaged"),
        (lambda: ardm.load(tmp_path / "none", network=Small), CheckpointError, "there is no model at"),
        (lambda: ardm.load(tmp_path, network=Small), CheckpointError, "there is no model of one's own network at"),
        (lambda: ardm.save(small(), path, {"layer": nn.Linear(1, 1)}), UsageError, "must be plain values for JSON"),
        (lambda: ardm.save(small(), tmp_path), UsageError, "is a folder; give a file to write to"),
    ]
    for call, kind, text in cases:
        with as_users_call(), pytest.raises(kind, match=text) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_fit_is_no_model(tmp_path):
    ardm.fit(small(), BITS, steps=2, folder=tmp_path, progress=False)
    with pytest.raises(CheckpointError, match="is of kind training state of ardm.fit, expected"):
        ardm.load(tmp_path / "fit.safetensors", network=Small)
