"""The server of the page and its requests.

| route | answer |
|---|---|
| `GET /`, `/app.js`, `/style.css`, `/icon.svg` | the page |
| `GET /api/models` | the facts about the models that the page needs |
| `POST /api/budgets` | the expected cost of each number of calls |
| `POST /api/preview` | the waveform and the spectrogram of a sound |
| `POST /api/fill`, `/api/score`, `/api/compress`, `/api/restore` | a job: server-sent events |

Requests are JSON, with files in base64. A job lives as long as its request: a page that closes, or aborts the request,
cancels the job. Its events are `waiting`, `start`, `progress`, `state`, and last `result`, `error` or `cancelled`. All
other errors are JSON: `{"error": "one line"}`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ardm.apps.serve.coding import Compression, Restoration
from ardm.apps.serve.filling import ORDERS, Filling, Scoring, num_passes
from ardm.apps.serve.images import ImagePage
from ardm.apps.serve.inputs import PageRequest
from ardm.apps.serve.jobs import BusyError, Event, Job, Work, Worker, message_of
from ardm.apps.serve.limits import PageLimits
from ardm.apps.serve.medium import PageMedium
from ardm.apps.serve.models import ModelStore, PageModel
from ardm.apps.serve.security import SecurityMiddleware
from ardm.apps.serve.sounds import SoundPage
from ardm.apps.serve.text import TextPage
from ardm.errors import DataError, TooLargeError
from ardm.media import medium_of

PAGES: dict[str, Callable[[PageModel], PageMedium]] = {"images": ImagePage, "text": TextPage, "sound": SoundPage}
STATIC = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/style.css": ("style.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""The only files that the server sends."""
KEEP_ALIVE_SECONDS = 10.0
"""Time between two comments that keep a waiting page's connection open."""

Endpoint = Callable[[Request], Awaitable[Response]]


class Page:
    """The models of a server, and the jobs of its pages."""

    def __init__(self, store: ModelStore, limits: PageLimits) -> None:
        self.store, self.limits = store, limits
        self.worker = Worker(limits.waiting)
        self.media = {key: PAGES[model.medium](model) for key, model in store.models.items()}

    def facts(self) -> dict[str, Any]:
        """The facts that the page needs before any other request."""
        models = [self._facts_of(model) for model in self.store.models.values()]
        return {"models": models, "limits": asdict(self.limits)}

    def _facts_of(self, model: PageModel) -> dict[str, Any]:
        exact = model.trained.exact
        coding = None
        if exact is not None:
            default = exact.coding.schedules[exact.coding.default].num_calls
            coding = {"budgets": [*map(asdict, model.coding_budgets())], "default": default}
        return {
            "key": model.key,
            "title": model.title,
            "medium": model.medium,
            "data": model.trained.data_title,
            "unit": medium_of(model.trained).unit,
            "variables": model.ardm.num_variables,
            "stages": model.ardm.num_stages,
            "parameters": sum(t.numel() for t in model.ardm.network.state_dict().values()),
            "seconds": model.speed.seconds,
            "coding_seconds": model.coding_speed.seconds,
            "orders": ORDERS,
            "coding": coding,
            **self.media[model.key].facts(),
        }

    def budgets(self, request: PageRequest) -> dict[str, Any]:
        """The expected bits of the gaps for each number of calls, and the time of one call."""
        model, medium = self.find(request)
        gaps = medium.start(request)
        first, last = gaps.steps(model.ardm.num_stages)
        return {
            "budgets": [*map(asdict, model.budgets(gaps.shape, first, last))],
            "seconds": model.seconds_for(1, 1, len(gaps.values)) * num_passes(model),
            "hidden": last - first,
        }

    def preview(self, request: PageRequest) -> dict[str, Any]:
        """The waveform and the spectrogram of a sound."""
        _, medium = self.find(request)
        if not isinstance(medium, SoundPage):
            raise DataError("only sounds have a preview")
        return medium.preview(request)

    def find(self, request: PageRequest) -> tuple[PageModel, PageMedium]:
        """The model of a request, and its medium."""
        model = self.store.find(request.text("model", 100))
        return model, self.media[model.key]


