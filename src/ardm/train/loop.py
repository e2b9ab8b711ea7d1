"""The training loop: steps, evaluations, checkpoints and metrics, until the run is done or stopped."""

import contextlib
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from torch import Tensor

from ardm.checkpoint import TrainedModel, save_model
from ardm.config import RunConfig
from ardm.errors import UsageError
from ardm.media import load_corpus
from ardm.names import CONFIG_FILE, MODEL_FILE
from ardm.runtime.device import Runtime
from ardm.runtime.files import locked, remove_leftovers, write_file
from ardm.train.metrics import Metrics, metrics_log, set_metrics_aside
from ardm.train.run_folder import has_run, non_finite_error, restore_state, save_state, write_data_path
from ardm.train.trainer import Trainer

FINAL_PASSES = 8
"""Passes over the held-out items after training, if the training was long enough."""
OBSERVATIONS_PER_STAGE = 1000
"""Held-out losses per stage after training, for planning; 4 per variable are enough."""
MIN_OBSERVATIONS_PER_STAGE = 8
"""Held-out losses per stage after even the shortest training."""
RESERVED_SHARE = 0.1
"""Largest share of a run's time that is kept for measuring its profile when the time is up."""
STOP_SECONDS = 3.0
"""Seconds for which a run that is stopped may measure its profile."""
LOSSES_PER_STEP_LOSS = 2
"""Losses that are measured in the time of one in training, at the least: without its gradient it takes a third."""


@contextlib.contextmanager
def opened_run(
    config: RunConfig,
    data: Path,
    folder: Path,
    runtime: Runtime,
    *,
    resume: bool = False,
    initial: TrainedModel | None = None,
) -> Iterator[tuple[Trainer, list[str]]]:
    """A context with the trainer of a run in its locked folder, and remarks; a new run may start from `initial`."""
    team, is_started = runtime.team, has_run(folder)
    if len({*team.all_gather([is_started])}) > 1:
        raise UsageError(
            f"some processes find a run in {folder} and others do not: give a folder that all machines share"
        )
    if is_started and not resume:
        raise UsageError(f"{folder} already holds a run; --resume continues it, or choose another --out")
    trainer, remarks = Trainer(config, load_corpus(config.data, data), runtime), []
    if initial is not None and not is_started:
        trainer.start_from(initial)
    team.barrier()  # no process writes before all have reached this point
    with locked(folder) if team.is_first else nullcontext():
        if is_started:
            if damage := restore_state(trainer, folder):
                remarks += [damage]
            remarks += [f"resumed at step {trainer.step} of {config.train.steps}"]
        elif team.is_first and (aside := set_metrics_aside(folder)):
            remarks += [f"no training state is left in {folder}, so a new run begins; old metrics are in {aside}"]
        if team.is_first:
            write_data_path(folder, data)
        yield trainer, remarks


def run_training(
    trainer: Trainer,
    folder: Path,
    *,
    stop: Callable[[], bool] = lambda: False,
    max_seconds: float = math.inf,
    on_metrics: Callable[[Metrics], None] = lambda metrics: None,
    on_step: Callable[[int], None] = lambda step: None,
    on_profile: Callable[[int], Callable[[int], None]] = lambda num_observations: lambda count: None,
) -> None:
    """Train to the configured number of steps, until `stop` returns True or for `max_seconds` in all; save the state.

    A run that stops early measures its profile in a few seconds, for its model alone: the state is that of a run which
    was never stopped. For a finished run, only the model is written again. `on_profile` returns a function that is
    called with the number of observations made.
    """
    team, config = trainer.runtime.team, trainer.config.train
    if trainer.finished:
        trained = trainer.trained_model()
        if team.is_first:
            save_model(folder / MODEL_FILE, trained)  # it may have been damaged, or a kill may have prevented it
        return
    logging: AbstractContextManager[Callable[[Metrics], Metrics]] = nullcontext(lambda metrics: metrics)
    if team.is_first:
        remove_leftovers(folder)
        write_file(folder / CONFIG_FILE, (json.dumps(trainer.config.to_dict(), indent=2) + "\n").encode())
        logging = metrics_log(folder, trainer.step, is_evaluated=trainer.step < config.steps)
    with logging as log, trainer.runtime.deterministic():
        loop = Loop(trainer, folder, stop=stop, max_seconds=max_seconds, log=lambda metrics: on_metrics(log(metrics)))
        loop.take_steps(on_step)
        loop.save()
        if trainer.step == config.steps:
            loop.measure_profile(on_profile)
        if not trainer.finished:
            loop.measure_stopped(on_profile)


