"""Trains and measures the runs that the report lacks."""

import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from ardm.apps.report.paper.entries import TRAINING, Places, Run
from ardm.apps.report.paper.evidence import Evidence
from ardm.apps.report.paper.runs import RUNS
from ardm.errors import ArdmError
from ardm.names import Scale

Runner = Callable[[Sequence[str]], int]
"""Runs `ardm` with these arguments and returns its exit status."""


def run_missing(
    evidence: Evidence,
    scale: Scale,
    data: Path,
    log: Callable[[str], None],
    runner: Runner | None = None,
    only: Collection[str] = (),
) -> None:
    """Train and measure what is missing, in all runs or only those named; stop at the first command that fails."""
    places = Places(data=str(data), runs=str(evidence.folder))
    for run in [RUNS[name] for name in only or RUNS]:
        for name, templates in _missing_templates(run, evidence, scale):
            for template in templates:
                line = places.line([template], run)
                log(line)
                status = (runner or run_ardm)(places.words(template, run))
                if status != 0:
                    raise ArdmError(f"exit status {status} of {line}; no report was written")
            evidence.record(run, name, places.line(templates, run))


def _missing_templates(run: Run, evidence: Evidence, scale: Scale) -> Iterator[tuple[str, list[str]]]:
    """The missing commands of a run by what they make. A finished run is resumed, which trains nothing."""
    missing, training = evidence.missing(run), run.training(scale)
    if not missing:
        return
    if training and evidence.lacks_weights(run):
        raise ArdmError(
            f"{evidence.folder / run.name} holds results of a run without its weights, and training it again would "
            "mix both: choose another folder of runs, or delete this one"
        )
    if training:
        yield TRAINING, training
    for one in missing:
        yield one.name, one.templates(scale)


def run_ardm(arguments: Sequence[str]) -> int:
    """Run `ardm` in its own session; an interrupt of this process terminates it, so that training saves its state."""
    with subprocess.Popen([sys.executable, "-m", "ardm", *arguments], start_new_session=True) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:
            child.terminate()
            child.wait()
            raise
