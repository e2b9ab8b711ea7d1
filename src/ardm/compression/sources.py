"""The files that users name, match by patterns or hold in folders, and the codecs that compress them."""

import glob
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ardm.compression.content_codec import ContentCodec
from ardm.compression.outcomes import Outcome, shortened
from ardm.compression.workers import Workers
from ardm.data.folders import files_below, is_hidden
from ardm.data.image_files import IMAGE_SUFFIXES
from ardm.data.sound_files import SOUND_SUFFIXES
from ardm.errors import CheckpointError, DataError, UsageError
from ardm.names import ARCHIVE_SUFFIX, SINGLE_SUFFIX
from ardm.pretrained import bundled_models

COMPRESSED_SUFFIXES = (SINGLE_SUFFIX, ARCHIVE_SUFFIX)
BUNDLED_SUFFIXES: dict[str, Collection[str]] = {"images": IMAGE_SUFFIXES, "audio": SOUND_SUFFIXES, "text": {".txt"}}
"""The suffixes of the files that each bundled model compresses; `text` also compresses files with other suffixes."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file to read."""

    path: Path
    name: str
    """The name in an archive or folder: the file's own, or the path below a given folder, after the folder's name."""


def find_sources(
    arguments: Sequence[str], suffixes: Collection[str] = (), *, folder_names: bool = True
) -> list[Source]:
    """The files that arguments name, match by patterns or hold in folders, in a fixed order.

    From folders it takes the files with one of the suffixes or, without suffixes, all that are not compressed, but no
    hidden files. Without `folder_names` they are named by their paths below the folder.
    """
    sources: dict[Path, Source] = {}
    for argument in arguments:
        for source in _sources(argument, suffixes, folder_names):
            sources.setdefault(source.path.absolute(), source)
    return list(sources.values())


def sources_by_codec(
    arguments: Sequence[str], model: Path | None, output: Path | None, workers: Workers, outcome: Outcome
) -> list[tuple[ContentCodec, list[Source]]]:
    """The files to compress and their codecs: the model's for all files, or by suffix those of bundled models.

    The outcome gets failures for files without a model and a note on the files that are left out.
    """
    if model is not None:
        codec = workers.codec(model)
        suffixes: Collection[str] = codec.layout.suffixes
        groups = [(codec, find_sources(arguments, suffixes))]
    else:
        suffixes = {suffix for group in BUNDLED_SUFFIXES.values() for suffix in group}
        by_name = _sources_by_bundled_name(find_sources(arguments, suffixes), output, outcome)
        groups = [(workers.codec(bundled_models()[name]), sources) for name, sources in by_name.items()]
    taken = {*suffixes, *COMPRESSED_SUFFIXES}
    below = (file for folder in map(Path, arguments) if folder.is_dir() for file in sorted(files_below(folder)))
    if others := [file for file in below if suffixes and file.suffix.lower() not in taken]:
        names = shortened(list(map(str, others)))
        outcome.notes.append(f"left out because of their suffixes: {names}; to include a file, name it")
    if output is not None:
        together = [source for _, sources in groups for source in sources]
        check_names(together)
        if output.suffix == SINGLE_SUFFIX and len(together) > 1:
            raise UsageError(f"{output} can hold one file, but {len(together)} are given; use {ARCHIVE_SUFFIX}")
    return groups


def _sources_by_bundled_name(
    sources: Iterable[Source], output: Path | None, outcome: Outcome
) -> dict[str, list[Source]]:
    groups: dict[str, list[Source]] = {}
    for source in sources:
        suffix = source.path.suffix.lower()
        name = next((name for name, suffixes in BUNDLED_SUFFIXES.items() if suffix in suffixes), "text")
        groups.setdefault(name, []).append(source)
    if output is not None and output.suffix == ARCHIVE_SUFFIX and len(groups) > 1:
        raise UsageError(f"an archive holds files of one kind, not {' and '.join(groups)}; make one for each kind")
    for name in [name for name in groups if name not in bundled_models()]:
        for source in groups.pop(name):
            outcome.fail(source.path, CheckpointError(f"there is no bundled model {name}; give one with --model"))
    return groups


def check_names(sources: Iterable[Source]) -> None:
    """Raise a UsageError if two files have the same name, because they would go to the same place."""
    seen: dict[str, Path] = {}
    for source in sources:
        if source.name in seen:
            raise UsageError(
                f"{seen[source.name]} and {source.path} would both be named {source.name}; "
                "give the folder that holds both, or handle them in two runs"
            )
        seen[source.name] = source.path


def _sources(argument: str, suffixes: Collection[str], folder_names: bool) -> list[Source]:
    path = Path(argument)
    if path.is_file():
        return [Source(path=path, name=path.name)]
    if path.is_dir():
        return _sources_below(path, suffixes, folder_names)
    if path.exists():
        raise DataError(f"{path} is neither a file nor a folder")
    matches = [Path(match) for match in sorted(glob.glob(argument, recursive=True))]
    files = [Source(path=match, name=match.name) for match in matches if match.is_file()]
    if not files:
        raise DataError(f"there is no file or folder {argument}, and no file matches it as a pattern")
    return files


def _sources_below(folder: Path, suffixes: Collection[str], folder_names: bool) -> list[Source]:
    for below in (folder, *folder.rglob("*/")):  # a search would silently skip unreadable folders
        if not is_hidden(below.relative_to(folder)) and not os.access(below, os.R_OK | os.X_OK):
            raise DataError(f"the folder {below} cannot be read (permission denied)")
    found = ((file, file.suffix.lower()) for file in files_below(folder))
    files = sorted(
        file for file, suffix in found if (suffix in suffixes if suffixes else suffix not in COMPRESSED_SUFFIXES)
    )
    if not files:
        what = f" that end in {', '.join(sorted(suffixes))}" if suffixes else ""
        raise DataError(f"{folder} holds no files{what}")
    prefix = PurePosixPath(folder.name if folder_names else "")  # empty for the current folder
    return [Source(path=file, name=str(prefix / file.relative_to(folder).as_posix())) for file in files]
