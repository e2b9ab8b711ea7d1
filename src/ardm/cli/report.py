"""ardm report."""

import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from ardm.cli.common import BatchSize, Device, OutputPath, Seed, progress, require_calls, require_positive
from ardm.cli.masked import AnyMaskedDataFlags, MaskedDataFlags, report_masked
from ardm.errors import UsageError
from ardm.masked import is_masked
from ardm.names import NamedOrder, Scale, ScheduleKind, Split
from ardm.runtime.files import check_writable, check_writable_folder, to_json, write_output


@dataclass(frozen=True, kw_only=True)
class ReportCalls:
    """Tabulate a model's bits by order and by number of calls, for planned, cosine and uniform schedules (Markdown)."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """A run's folder, a model file, or a masked language model: hf:NAME or hf:FOLDER."""
    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATA")]
    """The folder of text8, CIFAR-10 or Speech Commands, or a file or folder of your own; for a masked language model a
    file of sequences."""
    calls: tuple[int, ...] | None = None
    """Call budgets; default: 250 100 50 20 10 (text), 3072 500 100 50 (images), 1000 500 100 50 per stage (sound)."""
    orders: tuple[NamedOrder, ...] | None = None
    """Orders scored exactly, one variable per call; default: all but strands for text, three for images, else none."""
    passes: int = 16
    """Steps drawn per item to estimate the bound with one variable per call."""
    schedules: tuple[ScheduleKind, ...] = ("planned", "cosine", "uniform")
    """Schedules compared in random orders."""
    planned_in: tuple[NamedOrder, ...] = ("raster", "spaced", "halton")
    """Orders in which planned schedules are scored exactly."""
    split: Split | None = None
    """Split to score. Default: test for a published set or the data the model was trained on, all for other data."""
    items: int = 200
    """Number of items to score, spread over the split."""
    batch_size: BatchSize = 64
    seed: Seed = 0
    device: Device = None
    output: OutputPath = None
    """Write the tables to this file."""
    json: bool = False
    """Print JSON."""
    masked: AnyMaskedDataFlags = field(default_factory=MaskedDataFlags)

    def run(self) -> None:
        """Measure and print."""
        require_positive(
            items=self.items,
            batch_size=self.batch_size,
            passes=self.passes,
            calls=min(self.calls, default=0) if self.calls is not None else None,
        )
        check_writable(self.output)
        if is_masked(self.model):
            report_masked(self)
            return
        self.masked.check_unused(self.model)
        from ardm.apps.report.calls import CallsReport, markdown
        from ardm.media import medium_of
        from ardm.tasks.load import load
        from ardm.tasks.plan import planning_losses, profile_warning
        from ardm.tasks.score import ScoreOptions, items_to_score

        loaded = load(self.model, self.device)
        trained, model, medium = loaded.trained, loaded.ardm, medium_of(loaded.trained)
        items, title = items_to_score(trained, self.data, self.split, self.items)
        calls = medium.budgets if self.calls is None else self.calls
        require_calls(min(calls), model.num_stages)
        budgets = sorted({min(c, model.num_stages * model.num_variables) for c in calls}, reverse=True)
        orders = medium.orders if self.orders is None else self.orders
        columns = len(self.schedules) + len(self.planned_in)
        calls_per_item = self.passes + len(orders) * model.num_stages * model.num_variables + columns * sum(budgets)
        total = len(items) * calls_per_item
        opening = f"scoring {title}; orders: {1 + len(orders)}, budgets: {len(budgets)}, network calls: {total:,}"
        with progress("calls", total, opening) as advance:
            options = ScoreOptions(num_passes=self.passes, batch_size=self.batch_size, seed=self.seed, on_batch=advance)
            report = CallsReport(
                loaded=loaded,
                x=items,
                losses=planning_losses(trained),
                options=options,
            )
            singles = report.orders(orders)
            rows = report.budgets(budgets, self.schedules, self.planned_in)
        if self.json:
            tables = {
                "data": title,
                "profile": trained.profile_source,
                "orders": [r.to_dict() for r in singles],
                "budgets": [r.to_dict() for r in rows],
            }
            write_output(self.output, to_json(tables))
            return
        warning = profile_warning(trained.profile_source)
        heading = f"{title}; {trained.config.preset} at step {trained.step}, seed {self.seed}\n\n"
        heading += f"Planned schedules may not be the best: {warning}.\n\n" if warning else ""
        write_output(self.output, (heading + markdown(singles, rows, medium.unit)).encode())


@dataclass(frozen=True, kw_only=True)
class ReportPaper:
    """Write the paper's tables and figures: our numbers, the paper's, and the commands that produce ours.

    FOLDER/report.html has its pictures embedded; those of FOLDER/report.md are files next to it. Only the small result
    files of runs are read, never weights.
    """

    runs: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUNS")]
    """A folder with one folder per run; a file TABLE.md in it is shown below the table of that name."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FOLDER")]
    """Folder to write the report to."""
    scale: Scale = "minutes"
    """Which runs to report: those of minutes on one GPU, those with the paper's own networks and steps, or small ones
    of minutes on two CPU cores."""
    run_missing: bool = False
    """First train and measure what is missing, which takes hours at the minutes scale and weeks at the paper's."""
    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME ...]")] = ()
    """Runs to train and measure, by name, with --run-missing; all by default."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DATA")] = None
    """Folder of text8, CIFAR-10 and Speech Commands, for --run-missing."""
    json: bool = False
    """Print the tables as JSON."""

    def run(self) -> None:
        """Write the report; with --run-missing, first train and measure what is missing."""
        self._check()
        from ardm.apps.report.paper.evidence import Evidence
        from ardm.apps.report.paper.missing import run_missing
        from ardm.apps.report.paper.report import MARKDOWN, PAGE, make_report, write_report
        from ardm.library.plots import require_matplotlib

        require_matplotlib()
        evidence = Evidence(self.runs)
        if self.run_missing:
            assert self.data is not None
            log = partial(print, file=sys.stderr, flush=True)
            run_missing(evidence, self.scale, self.data, log, only=self.only)
        report = make_report(evidence, self.scale, self.output)
        write_report(report, self.output)
        if self.json:
            print(to_json(report.plain() | {"report": str(self.output / PAGE)}).decode())
            return
        if report.unfinished:
            print(f"{report.num_missing} numbers have not been measured; the report has the commands that measure them")
        print(f"{self.output / PAGE}, {self.output / MARKDOWN}")

    def _check(self) -> None:
        from ardm.apps.report.paper.runs import RUNS

        check_writable_folder(self.output)
        if self.run_missing and self.data is None:
            raise UsageError("--run-missing trains and scores: --data must name the folder of the data sets")
        if self.only and not self.run_missing:
            raise UsageError("--only names runs for --run-missing: give both")
        if unknown := sorted({*self.only} - RUNS.keys()):
            raise UsageError(f"--only: there is no run {', '.join(unknown)}; expected {', '.join(RUNS)}")
        if not self.runs.is_dir() and not self.run_missing:
            raise UsageError(f"there is no folder {self.runs} of runs; --run-missing makes one")


@dataclass(frozen=True, kw_only=True)
class Report:
    """Make tables and figures of one model, or those of the paper."""

    what: (
        Annotated[ReportCalls, tyro.conf.subcommand("calls", prefix_name=False)]
        | Annotated[ReportPaper, tyro.conf.subcommand("paper", prefix_name=False)]
    )

    def run(self) -> None:
        """Make the chosen report."""
        self.what.run()
