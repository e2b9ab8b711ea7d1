"""ardm data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ardm.commands.common import progress
from ardm.errors import DataError
from ardm.files import check_writable, written_whole


@dataclass(frozen=True, kw_only=True)
class Data:
    """Check a data set, fetching it first where it is missing."""

    name: Annotated[tyro.conf.Positional[Literal["text8"]], tyro.conf.arg(metavar="NAME")]
    """text8."""
    root: Path
    """The folder that holds, or will hold, the data set."""

    def run(self) -> None:
        """Fetch if need be, check, and say what is there."""
        from ardm.data.text import load_text8

        try:
            corpus = load_text8(self.root)
        except DataError:  # missing or damaged
            fetch_text8(self.root)
            corpus = load_text8(self.root)
        sizes = ", ".join(f"{name} {len(corpus.split(name)):,}" for name in ("train", "valid", "test"))
        print(f"{corpus.title}: {sizes} characters, md5 as published")


def fetch_text8(root: Path) -> None:
    """Download and unpack the official file, whole or not at all."""
    import http.client
    import io
    import zipfile
    import zlib

    from ardm.data.text import TEXT8_URL

    place = root / "text8"
    check_writable(place)
    try:
        content = zipfile.ZipFile(io.BytesIO(download(TEXT8_URL))).read("text8")
    except (OSError, http.client.HTTPException, zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise DataError(f"could not fetch {TEXT8_URL} ({error}); unpack it to {place} by hand") from None
    with written_whole(place) as temporary:
        temporary.write_bytes(content)


def download(url: str) -> bytes:
    """The content at a URL, with a progress bar."""
    import urllib.request

    with urllib.request.urlopen(url, timeout=60) as response:
        size, parts = int(response.headers.get("Content-Length") or 0), []
        with progress("download", size) as advance:
            while part := response.read(2**20):
                parts.append(part)
                advance(len(part))
    return b"".join(parts)
