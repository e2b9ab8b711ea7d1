"""The page's server without a browser: every route, its limits, wrong input, other sites, the command."""

import base64
import io
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import httpx
import numpy as np
import pytest
import torch
from invoke import fails
from launched import killed_after_the_test
from serving import (
    base64_of,
    error,
    fill_values,
    image_from,
    image_values,
    job,
    key_of,
    png_of,
    random_pixels,
    result,
    serving,
    sound_file,
    tiny_store,
    tone,
)
from starlette.datastructures import Headers
from tiny_exact import ALPHABET, SAMPLE_RATE, tiny_exact

import ardm
from ardm.apps.serve.filling import ORDERS
from ardm.apps.serve.inputs import as_file, plain_name
from ardm.apps.serve.limits import STATES, PageLimits
from ardm.apps.serve.models import PageModel, load_models
from ardm.apps.serve.security import refusal
from ardm.apps.serve.server import address, bound_socket
from ardm.checkpoint import save_model
from ardm.data.sound_files import wav_file
from ardm.errors import DataError, UsageError
from ardm.likelihood import exact_bits, variable_bits
from ardm.orders import NAMED_ORDERS
from ardm.planner import plan_gaps
from ardm.sample import sample_chain
from ardm.tasks.plan import make_schedule, planning_losses

LIMITS = PageLimits()


@pytest.fixture(scope="module")
def client():
    with serving() as client:
        yield client


class TestFiles:
    @pytest.mark.parametrize(
        ("path", "kind", "start"),
        [
            ("/", "text/html", b"<!doctype html>"),
            ("/app.js", "text/javascript", b"// The page"),
            ("/style.css", "text/css", b":root"),
            ("/icon.svg", "image/svg+xml", b"<svg"),
        ],
    )
    def test_the_page_is_served_and_loads_nothing_from_elsewhere(self, client, path, kind, start):
        response = client.get(path)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith(kind)
        assert response.content.startswith(start)
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        assert b"http" not in response.content.replace(b"http://www.w3.org/2000/svg", b"")

    @pytest.mark.parametrize(
        "path",
        [
            "/app.py",
            "/static/app.js",
            "/../app.py",
            "/..%2fapp.py",
            "/%2e%2e/%2e%2e/errors.py",
            "/app.js/../../errors.py",
            "//etc/passwd",
            "/etc/passwd",
            "/app.js%00.py",
            "/api/models/1",
            "/index.html",
        ],
    )
    def test_no_other_file_can_be_had(self, client, path):
        """Sent as it is: clients tidy paths up before they send them."""
        assert raw_status(client.base_url.port, path) == 404

    def test_other_methods_are_refused(self, client):
        assert client.get("/api/fill").status_code == 405
        assert client.post("/").status_code == 405
        assert client.put("/api/models").status_code == 405


def raw_status(port: int, path: str) -> int:
    import socket

    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        answer = connection.recv(4096)
    return int(answer.split()[1])


