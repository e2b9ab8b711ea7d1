"""The vectors that docs/format.md and docs/network.md state are what the code gives."""

import io
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from stored import readable
from test_archive import GOLDEN_APPENDED

from ardm.checkpoint import TrainedModel, load_model
from ardm.codec.calls import Items
from ardm.codec.coding_plan import orders_and_schedule
from ardm.codec.decoder import Streams
from ardm.codec.encoder import Encoder
from ardm.codec.format.archive import ArchiveReader
from ardm.codec.frequencies import log_scale_range, softmax_weights
from ardm.codec.items import ItemCodec
from ardm.codec.symbols import Rows, symbol_map
from ardm.codec.tables import EXPONENTIAL, GROWTH, INVERSE_SCALE, LOGISTIC_TAIL
from ardm.codec.windows import bundles
from ardm.depth import BaseDepthMap, absorbing
from ardm.orders import NAMED_ORDERS, pseudorandom, strands
from ardm.parametrizations import CompandedMixtureParametrization, DataParametrization, LogisticMixtureParametrization

ROOT = Path(__file__).parents[3]
FORMAT, NETWORK = ((ROOT / "docs" / name).read_text() for name in ("format.md", "network.md"))
GOLDEN = ROOT / "tests" / "golden" / "1"

WIDE = LogisticMixtureParametrization(absorbing(65536), 2, -14.0)
COMPANDED = CompandedMixtureParametrization(absorbing(65536), 2, -14.0)
NARROW = LogisticMixtureParametrization(absorbing(200), 2, -7.0)
WIDE_OUTPUTS = [0, -64, 2112000, 2560007, 300, 500]
COMPANDED_OUTPUTS = [0, -64, 320000, -2080117, 100, 300]
NARROW_OUTPUTS = [5, 0, 6400, 9600, 128, -300]


@cache
def golden_model(kind: str) -> TrainedModel:
    return load_model(GOLDEN / f"{kind}.model")


def spaced_out(numbers) -> str:
    """Numbers as the documents list them."""
    return " ".join(str(int(number)) for number in numbers)


def crc_of(numbers, dtype: str) -> str:
    return f"{zlib.crc32(np.asarray(numbers).astype(dtype).tobytes()):08x}"


def item_codec(trained: TrainedModel) -> ItemCodec:
    coding, model = trained.exact.coding, trained.model
    steps = orders_and_schedule(coding.order, model.shape, coding.schedules[coding.default])
    return ItemCodec(trained.exact.network, model.parametrization, model.shape, *steps)


def row(parametrization, outputs, stage=0, parent=0, before=()) -> str:
    """The weights of one symbol."""
    outputs = torch.from_numpy(np.array([outputs], np.int32))
    rows = Rows(outputs=outputs, stage=torch.tensor([stage]), parent=torch.tensor([parent]))
    weights = symbol_map(parametrization).weights(rows, [torch.tensor([symbol]) for symbol in before])[0]
    return spaced_out(weights[weights > 0])


class TestOrders:
    @pytest.mark.parametrize("shape", [(10,), (3, 4, 3)])
    @pytest.mark.parametrize("name", ["spaced", "halton"])
    def test_examples(self, name, shape):
        sizes = ", ".join(map(str, shape))
        assert f"| {name} | ({sizes}) | {spaced_out(NAMED_ORDERS[name](shape))} |" in FORMAT

    @pytest.mark.parametrize("seed", [0, 70_000])
    def test_seeds(self, seed):
        assert f"| pseudorandom, seed {seed} | (10) | {spaced_out(pseudorandom((10,), seed))} |" in FORMAT

    def test_strands(self):
        assert f"| strands, n = 4 | (10) | {spaced_out(strands(10, 4))} |" in FORMAT

    @pytest.mark.parametrize("shape", [(250,), (16_000,), (9, 17, 3), (32, 32, 3)])
    def test_checks(self, shape):
        checks = [f"`{crc_of(NAMED_ORDERS[name](shape), '<u4')}`" for name in ("spaced", "halton", "pseudorandom")]
        assert " | ".join([f"| ({', '.join(map(str, shape))})", *checks]) in FORMAT


class TestWeights:
    @pytest.mark.parametrize("table", [EXPONENTIAL, INVERSE_SCALE, LOGISTIC_TAIL, GROWTH])
    def test_tables(self, table):
        assert f"| {len(table)} | {table.sum()} | `{crc_of(table, '<u8')}` |" in FORMAT
        assert ", ".join(map(str, table[:3])) in FORMAT

    @pytest.mark.parametrize("logits", [(0, 64, -64, 1000), (7,)])
    def test_logits(self, logits):
        weights = softmax_weights(np.array([logits]), np.array([0]), np.array([len(logits)]), len(logits))[0]
        assert f"| logits {', '.join(map(str, logits))} | {spaced_out(weights)} |" in FORMAT

    @pytest.mark.parametrize(("stage", "parent"), [(0, 0), (1, 4), (2, 6)])
    def test_children(self, stage, parent):
        weights = row(DataParametrization(BaseDepthMap(7, 2)), range(10, 80, 10), stage, parent)
        assert any(
            f"stage {stage}, parent {parent}" in line and f"| {weights} |" in line for line in FORMAT.split("\n")
        )

    @pytest.mark.parametrize(
        ("mixture", "outputs", "before"),
        [
            (WIDE, WIDE_OUTPUTS, []),
            (WIDE, WIDE_OUTPUTS, [8, 0, 14]),
            (NARROW, NARROW_OUTPUTS, []),
            (NARROW, NARROW_OUTPUTS, [12]),
            (COMPANDED, COMPANDED_OUTPUTS, []),
            (COMPANDED, COMPANDED_OUTPUTS, [8, 0, 1]),
        ],
    )
    def test_mixtures(self, mixture, outputs, before):
        assert f"| {row(mixture, outputs, before=before)} |" in FORMAT

    def test_log_scales(self):
        other = LogisticMixtureParametrization(absorbing(256), 2, -7.0)
        for parametrization in (WIDE, other):
            assert "{}..{}".format(*log_scale_range(parametrization)) in FORMAT


