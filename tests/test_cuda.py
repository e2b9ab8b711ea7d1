"""What only a GPU can show: compiled bfloat16 runs resume to the bit and agree with the CPU; files decode there."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from packs import packed, write_data
from test_golden import FILES, digests, model_of, order_of
from test_train import assert_same_state, metrics
from tiny import random_images, random_sounds, tiny_config, tiny_corpus, tiny_image_config, tiny_sound_config

import ardm
from ardm.checkpoint import load_model
from ardm.codec.gpu import has_kernels
from ardm.config import DepthConfig, PaperTransformerConfig, PaperUNetConfig, RunConfig
from ardm.data.corpus import Corpus
from ardm.exact.backends import FORCED_OPERATIONS
from ardm.likelihood import exact_bits
from ardm.media import load_corpus
from ardm.nn.recorded import recorded
from ardm.orders import random_orders, random_stage_orders
from ardm.runtime.device import Runtime
from ardm.sample import sample_items
from ardm.schedule import uniform_schedule
from ardm.train.loop import run_training
from ardm.train.run_folder import restore_state
from ardm.train.trainer import Trainer
from golden.make import digest

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("default"),  # PyTorch's compiler warns of itself
]

KINDS = ["text", "images", "upscaled images", "sound", "upscaled sound"]


def make(kind: str, folder: Path) -> tuple[RunConfig, Corpus]:
    direct = DepthConfig(base=16, parametrization="direct")
    if kind == "text":
        return tiny_config(), tiny_corpus(folder)
    if kind == "the paper's text":
        network = PaperTransformerConfig(num_layers=2, width=64, num_heads=2, mlp_width=128)
        return replace(tiny_config(), network=network), tiny_corpus(folder)
    if kind == "the paper's images":
        network = PaperUNetConfig(num_blocks=2, width=32, num_groups=4)
        return replace(tiny_image_config(), network=network), random_images()
    if "images" in kind:
        return tiny_image_config(direct if "up" in kind else DepthConfig()), random_images()
    return tiny_sound_config(direct) if "up" in kind else tiny_sound_config(), random_sounds()


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_is_identical_to_the_bit_on_cuda(tmp_path, kind):
    (config, corpus), runtime = make(kind, tmp_path), Runtime.choose("cuda")
    for folder, stops in (("whole", [None]), ("parts", [5, None])):
        for part, stop_at in enumerate(stops):
            trainer = Trainer(config, corpus, runtime)
            if part:
                restore_state(trainer, tmp_path / folder)
            run_training(trainer, tmp_path / folder, stop=lambda t=trainer, s=stop_at: t.step == s)
    assert_same_state(tmp_path / "whole", tmp_path / "parts")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "parts")


@pytest.mark.parametrize("name", ["text", "images", "audio"])
def test_packed_data_gives_the_run_of_the_original_on_cuda(tmp_path, monkeypatch, name):
    config = {"text": tiny_config(), "images": tiny_image_config(), "audio": tiny_sound_config()}[name]
    if name == "images":
        config = replace(config, data=replace(config.data, width=4))
    path = write_data(name, tmp_path / "original", monkeypatch)
    folder = packed(config.data, path, tmp_path / "packed")
    for data in (path, folder):
        trainer = Trainer(config, load_corpus(config.data, data), Runtime.choose("cuda"))
        run_training(trainer, tmp_path / f"run of {data.name}")
    assert_same_state(tmp_path / "run of original", tmp_path / "run of packed")


@pytest.mark.parametrize("kind", KINDS)
def test_bits_agree_with_the_cpu(tmp_path, generator, kind):
    trainer = Trainer(*make(kind, tmp_path), Runtime.choose("cuda"))
    run_training(trainer, tmp_path / "run")
    model, x = trainer.averaged, trainer.eval_items
    num_stages, num_variables = model.num_stages, model.num_variables
    orders = random_stage_orders(len(x), num_stages, num_variables, generator)
    schedule = uniform_schedule(num_variables, 5 * num_stages, num_stages=num_stages)
    on_cuda = exact_bits(model, x, orders.cuda(), schedule)
    drawn = sample_items(model, orders.cuda(), schedule, torch.Generator("cuda").manual_seed(0))
    assert drawn.shape == x.shape
    on_cpu = exact_bits(model.cpu(), x.cpu(), orders, schedule)
    torch.testing.assert_close(on_cuda.cpu(), on_cpu, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("num_calls", [10, 10**6], ids=["recorded", "compiled"])
@pytest.mark.parametrize("kind", [*KINDS, "the paper's text", "the paper's images"])
def test_calls_of_models_for_many_calls_are_calls(tmp_path, kind, num_calls):
    runtime, generator = Runtime.choose("cuda"), torch.Generator("cuda").manual_seed(0)
    model = Trainer(*make(kind, tmp_path), runtime).averaged
    for parameter in model.parameters():  # nothing is zero, as some begin
        parameter.copy_(torch.randn(parameter.shape, generator=generator, device="cuda") / parameter.shape[-1] ** 0.5)

    def call(called, round_):
        draws = torch.Generator("cuda").manual_seed(round_)
        shape = (3 - round_ % 2, model.num_variables)  # the last batch is smaller
        inputs = torch.randint(model.num_classes, shape, generator=draws, device="cuda")
        mask = torch.rand(shape, generator=draws, device="cuda") < 0.5
        seen = torch.where(mask, model.depth.at_level(inputs, 1), model.depth.at_level(inputs, 0))
        stage, where = torch.zeros(len(inputs)).long().cuda(), random_orders(*shape, draws)[:, : 5 + round_]
        with torch.no_grad():
            return called.outputs(seen, mask, stage, mask.sum(1), where)

    with runtime.autocast():
        expected = [call(model, round_) for round_ in range(12)]
        how = {"num_items": 3, "batch_size": 3, "num_calls": num_calls}
        with recorded(model, **how) as called:
            found = [call(called, round_) for round_ in range(12)]
            assert called._recorded._own.captured
            assert not called._recorded._own.refused
    assert not torch.equal(expected[0], expected[2])
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours - theirs).norm() < 0.03 * theirs.norm()


@pytest.mark.parametrize("width", [2, 4, 7, 27, 256, 1024])
def test_payloads_are_read_by_the_gpu(width):
    """Golden files below would decode without, too."""
    assert has_kernels(torch.device("cuda", 0), width)


WAYS = ["compiled", "int8", "float32", "float64"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("version", "name"), FILES, ids=[f"{version.name} {name}" for version, name in FILES])
def test_golden_files_of_a_cpu_decode_on_cuda_and_back(version, name, way, monkeypatch):
    monkeypatch.setenv(FORCED_OPERATIONS, way)
    on_cuda = load_model(model_of(version, name), "cuda")
    value = ardm.decompress((version / name).read_bytes(), on_cuda)
    assert digest(value) == digests(version)[name]
    order = order_of(name)
    written = [ardm.compress(on_cuda, value, order=order, batch_size=size) for size in (1, 64)]
    monkeypatch.delenv(FORCED_OPERATIONS)
    on_cpu = load_model(model_of(version, name), "cpu")
    assert written == [ardm.compress(on_cpu, value, order=order)] * 2
