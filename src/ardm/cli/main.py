"""The command line: parse the arguments, run one command, print an error as one line.

Exit status: 0 success, 1 failure, 2 bad usage, 143 terminated. `--debug` shows the traceback of an error.
"""

import contextlib
import io
import os
import signal
import sys
from typing import Annotated, Any, Union, get_args, get_type_hints

import tyro

from ardm.cli.bench import Bench
from ardm.cli.compress import Compress, Decompress
from ardm.cli.data import Data
from ardm.cli.demo import Demo
from ardm.cli.evaluate import Evaluate
from ardm.cli.export import Export
from ardm.cli.info import Info
from ardm.cli.messages import PARSING, join_help_lines, one_line, several_files, unknown_arguments
from ardm.cli.models import Models
from ardm.cli.plan import Plan
from ardm.cli.report import Report
from ardm.cli.sample import Infill, Sample
from ardm.cli.serve import Serve
from ardm.cli.train import Train, check_unknown, in_flags, train_command
from ardm.cli.train_masked import TrainMasked
from ardm.errors import UsageError
from ardm.runtime.launch import END_BY_SIGNAL, elect_reporter, exit_process, num_launched, print_reason
from ardm.runtime.signals import Terminated, ignore_signals, raise_signals

COMMANDS: tuple[type, ...] = (Train, Evaluate, Sample, Infill, Plan, Export, Compress, Decompress)
COMMANDS += (Info, Models, Demo, Data, Report, Bench, Serve)
NAMES = ("eval" if command is Evaluate else command.__name__.lower() for command in COMMANDS)
Command: Any = Union[*(Annotated[c, tyro.conf.subcommand(n)] for c, n in zip(COMMANDS, NAMES, strict=True))]
SHARED_COMMANDS = (Train, TrainMasked, Evaluate, Sample, Infill, Compress, Decompress)
"""Commands whose work the processes of torchrun can share; any other would run once per process."""
BAD_USAGE = 2
DESCRIPTION = (
    "Autoregressive Diffusion Models: train, score, plan, sample and infill discrete data. "
    "--version prints the version; --debug with any command shows the traceback of an error."
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command that the arguments name, and return its exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    if arguments == ["--version"]:
        from ardm.version import __version__

        print(f"ardm {__version__}")
        return 0
    try:
        command = parse(arguments)
        check_launch(command)
        command.run()
    except KeyboardInterrupt as interruption:
        return end_by(interruption)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output is gone
        return 1
    except Exception as error:
        if debug:
            raise
        expected = isinstance(error, (ValueError, OSError, MemoryError))
        message = str(error) if expected else f"unexpected {type(error).__name__}: {error} (--debug shows where)"
        return fail(message or type(error).__name__, BAD_USAGE if isinstance(error, UsageError) else 1)
    return 0


def parse(arguments: list[str]) -> Any:
    """The command that the arguments name; a one-line UsageError if there is none."""
    captured, name = io.StringIO(), name_of(arguments)
    if {"-h", "--help"} & {*arguments}:
        join_help_lines()
    train = train_command(arguments) if name == "ardm train" else Train  # its flags depend on the preset
    commands: Any = Union[Annotated[train, tyro.conf.subcommand("train")], *get_args(Command)[1:]]
    try:
        with contextlib.redirect_stderr(captured):
            named: Any = {"prog": "ardm", "description": DESCRIPTION, "config": PARSING}
            command, unknown = tyro.cli(commands, args=arguments, return_unknown_args=True, **named)
    except SystemExit as stop:
        if not stop.code:
            raise
        several = several_files(name, arguments)
        raise UsageError(several or in_flags(one_line(captured.getvalue(), name, arguments))) from None
    except ValueError as error:  # a configuration that makes no sense
        raise UsageError(in_flags(str(error))) from None
    if unknown:
        if said := several_files(name, arguments, unknown):
            raise UsageError(said)
        if isinstance(command, Train):
            check_unknown(unknown, command)
        raise UsageError(unknown_arguments(unknown, command, name))
    return command.completed(arguments) if isinstance(command, Train) else command


def name_of(arguments: list[str], choices: Any = Command, name: str = "ardm") -> str:
    """Full name of the command that the arguments name, such as `ardm bench codec`, for messages."""
    commands = {choice.__metadata__[0].name: choice.__origin__ for choice in get_args(choices)}
    for place, word in enumerate(arguments):
        if word in commands:
            subcommands = get_type_hints(commands[word], include_extras=True).get("what")
            return name_of(arguments[place + 1 :], subcommands, f"{name} {word}")
        is_value = place and arguments[place - 1].startswith("--")
        if not word.startswith("-") and not is_value:
            break
    return name


def check_launch(command: object) -> None:
    """Refuse commands that several processes would each run and write to the same file."""
    if num_launched() > 1 and not isinstance(command, SHARED_COMMANDS):
        raise UsageError(f"ardm {type(command).__name__.lower()} is for one process: start it without torchrun")


def fail(message: str, status: int) -> int:
    """Print an error as one line on stderr, from one process only, and return the exit status."""
    if elect_reporter():
        print_reason(" ".join(message.split()), names_process=status != BAD_USAGE)  # usage errors are the same in all
    return status


def end_by(interruption: KeyboardInterrupt) -> int:
    """Print which signal ended the command; later signals are ignored."""
    ignore_signals()
    return fail(*END_BY_SIGNAL[signal.SIGTERM if isinstance(interruption, Terminated) else signal.SIGINT])


def entry_point() -> None:
    """Run the command line as this process and exit."""
    try:
        raise_signals()
        if "OMP_WAIT_POLICY" not in os.environ:
            # Sleeping threads wake up late, and long spinning starves as soon as another process needs a core.
            os.environ.setdefault("GOMP_SPINCOUNT", "2000")
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
        status = main()
        ignore_signals()  # torchrun may still send one to a process that has finished
    except KeyboardInterrupt as interruption:
        status = end_by(interruption)
    exit_process(status)
