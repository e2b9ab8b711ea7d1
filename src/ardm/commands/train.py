"""ardm train."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ardm.commands.common import require_positive
from ardm.errors import UsageError

if TYPE_CHECKING:
    from ardm.config import RunConfig
    from ardm.train import Trainer

PresetName = Literal["text8-paper", "text8", "text8-small", "text", "bytes"]


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a model: metrics.jsonl, checkpoints and the model go to a run's folder."""

    preset: Annotated[tyro.conf.Positional[PresetName], tyro.conf.arg(metavar="PRESET")]
    """What to train: text8-paper, text8, text8-small (CPU), text or bytes (your own files)."""
    data: Path
    """The text8 folder or file, or a file or folder of your own text."""
    out: Path
    """The run's folder."""
    resume: bool = False
    """Continue from the folder's last checkpoint, if there is one."""
    steps: int | None = None
    """Training steps; a resumed run may be given more."""
    minutes: float | None = None
    """Save and stop after this time; --resume goes on."""
    batch_size: int | None = None
    item_length: int | None = None
    """Characters of an item."""
    layers: int | None = None
    width: int | None = None
    learning_rate: float | None = None
    muon_rate: float | None = None
    warmup_steps: int | None = None
    base: int | None = None
    """Train an upscale model that generates digits in this base."""
    parametrization: Literal["data", "direct"] | None = None
    """Of an upscale model."""
    eval_every: int | None = None
    checkpoint_every: int | None = None
    log_every: int | None = None
    seed: int = 0
    device: str | None = None
    """cpu or cuda; CUDA where there is one by default."""

    def run(self) -> None:
        """Train, showing progress."""
        config = self._config()
        require_positive(minutes=self.minutes)
        from ardm.checkpoint import STATE_FILE
        from ardm.data.text import load_text
        from ardm.train import Runtime, Trainer

        started = (self.out / STATE_FILE).exists()
        if started and not self.resume:
            raise UsageError(f"{self.out} already holds a run; --resume continues it, or choose another --out")
        corpus = load_text(self.data, config.data.kind)
        trainer = Trainer(config, corpus, self.out, Runtime.choose(self.device))
        if started:
            trainer.restore()
            print(f"resumed at step {trainer.step} of {config.train.steps}", file=sys.stderr)
        run_with_progress(trainer, self.minutes)

    def _config(self) -> "RunConfig":
        from ardm.presets import PRESETS

        config = PRESETS[self.preset]()
        try:
            return replace(
                config,
                seed=self.seed,
                data=replace(config.data, **_given(num_variables=self.item_length)),
                network=replace(config.network, **_given(num_layers=self.layers, width=self.width)),
                depth=replace(config.depth, **_given(base=self.base, parametrization=self.parametrization)),
                train=replace(config.train, **self._train_flags()),
            )
        except ValueError as error:
            raise UsageError(str(error)) from None

    def _train_flags(self) -> dict[str, Any]:
        names = ("steps", "batch_size", "learning_rate", "muon_rate", "warmup_steps")
        intervals = ("eval_every", "checkpoint_every", "log_every")
        return _given(**{name: getattr(self, name) for name in (*names, *intervals)})


def _given(**flags: Any) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value is not None}


def run_with_progress(trainer: "Trainer", minutes: float | None) -> None:
    """Train with a progress bar or, where there is no terminal, a line for each evaluation."""
    import signal
    import time

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ardm.train import run_training

    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    interrupted: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, frame: interrupted.append(received))

    def stop() -> bool:
        return bool(interrupted) or (deadline is not None and time.monotonic() > deadline)

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("training", total=trainer.config.train.steps, completed=trainer.step)

        def on_metrics(metrics: dict[str, Any]) -> None:
            if "valid_bits" in metrics:
                console.print(
                    f"step {metrics['step']}: {metrics['valid_bits']:.4f} ± {metrics['valid_half_width']:.4f} "
                    "bits per variable, held out (bound)",
                    highlight=False,
                )
            elif "bits" in metrics:
                bar.update(task, description=f"{metrics['bits']:.3f} bits")

        run_training(trainer, stop=stop, on_metrics=on_metrics, on_step=lambda step: bar.update(task, completed=step))
    done = trainer.step == trainer.config.train.steps
    print(f"{'done' if done else 'stopped'} at step {trainer.step}: {trainer.folder}")
