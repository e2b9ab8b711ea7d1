"""A benchmark at two commits, run in turn on this machine: the ratio new / old of each number.

    python runs/compare_commits.py OLD NEW [--rounds 4] [--json] -- train --presets text8 --seconds 5

Arguments after -- go to `ardm bench`. Both commits are checked out into temporary worktrees and run from their sources
by the Python that runs this script; nothing is installed. Rounds go old new, new old, old new, ..., so that a machine
that slows down or warms up favours neither. A ratio is the median over rounds; the smallest and the largest are shown.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
Row = dict[str, Any]


class Failure(Exception):
    """The commits cannot be compared; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One number of the benchmark at both commits."""

    row: str
    number: str
    old: float
    new: float
    ratio: float
    """The median of new / old over rounds."""
    least: float
    largest: float


def compare(
    old: str, new: str, arguments: Sequence[str], *, rounds: int, repository: Path = REPOSITORY
) -> list[Comparison]:
    """Each number of `ardm bench` with these arguments, at both commits."""
    commits = [full_name(commit, repository) for commit in (old, new)]
    with checked_out(commits, repository) as folders:
        results: list[list[list[Row]]] = [[], []]
        for number in range(rounds):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                results[side].append(bench(folders[side], (old, new)[side], arguments))
                print(f"round {number + 1} of {rounds}: {(old, new)[side]} done", file=sys.stderr)
    return compared(*results)


def full_name(commit: str, repository: Path) -> str:
    """The full hash of a commit."""
    found = git(repository, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if found.returncode:
        raise Failure(f"{commit} is not a commit of {repository.name}")
    return found.stdout.strip()


@contextmanager
def checked_out(commits: Sequence[str], repository: Path) -> Iterator[list[Path]]:
    """Temporary worktrees of two commits."""
    with tempfile.TemporaryDirectory(prefix="ardm-compare-") as folder:
        paths = [Path(folder) / name for name in ("old", "new")]
        try:
            for path, commit in zip(paths, commits, strict=True):
                made = git(repository, "worktree", "add", "--detach", str(path), commit)
                if made.returncode:
                    raise Failure(f"{commit} cannot be checked out: {last_line(made.stderr)}")
            yield paths
        finally:
            for path in paths:
                git(repository, "worktree", "remove", "--force", str(path))
            git(repository, "worktree", "prune")


def git(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The outcome of a git command in a repository."""
    return subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, text=True, check=False)


def bench(folder: Path, commit: str, arguments: Sequence[str]) -> list[Row]:
    """The rows of a benchmark, run with the sources in a folder."""
    source = folder / "src"
    paths = [str(source), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    python = [sys.executable, "-P"]  # not from the current directory
    where = run([*python, "-c", "import ardm; print(ardm.__file__)"], environment)
    if not Path(where.stdout.strip()).is_relative_to(source):
        raise Failure(f"the sources of {commit} cannot be imported: {last_line(where.stderr or where.stdout)}")
    done = run([*python, "-m", "ardm", "bench", *arguments, "--json"], environment)
    if done.returncode:
        raise Failure(f"ardm bench {' '.join(arguments)} fails at {commit}: {last_line(done.stderr)}")
    try:
        rows = json.loads(done.stdout)
    except ValueError:
        raise Failure(f"ardm bench {' '.join(arguments)} gives no JSON at {commit}") from None
    return [flat(row) for row in (rows if isinstance(rows, list) else [rows])]


def run(words: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The outcome of a program."""
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def last_line(text: str) -> str:
    """The last line of an error message."""
    return (text.strip().splitlines() or ["no reason given"])[-1]


def flat(row: Row, prefix: str = "") -> Row:
    """A row with the entries of nested rows, as in `network.share`."""
    entries: Row = {}
    for name, value in row.items():
        entries |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return entries


def compared(old: Sequence[list[Row]], new: Sequence[list[Row]]) -> list[Comparison]:
    """Each number measured at both commits; `old` and `new` hold the rows of each round."""
    if len({len(rows) for rows in (*old, *new)}) > 1:
        raise Failure("the commits give different numbers of rows: choose arguments that both support")
    comparisons = []
    for number, name in enumerate(row_names(old[0])):
        before, after = ([rows[number] for rows in rounds] for rounds in (old, new))
        if any(before[0][key] != row[key] for row in after for key in settings(before[0]) if key in row):
            raise Failure(f"the commits give different rows: {name} differs at the new one")
        for key in [key for key in before[0] if is_measured(key, before[0][key])]:
            pairs = [(a.get(key), b.get(key)) for a, b in zip(before, after, strict=True)]
            if all(isinstance(value, int | float) and value for pair in pairs for value in pair):
                comparisons.append(comparison(name, key, pairs))
    return comparisons


def comparison(row: str, number: str, pairs: Sequence[tuple[Any, Any]]) -> Comparison:
    """The summary of one number over rounds."""
    ratios = [new / old for old, new in pairs]
    return Comparison(
        row=row,
        number=number,
        old=statistics.median(old for old, _ in pairs),
        new=statistics.median(new for _, new in pairs),
        ratio=statistics.median(ratios),
        least=min(ratios),
        largest=max(ratios),
    )


def is_measured(key: str, value: object) -> bool:
    """Whether an entry of a row is a result; other entries describe the measurement."""
    return isinstance(value, float) or (isinstance(value, int) and key.endswith("bytes"))


def settings(row: Row) -> list[str]:
    """The names of the entries that describe a measurement, without the machine and the software."""
    own = {key: value for key, value in row.items() if not key.startswith("hardware.")}
    return [key for key, value in own.items() if isinstance(value, int | str) and not is_measured(key, value)]


def row_names(rows: Sequence[Row]) -> list[str]:
    """A name for each row: its texts, and the whole numbers that differ between rows."""
    keys = [key for key in settings(rows[0]) if isinstance(rows[0][key], str) or len({r.get(key) for r in rows}) > 1]
    return [
        ", ".join(str(row[k]) if isinstance(row[k], str) else f"{k} {row[k]}" for k in keys if k in row) for row in rows
    ]


def table(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """The comparisons as lines of text."""
    width = max(len(f"{one.row}: {one.number}") for one in comparisons)
    yield f"{'':{width}} {'old':>12} {'new':>12} {'new / old':>9}  least to largest of the rounds"
    for one in comparisons:
        yield (
            f"{f'{one.row}: {one.number}':{width}} {one.old:>12.6g} {one.new:>12.6g} {one.ratio:>9.3f}  "
            f"{one.least:.3f} to {one.largest:.3f}"
        )


def main(words: Sequence[str]) -> int:
    """Compare and print; the exit status is 1 on failure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", help="a commit, branch or tag")
    parser.add_argument("new", help="another commit, branch or tag")
    parser.add_argument("arguments", nargs="+", help="after --: arguments of ardm bench")
    parser.add_argument("--rounds", type=int, default=4, help="runs of each commit (default: 4)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="the repository of the commits")
    flags = parser.parse_args(words)
    if flags.rounds < 1:
        parser.error(f"--rounds must be positive, got {flags.rounds}")
    try:
        rows = compare(flags.old, flags.new, flags.arguments, rounds=flags.rounds, repository=flags.repository)
        if not rows:
            raise Failure("the benchmark gives no number at both commits")
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 1
    print(json.dumps([asdict(row) for row in rows], indent=1) if flags.json else "\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which removes the worktrees first
    sys.exit(main(sys.argv[1:]))
