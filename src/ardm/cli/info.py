"""ardm info."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from ardm.cli.masked import AnyMaskedFlags, MaskedFlags, masked_facts
from ardm.compression.outcomes import shortened
from ardm.errors import DamagedError
from ardm.masked import is_masked
from ardm.runtime.files import to_json


@dataclass(frozen=True, kw_only=True)
class Info:
    """Describe a model, a compressed file, an archive or a packed data set, and check every entry."""

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE_OR_MODEL")]
    """A compressed file, an archive, a run's folder, a model file, a bundled model's name, a packed data set, or
    a masked language model: hf:NAME or hf:FOLDER."""
    model: Path | None = None
    """The model of a short compressed file, if it is not a bundled one."""
    json: bool = False
    """Print JSON."""
    masked: AnyMaskedFlags = field(default_factory=MaskedFlags)

    def run(self) -> None:
        """Print the facts, then raise a DamagedError if an entry is damaged."""
        facts = self._facts()
        listing = facts.get("listing", [])
        if self.json:
            print(to_json(facts).decode())
        else:
            for name, value in facts.items():
                if name not in ("listing", "config") and value is not None:
                    print(f"{name.replace('_', ' '):>20}  {_shown(name, value)}")
            for entry in listing:
                shown = [f"{key.replace('_', ' ')} {_shown(key, value)}" for key, value in entry.items()]
                print(f"  {entry['name']}: {', '.join(shown[1:])}")  # the name comes first
        damaged = [entry["name"] for entry in listing if entry["check"] != "fine"]
        if damaged:
            raise DamagedError(
                f"{self.file}: {len(damaged)} of {facts['entries']} entries cannot be restored: {shortened(damaged)}"
            )

    def _facts(self) -> dict[str, Any]:
        if is_masked(self.file):
            return masked_facts(self.file, self.masked)
        self.masked.check_unused(self.file)
        from ardm.compression.describe import facts_of

        return facts_of(self.file, self.model)


def _shown(name: str, value: Any) -> Any:
    if name == "alphabet":
        return "bytes" if value is None else repr(value)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {text}" for key, text in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if name == "schedule" and isinstance(value, int):
        return f"the model's number {value} (from 0)"
    return f"{value:.4f}" if isinstance(value, float) else value
