"""The entry point of `ardm` and `python -m ardm`."""

from ardm.runtime.signals import raise_signals


def run() -> None:
    """Run the command line. Signals are handled before it is imported, so that none causes a traceback."""
    raise_signals()
    from ardm.cli.main import entry_point

    entry_point()


if __name__ == "__main__":
    run()
