"""What there is to show: the bundled models, and for each of them the files to show it with."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ardm.apps.serve.models import LoadedModel, load_shelf
from ardm.checkpoint import ExactPart
from ardm.codec.format.fields import SoundFields
from ardm.errors import CheckpointError, DataError, UsageError
from ardm.media import medium_of
from ardm.media.contents import Content
from ardm.pretrained import bundled_models
from ardm.schedule import Schedule

MAX_VARIABLES = 2**16
"""Of a file: more would take minutes."""
MAX_CALLS = {"images": 100, "text": 250, "sound": 100}
"""Of the network for a window, by medium, where a model's own choice is more: all together shall take three minutes."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A file to show a model with."""

    path: Path
    content: Content


@dataclass(frozen=True, kw_only=True, eq=False)
class Exhibit:
    """A bundled model and its files."""

    name: str
    num_bytes: int
    """Of the model's file."""
    served: LoadedModel
    examples: Sequence[Example]

    @property
    def unit(self) -> str:
        """The unit of bits for each variable."""
        return medium_of(self.served.trained).unit

    @property
    def exact(self) -> ExactPart:
        """The model's coding."""
        assert self.served.trained.exact is not None
        return self.served.trained.exact

    @property
    def schedule(self) -> Schedule:
        """The one that items are coded and drawn with: the model's own choice, or one of fewer calls."""
        coding = self.exact.coding
        most_calls = max(MAX_CALLS[self.served.medium], coding.schedules[0].num_calls)
        return coding.schedules[min(coding.default, coding.schedule_for(most_calls))]


@dataclass(frozen=True, kw_only=True, eq=False)
class Exhibition:
    """All exhibits, and what cannot be shown."""

    exhibits: Sequence[Exhibit]
    left_out: Sequence[str]
    """A line for each medium that lacks its model or its files."""


def find_examples(folder: Path | None) -> Path:
    """The folder of files to show: the given one, or that of the repository which this package lies in."""
    found = folder or Path(__file__).parents[4] / "examples"
    if found.is_dir():
        return found
    if folder is not None:
        raise UsageError(f"{folder} is no folder; give one of small images, texts (.txt) and 16-bit sounds")
    raise UsageError(
        "this installation has no files to show: give a folder of small images, texts (.txt) and 16-bit sounds "
        "with --examples FOLDER; the repository has one, examples/"
    )


def find_exhibition(folder: Path, suffixes: Mapping[str, Collection[str]], device: str | None = None) -> Exhibition:
    """The bundled models, loaded, with the files of a folder that end as each of them wants.

    `suffixes` names the models to look for. A CheckpointError where none of them is there, a DataError where the
    folder has no file for those that it has, or one that is too large.
    """
    bundled = {name: path for name, path in bundled_models().items() if name in suffixes}
    if not bundled:
        raise CheckpointError("there is nothing to show: this version has no bundled models (`ardm models`)")
    files = {name: _files(folder, suffixes[name]) for name in suffixes}
    shown = [name for name in suffixes if name in bundled and files[name]]
    if not shown:
        raise DataError(f"{folder} holds no file for the bundled models ({', '.join(bundled)})")
    shelf = load_shelf([bundled[name] for name in shown], device)
    exhibits = [
        Exhibit(
            name=name,
            num_bytes=bundled[name].stat().st_size,
            served=served,
            examples=[_example(served, path) for path in files[name]],
        )
        for name, served in zip(shown, shelf.models.values(), strict=True)
    ]
    left_out = [_why(name, name in bundled, folder) for name in suffixes if name not in shown]
    return Exhibition(exhibits=exhibits, left_out=left_out)


def _files(folder: Path, suffixes: Collection[str]) -> list[Path]:
    visible = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return sorted(path for path in visible if path.suffix.lower() in suffixes)


def _example(served: LoadedModel, path: Path) -> Example:
    content = served.exact_codec.layout.read(path)
    if content.num_variables > MAX_VARIABLES:
        raise DataError(
            f"{path} has {content.num_variables:,} values, and the demonstration takes up to {MAX_VARIABLES:,}; "
            "`ardm compress` takes files of any size"
        )
    if not content.num_variables:
        raise DataError(f"{path} is empty; leave it out")
    if isinstance(content.fields, SoundFields) and content.fields.num_channels > 1:
        raise DataError(f"{path} is stereo, and the demonstration takes mono sounds; `ardm compress` takes both")
    return Example(path=path, content=content)


def _why(name: str, has_model: bool, folder: Path) -> str:
    return f"{name} left out: " + (
        f"no file for it in {folder}" if has_model else "there is no bundled model of this name"
    )
