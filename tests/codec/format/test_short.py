"""Short files: golden bytes, when they are written, and what is refused."""

import random
from binascii import crc_hqx

import numpy as np
import pytest
from test_mutations import mutations
from tiny_exact import SAMPLE_RATE, tiny_exact

import ardm
from ardm.codec.format.entries import Limits
from ardm.codec.format.short import Short, is_short, read_short, write_short
from ardm.codec.format.single import is_single
from ardm.compression import content_codec
from ardm.compression.content_codec import CodecSet, ContentCodec
from ardm.compression.describe import short_facts
from ardm.data.sound_files import wav_file
from ardm.errors import DamagedError, TooLargeError, UnknownModelError
from golden.make import drawn_value

SHORT = Short(model="001", payload=b"payload")
GOLDEN = "b0017061796c6f6164b18a"
FIRST = Short(model="0011", payload=b"payload", version=1)
FIRST_GOLDEN = "ac00117061796c6f6164b93f"
"""Versions 2 and 1; the same stand in docs/format.md."""
NUM_MUTATED = 20_000


@pytest.fixture(autouse=True)
def _always_coded(monkeypatch):
    monkeypatch.setattr(content_codec, "coded_or_raw", lambda entry, *_: entry)


def own_value(kind: str) -> str | bytes | np.ndarray:
    """A value of exactly the model's shape."""
    trained = tiny_exact(kind)
    value = drawn_value(kind, trained)
    return value if kind in ("colour", "grey") else value[: trained.model.num_variables]


class TestBytes:
    def test_golden(self):
        assert write_short(SHORT).hex() == GOLDEN
        assert read_short(bytes.fromhex(GOLDEN)) == SHORT
        assert read_short(bytes.fromhex(FIRST_GOLDEN)) == FIRST

    def test_four_bytes_besides_the_payload(self):
        assert len(write_short(SHORT)) == len(SHORT.payload) + 4

    def test_is_told_from_single_files(self):
        assert is_short(write_short(SHORT))
        assert not is_single(write_short(SHORT))

    @pytest.mark.parametrize("golden", [GOLDEN, FIRST_GOLDEN])
    @pytest.mark.parametrize("length", range(11))
    def test_cut(self, golden, length):
        with pytest.raises(DamagedError):
            read_short(bytes.fromhex(golden)[:length])

    def test_without_a_payload(self):
        for start in ("b001", "ac0011"):
            content = bytes.fromhex(start)
            with pytest.raises(DamagedError, match="cut short"):
                read_short(content + crc_hqx(content, 0xFFFF).to_bytes(2, "little"))

    def test_an_empty_payload_is_refused(self):
        with pytest.raises(ValueError, match="empty"):
            Short(model="abc", payload=b"")

    def test_mutated(self):
        shorts = (SHORT, Short(model="abc", payload=random.Random(1).randbytes(300)))
        files = {write_short(short): short for short in shorts} | {bytes.fromhex(FIRST_GOLDEN): FIRST}
        num_wrong = 0
        for data in mutations(list(files), NUM_MUTATED, seed=1):
            try:
                short = read_short(data)
            except DamagedError:
                assert data not in files
            else:
                num_wrong += short != files.get(data)
        assert num_wrong <= 3  # one in 2^16 is expected; the check in the payload finds it


class TestModels:
    @pytest.mark.parametrize("kind", ["colour", "grey", "sound", "text", "bytes"])
    def test_items_of_the_models_own_shape_are_short(self, kind):
        value = own_value(kind)
        data = ardm.compress(tiny_exact(kind), value)
        assert is_short(data)
        np.testing.assert_array_equal(ardm.decompress(data, tiny_exact(kind)), value)

    def test_other_items_are_not(self):
        pixels = own_value("colour")
        grey = np.ascontiguousarray(pixels[:, :, 0])
        for value in (pixels[:-1], np.concatenate((pixels, pixels[:, :, :1]), axis=2), grey):
            assert is_single(ardm.compress(tiny_exact("colour"), value))
        text = own_value("text")
        for value in (text[:-1], text + " ", text[:-1] + "Ä"):
            assert is_single(ardm.compress(tiny_exact("text"), value))

    def test_other_options_are_not(self):
        assert is_single(ardm.compress(tiny_exact("text"), own_value("text"), order="reverse"))
        assert is_single(ardm.compress(tiny_exact("text"), own_value("text"), calls=5))

    def test_another_sample_rate_is_not(self, tmp_path):
        path = tmp_path / "x.wav"
        for rate, short in ((SAMPLE_RATE, True), (SAMPLE_RATE + 1, False)):
            path.write_bytes(wav_file(own_value("sound")[:, None], rate))
            assert is_short(ardm.compress(tiny_exact("sound"), path)) == short

    def test_the_model_is_named(self):
        data = ardm.compress(tiny_exact("text"), own_value("text"))
        start = tiny_exact("text").exact.identity.hex()[:3]
        for model in (None, tiny_exact("grey")):
            with pytest.raises(UnknownModelError, match=f"model {start}, which is not available"):
                ardm.decompress(data, model)

    def test_limits(self):
        data = ardm.compress(tiny_exact("grey"), own_value("grey"))
        with pytest.raises(TooLargeError):
            ardm.decompress(data, tiny_exact("grey"), limits=Limits(content_bytes=10))

    def test_info(self):
        facts = short_facts(ardm.compress(tiny_exact("grey"), own_value("grey")))
        assert facts["format"] == "short compressed file, version 2"
        assert facts["model"] == tiny_exact("grey").exact.identity.hex()[:3]

    def test_damage_behind_the_check_is_found(self):
        codec = ContentCodec(tiny_exact("text"))
        models, value = CodecSet([codec]), own_value("text")
        short = read_short(ardm.compress(tiny_exact("text"), value))
        for payload in mutations([short.payload], 120, seed=2):
            if payload and payload != short.payload:
                with pytest.raises(DamagedError):
                    ardm.decompress(write_short(Short(model=short.model, payload=payload)), tiny_exact("text"))
        assert models.entry_of(write_short(short)) == codec.own_entry(short.payload)
