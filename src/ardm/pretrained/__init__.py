"""The models in the box, and how a model is found: by its path, by its name in the box, or on the Hugging Face hub.

A box model NAME is the exact model NAME.model in this folder with its card, NAME.md.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ardm.errors import CheckpointError

if TYPE_CHECKING:
    import torch

    from ardm.checkpoint import AnyTrained, TrainedModel

FOLDER = Path(__file__).parent
MODEL_SUFFIX, CARD_SUFFIX = ".model", ".md"
HUB_NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:/(\w[\w.-]*))?")
"""OWNER/NAME, or OWNER/NAME/FILE."""
HUB_FILES = (MODEL_SUFFIX, ".safetensors")


def load(source: str | Path, device: "torch.device | str" = "cpu") -> "TrainedModel":
    """The model of a path, a name in the box, or OWNER/NAME[/FILE] on the Hugging Face hub."""
    from ardm.checkpoint import load_model

    return load_model(find_model(source), device)


def load_any(source: str | Path, device: "torch.device | str" = "cpu") -> "AnyTrained":
    """The same, which may be a baseline too."""
    from ardm import checkpoint

    return checkpoint.load_any(find_model(source), device)


def box() -> dict[str, Path]:
    """The files of the models that come with the package, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob(f"*{MODEL_SUFFIX}"))}


def card(name: str) -> str:
    """What there is to know of a box model: its data, training, results and limits, as Markdown."""
    return find_boxed(name).with_suffix(CARD_SUFFIX).read_text(encoding="utf-8")


def find_boxed(name: str) -> Path:
    """The file of a box model; a CheckpointError that lists all if there is none of the name."""
    if name not in box():
        raise CheckpointError(f"there is no model {name} in the box, which has {', '.join(box()) or 'none'}")
    return box()[name]


def find_model(source: str | Path) -> Path:
    """The file or the run's folder of a model. What exists as a path is taken as one."""
    path, name = Path(source), str(source)
    if path.exists():
        return path
    if name in box():
        return box()[name]
    match = HUB_NAME.fullmatch(name)
    if match and not Path(path.parts[0]).exists():
        return _from_hub(name, match[1], match[2])
    raise CheckpointError(
        f"there is no model at {source}; give a run's folder, a model file, "
        f"or the name of a model in the box ({', '.join(box()) or 'which is empty'})"
    )


def _from_hub(name: str, repository: str, file: str | None) -> Path:
    """The model file of a repository on the Hugging Face hub, fetched once."""
    try:
        import huggingface_hub
    except ImportError:
        raise CheckpointError(
            f"there is no model at {name}; if it is one of the Hugging Face hub, `pip install huggingface_hub` first"
        ) from None
    try:
        file = file or _only_model(repository, huggingface_hub.list_repo_files(repository))
        return Path(huggingface_hub.hf_hub_download(repository, file))
    except (OSError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        reason = " ".join(str(error).split())
        raise CheckpointError(f"there is no model at {name}, and the Hugging Face hub gave none: {reason}") from error


def _only_model(repository: str, files: list[str]) -> str:
    models = [file for file in files if file.endswith(HUB_FILES)]
    if len(models) != 1:
        which = f"has {', '.join(sorted(models))}; name one, as {repository}/FILE" if models else "has no model file"
        raise CheckpointError(f"{repository} on the Hugging Face hub {which}")
    return models[0]
