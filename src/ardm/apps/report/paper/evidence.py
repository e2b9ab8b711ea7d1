"""Results that runs have left in their folders: small JSON files, never weights."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, UInt8

from ardm.apps.report.paper.entries import PROFILE, Kind, Measurement, Row, Run
from ardm.apps.report.paper.runs import find
from ardm.errors import DataError
from ardm.names import CONFIG_FILE, MODEL_FILE, Scale
from ardm.runtime.files import to_json, write_file

Content = TypeVar("Content")
COMMANDS_FILE = "commands.json"
MEASURE_AGAIN, RESTORE = "delete it and measure again", "restore it"
"""Advice about a file that cannot be read."""
Profile = Float[np.ndarray, "S D"]
"""The loss of each step in bits; NaN marks steps that were not observed."""
Chains = UInt8[np.ndarray, "N states H W C"]
"""N sampled images with their intermediate states."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A number and how it was measured; facts that a file does not hold are empty."""

    bits: float
    half_width: float | None
    estimator: str
    data: str = ""
    seed: int | None = None
    model: Mapping[str, Any] = field(default_factory=dict)
    """preset, method, parameters, step, seed."""
    hardware: Mapping[str, Any] = field(default_factory=dict)
    """device, torch, ardm."""
    is_trained: bool = True
    """False for codecs other than ours."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The reason why a codec has no number."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a run was trained."""

    preset: str
    step: int
    seconds: float
    variables_per_second: float | None


@dataclass(frozen=True, kw_only=True)
class TextChain:
    """Sampled texts with their intermediate states, in which underscores are hidden characters."""

    calls: Sequence[int]
    """Calls made by each state; empty if the file does not say."""
    chains: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Evidence:
    """The results in a folder that has one folder per run."""

    folder: Path

    def missing(self, run: Run) -> list[Measurement]:
        """The measurements of a run that lack one of their files."""
        return [one for one in run.measurements if not all(map(self._has(run), one.files))]

    def lacks_weights(self, run: Run) -> bool:
        """Whether the folder holds measurements of a run without its model."""
        has = self._has(run)
        return any(has(name) for one in run.measurements for name in one.files) and not has(MODEL_FILE)

    def _has(self, run: Run) -> Callable[[str], bool]:
        return lambda name: (self.folder / run.name / name).is_file()

    def commands(self, run: Run) -> dict[str, str]:
        """The commands that were run, by the name of the measurement, or "train", as `run_missing` recorded them."""
        path = self.folder / run.name / COMMANDS_FILE
        return _read(path, lambda values: {str(name): str(line) for name, line in values.items()}) or {}

    def record(self, run: Run, name: str, line: str) -> None:
        """Record a command that was run."""
        path = self.folder / run.name / COMMANDS_FILE
        write_file(path, to_json(self.commands(run) | {name: line}))

    def measured(self, row: Row) -> Measured | Failed | None:
        """The number of a row; None if it has not been measured."""
        if row.key is None:
            return None
        codec = row.codec
        return _read(self._path(row.key), _measured if codec is None else lambda values: _coded(values, codec))

    def training(self, run: Run, scale: Scale) -> Training | None:
        """How a run was trained; a DataError if the folder holds another kind of run."""
        folder, expected = self.folder / run.name, run.kind(scale)
        found = _read(folder / CONFIG_FILE, _kind, RESTORE)
        if found is not None and found != expected:
            raise DataError(
                f"{folder} holds a run of {found}, but this report expects {expected}: choose --scale, or another "
                "folder of runs"
            )
        log = folder / "metrics.jsonl"
        if found is None or not log.is_file():
            return None
        return _guarded(log, lambda: _training(found.preset, log.read_text(encoding="utf-8")), RESTORE)

    def profile(self, key: str) -> Profile | None:
        """The loss profile of the run in RUN/MEASUREMENT."""
        return _read(self.folder / key.partition("/")[0] / f"{PROFILE}.json", _profile)

    def text_chain(self, key: str) -> TextChain | None:
        """Sampled texts."""
        return _read(self._path(key), _text_chain)

    def image_chains(self, key: str) -> Chains | None:
        """Sampled images."""
        return _read(self._path(key), _image_chains)

    def comment(self, name: str) -> str:
        """The text of TABLE.md, if there is one."""
        path = self.folder / f"{name}.md"
        return _guarded(path, lambda: path.read_text(encoding="utf-8").strip()) if path.is_file() else ""

    def _path(self, key: str) -> Path:
        run, measurement = find(key)
        return self.folder / run.name / f"{measurement.name}.json"


