"""Commands in processes of their own, one or several, which tests kill: forked in no time, or started by torchrun."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from tiny import TEXT

FAULTY = Path(__file__).with_name("faulty.py")
FLAGS = {"batch-size": 8, "item-length": 16, "layers": 1, "width": 32, "head-width": 16, "kernel": 1, "eval-every": 30}
PATIENCE = 240
"""Seconds after which a test gives up on a process."""
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "ardm.cli.main",
        "ardm.train.loop",
        "ardm.media",
        "ardm.compression.workers",
        "torch.utils.tensorboard",
        "torch._dynamo",
    ]
)


STARTED: list["Launched"] = []
"""Everything that tests of this process have started and not yet waited for."""


@dataclass(kw_only=True)
class Launched:
    """Processes that work together, by their ranks."""

    workers: dict[int, int]
    """Their numbers in the system."""

    def __post_init__(self) -> None:
        STARTED.append(self)

    def kill(self) -> None:
        """Kill whatever still runs and close its pipes."""
        for worker in self.workers.values():
            if is_alive(worker):
                os.kill(worker, signal.SIGKILL)

    def is_over(self) -> bool:
        """Whether all have ended."""
        return not any(is_alive(worker) for worker in self.workers.values())

    def end(self) -> "Ended":
        """Wait for the end of all of them."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What came of them: 0 if all went well, else how the first one that failed did."""

    status: int
    output: str
    said: str

    @property
    def line(self) -> str:
        """The one line of stderr in which they say why they end."""
        lines = [line for line in self.said.splitlines() if line.startswith(("ardm:", "ardm ("))]
        assert len(lines) == 1, self.said
        assert "unexpected" not in lines[0], self.said
        assert "Traceback" not in self.said or "torch/distributed/run.py" in self.said, self.said
        return lines[0]


@dataclass(kw_only=True)
class Forked(Launched):
    """Processes of a server that has imported all they need; as by torchrun, the failure of one ends all."""

    processes: list[BaseProcess]
    folder: Path
    store: object = None
    """Where they meet."""

    @classmethod
    def start(cls, words: list[str], num_processes: int, fault: str = "none") -> "Forked":
        """A command in several processes."""
        folder = Path(tempfile.mkdtemp())
        store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        environments = [environment(rank, num_processes, store.port) for rank in range(num_processes)]
        processes = [
            FORKS.Process(target=run_here, args=(words, fault, variables, folder, os.getcwd()))
            for variables in environments
        ]
        for process in processes:
            process.start()
        workers = {rank: process.pid for rank, process in enumerate(processes)}
        return cls(workers=workers, processes=processes, folder=folder, store=store)

    def end(self) -> Ended:
        """Wait for the end of all of them."""
        wait_until(lambda: any(process.exitcode for process in self.processes) or self._all_ended())
        failed = [process.exitcode for process in self.processes if process.exitcode]
        for process in self.processes if failed else ():
            process.terminate()
        wait_until(self._all_ended)
        said, output = ((self.folder / name).read_text() for name in ("stderr", "stdout"))
        self.kill()
        return Ended(status=failed[0] if failed else 0, output=output, said=said)

    def kill(self) -> None:
        """Kill whatever still runs and remove its output."""
        for process in self.processes:
            process.kill()
            process.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _all_ended(self) -> bool:
        return all(process.exitcode is not None for process in self.processes)


def environment(rank: int, num_processes: int, port: int) -> dict[str, str]:
    """What torchrun tells a process; nothing to one that is alone."""
    alone = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    if num_processes == 1:
        return alone
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_processes, "MASTER_PORT": port}
    meeting = {"MASTER_ADDR": "localhost", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    return {**alone, **meeting, **{name: str(number) for name, number in numbers.items()}}


def run_here(words: list[str], fault: str, variables: Mapping[str, str], folder: Path, where: str) -> None:
    """The command line, in a process that was forked for it."""
    os.environ.update(variables)
    os.chdir(where)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    torch.set_num_threads(1)
    from faulty import introduce

    from ardm.cli.main import entry_point
    from ardm.runtime import launch

    launch.PARENT = os.getppid()
    introduce(fault)
    sys.argv = ["ardm", *words]
    entry_point()


@dataclass(kw_only=True)
class ByTorchrun(Launched):
    """Processes that torchrun has started."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, words: list[str], num_processes: int, fault: str = "none") -> "ByTorchrun":
        """A command in several processes."""
        return cls.run([str(FAULTY), fault, *words], num_processes)

    @classmethod
    def run(cls, program: list[str], num_processes: int) -> "ByTorchrun":
        """A script or module with its arguments, in several processes."""
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_processes}"]
        command = [sys.executable, *launcher, *program]
        variables = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: len(children(process.pid)) == num_processes or process.poll() is not None)
        return cls(workers=children(process.pid), process=process)

    def end(self) -> Ended:
        """Wait for the end of all of them."""
        output, said = self.process.communicate(timeout=PATIENCE)
        wait_until(self.is_over)
        return Ended(status=self.process.returncode, output=output, said=said)

    def kill(self) -> None:
        """Kill whatever still runs and close its pipes."""
        super().kill()
        self.process.kill()
        self.process.communicate()


def killed_after_the_test(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
    """The process, which does not outlive its test."""
    ByTorchrun(workers={}, process=process)
    return process


def kill_leftovers() -> None:
    """Kill what tests have started and not waited for."""
    while STARTED:
        STARTED.pop().kill()


def children(launcher: int) -> dict[int, int]:
    """The processes that torchrun has started, by their ranks."""
    try:
        numbers = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        ranks = {number: variable(int(number), "RANK") for number in numbers}
    except OSError:
        return {}
    return {int(rank): int(number) for number, rank in ranks.items() if rank is not None}


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


@dataclass(frozen=True, kw_only=True)
class Training:
    """A tiny training to a folder, by one process or several."""

    folder: Path
    num_processes: int = 1
    steps: int = 60
    checkpoint_every: int = 5
    launch: type[Forked] | type[ByTorchrun] = Forked
    flags: list[str] = field(default_factory=list)

    def start(self, fault: str = "none") -> Launched:
        """Start it, or go on with it."""
        data = self.folder.parent / "text.txt"
        if not data.exists():
            data.write_text(TEXT)
        words = ["train", "text", "--data", str(data), "--out", str(self.folder), "--resume", "--device", "cpu"]
        words += ["--steps", str(self.steps), "--checkpoint-every", str(self.checkpoint_every)]
        words += [word for flag, value in FLAGS.items() for word in (f"--{flag}", str(value))]
        return self.launch.start([*words, *self.flags], self.num_processes, fault)

    def start_to_save(self) -> Launched:
        """The same, until it has saved a state."""
        state = self.folder / "state.safetensors"
        before = state.stat().st_mtime_ns if state.exists() else 0
        launched = self.start()
        wait_until(lambda: launched.is_over() or (state.exists() and state.stat().st_mtime_ns != before))
        return launched

    def finish(self) -> str:
        """Go on to the end; what it says on stderr."""
        ended = self.start().end()
        assert ended.status == 0, ended.said
        return ended.said

    def fail(self, fault: str) -> str:
        """Go on to a failure; the one line that it says about it."""
        ended = self.start(fault).end()
        assert ended.status in (1, -signal.SIGKILL), ended.said
        return ended.line
