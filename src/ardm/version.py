"""The version, which pyproject.toml repeats and every file of a model names."""

__version__ = "0.1.0"
