"""ardm data."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ardm.cli.common import progress, require_positive
from ardm.errors import DataError, UsageError
from ardm.runtime.files import check_writable, check_writable_folder, written_whole

if TYPE_CHECKING:
    from ardm.data.packed.description import Description


DataName = Literal["text8", "cifar10", "sc09", "text", "bytes", "images", "audio", "packed"]


@dataclass(frozen=True, kw_only=True)
class Data:
    """Check a data set, fetching it first where it is missing or damaged, or pack it to be read from disk."""

    name: Annotated[tyro.conf.Positional[DataName], tyro.conf.arg(metavar="NAME")]
    """text8, cifar10 or sc09 (checked only: Speech Commands is 2.4 GB to fetch by hand); with --pack also your own
    text, bytes, images or audio; packed, to check every bit of a packed data set."""
    root: Path
    """The folder that holds, or will hold, the data set; of your own text, a file or a folder."""
    pack: Path | None = None
    """Write the data set into this new folder, in shards that training reads from disk as it needs them: for data
    larger than the memory. `ardm train`, `eval` and others take the folder in place of the original."""
    channels: Literal[1, 3] = 3
    """1 to pack grey images, 3 for colour (images)."""
    shard_mib: int = 256
    """MiB of a shard at most (with --pack)."""

    def run(self) -> None:
        """Fetch if need be, check, and say what is there, or pack it."""
        if self.name == "packed":
            self._check_packed()
            return
        if self.pack is not None:
            self._pack(self.pack)
            return
        if self.name not in SIZES:
            raise UsageError(f"--pack FOLDER is missing: of {self.name} there is nothing to fetch or to check")
        try:
            print(SIZES[self.name](self.root))
        except DataError:
            if self.name not in FETCH:
                raise
            check_writable(self.root / "new")
            FETCH[self.name](self.root)
            print(SIZES[self.name](self.root))

    def _pack(self, folder: Path) -> None:
        require_positive(shard_mib=self.shard_mib)
        if self.channels != 3 and self.name != "images":
            raise UsageError(f"--channels is for images; {self.name} has none to choose")
        check_writable_folder(folder)
        if self.name not in SIZES and self.root.is_dir() and folder.resolve().is_relative_to(self.root.resolve()):
            raise UsageError(f"--pack {folder} lies inside --root {self.root} and would become part of the data")
        from ardm.data.packed.description import KINDS
        from ardm.data.packed.packing import check_new, open_source, pack

        check_new(folder)
        source = open_source(KINDS[self.name], self.root, channels=self.channels)
        with progress("packing", source.total) as advance:
            about = pack(source, folder, shard_bytes=self.shard_mib * 2**20, advance=advance)
        print(f"{folder}: {packed_sizes(about)}")

    def _check_packed(self) -> None:
        if self.pack is not None:
            raise UsageError("--pack is for data that is not packed yet")
        from ardm.data.packed.description import check_pack, open_pack

        pack = open_pack(self.root)
        with progress("checking", pack.about.num_bytes) as advance:
            check_pack(pack, advance)
        print(f"{packed_sizes(pack.about)}, sha256 as expected")


def packed_sizes(about: "Description") -> str:
    """What a packed data set holds."""
    named = zip(("train", "valid", "test"), about.counts, strict=True)
    sizes = ", ".join(f"{name} {count:,}" for name, count in named)
    height, width = about.size or (0, 0)
    units = {
        "text": "bytes" if about.characters is None else "characters",
        "images": f"images of {width} x {height}" if about.size else "images",
        "sound": f"clips at {about.sample_rate} Hz",
    }
    shards = "1 shard" if len(about.shards) == 1 else f"{len(about.shards)} shards"
    return f"{about.title}: {sizes} {units[about.medium]} in {shards}, {about.num_bytes:,} bytes"


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


SIZES: dict[str, Callable[[Path], str]] = {"text8": text8_sizes, "cifar10": cifar10_sizes, "sc09": sc09_sizes}
FETCH: dict[str, Callable[[Path], None]] = {"text8": fetch_text8, "cifar10": fetch_cifar10}


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
