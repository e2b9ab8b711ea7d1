"""Models for many calls; what is recorded itself is tested on a GPU, in `test_cuda`."""

import pytest
import torch

from ardm import recordings
from ardm.recordings import RecordedModel, for_many_calls, padded
from tiny import tiny_audio_config, tiny_config, tiny_image_config

CONFIGS = {"text": (tiny_config, 27), "images": (tiny_image_config, 256), "audio": (tiny_audio_config, 65536)}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("autocast", [False, True])
def test_matrices_are_rounded_as_autocast_does(name, autocast, generator, monkeypatch):
    monkeypatch.setattr(recordings, "Recorded", lambda function: function)
    config, num_classes = CONFIGS[name]
    model = config().build_model(num_classes)
    for parameter in model.parameters():  # nothing is zero, as some begin
        parameter.data = torch.randn(parameter.shape, generator=generator)
    inputs = torch.randint(num_classes, (2, model.num_variables), generator=generator)
    mask = torch.rand(inputs.shape, generator=generator) < 0.5
    stage, t, where = torch.zeros(2).long(), mask.sum(1), torch.tensor([[0, 3, 5], [7, 1, 2]])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        called = RecordedModel(model)
        ours, theirs = (m.outputs(inputs, mask, stage, t, where) for m in (called, model))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    narrow = {p.dtype for n, p in called.named_parameters() if "blocks." in n and p.ndim > 1}
    assert narrow == {torch.bfloat16 if autocast else torch.float32}
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_a_cpu_calls_the_model_itself():
    model = tiny_config().build_model(27)
    with for_many_calls(model, 10**6, 4) as called:
        assert called is model


def test_smaller_batches_are_filled_up(generator, monkeypatch):
    monkeypatch.setattr(recordings, "Recorded", lambda function: function)
    monkeypatch.setattr(recordings, "compile_blocks", lambda network: None)
    model = tiny_config().build_model(27).double()
    torch.nn.init.normal_(model.network.head.weight, generator=generator)
    inputs = torch.randint(27, (2, model.num_variables), generator=generator)
    mask = torch.rand(inputs.shape, generator=generator) < 0.5
    stage, where = torch.zeros(2).long(), torch.tensor([[0, 3, 5], [7, 1, 2]])
    called, seen = RecordedModel(model, 5), []
    monkeypatch.setattr(called.network, "outputs_at", _counting(called.network.outputs_at, seen))
    with torch.no_grad():
        ours, theirs = (m.outputs(inputs, mask, stage, mask.sum(1), where) for m in (called, model))
    torch.testing.assert_close(ours, theirs)
    assert seen == [5]


def _counting(function, seen):
    def counted(inputs, *others):
        seen.append(len(inputs))
        return function(inputs, *others)

    return counted


@pytest.mark.parametrize(("wanted", "computed"), [(1, 64), (64, 64), (65, 128), (300, 512)])
def test_few_sizes_come_again(wanted, computed):
    where = torch.arange(wanted).expand(2, -1)
    assert padded(where).shape == (2, computed)
    assert torch.equal(padded(where)[:, :wanted], where)
