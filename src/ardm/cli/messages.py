"""What is wrong with arguments, in one line; tyro frames and illustrates it."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

WIDTH_OF_HELP = 8
"""Lines so far in explain an option, which --help does, too."""
NEEDLESS = ("For full helptext", "Argument helptext", "Got errors", "Perhaps you meant", "Arguments similar to")
"""How paragraphs begin that a line can do without."""


def unknown_arguments(words: Sequence[str], command: Any, name: str) -> str:
    """What to say of words that a command does not take, which is called by a name such as `ardm train`."""
    own = [f"--{field.name.replace('_', '-')}" for field in fields(getattr(command, "what", command))]
    if misplaced := [flag for word in words if (flag := word.partition("=")[0]) in own]:
        return f"{misplaced[0]} goes after the name of the command: {name} {misplaced[0]}"
    given = [word for word in words if word.startswith("--")]
    meant = [match for word in given for match in difflib.get_close_matches(word, own, n=1, cutoff=0.75)]
    hint = f"; perhaps you meant {' and '.join(meant)}" if meant else ""
    return f"unknown arguments {' '.join(words)}{hint}; see {name} --help"


def one_line(box: str, name: str, arguments: Sequence[str]) -> str:
    """The text of a framed message about the arguments of a command."""
    [title], *paragraphs = _paragraphs(box)
    said = [_in_words(paragraph) for paragraph in paragraphs if not paragraph[0].startswith(NEEDLESS)]
    if title == "Missing subcommand":
        wrong = [word for word in arguments if not word.startswith("-") and word not in name.split()]
        said.insert(0, f"there is no {name} {wrong[0]}" if wrong else title)
    sentences = ". ".join(sentence.rstrip(".") for sentence in said)
    return re.sub(r"'what\.", "'", sentences) + f"; see {name} --help"


def _paragraphs(box: str) -> Iterator[list[str]]:
    """The title, and the lines between rulers and empty lines; frames may be drawn in ASCII."""
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
    """A paragraph without what explains its options."""
    lines = [line for line in paragraph if not line.startswith(" " * WIDTH_OF_HELP)]
    options = [line.strip() for line in lines if line.startswith("  ")]
    return " ".join([line for line in lines if not line.startswith("  ")] + [", ".join(options)]).strip()
