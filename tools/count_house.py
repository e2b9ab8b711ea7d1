"""Counts of the house: lines, files, rooms, function lengths, dialect and import contracts, as one Markdown table.

python tools/count_house.py [REVISION...]      commits such as eb20fb8, and the working tree, side by side
"""

import ast
import itertools
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
PROGRAMS = ("apps", "cli", "bench", "demo", "report", "serve", "commands", "cli.py")
"""Folders and files above the library, in the new house and in the old one."""
STRANGE_STARTS = ("What ", "Of ", "The same", "That ")
"""First words of docstrings that do not make sense alone."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (*FUNCTIONS, ast.ClassDef, ast.Module)


def read_tree(revision: str | None) -> dict[str, str]:
    """The tracked text files of a commit, or of the working tree, that are counted: by path."""
    names = ("src", "README.md", "pyproject.toml")
    if revision is None:
        listed = git("ls-files", "--cached", "--others", "--exclude-standard", *names).splitlines()
        here = [name for name in listed if (ROOT / name).is_file()]
        return {name: (ROOT / name).read_text(encoding="utf-8") for name in here if is_counted(name)}
    listed = git("ls-tree", "-r", "--name-only", revision, *names).splitlines()
    return {name: git("show", f"{revision}:{name}") for name in listed if is_counted(name)}


def is_counted(name: str) -> bool:
    """Whether a file's text is read: Python, the README and the project's configuration."""
    return name.endswith(".py") or name in ("README.md", "pyproject.toml")


def git(*arguments: str) -> str:
    """The output of a git command in the repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def count(tree: dict[str, str]) -> dict[str, str]:
    """The figures of one tree, by what they count."""
    modules = {PurePosixPath(name).relative_to("src/ardm"): text for name, text in tree.items() if name.endswith(".py")}
    parsed = [ast.parse(text) for text in modules.values()]
    lengths = sorted(length for module in parsed for length in function_lengths(module))
    starts = [doc for module in parsed for doc in docstrings(module)]
    text = "\n".join(modules.values())
    project = tomllib.loads(tree["pyproject.toml"])
    return {
        "lines of src/": f"{lines(modules.values()):,}",
        "lines without apps/ and cli/": f"{lines(t for path, t in modules.items() if path.parts[0] not in PROGRAMS):,}",
        "modules": f"{len(modules):,}",
        "modules in the root": str(sum(len(path.parts) == 1 and path.stem[:2] != "__" for path in modules)),
        "functions": f"{len(lengths):,}",
        "lines of a function: median, nine in ten, longest": (
            f"{statistics.median(lengths):g}, {lengths[len(lengths) * 9 // 10]}, {lengths[-1]}"
        ),
        "docstrings that begin with What, Of, The same, That": str(
            sum(doc.startswith(STRANGE_STARTS) for doc in starts)
        ),
        '"so many"': str(len(re.findall(r"\bso many\b", text))),
        "import contracts": str(len(project["tool"].get("importlinter", {}).get("contracts", []))),
        "lines of the README": str(len(tree["README.md"].splitlines())),
    }


def lines(texts: Iterable[str]) -> int:
    """The lines of all texts together."""
    return sum(len(text.splitlines()) for text in texts)


def function_lengths(module: ast.Module) -> Iterator[int]:
    """The lines of each function's body, its docstring left out."""
    for node in ast.walk(module):
        if isinstance(node, FUNCTIONS):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield body[-1].end_lineno - body[0].lineno + 1 if body else 0


def docstrings(module: ast.Module) -> Iterator[str]:
    """The docstrings of a module, its classes and functions, and the strings below assignments."""
    for node in ast.walk(module):
        if isinstance(node, DOCUMENTED) and (doc := ast.get_docstring(node)):
            yield doc
        body = node.body if isinstance(node, ast.ClassDef | ast.Module) else []
        for field, after in itertools.pairwise(body):
            if isinstance(field, ast.Assign | ast.AnnAssign) and (text := _text(after)):
                yield text


def _text(node: ast.stmt) -> str | None:
    """The string that a statement consists of, if it is one."""
    value = node.value if isinstance(node, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def main(revisions: list[str | None]) -> None:
    """Print the table, a column for each revision."""
    columns = [count(read_tree(revision)) for revision in revisions]
    print("| | " + " | ".join(revision or "working tree" for revision in revisions) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(column[name] for column in columns) + " |")


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main([*sys.argv[1:], None])
