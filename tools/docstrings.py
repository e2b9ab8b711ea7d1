"""An mkdocstrings extension that shows examples and indented formulas in our docstrings as blocks of code."""

import re
from typing import Any

import griffe


class Blocks(griffe.Extension):
    """Turns docstrings into Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """A docstring with blank lines around indented blocks and with fenced examples."""
    text = re.sub(r"^(\S.*)\n(?= {4})", r"\1\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^( {4}.*)\n(?=\S)", r"\1\n\n", text, flags=re.MULTILINE)
    return re.sub(r"^>>> .*(?:\n.+)*", r"```pycon\n\g<0>\n```", text, flags=re.MULTILINE)
