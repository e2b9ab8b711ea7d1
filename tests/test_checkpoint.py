"""Files are whole or refused."""

import pytest
import torch
from safetensors.torch import save_file

from ardm.checkpoint import (
    MODEL_FILE,
    TrainedModel,
    load_model,
    read_tensors,
    save_model,
    write_tensors,
)
from ardm.config import RunConfig
from ardm.errors import CheckpointError, UsageError
from ardm.files import check_writable, locked, written_whole
from ardm.objective import Profile
from ardm.presets import PRESETS
from tiny import tiny_config, tiny_corpus, tiny_upscale_config


@pytest.fixture
def saved(tmp_path):
    config, corpus = tiny_config(), tiny_corpus(tmp_path)
    trained = TrainedModel(
        config=config,
        alphabet=corpus.alphabet,
        model=config.build_model(corpus.alphabet.num_classes),
        profile=Profile.empty(1, 16),
        step=7,
        data_title=corpus.title,
        data_fingerprint=corpus.fingerprint,
    )
    save_model(tmp_path / MODEL_FILE, trained)
    return trained, tmp_path / MODEL_FILE


def test_a_model_comes_back_as_it_was(saved):
    trained, path = saved
    for place in (path, path.parent):
        loaded = load_model(place)
        assert loaded.config == trained.config
        assert loaded.alphabet == trained.alphabet
        assert (loaded.step, loaded.data_fingerprint) == (7, trained.data_fingerprint)
        for (name, a), (_, b) in zip(trained.model.named_parameters(), loaded.model.named_parameters(), strict=True):
            assert torch.equal(a, b), name


@pytest.mark.parametrize("name", [*PRESETS, "tiny", "upscale"])
def test_configurations_survive_json(name):
    config = {"tiny": tiny_config, "upscale": tiny_upscale_config}.get(name, PRESETS.get(name))()
    assert RunConfig.from_dict(config.to_dict()) == config


def test_every_truncation_is_noticed(saved):
    _, path = saved
    content = path.read_bytes()
    for length in [0, 1, 7, 8, 100, *range(200, len(content), len(content) // 7), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="damaged or not a safetensors file"):
            load_model(path)


def test_flipped_bits_are_noticed(saved):
    _, path = saved
    content = bytearray(path.read_bytes())
    for place in (len(content) - 1, len(content) // 2, len(content) - 5000):
        content[place] ^= 4
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="damaged"):
            load_model(path)
        content[place] ^= 4


def test_foreign_files_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="there is no model at"):
        load_model(tmp_path)
    foreign = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.ones(3)}, foreign)
    with pytest.raises(CheckpointError, match="not one of ardm's"):
        load_model(foreign)
    write_tensors(foreign, {"x": torch.ones(2)}, {"kind": "training state"})
    with pytest.raises(CheckpointError, match="holds a training state, expected a model"):
        load_model(foreign)
    write_tensors(foreign, {"x": torch.ones(2)}, {"kind": "model", "config": {}})
    with pytest.raises(CheckpointError, match="does not describe a model this version can build"):
        load_model(foreign)


def test_newer_formats_are_refused(saved, monkeypatch):
    _, path = saved
    monkeypatch.setattr("ardm.checkpoint.FORMAT_VERSION", 0)
    with pytest.raises(CheckpointError, match="newer than this one"):
        read_tensors(path, "model")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail() -> None:
        with written_whole(path) as temporary:
            temporary.write_text("half of the n")
            raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_written_files_have_ordinary_permissions(saved):
    _, path = saved
    plain = path.parent / "plain"
    plain.write_text("")
    assert path.stat().st_mode == plain.stat().st_mode


def test_a_changed_description_is_noticed(saved):
    _, path = saved
    content = path.read_bytes()
    for old, new in ((b'\\"step\\": 7', b'\\"step\\": 8'), (b'\\"kind\\"', b'\\"kimd\\"')):
        assert old in content
        path.write_bytes(content.replace(old, new))
        with pytest.raises(CheckpointError, match="damaged"):
            load_model(path)


def test_loading_leaves_the_global_generator_alone(saved):
    before = torch.random.get_rng_state()
    load_model(saved[1])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_outputs_are_checked_before_the_work(tmp_path):
    check_writable(None)
    check_writable(tmp_path / "new" / "file")
    with pytest.raises(UsageError, match="is a folder"):
        check_writable(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is not a writable folder"):
        check_writable(tmp_path / "file" / "below")


def test_a_folder_is_for_one_process(tmp_path):
    with locked(tmp_path), pytest.raises(UsageError, match="another process is training in"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_model_for_another_shape_shares_its_weights(saved):
    trained, _ = saved
    longer = trained.for_shape((24,))
    assert longer.model.network is trained.model.network
    assert longer.model.num_variables == 24
    assert trained.for_shape((16,)) is trained
