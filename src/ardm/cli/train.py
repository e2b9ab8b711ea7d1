"""ardm train."""

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ardm.cli.common import NamedOrder, advancing, require_positive
from ardm.errors import ArdmError, UsageError
from ardm.runtime.files import check_writable_folder
from ardm.runtime.launch import is_launched, is_orphaned, launched_rank, num_launched

if TYPE_CHECKING:
    from ardm.config import MethodConfig, RunConfig
    from ardm.runtime.device import Runtime
    from ardm.runtime.team import Team
    from ardm.train.trainer import Trainer

PresetName = Literal[
    "text8-paper",
    "text8",
    "text8-small",
    "text",
    "bytes",
    "cifar10-paper",
    "cifar10",
    "cifar10-small",
    "images",
    "sc09-paper",
    "sc09",
    "sc09-wavenet",
    "sc09-small",
    "audio",
]
SECONDS_OF_A_SIGNAL = 1.0
"""How long the same signal may come again by another way."""
MethodName = Literal["ardm", "d3pm-absorbing", "d3pm-uniform", "d3pm-gaussian", "permuted", "causal"]


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a model: metrics.jsonl, checkpoints and the model go to a run's folder."""

    preset: Annotated[tyro.conf.Positional[PresetName], tyro.conf.arg(metavar="PRESET")]
    """What to train: text8-paper, text8, text8-small (CPU), text or bytes (your own files); cifar10-paper, cifar10,
    cifar10-small (CPU), images (your own); sc09-paper, sc09, sc09-wavenet (a smaller form of sc09-paper's network),
    sc09-small (CPU), audio (your own)."""
    data: Path
    """The folder of text8, CIFAR-10 or Speech Commands, a file or folder of text, a folder of images or sound."""
    out: Path
    """The run's folder."""
    resume: bool = False
    """Continue from the folder's last checkpoint, if there is one."""
    init: Path | None = None
    """Start from the weights of this run or model file, and with its network, instead of from random weights: to go on
    with other data or learning rates. A run that is resumed has started already."""
    steps: int | None = None
    """Training steps; a resumed run may be given more."""
    minutes: float | None = None
    """Save and stop once the run has taken this long in all; --resume with more goes on."""
    batch_size: int | None = None
    """Items of a training step. Sizes and rates not given are the preset's, or the resumed run's."""
    shards: int | None = None
    """Parts of a batch, each with draws of its own, for batches that do not fit the memory: a process takes its parts
    one after the other (gradient accumulation). By default one for each process that torchrun has started."""
    item_length: int | None = None
    """Characters or samples of an item (text, sound)."""
    size: str | None = None
    """WIDTHxHEIGHT of an item (images); crops of this size are cut from larger images."""
    channels: Literal[1, 3] | None = None
    """1 for grey images, 3 for colour."""
    augmentation: Literal["none", "flips", "flips and turns"] | None = None
    """What is done to training images at random, or to sounds (flips: upside down)."""
    train_on_all: bool = False
    """Train on CIFAR-10's validation images too: for a final run, whose held-out figures then are none."""
    layers: int | None = None
    """Blocks of the network (Transformers)."""
    width: int | None = None
    """Channels of the network (Transformers)."""
    head_width: int | None = None
    """Channels of an attention head (Transformers)."""
    widths: tuple[int, ...] | None = None
    """Channels of the network at each resolution, the full one first (U-Nets)."""
    depths: tuple[int, ...] | None = None
    """Blocks of the network at each resolution (U-Nets)."""
    kernel: int | None = None
    """Size of the depthwise convolutions (U-Nets; Transformers, where 1 is none)."""
    learning_rate: float | None = None
    """Peak rate of AdamW."""
    muon_rate: float | None = None
    """Peak rate of Muon, which trains the matrices inside blocks."""
    weight_decay: float | None = None
    """Each step, weights shrink by this times the learning rate."""
    cross_entropy_weight: float | None = None
    """Weight of the authors' cross-entropy term beside the bound."""
    warmup_steps: int | None = None
    """Steps over which the rates rise."""
    order: NamedOrder | None = None
    """Train for this order in the last part of the steps, instead of for random ones: for a model that codes in it."""
    order_fraction: float | None = None
    """That part; 0.5 by default."""
    order_share: float | None = None
    """The share of items that take the order then, 1 by default; the others keep random orders, for infilling."""
    base: int | None = None
    """Train an upscale model that generates digits in this base."""
    parametrization: Literal["data", "direct", "logistic", "companded"] | None = None
    """How outputs become probabilities. With --base: direct (better, the default) or data (the paper's for images);
    without: data or, for sound and images, a mixture of logistics, with means on a logarithmic scale (companded, the
    default for sound) or a linear one (logistic, the paper's and the default of sc09-paper)."""
    min_log_scale: float | None = None
    """Least logarithm of a logistic's scale (sound); the authors have -7."""
    method: MethodName | None = None
    """What to train: an ARDM (the default) or, to compare it with, a D3PM (d3pm-absorbing, d3pm-uniform, and
    d3pm-gaussian for images), a Transformer that is causal in random orders (permuted, as XLNet), or one from left to
    right (causal; for sound a WaveNet, with the presets sc09-wavenet and sc09-paper)."""
    diffusion_steps: int | None = None
    """Steps of noise of a D3PM; 1000 by default."""
    eval_every: int | None = None
    """Steps between evaluations on held-out items."""
    checkpoint_every: int | None = None
    """Steps between checkpoints."""
    log_every: int | None = None
    """Steps between lines of metrics.jsonl."""
    seed: int | None = None
    """Seed of the weights and of all draws; 0 by default."""
    device: str | None = None
    """cpu or cuda; CUDA where there is one by default."""
    no_compile: bool = False
    """Run the network as it is instead of compiling it first (CUDA only)."""
    fsdp: bool = False
    """Share weights and optimiser states out among processes (FSDP2), for models whose training does not fit one GPU:
    under torchrun."""

    def run(self) -> None:
        """Train, showing progress."""
        config = self._config()
        require_positive(minutes=self.minutes)
        if launched_rank() == 0:  # the others read
            self._check_out()
        if self.data.is_dir() and self.out.resolve().is_relative_to(self.data.resolve()):
            raise UsageError(f"--out {self.out} lies inside --data {self.data} and would become part of the data")
        from ardm.runtime.device import Runtime
        from ardm.runtime.team import joined_team

        runtime = Runtime.choose(self.device, compile=not self.no_compile)
        if self.fsdp and not is_launched():
            raise UsageError("--fsdp shares weights out among the processes of torchrun: torchrun ... -m ardm train")
        with joined_team(runtime.device) as team:
            self._train(config, replace(runtime, team=team, shares_weights=self.fsdp))

    def _check_out(self) -> None:
        from ardm.train.run_folder import holds_other_files

        check_writable_folder(self.out)
        if not self.resume and holds_other_files(self.out):
            raise UsageError(f"--out {self.out} holds files that are no run's; choose a new folder")

    def _train(self, config: "RunConfig", runtime: "Runtime") -> None:
        from ardm.checkpoint import load_model
        from ardm.media import load_corpus
        from ardm.runtime.files import locked
        from ardm.train.metrics import put_metrics_aside
        from ardm.train.run_folder import holds_a_run, restore_state, write_data_path
        from ardm.train.trainer import Trainer

        team, started = runtime.team, holds_a_run(self.out)
        if len({*team.all_gather([started])}) > 1:
            raise UsageError(
                f"some processes find a run in {self.out} and others do not: give a folder that all machines share"
            )
        if started and not self.resume:
            raise UsageError(f"{self.out} already holds a run; --resume continues it, or choose another --out")
        trainer = Trainer(config, load_corpus(config.data, self.data), runtime)
        if self.init is not None and not started:
            trainer.start_from(load_model(self.init))
        team.barrier()  # until then nobody writes
        with locked(self.out) if team.is_first else nullcontext():
            if started:
                if damage := restore_state(trainer, self.out):
                    say(team, damage)
                say(team, f"resumed at step {trainer.step} of {config.train.steps}")
            elif team.is_first and (aside := put_metrics_aside(self.out)):
                say(team, f"no training state is left in {self.out}, so a new run begins; old metrics are in {aside}")
            if team.is_first:
                write_data_path(self.out, self.data)
            say(team, describe(trainer))
            run_with_progress(trainer, self.out, self.minutes)

    def _config(self) -> "RunConfig":
        config = self._base_config()
        try:
            return replace(
                config,
                **_given(seed=self.seed),
                data=_changed(config.data, self.preset, self._data_flags(), DATA_FLAGS),
                network=_changed(config.network, self.preset, self._network_flags(), NETWORK_FLAGS),
                depth=replace(config.depth, **self._depth_flags(config.depth.parametrization)),
                method=(method := replace(config.method, **self._method_flags(config.method))),
                train=replace(config.train, **self._train_flags(method)),
            )
        except ValueError as error:
            raise UsageError(in_flags(str(error))) from None

    def _base_config(self) -> "RunConfig":
        """The configuration of the run to be resumed, or the preset's, with the network to start from."""
        from ardm.checkpoint import load_model
        from ardm.presets import PRESETS
        from ardm.train.run_folder import read_config

        saved = read_config(self.out) if self.resume else None
        if saved is None and self.init is not None:
            initial = load_model(self.init).config
            try:
                return replace(PRESETS[self.preset](), network=initial.network, depth=initial.depth)
            except ValueError as error:
                raise UsageError(f"{self.init} cannot be started from with the preset {self.preset}: {error}") from None
        if saved is None:
            return PRESETS[self.preset]()
        if saved.preset != self.preset:
            raise UsageError(f"{self.out} holds a run of the preset {saved.preset}, not of {self.preset}")
        return saved

    def _data_flags(self) -> dict[str, Any]:
        from ardm.data.images import parse_size

        height, width = (None, None) if self.size is None else parse_size(self.size)
        flags = _given(num_variables=self.item_length, height=height, width=width, channels=self.channels)
        return flags | _given(augmentation=self.augmentation, holds_out=False if self.train_on_all else None)

    def _network_flags(self) -> dict[str, Any]:
        names = ("width", "head_width", "widths", "depths", "kernel")
        return _given(num_layers=self.layers, **{name: getattr(self, name) for name in names})

    def _depth_flags(self, parametrization: str) -> dict[str, Any]:
        from ardm.config import MIXTURE_NAMES
        from ardm.presets import parametrization_with

        chosen = self.parametrization or parametrization_with(self.base, self.preset, parametrization)
        if self.min_log_scale is not None and chosen not in MIXTURE_NAMES:
            raise ValueError("--min-log-scale is for mixtures of logistics (sound without --base)")
        return _given(base=self.base, parametrization=chosen, min_log_scale=self.min_log_scale)

    def _method_flags(self, method: "MethodConfig") -> dict[str, Any]:
        flags = _given(name=self.method, num_steps=self.diffusion_steps)
        if self.diffusion_steps is not None and not replace(method, **flags).is_diffusion:
            raise ValueError(
                "--diffusion-steps is for D3PMs: give --method d3pm-absorbing, d3pm-uniform or d3pm-gaussian"
            )
        return flags

    def _train_flags(self, method: "MethodConfig") -> dict[str, Any]:
        for flag in ("order_fraction", "order_share"):
            if getattr(self, flag) is not None and self.order is None and not self.resume:
                raise ValueError(f"--{flag.replace('_', '-')} is for a run that trains for an order: give --order too")
        rates = ("learning_rate", "muon_rate", "weight_decay", "cross_entropy_weight", "warmup_steps")
        intervals = ("eval_every", "checkpoint_every", "log_every")
        names = ("steps", "batch_size", *rates, "order", "order_fraction", "order_share", *intervals)
        from ardm.train.run_folder import read_config

        if self.cross_entropy_weight is not None and not method.has_cross_entropy:
            raise ValueError(f"the method {method.name} has no cross-entropy beside its bits: leave out its weight")
        is_new = not self.resume or read_config(self.out) is None
        shards = num_launched() if self.shards is None and is_new else self.shards
        without = {} if method.has_cross_entropy else {"cross_entropy_weight": 0.0}
        return _given(num_shards=shards, **{name: getattr(self, name) for name in names}) | without


