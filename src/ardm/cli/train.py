"""ardm train."""

import math
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, make_dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro

from ardm.cli.common import SECONDS_PER_LINE, Device, advancing, require_positive
from ardm.cli.messages import flags_of
from ardm.cli.train_flags import Start, check_together, config_of_all_presets, flag_in, preset_in, start_of
from ardm.cli.train_masked import PRESET as MASKED_PRESET
from ardm.cli.train_masked import TrainMasked
from ardm.config import CODING_CALLS, ImageData, RunConfig
from ardm.errors import ArdmError, UsageError
from ardm.presets import PRESETS, PresetName
from ardm.runtime.files import check_writable_folder
from ardm.runtime.launch import is_launched, is_orphaned, launched_rank, num_launched

if TYPE_CHECKING:
    from ardm.train.trainer import Trainer

REPEAT_SECONDS = 1.0
"""Seconds within which a repeated signal counts as the same one."""
FIRST_LINE_SECONDS = 10
"""Seconds before the first line of progress where there is no terminal."""
ESTIMATES = {"causal": "exact", "coding": "exact"}
"""Kinds of estimates of methods; others have a bound."""
WITHOUT_NAME = tyro.conf.arg(name="")
PRESET_HELP = "What to train.\n" + "\n".join(
    f"{name}: {(make.__doc__ or '').partition(chr(10))[0]}" for name, make in PRESETS.items()
)
PRESET_HELP += (
    "\nmasked: A masked language model (--init hf:NAME), on your own sequences; see ardm train masked --help."
)
if TYPE_CHECKING:
    AnyPresetName = str
else:
    AnyPresetName = Literal[PresetName, "masked"]


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a model; metrics.jsonl, checkpoints and the model are written to a run's folder."""

    start: ClassVar[Start]

    preset: Annotated[tyro.conf.Positional[AnyPresetName], tyro.conf.arg(metavar="PRESET", help=PRESET_HELP)]
    data: Path
    """Folder of text8, CIFAR-10 or Speech Commands, file or folder of text, or folder of images or sounds."""
    out: Path
    """Folder of the run: a new one, or with --resume that of an earlier run."""
    resume: bool = False
    """Continue from the folder's last checkpoint, if there is one."""
    init: Path | None = None
    """Start with the network and the weights of this run or model file instead of random weights, to continue with
    other data or learning rates. A resumed run ignores it."""
    minutes: float | None = None
    """Stop once the run has taken this many minutes in all, with measuring its loss profile and saving; --resume with a
    larger number continues it."""
    coding: bool = False
    """Train a coding model: a network that goes through texts in strands and from left to right alone, in which calls
    share their work. It compresses better and many times as fast, but fills no gaps (text only)."""
    device: Device = None
    no_compile: bool = False
    """Do not compile the network: training starts sooner, but steps are slower (CUDA only)."""
    fsdp: bool = False
    """Shard weights and optimiser states across the processes of torchrun (FSDP2), for training that exceeds the
    memory of one GPU."""
    config: Annotated[RunConfig, WITHOUT_NAME]

    def completed(self, arguments: Sequence[str]) -> "Train":
        """This command with its configuration completed from all the arguments that it was parsed from."""
        config = self.config
        check_together(config, arguments)
        try:
            if isinstance(self, TrainImages) and isinstance(config.data, ImageData):
                from ardm.data.images import parse_size

                height, width = parse_size(self.size)
                holds_out = config.data.holds_out and not self.train_on_all
                data = replace(config.data, height=height, width=width, holds_out=holds_out)
                config = replace(config, data=data)
            if self.start.is_new and "--shards" not in map(flag_in, arguments):
                config = replace(config, train=replace(config.train, num_shards=num_launched()))
        except ValueError as error:
            raise UsageError(str(error)) from None
        return replace(self, config=config)

    def run(self) -> None:
        """Train, showing progress."""
        require_positive(minutes=self.minutes)
        from ardm.runtime.device import Runtime
        from ardm.runtime.team import joined_team
        from ardm.train.loop import opened_run
        from ardm.train.run_folder import has_foreign_files

        if launched_rank() == 0:  # the others only read
            check_writable_folder(self.out)
            if not self.resume and has_foreign_files(self.out):
                raise UsageError(f"--out {self.out} holds files that do not belong to a run; choose a new folder")
        if self.data.is_dir() and self.out.resolve().is_relative_to(self.data.resolve()):
            raise UsageError(f"--out {self.out} lies inside --data {self.data} and would become part of the data")
        runtime = Runtime.choose(self.device, compile=not self.no_compile)
        if self.fsdp and not is_launched():
            raise UsageError("--fsdp shards weights across processes: start them with torchrun ... -m ardm train")
        with joined_team(runtime.device) as team:
            runtime = replace(runtime, team=team, shards_weights=self.fsdp)
            run = opened_run(self.config, self.data, self.out, runtime, resume=self.resume, initial=self.start.initial)
            with run as (trainer, notes):
                for line in (*notes, describe(trainer)) if team.is_first else ():
                    print(line, file=sys.stderr)
                run_with_progress(trainer, self.out, self.minutes)


