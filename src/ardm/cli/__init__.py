"""The commands, one a file: flags as a frozen dataclass, `run` calls the library and prints.

Nothing heavy is imported before a command runs, so that `--help` is instant.
"""
