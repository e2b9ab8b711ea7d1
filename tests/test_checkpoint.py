"""Files are whole or refused."""

import gzip
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from tiny import tiny_config, tiny_corpus, tiny_upscale_config
from tiny_exact import tiny_exact

from ardm.build import build_ardm
from ardm.checkpoint import (
    MODEL_FILE,
    TrainedModel,
    load_model,
    load_profile,
    read_tensors,
    save_model,
    write_tensors,
)
from ardm.config import RunConfig
from ardm.errors import ArdmError, CheckpointError, UsageError
from ardm.presets import PRESETS
from ardm.profile import Profile
from ardm.runtime.files import GZIP_START, check_writable, locked, written_whole


@pytest.fixture
def saved(tmp_path):
    config, corpus = tiny_config(), tiny_corpus(tmp_path)
    trained = TrainedModel(
        config=config,
        alphabet=corpus.alphabet,
        model=build_ardm(config, corpus.alphabet.num_classes),
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


def test_a_profile_is_read_without_its_network(saved, monkeypatch):
    _, path = saved
    bits, counts = torch.rand(1, 16, dtype=torch.float64), torch.full((1, 16), 3)
    save_model(path, replace(load_model(path), profile=Profile(bits=bits, counts=counts)))
    monkeypatch.setattr("ardm.checkpoint.build_model", None)
    for place in (path, path.parent):
        profile = load_profile(place)
        assert torch.equal(profile.bits, bits)
        assert torch.equal(profile.counts, counts)
    content = bytearray(path.read_bytes())
    content[-1] ^= 4
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        load_profile(path)
    write_tensors(path, {"x": torch.ones(2)}, {"kind": "model", "config": {}})
    with pytest.raises(CheckpointError, match="does not describe a model this version can build"):
        load_profile(path)


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
    with pytest.raises(CheckpointError, match="is of kind training state, expected model"):
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


@pytest.fixture
def exact(tmp_path):
    """The tensors and the description of an exact model's file, and a way to load them once they are changed."""
    path = tmp_path / MODEL_FILE
    save_model(path, tiny_exact("text"))
    tensors, description = read_tensors(path, "exact model")

    def load() -> TrainedModel:
        write_tensors(path, tensors, description)
        return load_model(path)

    return tensors, description, load


def test_an_exact_model_written_again_is_the_same(exact):
    assert exact[2]().exact.identity == tiny_exact("text").exact.identity


def test_an_exact_model_is_the_same_compressed_or_not(tmp_path):
    path, plain = tmp_path / "zipped", tmp_path / "plain"
    save_model(path, tiny_exact("text"))
    assert path.read_bytes()[:2] == GZIP_START
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    assert load_model(plain).exact.identity == load_model(path).exact.identity == tiny_exact("text").exact.identity


def test_damage_to_a_compressed_model_is_noticed(tmp_path):
    path = tmp_path / MODEL_FILE
    save_model(path, tiny_exact("text"))
    content = path.read_bytes()
    for at in (2, 20, len(content) // 2, len(content) - 5):
        flipped = content[:at] + bytes([content[at] ^ 64]) + content[at + 1 :]
        for damaged in (content[:at], flipped, content + content[:at]):
            path.write_bytes(damaged)
            with pytest.raises(CheckpointError, match="damaged"):
                load_model(path)


def test_what_inflates_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("ardm.checkpoint.MAX_INFLATED_BYTES", 1000)
    (tmp_path / "big").write_bytes(gzip.compress(bytes(1001)))
    with pytest.raises(CheckpointError, match="inflates to more than 1,000 bytes"):
        load_model(tmp_path / "big")


def test_a_compressed_file_of_others_is_refused(tmp_path):
    header = b'{"__metadata__":null}'
    (tmp_path / "other").write_bytes(gzip.compress(len(header).to_bytes(8, "little") + header))
    with pytest.raises(CheckpointError, match="not one of ardm's"):
        load_model(tmp_path / "other")


WEIGHT = "exact/blocks.0.expand.weight"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda t: t.long(), r"torch.int64 \(128, 32\), expected torch.int8 \(128, 32\)"),
        (lambda t: t.long() + 65536 * (torch.arange(32) == 3), "torch.int64"),
        (lambda t: t.double(), "torch.float64"),
        (lambda t: t.view(torch.uint8), "torch.uint8"),
        (lambda t: t[:-1], r"torch.int8 \(127, 32\), expected"),
        (lambda t: t.T.contiguous(), r"torch.int8 \(32, 128\), expected"),
    ],
)
def test_tensors_of_another_kind_are_refused(exact, change, problem):
    tensors, _, load = exact
    tensors[WEIGHT] = change(tensors[WEIGHT])
    with pytest.raises(CheckpointError, match=f"tensor {WEIGHT} is {problem}") as caught:
        load()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["exact/more", "test/more", "exact/embedding.coarse"])
def test_unknown_tensors_are_refused(exact, name):
    tensors, _, load = exact
    tensors[name] = torch.zeros(2)
    with pytest.raises(CheckpointError, match=f"tensor {name} is unknown"):
        load()


@pytest.mark.parametrize("name", [WEIGHT, "exact/head_norm.gain", "test/where"])
def test_missing_tensors_are_named(exact, name):
    tensors, _, load = exact
    del tensors[name]
    with pytest.raises(CheckpointError, match=f"tensor {name} is missing"):
        load()


@pytest.mark.parametrize("of_schedule", [False, True])
def test_unknown_entries_of_the_coding_are_refused(exact, of_schedule):
    _, description, load = exact
    part = description["coding"]["schedules"][1] if of_schedule else description["coding"]
    part["more"] = 1
    with pytest.raises(CheckpointError, match="its coding has an unknown entry more"):
        load()


@pytest.mark.parametrize("version", [None, 0, 2, "1"])
def test_other_versions_are_refused(saved, version, monkeypatch):
    path = saved[1]
    monkeypatch.setattr("ardm.checkpoint.FORMAT_VERSION", version)
    save_model(path, saved[0])
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=f"has format version {version}, expected 1"):
        load_model(path)


@pytest.mark.parametrize(
    ("kind", "changes", "problem"),
    [
        ("sound", {"sample_rate": None}, "sample rate"),
        ("sound", {"sample_rate": 0}, "sample rate"),
        ("grey", {"sample_rate": 8000}, "sample rate"),
        ("grey", {"num_classes": 255}, "255 classes, expected 256 for images"),
        ("bytes", {"alphabet": "abc"}, "alphabet"),
        ("text", {"alphabet": None}, "alphabet"),
        ("text", {"alphabet": 5}, "alphabet"),
        ("text", {"alphabet": "ab\ud800"}, "surrogates"),
    ],
)
def test_facts_that_contradict_the_medium_are_refused(tmp_path, kind, changes, problem):
    save_model(tmp_path / MODEL_FILE, tiny_exact(kind))
    tensors, description = read_tensors(tmp_path / MODEL_FILE, "exact model")
    write_tensors(tmp_path / MODEL_FILE, tensors, description | changes)
    with pytest.raises(ArdmError, match=problem):
        load_model(tmp_path / MODEL_FILE)


def test_schedules_of_another_size_are_refused(exact):
    _, description, load = exact
    description["coding"]["schedules"] = [{"starts": [[0, 5]], "num_steps": 17}]
    description["coding"]["default"] = 0
    with pytest.raises(CheckpointError, match="stages x variables = 1 x 16"):
        load()
