"""Every name is defined. Ruff and mypy are told not to look: they take the shapes of jaxtyping for names."""

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_name_is_undefined():
    ruff = [sys.executable, "-m", "ruff", "check", "--ignore", "F722", "--select", "F821", "--output-format", "json"]
    found = json.loads(subprocess.run([*ruff, "src", "tests", "docs", "runs"], cwd=ROOT, capture_output=True).stdout)
    outside = [one["message"] for one in found if not is_shape(**one["location"], path=Path(one["filename"]))]
    assert len(found) > 100  # shapes
    assert outside == []


def is_shape(path: Path, row: int, column: int) -> bool:
    """Whether a place of a file lies in a string that is not formatted."""
    return any(
        (node.lineno, node.col_offset) <= (row, column - 1) < (node.end_lineno, node.end_col_offset)
        for node in strings(path)
    )


@cache
def strings(path: Path) -> list[ast.Constant]:
    """The string constants of a file, but for the parts of f-strings."""
    tree = ast.parse(path.read_text())
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
    ]


def test_shapes_are_told_from_formatted_names(tmp_path):
    path = tmp_path / "some.py"
    path.write_text('x: Float[Tensor, "B D"] = f"{nothing}"\n')
    assert is_shape(path, 1, 20)
    assert not is_shape(path, 1, 32)
