"""`ardm.fit`: a training loop for notebooks and scripts, around any model and any data."""

import copy
import dataclasses
import hashlib
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from ardm.checkpoint import profile_tensors, read_tensors, write_tensors
from ardm.errors import ArdmError, CheckpointError, UsageError
from ardm.library.context import as_context
from ardm.library.files import first_problem
from ardm.library.items import as_array
from ardm.library.model import Model, TrainingRows
from ardm.names import AVERAGED, MEASURED
from ardm.profile import Profile

KIND = "training state of ardm.fit"
WARMUP = 0.05
"""Fraction of the training in which the learning rate rises."""
DECAY = 0.5
"""Fraction of the training, at its end, in which it falls to zero."""
MAX_VALID_ITEMS = 1000
OBSERVATIONS_PER_STAGE = 1000
"""Held-out losses per stage from which the profile is measured."""
NUM_EVALUATIONS = 20
"""Evaluations of a training by default."""
MAX_EVALUATING = 0.1
"""Share of a training by time that has been spent on evaluations when another one is left out."""
OBJECTIVE, DROPOUT = 0, 1
"""The purposes of a step's random draws."""
SECONDS_PER_LINE = 10.0
"""Minimum time between two lines of progress."""

Data = Any
"""A tensor or an array of items, a pair of those with their contexts, a Dataset or a DataLoader of either."""


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """How `ardm.fit` trains."""

    steps: int | None = None
    """Training steps; None trains for `minutes`."""
    minutes: float | None = None
    """Time limit; the learning rate falls to zero at whichever end comes first."""
    batch_size: int = 64
    """Items of a step; a DataLoader has its own."""
    learning_rate: float = 2e-3
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    """Gradients are scaled down to at most this norm."""
    cross_entropy_weight: float = 1.0
    """Weight of the authors' CE term beside the bound: it has less variance, and mostly gives better models sooner."""
    ema_decay: float = 0.999
    """Decay of the average of the weights that is evaluated and kept."""
    eval_every: int | None = None
    """Steps between evaluations on held-out data; by default about 20 evaluations in all."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps is None and self.minutes is None:
            raise UsageError("say how long to train: steps= or minutes=")
        for name in ("steps", "minutes", "batch_size", "learning_rate", "clip_norm", "eval_every"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{name} must be positive, got {value}")
        for name in ("weight_decay", "cross_entropy_weight", "seed"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if not 0 <= self.ema_decay < 1:
            raise UsageError(f"ema_decay must lie in [0, 1), got {self.ema_decay}")


@dataclass(kw_only=True)
class Fitted:
    """The course of a training by `ardm.fit`."""

    steps: int = 0
    seconds: float = 0.0
    valid_bits: float = math.nan
    """Bits per dimension of the model that was kept, on held-out data; NaN without any."""
    history: list[dict[str, int | float]] = field(default_factory=list)
    """Step, seconds, training bits and held-out bits at each evaluation."""


def fit(
    model: Model,
    data: Data,
    *,
    valid: Data | float = 0.1,
    folder: str | Path | None = None,
    keep_best: bool = True,
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] | None = None,
    progress: bool = True,
    **config: Any,
) -> Fitted:
    """Train a model, which keeps the averaged weights that do best on held-out data, and measure its loss profile.

    `valid` is held-out data or the fraction of a tensor, an array or a Dataset to hold out; a DataLoader is trained on
    whole. With `folder` the training state is saved there at each evaluation, and the same call continues from it: with
    `steps`, to the bit of an uninterrupted run (a DataLoader begins its order anew). Other arguments are the fields of
    `FitConfig`: `steps`, `minutes`, `batch_size`, `learning_rate` and so on.

    >>> import ardm, torch
    >>> from torch import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layers = nn.Sequential(nn.Embedding(3, 8), nn.Linear(8, 2))
    ...     def forward(self, inputs, mask, stage, t):
    ...         return self.layers(inputs)
    >>> model = ardm.order_agnostic(Net(), 2, shape=5)
    >>> fitted = ardm.fit(model, torch.ones(100, 5).long(), steps=200, learning_rate=0.1, progress=False)
    >>> fitted.valid_bits < 0.1
    True
    """
    known = [f.name for f in dataclasses.fields(FitConfig)]
    if unknown := sorted(set(config) - set(known)):
        raise UsageError(f"fit has no argument {unknown[0]}; it has {', '.join(known)}")
    if optimizer is not None and isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError("give a function that makes the optimizer of parameters, not an optimizer")
    chosen = FitConfig(**config)
    trained, data, valid = model.prepared(data, valid)
    fitting = Fitting(trained, chosen, *_split(data, valid, chosen), optimizer=optimizer, keep_best=keep_best)
    state = None if folder is None else Path(folder) / "fit.safetensors"
    if state is not None and state.exists():
        fitting.restore(state)
    report = Report(chosen) if progress else None
    if report and fitting.fitted.steps:
        report.line(f"continues from step {fitting.fitted.steps}")
    try:
        fitting.run(state, report)
    except KeyboardInterrupt:
        if report:
            report.line("stopped: the best weights so far are kept")
        fitting.stop()
    finally:
        if report:
            report.end()
    fitted = fitting.finish()
    model.profile, model.profile_source = trained.profile, trained.profile_source
    return fitted


class Fitting:
    """A training in progress."""

    def __init__(
        self,
        model: Model,
        config: FitConfig,
        batches: "Batches",
        valid: "Batches | None",
        *,
        optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] | None,
        keep_best: bool,
    ) -> None:
        if model.is_exact:
            raise UsageError("an exact model cannot be trained; train the model that it was exported from")
        self.model, self.config, self.batches, self.valid = model, config, batches, valid
        self.averaged = copy.deepcopy(model.ardm).requires_grad_(False).eval()
        self.best = {name: t.clone() for name, t in self.averaged.state_dict().items()}
        trainable = [p for p in model.parameters() if p.requires_grad]
        if not trainable:
            raise UsageError("the network has no parameter to train")
        decay = config.weight_decay
        self.optimizer = (
            optimizer(trainable)
            if optimizer is not None
            else torch.optim.AdamW(trainable, lr=config.learning_rate, weight_decay=decay, betas=(0.9, 0.99))
        )
        self._peaks = [group["lr"] for group in self.optimizer.param_groups]
        self.fitted, self._keeps_best, self._best_bits = Fitted(), keep_best, math.inf
        self._profile = Profile.empty(model.ardm.num_stages, model.ardm.num_variables, model.device)
        self._started, self._bits = time.perf_counter(), list[Tensor]()
        self._evaluating = 0.0
        """Seconds spent on evaluations."""

    def run(self, state: Path | None, report: "Report | None") -> None:
        """Train to the end, evaluating and saving on the way."""
        self._started = time.perf_counter() - self.fitted.seconds
        self.model.train()
        batches, done = self.batches.after(self.fitted.steps), self._progress()
        while done < 1:
            with seeded(_seed(self.config.seed, self.fitted.steps, DROPOUT), self.model.device):
                self._bits.append(self._step(next(batches), done))
            before, done = done, self._progress()
            if report and report.is_due():
                report.step(self.fitted, done, float(self._bits[-1]))
            if self._is_evaluated(before, done):
                started = time.perf_counter()
                self._evaluate()
                if state is not None:
                    self.save(state)
                self._evaluating += time.perf_counter() - started
                if report:
                    report.evaluation(self.fitted, done)

    def _is_evaluated(self, before: float, done: float) -> bool:
        """Whether an evaluation follows a step, between whose ends these parts of the training were done."""
        if done >= 1:
            return True
        if self.config.eval_every is not None:
            return self.fitted.steps % self.config.eval_every == 0
        if self.config.steps is None and self._evaluating > MAX_EVALUATING * self.fitted.seconds:
            return False
        return int(NUM_EVALUATIONS * done + 1e-9) > int(NUM_EVALUATIONS * before + 1e-9)

    def stop(self) -> None:
        """Score the weights of a training that was stopped since its last evaluation, and keep them if they are best.

        They are not saved: a training that continues must not know that it was stopped.
        """
        if self._bits:
            self._evaluate()

    def finish(self) -> Fitted:
        """Put the weights to keep into the model, measure their profile and return the course of the training."""
        self.optimizer.zero_grad(set_to_none=True)
        self.model.ardm.load_state_dict(self.best)
        self.model.eval()
        self.model.profile, self.model.profile_source = self._profile, AVERAGED
        if self.valid is not None:
            wanted = self.model.ardm.num_stages * min(OBSERVATIONS_PER_STAGE, 4 * self.model.ardm.num_variables)
            profile = self.model.measured_profile(
                self.valid.first(MAX_VALID_ITEMS, self.model), wanted, self.config.seed
            )
            if profile is not None:
                self.model.profile, self.model.profile_source = profile, MEASURED
        return self.fitted

    def _progress(self) -> float:
        """The part of the training that is done."""
        config, self.fitted.seconds = self.config, time.perf_counter() - self._started
        by_steps = self.fitted.steps / config.steps if config.steps else 0.0
        by_time = self.fitted.seconds / (60 * config.minutes) if config.minutes else 0.0
        return max(by_steps, by_time)

    def _step(self, batch: "Batch", done: float) -> Tensor:
        """One step of optimisation; returns the bits of the batch."""
        model, config, fitted = self.model, self.config, self.fitted
        generator = torch.Generator(model.device).manual_seed(_seed(config.seed, fitted.steps, OBJECTIVE))
        rows = model.batch(batch.x, batch.context)
        losses = rows.losses(model.ardm, generator)
        bits = losses.bits_per_dim.mean()
        (bits + config.cross_entropy_weight * losses.cross_entropy.mean()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        for group, peak in zip(self.optimizer.param_groups, self._peaks, strict=True):
            group["lr"] = peak * max(0.0, min(1.0, (done + 1e-3) / WARMUP, (1 - done) / DECAY))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._profile = self._profile.updated(losses, 0.99)
        fitted.steps += 1
        self._average(min(config.ema_decay, fitted.steps / (fitted.steps + 10)))
        return bits.detach() / rows.share_scored

    def _average(self, decay: float) -> None:
        with torch.no_grad():
            torch._foreach_lerp_(list(self.averaged.parameters()), list(self.model.ardm.parameters()), 1 - decay)
            for own, other in zip(self.averaged.buffers(), self.model.ardm.buffers(), strict=True):
                own.copy_(other)

    def _evaluate(self) -> None:
        """Score the averaged weights on held-out data, and keep them if they are the best so far."""
        train_bits = float(torch.stack(self._bits).mean())
        if not math.isfinite(train_bits):
            self.model.ardm.load_state_dict(self.best)
            raise ArdmError(f"the loss is {train_bits} at step {self.fitted.steps}; start again with a lower rate")
        record: dict[str, int | float] = {"step": self.fitted.steps, "seconds": self.fitted.seconds, "bits": train_bits}
        valid_bits = math.nan
        if self.valid is not None:
            valid_bits = self._valid_bits()
            record["valid_bits"] = valid_bits
        self.fitted.history.append(record)
        if self.valid is None or valid_bits <= self._best_bits or not self._keeps_best:
            self._best_bits = self.fitted.valid_bits = valid_bits
            self.best = {name: t.clone() for name, t in self.averaged.state_dict().items()}
        self._bits.clear()  # only now: a training that is stopped within an evaluation is evaluated again

    def _valid_bits(self) -> float:
        """The bound on held-out items, with the same random draws every time."""
        assert self.valid is not None
        generator = torch.Generator(self.model.device).manual_seed(self.config.seed)
        total, count, items = 0.0, 0.0, 0
        with torch.no_grad():
            for batch in self.valid.once():
                rows = self.model.batch(batch.x, batch.context)
                losses = rows.losses(self.averaged, generator)
                total, items = total + float(losses.bits_per_dim.sum()), items + len(rows.x)
                count += rows.share_scored * len(rows.x)
                if items >= MAX_VALID_ITEMS:
                    break
        if not items:
            raise UsageError("the held-out data has no item")
        return total / count

    def save(self, path: Path) -> None:
        """Write everything that the rest of the training depends on."""
        path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {f"weights/{name}": t for name, t in self.model.ardm.state_dict().items()}
        tensors |= {f"averaged/{name}": t for name, t in self.averaged.state_dict().items()}
        tensors |= {f"best/{name}": t for name, t in self.best.items()} | profile_tensors("profile", self._profile)
        for number, state in self.optimizer.state_dict()["state"].items():
            known = {key: value for key, value in state.items() if value is not None}
            tensors |= {f"optimizer/{number}/{key}": torch.as_tensor(value) for key, value in known.items()}
        about = {"fitted": dataclasses.asdict(self.fitted), "best_bits": self._best_bits}
        about["data"] = self.batches.fingerprint
        write_tensors(path, tensors, {"kind": KIND, "config": dataclasses.asdict(self.config)} | about)

    def restore(self, path: Path) -> None:
        """Continue from a saved state; a UsageError if it was trained in another way."""
        tensors, about = read_tensors(path, KIND)
        ends = ("steps", "minutes", "eval_every")
        old, new = ({k: v for k, v in c.items() if k not in ends} for c in (about["config"], vars(self.config)))
        if changed := sorted(name for name in new if old.get(name) != new[name]):
            raise UsageError(f"the training in {path.parent} had another {', '.join(changed)}; choose another folder")
        if about.get("data") != self.batches.fingerprint:
            raise UsageError(f"the training in {path.parent} was on other data; choose another folder")
        parts: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            part, _, rest = name.partition("/")
            parts.setdefault(part, {})[rest] = tensor.to(self.model.device)
        try:
            self.model.ardm.load_state_dict(parts["weights"])
        except RuntimeError as error:
            raise CheckpointError(
                f"the training in {path.parent} is of another network: {first_problem(error)}"
            ) from None
        self.averaged.load_state_dict(parts["averaged"])
        self.best, self._best_bits = parts["best"], about["best_bits"]
        self._profile = Profile(**parts["profile"])
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts.get("optimizer", {}).items():
            number, _, key = name.partition("/")
            state.setdefault(int(number), {})[key] = tensor
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        self.fitted = Fitted(**about["fitted"])
        if self.config.steps is not None and self.fitted.steps > self.config.steps:
            done = f"the training in {path.parent} is already at step {self.fitted.steps}"
            raise UsageError(f"{done}; give more steps or another folder")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Items of a step, with their contexts if the model is conditional."""

    x: Any
    context: Any = None


