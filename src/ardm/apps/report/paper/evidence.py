"""What runs have left in their folders: small JSON files, never weights."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, UInt8

from ardm.apps.report.paper.entries import PROFILE, Kind, Measurement, Row, Run, Scale
from ardm.apps.report.paper.runs import find
from ardm.errors import DataError

Content = TypeVar("Content")
MODEL_FILE = "model.safetensors"
MEASURE_AGAIN, RESTORE = "delete it and measure again", "restore it"
"""What to do about a file that cannot be read."""
Profile = Float[np.ndarray, "S D"]
"""The losses of all steps in bits, NaN where there is no observation."""
Chains = UInt8[np.ndarray, "N states H W C"]
"""N images as they come about."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A number, and how it was found; what a file does not say is empty."""

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
    """Whether a model of ours gave it, and not a codec of others."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A codec that has no number, and why."""

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
    """Samples as they come about, hidden characters as underscores."""

    calls: Sequence[int]
    """Made when each state was reached; empty where the file does not say."""
    chains: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Evidence:
    """A folder of runs, a folder each."""

    folder: Path

    def has(self, run: Run, measurement: Measurement) -> bool:
        """Whether everything that a measurement writes is there."""
        return all((self.folder / run.name / name).is_file() for name in measurement.files)

    def lacks_weights(self, run: Run) -> bool:
        """Whether a run was measured whose model is not here."""
        folder = self.folder / run.name
        is_measured = any((folder / name).is_file() for one in run.measurements for name in one.files)
        return is_measured and not (folder / MODEL_FILE).is_file()

    def measured(self, row: Row) -> Measured | Failed | None:
        """The number of a row; None where it has not been measured."""
        if row.of is None:
            return None
        path = self._path(row.of)
        codec = row.codec
        return _read(path, _measured if codec is None else lambda values: _coded(values, codec))

    def training(self, run: Run, scale: Scale) -> Training | None:
        """How a run was trained; an error where that was at another scale."""
        folder, expected = self.folder / run.name, run.kind(scale)
        found = _read(folder / "config.json", _kind, RESTORE)
        if found is not None and found != expected:
            raise DataError(
                f"{folder} holds a run of {found}, and this report is of {expected}: choose --scale, or another folder "
                "of runs"
            )
        log = folder / "metrics.jsonl"
        if found is None or not log.is_file():
            return None
        return _guarded(log, lambda: _training(found.preset, log.read_text(encoding="utf-8")), RESTORE)

    def profile(self, run_name: str) -> Profile | None:
        """The losses of a run."""
        return _read(self.folder / run_name / f"{PROFILE}.json", _profile)

    def text_chain(self, of: str) -> TextChain | None:
        """Texts as they come about."""
        return _read(self._path(of), _text_chain)

    def image_chains(self, of: str) -> Chains | None:
        """Images as they come about."""
        return _read(self._path(of), _image_chains)

    def comment(self, name: str) -> str:
        """What TABLE.md says of a table."""
        path = self.folder / f"{name}.md"
        return _guarded(path, lambda: path.read_text(encoding="utf-8").strip()) if path.is_file() else ""

    def _path(self, of: str) -> Path:
        run, measurement = find(of)
        return self.folder / run.name / f"{measurement.name}.json"


def _read(path: Path, parse: Callable[[Any], Content], advice: str = MEASURE_AGAIN) -> Content | None:
    """What a JSON file holds; None where there is no file."""
    if not path.is_file():
        return None
    return _guarded(path, lambda: parse(json.loads(path.read_text(encoding="utf-8"))), advice)


def _guarded(path: Path, work: Callable[[], Content], advice: str = MEASURE_AGAIN) -> Content:
    """What reading a file gives, or one line that names it."""
    try:
        return work()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OSError) as error:
        what = f"{type(error).__name__}: {error}"
        raise DataError(f"{path} is damaged or of another kind ({what}); {advice}") from None


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
    """The row of a codec in what `ardm bench codec` writes."""
    row = next((row for row in rows if row["name"].startswith(codec)), None)
    if row is None:
        return Failed(reason="not in the benchmark")
    if row["failure"] is not None:
        return Failed(reason=str(row["failure"]))
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
    method = values.get("method", {"name": "ardm"})  # older runs are all of ARDMs
    depth = values["depth"]
    return Kind(
        preset=str(values["preset"]),
        method=str(method["name"]),
        base=None if depth["base"] is None else int(depth["base"]),
        parametrization=str(depth["parametrization"]),
        min_log_scale=_number(depth["min_log_scale"]),
    )


def _training(preset: str, log: str) -> Training | None:
    """How far a run has come; None at its very start. A last line that a kill cut short does not count."""
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
    return TextChain(chains=chains, calls=_state_calls(values, len(chains[0])))


def _image_chains(values: Any) -> Chains:
    pixels = np.array(values["chains"])
    if pixels.ndim != 5 or pixels.dtype.kind != "i" or pixels.min() < 0 or pixels.max() > 255:
        raise ValueError("expected chains of states of rows of pixels")
    return pixels.astype(np.uint8)


def _state_calls(values: Any, num_states: int) -> list[int]:
    calls = [int(call) for call in values.get("state_calls", [])]
    if calls and len(calls) != num_states:
        raise ValueError(f"{num_states} states and {len(calls)} numbers of calls")
    return calls


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise TypeError(f"expected a number, got {value!r}")
    return float(value)


def _number_or_none(value: Any) -> float | None:
    return None if value is None else _number(value)
