"""Signals that end a command, raised as exceptions so that nothing is left half-written."""

import os
import signal
import sys
import threading
from types import FrameType

RETRY_SECONDS = 0.02
"""Delay before a signal that cannot be raised now is sent again."""


class Terminated(KeyboardInterrupt):
    """Raised by SIGTERM, and handled like Ctrl-C."""


RAISED: dict[int, type[KeyboardInterrupt]] = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}

_PENDING: set[int] = set()
"""Signals that will be sent again."""


def raise_signals() -> None:
    """Make SIGINT and SIGTERM raise exceptions, unless the process was started with them ignored."""
    if os.name == "posix":
        for number in RAISED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _handle)
        sys.unraisablehook = _retry_lost


def ignore_signals() -> None:
    """Ignore from now on the signals that `raise_signals` handles."""
    if threading.current_thread() is threading.main_thread():
        for number in RAISED:
            if signal.getsignal(number) is _handle:
                signal.signal(number, signal.SIG_IGN)


def _handle(number: int, frame: FrameType | None) -> None:
    """Raise the exception, but not during an import, where libraries swallow it and carry on with half a module."""
    if _is_importing(frame):
        _send_again(number)
    else:
        raise RAISED[number]


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _retry_lost(lost: "sys.UnraisableHookArgs") -> None:
    """Resend signals whose exceptions Python could not raise, for example in `__del__`."""
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    _send_again(signal.SIGTERM if isinstance(lost.exc_value, Terminated) else signal.SIGINT)


def _send_again(number: int) -> None:
    if number not in _PENDING:
        _PENDING.add(number)
        timer = threading.Timer(RETRY_SECONDS, _send, (number,))
        timer.daemon = True
        timer.start()


def _send(number: int) -> None:
    _PENDING.discard(number)
    os.kill(os.getpid(), number)