class Batches:
    """Where batches come from: arrays or a Dataset, in an order that the seed decides, or a DataLoader."""

    def __init__(self, data: Data, rows: Int[np.ndarray, "N"] | None, batch_size: int, seed: int) -> None:
        self._data, self._rows, self._batch_size, self._seed = data, rows, batch_size, seed
        self.fingerprint = _fingerprint(data, rows)
        """Hash that tells the data from other data; None for a DataLoader."""

    def after(self, step: int) -> Iterator[Batch]:
        """The batches from a step on, without end."""
        if self._rows is None:
            while True:
                is_empty = True
                for values in self._data:
                    is_empty = False
                    yield _batch(values)
                if is_empty:
                    raise UsageError("the DataLoader gives no batch; is its data shorter than a batch, or used up?")
        size = min(self._batch_size, len(self._rows))
        per_epoch = len(self._rows) // size
        while True:
            epoch, number = divmod(step, per_epoch)
            order = np.random.default_rng((self._seed, epoch)).permutation(self._rows)
            yield self._take(order[number * size : (number + 1) * size])
            step += 1

    def once(self) -> Iterator[Batch]:
        """All items in batches."""
        if self._rows is None:
            yield from map(_batch, self._data)
            return
        for start in range(0, len(self._rows), self._batch_size):
            yield self._take(self._rows[start : start + self._batch_size])

    def first(self, count: int, model: Model) -> list[TrainingRows]:
        """The first batches, with at least this many items in all if there are as many."""
        batches, seen = list[TrainingRows](), 0
        for batch in self.once():
            batches.append(model.batch(batch.x, batch.context))
            seen += len(batches[-1].x)
            if seen >= count:
                break
        return batches

    def _take(self, rows: Int[np.ndarray, "B"]) -> Batch:
        if isinstance(self._data, Dataset):
            items = [_batch(self._data[int(row)]) for row in rows]
            context = None if items[0].context is None else _stacked([item.context for item in items])
            return Batch(x=_stacked([item.x for item in items]), context=context)
        x, context = self._data
        return Batch(x=x[rows], context=None if context is None else context[rows])


