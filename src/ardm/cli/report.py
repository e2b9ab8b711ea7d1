"""ardm report."""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ardm.cli.common import (
    NamedOrder,
    OutputPath,
    ScheduleName,
    progress,
    require_call_per_stage,
    require_positive,
)
from ardm.errors import UsageError
from ardm.runtime.files import check_writable, check_writable_folder, to_json, write_output


@dataclass(frozen=True, kw_only=True)
class ReportCalls:
    """Bits of a model by order, and by number of calls for planned, cosine and uniform schedules, as Markdown."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """A run's folder or a model file."""
    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATA")]
    """The text8 or CIFAR-10 folder, Speech Commands, or a file or folder of your own."""
    calls: tuple[int, ...] | None = None
    """The budgets; by default 250 100 50 20 10 for text, 3072 500 100 50 for images, 1000 500 100 50 for each stage of
    sound."""
    orders: tuple[NamedOrder, ...] | None = None
    """Orders to score exactly, one variable a call; by default all but strands for text, three for images, none for
    sound."""
    passes: int = 16
    """Single steps of each item that the bound with one variable a call is estimated from."""
    schedules: tuple[ScheduleName, ...] = ("planned", "cosine", "uniform")
    """Schedules to compare in random orders."""
    planned_in: tuple[NamedOrder, ...] = ("raster", "spaced", "halton")
    """Orders in which planned schedules are scored exactly."""
    split: Literal["train", "valid", "test", "all"] | None = None
    items: int = 200
    """Items to score, spread over the split."""
    batch_size: int = 64
    seed: int = 0
    device: str | None = None
    output: OutputPath = None
    """Write the tables to this file."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Measure and print."""
        require_positive(
            items=self.items,
            batch_size=self.batch_size,
            passes=self.passes,
            calls=min(self.calls, default=0) if self.calls is not None else None,
        )
        check_writable(self.output)
        from ardm.apps.report.calls import CallsReport, markdown
        from ardm.media import medium_of
        from ardm.tasks.load import load
        from ardm.tasks.plan import planning_losses
        from ardm.tasks.score import ScoreOptions, items_to_score

        loaded = load(self.model, self.device)
        trained, model, medium = loaded.trained, loaded.ardm, medium_of(loaded.trained)
        items, title = items_to_score(trained, self.data, self.split, self.items)
        calls = medium.budgets if self.calls is None else self.calls
        require_call_per_stage(min(calls), model.num_stages)
        budgets = sorted({min(c, model.num_stages * model.num_variables) for c in calls}, reverse=True)
        orders = medium.orders if self.orders is None else self.orders
        columns = len(self.schedules) + len(self.planned_in)
        calls_an_item = self.passes + len(orders) * model.num_stages * model.num_variables + columns * sum(budgets)
        total = len(items) * calls_an_item
        opening = (
            f"scoring {title}: {1 + len(orders)} order(s), {len(budgets)} budget(s); {total:,} calls of the network"
        )
        with progress("calls", total, opening) as advance:
            options = ScoreOptions(num_passes=self.passes, batch_size=self.batch_size, seed=self.seed, on_batch=advance)
            report = CallsReport(loaded=loaded, x=items, losses=planning_losses(trained), options=options)
            singles = report.orders(orders)
            rows = report.budgets(budgets, self.schedules, self.planned_in)
        if self.json:
            tables = {"data": title, "orders": [r.to_dict() for r in singles], "budgets": [r.to_dict() for r in rows]}
            write_output(self.output, to_json(tables))
            return
        heading = f"{title}; {trained.config.preset} at step {trained.step}, seed {self.seed}\n\n"
        write_output(self.output, (heading + markdown(singles, rows, medium.unit)).encode())


@dataclass(frozen=True, kw_only=True)
class ReportPaper:
    """The paper's tables and figures: our numbers, the paper's, and the commands that make ours.

    FOLDER/report.html needs nothing beside it; FOLDER/report.md has its pictures beside it. Only the small files are
    read that runs and measurements leave in their folders, never weights.
    """

    runs: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUNS")]
    """A folder with a folder for each run, by its name; TABLE.md in it is put under a table."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FOLDER")]
    """Where the report goes."""
    scale: Literal["minutes", "paper"] = "minutes"
    """Whether runs take minutes, or are the paper's own."""
    run_missing: bool = False
    """First train and measure what is missing, which takes hours at minutes scale and weeks at the paper's."""
    only: tuple[str, ...] = ()
    """Runs to train and measure, by name, with --run-missing; all by default."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DATA")] = None
    """The folder of text8, CIFAR-10 and Speech Commands, for --run-missing."""
    json: bool = False
    """Print the tables as JSON too."""

    def run(self) -> None:
        """Run what is missing if asked to, and write the report."""
        self._check()
        from ardm.apps.report.figures import require_matplotlib
        from ardm.apps.report.paper.evidence import Evidence
        from ardm.apps.report.paper.missing import run_missing
        from ardm.apps.report.paper.report import MARKDOWN, PAGE, make_report, write_report

        require_matplotlib()
        evidence = Evidence(self.runs)
        if self.run_missing:
            assert self.data is not None
            say = partial(print, file=sys.stderr, flush=True)
            run_missing(evidence, self.scale, self.data, say, only=self.only)
        report = make_report(evidence, self.scale, self.output)
        write_report(report, self.output)
        if self.json:
            print(to_json(report.plain() | {"report": str(self.output / PAGE)}).decode())
            return
        if report.unfinished:
            print(f"not run yet: {report.num_missing} numbers; the report has the commands that make them")
        print(f"{self.output / PAGE}, {self.output / MARKDOWN}")

    def _check(self) -> None:
        from ardm.apps.report.paper.runs import RUNS

        check_writable_folder(self.output)
        if self.run_missing and self.data is None:
            raise UsageError("--run-missing trains and scores: give the folder of the data sets with --data")
        if self.only and not self.run_missing:
            raise UsageError("--only names runs for --run-missing: give both")
        if unknown := sorted({*self.only} - RUNS.keys()):
            raise UsageError(f"--only: there is no run {', '.join(unknown)}; expected {', '.join(RUNS)}")
        if not self.runs.is_dir() and not self.run_missing:
            raise UsageError(f"there is no folder of runs {self.runs}; --run-missing makes one")


@dataclass(frozen=True, kw_only=True)
class Report:
    """Tables and figures: of one model, or the paper's."""

    what: (
        Annotated[ReportCalls, tyro.conf.subcommand("calls", prefix_name=False)]
        | Annotated[ReportPaper, tyro.conf.subcommand("paper", prefix_name=False)]
    )

    def run(self) -> None:
        """Make the one that is asked for."""
        self.what.run()
