"""Trainings in processes of their own, one or two by torchrun, which tests kill."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ardm.cli import main
from tiny import TEXT

FAULTY = Path(__file__).with_name("faulty.py")
FLAGS = {"batch-size": 8, "item-length": 16, "layers": 1, "width": 32, "head-width": 16, "kernel": 1, "eval-every": 30}
PATIENCE = 120
"""Seconds after which a test gives up on a process."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """A tiny training to a folder, by so many processes."""

    folder: Path
    num_processes: int = 1
    steps: int = 25
    checkpoint_every: int = 1

    def words(self, *flags: str) -> list[str]:
        """The arguments of the command that starts it or goes on with it."""
        data = self.folder.parent / "text.txt"
        if not data.exists():
            data.write_text(TEXT)
        words = ["train", "text", "--data", str(data), "--out", str(self.folder), "--resume", "--device", "cpu"]
        words += ["--steps", str(self.steps), "--checkpoint-every", str(self.checkpoint_every)]
        return [*words, *(word for flag, value in FLAGS.items() for word in (f"--{flag}", str(value))), *flags]

    def start(self, *flags: str, fault: str = "none") -> "Launched":
        """Start it, or go on with it."""
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.num_processes}"]
        command = [sys.executable, *(launcher if self.num_processes > 1 else []), str(FAULTY), fault]
        return Launched.start([*command, *self.words(*flags)])

    def run_here(self) -> None:
        """Go on to the end in this process."""
        assert main(self.words()) == 0

    def finish(self, *flags: str) -> str:
        """Go on to the end; what it says on stderr."""
        status, said = self.start(*flags).end()
        assert status == 0, said
        return said

    def fail(self, *flags: str, fault: str = "none") -> str:
        """Go on to a failure; the one line that it says about it."""
        status, said = self.start(*flags, fault=fault).end()
        assert status == 1, said
        return the_line(said)


@dataclass(frozen=True, kw_only=True)
class Launched:
    """A process and those that it starts."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, command: list[str]) -> "Launched":
        environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        return cls(
            process=subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )

    def end(self) -> tuple[int, str]:
        """Wait for its end: the exit status and stderr. None of its processes is left over then."""
        workers = self.workers()
        _, said = self.process.communicate(timeout=PATIENCE)
        wait_until(lambda: not any(is_alive(worker) for worker in workers.values()))
        return self.process.returncode, said

    def workers(self) -> dict[int, int]:
        """The processes that torchrun has started, by their ranks; its own where there is no torchrun."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        try:
            numbers = map(int, children.read_text().split())
            return {int(rank): number for number in numbers if (rank := variable(number, "RANK")) is not None}
        except OSError:
            return {}

    def wait_for_workers(self, count: int) -> dict[int, int]:
        """The same once there are so many."""
        wait_until(lambda: len(self.workers()) == count or self.process.poll() is not None)
        return self.workers()


def variable(process: int, name: str) -> str | None:
    """A variable of the environment of another process."""
    variables = Path(f"/proc/{process}/environ").read_text().split("\0")
    return next((one.split("=", 1)[1] for one in variables if one.startswith(f"{name}=")), None)


def is_alive(process: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    """Come back when it holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.005)


def wait_for_save(state: Path, process: subprocess.Popen[str]) -> None:
    """Come back when a process has saved a state, or has ended."""
    before = state.stat().st_mtime_ns if state.exists() else 0
    wait_until(
        lambda: process.poll() is not None or (state.exists() and state.stat().st_mtime_ns != before),
    )


def the_line(said: str) -> str:
    """The one line of stderr in which ardm says why it ends."""
    lines = [line for line in said.splitlines() if line.startswith(("ardm:", "ardm ("))]
    assert len(lines) == 1, said
    assert "unexpected" not in lines[0], said
    return lines[0]
