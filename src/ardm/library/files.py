"""Files of models: `ardm.save` and `ardm.load`."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ardm.checkpoint import (
    other_kind_error,
    profile_from_tensors,
    profile_tensors,
    read_kind,
    read_tensors,
    save_model,
    write_tensors,
)
from ardm.errors import CheckpointError, UsageError
from ardm.library.coding import CodingTexts
from ardm.library.items import items_of
from ardm.library.masked import MaskedModel, load_masked, save_masked
from ardm.library.model import Model
from ardm.library.networks import OwnConfig, model_around
from ardm.masked import is_masked
from ardm.pretrained import find_model
from ardm.runtime.device import Runtime
from ardm.runtime.files import check_writable, is_gzip
from ardm.tasks.load import LoadedBaseline, LoadedCoding, load_any

KIND = "model of one's own network"
AnyNetwork = nn.Module | Callable[..., nn.Module]
"""A network, or its class."""


def save(model: Model | CodingTexts, path: str | Path, arguments: dict[str, Any] | None = None) -> None:
    """Write a model to a file: its weights, its profile and what its items are, but not the code of its network.

    `arguments` are those of the network's class, kept so that `ardm.load` can make the network from its class alone.

    >>> import ardm, tempfile
    >>> from pathlib import Path
    >>> from torch import nn
    >>> class Net(nn.Module):
    ...     def __init__(self, width):
    ...         super().__init__()
    ...         self.layers = nn.Sequential(nn.Embedding(3, width), nn.Linear(width, 2))
    ...     def forward(self, inputs, mask, stage, t):
    ...         return self.layers(inputs)
    >>> path = Path(tempfile.mkdtemp()) / "own.safetensors"
    >>> ardm.save(ardm.order_agnostic(Net(4), 2, shape=5), path, arguments={"width": 4})
    >>> ardm.load(path, network=Net)
    Model of tokens: 5 variables, 2 classes, 1 stage, 22 parameters
    """
    path = Path(path)
    if isinstance(model, CodingTexts):
        check_writable(path)
        save_model(path, model.loaded.trained)
        return
    if isinstance(model, MaskedModel):
        save_masked(model, path)
        return
    check_writable(path)
    if model.trained is not None:
        save_model(path, replace(model.trained, profile=model.profile, profile_source=model.profile_source))
        return
    assert model.own is not None
    try:
        json.dumps(arguments)
    except TypeError as error:
        raise UsageError(f"the arguments of the network's class must be plain values for JSON: {error}") from None
    tensors = {f"weights/{name}": value for name, value in model.ardm.state_dict().items()}
    description = {"kind": KIND, "config": model.own.to_dict(), "arguments": arguments or {}}
    description["profile"] = model.profile_source
    write_tensors(path, tensors | profile_tensors("profile", model.profile), description)


def load(
    source: str | Path,
    device: str | torch.device | None = None,
    *,
    network: AnyNetwork | None = None,
    trust_remote_code: bool = False,
    pickled: bool = False,
    **options: Any,
) -> Model | CodingTexts:
    """The model of a run's folder, a model file, a bundled model or OWNER/NAME[/FILE] on the Hugging Face hub.

    The default device is CUDA if available. A model that `ardm.save` wrote needs its network: the class, if the file
    has its arguments, or a module of it. A coding model comes as `CodingTexts`, every other one as `Model`.

    `hf:FOLDER` and `hf:OWNER/NAME` are masked language models of `transformers`, which `ardm.wrap` wraps with the other
    options. Code that comes with one runs only with `trust_remote_code`, and weights in pytorch_model.bin are read, as
    tensors only, with `pickled`.

    >>> import ardm
    >>> ardm.load("text")
    Model of text: 250 variables, 27 classes, 1 stage, exact
    """
    device = None if device is None else str(device)
    if is_masked(source):
        return load_masked(source, device, trust_remote_code=trust_remote_code, pickled=pickled, **options)
    if options:
        raise UsageError(f"{next(iter(options))}= is for hf: models only")
    if network is not None:
        return _load_own(Path(source), network, device)
    path = find_model(source)
    if path.is_file() and not is_gzip(path) and read_kind(path) == KIND:
        raise CheckpointError(f"{path} holds weights for a network of your own; give it with network=")
    loaded = load_any(path, device)
    if isinstance(loaded, LoadedCoding):
        return CodingTexts(loaded)
    if isinstance(loaded, LoadedBaseline):
        raise other_kind_error(path, loaded.trained.config)
    trained = loaded.trained
    facts: Any = {"profile": trained.profile, "profile_source": trained.profile_source}
    return Model(loaded.ardm, items_of(trained), trained=trained, **facts)


def _load_own(path: Path, network: AnyNetwork, device: str | None) -> Model:
    tensors, description = read_tensors(find_model(path), KIND)
    model = model_around(_instance(network, description["arguments"]), OwnConfig.from_dict(description["config"]))
    weights = {name.removeprefix("weights/"): t for name, t in tensors.items() if name.startswith("weights/")}
    try:
        model.ardm.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"the weights in {path} do not fit this network: {first_problem(error)}") from None
    model.profile, model.profile_source = profile_from_tensors("profile", tensors), description["profile"]
    return model.to(Runtime.choose(device, compile=False).device).eval()


def first_problem(error: RuntimeError) -> str:
    """The first of the problems that PyTorch lists when weights do not fit."""
    return str(error).splitlines()[1:2][0].strip().rstrip(".") if "\n" in str(error) else str(error)


def _instance(network: AnyNetwork, arguments: dict[str, Any]) -> nn.Module:
    if isinstance(network, nn.Module):
        return network
    try:
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn before they are overwritten
            return network(**arguments)
    except TypeError as error:
        raise UsageError(f"the network cannot be made from its class ({error}); give the network itself") from None