@dataclass(frozen=True, kw_only=True)
class TrainImages(Train):
    """`Train` with flags that set fields of an image model's data."""

    size: str = "32x32"
    """WIDTHxHEIGHT of an item (images); crops of this size are cut from larger images."""
    train_on_all: bool = False
    """Train on CIFAR-10's validation images too, for a final run; validation is then not held out."""


SWITCHES = {"--debug", *(f"--{f.name.replace('_', '-')}" for f in fields(TrainImages) if f.type is bool)}
"""Flags without a value."""


def train_command(arguments: Sequence[str]) -> type[Train] | type[TrainMasked]:
    """`Train` with the defaults that the arguments imply, or with the flags of all presets if they name none."""
    if preset_in(arguments, SWITCHES, [MASKED_PRESET]):
        return TrainMasked
    base: type[Train] = TrainImages
    namespace: dict[str, Any] = {"__doc__": Train.__doc__}
    if (preset := preset_in(arguments, SWITCHES)) is None:
        members: list[Any] = [("config", Annotated[config_of_all_presets(), WITHOUT_NAME])]
    else:
        start = namespace["start"] = start_of(preset, arguments)
        members = [("config", Annotated[RunConfig, WITHOUT_NAME], start.config)]
        if isinstance(data := start.config.data, ImageData):
            on_all = tyro.conf.arg(help_behavior_hint=f"(default: {not data.holds_out})")
            members += [("size", str, f"{data.width}x{data.height}"), ("train_on_all", Annotated[bool, on_all], False)]
        else:
            base = Train
    return make_dataclass("Train", members, bases=(base,), namespace=namespace, frozen=True, kw_only=True)


def in_flags(message: str) -> str:
    """A message about a field of a configuration, which tyro may have framed, in terms of the field's flag."""
    if found := re.fullmatch(r"Error parsing \S*config\S*: (.*); see ardm train --help", message):
        message = found[1]
    elif message.endswith("--help"):
        return message
    name, space, rest = message.partition(" ")
    return f"{flags_of(train_command([])).get(name, name)}{space}{rest}"


def check_unknown(words: Sequence[str], command: Train) -> None:
    """Raise a UsageError that names the flags of other presets among the unknown words."""
    others = {*flags_of(train_command([])).values()} - {*flags_of(command).values()}
    if named := sorted({flag for word in words if (flag := word.partition("=")[0]) in others}):
        raise UsageError(f"{', '.join(named)} cannot be used with the preset {command.preset}; see ardm train --help")


