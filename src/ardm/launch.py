"""What torchrun tells the processes that it starts, which one of them speaks, and when they are left alone.

Nothing here imports torch until it is needed, so that `--help` is instant.
"""

import contextlib
import os
import signal
import socket
import sys
import time
from datetime import timedelta
from typing import NoReturn

SECONDS_FOR_THE_FIRST = 0.5
"""How long the other processes wait before they speak, for the first one to say what all of them have to say."""
STORE_TIMEOUT = timedelta(seconds=10)
PARENT = os.getppid()
"""Of a process that torchrun has started: torchrun."""


def num_launched() -> int:
    """The processes that torchrun has started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_launched() -> bool:
    """Whether torchrun has started this process, perhaps as the only one; clusters may set WORLD_SIZE by themselves."""
    return num_launched() > 1 or "TORCHELASTIC_RUN_ID" in os.environ


def launched_rank() -> int:
    """This process's number among them."""
    return int(os.environ.get("RANK", "0"))


def local_device(kind: str) -> str:
    """The device of this process, of those of its machine."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if kind == "cuda" else kind


def is_orphaned() -> bool:
    """Whether torchrun itself has been killed, which nothing tells the processes that it has started."""
    return num_launched() > 1 and os.getppid() != PARENT


def claim_last_word() -> bool:
    """Whether this process is the one that tells the user why all have to end: the first that asks.

    A process that has nothing to say but that another is lost asks later than that other, which asks before it ends.
    """
    if num_launched() == 1 or is_orphaned():
        return launched_rank() == 0
    with contextlib.suppress(ValueError):  # signals belong to the main thread
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the others as soon as one has failed
    if launched_rank():
        time.sleep(SECONDS_FOR_THE_FIRST)
    try:
        return _count_in_store("ardm/last word") == 1
    except (KeyError, OSError, RuntimeError):  # nobody to ask
        return True


def leave(status: int) -> NoReturn:
    """End this process, as one of torchrun's without taking Python down.

    A thread of Gloo that lets go of a tensor while Python is being taken down aborts the process and fails the team.
    """
    if not is_launched():
        sys.exit(status)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = status or 1
    os._exit(status)


def _count_in_store(name: str) -> int:
    """How many processes have come here with a name, this one included, as the store of the launcher counts them."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    socket.create_connection((address, port), STORE_TIMEOUT.total_seconds()).close()  # it fails without much ado
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    store = TCPStore(address, port, is_master=False, timeout=STORE_TIMEOUT, wait_for_workers=False)
    return int(store.add(f"{name}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", 1))
