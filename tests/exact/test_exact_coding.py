"""Exact coding networks: every split into calls, batch and backend gives the integers of one pass."""

import copy
import hashlib
import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import reference_decoder
import torch
from invoke import output
from tiny_coding import CODING_KINDS, tiny_exact_coding, tiny_float_coding
from torch import Tensor

import ardm
from ardm.checkpoint import TrainedCoding, load_any, save_model
from ardm.coding import sample_chain, score
from ardm.errors import CheckpointError, ExactError
from ardm.exact.coding_network import ExactCodingNetwork, full_pass, in_calls
from ardm.exact.coding_transformer import MAX_VISIBLE, ExactMemory
from ardm.exact.layers import check_bounds
from ardm.exact.operations import Places, TorchOperations, available_operations, float_product
from ardm.strands import Call, characters_before, random_layout, strand_calls, uniform_layout, window_calls

GOLDEN = Path(__file__).parents[1] / "golden" / "coding"
CPU = torch.device("cpu")
REFERENCE = TorchOperations(float_product(torch.float64), torch.float64)
BACKENDS = list(available_operations(CPU))


def network_of(kind: str) -> ExactCodingNetwork:
    part = tiny_exact_coding(kind).exact
    assert part is not None
    return part.network


def random_texts(kind: str, count: int, length: int, generator: torch.Generator) -> Tensor:
    num_classes = tiny_exact_coding(kind).model.num_classes
    return torch.randint(num_classes, (count, length), generator=generator)


def one_pass(kind: str, x: Tensor, window: int, length: int) -> Tensor:
    return one_pass_of(network_of(kind), x, window, length)


def one_pass_of(network: ExactCodingNetwork, x: Tensor, window: int, length: int) -> Tensor:
    layout = uniform_layout(len(x), x.shape[1], window, length, CPU)
    return network.integers(characters_before(x, layout.num_before, network.core.start), layout)


def continued(network: ExactCodingNetwork, x: Tensor, parts: list[Call], memory: ExactMemory) -> Tensor:
    """The outputs of parts of the sequence of ranks, one after the other."""
    outputs = []
    for part in parts:
        before = torch.where(part.num_before > 0, x[:, (part.positions - 1).clamp(min=0)], network.core.start)
        outputs.append(network.advance_integers(before, part.positions, part.num_before, memory))
    return torch.cat(outputs, dim=1)


def cut(calls: list[Call], ends: list[int]) -> list[Call]:
    """All calls together, cut at these ranks."""
    positions, num_before = (torch.cat([getattr(c, name) for c in calls]) for name in ("positions", "num_before"))
    bounds = itertools.pairwise([0, *ends, len(positions)])
    return [Call(positions[a:b], num_before[a:b], 0) for a, b in bounds]


def all_splits(length: int) -> list[list[int]]:
    """Every set of places at which a sequence may be cut."""
    return [[*ends] for size in range(length) for ends in itertools.combinations(range(1, length), size)]


