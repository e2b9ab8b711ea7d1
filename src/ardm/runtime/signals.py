"""Signals that end a command: they are raised, so that whatever runs is unwound and nothing is left half-written."""

import os
import signal
import sys
import threading
from types import FrameType

SECONDS_TO_COME_AGAIN = 0.02
"""A signal that cannot be raised now is sent again so much later."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came: like Ctrl-C."""


RAISED: dict[int, type[KeyboardInterrupt]] = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}


_COMING: set[int] = set()
"""Signals that are going to be sent again."""


def raise_signals() -> None:
    """Let the signals that end a process raise exceptions, except for those that it was told to ignore."""
    if os.name == "posix":
        for number in RAISED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _handle)
        sys.unraisablehook = _come_again


def ignore_signals() -> None:
    """Let the signals that are raised end this process no more."""
    if threading.current_thread() is threading.main_thread():
        for number in RAISED:
            if signal.getsignal(number) is _handle:
                signal.signal(number, signal.SIG_IGN)


def _handle(number: int, frame: FrameType | None) -> None:
    """Raise it, but not within an import: libraries swallow what is raised there and go on with half a module."""
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


def _come_again(lost: "sys.UnraisableHookArgs") -> None:
    """The hook for errors that Python cannot raise, as in callbacks of its memory."""
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    _send_again(signal.SIGTERM if isinstance(lost.exc_value, Terminated) else signal.SIGINT)


def _send_again(number: int) -> None:
    if number not in _COMING:
        _COMING.add(number)
        timer = threading.Timer(SECONDS_TO_COME_AGAIN, _send, (number,))
        timer.daemon = True
        timer.start()


def _send(number: int) -> None:
    _COMING.discard(number)
    os.kill(os.getpid(), number)
