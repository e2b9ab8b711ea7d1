"""Tables filled with measured numbers, in the same words for Markdown, HTML and JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ardm.apps.report.paper.entries import TRAINING, Row, Run, Table, command_line, training_line
from ardm.apps.report.paper.evidence import Evidence, Failed, Measured, Training
from ardm.apps.report.paper.runs import find
from ardm.names import Scale


@dataclass(frozen=True, kw_only=True)
class FilledRow:
    """A row with its number."""

    row: Row
    run: Run | None = None
    result: Measured | Failed | None = None
    command: str = ""
    """The command that measured the number or, if it was not recorded, measures it; empty if there is none.

    Without a number, it comes after the run's training.
    """
    trained_by: str = ""
    """The recorded command that trained the run, if any."""
    training: Training | None = None

    @property
    def is_missing(self) -> bool:
        """Whether its command has not been run."""
        return self.run is not None and self.result is None

    @property
    def is_measured(self) -> bool:
        """Whether there is a number of ours."""
        return isinstance(self.result, Measured)

    @property
    def ours(self) -> str:
        """Our number with its interval, or words in its place."""
        if not isinstance(self.result, Measured):
            return "not run" if self.is_missing else "-"
        half_width = self.result.half_width
        return f"{self.result.bits:.3f}" + ("" if half_width is None else f" ± {half_width:.3f}")

    @property
    def remark(self) -> str:
        """Why there is no number, if its command would not help."""
        return self.result.reason if isinstance(self.result, Failed) else self.row.absent

    def details(self) -> tuple[str, ...] | None:
        """How the number was measured: number, scored, trained, hardware; None without a number."""
        if not isinstance(self.result, Measured):
            return None
        seed = "" if self.result.seed is None else f"seed {self.result.seed}"
        label = f"{self.row.method}, {self.row.calls} calls" if self.row.calls else self.row.method
        scored = _joined(self.result.estimator, self.result.data, seed)
        trained = ""
        if self.run is not None and self.result.is_trained:
            trained = _trained(self.run, self.training, self.result.model)
        hardware = dict(self.result.hardware)
        device = str(hardware.pop("device", ""))
        return label, scored, trained, _joined(device, *(f"{name} {value}" for name, value in hardware.items()))

    def plain(self) -> dict[str, Any]:
        """Plain values for JSON."""
        measured = self.result if isinstance(self.result, Measured) else None
        return {
            "method": self.row.method,
            "calls": self.row.calls,
            "bits_per_dim": None if measured is None else measured.bits,
            "half_width": None if measured is None else measured.half_width,
            "paper": self.row.paper or None,
            "command": self.command or None,
            "remark": self.remark or None,
        }


@dataclass(frozen=True, kw_only=True)
class FilledTable:
    """A table with its numbers and our comment."""

    table: Table
    rows: Sequence[FilledRow]
    comment: str
    scale: Scale

    def details(self) -> list[tuple[str, ...]]:
        """How its numbers were measured."""
        return [details for row in self.rows if (details := row.details()) is not None]

    def trainings(self) -> list[tuple[str, str]]:
        """The commands that train its runs, each with the one at the paper's scale if that differs."""
        rows = {row.run.name: row for row in self.rows if row.run is not None and row.run.start is not None}
        lines = []
        for row in rows.values():
            assert row.run is not None
            ours, full = training_line(row.run, self.scale), training_line(row.run, "paper")
            lines.append((row.trained_by or ours, "" if ours == full else full))
        return lines


def fill(table: Table, evidence: Evidence, scale: Scale) -> FilledTable:
    """A table with its measured numbers."""
    rows = [_fill_row(row, evidence, scale) for row in table.rows]
    return FilledTable(table=table, rows=rows, comment=evidence.comment(table.name), scale=scale)


def _fill_row(row: Row, evidence: Evidence, scale: Scale) -> FilledRow:
    if row.key is None:
        return FilledRow(row=row)
    run, measurement = find(row.key)
    result = evidence.measured(row)
    training, recorded = evidence.training(run, scale), evidence.commands(run)
    command = command_line(run, measurement, scale, is_trained=result is not None)
    if result is not None:
        command = recorded.get(measurement.name, command)
    trained_by = recorded.get(TRAINING, "")
    return FilledRow(row=row, run=run, result=result, command=command, trained_by=trained_by, training=training)


def _trained(run: Run, training: Training | None, model: Mapping[str, Any]) -> str:
    parts = [run.name]
    parts += [f"{model['parameters']:,} parameters"] if isinstance(model.get("parameters"), int) else []
    if training is not None:
        parts += [f"preset {training.preset}", f"{training.step:,} steps", f"{training.seconds / 60:.1f} minutes"]
        speed = training.variables_per_second
        parts += [] if speed is None else [f"{speed / 1e6:.2f}M variables/s"]
    parts += [f"seed {model['seed']}"] if "seed" in model else []
    return _joined(*parts)


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))
