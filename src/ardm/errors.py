"""Errors that users meet. Each message says what was expected, what came and what to do, in one line."""


class ArdmError(ValueError):
    """Something a user gave cannot be used: exit status 1 on the command line."""


class DataError(ArdmError):
    """A data file is missing, damaged or not what it should be."""


class CheckpointError(ArdmError):
    """A checkpoint or model file is missing, damaged or foreign."""


class UsageError(ArdmError):
    """Flags that make no sense together or for this model: exit status 2 on the command line."""
