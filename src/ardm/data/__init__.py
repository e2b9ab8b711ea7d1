"""Data sets and files as items of classes."""
