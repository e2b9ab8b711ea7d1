"""ardm data."""

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ardm.cli.common import progress, require_positive
from ardm.errors import DataError, UsageError
from ardm.runtime.files import check_writable, check_writable_folder, write_file

if TYPE_CHECKING:
    from ardm.data.packed.description import Description

DataName = Literal["text8", "cifar10", "sc09", "text", "bytes", "images", "audio", "packed"]
PUBLISHED = ("text8", "cifar10", "sc09")


@dataclass(frozen=True, kw_only=True)
class Data:
    """Check a data set, fetching it first if it is missing or damaged, or pack it to be read from disk."""

    name: Annotated[tyro.conf.Positional[DataName], tyro.conf.arg(metavar="NAME")]
    """text8, cifar10 or sc09 (only checked: Speech Commands, 2.4 GB, must be fetched by hand); with --pack also your
    own text, bytes, images or audio; `packed` checks every bit of a packed data set."""
    root: Path
    """Folder that holds the data set or to which it is fetched; your own text may be a file."""
    pack: Path | None = None
    """Write the data set into this new folder, in shards that training reads from disk on demand: for data larger than
    memory. `ardm train`, `eval` and others take the folder in place of the original."""
    channels: Literal[1, 3] = 3
    """Pack images as grey (1) or as colour (3)."""
    shard_mib: int = 256
    """Maximum size of a shard in MiB (with --pack)."""

    def run(self) -> None:
        """Check, fetch or pack."""
        if self.name == "packed":
            self._check_packed()
        elif self.pack is not None:
            self._pack(self.pack)
        elif self.name in PUBLISHED:
            self._check_published()
        else:
            raise UsageError(f"--pack FOLDER is missing; your own {self.name} can only be packed")

    def _check_published(self) -> None:
        try:
            print(published_sizes(self.name, self.root))
        except DataError:
            if self.name == "sc09":
                raise
            check_writable(self.root / "new")
            fetch(self.name, self.root)
            print(published_sizes(self.name, self.root))

    def _pack(self, folder: Path) -> None:
        require_positive(shard_mib=self.shard_mib)
        if self.channels != 3 and self.name != "images":
            raise UsageError(f"--channels is for images; {self.name} has none to choose")
        check_writable_folder(folder)
        if self.name not in PUBLISHED and self.root.is_dir() and folder.resolve().is_relative_to(self.root.resolve()):
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
    """The sizes of a packed data set, in words."""
    height, width = about.size or (0, 0)
    units = {
        "text": "bytes" if about.characters is None else "characters",
        "images": f"images of {width} x {height}" if about.size else "images",
        "sound": f"clips at {about.sample_rate} Hz",
    }
    shards = "1 shard" if len(about.shards) == 1 else f"{len(about.shards)} shards"
    return f"{about.title}: {listed(about.counts)} {units[about.medium]} in {shards}, {about.num_bytes:,} bytes"


def published_sizes(name: str, root: Path) -> str:
    """The sizes of a published data set that passes its checks, in words."""
    from ardm.data.cifar10 import load_cifar10
    from ardm.data.corpus import SPLITS, PieceCorpus
    from ardm.data.sc09 import RATE, load_sc09
    from ardm.data.text import TextCorpus, load_text8

    known: dict[str, tuple[Callable[[Path], TextCorpus | PieceCorpus], str]] = {
        "text8": (load_text8, "characters, md5 as expected"),
        "cifar10": (load_cifar10, "images of 32 x 32, md5 as expected"),
        "sc09": (load_sc09, f"clips at {RATE} Hz"),
    }
    load, units = known[name]
    corpus = load(root)
    return f"{corpus.title}: {listed(len(corpus.split(split)) for split in SPLITS)} {units}"


def listed(counts: Iterable[int]) -> str:
    """The sizes of three splits, in words."""
    return ", ".join(f"{name} {count:,}" for name, count in zip(("train", "valid", "test"), counts, strict=True))


def fetch(name: str, root: Path) -> None:
    """Download and unpack text8 or the binary CIFAR-10, each file whole or not at all."""
    import http.client
    import tarfile
    import zipfile
    import zlib

    from ardm.data import cifar10
    from ardm.data.text import TEXT8_URL

    url = TEXT8_URL if name == "text8" else cifar10.URL
    damaged = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, KeyError)
    try:
        archive = io.BytesIO(download(url))
        if name == "text8":
            contents = {"text8": zipfile.ZipFile(archive).read("text8")}
        else:
            with tarfile.open(fileobj=archive) as tar:
                names = [f"{cifar10.BINARY_FOLDER}/{name}" for name in cifar10.MD5 if name.endswith(".bin")]
                files = {name: tar.extractfile(name) for name in names}
                contents = {name: file.read() for name, file in files.items() if file is not None}
    except (OSError, http.client.HTTPException, *damaged) as error:
        raise DataError(f"could not fetch {url} ({error}); unpack it in {root} by hand") from None
    for file, content in contents.items():
        write_file(root / file, content)


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