class Loop:
    """The remaining steps of a run, and its end, in one process of its team."""

    def __init__(
        self,
        trainer: Trainer,
        folder: Path,
        *,
        stop: Callable[[], bool],
        log: Callable[[Metrics], None],
        max_seconds: float = math.inf,
    ) -> None:
        self._trainer, self._folder, self._log = trainer, folder, log
        self._team, self._clock = trainer.runtime.team, Clock(trainer)
        self._stop = lambda: stop() or self._clock.seconds() > max_seconds
        self._max_seconds = max_seconds

    def take_steps(self, on_step: Callable[[int], None]) -> None:
        """Take the remaining steps, or those until the run is stopped."""
        trainer, config = self._trainer, self._trainer.config.train
        while trainer.step < config.steps and not self._team.any(self._stop() or self._must_measure()):
            metrics = trainer.train_step()
            on_step(trainer.step)
            if trainer.step % config.log_every == 0 or trainer.step == config.steps:
                self._log(self._train_metrics(metrics) | self._clock.lap())
            if trainer.step % config.eval_every == 0 and trainer.step != config.steps:
                self._log_evaluation(trainer.evaluate())
            if trainer.step % config.checkpoint_every == 0:
                self.save()

    def measure_profile(self, on_profile: Callable[[int], Callable[[int], None]]) -> None:
        """Measure the final model's loss profile for the planner, which finishes the run."""
        trainer, num_draws = self._trainer, final_draws(self._trainer)
        num_items = min(num_draws, len(trainer.eval_items))
        num_passes = math.ceil(num_draws / num_items)
        on_batch = self._checking_stop(on_profile(num_passes * num_items), self._stop)
        with contextlib.suppress(Stopped):
            self._log_evaluation(trainer.evaluate(num_passes, num_items, on_batch=on_batch))
            trainer.finished = True
            self.save()

    def measure_stopped(self, on_profile: Callable[[int], Callable[[int], None]]) -> None:
        """Measure the profile of the model of a run that stops early, in few draws; the run's state stays as it is."""
        trainer, least = self._trainer, MIN_OBSERVATIONS_PER_STAGE * self._trainer.model.num_stages
        reserved = self._max_seconds - self._clock.seconds() if self._must_measure() else 0.0
        seconds = max(STOP_SECONDS, reserved)
        possible = int(seconds * self._losses_per_second())
        num_draws = min([stopped_draws(trainer), *self._team.all_gather([possible])])
        if num_draws < least:
            return
        num_items = min(num_draws, len(trainer.eval_items))
        num_passes = num_draws // num_items
        end = time.perf_counter() + 2 * seconds
        on_batch = self._checking_stop(on_profile(num_passes * num_items), lambda: time.perf_counter() > end)
        with contextlib.suppress(Stopped):
            trained = trainer.trained_model(trainer.profile_now(num_passes, num_items, on_batch))
            if self._team.is_first:
                save_model(self._folder / MODEL_FILE, trained)
            self._team.barrier()

    def _must_measure(self) -> bool:
        """Whether another step would take the time that measuring the profile needs."""
        if math.isinf(self._max_seconds) or self._trainer.step == 0:
            return False
        seconds = self._clock.seconds()
        needed = stopped_draws(self._trainer) / self._losses_per_second()
        reserved = min(needed, max(STOP_SECONDS, RESERVED_SHARE * self._max_seconds))
        return seconds + seconds / self._trainer.step + reserved > self._max_seconds

    def _losses_per_second(self) -> float:
        """How many held-out losses can be measured in a second, by the speed of the training so far."""
        trainer = self._trainer
        return LOSSES_PER_STEP_LOSS * trainer.step * trainer.config.train.batch_size / self._clock.seconds()

    def save(self) -> None:
        """Save the state; no process continues before it is saved."""
        self._clock.seconds()
        save_state(self._trainer, self._folder)
        self._team.barrier()
        self._clock.begin_lap()

    def _train_metrics(self, metrics: dict[str, Tensor]) -> Metrics:
        """Metrics of the last step; raises when the loss is no longer finite."""
        values, step = {name: float(value) for name, value in metrics.items()}, self._trainer.step
        if not math.isfinite(values["bits"]):
            raise non_finite_error(f"the loss is {values['bits']} at step {step}", self._folder)
        return {"step": step} | values | {"rate_factor": self._trainer.config.train.rate_factor(step - 1)}

    def _log_evaluation(self, evaluation: Metrics) -> None:
        self._log(evaluation | {"seconds": self._clock.seconds()})
        self._clock.begin_lap()

    def _checking_stop(self, advance: Callable[[int], None], stop: Callable[[], bool]) -> Callable[[int], None]:
        """`advance` for the batches of an evaluation, raising `Stopped` once a process finds that it should stop."""
        batches = itertools.count(1)

        def on_batch(num_items: int) -> None:
            advance(num_items)
            has_turn = next(batches) % self._team.size == 0  # once per batch of every process
            if has_turn and self._team.any(stop()):
                raise Stopped

        return on_batch


