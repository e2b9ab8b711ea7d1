"""The training loop: steps, evaluations, checkpoints and metrics, until done or told to stop."""

import contextlib
import itertools
import json
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from torch import Tensor

from ardm.checkpoint import MODEL_FILE, save_model
from ardm.runtime.files import remove_leftovers, written_whole
from ardm.train.metrics import Metrics, metrics_log
from ardm.train.run_folder import CONFIG_FILE, not_finite, save_state
from ardm.train.trainer import Trainer

FINAL_PASSES = 8
"""Passes over the held-out items at the end of training, where the training took long enough."""
OBSERVATIONS_PER_STAGE = 1000
"""Held-out losses of each stage at the end of training, which schedules will be planned from; 4 a step are enough."""
MIN_OBSERVATIONS_PER_STAGE = 8
"""Held-out losses of each stage at the end of however short a training."""


def run_training(
    trainer: Trainer,
    folder: Path,
    *,
    stop: Callable[[], bool] = lambda: False,
    on_metrics: Callable[[Metrics], None] = lambda metrics: None,
    on_step: Callable[[int], None] = lambda step: None,
    on_profile: Callable[[int], Callable[[int], None]] = lambda num_observations: lambda count: None,
) -> None:
    """Train to the configured number of steps, or until `stop` says so; the state is saved either way.

    Of a run that is finished already only the model is written again. `on_profile` gives a function that is told of
    observations made.
    """
    team, config = trainer.runtime.team, trainer.config.train
    if trainer.finished:
        trained = trainer.trained_model()
        if team.is_first:
            save_model(folder / MODEL_FILE, trained)  # a kill may have come before it, or damage since
        return
    if team.is_first:
        prepare_folder(trainer, folder)
    is_evaluated = trainer.step < config.steps
    logging = metrics_log(folder, trainer.step, is_evaluated=is_evaluated) if team.is_first else nullcontext(unlogged)
    with logging as log, trainer.runtime.deterministic():
        loop = Loop(trainer, folder, stop=stop, log=lambda metrics: on_metrics(log(metrics)))
        loop.take_steps(on_step)
        loop.save()
        if trainer.step == config.steps:
            loop.measure_profile(on_profile)


class Loop:
    """What a run does in one process of its team, from the step that it is at."""

    def __init__(
        self, trainer: Trainer, folder: Path, *, stop: Callable[[], bool], log: Callable[[Metrics], None]
    ) -> None:
        self._trainer, self._folder, self._stop, self._log = trainer, folder, stop, log
        self._team, self._clock = trainer.runtime.team, Clock(trainer)

    def take_steps(self, on_step: Callable[[int], None]) -> None:
        """All steps that are left, or those until told to stop."""
        trainer, config = self._trainer, self._trainer.config.train
        while trainer.step < config.steps and not self._team.any(self._stop()):
            metrics = trainer.train_step()
            on_step(trainer.step)
            if trainer.step % config.log_every == 0 or trainer.step == config.steps:
                self._log(self._train_metrics(metrics) | self._clock.lap())
            if trainer.step % config.eval_every == 0 and trainer.step != config.steps:
                self._log_evaluation(trainer.evaluate())
            if trainer.step % config.checkpoint_every == 0:
                self.save()

    def measure_profile(self, on_profile: Callable[[int], Callable[[int], None]]) -> None:
        """A closer look at the finished model, whose profile the planner will use; then the run is finished too."""
        trainer, num_draws = self._trainer, final_draws(self._trainer)
        num_items = min(num_draws, trainer.num_eval_items)
        num_passes = math.ceil(num_draws / num_items)
        on_batch = self._heeding_stop(on_profile(num_passes * num_items))
        with contextlib.suppress(Stopped):
            self._log_evaluation(trainer.evaluate(num_passes, num_items, on_batch=on_batch))
            trainer.finished = True
            self.save()

    def save(self) -> None:
        """Save the state, which is there when all processes go on."""
        self._clock.seconds()
        save_state(self._trainer, self._folder)
        self._team.barrier()
        self._clock.begin_lap()

    def _train_metrics(self, metrics: dict[str, Tensor]) -> Metrics:
        """Numbers of the last step; raises when the loss is no longer finite."""
        values, step = {name: float(value) for name, value in metrics.items()}, self._trainer.step
        if not math.isfinite(values["bits"]):
            raise not_finite(f"the loss is {values['bits']} at step {step}", self._folder)
        return {"step": step} | values | {"rate_factor": self._trainer.config.train.rate_factor(step - 1)}

    def _log_evaluation(self, evaluation: Metrics) -> None:
        self._log(evaluation | {"seconds": self._clock.seconds()})
        self._clock.begin_lap()

    def _heeding_stop(self, advance: Callable[[int], None]) -> Callable[[int], None]:
        """What is told of batches, and ends the evaluation that makes them when the run is to stop."""
        batches = itertools.count(1)

        def on_batch(num_items: int) -> None:
            advance(num_items)
            if next(batches) % self._team.size == 0 and self._team.any(self._stop()):  # a batch of each process later
                raise Stopped

        return on_batch


def unlogged(metrics: Metrics) -> Metrics:
    """What takes the place of a log in all processes but the first."""
    return metrics


class Stopped(Exception):
    """Raised within an evaluation that the user does not want to wait for."""


def final_draws(trainer: Trainer) -> int:
    """Held-out losses to measure for a profile to plan from, in at most about a tenth of the training's time.

    Only the shortest trainings are followed by more, `MIN_OBSERVATIONS_PER_STAGE`. The limit is a number, as a
    resumed run would not repeat one in seconds to the bit; a loss without its gradient takes a third of the time of one
    in training.
    """
    if not trainer.config.method.is_ardm:
        return trainer.num_eval_items  # it has no profile
    model, config = trainer.model, trainer.config.train
    observations = model.num_stages * min(OBSERVATIONS_PER_STAGE, 4 * model.num_variables)
    wanted = max(observations, FINAL_PASSES * trainer.num_eval_items)
    return min(wanted, max(MIN_OBSERVATIONS_PER_STAGE * model.num_stages, config.steps * config.batch_size // 3))


class Clock:
    """Time spent on a run: in all, which the trainer keeps, and since a lap began."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._before, self._started = trainer.seconds, time.perf_counter()
        self.begin_lap()

    def seconds(self) -> float:
        """All seconds of the run so far, evaluations and earlier processes included."""
        self._trainer.seconds = self._before + time.perf_counter() - self._started
        return self._trainer.seconds

    def begin_lap(self) -> None:
        """Begin a new lap, so that what came before does not count in its speed."""
        self._lap_step, self._lap_started = self._trainer.step, time.perf_counter()

    def lap(self) -> Metrics:
        """All seconds so far and the speed of the lap that ends here."""
        config, steps = self._trainer.config, self._trainer.step - self._lap_step
        variables = steps * config.train.batch_size * config.data.num_variables
        speed = variables / (time.perf_counter() - self._lap_started)
        self.begin_lap()
        return {"seconds": self.seconds(), "variables_per_second": speed}


def prepare_folder(trainer: Trainer, folder: Path) -> None:
    """The run's folder with its configuration, rid of what a killed run was writing."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    with written_whole(folder / CONFIG_FILE) as temporary:
        temporary.write_text(json.dumps(trainer.config.to_dict(), indent=2) + "\n", encoding="utf-8")
