"""The training loop.

A run is determined by its configuration and its data: the batch, the orders and the steps of training step i
come from a generator seeded with (seed, i), so a resumed run draws exactly what the uninterrupted one would have.
A run's folder holds
    config.json          the resolved configuration
    state.safetensors    the whole training state after some step, replaced as a whole (the one before it is kept)
    model.safetensors    the averaged weights alone, for evaluation
    metrics.jsonl        one JSON object a line; the same numbers go to TensorBoard event files when it is installed
"""

import copy
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int, Integer
from torch import Tensor, nn

from ardm.checkpoint import (
    MODEL_FILE,
    PREVIOUS_STATE_FILE,
    STATE_FILE,
    TrainedModel,
    profile_from_tensors,
    profile_tensors,
    read_tensors,
    save_model,
    write_tensors,
    written_whole,
)
from ardm.config import RunConfig
from ardm.data.text import TextCorpus
from ardm.errors import ArdmError, CheckpointError
from ardm.likelihood import bound
from ardm.model import ARDM
from ardm.objective import Profile, sample_corruption, step_loss
from ardm.optim import Muon, is_hidden_matrix

Metrics = dict[str, Any]

FINAL_PASSES = 8
"""Passes over the held-out items at the end of training."""
CHANGEABLE_FIELDS = {"steps", "eval_every", "checkpoint_every", "log_every"}
"""Fields of the configuration that a resumed run may change."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Where and how a run computes; no part of its result's definition."""

    device: torch.device
    compile: bool = False
    """Compile the network with TorchInductor."""

    @classmethod
    def choose(cls, device: str | None = None) -> "Runtime":
        """The named device, or CUDA where there is one; compiled on CUDA."""
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            chosen = torch.empty(0, device=device).device
        except (RuntimeError, AssertionError) as error:
            raise ArdmError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None
        return cls(device=chosen, compile=chosen.type == "cuda")

    def autocast(self) -> AbstractContextManager[Any]:
        """bfloat16 matrix products on CUDA; full precision elsewhere."""
        if self.device.type == "cuda":
            return torch.autocast("cuda", torch.bfloat16)
        return nullcontext()