def in_flags(message: str) -> str:
    """What is wrong with a field of a configuration, which is the first word, in terms of its flag."""
    name, space, rest = message.partition(" ")
    name = name.removeprefix("num_")
    return f"--{name.replace('_', '-')}{space}{rest}" if name in {field.name for field in fields(Train)} else message


DATA_FLAGS = {"num_variables": "item-length", "height": "size", "width": "size", "holds_out": "train-on-all"}
NETWORK_FLAGS = {"num_layers": "layers", "head_width": "head-width"}
"""Flags of fields that are named otherwise."""


def _changed(config: Any, preset: str, values: dict[str, Any], flags: dict[str, str]) -> Any:
    """A configuration with some fields changed; a ValueError that names the flags of fields it does not have."""
    unknown = values.keys() - {field.name for field in fields(config)}
    if unknown:
        named = ", ".join(sorted({f"--{flags.get(name, name)}" for name in unknown}))
        raise ValueError(f"{named} cannot be used with the preset {preset}; see ardm train --help")
    return replace(config, **values)


def _given(**flags: Any) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value is not None}


def say(team: "Team", line: str) -> None:
    """A line on stderr, from one process of all."""
    if team.is_first:
        print(line, file=sys.stderr)


def run_with_progress(trainer: "Trainer", folder: Path, minutes: float | None) -> None:
    """Train with a progress bar or, where there is no terminal, a line for each evaluation."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ardm.train.loop import run_training

    team = trainer.runtime.team
    is_first = team.is_first
    deadline = None if minutes is None else time.monotonic() + 60 * minutes - trainer.seconds
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True, quiet=not is_first)
    hidden = not is_first or not sys.stderr.isatty()
    with interrupts() as interrupted, Progress(*columns, console=console, disable=hidden) as bar:
        task = bar.add_task("training", total=trainer.config.train.steps, completed=trainer.step)

        def must_leave() -> bool:
            return bool(interrupted) or is_orphaned()

        def on_metrics(metrics: dict[str, Any]) -> None:
            if "bits" in metrics:
                bar.update(task, description=f"{metrics['bits']:.3f} bits")
            else:
                line = evaluation_line(metrics, trainer.config, trainer.model.num_classes)
                console.print(line, highlight=False, soft_wrap=True)

        def on_profile(num_observations: int) -> Callable[[int], None]:
            items = evaluated_items(trainer.config)
            what = "loss profile" if trainer.config.method.is_ardm else "bits"
            console.print(profile_line(what, num_observations, items), highlight=False, soft_wrap=True)
            bar.reset(task, description=what, total=num_observations)
            return advancing(bar, task, what, num_observations) if is_first else lambda count: None

        run_training(
            trainer,
            folder,
            stop=lambda: must_leave() or (deadline is not None and time.monotonic() > deadline),
            on_metrics=on_metrics,
            on_step=lambda step: bar.update(task, completed=step),
            on_profile=on_profile,
        )
        left = team.any(must_leave())
    if left and not trainer.finished:
        raise ArdmError(f"stopped at step {trainer.step}, which is saved in {folder}; --resume goes on")
    if is_first:
        print(f"{'done' if trainer.finished else 'stopped'} at step {trainer.step}: {folder}")


def describe(trainer: "Trainer") -> str:
    """What is going to be trained, for a reader."""
    config, size = trainer.config, sum(p.numel() for p in trainer.model.parameters())
    shape = " x ".join(map(str, config.data.shape))
    kind = f"{trainer.model.num_stages} stage(s)" if config.method.is_ardm else f"method {config.method.name}"
    model = f"{config.preset}, {size:,} parameters, {kind}"
    train, team = config.train, trainer.runtime.team
    shards = f" in {train.num_shards} shards" if train.num_shards > 1 else ""
    processes = f" by {team.size} processes" if team.size > 1 else ""
    processes += " that share weights out" if trainer.runtime.shares_weights else ""
    return (
        f"{model}, items of {shape} from {trainer.corpus.title}; {train.steps} steps of {train.batch_size} items"
        f"{shards}{processes} on {trainer.runtime.device.type}"
    )


def evaluated_items(config: "RunConfig") -> str:
    """Which items evaluations are of: CIFAR-10's validation images may be trained on, too."""
    return "held out" if getattr(config.data, "holds_out", True) else "seen in training"


