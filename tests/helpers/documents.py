"""Markdown documents as tests read them: blocks of code, and the commands in them."""

import importlib.util
import re
import shlex
import sys
from glob import glob
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import get_args

from ardm.cli.main import Command, main

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

QUICK = {
    "train text": "--steps 4 --batch-size 4 --item-length 24 --layers 1 --width 32 --head-width 16 --eval-every 4",
    "train images": "--steps 4 --batch-size 4 --size 8x8 --widths 8 12 --depths 1 1 --eval-every 4",
    "train audio": "--steps 4 --batch-size 4 --item-length 100 --widths 8 12 --depths 1 1 --eval-every 4",
    "bench codec": "--items 2",
}
"""What is put behind `ardm train text ...` and others, so that a test can run them; of a flag given twice, the last
value counts."""


def blocks(document: Path, language: str) -> list[str]:
    """The blocks of code in a language."""
    return [code for kind, code in all_blocks(document) if kind == language]


def all_blocks(document: Path) -> list[tuple[str, str]]:
    """The languages and the code of all blocks."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def spans(document: Path) -> list[str]:
    """The code inside lines of text, each in one line."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]


def commands(block: str) -> list[list[str]]:
    """The words of each command of a block of shell, without comments."""
    lines = block.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def command_names() -> list[str]:
    """The names of all commands, in the order of `ardm --help`."""
    return [subcommand.name for kind in get_args(Command) for subcommand in kind.__metadata__]


def run(words: list[str]) -> None:
    """Run a command `ardm ...` of a document here, with patterns expanded as a shell does, and cut short."""
    program, *arguments = [name for word in words for name in (sorted(glob(word)) or [word])]
    assert program == "ardm", words
    arguments += QUICK.get(" ".join(arguments[:2]), "").split()
    assert main(arguments) == 0, words
    for flag, value in pairwise(arguments):
        assert flag not in ("-o", "--output") or Path(value).exists(), words


def load_script(path: str) -> ModuleType:
    """A script of the repository, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for their module there
    spec.loader.exec_module(module)
    return module
