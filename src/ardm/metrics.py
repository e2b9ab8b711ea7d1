"""The numbers of a run: metrics.jsonl, and TensorBoard event files where TensorBoard is installed."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ardm.files import written_whole

Metrics = dict[str, Any]


@contextmanager
def metrics_log(folder: Path, first_step: int) -> Iterator[Callable[[Metrics], Metrics]]:
    """A function that appends metrics, which must have a step, and returns them.

    What an earlier process logged after `first_step` is dropped: this one will do those steps again.
    """
    path = folder / "metrics.jsonl"
    drop_lines_after(path, first_step)
    board = _tensorboard(folder, first_step + 1)
    try:
        with path.open("a", encoding="utf-8") as file:

            def log(metrics: Metrics) -> Metrics:
                file.write(json.dumps(metrics) + "\n")
                file.flush()
                for name, value in metrics.items():
                    if board is not None and name != "step":
                        board.add_scalar(name, value, metrics["step"])
                return metrics

            yield log
    finally:
        if board is not None:
            board.close()


def drop_lines_after(path: Path, step: int) -> None:
    """Keep the lines of a metrics file up to a step, without a last line that a kill cut short."""
    if path.exists():
        kept = [line for line in path.read_text(encoding="utf-8").splitlines() if _step_of(line) <= step]
        with written_whole(path) as temporary:
            temporary.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return math.inf


def _tensorboard(folder: Path, purge_step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=purge_step)
