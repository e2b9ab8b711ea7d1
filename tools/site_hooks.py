"""What mkdocs calls while it builds the site: the report of our runs is made then, and is not in the repository."""

import contextlib
import io
import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from ardm.cli.main import main


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """The files of the site with those of `ardm report paper docs/runs/minutes`."""
    runs = Path(config.docs_dir) / "runs" / "minutes"
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        if main(["report", "paper", str(runs), "-o", folder]):
            raise RuntimeError(f"the report of {runs} could not be made")
        for path in sorted(Path(folder).iterdir()):
            if path.suffix != ".html":
                files.append(File.generated(config, f"comparisons/{path.name}", content=path.read_bytes()))
    return files