def make_app(store: ModelStore, *, limits: PageLimits | None = None, host: str = "127.0.0.1") -> Starlette:
    """The server of some models; `host` is the address that it listens on."""
    page = Page(store, limits or PageLimits())

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        page.worker.close()

    app = Starlette(
        routes=[*(static_route(path, *file) for path, file in STATIC.items()), *api_routes(page)],
        middleware=[Middleware(SecurityMiddleware, host=host)],
        exception_handlers=dict.fromkeys((HTTPException, ValueError, Exception), error_response),
        lifespan=lifespan,
    )
    app.state.worker = page.worker
    return app


def static_route(path: str, name: str, media_type: str) -> Route:
    """The route of one of the page's files, which is read once."""
    content = (files("ardm.apps.serve") / "static" / name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return Route(path, answer, methods=["GET"])


def api_routes(page: Page) -> list[Route]:
    """The routes of the page's requests."""

    async def models(request: Request) -> Response:
        return JSONResponse(page.facts())

    answers = {"budgets": page.budgets, "preview": page.preview}
    jobs: dict[str, Callable[[PageRequest], Work]] = {
        "fill": lambda request: Filling(*page.find(request), request).run,
        "score": lambda request: Scoring(*page.find(request), request).run,
        "compress": lambda request: Compression(page.find(request)[0], request).run,
        "restore": lambda request: Restoration(page.store, request).run,
    }
    return [
        Route("/api/models", models, methods=["GET"]),
        *(Route(f"/api/{name}", _answering(page, answer), methods=["POST"]) for name, answer in answers.items()),
        *(Route(f"/api/{name}", _starting(page, make), methods=["POST"]) for name, make in jobs.items()),
    ]


def _answering(page: Page, answer: Callable[[PageRequest], dict[str, Any]]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(answer, await read_request(request, page.limits)))

    return endpoint


def _starting(page: Page, make: Callable[[PageRequest], Work]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        page.worker.check_room()
        work = await run_in_threadpool(make, await read_request(request, page.limits))
        return StreamingResponse(events(page, work), media_type="text/event-stream")

    return endpoint


async def events(page: Page, work: Work) -> AsyncIterator[bytes]:
    """The events of a job, which is cancelled with this generator."""
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def deliver(event: Event | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(queue.put_nowait, event)

    job = Job(work, deliver, 2 * page.limits.seconds)
    try:
        page.worker.submit(job)
        while True:
            try:
                event = await asyncio.wait_for(queue.get(), KEEP_ALIVE_SECONDS)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if event is None:
                return
            yield f"data: {json.dumps(event, allow_nan=False)}\n\n".encode()
    except BusyError as error:
        yield f"data: {json.dumps({'kind': 'error', 'message': str(error)})}\n\n".encode()
    finally:
        page.worker.drop(job)


async def read_request(request: Request, limits: PageLimits) -> PageRequest:
    """The values of a JSON request; an error before more than the limit has been read."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "send JSON (Content-Type: application/json)")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limits.body_bytes:
            raise TooLargeError(f"the request is too large; this page takes files of up to {limits.file_bytes:,} bytes")
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the request is not valid JSON") from None
    if not isinstance(values, dict):
        raise HTTPException(400, "the request must be a JSON object")
    return PageRequest(values, limits)


async def error_response(request: Request, error: Exception) -> Response:
    """An error as JSON in one line, with its HTTP status."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)
    statuses = {BusyError: 503, TooLargeError: 413, ValueError: 400, Exception: 500}
    status = next(status for kind, status in statuses.items() if isinstance(error, kind))
    return JSONResponse({"error": message_of(error)}, status_code=status)
