"""Jobs of pages: one thread runs them in turn, sends their events, and stops them when their page closes."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ardm.errors import ArdmError

Event = dict[str, Any]
Deliver = Callable[[Event | None], None]
"""Takes a job's events from any thread; None after the last one."""
Work = Callable[["Job"], Event]
"""Does a job and returns its result; calls `Job.check` at least once per call of a network."""

REPORT_SECONDS = 0.08
"""Minimum time between two reports of progress."""


class BusyError(ArdmError):
    """The queue is full."""


class Cancelled(Exception):
    """The page of a job has closed."""


class Job:
    """Work that a page waits for."""

    def __init__(self, work: Work, deliver: Deliver, max_seconds: float) -> None:
        self._work, self._deliver, self._max_seconds = work, deliver, max_seconds
        self._cancelled = threading.Event()
        self._deadline = float("inf")
        self._done = self._total = 0
        self._last_report = 0.0
        self.title = ""
        """The current part of the work, for the page."""

    def cancel(self) -> None:
        """Stop at the next call of the network."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise an exception if the job is to stop."""
        if self._cancelled.is_set():
            raise Cancelled
        if time.monotonic() > self._deadline:
            raise ArdmError(f"stopped after {self._max_seconds:g} seconds; use fewer calls or something smaller")

    def send(self, kind: str, **values: Any) -> None:
        """Send an event to the page."""
        self._deliver({"kind": kind, **values})

    def expect(self, count: int) -> None:
        """Add to the work to do."""
        self._total += count

    def advance(self, count: int) -> None:
        """Add to the work done, and raise an exception if the job is to stop."""
        self.check()
        self._done += count
        now = time.monotonic()
        if now - self._last_report >= REPORT_SECONDS:
            self._last_report = now
            self.send("progress", done=self._done, total=max(self._done, self._total), title=self.title)

    def run(self) -> None:
        """Do the work and send its outcome: one event, then None."""
        self._deadline = time.monotonic() + self._max_seconds
        try:
            self.check()
            self.send("start")
            self.send("result", **self._work(self))
        except Cancelled:
            self.send("cancelled")
        except Exception as error:
            self.send("error", message=message_of(error))
        finally:
            self._deliver(None)


def message_of(error: Exception) -> str:
    """One line for the page; an unexpected error also goes to the log with its traceback."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; use something smaller"
    if isinstance(error, ValueError):
        return " ".join(str(error).split()) or type(error).__name__
    logging.getLogger("ardm.apps.serve").error("a job failed", exc_info=error)
    return f"unexpected {type(error).__name__}; see the server's terminal"


class Worker:
    """One thread that runs jobs in turn."""

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="ardm-worker", daemon=True)
        self._thread.start()

    def check_room(self) -> None:
        """Raise a BusyError if no other job can wait."""
        if self._is_closed:
            raise BusyError("the server is shutting down")
        if len(self._waiting) >= self._max_waiting:
            raise BusyError(f"{self._max_waiting} jobs are already waiting; try again when one of them is done")

    def submit(self, job: Job) -> None:
        """Put a job at the end of the queue, or raise a BusyError if it is full."""
        with self._changed:
            self.check_room()
            self._waiting.append(job)
            self._send_places()
            self._changed.notify()

    def drop(self, job: Job) -> None:
        """Stop a job, or remove it from the queue."""
        job.cancel()
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
                self._send_places()

    def close(self) -> None:
        """Stop all jobs and the thread."""
        with self._changed:
            self._is_closed = True
            for job in (*self._waiting, *([self._running] if self._running else [])):
                job.cancel()
            self._changed.notify()
        self._thread.join(timeout=10)

    def _send_places(self) -> None:
        for place, job in enumerate(self._waiting):
            job.send("waiting", ahead=place + (self._running is not None))

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
            self._send_places()
            return self._running