class Trainer:
    """A run in progress: weights, their average, optimisers, profile and the number of steps done."""

    def __init__(self, config: RunConfig, corpus: TextCorpus, folder: Path, runtime: Runtime) -> None:
        self.config, self.corpus, self.folder, self.runtime = config, corpus, folder, runtime
        device = runtime.device
        with torch.random.fork_rng(devices=[]):  # weight initialisation takes no generator
            torch.manual_seed(config.seed)
            self.model = config.build_model(corpus.alphabet.num_classes).to(device)
        self.averaged = copy.deepcopy(self.model).requires_grad_(False).eval()
        self.optimizers = make_optimizers(config, self.model)
        self.profile = Profile.empty(self.model.num_stages, self.model.num_variables, device)
        self.measured_profile: Profile | None = None
        self.step = 0
        self.seconds = 0.0
        self._train_classes = to_device(corpus.split("train"), device)
        self._eval_items = self._choose_eval_items()
        self._generator = torch.Generator(device)
        if runtime.compile:
            compile_blocks(self.model.network)

    def train_step(self) -> dict[str, Tensor]:
        """One optimisation step; its metrics stay on the device."""
        config = self.config.train
        self._generator.manual_seed(step_seed(self.config.seed, self.step))
        x = random_crops(self._train_classes, config.batch_size, self.model.num_variables, self._generator)
        corrupted = sample_corruption(self.model.depth, x, self._generator)
        with self.runtime.autocast():
            loss = step_loss(self.model, corrupted)
        bits, cross_entropy = loss.bits_per_dim.mean(), loss.cross_entropy.mean()
        (bits + config.cross_entropy_weight * cross_entropy).backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.clip_norm)
        self._update(config.rate_factor(self.step))
        self.profile = self.profile.updated(loss, config.profile_momentum)
        self.step += 1
        return {"bits": bits.detach(), "cross_entropy": cross_entropy.detach(), "gradient_norm": norm}

    def _update(self, rate_factor: float) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak_rate"] * rate_factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        # Early on the average follows closely, so that short runs are not held back by their first steps.
        decay = min(self.config.train.ema_decay, (self.step + 1) / (self.step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.averaged.parameters()), list(self.model.parameters()), 1 - decay)

    def evaluate(self, num_passes: int = 1) -> Metrics:
        """The bound of the averaged weights on the fixed held-out items, always with the same draws."""
        generator = torch.Generator(self.runtime.device).manual_seed(self.config.seed)
        with self.runtime.autocast():
            estimate = bound(
                self.averaged,
                self._eval_items,
                generator,
                num_passes=num_passes,
                batch_size=self.config.train.batch_size,
            )
        self.measured_profile = estimate.profile
        return {
            "step": self.step,
            "valid_bits": estimate.bits_per_dim,
            "valid_half_width": estimate.half_width,
        }

    def _choose_eval_items(self) -> Int[Tensor, "N D"]:
        items = self.corpus.items("valid", self.config.data.num_variables)
        count = min(self.config.train.eval_items, len(items))
        spread = torch.arange(count) * len(items) // count
        return to_device(items, self.runtime.device).long()[spread.to(self.runtime.device)]

    def trained_model(self) -> TrainedModel:
        """The averaged weights with the profile that describes them best."""
        return TrainedModel(
            config=self.config,
            alphabet=self.corpus.alphabet,
            model=self.averaged,
            profile=self.measured_profile or self.profile,
            step=self.step,
            data_title=self.corpus.title,
            data_fingerprint=self.corpus.fingerprint,
        )

    def save(self) -> None:
        """Write the training state and the averaged model; the state before this one is kept beside it."""
        state = self.folder / STATE_FILE
        if state.exists():
            keep_previous(state, self.folder / PREVIOUS_STATE_FILE)
        description = {
            "kind": "training state",
            "config": self.config.to_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "data_fingerprint": self.corpus.fingerprint,
        }
        write_tensors(state, self._state_tensors(), description)
        save_model(self.folder / MODEL_FILE, self.trained_model())

    def _state_tensors(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {f"weights/{n}": p for n, p in self.model.named_parameters()}
        tensors |= {f"averaged/{n}": p for n, p in self.averaged.named_parameters()}
        tensors |= profile_tensors("profile", self.profile)
        if self.measured_profile is not None:
            tensors |= profile_tensors("measured_profile", self.measured_profile)
        for name, state in self._optimizer_states():
            tensors |= {f"optimizer/{name}/{key}": value for key, value in state.items()}
        return tensors

    def _optimizer_states(self) -> Iterator[tuple[str, dict[str, Tensor]]]:
        names: dict[Tensor, str] = {p: n for n, p in self.model.named_parameters()}
        for optimizer in self.optimizers:
            for parameter, state in optimizer.state.items():
                yield names[parameter], state

    def restore(self) -> None:
        """Continue from the newest good training state in the run's folder."""
        tensors, description = read_newest_state(self.folder)
        changed = changed_fields(description["config"], json.loads(json.dumps(self.config.to_dict())))
        if changed:
            raise CheckpointError(
                f"the run in {self.folder} was started with another {', '.join(changed)}; resume it with the same "
                "flags (only steps and intervals may change)"
            )
        if description["data_fingerprint"] != self.corpus.fingerprint:
            raise CheckpointError(f"the run in {self.folder} was trained on other data; give it the same data")
        self.step, self.seconds = description["step"], description["seconds"]
        self._load_state_tensors(tensors)

    def _load_state_tensors(self, tensors: dict[str, Tensor]) -> None:
        device = self.runtime.device
        with torch.no_grad():
            for prefix, model in (("weights", self.model), ("averaged", self.averaged)):
                for name, parameter in model.named_parameters():
                    parameter.copy_(tensors[f"{prefix}/{name}"])
        self.profile = to_profile("profile", tensors, device)
        if "measured_profile/bits" in tensors:
            self.measured_profile = to_profile("measured_profile", tensors, device)
        owners = {p: o for o in self.optimizers for g in o.param_groups for p in g["params"]}
        for name, parameter in self.model.named_parameters():
            prefix = f"optimizer/{name}/"
            state = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            # Adam's step counter stays where the optimiser made it: on the device only when fused.
            owners[parameter].state[parameter] = {
                k: v.to(device) if v.ndim or device.type == "cuda" else v for k, v in state.items()
            }


def run_training(
    trainer: Trainer,
    *,
    stop: Callable[[], bool] = lambda: False,
    on_metrics: Callable[[Metrics], None] = lambda metrics: None,
    on_step: Callable[[int], None] = lambda step: None,
) -> None:
    """Train to the configured number of steps, or until `stop` says so; the state is saved either way."""
    config = trainer.config.train
    prepare_folder(trainer)
    clock = Clock(trainer)
    with metrics_log(trainer.folder, trainer.step) as log:
        while trainer.step < config.steps and not stop():
            metrics = trainer.train_step()
            on_step(trainer.step)
            if trainer.step % config.log_every == 0 or trainer.step == config.steps:
                on_metrics(log(train_metrics(trainer, metrics) | clock.lap()))
            if trainer.step % config.eval_every == 0 and trainer.step != config.steps:
                on_metrics(log(trainer.evaluate()))
                clock.skip()
            if trainer.step % config.checkpoint_every == 0:
                trainer.save()
                clock.skip()
        if trainer.step == config.steps:  # the profile that the planner will use deserves a closer look
            on_metrics(log(trainer.evaluate(FINAL_PASSES)))
        clock.lap()
        trainer.save()


class Clock:
    """Time spent training: in all, which the trainer keeps, and since the last lap."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._first_seconds, self._started = trainer.seconds, time.perf_counter()
        self.skip()

    def skip(self) -> None:
        """Begin a new lap, so that what came before does not count in its speed."""
        self._lap_step, self._lap_started = self._trainer.step, time.perf_counter()

    def lap(self) -> Metrics:
        """All seconds so far, evaluations included, and the speed of the lap that ends here."""
        now, trainer = time.perf_counter(), self._trainer
        trainer.seconds = self._first_seconds + now - self._started
        variables = (trainer.step - self._lap_step) * trainer.config.train.batch_size * trainer.model.num_variables
        speed = variables / (now - self._lap_started)
        self.skip()
        return {"seconds": trainer.seconds, "variables_per_second": speed}


def train_metrics(trainer: Trainer, metrics: dict[str, Tensor]) -> Metrics:
    """Numbers of the last step; raises when the loss is no longer finite."""
    values = {name: float(value) for name, value in metrics.items()}
    if not math.isfinite(values["bits"]):
        raise ArdmError(
            f"the loss is {values['bits']} at step {trainer.step}; the last good state is kept. "
            "Start again with a lower learning rate"
        )
    return {"step": trainer.step} | values | {"rate_factor": trainer.config.train.rate_factor(trainer.step - 1)}


def make_optimizers(config: RunConfig, model: ARDM) -> list[torch.optim.Optimizer]:
    """Muon for hidden matrices if the configuration has a rate for it, fused AdamW for the rest."""
    train = config.train
    hidden: list[nn.Parameter] = []
    if train.muon_rate is not None:
        hidden = [p for n, p in model.named_parameters() if is_hidden_matrix(n, p)]
    others = [p for p in model.parameters() if all(p is not h for h in hidden)]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(
            others, lr=train.learning_rate, betas=train.betas, weight_decay=train.weight_decay, fused=True
        )
    ]
    if train.muon_rate is not None and hidden:
        optimizers.append(Muon(hidden, lr=train.muon_rate, weight_decay=train.weight_decay))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_rate"] = group["lr"]
    return optimizers


def compile_blocks(network: nn.Module) -> None:
    """Compile the network's blocks in place: alike blocks share one compilation, which takes seconds."""
    for block in network.get_submodule("blocks").children():
        block.compile(dynamic=False)


def random_crops(
    classes: Integer[Tensor, "N"], num_items: int, num_variables: int, generator: torch.Generator
) -> Int[Tensor, "B D"]:
    """Items cut from a text at uniformly random places."""
    last = len(classes) - num_variables
    starts = torch.randint(0, last + 1, (num_items, 1), generator=generator, device=classes.device)
    return classes[starts + torch.arange(num_variables, device=classes.device)].long()


def step_seed(seed: int, step: int) -> int:
    """The seed of a training step's generator."""
    return (seed * 1_000_003 + step) & (2**63 - 1)


def to_device(classes: Any, device: torch.device) -> Tensor:
    """An array of classes as a compact tensor on the device."""
    compact = classes if classes.dtype.itemsize == 1 else classes.astype("int32")
    return torch.from_numpy(compact.copy()).to(device)


def to_profile(name: str, tensors: dict[str, Tensor], device: torch.device) -> Profile:
    """A profile from a file, on the device."""
    profile = profile_from_tensors(name, tensors)
    return Profile(bits=profile.bits.to(device), counts=profile.counts.to(device))


def changed_fields(old: Any, new: Any, name: str = "") -> list[str]:
    """Names of the fields of a configuration that differ, apart from those a resumed run may change."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = sorted(old.keys() | new.keys())
        return [field for n in names for field in changed_fields(old.get(n), new.get(n), n)]
    return [name] if old != new and name not in CHANGEABLE_FIELDS else []


def read_newest_state(folder: Path) -> tuple[dict[str, Tensor], Metrics]:
    """The last training state, or the one before it when the last cannot be read."""
    try:
        return read_tensors(folder / STATE_FILE, "training state")
    except CheckpointError:
        if not (folder / PREVIOUS_STATE_FILE).exists():
            raise
        return read_tensors(folder / PREVIOUS_STATE_FILE, "training state")


def keep_previous(state: Path, previous: Path) -> None:
    """Give the present state a second name, without a moment in which neither is whole."""
    with written_whole(previous) as temporary:
        try:
            temporary.hardlink_to(state)
        except OSError:  # a file system without hard links
            shutil.copyfile(state, temporary)


def prepare_folder(trainer: Trainer) -> None:
    """The run's folder with its configuration, rid of what a killed run was writing."""
    trainer.folder.mkdir(parents=True, exist_ok=True)
    for leftover in trainer.folder.glob(".*.partial"):
        leftover.unlink()
    with written_whole(trainer.folder / "config.json") as temporary:
        temporary.write_text(json.dumps(trainer.config.to_dict(), indent=2) + "\n")


@contextmanager
def metrics_log(folder: Path, first_step: int) -> Iterator[Callable[[Metrics], Metrics]]:
    """A function that appends metrics to metrics.jsonl and to TensorBoard; lines after `first_step` are dropped."""
    path = folder / "metrics.jsonl"
    if path.exists():
        kept = [line for line in path.read_text().splitlines() if _step_of(line) <= first_step]
        with written_whole(path) as temporary:
            temporary.write_text("".join(line + "\n" for line in kept))
    board = _tensorboard(folder, first_step)
    with path.open("a") as file:

        def log(metrics: Metrics) -> Metrics:
            file.write(json.dumps(metrics) + "\n")
            file.flush()
            for name, value in metrics.items():
                if board is not None and name != "step":
                    board.add_scalar(name, value, metrics["step"])
            return metrics

        yield log
    if board is not None:
        board.close()


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return math.inf  # a line cut short by a kill


def _tensorboard(folder: Path, first_step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=first_step)
