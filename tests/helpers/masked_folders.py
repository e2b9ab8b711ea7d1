"""Folders of tiny masked models as `transformers` writes them, with files of tokens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tiny_masked import BERT_TOKENS, ESM_TOKENS, ROBERTA_TOKENS, bert, esm, modern_bert, random_network
from torch import nn

NETWORKS = {
    "bert": (bert, BERT_TOKENS),
    "roberta": (lambda: random_network("Roberta", pad_token_id=1), ROBERTA_TOKENS),
    "albert": (lambda: random_network("Albert", pad_token_id=0, embedding_size=8), BERT_TOKENS),
    "modernbert": (modern_bert, BERT_TOKENS),
    "esm": (esm, ESM_TOKENS),
}
"""The networks that folders are made of, by name, with their tokens."""
AMINO_ACIDS = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", *"ACDEFGHIKLMNPQRSTVWY")
SMILES = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "C", "Cl", "c", "1", "N", "O", "=", "(", ")")
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "€", ".", "sat")


def masked_folder(folder: Path, kind: str = "bert", names: Sequence[str] | None = None, **options: Any) -> Path:
    """A folder with a tiny network and its list of tokens, by default those of three bases."""
    make, own_names = NETWORKS[kind]
    network = make(**options).float()
    return written(folder, network, names or own_names)


def written(folder: Path, network: nn.Module, names: Sequence[str]) -> Path:
    """A folder with a network and its list of tokens."""
    network.save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return folder


def protein_folder(folder: Path, **options: Any) -> Path:
    """A folder with a small BERT of the 20 amino acids, which sees 24 of them at once."""
    return masked_folder(folder, names=AMINO_ACIDS, vocab_size=len(AMINO_ACIDS), **options)


def same_weights(first: nn.Module, second: nn.Module) -> bool:
    """Whether two networks have the same weights, to the bit."""
    one, other = first.state_dict(), second.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