class Report:
    """Lines of progress: on a terminal the last one replaces the one before."""

    def __init__(self, config: FitConfig) -> None:
        self._config, self._is_terminal, self._last, self._width = config, sys.stderr.isatty(), time.perf_counter(), 0

    def is_due(self) -> bool:
        """Whether it is time for a line between evaluations."""
        return time.perf_counter() - self._last > (0.5 if self._is_terminal else SECONDS_PER_LINE)

    def step(self, fitted: Fitted, done: float, bits: float) -> None:
        """Say how far the training is."""
        self.line(f"{self._where(fitted, done)}: {bits:.3f} bits/dim", replaces=True)

    def evaluation(self, fitted: Fitted, done: float) -> None:
        """Say what the last evaluation gave."""
        if not self._is_terminal and not self.is_due() and done < 1 and len(fitted.history) > 1:
            return
        last = fitted.history[-1]
        valid = f", held out {last['valid_bits']:.3f}" if "valid_bits" in last else ""
        self.line(f"{self._where(fitted, done)}: {last['bits']:.3f} bits/dim{valid}", replaces=True)

    def line(self, text: str, *, replaces: bool = False) -> None:
        """Print a line to standard error."""
        self._last = time.perf_counter()
        start = "\r" if self._is_terminal else ""
        end = "" if self._is_terminal and replaces else "\n"
        print(f"{start}{text:{self._width}}", end=end, file=sys.stderr, flush=True)
        self._width = len(text)

    def end(self) -> None:
        """End the last line."""
        if self._is_terminal:
            print(file=sys.stderr)

    def _where(self, fitted: Fitted, done: float) -> str:
        left = fitted.seconds * (1 - done) / done if 0 < done < 1 else 0.0
        total = f" of {self._config.steps}" if self._config.steps else ""
        return f"step {fitted.steps}{total}" + (f", {left:.0f} s left" if left else f", {fitted.seconds:.0f} s")


