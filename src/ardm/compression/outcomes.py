"""Outcomes of compressing or restoring many files: successes, failures and notes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

GROUP_BYTES = 2**22
GROUP_SIZE = 512
"""Contents are coded in groups of about this many raw bytes, and at most this many contents."""

MAX_NAMES = 5
"""Names that a message lists."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Done:
    """A file that has been compressed or restored."""

    file: str
    """The input; for an entry, the archive and the entry's name."""
    output: str
    kind: str
    num_bytes: int
    """Bytes of the user's file."""
    num_compressed: int
    """Bytes of the compressed file; in an archive, of the entry's body."""
    num_variables: int
    seconds: float
    """Share of the time for the group that the file was coded with."""
    is_raw: bool
    """Whether it is stored without a model."""

    def to_dict(self) -> dict[str, Any]:
        """The facts for JSON."""
        return {
            "file": self.file,
            "output": self.output,
            "kind": self.kind,
            "bytes": self.num_bytes,
            "compressed_bytes": self.num_compressed,
            "ratio": self.ratio,
            "bits_per_variable": self.bits_per_variable,
            "seconds": self.seconds,
            "stored_raw": self.is_raw,
        }

    @property
    def ratio(self) -> float:
        """The user's bytes per compressed byte."""
        return self.num_bytes / max(1, self.num_compressed)

    @property
    def bits_per_variable(self) -> float:
        """Compressed bits per character, byte, sub-pixel or sample."""
        return 8 * self.num_compressed / max(1, self.num_variables)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A file or an entry that could not be compressed or restored."""

    file: str
    error: Exception

    def __str__(self) -> str:
        reason = str(self.error) or type(self.error).__name__
        return reason if self.file in reason else f"{self.file}: {reason}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome for all files, filled as the work proceeds."""

    done: list[Done] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Information for users that is not a failure."""

    def fail(self, file: object, error: Exception) -> None:
        """Add a failure."""
        self.failures.append(Failure(file=str(file), error=error))


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of several runs together."""
    return Outcome(
        done=[done for outcome in outcomes for done in outcome.done],
        failures=[failure for outcome in outcomes for failure in outcome.failures],
        notes=[note for outcome in outcomes for note in outcome.notes],
    )


def length_notes(done: Sequence[Done]) -> list[str]:
    """A note on files that are longer in compressed form, if there are any."""
    longer = [one for one in done if one.num_compressed > one.num_bytes]
    if not longer:
        return []
    before, after = sum(one.num_bytes for one in longer), sum(one.num_compressed for one in longer)
    which = f"{len(longer)} of {len(done)} files, {longer[0].file} among them," if longer[1:] else longer[0].file
    return [f"{which} got longer: {after:,} bytes instead of {before:,}"]


def shares(seconds: float, num_variables: Sequence[int]) -> list[float]:
    """The seconds that a group took, divided among its contents in proportion to their variables."""
    return [seconds * count / max(1, sum(num_variables)) for count in num_variables]


def shortened(names: Sequence[str]) -> str:
    """The first few names of a list, and the number of further ones."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def grouped(elements: Iterable[T], num_bytes: Callable[[T], int], num_processes: int = 1) -> Iterator[list[T]]:
    """Consecutive elements in groups; a group's size is limited in proportion to the number of processes."""
    group: list[T] = []
    total = 0
    for element in elements:
        group.append(element)
        total += num_bytes(element)
        del element  # callers clear a group to free its memory
        if total >= num_processes * GROUP_BYTES or len(group) >= num_processes * GROUP_SIZE:
            yield group
            group, total = [], 0
    if group:
        yield group