class Stopped(Exception):
    """Raised to end an evaluation that the user does not want to wait for."""


def final_draws(trainer: Trainer) -> int:
    """Number of held-out losses to measure for the planner's profile, in at most about a tenth of the training time.

    `MIN_OBSERVATIONS_PER_STAGE` takes longer only after the shortest trainings. A loss without its gradient takes a
    third of the time; the limit is a count, because a resumed run could not repeat a limit in seconds exactly.
    """
    if not trainer.config.method.is_ardm:
        return len(trainer.eval_items)  # a baseline has no profile
    model, config = trainer.model, trainer.config.train
    target = max(stopped_draws(trainer), FINAL_PASSES * len(trainer.eval_items))
    return min(target, max(MIN_OBSERVATIONS_PER_STAGE * model.num_stages, config.steps * config.batch_size // 3))


def stopped_draws(trainer: Trainer) -> int:
    """How many held-out losses are enough to plan from; a baseline has no profile, and needs none."""
    if not trainer.config.method.is_ardm:
        return 0
    return trainer.model.num_stages * min(OBSERVATIONS_PER_STAGE, 4 * trainer.model.num_variables)


class Clock:
    """Time spent on a run, in total (kept by the trainer) and in the current lap."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._before, self._started = trainer.seconds, time.perf_counter()
        self.begin_lap()

    def seconds(self) -> float:
        """Seconds of the run so far, including evaluations and earlier processes."""
        self._trainer.seconds = self._before + time.perf_counter() - self._started
        return self._trainer.seconds

    def begin_lap(self) -> None:
        """Begin a new lap, so that its speed excludes everything before."""
        self._lap_step, self._lap_started = self._trainer.step, time.perf_counter()

    def lap(self) -> Metrics:
        """Seconds so far and the speed of the lap that ends here."""
        config, steps = self._trainer.config, self._trainer.step - self._lap_step
        variables = steps * config.train.batch_size * config.data.num_variables
        speed = variables / (time.perf_counter() - self._lap_started)
        self.begin_lap()
        return {"seconds": self.seconds(), "variables_per_second": speed}
