"""The server: a page, and what it asks for.

| route | answer |
|---|---|
| `GET /`, `/app.js`, `/style.css`, `/icon.svg` | the page |
| `GET /api/models` | the models, and what the page must know of them |
| `POST /api/budgets` | what each number of calls is expected to cost |
| `POST /api/preview` | how a sound looks |
| `POST /api/fill`, `/api/score`, `/api/compress`, `/api/restore` | a job: server-sent events |

Requests are JSON, files in base64. A job lives as long as the request that asked for it: a page that goes away, or
aborts the request, cancels it. Its events are `waiting`, `start`, `progress`, `state`, and last `result`, `error` or
`cancelled`. All other errors are JSON: `{"error": "one line"}`.
"""

import asyncio
import json
import math
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
from ardm.apps.serve.filling import ORDERS, Filling, Scoring, num_passes, steps
from ardm.apps.serve.guard import Guard
from ardm.apps.serve.images import ImagePage
from ardm.apps.serve.inputs import PageRequest
from ardm.apps.serve.jobs import BusyError, Event, Job, Work, Worker, message_of
from ardm.apps.serve.limits import PageLimits
from ardm.apps.serve.medium import PageMedium
from ardm.apps.serve.models import Budget, LoadedModel, ModelStore
from ardm.apps.serve.sound import SoundPage
from ardm.apps.serve.text import TextPage
from ardm.errors import DataError, TooLargeError
from ardm.media import medium_of

PAGES: dict[str, Callable[[LoadedModel], PageMedium]] = {"images": ImagePage, "text": TextPage, "sound": SoundPage}
STATIC = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/style.css": ("style.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""Nothing else of the server's files can be had."""
SECONDS_ALIVE = 10.0
"""Between two signs of life to a page that waits."""

Endpoint = Callable[[Request], Awaitable[Response]]


class Page:
    """The models of a server, and the jobs of its pages."""

    def __init__(self, shelf: ModelStore, limits: PageLimits) -> None:
        self.shelf, self.limits = shelf, limits
        self.worker = Worker(limits.waiting)
        self.media = {key: PAGES[served.medium](served) for key, served in shelf.models.items()}

    def facts(self) -> dict[str, Any]:
        """All that the page must know before it asks for anything."""
        models = [self._facts_of(served) for served in self.shelf.models.values()]
        return {"models": models, "limits": asdict(self.limits)}

    def _facts_of(self, served: LoadedModel) -> dict[str, Any]:
        model, exact = served.trained.model, served.trained.exact
        coding = None
        if exact is not None:
            default = exact.coding.schedules[exact.coding.default].num_calls
            coding = {"budgets": _plain(served.coding_budgets()), "default": default}
        return {
            "key": served.key,
            "title": served.title,
            "medium": served.medium,
            "data": served.trained.data_title,
            "unit": medium_of(served.trained).unit,
            "variables": model.num_variables,
            "stages": model.num_stages,
            "parameters": sum(t.numel() for t in model.network.state_dict().values()),
            "seconds": served.speed.seconds,
            "coding_seconds": served.coding_speed.seconds,
            "orders": ORDERS,
            "coding": coding,
            **self.media[served.key].facts(),
        }

    def budgets(self, asked: PageRequest) -> dict[str, Any]:
        """Expected bits of each number of calls for what would be filled, and the time of one."""
        served, medium = self._model(asked)
        start = medium.start(asked)
        num_variables = math.prod(start.shape)
        first, last = steps(served, start)
        return {
            "budgets": _plain(served.budgets(first, last)),
            "seconds": served.seconds_for(1, 1, num_variables) * num_passes(served),
            "hidden": last - first,
        }

    def preview(self, asked: PageRequest) -> dict[str, Any]:
        """How a sound looks."""
        _, medium = self._model(asked)
        if not isinstance(medium, SoundPage):
            raise DataError("only sounds have a preview")
        return medium.preview(asked)

    def fill(self, asked: PageRequest) -> Work:
        """Samples."""
        return Filling.of(*self._model(asked), asked).run

    def score(self, asked: PageRequest) -> Work:
        """The bits of each character of a text."""
        return Scoring.of(*self._model(asked), asked).run

    def compress(self, asked: PageRequest) -> Work:
        """A compressed file."""
        return Compression.of(self._model(asked)[0], asked).run

    def restore(self, asked: PageRequest) -> Work:
        """A restored file."""
        return Restoration.of(self.shelf, asked).run

    def _model(self, asked: PageRequest) -> tuple[LoadedModel, PageMedium]:
        served = self.shelf.find(asked.text("model", 100))
        return served, self.media[served.key]


