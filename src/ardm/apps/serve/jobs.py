"""Jobs: what the pages ask for, done by one thread in turn, each told to its page and stopped when that goes away."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ardm.errors import ArdmError

Event = dict[str, Any]
Deliver = Callable[[Event | None], None]
"""Takes a job's events, from any thread; None after the last one."""
Work = Callable[["Job"], Event]
"""Does a job and returns its result; it must call `Job.check` at least once for every call of a network."""

SECONDS_BETWEEN = 0.08
"""Two reports of progress."""


class BusyError(ArdmError):
    """The queue is full."""


class Cancelled(Exception):
    """Nobody waits for this job any more."""


class Job:
    """One piece of work, and the page that waits for it."""

    def __init__(self, work: Work, deliver: Deliver, most_seconds: float) -> None:
        self._work, self._deliver, self._most_seconds = work, deliver, most_seconds
        self._cancelled = threading.Event()
        self._deadline = float("inf")
        self._done = self._total = 0
        self._last_report = 0.0
        self.title = ""
        """What is being done."""

    def cancel(self) -> None:
        """Stop at the next call of the network."""
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether it is to stop."""
        return self._cancelled.is_set()

    def check(self) -> None:
        """An exception if the job is to stop."""
        if self.is_cancelled:
            raise Cancelled
        if time.monotonic() > self._deadline:
            raise ArdmError(f"stopped after {self._most_seconds:g} seconds; use fewer calls or something smaller")

    def tell(self, kind: str, **values: Any) -> None:
        """Send an event to the page."""
        self._deliver({"kind": kind, **values})

    def expect(self, count: int) -> None:
        """There is so much more to do."""
        self._total += count

    def advance(self, count: int) -> None:
        """So much more is done; an exception if the job is to stop."""
        self.check()
        self._done += count
        now = time.monotonic()
        if now - self._last_report >= SECONDS_BETWEEN:
            self._last_report = now
            self.tell("progress", done=self._done, total=max(self._done, self._total), title=self.title)

    def run(self) -> None:
        """Do the work; whatever happens, the page hears of it in one line, and then that it was the last."""
        self._deadline = time.monotonic() + self._most_seconds
        try:
            self.check()
            self.tell("start")
            self.tell("result", **self._work(self))
        except Cancelled:
            self.tell("cancelled")
        except Exception as error:
            self.tell("error", message=message_of(error))
        finally:
            self._deliver(None)


def message_of(error: Exception) -> str:
    """One line for the page; what is no user's fault goes to the terminal with all that is known."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; use something smaller"
    if isinstance(error, ValueError):
        return " ".join(str(error).split()) or type(error).__name__
    logging.getLogger("ardm.apps.serve").error("a job failed", exc_info=error)
    return f"unexpected {type(error).__name__}; the terminal of the server shows where"


class Worker:
    """One thread that does jobs in turn."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="ardm-worker", daemon=True)
        self._thread.start()

    def check_room(self) -> None:
        """A BusyError if another job cannot wait."""
        if self._is_closed:
            raise BusyError("the server is shutting down")
        if len(self._waiting) >= self._most_waiting:
            raise BusyError(f"{self._most_waiting} jobs wait already; try again when one of them is done")

    def submit(self, job: Job) -> None:
        """Put a job at the end of the queue; a BusyError if that is full."""
        with self._changed:
            self.check_room()
            self._waiting.append(job)
            self._tell_places()
            self._changed.notify()

    def drop(self, job: Job) -> None:
        """Stop a job, or take it out of the queue."""
        job.cancel()
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
                self._tell_places()

    def close(self) -> None:
        """Stop all jobs and the thread."""
        with self._changed:
            self._is_closed = True
            for job in (*self._waiting, *([self._running] if self._running else [])):
                job.cancel()
            self._changed.notify()
        self._thread.join(timeout=10)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        with self._changed:
            return self._running is None and not self._waiting

    def _tell_places(self) -> None:
        for place, job in enumerate(self._waiting):
            job.tell("waiting", ahead=place + (self._running is not None))

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run()

    def _next(self) -> Job | None:
        with self._changed:
            self._running = None
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            if not self._waiting:
                return None
            self._running = self._waiting.popleft()
            self._tell_places()
            return self._running
