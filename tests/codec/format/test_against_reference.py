"""What the package writes, the reference decoder restores: every kind of model, content, option and file."""

import copy
import io
import itertools
import math
import struct
import tempfile
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import reference_decoder as reference
import torch
from stored import unchecked_shapes
from test_mutations import mutations
from tiny_exact import ALPHABET, KINDS, VARIANTS, tiny_exact
from torch import nn

import ardm
from ardm.checkpoint import save_model
from ardm.codec.batching import Batching
from ardm.codec.coding_plan import parse_order
from ardm.codec.format.archive import ArchiveWriter
from ardm.codec.format.options import Options, OrderChoice
from ardm.codec.format.short import is_short
from ardm.compression import content_codec
from ardm.compression.content_codec import CodecSet, ContentCodec
from ardm.errors import DamagedError, TooLargeError, UnknownModelError, UnknownVersionError
from ardm.exact.layers import check_bounds
from ardm.exact.operations import available_operations
from ardm.media.contents import Content, content_of, value_of
from ardm.names import ORDER_NAMES

Value = str | bytes | np.ndarray


@pytest.fixture(autouse=True)
def _always_coded(monkeypatch):
    monkeypatch.setattr(content_codec, "coded_or_raw", lambda entry, *_: entry)
    with unchecked_shapes():
        yield


