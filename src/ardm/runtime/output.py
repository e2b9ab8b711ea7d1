"""Results on the screen or in a file."""

import json
from pathlib import Path
from typing import Any

from ardm.runtime.files import write_file


def to_json(values: Any, indent: int | None = 2) -> bytes:
    """Values as one JSON document."""
    return json.dumps(values, indent=indent, allow_nan=False).encode()


def write_output(path: Path | None, content: bytes) -> None:
    """Print content, or write it to a file as a whole; either way with a line break at its end."""
    if path is None:
        print(content.decode("utf-8", "replace"))
    else:
        write_file(path, content + b"\n")