def _read(path: Path, parse: Callable[[Any], Content], advice: str = MEASURE_AGAIN) -> Content | None:
    """The parsed content of a JSON file; None if there is no file."""
    if not path.is_file():
        return None
    return _guarded(path, lambda: parse(json.loads(path.read_text(encoding="utf-8"))), advice)


def _guarded(path: Path, work: Callable[[], Content], advice: str = MEASURE_AGAIN) -> Content:
    """The result of reading a file; a DataError of one line names the file if that fails."""
    try:
        return work()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OSError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{path} is damaged or of another kind ({reason}); {advice}") from None


def _measured(values: Any) -> Measured:
    return Measured(
        bits=_number(values["bits_per_dim"]),
        half_width=_number_or_none(values.get("half_width")),
        estimator=str(values["estimator"]),
        data=str(values.get("data", "")),
        seed=values.get("seed"),
        model=dict(values.get("model", {})),
        hardware=dict(values.get("hardware", {})),
    )


def _coded(rows: Any, codec: str) -> Measured | Failed:
    """The row of a codec in the output of `ardm bench codec`."""
    row = next((row for row in rows if row["name"].startswith(codec)), None)
    if row is None or row["failure"] is not None:
        return Failed(reason="not in the benchmark" if row is None else str(row["failure"]))
    network = row.get("network")
    return Measured(
        bits=_number(row["bits_per_variable"]),
        half_width=_number_or_none(row["half_width"]),
        estimator=f"{row['name']}: whole files, restored and compared",
        data=f"{row['num_items']} items",
        model=dict(row.get("model") or {}),
        hardware=dict(row.get("hardware") or ({} if network is None else {"device": network["device"]})),
        is_trained=network is not None,
    )


def _kind(values: Any) -> Kind:
    method = values.get("method", {"name": "ardm"})  # all older runs trained ARDMs
    depth = values["depth"]
    return Kind(
        preset=str(values["preset"]),
        method=str(method["name"]),
        base=None if depth["base"] is None else int(depth["base"]),
        parametrization=str(depth["parametrization"]),
        min_log_scale=_number(depth["min_log_scale"]),
    )


def _training(preset: str, log: str) -> Training | None:
    """The last state in a run's log; None if there is none yet. A last line cut short by a kill does not count."""
    lines = [json.loads(line) for line in log.split("\n")[:-1]]
    if not lines:
        return None
    speeds = [line["variables_per_second"] for line in lines if "variables_per_second" in line]
    return Training(
        preset=preset,
        step=int(lines[-1]["step"]),
        seconds=_number(lines[-1]["seconds"]),
        variables_per_second=_number(speeds[-1]) if speeds else None,
    )


def _profile(values: Any) -> Profile:
    losses = np.array(values, dtype=float)
    if losses.ndim != 2 or not (losses >= 0).any(axis=1).all() or np.isinf(losses).any() or (losses < 0).any():
        raise ValueError("expected stages of losses in bits, some observed in each")
    return losses


def _text_chain(values: Any) -> TextChain:
    chains = [[str(state) for state in chain] for chain in values["chains"]]
    calls = [int(call) for call in values.get("state_calls", [])]
    if len(calls) not in (0, len(chains[0])):
        raise ValueError(f"{len(chains[0])} states and {len(calls)} numbers of calls")
    return TextChain(chains=chains, calls=calls)


def _image_chains(values: Any) -> Chains:
    pixels = np.array(values["chains"])
    if pixels.ndim != 5 or pixels.dtype.kind != "i" or pixels.min() < 0 or pixels.max() > 255:
        raise ValueError("expected chains of states of rows of pixels")
    return pixels.astype(np.uint8)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise TypeError(f"expected a number, got {value!r}")
    return float(value)


def _number_or_none(value: Any) -> float | None:
    return None if value is None else _number(value)