class TestGuard:
    @pytest.mark.parametrize(
        ("own", "headers", "is_refused"),
        [
            ("127.0.0.1", {"host": "127.0.0.1:8420"}, False),
            ("127.0.0.1", {"host": "LOCALHOST:8420"}, False),
            ("127.0.0.1", {"host": "[::1]:8420"}, False),
            ("127.0.0.1", {"host": "evil.example:8420"}, True),
            ("127.0.0.1", {"host": "127.0.0.1.evil.example"}, True),
            ("127.0.0.1", {"host": "192.168.1.7:8420"}, True),
            ("127.0.0.1", {}, True),
            ("127.0.0.1", {"host": "localhost:1", "origin": "http://localhost:1"}, False),
            ("127.0.0.1", {"host": "localhost:1", "origin": "http://localhost:2"}, True),
            ("127.0.0.1", {"host": "localhost:1", "origin": "https://evil.example"}, True),
            ("127.0.0.1", {"host": "localhost:1", "origin": "null"}, True),
            ("127.0.0.1", {"host": "localhost:1", "sec-fetch-site": "same-origin"}, False),
            ("127.0.0.1", {"host": "localhost:1", "sec-fetch-site": "cross-site"}, True),
            ("127.0.0.1", {"host": "localhost:1", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, False),
            ("192.168.1.7", {"host": "192.168.1.7:8420"}, False),
            ("192.168.1.7", {"host": "localhost:8420"}, True),
            ("0.0.0.0", {"host": "10.1.2.3:8420"}, False),
            ("0.0.0.0", {"host": "[fe80::1]:8420"}, False),
            ("0.0.0.0", {"host": "evil.example"}, True),
        ],
    )
    def test_only_the_own_page_may_ask(self, own, headers, is_refused):
        assert (refusal(Headers(headers), own) is not None) == is_refused

    def test_refusals_are_one_line(self, client):
        response = client.get("/api/models", headers={"host": "evil.example"})
        assert response.status_code == 403
        assert "does not answer for the host 'evil.example'" in response.json()["error"]
        response = client.post("/api/fill", json={}, headers={"origin": "https://evil.example"})
        assert response.status_code == 403
        assert "only to its own page" in response.json()["error"]

    def test_only_json_is_read(self, client):
        """A form of another site cannot send it without asking first."""
        response = client.post("/api/fill", content=b"{}", headers={"content-type": "text/plain"})
        assert (response.status_code, response.json()["error"][:9]) == (415, "send JSON")


class TestModels:
    def test_facts(self, client):
        facts = client.get("/api/models").json()
        models = {model["key"]: model for model in facts["models"]}
        assert [model["medium"] for model in models.values()] == ["images", "text", "sound", "images", "text", "text"]
        colour = models[key_of("one-stage-colour")]
        assert (colour["width"], colour["height"], colour["channels"], colour["stages"]) == (17, 9, 3, 1)
        assert colour["coding"]["default"] in [budget["calls"] for budget in colour["coding"]["budgets"]]
        assert models[key_of("text")]["alphabet"] == ALPHABET
        assert models[key_of("bytes")]["alphabet"] is None
        assert models[key_of("sound")]["rate"] == SAMPLE_RATE
        assert all(model["seconds"] > 0 for model in models.values())
        assert facts["limits"]["file_bytes"] == LIMITS.file_bytes

    def test_budgets_cost_less_with_more_calls(self, client):
        answer = client.post("/api/budgets", json={"model": key_of("text"), "text": "the c__ s__ on"}).json()
        bits = [budget["bits"] for budget in answer["budgets"]]
        assert answer["hidden"] == 4
        assert [budget["calls"] for budget in answer["budgets"]] == [1, 2, 3, 4]
        assert bits == sorted(bits, reverse=True)
        assert bits[0] > bits[-1] > 0
        assert answer["seconds"] > 0

    def test_a_model_without_a_profile_promises_nothing_and_still_fills(self, client):
        answer = client.post("/api/budgets", json={"model": key_of("grey"), "width": 6, "height": 5}).json()
        assert {budget["bits"] for budget in answer["budgets"]} == {None}
        filled = result(client, "/api/fill", fill_values("grey", width=6, height=5, calls=9))
        assert image_from(filled["picture"]).shape == (2 * 5, 6)

    def test_gaps_are_planned_as_on_the_command_line(self):
        """Also in items of another size than the model's, whose losses are stretched twice."""
        page, shape = tiny_store().models[key_of("one-stage-colour")], (7, 9, 3)
        trained = page.trained.for_shape(shape)
        for first in range(0, 180, 9):
            schedule = make_schedule(trained, 9, "planned", first)
            assert page.schedule(9, shape, first, 189) == schedule
            for budget in page.budgets(shape, first, 189)[:2]:
                assert budget.bits == plan_gaps(planning_losses(trained), budget.calls, first, 189).bits

    def test_trained_weights_are_served_but_do_not_compress(self, tmp_path):
        model = tiny_store().models[key_of("text")]
        plain = PageModel(key="1", title="run", trained=replace(model.trained, exact=None), runtime=model.runtime)
        assert plain.codec is None
        assert plain.coding_budgets() == []
        with pytest.raises(UsageError, match="`ardm export` makes an exact model"):
            _ = plain.exact_codec

    def test_models_are_loaded_from_files(self, tmp_path):
        path = tmp_path / "text.model"
        save_model(path, tiny_exact("text"))
        store = load_models([path, path])
        assert [(one.key, one.title) for one in store.models.values()] == [("1", "text.model"), ("2", "text.model")]
        with pytest.raises(DataError, match="there is no model '3' here"):
            store.find("3")


class TestFill:
    def test_images_keep_what_is_not_painted_over(self, client):
        pixels, mask = random_pixels(11, 13), np.zeros((11, 13), bool)
        mask[3:8, 4:9] = True
        told = job(client, "/api/fill", image_values(pixels, mask, samples=3, calls=7))
        states = [event for event in told if event["kind"] == "state"]
        assert [state["call"] for state in states] == list(range(1, 8))
        first, last = (image_from(state["picture"]).reshape(3, 11, 13, 3) for state in (states[0], told[-1]))
        assert told[-1]["calls"] == 7
        assert all(np.array_equal(sample[~mask], pixels[~mask]) for sample in (*first, *last))
        assert (first[:, mask] == 128).mean() > 0.5
        assert not np.array_equal(last[0], last[1])

    def test_everything_painted_over_is_nothing_known(self, client):
        filled = result(client, "/api/fill", image_values(random_pixels(4, 5), np.ones((4, 5), bool)))
        assert image_from(filled["picture"]).shape == (8, 5, 3)

    def test_colours_become_grey_for_a_grey_model(self, client):
        pixels, mask = np.full((4, 5, 3), (255, 0, 0), np.uint8), np.zeros((4, 5), bool)
        mask[0, 0] = True
        filled = image_from(result(client, "/api/fill", image_values(pixels, mask, "grey", samples=1))["picture"])
        assert set(filled[~mask].tolist()) == {76}

    @pytest.mark.parametrize("order", ORDERS)
    def test_texts_keep_what_is_typed(self, client, order):
        filled = result(client, "/api/fill", fill_values("text", text="the c__ s__ é", order=order))
        assert all(text.startswith("the c") and text[7:9] == " s" and text[11:] == " é" for text in filled["texts"])
        assert filled["filled"] == [c == "_" for c in "the c__ s__ é"]
        assert [[b > 0 for b in bits] for bits in filled["bits"]] == 2 * [filled["filled"]]

    def test_bits_are_those_of_the_samples(self, client):
        """Of one filled character: -log2 of the probability that the model gives to it."""
        filled = result(client, "/api/fill", fill_values("text", text="the c_t", samples=1, calls=1))
        trained = tiny_store().models[key_of("text")].trained
        x = torch.zeros(1, 16, dtype=torch.long)
        x[0, :7] = torch.tensor([ALPHABET.index(c) for c in filled["texts"][0]])
        known = torch.arange(16) < 7
        known[5] = False
        target = torch.arange(16) == 5
        expected = ardm.conditional_bits(trained.model, x, target, known, torch.arange(16))
        assert filled["bits"][0][5] == pytest.approx(expected.item(), abs=0.006)

    def test_a_seed_repeats_samples(self, client):
        values = [fill_values("text", text="____ the", seed=seed) for seed in (1, 1, 2)]
        first, again, other = (result(client, "/api/fill", value)["texts"] for value in values)
        assert first == again != other

    def test_texts_from_nothing(self, client):
        assert all(len(text) == 16 for text in result(client, "/api/fill", fill_values("text", text=""))["texts"])
        filled = result(client, "/api/fill", fill_values("text", text="___", samples=9))
        assert all(len(text) == 3 and "_" not in text for text in filled["texts"])
        assert all(bit > 0 for bits in filled["bits"] for bit in bits)
        assert all(len(text) == 5 for text in result(client, "/api/fill", fill_values("staged", text="ab_cd"))["texts"])
        assert result(client, "/api/fill", fill_values("bytes", text="a_c"))["texts"][0][0] == "a"

    def test_sounds_keep_what_is_outside_the_range(self, client):
        samples = tone(60)
        content = {"file": base64_of(wav_file(samples[:, None], SAMPLE_RATE)), "name": "a.wav"}
        values = fill_values("sound", **content, start=20 / SAMPLE_RATE, stop=40 / SAMPLE_RATE)
        filled = result(client, "/api/fill", values)
        wav = base64.b64decode(filled["files"][0])
        assert np.frombuffer(wav[-120:], "<i2")[:20].tolist() == samples[:20].tolist()
        assert np.frombuffer(wav[-120:], "<i2")[40:].tolist() == samples[40:].tolist()
        assert len(filled["spectrograms"]) == len(filled["peaks"]) == 2
        assert len(result(client, "/api/fill", fill_values("sound"))["files"]) == 2

    def test_sounds_are_previewed(self, client):
        values = {
            "model": key_of("sound"),
            "file": base64_of(wav_file(tone(60)[:, None], SAMPLE_RATE)),
            "name": "a.wav",
        }
        looks = client.post("/api/preview", json=values).json()
        assert looks["samples"] == 60
        assert len(looks["peaks"]) == 60
        assert image_from(looks["spectrogram"]).ndim == 3

    def test_long_chains_are_shown_in_part(self, client):
        told = job(client, "/api/fill", fill_values("one-stage-colour", width=8, height=8, calls=192, samples=1))
        calls = [event["call"] for event in told if event["kind"] == "state"]
        assert len(calls) == STATES
        assert (calls[0], calls[-1]) == (1, 192)

    def test_scores_are_exact_bits(self, client):
        scored = result(client, "/api/score", {"model": key_of("text"), "text": "the cat", "calls": 16})
        model = tiny_store().models[key_of("text")].trained.model
        assert scored["texts"] == ["the cat"]
        assert len(scored["bits"][0]) == 7
        assert sum(scored["bits"][0]) > 7
        orders = torch.from_numpy(NAMED_ORDERS["spaced"]((16,))).expand(3, 1, -1)
        x = torch.randint(model.depth.num_classes, (3, 16), generator=torch.Generator().manual_seed(0))
        schedule = ardm.uniform_schedule(16, 5)
        bits = variable_bits(model, x, orders, schedule, batch_size=4)
        torch.testing.assert_close(bits.sum(1), exact_bits(model, x, orders, schedule))


BAD_FILLS = [
    ("text", {"model": "99"}, "there is no model '99' here"),
    ("text", {"model": 1}, "model must be a text, got 1"),
    ("text", {"text": "no gap"}, "nothing to fill: put _ for each character"),
    ("text", {"text": "_" * 17}, "the text has 17 characters; this model takes 1 to 16"),
    ("text", {"text": "the _" * 10}, "the text has 50 characters; this model takes 1 to 16"),
    ("text", {"text": "Z_"}, "character 'Z' at position 0 is not in the model's alphabet"),
    ("text", {"text": "\ud800_"}, "half a character"),
    ("text", {"text": None}, "text must be a text, got None"),
    ("text", {"text": "_", "samples": 0}, "samples must be a whole number from 1 to 12, got 0"),
    ("text", {"text": "_", "samples": True}, "samples must be a whole number from 1 to 12, got True"),
    ("text", {"text": "_", "samples": 10**9}, "samples must be a whole number from 1 to 12"),
    ("text", {"text": "_", "calls": 0}, "calls must be a whole number"),
    ("text", {"text": "_", "calls": "many"}, "calls must be a whole number"),
    ("text", {"text": "_", "order": "best"}, "order must be one of random, halton, spaced, raster, got 'best'"),
    ("text", {"text": "_", "temperature": 0}, "temperature must be a number from 0.1 to 2, got 0"),
    ("text", {"text": "_", "temperature": "warm"}, "temperature must be a number"),
    ("text", {"text": "_", "seed": -1}, "seed must be a whole number"),
    ("one-stage-colour", {"width": 0, "height": 4}, "width must be a whole number from 1 to 512, got 0"),
    ("one-stage-colour", {"width": 4, "height": 4, "pixels": "!!", "mask": "1" * 16}, "pixels is not valid base64"),
    ("one-stage-colour", {"width": 4, "height": 4, "pixels": "AAAA", "mask": "1" * 16}, "have 48 bytes, got 3"),
    ("one-stage-colour", {"width": 1, "height": 2, "pixels": "AAAA", "mask": "00"}, "nothing to fill: paint over"),
    ("one-stage-colour", {"width": 1, "height": 2, "pixels": "AAAA", "mask": "0"}, "2 characters, each 0 or 1"),
    ("one-stage-colour", {"width": 1, "height": 2, "pixels": "AAAA", "mask": "0x"}, "2 characters, each 0 or 1"),
    ("one-stage-colour", {"width": 1, "height": 2, "pixels": "AAAA", "mask": "000"}, "mask has 3 characters"),
    ("sound", {"file": "UklGRg==", "name": "a.wav", "start": 0, "stop": 1}, "a.wav is neither a WAV nor a FLAC file"),
    ("sound", {"file": "", "name": "../../a.wav", "start": 0, "stop": 1}, "a.wav is empty"),
]


class TestWrongInput:
    @pytest.mark.parametrize(("kind", "changes", "message"), BAD_FILLS)
    def test_wrong_values_get_one_clear_line(self, client, kind, changes, message):
        status, text = error(client, "/api/fill", fill_values(kind) | changes)
        assert status == 400
        assert message in text
        assert text == text.strip()
        assert "/tmp" not in text

    @pytest.mark.parametrize(
        ("start", "stop", "message"),
        [
            (0.001, 0.001, "nothing to fill: choose a range"),
            (0, 9, "stop must be a number from 0 to 0.0075"),
            (0.004, 0.002, "nothing to fill"),
            (0, None, "stop must be a number"),
        ],
    )
    def test_wrong_ranges_of_time(self, client, start, stop, message):
        content = {"file": base64_of(wav_file(tone(60)[:, None], SAMPLE_RATE)), "name": "a.wav"}
        status, text = error(client, "/api/fill", fill_values("sound", **content, start=start, stop=stop))
        assert (status, message in text) == (400, True), text

    def test_sounds_of_another_rate_or_stereo_are_refused(self, client):
        silence = np.zeros((9, 2), np.int16)
        for frames, rate, message in [
            (silence[:, :1], 44100, "44100 samples per second"),
            (silence, SAMPLE_RATE, "2 channels"),
        ]:
            content = {"file": base64_of(wav_file(frames, rate)), "name": "a.wav"}
            status, text = error(client, "/api/preview", {"model": key_of("sound"), **content})
            assert (status, message in text) == (400, True), text

    @pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[]", b"7"])
    def test_bodies_that_are_no_object(self, client, body):
        message = "must be a JSON object" if body in (b"[]", b"7") else "not valid JSON"
        response = client.post("/api/fill", content=body, headers={"content-type": "application/json"})
        assert (response.status_code, message in response.json()["error"]) == (400, True)

    def test_only_texts_of_one_stage_are_scored(self, client):
        assert "only texts" in error(client, "/api/score", {"model": key_of("grey"), "text": "a", "calls": 1})[1]
        assert "several stages" in error(client, "/api/score", {"model": key_of("staged"), "text": "a", "calls": 1})[1]
        assert "is empty" in error(client, "/api/score", {"model": key_of("text"), "text": "", "calls": 1})[1]
        assert "only sounds" in error(client, "/api/preview", {"model": key_of("text")})[1]

    def test_names_lose_their_folders(self):
        assert plain_name("../../etc/pass<wd>.png", "x") == "pass_wd_.png"
        assert plain_name("C:\\photos\\me.png", "x") == "me.png"
        assert plain_name("..", "x") == plain_name("/", "x") == "x"
        assert len(plain_name("a" * 500 + ".png", "x")) == 60

    def test_errors_do_not_tell_where_a_file_lay(self):
        with pytest.raises(DataError, match="^a.png is wrong$"), as_file(b"x", "a.png") as path:
            assert path.read_bytes() == b"x"
            raise DataError(f"{path} is wrong")
        assert not path.exists()


class TestLimits:
    def test_requests(self, client):
        response = client.post(
            "/api/compress", content=b"x" * (LIMITS.body_bytes + 1), headers={"content-type": "application/json"}
        )
        assert response.status_code == 413
        assert "files of up to 4,194,304 bytes" in response.json()["error"]

    def test_files(self, client):
        values = {"model": key_of("bytes"), "file": base64_of(bytes(LIMITS.file_bytes + 1)), "name": "a", "calls": 10}
        status, text = error(client, "/api/compress", values | {"bits": True})
        assert (status, text) == (413, "the file has 4,194,305 bytes; this page takes up to 4,194,304")

    def test_work_that_would_take_too_long(self):
        limits = PageLimits(seconds=1e-9)
        with serving(limits) as client:
            status, text = error(client, "/api/fill", fill_values("text", text="____"))
            assert status == 413
            assert "the page allows 1e-09; use fewer calls" in text
            values = {"file": base64_of(png_of(random_pixels(9, 17))), "name": "a.png", "calls": 10, "bits": True}
            assert error(client, "/api/compress", values | {"model": key_of("one-stage-colour")})[0] == 413
            assert error(client, "/api/score", {"model": key_of("text"), "text": "a", "calls": 1})[0] == 413

    def test_samples_that_would_take_too_much_memory(self):
        for limits in (PageLimits(outputs=1000), PageLimits(variables=1000)):
            with serving(limits) as client:
                status, text = error(client, "/api/fill", fill_values("one-stage-colour", width=32, height=32))
                assert status == 413
                assert "times the memory that this page may use; draw fewer" in text

    def test_sizes(self):
        limits = PageLimits(pixels=100, characters=20, sound_samples=50)
        sound = wav_file(tone(60)[:, None], SAMPLE_RATE)
        with serving(limits) as client:
            assert "too many" in error(client, "/api/fill", fill_values("grey", width=11, height=10))[1]
            assert "60 samples" in error(client, "/api/preview", sound_file("sound", sound))[1]
            for kind, data, message in [
                ("one-stage-colour", png_of(random_pixels(11, 10)), "a has 10 x 11 pixels; this page takes up to 100"),
                ("bytes", b"a" * 21, "21 values; this page takes up to 20"),
                ("sound", sound, "60 values; this page takes up to 50"),
            ]:
                values = sound_file(kind, data) | {"calls": 10, "bits": False}
                status, text = error(client, "/api/compress", values)
                assert (status, message in text) == (413, True), text

    def test_a_flac_file_is_measured_before_it_is_unfolded(self):
        soundfile = pytest.importorskip("soundfile")
        file = io.BytesIO()
        soundfile.write(file, np.zeros(5000, np.int16), SAMPLE_RATE, subtype="PCM_16", format="FLAC")
        with serving(PageLimits(sound_samples=100)) as client:
            text = error(client, "/api/preview", sound_file("sound", file.getvalue()))[1]
            assert text == "it has 5,000 samples; this page takes 100"

    def test_restored_files(self, client):
        small = PageLimits(pixels=10, characters=10, sound_samples=10)
        data = ardm.compress(tiny_exact("bytes"), bytes(1000))
        with serving(small) as client:
            status, text = error(client, "/api/restore", {"file": base64_of(data), "name": "a.ardm"})
        assert (status, "too large: 1000 content bytes" in text) == (413, True)


@pytest.fixture
def slow_chain(monkeypatch):
    """Sampling that takes 20 ms a call; the list of calls made."""
    made, chain = [], sample_chain

    def slowly(*arguments, **options):
        for step in chain(*arguments, **options):
            made.append(1)
            time.sleep(0.02)
            yield step

    monkeypatch.setattr("ardm.tasks.draw.sample_chain", slowly)
    return made


LONG = {"width": 12, "height": 12, "calls": 400, "samples": 1}


class TestRealServer:
    def test_a_page_that_goes_away_takes_its_job_along(self, slow_chain):
        with serving() as client:
            values = fill_values("one-stage-colour", **LONG)
            with client.stream("POST", "/api/fill", json=values) as response:
                lines = response.iter_lines()
                while "state" not in next(lines):
                    pass
            count = wait_until_quiet(slow_chain)
            assert count < 100
            assert result(client, "/api/fill", fill_values("text", text="a_"))["calls"] == 1

    def test_other_requests_are_answered_while_a_job_runs_and_a_full_queue_is_told(self, slow_chain):
        with serving(PageLimits(waiting=1)) as client:
            values = fill_values("one-stage-colour", **LONG)
            with client.stream("POST", "/api/fill", json=values) as first:
                lines = first.iter_lines()
                while "state" not in next(lines):
                    pass
                assert client.get("/api/models").status_code == 200
                with client.stream("POST", "/api/fill", json=values) as second:
                    waiting = second.iter_lines()
                    assert '"waiting", "ahead": 1' in next(waiting)
                    response = client.post("/api/fill", json=values)
                    assert response.status_code == 503
                    assert response.json()["error"].startswith("1 jobs are already waiting")
            wait_until_quiet(slow_chain)

    def test_a_server_that_ends_stops_its_jobs(self, slow_chain):
        with serving() as client:
            values = fill_values("one-stage-colour", **LONG)
            stream = client.stream("POST", "/api/fill", json=values)
            response = stream.__enter__()
            next(response.iter_lines())
            stream.__exit__(None, None, None)
        assert wait_until_quiet(slow_chain) < 100


def wait_until_quiet(made: list[int]) -> int:
    """How many calls there were when no more came for a while."""
    for _ in range(100):
        count = len(made)
        time.sleep(0.15)
        if len(made) == count:
            return count
    pytest.fail("the job goes on")


class TestCommand:
    def test_models_must_be_given(self, capsys, tmp_path, monkeypatch):
        monkeypatch.setattr("ardm.pretrained.FOLDER", tmp_path)  # no bundled models
        assert fails(capsys, ["serve"]) == (
            2,
            "ardm: give the models to serve: `ardm serve MODEL...`, exact models (`ardm export` makes them) or runs\n",
        )

    def test_wrong_flags_are_bad_usage(self, capsys, tmp_path):
        assert "--port must lie in 0..65535" in fails(capsys, ["serve", "m", "--port", "70000"])[1]
        assert fails(capsys, ["serve", str(tmp_path / "none"), "--port", "0"])[0] == 1
        save_model(tmp_path / "grey.model", tiny_exact("grey"))
        with bound_socket("127.0.0.1", 0) as taken:
            port = taken.getsockname()[1]
            status, text = fails(capsys, ["serve", str(tmp_path / "grey.model"), "--port", str(port)])
        assert (status, f"cannot listen on 127.0.0.1, port {port}" in text) == (2, True)

    def test_a_missing_package_is_named(self, capsys, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        assert "pip install 'ardm[serve]'" in fails(capsys, ["serve", "m"])[1]

    def test_addresses(self):
        assert address("0.0.0.0", 1) == "http://localhost:1/"
        assert address("::1", 1) == "http://[::1]:1/"
        assert address("127.0.0.1", 8420) == "http://127.0.0.1:8420/"

    def test_it_serves_until_interrupted(self, tmp_path):
        """Also while a job runs, which ends at once."""
        path = tmp_path / "grey.model"
        save_model(path, tiny_exact("grey"))
        command = [sys.executable, "-m", "ardm", "serve", str(path), "--port", "0"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        variables = os.environ | {"OMP_NUM_THREADS": "1"}
        process = killed_after_the_test(subprocess.Popen(command, **pipes, env=variables))
        try:
            line = process.stdout.readline()
            url = line.split()[0]
            assert line.endswith("(grey.model); Ctrl-C ends it\n")
            assert httpx.get(f"{url}api/models").json()["models"][0]["title"] == "grey.model"
            values = fill_values("grey", model="1", width=32, height=32, samples=1, calls=1000)
            with httpx.stream("POST", f"{url}api/fill", json=values, timeout=30) as response:
                lines = response.iter_lines()
                while "state" not in (told := next(lines)):
                    assert "error" not in told
                process.send_signal(signal.SIGINT)
                rest = [line for line in lines if line]
            assert "cancelled" in rest[-1]
        finally:
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=30)
        assert (process.returncode, output, errors) == (0, "", "")