def _split(data: Data, valid: Data | float, config: FitConfig) -> tuple[Batches, Batches | None]:
    """Where training and held-out batches come from."""
    size, seed = config.batch_size, config.seed
    if isinstance(data, DataLoader):
        is_fraction = isinstance(valid, float | int) or valid is None
        return Batches(data, None, size, seed), None if is_fraction else _batches(valid, config)
    source, number = _source(data)
    rows = np.arange(number)
    if valid is None or not isinstance(valid, float | int):
        return Batches(source, rows, size, seed), None if valid is None else _batches(valid, config)
    if not 0 <= valid < 1:
        raise UsageError(f"valid must be data or a fraction in [0, 1), got {valid}")
    rows = np.random.default_rng(seed).permutation(rows)
    num_valid = round(valid * number)
    if num_valid == number:
        raise UsageError(f"{number} items are too few to hold {valid:.0%} out; give valid=0 or more data")
    held_out = Batches(source, rows[:num_valid], size, seed) if num_valid else None
    return Batches(source, rows[num_valid:], size, seed), held_out


def _batches(data: Data, config: FitConfig) -> Batches:
    if isinstance(data, DataLoader):
        return Batches(data, None, config.batch_size, config.seed)
    source, number = _source(data)
    return Batches(source, np.arange(number), config.batch_size, config.seed)


