"""Trains and measures runs of `ardm report paper` in one process, each with as many steps as fit in the same time.

    python runs/same_seconds.py DATA RUNS SECONDS NAME...

A name may carry its number of steps, as in sc09-oa:1900, and is then not timed. Steps found by timing belong in
`ardm.apps.report.paper.runs`. One process starts PyTorch once and compiles equal networks once, which saves a quarter
of the time if training takes two minutes.
"""

import json
import sys
from pathlib import Path

import torch

from ardm.apps.bench.stopwatch import seconds_per_step
from ardm.apps.bench.training import warm_up
from ardm.apps.report.paper.entries import Places, Run
from ardm.apps.report.paper.runs import RUNS
from ardm.cli.main import main, parse
from ardm.cli.train import Train
from ardm.media import load_corpus
from ardm.runtime.device import Runtime
from ardm.train.trainer import Trainer

TIMED_STEPS = 60
"""Steps that are timed; over fewer the time per step varies by a tenth."""


def train_and_measure(run: Run, places: Places, seconds: float, steps: int | None) -> None:
    """Train one run and make all of its measurements."""
    [template] = run.training("minutes")
    words = without_steps(places.words(template, run))
    if steps is None:
        step_seconds = time_a_step(words)
        steps = int(seconds / step_seconds) // 10 * 10
        print(f"{run.name}: {1000 * step_seconds:.1f} ms a step, {steps} steps", flush=True)
    check(main([*words, "--steps", str(steps), "--checkpoint-every", "1000000"]))
    folder = Path(places.runs) / run.name
    print(run.name, (folder / "metrics.jsonl").read_text().splitlines()[-1], flush=True)
    for one in run.measurements:
        for template in one.templates("minutes"):
            check(main(places.words(template, run)))
        record = json.loads((folder / f"{one.name}.json").read_text())
        if "bits_per_dim" in record:
            print(run.name, one.name, record["bits_per_dim"], record["half_width"], flush=True)


def without_steps(words: list[str]) -> list[str]:
    """The arguments of `ardm train` without --steps."""
    at = words.index("--steps")
    return words[:at] + words[at + 2 :]


def time_a_step(words: list[str]) -> float:
    """Seconds per training step, after the first few, which compile."""
    command = parse(words)
    assert isinstance(command, Train)
    config = command.config
    trainer = Trainer(config, load_corpus(config.data, command.data), Runtime.choose())
    with trainer.runtime.deterministic():
        warm_up(trainer.train_step)
        return seconds_per_step(trainer.train_step, trainer.runtime.device, 0.0, steps_at_once=TIMED_STEPS)


def check(status: int) -> None:
    """Exit if a command failed."""
    if status:
        sys.exit(status)


if __name__ == "__main__":
    data, runs, seconds, *names = sys.argv[1:]
    for spec in names:
        name, _, steps = spec.partition(":")
        torch._dynamo.reset()
        train_and_measure(RUNS[name], Places(data=data, runs=runs), float(seconds), int(steps) if steps else None)
