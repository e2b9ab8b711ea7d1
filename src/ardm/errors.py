"""Errors that users meet. Each message says what was expected, what came and what to do, in one line."""


class ArdmError(ValueError):
    """Something a user gave cannot be used: exit status 1 on the command line."""


class DataError(ArdmError):
    """A data file is missing, damaged or not what it should be."""


class CheckpointError(ArdmError):
    """A checkpoint or model file is missing, damaged or not one of ardm's."""


class ExactError(ArdmError):
    """A network cannot be computed in exact integers."""


class UsageError(ArdmError):
    """Flags that make no sense together or for this model: exit status 2 on the command line."""


class DamagedError(ArdmError):
    """A compressed file, an archive or one of its entries is damaged, cut short or not such a file at all."""


class UnknownVersionError(ArdmError):
    """A file of a format version that this software does not read; the message names both."""


class UnknownModelError(ArdmError):
    """A file coded with a model that is not available; the message names its identity."""


class TooLargeError(ArdmError):
    """A file that states more than the limits allow; the message names the limit."""


class NetworkError(ArdmError):
    """A network of the user's own does not do what a model needs; the message says what."""
