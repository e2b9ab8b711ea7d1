"""One-line messages about wrong arguments, in place of the framed paragraphs that tyro prints."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import tyro

PARSING = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff)
"""How tyro turns the fields of a command into flags."""
HELP_INDENT = 8
"""Lines indented this far explain an option; `--help` shows them too."""
DATA_ARGUMENTS = {"ardm train": "--data", "ardm eval": "DATA", "ardm export": "--data", "ardm report calls": "DATA"}
"""Arguments that take one file or folder of data, by command."""
LEFT_OUT = ("For full helptext", "Argument helptext", "Got errors", "Perhaps you meant", "Arguments similar to")
"""First words of the paragraphs that `one_line` leaves out."""


@cache
def join_help_lines() -> None:
    """Make `--help` show a field's docstring as one paragraph; tyro 1.0 breaks it before indented lines."""
    import docstring_parser

    def joined(obj: Any, parse: Any = docstring_parser.parse_from_object) -> Any:
        for described in (parsed := parse(obj)).params:
            described.description = " ".join((described.description or "").split())
        return parsed

    docstring_parser.parse_from_object = joined  # type: ignore[assignment]


def several_files(name: str, arguments: Sequence[str], unknown: Sequence[str] = ()) -> str | None:
    """Message about several files where a command takes one, as from --data docs/*.md; None if that is not the error.

    >>> from ardm.cli.messages import several_files
    >>> several_files("ardm train", ["train", "text", "--data", ".", "/"])
    '--data takes one file or folder, but 2 came (a shell expands *.txt): give their folder; see ardm train --help'
    """
    flag = DATA_ARGUMENTS.get(name, "")
    words = [*_words_after(flag, arguments)] if flag in arguments else [*unknown]
    files = [word for word in words if Path(word).exists()]  # a preset may follow them
    num_files = len(files) + (flag not in arguments)  # without the flag, the parser has taken the first one
    if not flag or not files or num_files < 2 or (flag not in arguments and files != words):
        return None
    folders = {str(Path(file).parent) for file in files if Path(file).is_file()}
    folder = f"the folder {folders.pop()}" if len(folders) == 1 else "their folder"
    join = ", or join texts in one file" if Path(files[0]).is_file() else ""
    came = f"{num_files} came (a shell expands *{Path(files[0]).suffix or '.txt'})"
    return f"{flag} takes one file or folder, but {came}: give {folder}{join}; see {name} --help"


def _words_after(flag: str, arguments: Sequence[str]) -> Iterator[str]:
    """The words between a flag and the next flag."""
    for word in arguments[1 + [*arguments].index(flag) :]:
        if word.startswith("-"):
            return
        yield word


def unknown_arguments(words: Sequence[str], command: Any, name: str) -> str:
    """Message about arguments that a command (called `name`, such as `ardm train`) does not take."""
    own = list(flags_of(getattr(command, "what", command)).values())
    if misplaced := [flag for word in words if (flag := word.partition("=")[0]) in own]:
        return f"{misplaced[0]} goes after the name of the command: {name} {misplaced[0]}"
    given = [word for word in words if word.startswith("--")]
    meant = [match for word in given for match in difflib.get_close_matches(word, own, n=1, cutoff=0.75)]
    hint = f"; perhaps you meant {' and '.join(meant)}" if meant else ""
    return f"unknown arguments {' '.join(words)}{hint}; see {name} --help"


def flags_of(command: Any) -> dict[str, str]:
    """The flags of a command or of its class by the names of their fields, with those of configurations inside it."""
    flags: dict[str, str] = {}
    hints = get_type_hints(command if isinstance(command, type) else type(command), include_extras=True)
    for name in (field.name for field in fields(command)):
        kind, *marks = get_args(hints[name]) if get_origin(hints[name]) is Annotated else [hints[name]]
        value = getattr(command, name, None)
        if is_dataclass(inner := value if is_dataclass(value) else kind):
            flags |= flags_of(inner)
        elif tyro.conf.Suppress not in marks:
            words = [mark.name for mark in marks if getattr(mark, "name", None)] or [name]
            flags[name] = f"--{words[0].replace('_', '-')}"
    return flags


def one_line(box: str, name: str, arguments: Sequence[str]) -> str:
    """The text of tyro's framed message as one line that ends with the command's --help."""
    [title], *paragraphs = _paragraphs(box)
    parts = [_in_words(paragraph) for paragraph in paragraphs if not paragraph[0].startswith(LEFT_OUT)]
    if title == "Missing subcommand":
        wrong = [word for word in arguments if not word.startswith("-") and word not in name.split()]
        parts.insert(0, f"there is no {name} {wrong[0]}" if wrong else title)
    sentences = ". ".join(sentence.rstrip(".") for sentence in parts)
    return re.sub(r"'what\.", "'", sentences) + f"; see {name} --help"


def _paragraphs(box: str) -> Iterator[list[str]]:
    """The frame's title, then its paragraphs as lists of lines; frames may be drawn in ASCII."""
    title, *lines = re.sub(r"\x1b\[[0-9;]*m", "", box).splitlines()
    yield [title.strip(" ╭─╮")]
    paragraph: list[str] = []
    for line in [*lines, ""]:
        inner = line.strip().removeprefix("│").removesuffix("│").rstrip()
        if inner.strip(" -─╰╯"):
            paragraph.append(inner.removeprefix(" ") if line.startswith("│") else line.removeprefix("  ").rstrip())
        elif paragraph:
            yield paragraph
            paragraph = []


def _in_words(paragraph: Sequence[str]) -> str:
    """A paragraph as one sentence, its options without their explanations."""
    lines = [line for line in paragraph if not line.startswith(" " * HELP_INDENT)]
    options = [line.strip() for line in lines if line.startswith("  ")]
    return " ".join([line for line in lines if not line.startswith("  ")] + [", ".join(options)]).strip()
