"""ardm info."""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ardm import pretrained
from ardm.cli.common import load, load_any
from ardm.errors import DamagedError, DataError, TooLargeError
from ardm.runtime.files import is_gzip
from ardm.runtime.output import to_json

if TYPE_CHECKING:
    from ardm.checkpoint import AnyTrained, TrainedModel
    from ardm.compression.content_codec import CodecSet


MAX_HEADER_BYTES = 10**8
"""That safetensors files may have."""
MAX_NAMES = 5
"""That a message lists."""


@dataclass(frozen=True, kw_only=True)
class Info:
    """What a model, a compressed file, an archive or a packed data set holds, and whether every entry is whole."""

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE_OR_MODEL")]
    """A compressed file, an archive, a run's folder, a model file, the name of a model in the box, or a packed data
    set."""
    model: Path | None = None
    """Of a short file the model that it was made with, if that is not in the box."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Describe the file."""
        file = self.file if self.file.exists() else pretrained.box().get(str(self.file), self.file)
        if not file.exists():
            raise DataError(f"there is no file or folder {file}")
        facts = packed_facts(file) if file.is_dir() else compressed_facts(file, self.model)
        if facts is None and not is_model(file) and not (file / "config.json").exists():
            raise DataError(f"{file} is neither a model, a run nor a compressed file")
        if facts is None:
            trained, *_ = load_any(file, "cpu")
            facts = model_facts(trained)
            if self.json:
                facts["config"] = trained.config.to_dict()
        if self.json:
            print(to_json(facts).decode())
        else:
            print_facts(facts)
        damaged = [entry["name"] for entry in facts.get("listing", []) if entry["check"] != "fine"]
        if damaged:
            raise DamagedError(
                f"{self.file}: {len(damaged)} of {facts['entries']} entries cannot be restored: {shortened(damaged)}"
            )


def print_facts(facts: dict[str, Any]) -> None:
    """Print facts, one a line, and an archive's entries after them."""
    for name, value in facts.items():
        if name != "listing" and value is not None:
            print(f"{name.replace('_', ' '):>20}  {_shown(name, value)}")
    for entry in facts.get("listing", []):
        print(_listed(entry))


def shortened(names: list[str]) -> str:
    """The first few names of a list, and how many more there are."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def is_model(path: Path) -> bool:
    """Whether a path is the folder of a run with a model, or a file that starts as those of models do."""
    if path.is_dir():
        return (path / "model.safetensors").exists()
    if not path.is_file():
        return False
    try:
        with gzip.open(path) if is_gzip(path) else path.open("rb") as file:
            start = file.read(9)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return False
    # The length of a JSON object, and the object: the start of all safetensors files.
    return start[8:] == b"{" and int.from_bytes(start[:8], "little") < MAX_HEADER_BYTES


def packed_facts(folder: Path) -> dict[str, Any] | None:
    """The facts of a packed data set; None for any other folder."""
    from ardm.data.packed.description import is_packed, open_pack
    from ardm.media.packed import packed_name

    if not is_packed(folder):
        return None
    about = open_pack(folder).about
    facts: dict[str, Any] = {"kind": packed_name(folder), "data": about.title, "published": about.is_published}
    facts |= dict(zip(("train", "valid", "test"), about.counts, strict=True))
    if about.medium == "text":
        facts["alphabet"] = about.characters or "bytes"
    facts |= {"sample_rate": about.sample_rate, "channels": about.channels, "size": about.size and list(about.size)}
    return facts | {"shards": len(about.shards), "bytes": about.num_bytes, "fingerprint": about.fingerprint}


def compressed_facts(path: Path, model: Path | None = None) -> dict[str, Any] | None:
    """The facts of a compressed file or an archive; None for anything else. Short files are told by a model."""
    from ardm.codec.format.archive import ARCHIVE_SUFFIX, ArchiveReader, is_archive
    from ardm.codec.format.entries import Limits
    from ardm.codec.format.short import is_short
    from ardm.codec.format.single import SINGLE_SUFFIX, is_single
    from ardm.compression.describe import describe_archive, describe_file

    with path.open("rb") as file:
        start = file.read(8)
        if is_archive(start) or path.suffix == ARCHIVE_SUFFIX:
            return describe_archive(ArchiveReader(file), path.stat().st_size)
    if is_single(start) or is_short(start) or path.suffix == SINGLE_SUFFIX:
        try:
            Limits().check("content_bytes", path.stat().st_size)
            return describe_file(path.read_bytes(), models=_models_for(start, model))
        except (DamagedError, TooLargeError):
            if is_single(start) or path.suffix == SINGLE_SUFFIX:
                raise  # the one byte that starts a short file starts many others
    return None


def _models_for(start: bytes, model: Path | None) -> "CodecSet":
    """The models that may tell what a file is: none but for a short one."""
    from ardm.codec.format.short import is_short
    from ardm.compression.api import boxed_codecs
    from ardm.compression.content_codec import CodecSet, ContentCodec

    if not is_short(start):
        return CodecSet()
    return CodecSet(boxed_codecs() if model is None else [ContentCodec(load(model, "cpu")[0])])


def model_facts(trained: "AnyTrained") -> dict[str, Any]:
    """The facts of a model."""
    from ardm.checkpoint import TrainedModel

    config, model = trained.config, trained.model
    facts = {
        "preset": config.preset,
        "method": config.method.name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "step": trained.step,
        "steps": config.train.steps,
        "seed": config.seed,
        "data": trained.data_title,
        "shape": list(model.shape),
        "variables": model.num_variables,
        "classes": model.num_classes,
    }
    if config.method.is_diffusion:
        facts["diffusion_steps"] = config.method.num_steps
    if isinstance(trained, TrainedModel):
        facts |= {"stages": model.num_stages, "profile_observations": int(trained.profile.counts.sum())}
    if trained.alphabet is not None:
        facts["alphabet"] = trained.alphabet.characters
    if trained.sample_rate is not None:
        facts["sample_rate"] = trained.sample_rate
    if isinstance(trained, TrainedModel) and trained.exact is not None:
        facts |= exact_facts(trained)
    return facts


def exact_facts(trained: "TrainedModel") -> dict[str, Any]:
    """The facts of an exact model alone."""
    assert trained.exact is not None
    coding = trained.exact.coding
    return {
        "parameters": sum(t.numel() for t in trained.exact.network.state_dict().values()),
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
    if name == "schedule" and isinstance(value, int):
        return f"number {value} of the model's, from 0"
    return f"{value:.4f}" if isinstance(value, float) else value


def _listed(entry: dict[str, Any]) -> str:
    rest = ", ".join(f"{key.replace('_', ' ')} {_shown(key, value)}" for key, value in entry.items() if key != "name")
    return f"  {entry['name']}: {rest}"
