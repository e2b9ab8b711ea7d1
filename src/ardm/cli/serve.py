"""ardm serve."""

import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ardm.cli.common import Device
from ardm.errors import UsageError

MAX_PORT = 65535


@dataclass(frozen=True, kw_only=True)
class Serve:
    """Serve a web page for trying models: fill gaps, watch it happen, compress and restore files.

    Nothing leaves the machine, and the page sees only files that you choose. Ctrl-C ends it.
    """

    models: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="MODEL...")] = ()
    """Exact models (which also compress), model files or runs."""
    port: int = 8420
    """The port to listen on; 0 takes any free port."""
    host: str = "127.0.0.1"
    """The address to listen on: other machines can reach the page only if you change this. There is no password."""
    open: bool = False
    """Open the page in a browser."""
    device: Device = None

    def run(self) -> None:
        """Serve until interrupted."""
        if not 0 <= self.port <= MAX_PORT:
            raise UsageError(f"--port must lie in 0..{MAX_PORT}, got {self.port}")
        check_installed()
        from ardm.apps.serve.models import find_models, load_models
        from ardm.apps.serve.security import LOCAL_NAMES
        from ardm.apps.serve.server import address, bound_socket, run_server

        paths = find_models(self.models)
        with bound_socket(self.host, self.port) as listener:
            store = load_models(paths, self.device)
            url = address(self.host, listener.getsockname()[1])
            names = ", ".join(model.title for model in store.models.values())

            def on_start() -> None:
                print(f"{url} ({names}); Ctrl-C ends it", flush=True)
                if self.host not in LOCAL_NAMES:
                    print("note: other machines can reach this page, and there is no password", file=sys.stderr)
                if self.open:
                    webbrowser.open(url)

            try:
                run_server(store, listener, self.host, on_start)
            except KeyboardInterrupt as stop:
                if type(stop) is not KeyboardInterrupt:  # a SIGTERM, which has its own exit status
                    raise


def check_installed() -> None:
    """Raise a UsageError if a package that the server needs is missing."""
    from importlib.util import find_spec

    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UsageError(f"the page needs {' and '.join(missing)}: pip install 'ardm[serve]'")
