"""The processes that torchrun starts: their ranks, which of them reports an error, and how they exit.

torch is imported only when needed, so that `--help` is instant.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import NoReturn

from ardm.runtime.signals import ignore_signals

REPORT_DELAY = 0.5
"""Seconds that the other processes wait, so that rank 0 can report an error that all of them have."""
SECONDS_BETWEEN_CHECKS, MAX_MISSED_CHECKS = 1.0, 3
"""How often a waiting process checks that torchrun is alive, and after how many missed checks it exits."""
END_BY_SIGNAL: dict[int, tuple[str, int]] = {
    signal.SIGINT: ("interrupted", 1),
    signal.SIGTERM: ("terminated", 128 + signal.SIGTERM),
}
"""Message and exit status of a process that a signal ends."""
STORE_TIMEOUT = timedelta(seconds=10)
PARENT = os.getppid()
"""The process that started this one: torchrun, if there is one."""


def num_launched() -> int:
    """Number of processes that torchrun started; 1 without it."""
    return int(os.environ["WORLD_SIZE"]) if is_launched() else 1


def is_launched() -> bool:
    """Whether torchrun started this process; WORLD_SIZE alone does not say so, since clusters set it too."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def launched_rank() -> int:
    """Rank of this process; 0 without torchrun."""
    return int(os.environ["RANK"]) if is_launched() else 0


def local_device(kind: str) -> str:
    """Name of this process's own device on its machine."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if kind == "cuda" else kind


def is_orphaned() -> bool:
    """Whether torchrun has been killed; its processes get no signal when that happens."""
    return num_launched() > 1 and os.getppid() != PARENT


def elect_reporter() -> bool:
    """Whether this process should report why all have to end: the first one to ask is elected.

    A process asks before it exits, so the one that failed asks before those that only notice its loss.
    """
    if num_launched() == 1 or is_orphaned():
        return launched_rank() == 0
    ignore_signals()  # torchrun ends the others as soon as one fails
    if launched_rank():
        time.sleep(REPORT_DELAY)
    try:
        return _count_in_store("ardm/last word") == 1
    except (KeyError, OSError, RuntimeError):  # the store is gone
        return True


def print_reason(line: str, *, names_process: bool = True) -> None:
    """Print why this process ends; ranks other than 0 add their rank."""
    rank = launched_rank()
    where = f" (process {rank})" if rank and names_process else ""
    print(f"ardm{where}: {line}", file=sys.stderr, flush=True)


def exit_process(status: int) -> NoReturn:
    """Exit; under torchrun without finalising Python.

    A Gloo thread that frees a tensor during finalisation would abort the process and make all others fail.
    """
    if not is_launched():
        sys.exit(status)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # the reader is gone
        status = status or 1
    os._exit(status)


@contextlib.contextmanager
def connecting() -> Iterator[None]:
    """A context for waiting in PyTorch until all processes have connected.

    PyTorch would ignore signals meanwhile, and retry for half an hour if torchrun is gone; watcher threads end the
    process in both cases.
    """
    is_over = threading.Event()
    threading.Thread(target=_watch_launcher, args=(is_over,), daemon=True).start()
    receiver, sender = socket.socketpair()  # gets a signal's number, whichever thread the system delivers it to
    sender.setblocking(False)
    before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch_signals, args=(is_over, receiver), daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
        signal.set_wakeup_fd(before)
        sender.close()


def _watch_signals(is_over: threading.Event, receiver: socket.socket) -> None:
    """Exit on a signal while processes connect; afterwards the main thread, which gets signals too, handles them."""
    with receiver:
        while number := receiver.recv(1):
            if not is_over.is_set() and number[0] in END_BY_SIGNAL:
                why, status = END_BY_SIGNAL[number[0]]
                if elect_reporter():
                    print_reason(why)
                exit_process(status)


def _watch_launcher(is_over: threading.Event) -> None:
    missed_checks = 0
    while not is_over.wait(SECONDS_BETWEEN_CHECKS):
        missed_checks = 0 if _is_launcher_alive() else missed_checks + 1
        if missed_checks == MAX_MISSED_CHECKS:
            if launched_rank() == 0:
                print_reason("torchrun ended before its processes had connected")
            exit_process(1)


def _is_launcher_alive() -> bool:
    """Whether torchrun is alive: as the parent of this process, or as the owner of the store."""
    if is_orphaned():
        return False
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return True
    try:
        _check_store()
    except OSError:
        return False
    return True


def _check_store() -> None:
    """Raise an OSError unless the launcher's store can be reached."""
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    socket.create_connection(address, STORE_TIMEOUT.total_seconds()).close()


def _count_in_store(name: str) -> int:
    """Add 1 to a counter in the launcher's store and return it."""
    _check_store()  # fails at once, where TCPStore would retry
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, is_master=False, timeout=STORE_TIMEOUT, wait_for_workers=False)
    return int(store.add(f"{name}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", 1))