def test_coder():
    counts = 1 + np.arange(24) % 4
    logits = np.tile(64 * np.arange(4), (24, 1))
    weights = softmax_weights(logits, np.zeros(24, np.int64), counts, 4)
    symbols, encoder = 5 * np.arange(24) % counts, Encoder()
    for run in (slice(0, 10), slice(10, 24)):
        encoder.write(symbols[run], weights[run])
    payload = encoder.finish(4660)
    assert f"\n{payload.hex()}\n" in FORMAT
    streams = Streams([payload], [24])
    read = streams.read(torch.from_numpy(weights[:8]), np.array([[0, 8]]), np.array([0]))
    assert np.array_equal(read, symbols[:8])
    assert f"X = {streams._last_number(0)} then" in FORMAT


class TestPayloads:
    def test_text_of_three_characters(self):
        trained = golden_model("text")
        x = torch.zeros(1, 16, dtype=torch.long)
        x[0, :3] = torch.tensor([trained.alphabet.characters.index(c) for c in "cab"])
        (payload,) = item_codec(trained).encode(Items.of(x, absent=torch.arange(16)[None] >= 3))
        assert f"\n{payload.hex()}\n" in FORMAT

    @pytest.mark.parametrize("kind", ["text", "grey", "sound", "logistic", "companded", "staged"])
    def test_first_call(self, kind):
        trained = golden_model(kind)
        model, shape = trained.model, (1, *trained.model.shape)
        inputs = torch.full(shape, model.depth.absorbing_value)
        zeros = torch.zeros(1, dtype=torch.long)
        mask = torch.zeros(shape, dtype=torch.bool)
        outputs = trained.exact.network.integers(inputs, mask, zeros, zeros, zeros[None])[0, 0].numpy()
        assert f"\n{spaced_out(outputs)}\n" in FORMAT
        assert f"\n{row(model.parametrization, outputs, parent=model.depth.absorbing_value)}\n" in FORMAT


class TestModels:
    @pytest.mark.parametrize("kind", sorted(path.stem for path in GOLDEN.glob("*.model")))
    def test_identities(self, kind):
        assert f"| `{kind}.model` | `{golden_model(kind).exact.identity.hex()}` |" in NETWORK

    @pytest.mark.parametrize(("kind", "output"), [("grey", 4), ("text", 10), ("wavenet", 8)])
    def test_self_tests(self, kind, output):
        outputs = golden_model(kind).exact.network.test.outputs[0, output]
        assert f"\noutputs            {spaced_out(outputs)}\n" in NETWORK

    @pytest.mark.parametrize("value", [0, 1, 255, 256, 32768, 65535])
    def test_made_rows(self, value):
        values = golden_model("sound").exact.network.core.embedding.values[0, value]
        assert f"| {value} | {spaced_out(values)} |" in NETWORK


class TestContent:
    def test_windows_of_an_image(self):
        starts = ({0: 0, 56: 1, 112: 2}, {0: 0, 56: 1, 112: 2, 168: 3})
        for chunk, windows in enumerate(bundles((150, 200, 1), (64, 64, 1))):
            numbers = [tuple(n[a.start] for n, a in zip(starts, w.area, strict=False)) for w in windows]
            assert f"| {chunk} | {windows[0].wave} | {' '.join(map(str, numbers))} |" in FORMAT
        coded = windows[-1].coded_area[:2]
        assert "rows {}..{} and columns {}..{}".format(*(n for c in coded for n in (c.start, c.stop - 1))) in FORMAT

    def test_a_bundle_without_a_coded_variable(self):
        trained = golden_model("text")
        everywhere = torch.ones(1, 16, dtype=torch.bool)
        items = Items.of(torch.zeros(1, 16, dtype=torch.long), absent=everywhere)
        (payload,) = item_codec(trained).encode(items)
        assert FORMAT.count(f"`{payload.hex()}`") == 2


ALL = ["a/image.png", "b.bin", "c"]


@pytest.mark.parametrize(
    ("length", "inverted", "words", "listed", "whole"),
    [
        (277, [], "the last byte is missing |", ALL, ALL),
        (277, [64], "the last byte is missing, and byte 64,", ALL, ALL[1:]),
        (184, [], "cut to 184 bytes,", ALL[:2], ALL[:2]),
        (278, [74, 185], "bytes 74 and 185, the first of each index, are inverted |", ALL, ALL),
    ],
)
def test_recovery(length, inverted, words, listed, whole):
    data = bytearray.fromhex(GOLDEN_APPENDED)[:length]
    for place in inverted:
        data[place] ^= 0xFF
    reader = ArchiveReader(io.BytesIO(data))
    assert reader.recovered
    assert (list(reader.listings), list(readable(bytes(data)))) == (listed, whole)
    assert f"| {words}" in FORMAT
