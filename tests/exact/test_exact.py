"""Exact networks: every backend gives the same integers, close to the float network, within proved bounds."""

import itertools
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from numba.core.errors import NumbaError
from tiny import tiny_config, tiny_image_config, tiny_sound_config
from tiny_exact import WAVENET, tiny_exact
from torch import nn

from ardm.build import build_ardm, build_exact_core, build_parametrization
from ardm.checkpoint import ExactPart, TrainedModel, exact_part, load_model, save_model
from ardm.config import DepthConfig, RunConfig
from ardm.errors import CheckpointError, ExactError
from ardm.exact.backends import choose_operations
from ardm.exact.layers import check_bounds
from ardm.exact.network import ExactNetwork
from ardm.exact.operations import CompiledOperations, TorchOperations, available_operations, float_product
from ardm.export import exact_network, export_model
from ardm.likelihood import exact_bits
from ardm.model import ARDM
from ardm.objective import sample_corruption
from ardm.presets import PRESETS
from ardm.profile import Profile, monotone
from ardm.schedule import full_schedule

REFERENCE = TorchOperations(float_product(torch.float64), torch.float64)
CPU = torch.device("cpu")
DIRECT = DepthConfig(base=16, parametrization="direct")
CONFIGS = {
    "text": (tiny_config(), 27),
    "images": (tiny_image_config(DepthConfig()), 256),
    "upscaled images": (tiny_image_config(DIRECT), 256),
    "upscaled sound": (tiny_sound_config(DIRECT), 2**16),
    "wavenet": (replace(tiny_sound_config(), network=WAVENET), 2**16),
    "upscaled wavenet": (replace(tiny_sound_config(DIRECT), network=WAVENET), 2**16),
}


def trained_model(kind: str) -> TrainedModel:
    """A model with random weights; at initialisation residual outputs and heads would be zero."""
    config, num_classes = CONFIGS[kind]
    torch.manual_seed(3)
    model = build_ardm(config, num_classes)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5 * (parameter[0].numel() if parameter.ndim > 1 else 4) ** -0.5)
    return TrainedModel(
        config=config,
        alphabet=None,
        model=model.eval(),
        profile=Profile.empty(model.num_stages, model.num_variables),
        step=0,
        data_title="random",
        data_fingerprint="",
    )


