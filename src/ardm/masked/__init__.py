"""Masked language models as order-agnostic ARDMs: their tokens, their networks, their names and files of sequences."""

from pathlib import Path

PREFIX = "hf:"
FACTS_FILE = "ardm.json"
"""The file with ardm's own facts in a folder that it wrote."""


def is_masked(source: str | Path) -> bool:
    """Whether a source names a masked model: hf:NAME, hf:FOLDER, or a folder that ardm wrote one into.

    >>> from ardm.masked import is_masked
    >>> is_masked("hf:bert-base-uncased"), is_masked("text")
    (True, False)
    """
    return str(source).startswith(PREFIX) or (Path(source) / FACTS_FILE).is_file()
