"""The files that arguments mean: files, folders and patterns, each with the name that it has in an archive."""

import glob
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ardm.data.folders import files_below, is_hidden
from ardm.errors import DataError, UsageError


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file to read."""

    path: Path
    name: str
    """Its own name; if a folder was given, with the path below it and, to compress, the folder's name before that."""


def find_sources(
    arguments: Sequence[str],
    suffixes: Collection[str] = (),
    without: Collection[str] = (),
    *,
    folder_names: bool = True,
) -> list[Source]:
    """The files that are named, that match a pattern, or that lie below a folder, in a fixed order.

    Below folders only files with one of the suffixes count (with none given, all), and none with those of `without`;
    hidden ones do not. Without `folder_names` they are named by their paths below the folder alone.
    """
    sources: dict[Path, Source] = {}
    for argument in arguments:
        for source in _sources(argument, suffixes, without, folder_names):
            sources.setdefault(source.path.absolute(), source)
    return list(sources.values())


def left_out(arguments: Sequence[str], suffixes: Collection[str], without: Collection[str] = ()) -> list[Path]:
    """The files below folders that `find_sources` passes over for their suffixes, those of `without` aside."""
    taken = {*suffixes, *without}
    below = (file for folder in map(Path, arguments) if folder.is_dir() for file in sorted(files_below(folder)))
    return [file for file in below if suffixes and file.suffix.lower() not in taken]


def check_names(sources: Iterable[Source]) -> None:
    """A UsageError for two files of one name, where they go to one place."""
    seen: dict[str, Path] = {}
    for source in sources:
        if source.name in seen:
            raise UsageError(
                f"{seen[source.name]} and {source.path} would both be named {source.name}; "
                "give the folder that holds both, or take them in two runs"
            )
        seen[source.name] = source.path


def _sources(argument: str, suffixes: Collection[str], without: Collection[str], folder_names: bool) -> list[Source]:
    path = Path(argument)
    if path.is_file():
        return [Source(path=path, name=path.name)]
    if path.is_dir():
        return _sources_below(path, suffixes, without, folder_names)
    if path.exists():
        raise DataError(f"{path} is neither a file nor a folder")
    matches = [Path(match) for match in sorted(glob.glob(argument, recursive=True))]
    files = [Source(path=match, name=match.name) for match in matches if match.is_file()]
    if not files:
        raise DataError(f"there is no file or folder {argument}, and none that matches it")
    return files


def _sources_below(
    folder: Path, suffixes: Collection[str], without: Collection[str], folder_names: bool
) -> list[Source]:
    _check_readable(folder)
    files = sorted(
        file
        for file in files_below(folder)
        if (not suffixes or file.suffix.lower() in suffixes) and file.suffix.lower() not in without
    )
    if not files:
        what = f" that end in {', '.join(sorted(suffixes))}" if suffixes else ""
        raise DataError(f"{folder} holds no files{what}")
    prefix = PurePosixPath(folder.name if folder_names else "")  # empty for the current folder
    return [Source(path=file, name=str(prefix / file.relative_to(folder).as_posix())) for file in files]


def _check_readable(folder: Path) -> None:
    """A DataError for a folder that may not be read: a search would leave out what it holds without a word."""
    for below in (folder, *folder.rglob("*/")):
        if not is_hidden(below.relative_to(folder)) and not os.access(below, os.R_OK | os.X_OK):
            raise DataError(f"the folder {below} may not be read")