def _source(data: Data) -> tuple[Any, int]:
    """A Dataset or a pair of arrays (items, contexts), and the number of items."""
    if isinstance(data, Dataset):
        if not isinstance(data, Sized):
            raise UsageError("a Dataset without a length cannot be shuffled; give a DataLoader of it")
        return data, len(data)
    if isinstance(data, tuple) and len(data) not in (1, 2):
        raise UsageError(f"data is items, or a pair of items and contexts; got a tuple of {len(data)}")
    x, context = (*data, None)[:2] if isinstance(data, tuple) else (data, None)
    x = x if isinstance(x, Tensor) else as_array(x)
    if not x.shape or not len(x):
        raise UsageError("there is no item to train on")
    if context is not None:
        context = as_context(context)
        if not context.shape or len(context) != len(x):
            came = f"{len(context)} rows" if context.shape else "a single number"
            raise UsageError(f"expected a context with a row for each of {len(x)} items, got {came}")
    return (x, context), len(x)


def _batch(values: Any) -> Batch:
    if not isinstance(values, tuple | list):
        return Batch(x=values)
    if len(values) not in (1, 2):
        raise UsageError(
            f"a Dataset or DataLoader gives items, or pairs of items and contexts; got {len(values)} parts"
        )
    return Batch(x=values[0], context=values[1] if len(values) == 2 else None)


def _stacked(values: list[Any]) -> Tensor:
    return torch.stack([torch.as_tensor(value) for value in values])


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """A context in which PyTorch draws from this seed, for dropout and the like; its own generators stay as they are.

    >>> import torch
    >>> from ardm.library.fit import seeded
    >>> with seeded(1, torch.device("cpu")):
    ...     first = torch.rand(1)
    >>> with seeded(1, torch.device("cpu")):
    ...     torch.rand(1) == first
    tensor([True])
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _seed(seed: int, step: int, purpose: int) -> int:
    """The seed of the draws of a step for one purpose: 32 bits, all that PyTorch's generator on a CPU reads."""
    return int(np.random.SeedSequence((seed % 2**64, step, purpose)).generate_state(1)[0])


def _fingerprint(data: Data, rows: Int[np.ndarray, "N"] | None) -> str | None:
    """A hash of items in memory, the number of items of a Dataset; None for a DataLoader."""
    if rows is None:
        return None
    if isinstance(data, Dataset):
        return str(len(rows))
    x, _ = data
    digest = hashlib.blake2b(f"{len(rows)} {x.dtype} {tuple(x.shape)}".encode(), digest_size=8)
    digest.update(as_array(x).tobytes())
    return digest.hexdigest()
