"""The folder of a run, and the training states in it: the last one and the previous one.

config.json                  the resolved configuration
state.safetensors            the training state after some step, replaced atomically
state.previous.safetensors   the previous one
state.damaged.safetensors    one that could not be read, if any
model.safetensors            the averaged weights alone, for evaluation
metrics.jsonl                see `metrics`
data.txt                     the path of the data, for `ardm export`
"""

import json
import shutil
from pathlib import Path
from typing import Any

from torch import Tensor

from ardm.checkpoint import read_tensors, save_model, write_tensors
from ardm.config import RunConfig
from ardm.errors import ArdmError, CheckpointError, UsageError
from ardm.names import CONFIG_FILE, MODEL_FILE
from ardm.runtime.files import write_file, written_whole
from ardm.train.metrics import METRICS_FILE
from ardm.train.trainer import Trainer

DATA_FILE = "data.txt"
STATE_FILE = "state.safetensors"
PREVIOUS_STATE_FILE = "state.previous.safetensors"
DAMAGED_STATE_FILE = "state.damaged.safetensors"
KIND = "training state"
OVERWRITTEN_FILES = {STATE_FILE, PREVIOUS_STATE_FILE, MODEL_FILE}
"""Files that a new run would overwrite."""
RUN_FILES = OVERWRITTEN_FILES | {CONFIG_FILE, DATA_FILE, DAMAGED_STATE_FILE, METRICS_FILE}

CHANGEABLE_FIELDS = {"steps", "eval_every", "checkpoint_every", "log_every", "num_shards"}
"""Fields of the configuration that a resumed run may change; with other shards it uses different random draws."""
FIELD_WORDS = {"name": "method", "num_steps": "number of diffusion steps", "num_variables": "item length"}
"""Clearer words for some fields in errors."""


def has_run(folder: Path) -> bool:
    """Whether a folder has files that a new run would overwrite."""
    return any((folder / name).exists() for name in OVERWRITTEN_FILES)


def has_foreign_files(folder: Path) -> bool:
    """Whether a folder has files, but none of a run."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return any(not name.startswith(".") for name in names) and not names & RUN_FILES


def read_config(folder: Path) -> RunConfig | None:
    """The configuration of the run in a folder; None if it has no configuration file."""
    path = folder / CONFIG_FILE
    if not path.exists():
        return None
    try:
        return RunConfig.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); restore it or start a new run") from None


def write_data_path(folder: Path, data: Path) -> None:
    """Record the path of a run's data in its folder."""
    write_file(folder / DATA_FILE, f"{data.absolute()}\n".encode())


def read_data_path(folder: Path) -> Path | None:
    """The recorded path of a run's data, if any."""
    path = folder / DATA_FILE
    return Path(path.read_text(encoding="utf-8").rstrip("\n")) if path.is_file() else None


def save_state(trainer: Trainer, folder: Path) -> None:
    """Write the state and the averaged model if all weights are finite; all processes call it, and the first writes."""
    if not trainer.is_finite():
        raise non_finite_error(f"the weights are no longer finite at step {trainer.step}", folder)
    tensors, trained = trainer.state_tensors(), trainer.trained_model()
    if not trainer.runtime.team.is_first:
        return
    if (folder / STATE_FILE).exists():  # one of the two is intact at any time
        with written_whole(folder / PREVIOUS_STATE_FILE) as temporary:
            try:
                temporary.hardlink_to(folder / STATE_FILE)
            except OSError:  # a file system without hard links
                shutil.copyfile(folder / STATE_FILE, temporary)
    description = {
        "kind": KIND,
        "config": trainer.config.to_dict(),
        "step": trainer.step,
        "seconds": trainer.seconds,
        "finished": trainer.finished,
        "measured_step": trainer.measured_step,
        "data_fingerprint": trainer.corpus.fingerprint,
    }
    write_tensors(folder / STATE_FILE, tensors, description)
    save_model(folder / MODEL_FILE, trained)


def non_finite_error(problem: str, folder: Path) -> ArdmError:
    """The error that ends a run after a non-finite value."""
    kept = "the last good state is kept" if has_run(folder) else "nothing had been saved before"
    return ArdmError(f"{problem}; {kept}. Start again with a lower learning rate")


def restore_state(trainer: Trainer, folder: Path) -> str | None:
    """Continue from the last state in a folder or, if it is damaged, the previous one; returns a note on any damage."""
    team, damage = trainer.runtime.team, None
    if team.is_first:
        tensors, description, damage = _read_newest(folder)
    team.barrier()  # the first process may move a good state into place
    if not team.is_first:
        tensors, description = read_tensors(folder / STATE_FILE, KIND)
    saved = RunConfig.from_dict(description["config"])  # fills in fields newer than the run
    if changed := changed_fields(saved.to_dict(), trainer.config.to_dict()):
        words = ", ".join(
            FIELD_WORDS.get(name, name.replace("num_", "number of ").replace("_", " ")) for name in changed
        )
        raise UsageError(
            f"the run in {folder} was started with a different {words}; resume it with the same flags "
            "(only steps, intervals and shards may change)"
        )
    if description["data_fingerprint"] != trainer.corpus.fingerprint:
        raise CheckpointError(f"the run in {folder} was trained on other data; give it the same data")
    if description["step"] > trainer.config.train.steps:
        raise UsageError(f"the run in {folder} is already at step {description['step']}; give more --steps")
    trainer.step, trainer.seconds = description["step"], description["seconds"]
    trainer.finished = description["finished"] and trainer.step == trainer.config.train.steps
    trainer.measured_step = description.get("measured_step")  # states did not say until version 0.2
    if trainer.finished and trainer.measured_step is None:
        trainer.measured_step = trainer.step
    trainer.load_state_tensors(tensors)
    return damage


def changed_fields(old: Any, new: Any, name: str = "") -> list[str]:
    """Names of the fields in which two configurations differ, except those that a resumed run may change."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = sorted(old.keys() | new.keys())
        return [field for n in names for field in changed_fields(old.get(n), new.get(n), n)]
    return [name] if old != new and name not in CHANGEABLE_FIELDS else []


def _read_newest(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], str | None]:
    """The tensors and description of the last good state in a folder, and a note on damage, if any.

    A good state replaces a damaged one.
    """
    newest, previous = folder / STATE_FILE, folder / PREVIOUS_STATE_FILE
    if not newest.exists() and not previous.exists():
        raise CheckpointError(
            f"{folder} holds a model but no training state to resume from; --init {folder} starts from its weights, "
            "with another --out"
        )
    try:
        return *read_tensors(newest, KIND), None
    except CheckpointError as error:
        if not previous.exists():
            raise
        damage = str(error) if newest.exists() else f"{newest} is missing"
    try:
        tensors, description = read_tensors(previous, KIND)
    except CheckpointError as error:
        raise CheckpointError(
            f"no training state is left to resume from: {damage}, and {error}; --init {folder} starts from the last "
            "model, with another --out"
        ) from None
    if newest.exists():
        newest.replace(folder / DAMAGED_STATE_FILE)
    previous.replace(newest)  # otherwise the next save would lose the good one
    return tensors, description, f"{damage}; the previous state, of step {description['step']}, is used"