def run_with_progress(trainer: "Trainer", folder: Path, minutes: float | None) -> None:
    """Train with a progress bar or, without a terminal, lines of progress, and a line for each evaluation."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from ardm.train.loop import run_training

    is_first, config = trainer.runtime.team.is_first, trainer.config
    max_seconds = math.inf if minutes is None else 60 * minutes
    deadline = time.monotonic() + max_seconds - trainer.seconds
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), time_left_column(deadline))
    console = Console(stderr=True, quiet=not is_first)
    hidden = not is_first or not sys.stderr.isatty()
    with interrupts() as interrupted, Progress(*columns, console=console, disable=hidden) as bar:
        task = bar.add_task("training", total=config.train.steps, completed=trainer.step)
        lines = StepLines(trainer.step, config.train.steps, deadline)

        def should_stop() -> bool:
            return bool(interrupted) or is_orphaned()

        def on_step(step: int) -> None:
            bar.update(task, completed=step)
            if is_first and hidden and (line := lines.after(step)):
                print(line, file=sys.stderr, flush=True)

        def on_metrics(metrics: dict[str, Any]) -> None:
            if "bits" in metrics:
                lines.bits = metrics["bits"]
                bar.update(task, description=f"{metrics['bits']:.3f} bits")
            else:
                line = evaluation_line(metrics, config, trainer.model.num_classes)
                console.print(line, highlight=False, soft_wrap=True)

        def on_profile(num_observations: int) -> Callable[[int], None]:
            title = "loss profile" if config.method.is_ardm else "bits"
            is_last = trainer.step == config.train.steps and not interrupted
            line = profile_line(title, num_observations, evaluated_items(config), is_last=is_last)
            console.print(line, highlight=False, soft_wrap=True)
            bar.reset(task, description=title, total=num_observations)
            return advancing(bar, task, title, num_observations) if is_first else lambda count: None

        run_training(
            trainer,
            folder,
            stop=should_stop,
            max_seconds=max_seconds,
            on_metrics=on_metrics,
            on_step=on_step,
            on_profile=on_profile,
        )
        is_interrupted = trainer.runtime.team.any(should_stop())
    if is_interrupted and not trainer.finished:
        raise ArdmError(f"stopped at step {trainer.step}, which is saved in {folder}; continue with --resume")
    if is_first:
        print(f"{'done' if trainer.finished else 'stopped'} at step {trainer.step}: {folder}")


@dataclass
class StepLines:
    """Lines about the progress of training where there is no terminal, the first of them soon."""

    step: int
    """The step of the last line, or of the start."""
    num_steps: int
    deadline: float
    """Time at which the run stops, on the monotonic clock."""
    bits: float | None = None
    """The last loss that was logged."""
    is_first: bool = True
    since: float = field(default_factory=lambda: time.monotonic())
    """Time of the last line, or of the start."""

    def after(self, step: int) -> str | None:
        """The line to print after a step, if it is time for one."""
        now = time.monotonic()
        if now - self.since < (FIRST_LINE_SECONDS if self.is_first else SECONDS_PER_LINE) or step == self.num_steps:
            return None
        speed = (step - self.step) / (now - self.since)
        self.step, self.since, self.is_first = step, now, False
        bits = "" if self.bits is None else f"{self.bits:.3f} bits, "
        seconds = min((self.num_steps - step) / speed, self.deadline - now)
        rate = f"{speed:.1f} steps/s" if speed >= 1 else f"{1 / speed:.1f} s per step"
        return f"step {step:,} of {self.num_steps:,}: {bits}{rate}, {time_left(seconds)} left"


def time_left(seconds: float) -> str:
    """A duration in words, such as "about 3 min".

    >>> from ardm.cli.train import time_left
    >>> time_left(170.0), time_left(20.0), time_left(9000.0)
    ('about 3 min', 'about 20 s', 'about 2.5 h')
    """
    seconds = max(0.0, seconds)
    if seconds < 60:
        return f"about {math.ceil(seconds)} s"
    return f"about {math.ceil(seconds / 60)} min" if seconds < 2 * 3600 else f"about {seconds / 3600:.1f} h"


def time_left_column(deadline: float) -> Any:
    """A column of a progress bar with the time that is left, at most until the deadline on the monotonic clock."""
    from rich.progress import Task, TimeRemainingColumn
    from rich.text import Text

    class TimeLeft(TimeRemainingColumn):
        def render(self, task: Task) -> Text:
            left = deadline - time.monotonic()
            if math.isinf(left) or (task.time_remaining is not None and task.time_remaining <= left):
                return super().render(task)
            return Text(str(timedelta(seconds=max(0, math.ceil(left)))), style="progress.remaining")

    return TimeLeft()


def describe(trainer: "Trainer") -> str:
    """A line about the model, the data, the steps and the device."""
    config, runtime = trainer.config, trainer.runtime
    size = sum(p.numel() for p in trainer.model.parameters())
    shape = " x ".join(map(str, config.data.shape))
    stages = f"{trainer.model.num_stages} stage{'s' * (trainer.model.num_stages > 1)}"
    kind = stages if config.method.is_ardm else f"method {config.method.name}"
    train, num_processes = config.train, runtime.team.size
    shards = f" in {train.num_shards} shards" if train.num_shards > 1 else ""
    processes = f" across {num_processes} processes" if num_processes > 1 else ""
    processes += " that shard the weights" if runtime.shards_weights else ""
    return (
        f"{config.preset}, {size:,} parameters, {kind}, items of {shape} from {trainer.corpus.title}; {train.steps} "
        f"steps of {train.batch_size} items{shards}{processes} on {runtime.device.type}"
    )


def evaluated_items(config: RunConfig) -> str:
    """Whether the evaluated items are held out; CIFAR-10's validation images may be trained on too."""
    return "held out" if getattr(config.data, "holds_out", True) else "seen in training"


def evaluation_line(metrics: dict[str, Any], config: RunConfig, num_classes: int) -> str:
    """A line about an evaluation."""
    estimate = ESTIMATES.get(config.method.name, "bound")
    interval = f" ± {metrics['valid_half_width']:.4f}" if "valid_half_width" in metrics else ""
    bits = f"{metrics['valid_bits']:.4f}{interval} bits per variable"
    if "valid_bits_raster" in metrics:
        bits += f" in {CODING_CALLS} calls, {metrics['valid_bits_raster']:.4f} left to right"
    uniform_bits = math.log2(num_classes)
    warning = f"; guessing takes {uniform_bits:.4f}" if metrics["valid_bits"] > uniform_bits else ""
    return f"step {metrics['step']}: {bits}, {evaluated_items(config)} ({estimate}{warning})"


def profile_line(title: str, num_observations: int, items: str, *, is_last: bool = True) -> str:
    """A line about the measurement that follows the last step, or the step at which the run is stopped."""
    stops = "Ctrl-C stops, continue with --resume" if is_last else "Ctrl-C ends at once"
    return f"saved; measuring the {title} in {num_observations} draws, {items} ({stops})"


@contextmanager
def interrupts() -> Iterator[list[float]]:
    """A list that receives the time of a first SIGINT or SIGTERM, to stop between two steps; a later one interrupts.

    A launcher, a terminal and a scheduler may all pass on the same signal, so repeats within a second do not count, and
    none counts once everything is saved. If one of several processes fails, it ignores SIGTERM while it reports why:
    torchrun sends it as soon as another process has ended.
    """
    received: list[float] = []

    def handle(number: int, frame: Any) -> None:
        if received and time.monotonic() > received[0] + REPEAT_SECONDS:
            raise KeyboardInterrupt
        received.append(time.monotonic())

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    except Exception:
        if num_launched() > 1:
            before[signal.SIGTERM] = signal.SIG_IGN
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if received else handler)
