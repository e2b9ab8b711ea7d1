"""The bytes of compressed files and archives: docs/format.md in code."""
