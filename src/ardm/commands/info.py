"""ardm info."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ardm.commands.common import load
from ardm.output import to_json


@dataclass(frozen=True, kw_only=True)
class Info:
    """What a model file holds."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """A run's folder or a model file."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Describe the model."""
        trained, *_ = load(self.model, "cpu")
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
        if self.json:
            print(to_json(facts | {"config": config.to_dict()}).decode())
            return
        for name, value in facts.items():
            shown = "bytes" if name == "alphabet" and value is None else repr(value) if name == "alphabet" else value
            print(f"{name.replace('_', ' '):>20}  {shown}")