def random_items(model: ARDM, count: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(model.depth.num_classes, (count, model.num_variables), generator=generator)


def make_exact(kind: str, generator: torch.Generator) -> tuple[TrainedModel, ExactNetwork]:
    trained = trained_model(kind)
    return trained, exact_network(trained, random_items(trained.model, 8, generator), generator, clips=[1.0])


def call_arguments(model: ARDM, count: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    c = sample_corruption(model.depth, random_items(model, count, generator), generator)
    shape = (-1, *model.shape)
    where = torch.rand(count, model.num_variables, generator=generator).argsort(1)[:, :13]
    return c.inputs.view(shape), c.mask.view(shape), c.stage, c.t, where


@pytest.mark.parametrize("name", list(available_operations(CPU)))
def test_operations_agree_with_the_reference_on_extreme_integers(name, generator):
    ops = available_operations(CPU)[name]

    def integers(shape: tuple[int, ...], limit: int, dtype: torch.dtype) -> torch.Tensor:
        x = torch.randint(-limit, limit + 1, shape, generator=generator)
        return torch.where(torch.rand(shape, generator=generator) < 0.2, x.sign() * limit, x).to(dtype)

    stream, scale = integers((24, 40), 2**23, torch.int32), torch.rand(40, generator=generator) * 1e-3
    sums = integers((24, 40), 2**24 - 1, torch.int32)
    x, weight = integers((24, 96), 127, torch.int8), integers((40, 96), 63, torch.int8)
    image, taps = integers((2, 5, 6, 40), 2047, torch.int16), integers((3, 3, 40), 127, torch.int8)
    larger = integers((2, 18, 35, 40), 2047, torch.int16)
    kernels = [integers((*size, 40), 127, torch.int8) for size in ((5, 5), (1, 5), (3, 5), (1, 9))]
    heads = [integers((2, 12, 2, 8), 127, torch.int8) for _ in range(3)]
    angles = [integers((12, 4), 2**14, torch.int16) for _ in range(2)]
    table = torch.arange(4095, -1, -7, dtype=torch.int32)
    gates, biases = torch.tensor([0.1, 1e4]).repeat(20), integers((40,), 2**12, torch.int32)
    logistic = torch.arange(4096, dtype=torch.int16)
    for results in zip(
        *(
            (
                o.product(x, weight),
                o.norm(stream, number(3e4), 2047),
                o.norm(torch.zeros_like(stream), number(3e4), 2047),
                o.depthwise(image, taps, scale),
                *(o.depthwise(x, kernel, scale) for x in (image, larger, larger[:, :1]) for kernel in kernels),
                o.rescale(sums, scale, -127),
                o.rescale(sums, scale, 0),
                o.rescale_squared(sums, scale),
                o.gate(sums, scale * gates, biases, logistic, scale[:20] * 0.01),
                o.halve_power(stream.clone()),
                o.add_rescaled(stream.clone(), sums, scale * 100),
                o.rotate(integers_to_words(heads[0]), *angles, number(1e-3)),
                *(
                    o.attend(heads[0][:, some], *heads[1:], table, torch.tensor(0.01), number(0.7).expand(2, 8))
                    for some in (slice(None), slice(3))
                ),
                o.embed(torch.tensor([[0, 2], [1, 1]]), stream[:6].view(2, 3, 40)),
                o.head(
                    image.view(-1, 40)[:9],
                    torch.arange(9) % 2,
                    integers_to_words(weight).view(2, 20, 96)[:, :, :40].contiguous(),
                    scale.double().view(2, 20),
                    sums[0].view(2, 20),
                ),
            )
            for o in (ops, REFERENCE)
        ),
        strict=True,
    ):
        assert torch.equal(*results)


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def integers_to_words(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.int16)


@pytest.mark.parametrize("kind", CONFIGS)
def test_results_do_not_depend_on_operations_batch_or_threads(kind, generator):
    trained, network = make_exact(kind, generator)
    *arguments, where = call_arguments(trained.model, 7, generator)
    expected = network.integers(*arguments, where)
    inputs, mask, stage, _ = arguments
    for ops in available_operations(CPU).values():
        assert torch.equal(network.core(inputs, mask, stage, where, ops), expected)
    try:
        for threads, size in itertools.product((1, 2, 3, 5), (1, 2, 3, 7)):
            torch.set_num_threads(threads)
            batches = zip(*(x.split(size) for x in (*arguments, where)), strict=True)
            assert torch.equal(torch.cat([network.integers(*batch) for batch in batches]), expected)
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("kind", ["text", "deep-text", "mixed", "staged", "wavenet", "wavenet-silence"])
@pytest.mark.parametrize("name", list(available_operations(CPU)))
def test_some_variables_are_those_of_all(kind, name, generator):
    """The last block may compute only the rows in the requested variables' kernels, also at the ends of an item."""
    model, network = tiny_exact(kind).model, tiny_exact(kind).exact.network
    inputs, mask, stage, *_ = call_arguments(model, 5, generator)
    everything = torch.arange(model.num_variables).expand(5, -1)
    ops = available_operations(CPU)[name]
    expected = network.core(inputs, mask, stage, everything, ops)
    for count in range(1, 5):
        where = torch.randint(model.num_variables, (5, count), generator=generator)
        where[0], where[1] = 0, model.num_variables - 1
        some = network.core(inputs, mask, stage, where, ops)
        assert torch.equal(some, expected[torch.arange(5)[:, None], where])


@pytest.mark.parametrize("kind", CONFIGS)
def test_outputs_are_close_to_the_float_network(kind, generator):
    trained, network = make_exact(kind, generator)
    *arguments, _ = call_arguments(trained.model, 7, generator)
    with torch.no_grad():
        expected = trained.model.network(*arguments)
    error = (network(*arguments) - expected).abs().mean() / expected.std()
    assert error < 0.06


def test_a_channel_that_is_huge_for_one_class_does_not_drown_the_others(generator):
    trained = trained_model("text")
    network = trained.model.network
    with torch.no_grad():  # the first hidden channel of the first block answers to class 0
        network.blocks[0].expand.weight[0] = 3 * network.embedding[0] / network.embedding[0].norm()
    exact = exact_network(trained, random_items(trained.model, 8, generator), generator, clips=[1.0])
    inputs, mask, stage, t, _ = call_arguments(trained.model, 6, generator)
    with torch.no_grad():
        expected, found = network(inputs, mask, stage, t), exact(inputs, mask, stage, t)
    others = (inputs != 0) & (inputs < trained.model.depth.num_classes)
    error = (found - expected)[others].std() / expected[others].std()
    assert error < 0.15


@pytest.mark.parametrize("kind", CONFIGS)
def test_hidden_values_cannot_leak(kind, generator):
    trained, network = make_exact(kind, generator)
    inputs, mask, stage, t, where = call_arguments(trained.model, 3, generator)
    if trained.model.num_stages > 1:
        stage = torch.zeros_like(stage)
        inputs = torch.where(mask, inputs, 0)
    other = inputs.masked_fill(~mask, trained.model.depth.absorbing_value)
    if kind == "images":  # what lies under a mask is not looked at
        other = torch.where(mask, inputs, torch.randint(256, inputs.shape, generator=generator))
    assert torch.equal(network.integers(inputs, mask, stage, t, where), network.integers(other, mask, stage, t, where))


@pytest.mark.parametrize(
    ("kind", "layer", "reason"),
    [
        ("images", "blocks.0.expand", "a weight exceeds"),
        ("images", "embedding", "a sum of rows may reach"),
        ("text", "blocks.0.attention", "a scale is not a finite number"),
        ("wavenet", "input", "a row of values is negative"),
        ("wavenet", "gate", "the table of the logistic function is out of range"),
        ("wavenet", "blocks.0", "a bias exceeds"),
        ("wavenet", "blocks.1.convolution", "a scale is out of range"),
        ("wavenet", "last", "a bias exceeds"),
    ],
)
def test_a_bound_that_fails_names_the_layer(kind, layer, reason, generator):
    _, network = make_exact(kind, generator)
    module = network.core.get_submodule(layer)
    {
        "blocks.0.expand": lambda: module.weight.fill_(100),
        "embedding": lambda: module.values.fill_(2**23),
        "blocks.0.attention": lambda: module.mean_scale.fill_(float("inf")),
        "input": lambda: module.values.fill_(-1),
        "gate": lambda: module.logistic.fill_(4097),
        "blocks.0": lambda: module.gate_bias.fill_(2**29),
        "blocks.1.convolution": lambda: module.scale.fill_(2**20),
        "last": lambda: module.bias.fill_(2**29),
    }[layer]()
    with pytest.raises(ExactError, match=f"layer {layer} cannot be computed exactly: {reason}"):
        check_bounds(network.core)


def test_backends_that_fail_the_self_test_are_skipped(generator, monkeypatch):
    _, network = make_exact("images", generator)

    class Saturating(CompiledOperations):
        def product(self, x, weight):
            return super().product(x, weight).clamp(-3000, 3000)

    class Absent(CompiledOperations):
        def product(self, x, weight):
            raise RuntimeError("not implemented for this CPU")

    backends = {"saturating": Saturating(), "absent": Absent(), "reference": REFERENCE}
    monkeypatch.setattr("ardm.exact.backends.available_operations", lambda device: backends)
    assert choose_operations(network.core, network.test, CPU) is REFERENCE
    del backends["reference"]
    reasons = r"saturating gives different integers; absent fails \(RuntimeError: not implemented for this CPU\)$"
    with pytest.raises(ExactError, match=f"no backend on cpu gives the integers .*: {reasons}"):
        choose_operations(network.core, network.test, CPU)


@pytest.mark.parametrize("error", [AttributeError, TypeError, NumbaError])
def test_backends_that_raise_other_errors_are_skipped_with_a_warning(error, generator, monkeypatch):
    _, network = make_exact("images", generator)

    class Broken(CompiledOperations):
        def norm(self, x, gain, limit):
            raise error("no such\n  thing")

    backends = {"broken": Broken(), "reference": REFERENCE}
    monkeypatch.setattr("ardm.exact.backends.available_operations", lambda device: backends)
    reason = rf"fails \({error.__name__}: no such thing\)"
    with pytest.warns(UserWarning, match=reason):
        assert choose_operations(network.core, network.test, CPU) is REFERENCE
    del backends["reference"]
    with pytest.warns(UserWarning, match=reason), pytest.raises(ExactError, match=f"broken {reason}$"):
        choose_operations(network.core, network.test, CPU)


def test_a_backend_can_be_forced(generator, monkeypatch):
    _, network = make_exact("images", generator)
    monkeypatch.setenv("ARDM_EXACT", "float64")
    assert type(choose_operations(network.core, network.test, CPU)) is TorchOperations
    monkeypatch.setenv("ARDM_EXACT", "tf32")
    with pytest.raises(ExactError, match="ARDM_EXACT=tf32 is not one of compiled, int8, float32, float64"):
        choose_operations(network.core, network.test, CPU)


def exported(kind: str, generator: torch.Generator) -> TrainedModel:
    trained = trained_model(kind)
    items = random_items(trained.model, 6, generator)
    losses = monotone(torch.rand(trained.model.num_stages, trained.model.num_variables, generator=generator).numpy())
    return export_model(trained, items, items[:2], losses, num_calls=10)


@pytest.mark.parametrize("kind", ["images", "upscaled images"])
def test_an_exact_model_is_saved_and_loaded(kind, generator, tmp_path):
    exact = exported(kind, generator)
    save_model(tmp_path / "model", exact)
    loaded = load_model(tmp_path / "model")
    assert loaded.exact is not None
    assert exact.exact is not None
    assert loaded.exact.identity == exact.exact.identity
    assert loaded.exact.coding == exact.exact.coding
    arguments = call_arguments(exact.model, 3, generator)
    assert torch.equal(loaded.exact.network.integers(*arguments), exact.exact.network.integers(*arguments))
    x = random_items(exact.model, 2, generator)
    orders = torch.arange(x.shape[1]).expand(2, exact.model.num_stages, -1)
    schedule = full_schedule(x.shape[1], num_stages=exact.model.num_stages)
    assert (exact_bits(loaded.model, x, orders, schedule) > 0).all()


def identity_of(exact: ExactPart, sample_rate: int | None = None) -> bytes:
    config = CONFIGS["images"][0]
    part = exact_part(config.to_dict(), config.data.shape, 256, sample_rate, exact.network, exact.coding)
    return part.identity


@pytest.mark.parametrize(
    ("name", "value"), [("inputs", 2**40), ("inputs", -1), ("stage", 10**9), ("where", 10**6), ("where", -5)]
)
def test_a_self_test_out_of_range_is_refused(name, value, generator, tmp_path):
    exact = exported("images", generator)
    assert exact.exact is not None
    getattr(exact.exact.network.test, name).view(-1)[-1] = value
    save_model(tmp_path / "model", exact)
    with pytest.raises(CheckpointError, match="the self-test of the model file is malformed"):
        load_model(tmp_path / "model")


def test_another_integer_is_another_identity(generator, tmp_path):
    exact = exported("images", generator).exact
    assert exact is not None
    before = exact.identity
    exact.network.core.head.weight[0, 0, 0] += 1
    assert identity_of(exact) != before
    exact.network.core.head.weight[0, 0, 0] -= 1
    assert identity_of(exact) == before
    assert identity_of(exact, 8000) != before


def test_a_file_with_other_integers_is_refused(generator, tmp_path):
    exact = exported("images", generator)
    assert exact.exact is not None
    exact.exact.network.core.blocks[0].expand.weight[0, 0] += 1  # the self-test still holds the old results
    save_model(tmp_path / "model", exact)
    with pytest.raises(CheckpointError, match="no backend on cpu gives the integers"):
        load_model(tmp_path / "model")


def test_the_size_of_the_papers_wavenet():
    config = PRESETS["sc09-paper"]()
    core = build_exact_core(config, build_parametrization(config.depth, 2**16))
    parts = [core, core.blocks, core.input, core.step]
    sizes = [sum(x.nbytes for x in part.state_dict().values()) / 1e6 for part in parts]
    assert [round(size, 1) for size in sizes] == [32.4, 19.1, 8.4, 4.7]


def test_networks_without_an_exact_form_say_so():
    config: RunConfig = PRESETS["text8-paper"]()
    with pytest.raises(ExactError, match="a paper-transformer network has no exact form"):
        build_exact_core(config, build_parametrization(config.depth, 27))


SCRIPT = """
import hashlib, sys, torch
from ardm.checkpoint import load_model
torch.set_num_threads(int(sys.argv[2]))
trained = load_model(sys.argv[1])
generator = torch.Generator().manual_seed(5)
model = trained.model
x = torch.randint(model.depth.num_classes, (5, model.num_variables), generator=generator)
from ardm.objective import sample_corruption
c = sample_corruption(model.depth, x, generator)
shape = (-1, *model.shape)
where = torch.arange(model.num_variables).expand(5, -1)
y = trained.exact.network.integers(c.inputs.view(shape), c.mask.view(shape), c.stage, c.t, where)
print(hashlib.sha256(y.numpy().tobytes()).hexdigest())
"""


@pytest.mark.parametrize("kind", ["text", "upscaled images"])
def test_every_instruction_set_gives_the_same_integers(kind, generator, tmp_path):
    trained = exported(kind, generator)
    if kind == "text":
        from ardm.data.text import TEXT8_ALPHABET

        trained = replace(trained, alphabet=TEXT8_ALPHABET)
    save_model(tmp_path / "model", trained)
    settings = [
        {},
        {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "NUMBA_CPU_NAME": "haswell"},
        {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default", "NUMBA_CPU_NAME": "generic"},
    ]
    settings = [s | {"NUMBA_CACHE_DIR": str(tmp_path / f"numba{i}")} for i, s in enumerate(settings)]
    hashes = set()
    for threads, setting in zip(("1", "2", "1"), settings, strict=True):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "model"), threads]
        result = subprocess.run(command, env=os.environ | setting, capture_output=True, text=True, check=True)
        hashes.add(result.stdout)
    assert len(hashes) == 1
