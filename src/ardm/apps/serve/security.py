"""Checks that only pages sent by the server itself use it, under one of its own names.

Another site's page can send requests to localhost, and can point its own name there (DNS rebinding): the Host and
Origin headers reveal both. Response headers keep the page from loading anything from elsewhere and from being framed.
"""

import ipaddress
import socket

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
WILDCARD_HOSTS = frozenset({"0.0.0.0", "::", ""})
RESPONSE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; "
        "media-src blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class SecurityMiddleware:
    """Refuses requests from other sites, and adds headers to all responses."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app, self._host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(RESPONSE_HEADERS)
            await send(message)

        reason = refusal(Headers(scope=scope), self._host)
        app = self._app if reason is None else JSONResponse({"error": reason}, status_code=403)
        await app(scope, receive, send_with_headers)


def refusal(headers: Headers, own_host: str) -> str | None:
    """The reason to refuse a request; None to answer it."""
    host = headers.get("host", "")
    if not is_own_name(_name(host), own_host):
        return f"this server does not answer for the host {host[:80]!r}; open it by the address that it printed"
    origin = headers.get("origin")
    is_link = headers.get("sec-fetch-mode") == "navigate"  # opening the page has no effects
    is_from_elsewhere = headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not is_link
    if is_from_elsewhere or (origin is not None and origin.lower() != f"http://{host.lower()}"):
        return "this server answers only to its own page; open it by the address that it printed"
    return None


def is_own_name(name: str, own_host: str) -> bool:
    """Whether a server at a host has this name; one that listens everywhere has any numeric address."""
    if own_host in WILDCARD_HOSTS:
        return name in LOCAL_NAMES or name == socket.gethostname().lower() or _is_address(name)
    return name == own_host.lower() or (own_host in LOCAL_NAMES and name in LOCAL_NAMES)


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
