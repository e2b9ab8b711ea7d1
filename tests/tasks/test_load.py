"""Models loaded with the device that they compute on."""

import pytest
import torch
from tiny_exact import tiny_exact

from ardm.checkpoint import TrainedModel, save_model
from ardm.errors import UsageError
from ardm.runtime.device import Runtime
from ardm.runtime.team import Team
from ardm.tasks.load import LoadedModel, load, load_any, with_diffusion_steps


@pytest.fixture
def path(tmp_path):
    save_model(tmp_path / "text.model", tiny_exact("text"))
    return tmp_path / "text.model"


def test_a_model_is_loaded_onto_a_device(path):
    loaded = load(path, "cpu")
    assert isinstance(loaded.trained, TrainedModel)
    assert (loaded.ardm, loaded.runtime) == (loaded.trained.model, Runtime(device=torch.device("cpu")))
    assert isinstance(load_any(path, "cpu"), LoadedModel)


def test_a_runtime_is_kept_with_its_processes(path):
    runtime = Runtime(device=torch.device("cpu"), team=Team(rank=1, size=2))
    assert load(path, runtime).runtime is runtime


def test_other_shapes_share_the_weights():
    loaded = LoadedModel(trained=tiny_exact("grey"), runtime=Runtime.choose("cpu"))
    other = loaded.for_shape((4, 5, 1))
    assert other.ardm.num_variables == 20
    assert other.ardm.network is loaded.ardm.network


def test_only_models_of_one_stage_have_diffusion_steps():
    text, staged = (LoadedModel(trained=tiny_exact(kind), runtime=Runtime.choose("cpu")) for kind in ("text", "staged"))
    baseline = with_diffusion_steps(text, 5)
    assert baseline.trained.model.num_calls == 5
    assert with_diffusion_steps(baseline, 3).trained.model.num_calls == 3
    with pytest.raises(UsageError):
        with_diffusion_steps(staged, 5)


def test_models_are_shown_in_one_line(path):
    loaded = load(path, "cpu")
    line = repr(loaded.trained)
    assert "\n" not in line
    assert len(line) < 250
    for words in ("text, ardm, ", " parameters", "shape (16,)", "29 classes", "1 stage,", "step ", ", exact"):
        assert words in line
    assert repr(loaded) == f"<LoadedModel on cpu: {line[1:]}"
    assert repr(with_diffusion_steps(loaded, 3)).startswith("<LoadedBaseline on cpu: TrainedBaseline: text, ")
    assert " stages, " in repr(tiny_exact("staged"))
