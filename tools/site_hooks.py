"""What mkdocs calls while it builds the site.

Some pages are not in `docs/`: the report of our runs is made when the site is built, and the cards of bundled models
and two files of the repository's root are copied. Notebooks become pages with their outputs. Links to all of these are
changed to lead there.
"""

import base64
import contextlib
import io
import json
import posixpath
import re
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from ardm.cli.main import main

COPIED = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    **{f"src/ardm/pretrained/{name}.md": f"models/{name}.md" for name in ("text", "images", "audio")},
}
"""Files of the repository, and their pages of the site."""
NOTEBOOKS = {
    f"examples/notebooks/{name}.ipynb": f"notebooks/{name}.md"
    for name in (
        "any-order-text",
        "inpainting-with-particles",
        "your-own-table",
        "a-codec-for-your-files",
        "is-my-masked-model-a-generator",
    )
}
"""Notebooks, and their pages of the site."""
PAGES = COPIED | NOTEBOOKS


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """The files of the site with those of `ardm report paper docs/runs/minutes` and those that are copied."""
    root = Path(config.docs_dir).parent
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        runs = root / "docs" / "runs" / "minutes"
        if main(["report", "paper", str(runs), "-o", folder]):
            raise RuntimeError(f"the report of {runs} could not be made")
        for path in sorted(Path(folder).iterdir()):
            if path.suffix != ".html":
                files.append(File.generated(config, f"comparisons/{path.name}", content=path.read_bytes()))
    for source, page in COPIED.items():
        text = relinked((root / source).read_text(encoding="utf-8"), source, page)
        files.append(File.generated(config, page, content=text))
    for source, page in NOTEBOOKS.items():
        text, pictures = notebook_page((root / source).read_text(encoding="utf-8"), Path(page).stem)
        files.append(File.generated(config, page, content=relinked(text, source, page)))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    return files


def notebook_page(notebook: str, stem: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown with its outputs, and the pictures in it by name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{stem}-{len(pictures)}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                parts.append(f'<img src="../{name}" alt="The output of this cell">')
            else:
                shown = "".join(output.get("text", data.get("text/plain", ""))).strip("\n")
                parts.append(f"```text\n{shown}\n```")
    return "\n\n".join(parts) + "\n", pictures


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """A page whose links to copied files lead to their pages."""
    name = page.file.src_uri
    return markdown if name in PAGES.values() else relinked(markdown, f"docs/{name}", name)


def relinked(text: str, source: str, page: str) -> str:
    """Markdown with links between files of the repository, from one of them, turned into links from its page."""

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1]))
        shown = PAGES.get(target, target.removeprefix("docs/"))
        is_page = target in PAGES or target.startswith("docs/")
        return f"]({posixpath.relpath(shown, posixpath.dirname(page) or '.')}{found[2]})" if is_page else found[0]

    return re.sub(r"\]\((?![a-z]+:|#)([^)#]+)((?:#[^)]*)?)\)", link, text)
