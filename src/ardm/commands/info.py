"""ardm info."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ardm.commands.common import load
from ardm.output import to_json

if TYPE_CHECKING:
    from ardm.checkpoint import TrainedModel


@dataclass(frozen=True, kw_only=True)
class Info:
    """What a model, a compressed file or an archive holds."""

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE_OR_MODEL")]
    """A compressed file, an archive, a run's folder or a model file."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Describe the file."""
        facts = compressed_facts(self.file)
        if facts is None:
            trained, *_ = load(self.file, "cpu")
            facts = model_facts(trained)
            if self.json:
                facts["config"] = trained.config.to_dict()
        if self.json:
            print(to_json(facts).decode())
            return
        listing = facts.pop("listing", [])
        for name, value in facts.items():
            print(f"{name.replace('_', ' '):>20}  {_shown(name, value)}")
        for entry in listing:
            print(_listed(entry))


def compressed_facts(path: Path) -> dict[str, Any] | None:
    """The facts of a compressed file or an archive; None for anything else."""
    if not path.is_file():
        return None
    from ardm.container.archive import ARCHIVE_SUFFIX, ArchiveReader, is_archive
    from ardm.container.describe import describe_archive, describe_file
    from ardm.container.entries import Limits
    from ardm.container.single import SINGLE_SUFFIX, is_single

    with path.open("rb") as file:
        start = file.read(8)
        if is_archive(start) or path.suffix == ARCHIVE_SUFFIX:
            return describe_archive(ArchiveReader(file), path.stat().st_size)
    if is_single(start) or path.suffix == SINGLE_SUFFIX:
        Limits().check("content_bytes", path.stat().st_size)
        return describe_file(path.read_bytes())
    return None


def model_facts(trained: "TrainedModel") -> dict[str, Any]:
    """The facts of a model."""
    config, model = trained.config, trained.model
    facts = {
        "preset": config.preset,
        "parameters": sum(p.numel() for p in model.parameters()),
        "step": trained.step,
        "steps": config.train.steps,
        "seed": config.seed,
        "data": trained.data_title,
        "shape": list(model.shape),
        "variables": model.num_variables,
        "classes": model.depth.num_classes,
        "stages": model.num_stages,
        "profile_observations": int(trained.profile.counts.sum()),
    }
    if trained.alphabet is not None:
        facts["alphabet"] = trained.alphabet.characters
    if trained.sample_rate is not None:
        facts["sample_rate"] = trained.sample_rate
    return facts | (exact_facts(trained) if trained.exact is not None else {})


def exact_facts(trained: "TrainedModel") -> dict[str, Any]:
    """The facts of an exact model alone."""
    assert trained.exact is not None
    coding = trained.exact.coding
    return {
        "parameters": sum(b.numel() for b in trained.exact.network.buffers()),
        "identity": trained.exact.identity.hex(),
        "order": coding.order.name + (f":{coding.order.seed}" if coding.order.name == "pseudorandom" else ""),
        "calls": coding.schedules[coding.default].num_calls,
        "other_calls": [s.num_calls for i, s in enumerate(coding.schedules) if i != coding.default],
    }


def _shown(name: str, value: Any) -> Any:
    if name == "alphabet":
        return "bytes" if value is None else repr(value)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {text}" for key, text in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.4f}" if isinstance(value, float) else value


def _listed(entry: dict[str, Any]) -> str:
    rest = ", ".join(f"{key.replace('_', ' ')} {_shown(key, value)}" for key, value in entry.items() if key != "name")
    return f"  {entry['name']}: {rest}"
