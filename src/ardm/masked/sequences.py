"""Files of sequences: FASTA, SMILES, one sequence a line, or a text as a whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ardm.errors import DataError

SequenceFormat = Literal["auto", "fasta", "smiles", "lines", "text"]
FASTA_SUFFIXES = (".fasta", ".fa", ".faa", ".fas", ".fna")
SMILES_SUFFIXES = (".smi", ".smiles", ".rsmi", ".ism")


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """The sequences of a file, with a name for each."""

    texts: list[str]
    names: list[str]
    """The names in a FASTA file; the numbers of lines in others."""
    title: str


def read_sequences(path: str | Path, format: SequenceFormat = "auto") -> Sequences:
    """The sequences in a file.

    By default a file that begins with > is FASTA; in one whose name ends in .smi or the like the first word of a line
    counts; any other has a sequence in each line. With "text" the whole file is one text. Empty lines are left out.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from ardm.masked.sequences import read_sequences
    >>> path = Path(tempfile.mkdtemp()) / "two.fasta"
    >>> _ = path.write_text(">first\\nEVQL\\nVESG\\n>second\\nQVQL\\n")
    >>> read_sequences(path).texts
    ['EVQLVESG', 'QVQL']
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a folder; give one file of sequences")
    if not path.exists():
        raise DataError(f"there is no file {path}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text in UTF-8: byte {error.start} is not part of a character") from None
    chosen = _format_of(path, text) if format == "auto" else format
    if chosen == "text":
        pairs = [("1", text.strip())] if text.strip() else []
    else:
        pairs = list({"fasta": _fasta, "smiles": _smiles, "lines": _lines}[chosen](text, path))
    if not pairs:
        raise DataError(f"{path} has no sequence")
    names, texts = map(list, zip(*pairs, strict=True))
    return Sequences(texts=texts, names=names, title=path.name)


def _format_of(path: Path, text: str) -> str:
    suffix = path.suffix.lower()
    if suffix in SMILES_SUFFIXES:  # a reaction may begin with >
        return "smiles"
    return "fasta" if suffix in FASTA_SUFFIXES or text.lstrip().startswith(">") else "lines"


def _fasta(text: str, path: Path) -> Iterator[tuple[str, str]]:
    name, parts = None, list[str]()
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip()
        if line.startswith(">"):
            if name is not None:
                yield _record(name, parts, path)
            name, parts = line[1:].strip() or f"line {number}", []
        elif line and not line.startswith(";"):
            if name is None:
                raise DataError(f"{path} is not FASTA: line {number} comes before the first line that begins with >")
            parts.append("".join(line.split()))
    if name is not None:
        yield _record(name, parts, path)


def _record(name: str, parts: list[str], path: Path) -> tuple[str, str]:
    sequence = "".join(parts).removesuffix("*")
    if not sequence:
        raise DataError(f"the sequence {name} in {path} is empty")
    return name, sequence


def _smiles(text: str, path: Path) -> Iterator[tuple[str, str]]:
    for name, line in _lines(text, path):
        yield name, line.split()[0]


def _lines(text: str, path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"line {number}", line.strip()