@pytest.mark.parametrize("kind", ["coding-plain", "coding-text"])
@pytest.mark.parametrize("length", range(1, 7))
def test_every_split_of_short_texts_equals_one_pass(kind, length, generator):
    network, x = network_of(kind), random_texts(kind, 2, length, generator)
    for window, strand in itertools.product({length, (length + 1) // 2}, range(1, length + 1)):
        expected, calls = one_pass(kind, x, window, strand), window_calls(length, window, strand, CPU)
        order = torch.cat([call.positions for call in calls])
        for split in all_splits(length):
            found = continued(network, x, cut(calls, split), network.new_memory(2))
            assert torch.equal(found, expected[:, order])


@pytest.mark.parametrize("kind", ["coding-text", "coding-bytes", "coding-long"])
@pytest.mark.parametrize("strand", [1, 3, 7, 16, 50])
def test_random_splits_of_longer_texts_equal_one_pass(kind, strand, generator):
    length = CODING_KINDS[kind][1]
    network, x = network_of(kind), random_texts(kind, 2, length, generator)
    for window in (length, length - 1, max(1, length // 3)):
        expected, calls = one_pass(kind, x, window, strand), window_calls(length, window, strand, CPU)
        order = torch.cat([call.positions for call in calls])
        for number in range(3):
            ends = (torch.rand(length - 1, generator=generator) < 0.1 * number).nonzero()[:, 0] + 1
            found = continued(network, x, cut(calls, ends.tolist()), network.new_memory(2))
            assert torch.equal(found, expected[:, order])
        assert torch.equal(continued(network, x, strand_calls(length, window, strand, CPU), network.new_memory(2)),
                           expected[:, order])  # fmt: skip


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("kind", CODING_KINDS)
def test_backends_and_batches_agree(kind, name, generator):
    network, length = network_of(kind), CODING_KINDS[kind][1]
    core, x = network.core, random_texts(kind, 5, CODING_KINDS[kind][1], generator)
    layout = random_layout(length, torch.rand(5, generator=generator), torch.zeros(5, dtype=torch.int64))
    before = characters_before(x, layout.num_before, core.start)
    expected = full_pass(core, before, layout, REFERENCE)
    ops = available_operations(CPU)[name]
    assert torch.equal(full_pass(core, before, layout, ops), expected)
    for i in range(5):
        alone = type(layout)(*(part[i : i + 1] for part in vars(layout).values()))
        assert torch.equal(full_pass(core, before[i : i + 1], alone, ops), expected[i : i + 1])
    assert torch.equal(in_calls(core, x[:2], 4, ops), one_pass(kind, x[:2], length, min(4, length)))


@pytest.mark.parametrize("name", BACKENDS)
def test_items_with_memories_of_their_own(name, generator):
    """Texts of several lengths and strands go on together, each at its own pace."""
    network, ops = network_of("coding-bytes"), available_operations(CPU)[name]
    lengths, strands = [24, 5, 17, 1, 24], [3, 5, 4, 1, 24]
    texts = [random_texts("coding-bytes", 1, length, generator) for length in lengths]
    layouts = [uniform_layout(1, n, n, strand, CPU) for n, strand in zip(lengths, strands, strict=True)]
    memory, at = network.core.new_memory(5), [0] * 5
    found: list[list[Tensor]] = [[] for _ in texts]
    while any(a < n for a, n in zip(at, lengths, strict=True)):
        sizes = [int(torch.randint(0, 4, (), generator=generator)) for _ in texts]
        sizes = [min(size, n - a) for size, n, a in zip(sizes, lengths, at, strict=True)]
        parts = [layout.order[0, a : a + size] for layout, a, size in zip(layouts, at, sizes, strict=True)]
        if not sum(sizes):
            continue
        num_before = [layout.num_before[0, part] for layout, part in zip(layouts, parts, strict=True)]
        before = [
            torch.where(n > 0, x[0, (part - 1).clamp(min=0)], network.core.start)
            for x, part, n in zip(texts, parts, num_before, strict=True)
        ]
        item = torch.arange(5).repeat_interleave(torch.tensor(sizes))
        rows = memory.add(item, torch.cat(parts), torch.cat(num_before))
        outputs = network.core(torch.cat(before), rows, memory, ops).split(sizes)
        for part, more in zip(found, outputs, strict=True):
            part.append(more)
        at = [a + size for a, size in zip(at, sizes, strict=True)]
    for x, layout, strand, part in zip(texts, layouts, strands, found, strict=True):
        expected = one_pass("coding-bytes", x, x.shape[1], strand)
        assert torch.equal(torch.cat(part), expected[0, layout.order[0]])


def test_long_texts_continue_and_forget(generator):
    """What a memory forgot makes no difference to what is left of it: a fresh memory of the rest gives the same."""
    model, network = tiny_exact_coding("coding-text").model, network_of("coding-text")
    x = random_texts("coding-text", 2, 40, generator)
    bits = model.bits(x, calls=4)
    for size in (1, 3):
        memory, total = network.new_memory(2), torch.zeros(2, dtype=torch.float64)
        calls = window_calls(40, 8, 4, CPU)
        for call in calls:
            memory.forget_before(call.window_start - 8)
            for part in cut([call], [*range(size, len(call.positions), size)]):
                total -= model.log_probs(model.continued(x, part, memory), x[:, part.positions]).sum(1)
        assert int(memory.counts[0]) == 16
        assert torch.allclose(total / np.log(2), bits.double(), rtol=1e-6)


def test_positions_have_no_limit(generator):
    """A table of one turn serves all positions; neighbours far away see each other as those at the start do, nearly."""
    core = network_of("coding-text").core
    positions = torch.tensor([0, 1, 2**20, 2**40])
    cos, sin = core.rotation.at(positions)
    angles = positions[:, None].double() * core.rotation.steps * (2 * torch.pi / 2**32)
    assert (cos / 2**14 - angles.cos()).abs().max() < 2e-3
    assert (sin / 2**14 - angles.sin()).abs().max() < 2e-3


def test_outputs_are_close_to_the_float_network(generator):
    kind = "coding-bytes"
    trained, exact = tiny_float_coding(kind), tiny_exact_coding(kind)
    x = random_texts(kind, 6, 24, generator)
    layout = uniform_layout(6, 24, 24, 5, CPU)
    with torch.no_grad():
        expected = trained.model.outputs(x, layout)
    error = (exact.model.outputs(x, layout) - expected).abs().mean() / expected.std()
    assert error < 0.06


def test_operations_agree_on_extreme_integers(generator):
    def integers(shape: tuple[int, ...], limit: int, dtype: torch.dtype) -> Tensor:
        x = torch.randint(-limit, limit + 1, shape, generator=generator)
        return torch.where(torch.rand(shape, generator=generator) < 0.2, x.sign() * limit, x).to(dtype)

    item, number = torch.tensor([0, 0, 2, 2, 2]), torch.tensor([69, 70, 0, 1, 2])
    taps = torch.stack([torch.tensor([-1, -1, -1, 0, 0]), number], dim=1)
    places = Places(item, number, taps)
    query, keys = integers((5, 2, 88), 127, torch.int8), integers((3, 2, 88, 128), 63, torch.int8)
    values, seen = integers((3, 2, 128, 96), 127, torch.int8), integers((3, 128, 40), 2047, torch.int16)
    key, value = integers((5, 2, 88), 63, torch.int8), integers((5, 2, 88), 127, torch.int8)
    weight, scale = integers((1, 2, 40), 127, torch.int8), torch.rand(40, generator=generator) * 1e-3
    table = torch.arange(4095, -1, -7, dtype=torch.int32)
    constants = (table, torch.tensor(0.002), torch.full((2, 88), 0.7, dtype=torch.float64))
    results = []
    for ops in (REFERENCE, *available_operations(CPU).values()):
        kept = keys.clone(), values.clone()
        ops.remember(*kept, places, key, value)
        mixed = ops.attend_visible(query, *kept, places, *constants)
        results.append((*kept, mixed, ops.depthwise_before(seen, places, weight, scale)))
    for found in results[1:]:
        assert all(map(torch.equal, found, results[0]))


def test_invisible_rows_make_no_difference(generator):
    """Not even with keys that would have the largest score."""
    item, number = torch.tensor([0, 0]), torch.tensor([3, 4])
    places = Places(item, number, number[:, None])
    query = torch.full((2, 1, 8), 127, dtype=torch.int8)
    keys = torch.randint(-63, 30, (1, 1, 8, 64), generator=generator).to(torch.int8)
    values = torch.randint(-127, 128, (1, 1, 64, 32), generator=generator).to(torch.int8)
    table = torch.arange(4095, -1, -7, dtype=torch.int32)
    constants = (table, torch.tensor(0.05), torch.ones(1, 8, dtype=torch.float64))
    for ops in available_operations(CPU).values():
        expected = ops.attend_visible(query, keys, values, places, *constants)
        others = keys.clone()
        others[..., 5:] = 63
        assert torch.equal(ops.attend_visible(query, others, values, places, *constants), expected)


@pytest.mark.parametrize(
    ("layer", "damage", "reason"),
    [
        ("rotation", lambda m: m.steps.fill_(-1), "a step is negative"),
        ("rotation", lambda m: m.exponential.fill_(5000), "the table of the exponential is out of range"),
        ("rotation", lambda m: setattr(m, "max_length", MAX_VISIBLE + 1), "2049 positions are too many"),
        ("blocks.0.attention", lambda m: m.mean_scale.fill_(float("nan")), "a scale is not a finite number"),
        ("blocks.1.attention.key", lambda m: m.weight.fill_(100), "a weight exceeds"),
        ("blocks.0.depthwise", lambda m: m.scale.fill_(1e9), "a scale is out of range"),
        ("embedding", lambda m: m.values.fill_(2**23), "a sum of rows may reach"),
        ("head", lambda m: m.bias.fill_(2**29), "a bias exceeds"),
    ],
)
def test_a_bound_that_fails_names_the_layer(layer, damage, reason):
    core = copy.deepcopy(network_of("coding-bytes").core)
    damage(core.get_submodule(layer))
    with pytest.raises(ExactError, match=f"layer {layer} cannot be computed exactly: {reason}"):
        check_bounds(core)


def test_more_characters_than_sums_can_hold_are_refused():
    network = network_of("coding-text")
    memory = network.core.new_memory(1)
    positions = torch.arange(MAX_VISIBLE + 1)
    with pytest.raises(ExactError, match="2049 characters are more than an exact network sees at a time, 2048"):
        memory.add(torch.zeros_like(positions), positions, positions)


@pytest.fixture
def written(tmp_path) -> Path:
    save_model(tmp_path / "model", tiny_exact_coding("coding-text"))
    return tmp_path / "model"


def test_a_model_is_saved_and_loaded(written, generator):
    exact, loaded = tiny_exact_coding("coding-text"), load_any(written)
    assert isinstance(loaded, TrainedCoding)
    assert loaded.exact is not None
    assert exact.exact is not None
    assert (loaded.exact.identity, loaded.exact.calls) == (exact.exact.identity, 5)
    x = random_texts("coding-text", 3, 16, generator)
    assert torch.equal(loaded.model.bits(x, calls=5), exact.model.bits(x, calls=5))
    assert score(loaded.model, x).bits_per_dim > 0
    drawn = [*sample_chain(loaded.model, 2, generator, calls=4)][-1]
    assert drawn.shape == (2, 16)


def test_the_library_and_the_command_line_read_it(written, tmp_path, capsys):
    texts = ardm.load(written)
    assert "exact" in repr(texts)
    assert texts.score(["the cat"], calls=3).bits[0] > 0
    assert len(texts.sample(2, calls=4)) == 2
    (tmp_path / "text.txt").write_text("the cat sat on the mat " * 40)
    assert "bits/char" in output(capsys, ["eval", str(written), str(tmp_path / "text.txt"), "--calls", "5"])
    assert "identity" in output(capsys, ["info", str(written)])


@pytest.mark.parametrize(("name", "value"), [("inputs", 2**40), ("lengths", 0), ("where", 99), ("where", -1)])
def test_a_self_test_out_of_range_is_refused(name, value, tmp_path):
    exact = tiny_exact_coding("coding-text")
    assert exact.exact is not None
    part = exact.exact
    changed = getattr(part.network.test, name).clone()
    changed.view(-1)[-1] = value
    network = ExactCodingNetwork(part.network.core, part.network.units, replace(part.network.test, **{name: changed}))
    save_model(tmp_path / "model", replace(exact, exact=replace(part, network=network)))
    with pytest.raises(CheckpointError, match="the self-test of the model file is malformed"):
        load_any(tmp_path / "model")


def test_a_file_with_other_integers_is_refused(tmp_path):
    exact = tiny_exact_coding("coding-text")
    assert exact.exact is not None
    network = copy.deepcopy(exact.exact.network)
    network.core.blocks[0].expand.weight[:4] *= -1
    save_model(tmp_path / "model", replace(exact, exact=replace(exact.exact, network=network)))
    with pytest.raises(CheckpointError, match="no backend on cpu gives the integers"):
        load_any(tmp_path / "model")


@pytest.mark.parametrize("kind", CODING_KINDS)
def test_the_reference_decoder_gives_the_same_integers(kind, tmp_path, generator):
    """An implementation in NumPy from the specification alone, one character after another."""
    save_model(tmp_path / "model", tiny_exact_coding(kind))
    model = reference_decoder.read_model((tmp_path / "model").read_bytes(), kind="exact coding model")
    part = tiny_exact_coding(kind).exact
    assert part is not None
    assert model.identity == part.identity
    np.testing.assert_array_equal(model.self_test_outputs(), model.tensors["test/outputs"])
    length = min(24, CODING_KINDS[kind][1])
    for window, strand in ((length, 5), (length // 2, 3), (length, length)):
        x = random_texts(kind, 1, length, generator)
        found = reference_decoder.coding_outputs(model, x[0].numpy(), window, strand)
        np.testing.assert_array_equal(found, one_pass(kind, x, window, strand)[0].numpy())


DIGESTS = {
    "coding-text": "6001f6363ee0c8055030f9233c74b6416c582529170b9bae2c214357322e7b95",
    "coding-bytes": "746afde2af0e0511ef7537c951c15e760f8a02343d1d1820fc8dd6c48e01a2d9",
}
"""SHA-256 of outputs of the golden models; a change breaks every file that a coding model coded."""


@pytest.mark.parametrize("kind", DIGESTS)
def test_golden_outputs(kind):
    trained = load_any(GOLDEN / f"{kind}.model")
    assert isinstance(trained, TrainedCoding)
    length = trained.model.num_variables
    x = (torch.arange(2 * length) * 7 % trained.model.num_classes).view(2, length)
    network = trained.model.network
    layout = uniform_layout(2, length, length, 4, CPU)
    outputs = network.integers(characters_before(x, layout.num_before, trained.model.start), layout)
    assert hashlib.sha256(outputs.numpy().astype("<i4").tobytes()).hexdigest() == DIGESTS[kind]


def test_the_vector_of_the_specification():
    """What docs/network.md states for the golden model of text."""
    page = (Path(__file__).parents[2] / "docs" / "network.md").read_text()
    trained = load_any(GOLDEN / "coding-text.model")
    assert isinstance(trained, TrainedCoding)
    assert trained.exact is not None
    network, test = trained.exact.network, trained.exact.network.test
    assert f"| `coding-text.model` | `{trained.exact.identity.hex()}` |" in page
    x, strand, position = test.inputs[1:], int(test.lengths[1]), 8
    assert f"values {spaced_out(x[0])}, strands of {strand}, the character at position {position}" in page
    found, place = one_pass_of(network, x, 16, strand)[0, position], test.where[1].tolist().index(position)
    assert torch.equal(found, test.outputs[1, place])
    embedded = network.core.embedding.values[0, x[0, position - 1]]
    index = (position * network.core.rotation.steps.long()) % 2**32 >> 20
    for name, numbers in (("outputs", found), ("embedding", embedded[:8]), ("j", index)):
        assert re.search(rf"^{name} +{spaced_out(numbers)}( ...)?$", page, flags=re.MULTILINE)
    assert f"`rotation.steps` {spaced_out(network.core.rotation.steps)}." in page
    assert f"The sequence is {spaced_out(uniform_layout(1, 16, 16, strand, CPU).order[0])}." in page


def spaced_out(numbers: Tensor) -> str:
    return " ".join(map(str, numbers.tolist()))


def test_results_do_not_depend_on_threads(generator):
    kind = "coding-long"
    x, network = random_texts(kind, 9, 300, generator), network_of(kind)
    layout = uniform_layout(9, 300, 300, 7, CPU)
    before = characters_before(x, layout.num_before, network.core.start)
    expected = network.integers(before, layout)
    try:
        for threads in (2, 3):
            torch.set_num_threads(threads)
            assert torch.equal(network.integers(before, layout), expected)
    finally:
        torch.set_num_threads(1)
