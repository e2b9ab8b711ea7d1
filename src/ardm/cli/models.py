"""ardm models."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from ardm import pretrained
from ardm.runtime.output import to_json


@dataclass(frozen=True, kw_only=True)
class Models:
    """List the models that come with the package, or show the card of one."""

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="NAME")] = None
    """Show the card of this one: its data, training, results and limits."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Print names with what they are, or a card."""
        if self.name is not None:
            text = pretrained.card(self.name)
            print(to_json({"name": self.name, "card": text}).decode() if self.json else text.rstrip())
            return
        sizes = {name: path.stat().st_size for name, path in pretrained.box().items()}
        abouts = {name: about(pretrained.card(name)) for name in sizes}
        if self.json:
            rows = [{"name": name, "bytes": size, "about": abouts[name]} for name, size in sizes.items()]
            print(to_json(rows).decode())
            return
        for name, size in sizes.items():
            print(f"{name:<8} {size / 1e6:5.1f} MB  {abouts[name]}")
        if not sizes:
            print("there are none in this version")


def about(card: str) -> str:
    """The first line of a card below its title."""
    return next((line for line in card.splitlines() if line and not line.startswith("#")), "")