def _plain(budgets: list[Budget]) -> list[dict[str, Any]]:
    return [asdict(budget) for budget in budgets]


def make_app(shelf: ModelStore, *, limits: PageLimits | None = None, host: str = "127.0.0.1") -> Starlette:
    """The server of some models; `host` is what it listens at."""
    page = Page(shelf, limits or PageLimits())

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        page.worker.close()

    app = Starlette(
        routes=[*static_routes(), *api_routes(page)],
        middleware=[Middleware(Guard, host=host)],
        exception_handlers={HTTPException: _http_error, ValueError: _user_error, Exception: _any_error},
        lifespan=lifespan,
    )
    app.state.worker = page.worker
    return app


def static_routes() -> list[Route]:
    """The files of the page, read once."""

    def route(path: str, name: str, media_type: str) -> Route:
        content = (files("ardm.apps.serve") / "static" / name).read_bytes()

        async def answer(request: Request) -> Response:
            return Response(content, media_type=media_type)

        return Route(path, answer, methods=["GET"])

    return [route(path, *file) for path, file in STATIC.items()]


def api_routes(page: Page) -> list[Route]:
    """What the page asks for."""

    async def models(request: Request) -> Response:
        return JSONResponse(page.facts())

    answers = {"budgets": page.budgets, "preview": page.preview}
    jobs = {"fill": page.fill, "score": page.score, "compress": page.compress, "restore": page.restore}
    return [
        Route("/api/models", models, methods=["GET"]),
        *(Route(f"/api/{name}", _answering(page, answer), methods=["POST"]) for name, answer in answers.items()),
        *(Route(f"/api/{name}", _starting(page, make), methods=["POST"]) for name, make in jobs.items()),
    ]


def _answering(page: Page, answer: Callable[[PageRequest], dict[str, Any]]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        asked = await read_request(request, page.limits)
        return JSONResponse(await run_in_threadpool(answer, asked))

    return endpoint


def _starting(page: Page, make: Callable[[PageRequest], Work]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        page.worker.check_room()
        asked = await read_request(request, page.limits)
        work = await run_in_threadpool(make, asked)
        return StreamingResponse(events(page, work), media_type="text/event-stream")

    return endpoint


async def events(page: Page, work: Work) -> AsyncIterator[bytes]:
    """The events of a job, which dies with this generator."""
    told: asyncio.Queue[Event | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def deliver(event: Event | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(told.put_nowait, event)

    job = Job(work, deliver, 2 * page.limits.seconds)
    try:
        page.worker.submit(job)
        while True:
            try:
                event = await asyncio.wait_for(told.get(), SECONDS_ALIVE)
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
    """The values of a JSON request; an error before more than the limit is in memory."""
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
        raise HTTPException(400, "the request is no valid JSON") from None
    if not isinstance(values, dict):
        raise HTTPException(400, "the request must be a JSON object")
    return PageRequest(values, limits)


def status_of(error: Exception) -> int:
    """The status of an error that a user can do something about."""
    if isinstance(error, BusyError):
        return 503
    return 413 if isinstance(error, TooLargeError) else 400


async def _user_error(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": message_of(error)}, status_code=status_of(error))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)


async def _any_error(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": message_of(error)}, status_code=500)
