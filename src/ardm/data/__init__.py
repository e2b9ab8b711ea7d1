"""Data sets and users' files as items of classes."""
