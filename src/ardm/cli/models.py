"""ardm models."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from ardm import pretrained
from ardm.runtime.files import to_json


@dataclass(frozen=True, kw_only=True)
class Models:
    """List the models that come with the package, or show the card of one."""

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="NAME")] = None
    """Show the card of this model: its data, training, results and limits."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Print the names, sizes and first sentences of all models, or one card."""
        if self.name is not None:
            text = pretrained.card(self.name)
            print(to_json({"name": self.name, "card": text}).decode() if self.json else text.rstrip())
            return
        models = pretrained.bundled_models()
        rows = [(name, path.stat().st_size, about(pretrained.card(name))) for name, path in models.items()]
        if self.json:
            print(to_json([dict(zip(("name", "bytes", "about"), row, strict=True)) for row in rows]).decode())
            return
        for name, size, line in rows:
            print(f"{name:<8} {size / 1e6:5.1f} MB  {line}")
        if not rows:
            print("this version has no bundled models")


def about(card: str) -> str:
    """The first line of a card below its title."""
    return next((line for line in card.splitlines() if line and not line.startswith("#")), "")
