"""The bundled models, and how a model is found: by path, by bundled name or on the Hugging Face hub.

A bundled model NAME is the exact model NAME.model in this folder with its card, NAME.md.
"""

import gzip
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from ardm.errors import CheckpointError, UsageError
from ardm.masked import is_masked
from ardm.names import MODEL_FILE
from ardm.runtime.files import is_gzip

if TYPE_CHECKING:
    import torch

    from ardm.checkpoint import TrainedModel

FOLDER = Path(__file__).parent
MODEL_SUFFIX, CARD_SUFFIX = ".model", ".md"
HUB_NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:/(\w[\w.-]*))?")
"""OWNER/NAME, or OWNER/NAME/FILE."""
HUB_FILES = (MODEL_SUFFIX, ".safetensors")
MAX_HEADER_BYTES = 10**8
"""The largest header that safetensors files may have."""


def load(source: str | Path, device: "torch.device | str" = "cpu") -> "TrainedModel":
    """The model at a path, with a bundled name, or at OWNER/NAME[/FILE] on the Hugging Face hub.

    >>> from ardm import pretrained
    >>> pretrained.load("text").model.num_variables
    250
    """
    from ardm.checkpoint import load_model

    return load_model(find_model(source), device)


def bundled_models() -> dict[str, Path]:
    """The files of the models that come with the package, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob(f"*{MODEL_SUFFIX}"))}


def card(name: str) -> str:
    """A bundled model's card in Markdown: its data, training, results and limits."""
    return find_bundled(name).with_suffix(CARD_SUFFIX).read_text(encoding="utf-8")


def find_bundled(name: str) -> Path:
    """The file of a bundled model; a CheckpointError that lists all names if there is no such model."""
    if name not in bundled_models():
        raise CheckpointError(f"there is no bundled model {name}; there are: {', '.join(bundled_models()) or 'none'}")
    return bundled_models()[name]


def find_model(source: str | Path) -> Path:
    """The file or the run's folder of a model. A source that exists as a path is taken as one."""
    path, name = Path(source), str(source)
    if is_masked(source):
        raise UsageError(
            f"{source} is a masked language model; eval, sample, infill, plan, info, report calls, bench sample and "
            "train masked take one, other commands do not"
        )
    if path.exists():
        return path
    if name in bundled_models():
        return bundled_models()[name]
    match = HUB_NAME.fullmatch(name)
    if match and not Path(path.parts[0]).exists():
        return _from_hub(name, match[1], match[2])
    raise CheckpointError(
        f"there is no model at {source}; give a run's folder, a model file, "
        f"or the name of a bundled model ({', '.join(bundled_models()) or 'there are none'})"
    )


def is_model(path: Path) -> bool:
    """Whether a path is the folder of a run with a model, or a file that starts like a model file."""
    if path.is_dir():
        return (path / MODEL_FILE).exists()
    if not path.is_file():
        return False
    try:
        with gzip.open(path) if is_gzip(path) else path.open("rb") as file:
            start = file.read(9)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return False
    # Every safetensors file starts with the length of a JSON object and that object.
    return start[8:] == b"{" and int.from_bytes(start[:8], "little") < MAX_HEADER_BYTES


def _from_hub(name: str, repository: str, file: str | None) -> Path:
    """The model file of a repository on the Hugging Face hub, fetched once."""
    try:
        import huggingface_hub
    except ImportError:
        raise CheckpointError(
            f"there is no model at {name}; if it is on the Hugging Face hub, `pip install huggingface_hub` first"
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
