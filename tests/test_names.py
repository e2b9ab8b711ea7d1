"""Every name is defined. Ruff and mypy are told not to look: they take the shapes of jaxtyping for names."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_no_name_is_undefined():
    ruff = [sys.executable, "-m", "ruff", "check", "--ignore", "F722", "--select", "F821", "--output-format", "json"]
    found = json.loads(subprocess.run([*ruff, "src", "tests", "docs", "runs"], cwd=ROOT, capture_output=True).stdout)
    lines = [(one, Path(one["filename"]).read_text().splitlines()[one["location"]["row"] - 1]) for one in found]
    outside = [one["message"] for one, line in lines if not in_a_string(line, one["location"]["column"] - 1)]
    assert len(found) > 100  # shapes
    assert outside == []


def in_a_string(line: str, column: int) -> bool:
    """Whether a place of a line lies between quotes."""
    return line[:column].count('"') % 2 == 1
