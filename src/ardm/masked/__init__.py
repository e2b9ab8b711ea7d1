"""Masked language models as order-agnostic ARDMs: their tokens, their networks, their names and files of sequences."""
