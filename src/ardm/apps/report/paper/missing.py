"""Runs what the report misses, one command after another."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ardm.apps.report.paper.commands import Places
from ardm.apps.report.paper.entries import Run, Scale
from ardm.apps.report.paper.evidence import Evidence
from ardm.apps.report.paper.runs import RUNS
from ardm.errors import ArdmError

Runner = Callable[[Sequence[str]], int]
"""Runs `ardm` with these arguments and returns its exit status."""


def run_missing(
    evidence: Evidence, scale: Scale, data: Path, say: Callable[[str], None], runner: Runner | None = None
) -> None:
    """Train and measure what is not there yet; stop at the first command that fails."""
    places = Places(data=str(data), runs=str(evidence.folder))
    for run in RUNS.values():
        for template in _templates(run, evidence, scale):
            say(places.line(template, run))
            status = (runner or run_ardm)(places.words(template, run))
            if status != 0:
                raise ArdmError(f"exit status {status} of {places.line(template, run)}; no report was written")


def _templates(run: Run, evidence: Evidence, scale: Scale) -> Iterator[str]:
    """The commands of a run that are missing. A run that has been trained is resumed, and then has nothing to do."""
    missing = [one for one in run.measurements if not evidence.has(run, one)]
    training = run.training(scale)
    if not missing:
        return
    if training and evidence.lacks_weights(run):
        raise ArdmError(
            f"{evidence.folder / run.name} holds what a run has left without its weights, and training it anew "
            "would mix both: choose another folder of runs, or delete this one"
        )
    yield from training
    for one in missing:
        yield from one.templates(scale)


def run_ardm(arguments: Sequence[str]) -> int:
    """Run `ardm` in a session of its own, and end it when this process is to end: training saves its state then."""
    with subprocess.Popen([sys.executable, "-m", "ardm", *arguments], start_new_session=True) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:
            child.terminate()
            child.wait()
            raise
