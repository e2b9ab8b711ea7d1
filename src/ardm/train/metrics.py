"""Metrics of a run: metrics.jsonl, and TensorBoard event files if TensorBoard is installed."""

import itertools
import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ardm.runtime.files import naming, write_file

Metrics = dict[str, Any]
METRICS_FILE = "metrics.jsonl"


@contextmanager
def metrics_log(folder: Path, first_step: int, *, is_evaluated: bool = True) -> Iterator[Callable[[Metrics], Metrics]]:
    """A context with a function that appends metrics, which must have a step, to the log and returns them.

    Metrics that an earlier process logged after `first_step` are dropped, since those steps are repeated, and so is the
    evaluation at `first_step` unless that step `is_evaluated` already.
    """
    path = folder / METRICS_FILE

    def is_repeated(metrics: Metrics) -> bool:
        step = metrics.get("step")
        step = step if isinstance(step, (int, float)) else math.inf
        return step > first_step or (step == first_step and not is_evaluated and "bits" not in metrics)

    drop_lines(path, is_repeated)
    with _tensorboard(folder, first_step + 1) as board:

        def log(metrics: Metrics) -> Metrics:
            with naming(path), path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(metrics) + "\n")
            board(metrics)
            return metrics

        yield log


def set_metrics_aside(folder: Path) -> Path | None:
    """Rename the metrics of an earlier run, if there are any, and return their new path."""
    path = folder / METRICS_FILE
    if not path.exists() or path.stat().st_size == 0:
        return None
    names = (path.with_name(f"metrics.before-{number}.jsonl") for number in itertools.count(1))
    return path.rename(next(name for name in names if not name.exists()))


def drop_lines(path: Path, is_dropped: Callable[[Metrics], bool]) -> None:
    """Drop lines of a metrics file, including any that a kill or a full disk truncated."""
    if path.exists():
        lines = path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if (metrics := _parsed(line)) is not None and not is_dropped(metrics)]
        if kept != lines:
            write_file(path, b"".join(kept))


def _parsed(line: bytes) -> Metrics | None:
    """The metrics of a line; None if it is truncated."""
    try:
        metrics = json.loads(line)
    except ValueError:
        return None
    return metrics if isinstance(metrics, dict) and line.endswith(b"\n") else None


@contextmanager
def _tensorboard(folder: Path, purge_step: int) -> Iterator[Callable[[Metrics], None]]:
    """A context with a function that passes metrics to TensorBoard, or does nothing if that is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        yield lambda metrics: None
        return
    name = f"TensorBoard's file in {folder}"
    with _without_thread_errors():
        with naming(name):
            writer = SummaryWriter(str(folder), purge_step=purge_step)

        def log(metrics: Metrics) -> None:
            with naming(name):
                for key, value in metrics.items():
                    if key != "step":
                        writer.add_scalar(key, value, metrics["step"])

        try:
            yield log
        finally:
            with naming(name):
                writer.close()


@contextmanager
def _without_thread_errors() -> Iterator[None]:
    """A context that hides OSErrors in TensorBoard's writing thread; the next call raises them again."""
    before = threading.excepthook

    def hook(lost: threading.ExceptHookArgs) -> None:
        if not issubclass(lost.exc_type, OSError):
            before(lost)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before