def evaluation_line(metrics: dict[str, Any], config: "RunConfig", num_classes: int) -> str:
    """An evaluation for a reader."""
    estimate = "exact" if config.method.name == "causal" else "bound"
    interval = f" ± {metrics['valid_half_width']:.4f}" if "valid_half_width" in metrics else ""
    bits = f"{metrics['valid_bits']:.4f}{interval} bits per variable"
    of_a_guess = math.log2(num_classes)
    worse = f"; a guess takes {of_a_guess:.4f}" if metrics["valid_bits"] > of_a_guess else ""
    return f"step {metrics['step']}: {bits}, {evaluated_items(config)} ({estimate}{worse})"


def profile_line(what: str, num_observations: int, items: str) -> str:
    """What happens after the last step, for a reader."""
    return f"saved; measuring the {what} in {num_observations} draws, {items} (Ctrl-C stops, --resume goes on)"


@contextmanager
def interrupts() -> Iterator[list[float]]:
    """A list that a first SIGINT or SIGTERM is put into, to stop between two steps; a later one interrupts at once.

    A launcher, a terminal and a scheduler may all pass on the same one: what follows within a second is no other, and
    what follows when all is saved is ignored. So is SIGTERM where one of several processes fails, and has to say why:
    torchrun sends it as soon as another has ended.
    """
    received: list[float] = []

    def handle(number: int, frame: Any) -> None:
        if received and time.monotonic() > received[0] + SECONDS_OF_A_SIGNAL:
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
