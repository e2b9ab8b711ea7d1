"""The command line with a fault at one moment of one process: `python faulty.py FAULT ARGUMENTS...`.

A FAULT is full:RANK:NAME:COUNT (the disk is full when a file of that name is written for the so-manieth time),
kill:RANK:NAME:COUNT (the process is killed then), limit:RANK:BYTES (the system lets no file grow larger),
nan:RANK:STEP (its loss is NaN at that step), term:RANK:STEP (SIGTERM comes twice in that step) or none.
"""

import errno
import itertools
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace


def fill_disk() -> None:
    """What a file system does that is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def kill() -> None:
    """End this process here and now."""
    os.kill(os.getpid(), signal.SIGKILL)


def fsync_with(act: Callable[[], None], name: str, count: int) -> Callable[[int], None]:
    """An `os.fsync` that does something at a file of that name that is being written."""
    fsync, calls = os.fsync, itertools.count(1)

    def faulty(descriptor: int) -> None:
        if f"/.{name}." in os.readlink(f"/proc/self/fd/{descriptor}") and next(calls) == count:
            act()
        fsync(descriptor)

    return faulty


def lose_number(losses):
    """Losses that are NaN."""
    return replace(losses, bits_per_dim=losses.bits_per_dim * float("nan"))


def terminate(losses):
    """Ask this process to end, and once more, as a scheduler and a launcher do."""
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.02)
    return losses


def change_step(act: Callable, step: int) -> None:
    """Let something happen to the losses of a step, counted from 1."""
    from ardm.train import trainer

    right, calls = trainer.sample_step_loss, itertools.count(1)
    trainer.sample_step_loss = lambda *arguments: (act if next(calls) == step else lambda x: x)(right(*arguments))


def introduce(fault: str) -> None:
    """Prepare the fault, if it is one of this process."""
    if fault == "none":
        return
    kind, rank, *where = fault.split(":")
    if os.environ.get("RANK", "0") != rank:
        return
    if kind in ("nan", "term"):
        change_step({"nan": lose_number, "term": terminate}[kind], int(where[0]))
    elif kind == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(where[0]), resource.RLIM_INFINITY))
    else:
        os.fsync = fsync_with({"full": fill_disk, "kill": kill}[kind], where[0], int(where[1]))


if __name__ == "__main__":
    introduce(sys.argv.pop(1))
    from ardm.cli.main import entry_point

    entry_point()
