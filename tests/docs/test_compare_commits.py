"""Two commits compared, in a tiny repository whose benchmark prints given numbers."""

import importlib.util
import json
import shutil
import subprocess

import pytest
from documents import ROOT

spec = importlib.util.spec_from_file_location("compare_commits", ROOT / "runs" / "compare_commits.py")
assert spec is not None
assert spec.loader is not None
compare_commits = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare_commits)

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
ROWS = [
    {"preset": "a", "items": 1, "seconds": 2.0, "network": {"share": 0.5}, "peak_bytes": None},
    {"preset": "a", "items": 4, "seconds": 8.0, "network": {"share": 0.25}, "peak_bytes": 100},
]


def git(folder, *words):
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Commits: v1; v2, twice as fast; v3, whose benchmark fails; v4 and v5 with other rows; v6 without JSON."""
    folder = tmp_path_factory.mktemp("repositories") / "project"
    package = folder / "src" / "ardm"
    package.mkdir(parents=True)
    git(folder, "init", "-q")
    (package / "__init__.py").write_text("")
    machines = ({"hardware": {"ardm": version}} for version in ("0.1", "0.2"))
    before, faster = ([row | machine for row in ROWS] for machine in machines)
    faster = [row | {"seconds": row["seconds"] / 2, "kind": "new"} for row in faster]
    programs = {
        "v1": f"print({json.dumps(before)!r})",
        "v2": f"print({json.dumps(faster)!r})",
        "v3": "raise SystemExit('no such benchmark')",
        "v4": f"print({json.dumps(ROWS[:1])!r})",
        "v5": f"print({json.dumps([row | {'items': 7} for row in ROWS])!r})",
        "v6": "print('hello')",
    }
    for tag, program in programs.items():
        (package / "__main__.py").write_text(
            f"import sys\nassert sys.argv[1:] == ['bench', 'x', '--json']\n{program}\n"
        )
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", tag)
        git(folder, "tag", tag)
    return folder


def main(repository, *words):
    return compare_commits.main([*words, "--repository", str(repository), "--", "x"])


def test_ratios_of_each_number(repository, capsys):
    assert main(repository, "v1", "v2", "--rounds", "2", "--json") == 0
    out, err = capsys.readouterr()
    found = {(row["row"], row["number"]): row["ratio"] for row in json.loads(out)}
    assert found == {
        ("a, items 1", "seconds"): 0.5,
        ("a, items 1", "network.share"): 1,
        ("a, items 4", "seconds"): 0.5,
        ("a, items 4", "network.share"): 1,
        ("a, items 4", "peak_bytes"): 1,
    }
    assert [line.split(": ")[1] for line in err.splitlines()] == [
        f"{commit} done" for commit in ("v1", "v2", "v2", "v1")
    ]
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_the_table(repository, capsys):
    assert main(repository, "v1", "v2", "--rounds", "1") == 0
    header, first, *_ = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["old", "new", "new"]
    assert first.split() == ["a,", "items", "1:", "seconds", "2", "1", "0.500", "0.500", "to", "0.500"]


@pytest.mark.parametrize(
    ("commits", "message"),
    [
        (("v1", "nowhere"), "nowhere is not a commit of project"),
        (("v1", "v3"), "ardm bench x fails at v3: no such benchmark"),
        (("v1", "v4"), "the commits give different numbers of rows"),
        (("v1", "v5"), "the commits give different rows: a, items 1 differs at the new one"),
        (("v6", "v1"), "ardm bench x gives no JSON at v6"),
    ],
)
def test_errors_are_one_line_and_leave_no_worktree(repository, commits, message, capsys):
    assert main(repository, *commits, "--rounds", "1") == 1
    assert f"error: {message}" in capsys.readouterr().err.splitlines()[-1]
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_spread_over_rounds():
    rounds = [[[{"seconds": value}] for value in values] for values in ([1.0, 2.0, 4.0], [2.0, 2.0, 2.0])]
    [row] = compare_commits.compared(*rounds)
    assert (row.old, row.new, row.ratio, row.least, row.largest) == (2, 2, 1, 0.5, 2)
    with pytest.raises(SystemExit):
        compare_commits.main(["a", "b", "--rounds", "0", "--", "x"])


def test_an_interruption_is_reported_in_one_word(repository, capsys, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(compare_commits, "bench", interrupted)
    assert main(repository, "v1", "v2") == 1
    assert capsys.readouterr().err == "interrupted\n"
    assert len(git(repository, "worktree", "list").splitlines()) == 1
