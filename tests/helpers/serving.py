"""A server of tiny models, for tests with and without a browser."""

import base64
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import httpx
import numpy as np
import torch
import uvicorn
from PIL import Image
from tiny_exact import tiny_exact

from ardm.apps.serve.app import make_app
from ardm.apps.serve.limits import PageLimits
from ardm.apps.serve.models import ModelStore, PageModel
from ardm.apps.serve.server import bound_socket
from ardm.checkpoint import TrainedModel
from ardm.profile import Profile
from ardm.runtime.device import Runtime

KINDS = ("one-stage-colour", "text", "sound", "grey", "staged", "bytes")
"""Their numbers, from 1, are what pages call them."""


def key_of(kind: str) -> str:
    """The name of a model on the page."""
    return str(KINDS.index(kind) + 1)


def with_profile(trained: TrainedModel) -> TrainedModel:
    """A model that promises fewer bits for every variable that is revealed."""
    model = trained.model
    bits = torch.linspace(5, 1, model.num_variables, dtype=torch.float64).expand(model.num_stages, -1).clone()
    return replace(trained, profile=Profile(bits=bits, counts=torch.ones_like(bits, dtype=torch.long)))


@cache
def tiny_store() -> ModelStore:
    """Models of all media; the grey one has no profile."""
    trained = [tiny_exact(kind) for kind in KINDS]
    models = [
        PageModel(
            key=str(number),
            title=f"{kind}.model",
            trained=one if kind == "grey" else with_profile(one),
            runtime=Runtime.choose("cpu"),
        )
        for number, (kind, one) in enumerate(zip(KINDS, trained, strict=True), start=1)
    ]
    for model in models:
        model.time_calls()
    return ModelStore(models={model.key: model for model in models})


@contextmanager
def running_server(limits: PageLimits | None = None) -> Iterator[str]:
    """The address of a server that runs as long as the block."""
    with bound_socket("127.0.0.1", 0) as listener:
        config = uvicorn.Config(make_app(tiny_store(), limits=limits), log_level="error", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=20)
            assert not thread.is_alive()


def events_of(text: str) -> list[dict]:
    """The events of a stream."""
    parts = [part for part in text.split("\n\n") if part.startswith("data: ")]
    return [json.loads(part.removeprefix("data: ")) for part in parts]


def base64_of(data: bytes) -> str:
    """As requests hold files."""
    return base64.b64encode(data).decode()


def image_from(text: str) -> np.ndarray:
    """The pixels of a PNG in base64."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(text))))


def png_of(pixels: np.ndarray) -> bytes:
    """A PNG file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    return file.getvalue()


@contextmanager
def serving(limits: PageLimits | None = None):
    """A client of a server with these limits."""
    with running_server(limits) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client


def fill_values(kind: str, **changes) -> dict:
    values = {"model": key_of(kind), "samples": 2, "calls": 5, "order": "random", "temperature": 1.0, "seed": 3}
    return values | changes


def image_values(pixels: np.ndarray, mask: np.ndarray, kind: str = "one-stage-colour", **changes) -> dict:
    height, width, _ = pixels.shape
    painted = "".join("1" if one else "0" for one in mask.ravel())
    content = {"width": width, "height": height, "pixels": base64_of(pixels.tobytes()), "mask": painted}
    return fill_values(kind, **content) | changes


def post(client, path: str, values: dict) -> httpx.Response:
    return client.post(path, content=json.dumps(values), headers={"content-type": "application/json"})


def job(client, path: str, values: dict) -> list[dict]:
    """The events of a job, of which the last one tells how it ended."""
    response = post(client, path, values)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return events_of(response.text)


def result(client, path: str, values: dict) -> dict:
    last = job(client, path, values)[-1]
    assert last["kind"] == "result", last
    return last


def error(client, path: str, values: dict) -> tuple[int, str]:
    response = post(client, path, values)
    assert "Traceback" not in response.text
    assert "\n" not in response.json()["error"]
    return response.status_code, response.json()["error"]


def random_pixels(height: int, width: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, (height, width, channels), dtype=np.uint8)


def tone(num_samples: int) -> np.ndarray:
    return (3000 * np.sin(np.arange(num_samples) / 3)).astype(np.int16)


def sound_file(kind: str, data: bytes) -> dict:
    return {"model": key_of(kind), "file": base64_of(data), "name": "a"}
