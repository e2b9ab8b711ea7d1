"""What torchrun tells the processes that it starts, which one of them speaks, and how they end, left alone or not.

Nothing here imports torch until it is needed, so that `--help` is instant.
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

SECONDS_FOR_THE_FIRST = 0.5
"""How long the other processes wait before they speak, for the first one to say what all of them have to say."""
SECONDS_BETWEEN_CHECKS, MAX_MISSED_CHECKS = 1.0, 3
"""A process that waits for the others looks for torchrun so often, and ends if it is not there so many times."""
END_BY_SIGNAL: dict[int, tuple[str, int]] = {
    signal.SIGINT: ("interrupted", 1),
    signal.SIGTERM: ("terminated", 128 + signal.SIGTERM),
}
"""What a process says that a signal ends, and its exit status."""
STORE_TIMEOUT = timedelta(seconds=10)
PARENT = os.getppid()
"""Of a process that torchrun has started: torchrun."""


def num_launched() -> int:
    """The processes that torchrun has started; 1 without it."""
    return int(os.environ["WORLD_SIZE"]) if is_launched() else 1


def is_launched() -> bool:
    """Whether torchrun has started this process, perhaps as the only one; clusters may set WORLD_SIZE by themselves."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def launched_rank() -> int:
    """This process's number among them."""
    return int(os.environ["RANK"]) if is_launched() else 0


def local_device(kind: str) -> str:
    """The device of this process, of those of its machine."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if kind == "cuda" else kind


def is_orphaned() -> bool:
    """Whether torchrun itself has been killed, which nothing tells the processes that it has started."""
    return num_launched() > 1 and os.getppid() != PARENT


def elect_reporter() -> bool:
    """Whether this process is the one that tells the user why all have to end: the first that asks.

    A process that has nothing to say but that another is lost asks later than that other, which asks before it ends.
    """
    if num_launched() == 1 or is_orphaned():
        return launched_rank() == 0
    ignore_signals()  # torchrun ends the others as soon as one has failed
    if launched_rank():
        time.sleep(SECONDS_FOR_THE_FIRST)
    try:
        return _count_in_store("ardm/last word") == 1
    except (KeyError, OSError, RuntimeError):  # nobody to ask
        return True


def say(line: str, *, names_process: bool = True) -> None:
    """Print why this process ends; all but the first one say which they are."""
    rank = launched_rank()
    where = f" (process {rank})" if rank and names_process else ""
    print(f"ardm{where}: {line}", file=sys.stderr, flush=True)


def leave(status: int) -> NoReturn:
    """End this process, as one of torchrun's without taking Python down.

    A thread of Gloo that lets go of a tensor while Python is being taken down aborts the process and fails the team.
    """
    if not is_launched():
        sys.exit(status)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads, or they have been closed for that
        status = status or 1
    os._exit(status)


@contextlib.contextmanager
def meeting() -> Iterator[None]:
    """A context in which the main thread waits for the other processes, in PyTorch, which heeds nothing else.

    Threads end this process on a signal that would, and if torchrun is gone, which PyTorch would try to reach for half
    an hour.
    """
    is_over = threading.Event()
    threading.Thread(target=_watch_launcher, args=(is_over,), daemon=True).start()
    with _numbers_of_signals() as receiver:
        threading.Thread(target=_watch_signals, args=(is_over, receiver), daemon=True).start()
        try:
            yield
        finally:
            is_over.set()


@contextlib.contextmanager
def _numbers_of_signals() -> Iterator[socket.socket]:
    """A socket that receives the numbers of signals as they come, whichever thread they come to, until it is closed."""
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    try:
        yield receiver
    finally:
        signal.set_wakeup_fd(before)
        sender.close()


def _watch_signals(is_over: threading.Event, receiver: socket.socket) -> None:
    """After the meeting signals are the main thread's again, which has been told of them as well."""
    with receiver:
        while number := receiver.recv(1):
            if not is_over.is_set() and number[0] in END_BY_SIGNAL:
                why, status = END_BY_SIGNAL[number[0]]
                if elect_reporter():
                    say(why)
                leave(status)


def _watch_launcher(is_over: threading.Event) -> None:
    missed_checks = 0
    while not is_over.wait(SECONDS_BETWEEN_CHECKS):
        missed_checks = 0 if _is_launcher_there() else missed_checks + 1
        if missed_checks == MAX_MISSED_CHECKS:
            if launched_rank() == 0:
                say("torchrun has ended before its processes had met")
            leave(1)


def _is_launcher_there() -> bool:
    """Whether torchrun lives: the parent of this process, which may not have seen it alive, or the owner of a store."""
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
    """An OSError unless the store of the launcher can be reached."""
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    socket.create_connection(address, STORE_TIMEOUT.total_seconds()).close()


def _count_in_store(name: str) -> int:
    """How many processes have come here with a name, this one included, as the store of the launcher counts them."""
    _check_store()  # it fails without much ado
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, is_master=False, timeout=STORE_TIMEOUT, wait_for_workers=False)
    return int(store.add(f"{name}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", 1))