@cache
def reference_model(kind: str) -> reference.Model:
    """A tiny exact model as the reference decoder reads its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        save_model(path, tiny_exact(kind))
        return reference.read_model(path.read_bytes())


def some(kind: str, *places: int, seed: int = 0) -> Value:
    """Random content of (length) or (height, width) for a model."""
    rng, data = np.random.default_rng(seed), tiny_exact(kind).config.data
    if data.medium == "images":
        return rng.integers(0, 256, places if data.channels == 1 else (*places, 3), dtype=np.uint8)
    if data.medium == "sound":
        return rng.integers(-(2**15), 2**15, places).astype(np.int16)
    return rng.bytes(*places) if data.kind == "bytes" else "".join(rng.choice(list(ALPHABET), places))


def assert_same(restored: Value, value: Value) -> None:
    assert type(restored) is type(value)
    if isinstance(value, np.ndarray):
        assert restored.dtype == value.dtype
    np.testing.assert_array_equal(restored, value)


def check(kind: str, value: Value, **options: object) -> reference.Entry:
    """The entry of a value that the package compresses and the reference decoder restores."""
    data = ardm.compress(tiny_exact(kind), value, verify=False, **options)
    model = reference_model(kind)
    assert_same(reference.restore_file(data, [model]), value)
    return reference.read_short(data, [model]) if is_short(data) else reference.read_single(data)


@pytest.mark.parametrize("kind", [*KINDS, *VARIANTS])
class TestModels:
    def test_identity_and_self_test(self, kind):
        model = reference_model(kind)
        assert model.identity == tiny_exact(kind).exact.identity
        np.testing.assert_array_equal(model.self_test_outputs(), model.tensors["test/outputs"])

    def test_several_windows_with_ragged_edges(self, kind):
        is_image = tiny_exact(kind).config.data.medium == "images"
        for places in [(23, 50), (9, 18)] if is_image else [(101,), (21,)]:
            assert len(check(kind, some(kind, *places)).chunks) > 1

    def test_one_window(self, kind):
        shape = tiny_exact(kind).model.shape
        for places in [(9, 17), (1, 1), (2, 17)] if len(shape) == 3 else [shape, (1,), (3,), (shape[0] - 1,)]:
            assert len(check(kind, some(kind, *places)).chunks) == 1


@pytest.mark.parametrize(("kind", "calls"), [("text", 5), ("staged", 10), ("colour", 5), ("sound", 10)])
def test_strands(kind, calls):
    """Stages with different numbers of calls have orders of their own."""
    trained = tiny_exact(kind)
    schedule = trained.exact.coding.schedules[trained.exact.coding.schedule_for(calls)]
    assert kind == "text" or len(set(schedule.calls)) > 1
    check(kind, some(kind, *trained.model.shape[:2]), order="strands", calls=calls)


def test_several_bundles_in_a_wave():
    """110 windows along the second axis, 2 along the first: 55, 110 and 55 in the waves, 107 in a bundle."""
    entry = check("grey", some("grey", 10, 1650), calls=5)
    assert len(entry.chunks) == 1 + 2 + 1


def test_several_bundles_of_a_line():
    assert len(check("grey", some("grey", 1, 3500), calls=5).chunks) == 2 + 2


# Images


def image(mode: str, is_grey: bool) -> np.ndarray:
    """Random pixels; R, G and B are equal if it is grey."""
    pixels = np.random.default_rng(0).integers(0, 256, (13, 21, len(mode)), dtype=np.uint8)
    if is_grey and mode.startswith("RGB"):
        pixels[:, :, 1:3] = pixels[:, :, :1]
    return pixels[:, :, 0] if mode == "L" else pixels


def alpha_of(form: int) -> np.ndarray:
    """A plane that is shortest in a form."""
    bits = np.random.default_rng(0).integers(0, 2, (13, 21), dtype=np.uint8)
    if form == 4:
        return np.full_like(bits, 77)
    for axis in ((), (1,), (0,), (0, 1))[form]:
        bits = np.cumsum(bits, axis=axis, dtype=np.uint8)
    return 200 * bits if form == 0 else 3 * bits


@pytest.mark.parametrize("kind", ["colour", "grey"])
class TestImages:
    @pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
    @pytest.mark.parametrize("is_grey", [False, True])
    def test_modes(self, kind, mode, is_grey):
        side = check(kind, image(mode, is_grey)).side
        has_equal = is_grey and mode.startswith("RGB")
        assert bool(side) == (has_equal or mode.endswith("A"))
        assert not side or side[0] >> 3 == has_equal
        assert mode != "RGB" or side == (b"\x0f" if is_grey else b"")

    @pytest.mark.parametrize("form", range(5))
    @pytest.mark.parametrize("mode", ["LA", "RGBA"])
    def test_alpha(self, kind, mode, form):
        for is_grey in (False, True):
            pixels = image(mode, is_grey)
            pixels[:, :, -1] = alpha_of(form)
            assert check(kind, pixels).side[0] & 7 == form


# Sounds


@pytest.mark.parametrize("kind", ["sound", "logistic", "companded"])
@pytest.mark.parametrize("side", [b"", b"\1", b"\2"])
def test_stereo(kind, side):
    left = some(kind, 70)
    right = {b"": left // np.int16(50), b"\1": left + np.int16(9), b"\2": left}[side]
    assert check(kind, np.stack((left, right), axis=1)).side == side


# Texts


@pytest.mark.parametrize("kind", ["text", "staged", "absorbing-text"])
class TestHiddenCharacters:
    @pytest.mark.parametrize("every", [2, 7, 30])
    def test_some(self, kind, every):
        text = "".join("ÄZ\U0001f600"[i % 3] if i % every == 0 else c for i, c in enumerate(some(kind, 90)))
        assert check(kind, text).side

    def test_a_whole_window(self, kind):
        check(kind, some(kind, 14) + "Z" * 40 + some(kind, 20))

    @pytest.mark.parametrize("length", [1, 16, 17, 90])
    def test_all(self, kind, length):
        """A payload without a symbol holds the check of nothing."""
        chunks = check(kind, "Z" * length).chunks
        assert set(chunks) == {bytes.fromhex("b2fe")}
        assert len(chunks) == (1 if length <= 16 else 2)

    def test_long_and_repeated(self, kind):
        assert check(kind, "Z" * 200).side[0] == 1
        assert check(kind, "aZb").side[0] == 0


# Options


@pytest.mark.parametrize("kind", ["text", "staged", "companded", "grey", "colour"])
class TestOptions:
    @pytest.mark.parametrize("order", [*ORDER_NAMES, "pseudorandom:70000", "pseudorandom:4294967295"])
    def test_orders(self, kind, order):
        entry = check(kind, some(kind, *self.places(kind)), order=order)
        own = parse_order(order) == tiny_exact(kind).exact.coding.order
        assert entry.options.order == (0 if own else 1 + ORDER_NAMES.index(order.partition(":")[0]))

    def test_schedules(self, kind):
        coding = tiny_exact(kind).exact.coding
        few = [(number, one) for number, one in enumerate(coding.schedules) if one.num_calls <= 80]
        for number, schedule in few:
            entry = check(kind, some(kind, *self.places(kind)), calls=schedule.num_calls, order="halton")
            assert entry.options.schedule == (0 if number == coding.default else number + 1)

    @staticmethod
    def places(kind: str) -> tuple[int, ...]:
        return (10, 18) if tiny_exact(kind).config.data.medium == "images" else (40,)


# Archives


def archive_of(shared: Options | None, parts: dict[str, tuple[Value, Options]], recoverable: bool = True) -> bytes:
    """An archive of texts, in two goes."""
    codec, file = ContentCodec(tiny_exact("text")), io.BytesIO()
    entries = {
        n: codec.encode([codec.place(content_of(x))], options, Batching())[0] for n, (x, options) in parts.items()
    }
    half = len(entries) // 2
    with ArchiveWriter.create(file, shared) as writer:
        writer.writes_groups = recoverable
        for name in list(entries)[:half]:
            writer.add(name, entries[name])
    with ArchiveWriter.append(file) as writer:
        writer.writes_groups = recoverable
        for name in list(entries)[half:]:
            writer.add(name, entries[name])
    return file.getvalue()


def stated_options() -> list[Options]:
    """Options of the text model: own, and stated ones of every kind."""
    own = ContentCodec(tiny_exact("text")).options()
    orders = (OrderChoice(name="reverse"), OrderChoice(name="pseudorandom", seed=300))
    return [own] + [
        Options(model=own.model, order=o, schedule=s) for o, s in itertools.product((None, *orders), (0, 2))
    ]


@pytest.mark.parametrize("shared", [None, 0, 3])
@pytest.mark.parametrize("recoverable", [True, False])
def test_archives(shared, recoverable):
    texts = [some("text", length, seed=length) for length in (1, 5, 16, 40)] + ["Zebra", ""]
    options = stated_options()
    parts = {f"{i}/{j}.txt": (text, one) for i, one in enumerate(options) for j, text in enumerate(texts)}
    data = archive_of(None if shared is None else options[shared], parts, recoverable)
    restored = reference.restore_archive(data, [reference_model("text")])
    assert restored == {name: text for name, (text, _) in parts.items()}


# Networks


def strained(core: nn.Module, rng: np.random.Generator) -> nn.Module:
    """An exact network near its bounds, so that what is clamped anywhere is clamped often."""
    core = copy.deepcopy(core)
    for name, tensor in core.state_dict().items():
        if name.endswith(("scale", "gain")):
            factor = float(rng.choice([0.3, 5, 100]))
            tensor *= min(factor, 5) if name == "head.scale" else factor  # companded means have large ones
            tensor.clamp_(max=2**25 if name.endswith("gain") else 2**11)
        elif name.endswith(("states", "embedding.values")):
            tensor *= int(rng.integers(1, 2**10))
    check_bounds(core)
    return core


@pytest.mark.parametrize("kind", [*KINDS, *VARIANTS])
@pytest.mark.parametrize("seed", range(2))
def test_networks_near_their_bounds(kind, seed):
    rng, trained = np.random.default_rng(seed), tiny_exact(kind)
    core, depth = strained(trained.exact.network.core, rng), trained.model.parametrization.depth
    tensors = {f"exact/{name}": tensor.numpy() for name, tensor in core.state_dict().items()}
    size = (4, *trained.model.shape)
    inputs, mask = rng.integers(0, depth.num_values, size), rng.random(size) < 0.5
    stage, where = rng.integers(0, depth.num_stages, 4), rng.integers(0, trained.model.num_variables, (4, 9))
    model = reference.Model(reference_model(kind).description, tensors)
    outputs = np.array(reference.network_outputs(model, inputs, mask, stage, where))
    arguments = [torch.from_numpy(x) for x in (inputs, mask, stage, where)]
    for ops in available_operations(torch.device("cpu")).values():
        np.testing.assert_array_equal(core(*arguments, ops), outputs)


# Files that are not as the package writes them, behind right checks: both refuse them, or restore the same

DAMAGED = "damaged"
REFUSALS = (DamagedError, TooLargeError, UnknownModelError, UnknownVersionError)
NUM_MUTATED = 150
MAX_VARIABLES = 400
"""Of contents that are decoded; mutated fields may state any size."""


def package_outcome(kind: str, data: bytes) -> Value:
    models = CodecSet([ContentCodec(tiny_exact(kind))])
    try:
        (restored,) = models.decode([models.entry_of(data)], Batching())
    except REFUSALS:
        return DAMAGED
    return value_of(restored) if isinstance(restored, Content) else DAMAGED


def reference_outcome(kind: str, data: bytes) -> Value:
    try:
        return reference.restore_file(data, [reference_model(kind)])
    except reference.DamagedError:
        return DAMAGED


def is_large(data: bytes) -> bool:
    """Whether a file states a content that would take long to decode."""
    try:
        entry = reference.read_single(data)
    except reference.DamagedError:
        return False
    places = entry.fields[:2] if entry.kind in reference.IMAGES else entry.fields[:1]
    return math.prod(places) > MAX_VARIABLES


def with_checks(data: bytes) -> bytes:
    """A single file with the right check at its end."""
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def seeds(kind: str) -> list[bytes]:
    """Small files of every form."""
    pixels = image("RGBA", is_grey=False)[:4, :5]
    values = {
        "text": ["cab", "aZb" * 9, some("text", 40), "Z" * 20],
        "bytes": [some("bytes", 9), some("bytes", 20)],
        "colour": [pixels, pixels[:, :, :3], pixels[:, :, ::3], np.repeat(pixels[:, :, :1], 3, axis=2)],
        "grey": [pixels, pixels[:, :, 0], np.repeat(pixels[:, :, :1], 4, axis=2)],
        "companded": [some("companded", 5), np.stack([some("companded", 22)] * 2, axis=1)],
    }[kind]
    files = [ardm.compress(tiny_exact(kind), value, verify=False) for value in values]
    files.append(ardm.compress(tiny_exact(kind), values[0], order="pseudorandom:7", calls=16, verify=False))
    return files


@pytest.mark.parametrize("kind", ["text", "bytes", "colour", "grey", "companded"])
def test_mutated_files(kind):
    num_restored = 0
    for data in mutations(seeds(kind), NUM_MUTATED, seed=3):
        data = with_checks(data)
        if not is_large(data):
            restored, expected = package_outcome(kind, data), reference_outcome(kind, data)
            num_restored += restored is not DAMAGED
            assert_same(restored, expected)
    assert num_restored
