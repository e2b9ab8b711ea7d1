"""Models for many calls; what is recorded itself is tested on a GPU, in `test_cuda`."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from tiny import tiny_config, tiny_image_config, tiny_sound_config

from ardm.build import build_ardm
from ardm.config import PaperTransformerConfig, PaperUNetConfig
from ardm.nn.recorded import RecordedModel, recorded, size_to_compile, with_rows

CONFIGS = {
    "text": (tiny_config(), 27),
    "paper's text": (
        replace(tiny_config(), network=PaperTransformerConfig(num_layers=2, width=16, num_heads=2, mlp_width=32)),
        27,
    ),
    "images": (tiny_image_config(), 256),
    "paper's images": (
        replace(tiny_image_config(), network=PaperUNetConfig(num_blocks=1, width=8, num_groups=2)),
        256,
    ),
    "audio": (tiny_sound_config(), 65536),
}


@pytest.fixture
def unrecorded(monkeypatch):
    """Neither recorded nor compiled, as only a GPU can."""
    monkeypatch.setattr("ardm.nn.recorded.Recorded", lambda function: function)
    monkeypatch.setattr("ardm.nn.recorded.compile_blocks", lambda network: None)


def make(name, generator):
    """A model in which nothing is zero, as some weights begin, and arguments of a call."""
    config, num_classes = CONFIGS[name]
    model = build_ardm(config, num_classes)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    inputs = torch.randint(num_classes, (2, model.num_variables), generator=generator)
    mask = torch.rand(inputs.shape, generator=generator) < 0.5
    return model, (inputs, mask, torch.zeros(2).long(), mask.sum(1), torch.tensor([[0, 3, 5], [7, 1, 2]]))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("autocast", [False, True])
def test_matrices_are_rounded_as_autocast_does(name, autocast, generator, unrecorded):
    model, arguments = make(name, generator)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        called = RecordedModel(model)
        ours, theirs = (m.outputs(*arguments) for m in (called, model))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    narrow = {p.dtype for n, p in called.named_parameters() if "blocks." in n and p.ndim > 1}
    assert narrow == {torch.bfloat16 if autocast else torch.float32}
    assert {p.dtype for p in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("name", CONFIGS)
def test_smaller_batches_are_filled_up(name, generator, unrecorded):
    model, arguments = make(name, generator)
    model.double()
    called, sizes = RecordedModel(model, 5), []
    called.network.blocks[0].register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    with torch.no_grad():
        ours, theirs = (m.outputs(*arguments) for m in (called, model))
    torch.testing.assert_close(ours, theirs)
    assert sizes == [5]


def test_rows_are_added_and_none_is_lost():
    x = torch.arange(6).view(2, 3)
    assert with_rows(x, 3).tolist() == [[0, 1, 2], [3, 4, 5], [0, 0, 0]]
    assert with_rows(x.bool(), 2).tolist() == x.bool().tolist()
    with pytest.raises(ValueError, match="at most 1 items, got 2"):
        with_rows(x, 1)


@pytest.mark.parametrize(
    ("num_items", "batch_size", "num_calls", "size"),
    [(1, 64, 9999, None), (1, 64, 10_000, 1), (64, 64, 20, None), (65, 64, 5000, 64), (64 * 500, 64, 20, 64)],
)
def test_networks_are_compiled_for_enough_calls_of_batches(num_items, batch_size, num_calls, size):
    assert size_to_compile(num_items, batch_size, num_calls) == size


def test_a_cpu_calls_the_model_itself():
    model = build_ardm(tiny_config(), 27)
    with recorded(model, num_items=10**6, batch_size=4, num_calls=10) as called:
        assert called is model


def test_nothing_is_kept(generator):
    model, _ = make("text", generator)
    called = RecordedModel(model)
    gone = weakref.ref(called)
    gc.disable()
    try:
        del called
        assert gone() is None
    finally:
        gc.enable()
