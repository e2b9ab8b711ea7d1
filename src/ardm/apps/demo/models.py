"""The bundled models of the demo, each with the files that demonstrate it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ardm.apps.serve.models import PageModel
from ardm.checkpoint import ExactPart
from ardm.codec.format.fields import SoundFields
from ardm.compression.content_codec import ContentCodec
from ardm.errors import CheckpointError, DataError, UsageError
from ardm.media import medium_of
from ardm.media.contents import Content
from ardm.pretrained import bundled_models
from ardm.schedule import Schedule
from ardm.tasks.load import load

MAX_VARIABLES = 2**16
"""Variables per file; more would take minutes."""
MAX_CALLS = {"images": 100, "text": 250, "sound": 100}
"""Network calls per window, by medium, so that the whole demo takes three minutes."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A file that demonstrates a model."""

    path: Path
    content: Content

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


@dataclass(frozen=True, kw_only=True, eq=False)
class DemoModel(PageModel):
    """A bundled model and the files that demonstrate it; the key is its name."""

    num_bytes: int
    """Bytes of the model's file."""
    examples: Sequence[Example]

    @property
    def unit(self) -> str:
        """The unit of bits per variable."""
        return medium_of(self.trained).unit

    @property
    def exact(self) -> ExactPart:
        """The exact network and its coding."""
        assert self.trained.exact is not None
        return self.trained.exact

    @property
    def coding_schedule(self) -> Schedule:
        """The schedule for coding and drawing: the model's default, or one with fewer calls."""
        coding = self.exact.coding
        max_calls = max(MAX_CALLS[self.medium], coding.schedules[0].num_calls)
        return coding.schedules[min(coding.default, coding.schedule_for(max_calls))]


def find_examples(folder: Path | None) -> Path:
    """The folder of example files: the given one, or `examples` in the repository that contains this package."""
    found = folder or Path(__file__).parents[4] / "examples"
    if found.is_dir():
        return found
    if folder is not None:
        raise UsageError(f"{folder} is not a folder; give one of small images, texts (.txt) and 16-bit sounds")
    raise UsageError(
        "this installation has no example files: give a folder of small images, texts (.txt) and 16-bit sounds "
        "with --examples FOLDER; the repository has one, examples/"
    )


def load_demo_models(
    folder: Path, suffixes: Mapping[str, Collection[str]], device: str | None = None
) -> tuple[list[DemoModel], list[str]]:
    """The bundled models with the files of a folder that have their suffixes, and a line about each that lacks some.

    The keys of `suffixes` are the names of the models. Raises a CheckpointError if none of them is bundled, and a
    DataError if the folder has no file for those that are, or an unsuitable one.
    """
    bundled = {name: path for name, path in bundled_models().items() if name in suffixes}
    if not bundled:
        raise CheckpointError("there is nothing to show: this version has no bundled models (`ardm models`)")
    files = {name: _files(folder, suffixes[name]) for name in suffixes}
    if not any(files[name] for name in bundled):
        raise DataError(f"{folder} holds no file for the bundled models ({', '.join(bundled)})")
    models, left_out = [], []
    for name in suffixes:
        if name not in bundled:
            left_out.append(f"{name} left out: there is no bundled model of this name")
        elif not files[name]:
            left_out.append(f"{name} left out: no file for it in {folder}")
        else:
            models.append(_load(name, bundled[name], files[name], device))
    return models, left_out


def _files(folder: Path, suffixes: Collection[str]) -> list[Path]:
    visible = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return sorted(path for path in visible if path.suffix.lower() in suffixes)


def _load(name: str, path: Path, files: Sequence[Path], device: str | None) -> DemoModel:
    loaded = load(path, device)
    codec = ContentCodec(loaded.trained)
    model = DemoModel(
        key=name,
        title=path.name,
        num_bytes=path.stat().st_size,
        examples=[Example(path=file, content=_content(codec, file)) for file in files],
        trained=loaded.trained,
        runtime=loaded.runtime,
    )
    model.time_calls()  # compiles, so that no file's time includes it
    return model


def _content(codec: ContentCodec, path: Path) -> Content:
    content = codec.layout.read(path)
    if content.num_variables > MAX_VARIABLES:
        raise DataError(
            f"{path} has {content.num_variables:,} values, but the demonstration takes up to {MAX_VARIABLES:,}; "
            "`ardm compress` takes files of any size"
        )
    if not content.num_variables:
        raise DataError(f"{path} is empty; leave it out")
    if isinstance(content.fields, SoundFields) and content.fields.num_channels > 1:
        raise DataError(f"{path} is stereo, but the demonstration takes mono sounds; `ardm compress` takes both")
    return content
