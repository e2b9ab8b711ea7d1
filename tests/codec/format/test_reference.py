"""The documents are enough: a decoder written from them alone restores the golden files, and meets their vectors."""

import hashlib
import json
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import reference_decoder as reference

GOLDEN = Path(__file__).parents[2] / "golden" / "1"
DIGESTS = json.loads((GOLDEN / "digests.json").read_text())
IDENTITIES = {
    "text": "30c7aaca74a292ad55fbda520b5e3112",
    "bytes": "01d7dfd28c0eaa51147d3a78e01497af",
    "grey": "9b16ca43a3c6e3d4860a2cf96a658b2d",
    "colour": "33b86fa520ef80ae578aade3f9a66c6d",
    "sound": "d45c6b1213dc9a978eebf0daa490e377",
    "logistic": "2e452a68aa5d688bec509651d9f0cf15",
    "mixed": "c984aa18fd67a8005dcca9debcde95b9",
    "companded": "9144d0f982d1793a4a0d5bef456bcea2",
    "upscaled": "02f521dfed40e745668f51f57184e199",
    "staged": "54492ae5aa12cbffda0b3e5143c1c61f",
    "wavenet": "2ce9bc4db5a6cb573abf8b10305905b1",
}
CAB = bytes.fromhex("f4184b9f")
"""The payload of the text `cab`."""


@cache
def model(name: str) -> reference.Model:
    return reference.read_model((GOLDEN / f"{name}.model").read_bytes())


def models() -> list[reference.Model]:
    return [model(name) for name in IDENTITIES]


def crc(numbers: np.ndarray, dtype: str) -> str:
    return f"{zlib.crc32(numbers.astype(dtype).tobytes()):08x}"


def test_every_golden_model_is_listed() -> None:
    assert {path.stem for path in GOLDEN.glob("*.model")} == set(IDENTITIES)
    assert {path.name for path in GOLDEN.glob("*.ardm")} == set(DIGESTS)


@pytest.mark.parametrize("name", IDENTITIES)
def test_model_has_its_identity_and_passes_its_self_test(name: str) -> None:
    assert model(name).identity.hex() == IDENTITIES[name]
    np.testing.assert_array_equal(model(name).self_test_outputs(), model(name).tensors["test/outputs"])


@pytest.mark.parametrize("name", DIGESTS)
def test_golden_file_is_restored(name: str) -> None:
    content = reference.restore_file((GOLDEN / name).read_bytes(), models())
    content = content.encode() if isinstance(content, str) else content
    raw = content if isinstance(content, bytes) else content.tobytes()
    assert hashlib.sha256(raw).hexdigest() == DIGESTS[name]


def test_golden_archive_is_restored() -> None:
    contents = reference.restore_archive((GOLDEN / "texts.ardma").read_bytes(), models())
    assert contents == json.loads((GOLDEN / "texts.json").read_text())


def test_text_shorter_than_a_window() -> None:
    options = reference.Options(model("text").identity[:6])
    entry = reference.Entry(reference.TEXT, (3,), options, b"", (CAB,))
    assert reference.restore_entry(entry, models()) == "cab"


@pytest.mark.parametrize("payload", [b"", CAB[:-1], CAB + b"\0", bytes([CAB[0] ^ 1]) + CAB[1:]])
def test_wrong_payload_is_damaged(payload: bytes) -> None:
    options = reference.Options(model("text").identity[:6])
    entry = reference.Entry(reference.TEXT, (3,), options, b"", (payload,))
    with pytest.raises(reference.DamagedError, match="payload"):
        reference.restore_entry(entry, models())


