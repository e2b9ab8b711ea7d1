"""The version of the package; pyproject.toml repeats it, and every model file states it."""

__version__ = "0.1.0"
