"""Masked language models with real weights, measured as generators, before and after ten minutes of fine-tuning.

    python runs/masked_sources.py DIR
    python runs/masked_models.py DIR -o results.jsonl

For each model on its test sequences: the pseudo-log-likelihood (not a probability), the exact bits from left to right,
the bound over any order, and the bits in 40, 20 and 10 calls by planned, cosine and uniform schedules, all with 95%
intervals over the sequences; and the seconds that it takes to sample eight sequences of the usual length. Schedules are
planned from losses on sequences to train on. A line is written for each figure; a second run goes on where the first
was stopped.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import ardm
from ardm.data.corpus import spread
from ardm.masked.sequences import read_sequences
from ardm.tasks.plan import is_measured

SEQUENCES = {"sapiens": "heavy", "rxnmapper": "reactions", "rxnfp": "reactions", "antiberty": "heavy"}
BUDGETS = (40, 20, 10)
SCHEDULES: tuple[Any, ...] = ("planned", "cosine", "uniform")
NUM_FOR_PROFILE, PASSES_FOR_PROFILE = 100, 10
NUM_SAMPLED = 8
MINUTES = 10.0


@dataclass(frozen=True)
class Results:
    """Figures in a file, a line for each."""

    path: Path

    def rows(self) -> list[dict[str, Any]]:
        """The figures so far."""
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def has(self, **key: Any) -> bool:
        """Whether there is a figure like this."""
        return any(all(row.get(name) == value for name, value in key.items()) for row in self.rows())

    def add(self, **row: Any) -> None:
        """Write a figure."""
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--items", type=int, default=200, help="test sequences, evenly spread (200)")
    parser.add_argument("--samples", type=int, default=NUM_SAMPLED, help="sequences drawn together for the seconds (8)")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of fine-tuning (10)")
    parser.add_argument("--models", nargs="+", choices=SEQUENCES, default=list(SEQUENCES))
    parser.add_argument(
        "--table", action="store_true", help="print the figures so far as Markdown, and measure nothing"
    )
    parser.add_argument("--weights", choices=("published", "fine-tuned"), help="only these (both)")
    flags = parser.parse_args()
    results = Results(flags.output)
    if flags.table:
        print("\n".join(table(results.rows())))
        return
    for name in flags.models:
        kind, tuned = SEQUENCES[name], flags.folder / f"{name}-tuned"
        texts, train = (read_sequences(flags.folder / f"{kind}-{part}.txt").texts for part in ("test", "train"))
        chosen = [texts[number] for number in spread(min(flags.items, len(texts)), len(texts))]
        if flags.weights != "fine-tuned":
            measure(flags.folder / name, {"model": name, "weights": "published"}, chosen, train, results, flags.samples)
        if flags.weights == "published":
            continue
        if not (tuned / "ardm.json").exists():
            shutil.rmtree(tuned, ignore_errors=True)
            fine_tune(flags.folder, name, kind, flags.minutes)
        measure(tuned, {"model": name, "weights": "fine-tuned"}, chosen, train, results, flags.samples)


def fine_tune(folder: Path, name: str, kind: str, minutes: float) -> None:
    """Run `ardm train masked`."""
    words = ["train", "masked", "--init", f"hf:{folder / name}", "--data", f"{folder / kind}-train.txt"]
    words += ["--out", str(folder / f"{name}-tuned"), "--minutes", str(minutes)]
    subprocess.run([sys.executable, "-m", "ardm", *words], check=True)


def measure(
    folder: Path, key: dict[str, Any], texts: list[str], train: list[str], results: Results, num_samples: int
) -> None:
    """Add the figures of a model that are missing."""
    model = ardm.load(f"hf:{folder}", device="cpu")
    assert isinstance(model, ardm.MaskedModel)
    if not is_measured(model.profile):  # one that was fine-tuned has its own, from sequences that were held out
        model.measure(train[-NUM_FOR_PROFILE:], passes=PASSES_FOR_PROFILE)
    facts = {"items": len(texts), "threads": torch.get_num_threads()}
    if not results.has(**key, figure="pseudo-log-likelihood"):
        pseudo = model.pseudo_score(texts)
        figure = {"figure": "pseudo-log-likelihood", "bits": pseudo.bits_per_dim, "half_width": pseudo.half_width}
        results.add(**key, **figure, unit=pseudo.unit, **facts)
    for how in scorings():
        if not results.has(**key, **how):
            started = time.perf_counter()
            chosen = {name: value for name, value in how.items() if name != "figure"}
            score = model.score(texts, **chosen)
            bits = {"bits": score.bits_per_dim, "half_width": score.half_width, "unit": score.unit}
            results.add(**key, **how, **bits, **facts, scoring_seconds=time.perf_counter() - started)
    length = int(statistics.median(len(model.tokens.encode(text)) for text in texts))
    for calls in (length, *BUDGETS):
        if not results.has(**key, figure="sampling", calls=calls):
            started = time.perf_counter()
            model.sample(num_samples, calls=calls, shape=length)
            seconds = (time.perf_counter() - started) / num_samples
            results.add(
                **key, figure="sampling", calls=calls, length=length, samples=num_samples, seconds_each=seconds, **facts
            )


def scorings() -> Iterator[dict[str, Any]]:
    """The ways in which a model is scored."""
    yield {"figure": "bound", "order": "random", "passes": 16}
    yield {"figure": "left to right", "order": "raster"}
    for calls in BUDGETS:
        for schedule in SCHEDULES:
            yield {"figure": "bound in calls", "order": "random", "calls": calls, "schedule": schedule}


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The figures as Markdown tables: bits, and bits and seconds by calls."""
    kinds = list(dict.fromkeys((row["model"], row["weights"]) for row in rows))
    lines = [
        "| model, weights | unit, sequences | pseudo-log-likelihood | left to right | bound |",
        "|---|---|---|---|---|",
    ]
    for kind in kinds:
        own = [row for row in rows if (row["model"], row["weights"]) == kind]
        shown = [figure(own, figure=name) for name in ("pseudo-log-likelihood", "left to right", "bound")]
        lines.append(f"| {', '.join(kind)} | {own[0]['unit']}, {own[0]['items']} | {' | '.join(shown)} |")
    head = " | ".join(f"{calls} {schedule}" for calls in BUDGETS for schedule in SCHEDULES)
    lines += ["", f"| model, weights | {head} |", "|---" * (1 + len(BUDGETS) * len(SCHEDULES)) + "|"]
    for kind in kinds:
        own = [row for row in rows if (row["model"], row["weights"]) == kind]
        ways = [{"calls": calls, "schedule": schedule} for calls in BUDGETS for schedule in SCHEDULES]
        lines.append(f"| {', '.join(kind)} | {' | '.join(figure(own, **way) for way in ways)} |")
    lines += ["", "| model, weights | length | all calls | 40 | 20 | 10 |", "|---|---|---|---|---|---|"]
    for kind in kinds:
        drawn = [row for row in rows if (row["model"], row["weights"]) == kind and row["figure"] == "sampling"]
        seconds = [f"{row['seconds_each']:.2f}" for row in sorted(drawn, key=lambda row: -row["calls"])]
        lines.append(f"| {', '.join(kind)} | {drawn[0]['length'] if drawn else ''} | {' | '.join(seconds)} |")
    return lines


def figure(rows: list[dict[str, Any]], **key: Any) -> str:
    """The bits of a figure with their interval; empty if it is missing."""
    found = [row for row in rows if all(row.get(name) == value for name, value in key.items())]
    return f"{found[0]['bits']:.3f} ± {found[0]['half_width']:.3f}" if found else ""


if __name__ == "__main__":
    main()
