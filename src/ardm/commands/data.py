"""ardm data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ardm.errors import DataError


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

        if not (self.root / "text8").exists():
            fetch_text8(self.root)
        corpus = load_text8(self.root)
        sizes = ", ".join(f"{name} {len(corpus.split(name)):,}" for name in ("train", "valid", "test"))
        print(f"{corpus.title}: {sizes} characters, md5 as published")


def fetch_text8(root: Path) -> None:
    """Download and unpack the official file."""
    import io
    import urllib.error
    import urllib.request
    import zipfile

    from ardm.checkpoint import written_whole
    from ardm.data.text import TEXT8_URL

    try:
        with urllib.request.urlopen(TEXT8_URL, timeout=60) as response:
            archive = response.read()
        content = zipfile.ZipFile(io.BytesIO(archive)).read("text8")
    except (urllib.error.URLError, OSError, zipfile.BadZipFile, KeyError) as error:
        raise DataError(f"could not fetch {TEXT8_URL} ({error}); unpack it to {root / 'text8'} by hand") from None
    with written_whole(root / "text8") as temporary:
        temporary.write_bytes(content)
