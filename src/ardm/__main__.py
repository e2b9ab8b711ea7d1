"""`python -m ardm`."""

from ardm.cli import entry_point

entry_point()
