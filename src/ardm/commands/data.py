"""ardm data."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ardm.commands.common import progress
from ardm.errors import DataError
from ardm.files import check_writable, written_whole


@dataclass(frozen=True, kw_only=True)
class Data:
    """Check a data set, fetching it first where it is missing or damaged."""

    name: Annotated[tyro.conf.Positional[Literal["text8", "cifar10", "sc09"]], tyro.conf.arg(metavar="NAME")]
    """text8, cifar10 or sc09 (checked only: Speech Commands is 2.4 GB to fetch by hand)."""
    root: Path
    """The folder that holds, or will hold, the data set."""

    def run(self) -> None:
        """Fetch if need be, check, and say what is there."""
        if self.name == "sc09":
            print(sc09_sizes(self.root))
            return
        describe, fetch = {"text8": (text8_sizes, fetch_text8), "cifar10": (cifar10_sizes, fetch_cifar10)}[self.name]
        try:
            print(describe(self.root))
        except DataError:
            check_writable(self.root / "new")
            fetch(self.root)
            print(describe(self.root))


def text8_sizes(root: Path) -> str:
    """What a checked text8 holds."""
    from ardm.data.text import load_text8

    corpus = load_text8(root)
    sizes = ", ".join(f"{name} {len(corpus.split(name)):,}" for name in ("train", "valid", "test"))
    return f"{corpus.title}: {sizes} characters, md5 as expected"


def cifar10_sizes(root: Path) -> str:
    """What a checked CIFAR-10 holds."""
    from ardm.data.cifar10 import load_cifar10

    corpus = load_cifar10(root)
    sizes = ", ".join(f"{name} {len(corpus.split(name)):,}" for name in ("train", "valid", "test"))
    return f"{corpus.title}: {sizes} images of 32 x 32, md5 as expected"


def sc09_sizes(root: Path) -> str:
    """What SC09 holds."""
    from ardm.data.sc09 import load_sc09

    corpus = load_sc09(root)
    sizes = ", ".join(f"{name} {len(corpus.split(name)):,}" for name in ("train", "valid", "test"))
    return f"{corpus.title}: {sizes} clips at {corpus.sample_rate} Hz"


def fetch_text8(root: Path) -> None:
    """Download and unpack the official file, whole or not at all."""
    import io
    import zipfile

    from ardm.data.text import TEXT8_URL

    with told_failures(TEXT8_URL, root):
        content = zipfile.ZipFile(io.BytesIO(download(TEXT8_URL))).read("text8")
    with written_whole(root / "text8") as temporary:
        temporary.write_bytes(content)


def fetch_cifar10(root: Path) -> None:
    """Download and unpack the official binary version; each file whole or not at all."""
    import io
    import tarfile

    from ardm.data.cifar10 import BINARY_FOLDER, MD5, URL

    with told_failures(URL, root):
        names = [f"{BINARY_FOLDER}/{name}" for name in MD5 if name.endswith(".bin")]
        with tarfile.open(fileobj=io.BytesIO(download(URL))) as archive:
            files = {name: archive.extractfile(name) for name in names}
            contents = {name: file.read() for name, file in files.items() if file is not None}
    for name, content in contents.items():
        with written_whole(root / name) as temporary:
            temporary.write_bytes(content)


@contextmanager
def told_failures(url: str, root: Path) -> Iterator[None]:
    """Whatever goes wrong in a download, told in one line."""
    import http.client
    import tarfile
    import zipfile
    import zlib

    damaged = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, KeyError)
    try:
        yield
    except (OSError, http.client.HTTPException, *damaged) as error:
        raise DataError(f"could not fetch {url} ({error}); unpack it in {root} by hand") from None


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
