"""What tyro says about bad arguments, which it frames and illustrates, in one line."""

import re
from collections.abc import Iterator, Sequence

WIDTH_OF_HELP = 8
"""Lines so far in explain an option, which --help does, too."""
WIDTH_OF_FRAME = 2
NEEDLESS = ("For full helptext", "Argument helptext", "Got errors", "Arguments are applied")
"""How paragraphs begin that a line can do without."""


def in_one_line(box: str, command: str) -> str:
    """The text of a framed message about the arguments of a command such as `ardm train`."""
    [title], *paragraphs = _paragraphs(box)
    said = [text for paragraph in paragraphs if (text := _in_words(paragraph, command))]
    if title == "Missing subcommand":
        said.insert(0, title)
    sentences = ". ".join(sentence.rstrip(".") for sentence in said)
    return re.sub(r"'what\.", "'", sentences) + f"; see {command} --help"


def _paragraphs(box: str) -> Iterator[list[str]]:
    """The title, and the lines between rulers and empty lines; frames may be drawn in ASCII."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", box)
    title, *lines = re.sub("[│╭╮╰╯─]", " ", plain).splitlines()
    yield [title.strip()]
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line.strip(" -"):
            paragraph.append(line[WIDTH_OF_FRAME:].rstrip())
        elif paragraph:
            yield paragraph
            paragraph = []


def _in_words(paragraph: Sequence[str], command: str) -> str:
    """A paragraph without what explains its options; nothing if it can be done without."""
    if paragraph[0].startswith(NEEDLESS):
        return ""
    if paragraph[0].startswith("Perhaps you meant"):
        return _suggestion(paragraph, command)
    lines = [line for line in paragraph if not line.startswith(" " * WIDTH_OF_HELP)]
    options = [re.sub(r" \(applied to .*\)$", "", line.strip()) for line in lines if line.startswith("  ")]
    return " ".join([line for line in lines if not line.startswith("  ")] + [", ".join(options)]).strip()


def _suggestion(paragraph: Sequence[str], command: str) -> str:
    """Those of the options that are the command's own."""
    own, option = [], ""
    for line in paragraph[1:]:
        if not line.startswith(" " * WIDTH_OF_HELP):
            option = line.split()[0]
        elif line.strip().startswith(f"in {command} "):
            own.append(option)
    return f"Perhaps you meant {' or '.join(dict.fromkeys(own))}" if own else ""