@pytest.mark.parametrize("name", [*DIGESTS, "texts.ardma"])
def test_damaged_byte_is_found(name: str) -> None:
    data = bytearray((GOLDEN / name).read_bytes())
    data[len(data) // 2] ^= 1
    restore = reference.restore_archive if name == "texts.ardma" else reference.restore_file
    with pytest.raises(reference.DamagedError, match="CRC"):
        restore(bytes(data), models())


# What no golden file reaches, by the vectors of docs/format.md.


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("spaced", (16000,), "2276a715"),
        ("halton", (16000,), "357464eb"),
        ("pseudorandom", (16000,), "f66eda2c"),
        ("spaced", (32, 32, 3), "87a7d80e"),
        ("halton", (32, 32, 3), "aec1d969"),
        ("pseudorandom", (32, 32, 3), "f77a04a5"),
    ],
)
def test_order(name: str, shape: tuple[int, ...], expected: str) -> None:
    assert crc(np.array(reference.make_order(name, shape)), "<u4") == expected


def test_tables() -> None:
    assert [crc(table, "<u8") for table in reference.tables()] == ["ca84315b", "21bb23aa", "a3dfe147", "a2354b1e"]


DATA = reference.Depth(7, 2, "data")
MIXTURE = reference.Depth(200, None, "logistic", num_components=2, min_log_scale=-7.0)
MIXTURE_OUTPUTS = np.array([5, 0, 6400, 9600, 128, -300])


@pytest.mark.parametrize(
    ("depth", "outputs", "stage", "parent", "digits", "weights"),
    [
        (DATA, np.arange(10, 80, 10), 0, 0, [], "7336755 9440461"),
        (DATA, np.arange(10, 80, 10), 1, 4, [], "10291917 6485299"),
        (DATA, np.arange(10, 80, 10), 2, 6, [], "16777216"),
        (
            MIXTURE,
            MIXTURE_OUTPUTS,
            0,
            200,
            [],
            "95 727 6329 54785 449920 2558707 4127463 1312208 181763 8082444 2456 282 37",
        ),
        (MIXTURE, MIXTURE_OUTPUTS, 0, 200, [12], "2123497 1854912 1619901 1414732 1235676 1079934 942844 6505720"),
    ],
)
def test_weights(
    depth: reference.Depth, outputs: np.ndarray, stage: int, parent: int, digits: list[int], weights: str
) -> None:
    assert depth.weights(outputs, stage, parent, digits).tolist() == [int(weight) for weight in weights.split()]


def test_limits_of_log_scales() -> None:
    assert reference.Depth(65536, None, "logistic", min_log_scale=-14.0).log_scale_limits() == [-231, 985]


def test_runs_without_a_network() -> None:
    rows = [reference.weights_of_shares(reference.shares_of_logits(np.arange(1 + r % 4) * 64)) for r in range(24)]
    stack = reference.Stack(bytes.fromhex("2e71d04803"), 24)
    assert stack.read(rows[:10]) + stack.read(rows[10:]) == [5 * r % (1 + r % 4) for r in range(24)]
    assert stack.number() == 1 + 4660


def test_windows_of_an_axis() -> None:
    windows = reference.windows_of_axis(100, 32)
    assert [window.start for window in windows] == [0, 28, 56, 84]
    codes = [(w.start + w.codes.start, min(99, w.start + w.codes.stop - 1)) for w in windows]
    assert codes == [(0, 31), (32, 55), (56, 87), (88, 99)]


def test_hidden_characters() -> None:
    side = bytes.fromhex("00030000aa025ac384f09f9880")
    assert reference.read_hidden(side, 301) == {0: "Z", 1: "Ä", 300: "\U0001f600"}


def test_options_and_chunks_of_single_files() -> None:
    chosen = reference.read_single(bytes.fromhex("ad5201436d6f64656c3205f0a2040420207061796c6f6164376a506c"))
    assert chosen.options[:4] == (b"model2", 5, 70000, 4)
    several = "ad520128001122334455bc05076573636170657303050066697273747468697264463f934d"
    text = reference.read_single(bytes.fromhex(several))
    assert (text.fields, text.side, text.chunks) == ((700,), b"escapes", (b"first", b"", b"third"))
    deflated = reference.read_single(bytes.fromhex("ad520118ac023bbcf2f0281c85548700264edbb2"))
    assert reference.restore_entry(deflated, []) == "é" * 300
