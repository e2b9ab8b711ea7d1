"""The HTTP server of the page."""

import asyncio
import socket
from collections.abc import Callable

import uvicorn

from ardm.apps.serve.app import make_app
from ardm.apps.serve.models import ModelStore
from ardm.apps.serve.security import WILDCARD_HOSTS
from ardm.errors import UsageError


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on an address; a UsageError if that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {host}, port {port} ({reason}); choose others with --host, --port"
        ) from None


def address(host: str, port: int) -> str:
    """The URL of the page."""
    name = "localhost" if host in WILDCARD_HOSTS else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/"


def run_server(
    store: ModelStore, listener: socket.socket, host: str, on_start: Callable[[], None] = lambda: None
) -> None:
    """Serve until interrupted."""
    app = make_app(store, host=host)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=3,
        server_header=False,
        ws="none",
        lifespan="off",  # jobs are stopped below
    )
    server = _Server(config, on_start, app.state.worker.close)
    server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """Calls back when it has started, and stops all jobs before it waits for their pages."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None], on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start, self._on_stop = on_start, on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and call back."""
        await super().startup(sockets=sockets)
        if self.started:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the jobs, then the server."""
        await asyncio.to_thread(self._on_stop)
        await super().shutdown(sockets=sockets)
