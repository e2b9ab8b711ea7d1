"""Compressing and restoring for the page: every medium there and back, what is refused, what is told."""

import base64
import io

import numpy as np
import pytest
from serving import (
    base64_of,
    error,
    events_of,
    image_from,
    job,
    key_of,
    png_of,
    random_pixels,
    result,
    serving,
    sound_file,
    tone,
)
from tiny_exact import SAMPLE_RATE, tiny_exact

import ardm
from ardm.apps.serve.display import other_sizes
from ardm.apps.serve.limits import PageLimits
from ardm.codec.format.archive import ArchiveWriter
from ardm.compression.content_codec import ContentCodec
from ardm.data.sound_files import wav_file
from ardm.media.contents import image_content

LIMITS = PageLimits()


@pytest.fixture(scope="module")
def client():
    with serving() as client:
        yield client


def contents() -> dict[str, tuple[str, str, bytes]]:
    """By name: a model, a file's name and its content."""
    grey = random_pixels(12, 20)[:, :, 0]
    return {
        "colour image": ("one-stage-colour", "a.png", png_of(random_pixels(20, 30))),
        "grey image": ("one-stage-colour", "a.png", png_of(grey)),
        "alpha": ("grey", "a.png", png_of(random_pixels(9, 17, 4))),
        "text": ("text", "ä.txt", ("the cat sat on the mat. " * 3).encode()),
        "bytes": ("bytes", "a.bin", bytes(range(40))),
        "sound": ("sound", "a.wav", wav_file(tone(70)[:, None], SAMPLE_RATE)),
        "stereo": ("sound", "a.wav", wav_file(np.stack((tone(30), tone(30)[::-1]), 1), SAMPLE_RATE)),
    }


class TestCompression:
    @pytest.mark.parametrize("name", contents())
    @pytest.mark.parametrize("is_coded", [True, False])
    def test_files_come_back(self, client, name, is_coded, monkeypatch):
        """Tiny models of random weights expand, so what they code would be stored; both ways must work."""
        if is_coded:
            monkeypatch.setattr("ardm.compression.content_codec.coded_or_raw", lambda entry, content, file_of: entry)
        kind, file_name, data = contents()[name]
        values = {"model": key_of(kind), "file": base64_of(data), "name": file_name, "calls": 10, "bits": True}
        told = job(client, "/api/compress", values)
        compressed = told[-1]
        assert compressed["kind"] == "result", compressed
        assert (compressed["original"], compressed["stored"]) == (len(data), not is_coded)
        assert compressed["name"] == file_name + ".ardm"
        assert all(other["bytes"] > 0 for other in compressed["others"])
        file = base64.b64decode(compressed["file"])
        assert len(file) == compressed["compressed"]
        if is_coded and name != "alpha":  # which lies beside what is coded
            assert compressed["bits"]["total"] == pytest.approx(8 * len(file), abs=8 * 60)
        restored = result(client, "/api/restore", {"file": compressed["file"], "name": compressed["name"]})
        back = base64.b64decode(restored["file"])
        if file_name.endswith(".png"):
            assert np.array_equal(image_from(restored["file"]), image_from(base64_of(data)))
        else:
            assert back == data
        assert restored["name"] == file_name

    def test_bits_of_pixels_add_up(self, client, monkeypatch):
        monkeypatch.setattr("ardm.compression.content_codec.coded_or_raw", lambda entry, content, file_of: entry)
        kind, _, data = contents()["colour image"]
        values = sound_file(kind, data) | {"calls": 10, "bits": True}
        bits = result(client, "/api/compress", values)["bits"]
        pixels = np.frombuffer(base64.b64decode(bits["pixels"]), "<f4")
        assert pixels.shape == (600,)
        assert pixels.min() > 0
        assert pixels.sum() == pytest.approx(bits["total"], rel=1e-5)
        assert result(client, "/api/compress", values | {"bits": False})["bits"] is None

    def test_a_format_that_has_no_such_image_is_left_out(self):
        """WebP ends at 16383 pixels."""
        sizes = other_sizes(image_content(np.zeros((1, 17000, 3), np.uint8)))
        assert [size["name"] for size in sizes] == ["PNG"]

    def test_more_calls_than_there_are_take_the_most(self, client):
        kind, name, data = contents()["text"]
        values = {"model": key_of(kind), "file": base64_of(data), "name": name, "bits": False}
        assert result(client, "/api/compress", values | {"calls": 10**6})["original"] == len(data)
        assert "calls must be a whole number from" in error(client, "/api/compress", values | {"calls": 0})[1]

    @pytest.mark.parametrize(
        ("kind", "name", "data", "message"),
        [
            ("one-stage-colour", "a.png", b"no image", "a.png is not a readable image"),
            ("one-stage-colour", "a.png", b"", "a.png is not a readable image"),
            ("sound", "a.wav", b"no sound", "a.wav is neither a WAV nor a FLAC file"),
            ("text", "a.txt", b"\xff\xfe", "a.txt is not UTF-8 text"),
            ("text", "a.ardm", b"x", "a.ardm is already compressed; it can be restored here"),
        ],
    )
    def test_files_that_cannot_be_compressed(self, client, kind, name, data, message):
        values = {"model": key_of(kind), "file": base64_of(data), "name": name, "calls": 10, "bits": True}
        status, text = error(client, "/api/compress", values)
        assert (status, message in text) == (400, True), text
        assert "/tmp" not in text

    def test_an_empty_text_is_stored(self, client):
        values = {"model": key_of("text"), "file": "", "name": "a.txt", "calls": 10, "bits": True}
        assert result(client, "/api/compress", values)["stored"]

    def test_files_that_cannot_be_restored(self, client):
        good = ardm.compress(tiny_exact("text"), "the cat sat on the mat")
        foreign = coded_by_another_model()
        archive = io.BytesIO()
        with ArchiveWriter.create(archive, None):
            pass
        for data, message in [
            (b"", "damaged"),
            (b"nonsense", "damaged"),
            (good[:-1], "damaged"),
            (foreign, "which this page does not have; serve that model too"),
            (archive.getvalue(), "an archive of several files"),
        ]:
            status, text = error(client, "/api/restore", {"file": base64_of(data), "name": "a.ardm"})
            assert (status, message in text) == (400, True), text

    def test_damage_that_only_decoding_shows(self, client, monkeypatch):
        monkeypatch.setattr("ardm.compression.content_codec.coded_or_raw", lambda entry, content, file_of: entry)
        data = bytearray(ardm.compress(tiny_exact("text"), "the cat sat on t", verify=False))
        data[-3] ^= 1
        told = client.post("/api/restore", json={"file": base64_of(bytes(data)), "name": "a.ardm"})
        text = told.json()["error"] if told.status_code == 400 else events_of(told.text)[-1]["message"]
        assert "damaged" in text


def coded_by_another_model() -> bytes:
    """A file of a model that the server does not have."""
    trained = tiny_exact("deep-text")
    codec = ContentCodec(trained)
    from ardm.codec.batching import Batching
    from ardm.codec.format.entries import Coded, Entry
    from ardm.media.contents import text_content

    content = text_content("the cat sat on the mat")
    entry = codec.encode([codec.place(content)], codec.options(), Batching())[0]
    coded = Coded(options=codec.options(), chunks=(b"\1\2\3", b"\1\2\3"))
    return codec.file_of(Entry(fields=entry.fields, content=coded))
