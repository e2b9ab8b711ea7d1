"""Load a model of any method, with the device and the precision that it runs with."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from ardm import checkpoint, pretrained
from ardm.baselines.causal import Autoregressive
from ardm.baselines.d3pm import from_ardm
from ardm.checkpoint import Trained, TrainedBaseline, TrainedCoding, TrainedModel
from ardm.coding import CodingModel
from ardm.errors import UsageError
from ardm.model import ARDM
from ardm.names import ProfileSource, Shape
from ardm.profile import Profile
from ardm.runtime.device import Runtime
from ardm.tasks.plan import Profiled


@runtime_checkable
class ModelOnDevice(Profiled, Protocol):
    """An ARDM with its loss profile, and the device and the precision that it runs with."""

    @property
    def runtime(self) -> Runtime: ...

    @property
    def profile_source(self) -> ProfileSource: ...

    def for_shape(self, shape: Shape) -> "ModelOnDevice":
        """This model for items of another shape."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LoadedModel:
    """An ARDM with the device and the precision that it runs with."""

    trained: TrainedModel
    runtime: Runtime

    @property
    def ardm(self) -> ARDM:
        """The ARDM itself."""
        return self.trained.model

    @property
    def profile(self) -> Profile:
        """The loss profile, for planning."""
        return self.trained.profile

    @property
    def profile_source(self) -> ProfileSource:
        """Where the losses of the profile come from."""
        return self.trained.profile_source

    def for_shape(self, shape: Shape) -> "LoadedModel":
        """This model with its weights for items of another shape."""
        return replace(self, trained=self.trained.for_shape(shape))

    def __repr__(self) -> str:
        return _on_device(self)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LoadedBaseline:
    """A baseline with the device and the precision that it runs with."""

    trained: TrainedBaseline
    runtime: Runtime

    def __repr__(self) -> str:
        return _on_device(self)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LoadedCoding:
    """A coding model with the device and the precision that it runs with."""

    trained: TrainedCoding
    runtime: Runtime

    def __repr__(self) -> str:
        return _on_device(self)


AnyLoaded = LoadedModel | LoadedCoding | LoadedBaseline


def _on_device(loaded: AnyLoaded) -> str:
    return f"<{type(loaded).__name__} on {loaded.runtime.device}: {repr(loaded.trained).strip('<>')}>"


def load(source: str | Path, device: str | Runtime | None = None) -> LoadedModel:
    """The ARDM of a run's folder, a model file, a bundled model or OWNER/NAME[/FILE] on the Hugging Face hub.

    The default device is CUDA if available.

    >>> from ardm.tasks.load import load
    >>> load("text").ardm.shape
    (250,)
    """
    runtime = _runtime(device)
    return LoadedModel(trained=pretrained.load(source, runtime.device), runtime=runtime)


def load_any(source: str | Path, device: str | Runtime | None = None) -> AnyLoaded:
    """The ARDM, the coding model or the baseline of a source; `load` lists the possible sources.

    >>> from ardm.tasks.load import load_any
    >>> type(load_any("text")).__name__
    'LoadedModel'
    """
    runtime = _runtime(device)
    trained = checkpoint.load_any(pretrained.find_model(source), runtime.device)
    if isinstance(trained, TrainedBaseline):
        return LoadedBaseline(trained=trained, runtime=runtime)
    if isinstance(trained, TrainedCoding):
        return LoadedCoding(trained=trained, runtime=runtime)
    return LoadedModel(trained=trained, runtime=runtime)


def _runtime(device: str | Runtime | None) -> Runtime:
    return device if isinstance(device, Runtime) else Runtime.choose(device, compile=False)


def with_diffusion_steps(loaded: AnyLoaded, num_steps: int) -> LoadedBaseline:
    """An absorbing D3PM with this many steps and the weights of an ARDM or another absorbing D3PM; else a UsageError.

    >>> from ardm.tasks.load import load, with_diffusion_steps
    >>> with_diffusion_steps(load("text"), 10).trained.model.num_calls
    10
    """
    trained, model = loaded.trained, loaded.trained.model
    if isinstance(model, Autoregressive):
        raise UsageError("an autoregressive baseline has no diffusion steps")
    if isinstance(model, CodingModel):
        raise UsageError("a coding model has no diffusion steps")
    try:
        d3pm = from_ardm(model, num_steps) if isinstance(model, ARDM) else model.with_steps(num_steps)
    except ValueError as error:
        raise UsageError(str(error)) from None
    facts = {field.name: getattr(trained, field.name) for field in fields(Trained)}
    return LoadedBaseline(trained=TrainedBaseline(model=d3pm, **facts), runtime=loaded.runtime)
