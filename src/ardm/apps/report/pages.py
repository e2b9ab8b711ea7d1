"""Documents from Jinja2 templates; HTML pages have their style, pictures and sounds embedded."""

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

from ardm.media.images.pictures import quick_png

SHARED = "ardm.apps.report"


def render(package: str, template: str, **values: Any) -> str:
    """A document from a template in the folder `templates` of a package; names ending in .html.j2 are escaped."""
    return _environment(package).get_template(template).render(**values)


@cache
def _environment(package: str) -> Environment:
    loader = ChoiceLoader([PackageLoader(name) for name in (package, SHARED)])
    environment = Environment(
        loader=loader,
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"data_url": data_url, "png": quick_png, "runs": runs}
    return environment


def data_url(file: bytes, kind: str) -> str:
    """A data URL that embeds a file of this MIME type."""
    return f"data:{kind};base64,{b64encode(file).decode()}"


def runs(text: str, classes: Sequence[str]) -> list[tuple[str, str]]:
    """The text cut where the class of its characters changes: pairs of class and characters."""
    pairs = groupby(zip(classes, text, strict=True), key=lambda pair: pair[0])
    return [(name, "".join(character for _, character in group)) for name, group in pairs]
