"""The commands, one per file: flags as a frozen dataclass whose `run` calls the library and prints.

Heavy imports happen inside `run`, so that `--help` is instant.
"""
