"""Files of models and training states: safetensors with a JSON description in the header.

Files are written atomically (see `runtime.files`). Loading checks the tensors and the description against a hash in
the header. Exact models are compressed with gzip, which makes them a quarter to a third smaller.
"""

import gzip
import hashlib
import json
import math
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_of_tensors
from safetensors.torch import save_file
from torch import Tensor, nn

from ardm.baselines.methods import Baseline
from ardm.build import build_exact_coding_core, build_exact_core, build_model, build_parametrization
from ardm.codec.coding_plan import CodingPlan
from ardm.coding import CodingModel
from ardm.config import DataConfig, RunConfig, SoundData, TextData
from ardm.data.alphabet import Alphabet
from ardm.errors import CheckpointError
from ardm.exact.backends import SelfTest
from ardm.exact.coding_network import CodingTest, ExactCodingNetwork
from ardm.exact.layers import check_bounds
from ardm.exact.network import ExactNetwork
from ardm.exact.outputs import OutputUnits
from ardm.model import ARDM
from ardm.names import AVERAGED, MEASURED, MEASURED_EARLIER, MODEL_FILE, PROFILE_SOURCES, ProfileSource, Shape
from ardm.parametrizations import Parametrization
from ardm.profile import Profile
from ardm.runtime.files import is_gzip, write_file, written_whole
from ardm.version import __version__

FORMAT_VERSION = 1
GZIP_WBITS = 31
"""Makes zlib expect gzip's header and checksum."""
MAX_INFLATED_BYTES = 2**30
"""Limit on the decompressed size of a file, which could be a thousand times its compressed size."""
NUM_CLASSES = {"images": 256, "sound": 2**16}
"""Classes of media without an alphabet."""


@dataclass(frozen=True, kw_only=True)
class ExactPart:
    """The codec of an exact model: its network, which the model calls too, and how it codes."""

    network: ExactNetwork
    coding: CodingPlan
    identity: bytes
    """Hash of everything that decoding depends on."""


@dataclass(frozen=True, kw_only=True)
class ExactCodingPart:
    """The exact network of a coding model, which the model calls too, and how it codes."""

    network: ExactCodingNetwork
    calls: int
    """The number of calls for each window by default."""
    identity: bytes
    """Hash of everything that decoding depends on."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Trained:
    """Facts about a trained model of any method."""

    config: RunConfig
    alphabet: Alphabet | None
    """Characters of a text model; None for other data."""
    sample_rate: int | None = None
    """Samples per second of a model of sound; None for other data."""
    step: int
    """Number of training steps that led to these weights."""
    data_title: str
    """Title of the training data."""
    data_fingerprint: str
    """Hash by which the training data are recognised, so that only their test split is scored."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainedBaseline(Trained):
    """A trained model of another method, for comparison."""

    model: Baseline

    def __repr__(self) -> str:
        return _in_one_line(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainedCoding(Trained):
    """A trained coding model."""

    model: CodingModel
    exact: ExactCodingPart | None = None
    """The network of an exact model; None for floating-point weights."""

    def __repr__(self) -> str:
        return _in_one_line(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainedModel(Trained):
    """A trained ARDM."""

    model: ARDM
    profile: Profile
    """Loss profile, from which schedules are planned."""
    profile_source: ProfileSource = MEASURED
    """Whether the profile was measured with these weights, or is an average during training."""
    exact: ExactPart | None = None
    """The codec of an exact model; None for floating-point weights."""

    @property
    def ardm(self) -> ARDM:
        """The ARDM, by the name that it has in `ardm.Model`."""
        return self.model

    def for_shape(self, shape: Shape) -> "TrainedModel":
        """This model for items of another shape; the profile remains that of the trained shape."""
        if shape == self.model.shape:
            return self
        return replace(self, model=ARDM(self.model.network, self.model.parametrization, shape))

    def __repr__(self) -> str:
        return _in_one_line(self)


AnyTrained = TrainedModel | TrainedCoding | TrainedBaseline


def num_parameters(trained: AnyTrained) -> int:
    """The number of weights, or of an exact model's integers.

    >>> from ardm import checkpoint, pretrained
    >>> checkpoint.num_parameters(checkpoint.load_model(pretrained.bundled_models()["text"]))
    9001138
    """
    exact = None if isinstance(trained, TrainedBaseline) else trained.exact
    tensors = trained.model.parameters() if exact is None else exact.network.state_dict().values()
    return sum(tensor.numel() for tensor in tensors)


def _in_one_line(trained: AnyTrained) -> str:
    config, model = trained.config, trained.model
    words = [config.data.medium, config.method.name, f"{num_parameters(trained):,} parameters", f"shape {model.shape}"]
    words += [f"{model.num_classes} classes"]
    if isinstance(trained, TrainedModel):
        words += [f"{model.num_stages} stage{'s' * (model.num_stages > 1)}", f"profile {trained.profile_source}"]
    words += [f"step {trained.step} of {config.train.steps} on {trained.data_title}"]
    is_exact = not isinstance(trained, TrainedBaseline) and trained.exact is not None
    words += ["exact" if is_exact else "not exact"]
    return f"<{type(trained).__name__}: {', '.join(words)}>"


def save_model(path: Path, trained: AnyTrained) -> None:
    """Write a model's weights, or an exact model's integers, to a file."""
    description: dict[str, Any] = {
        "kind": "coding model" if isinstance(trained, TrainedCoding) else "baseline",
        "config": trained.config.to_dict(),
        "num_classes": trained.model.num_classes,
        "alphabet": None if trained.alphabet is None else trained.alphabet.characters,
        "sample_rate": trained.sample_rate,
        "step": trained.step,
        "data_title": trained.data_title,
        "data_fingerprint": trained.data_fingerprint,
    }
    tensors: dict[str, Tensor] = {f"weights/{name}": p for name, p in trained.model.named_parameters()}
    if isinstance(trained, TrainedModel):
        tensors |= profile_tensors("profile", trained.profile)
        description |= {"kind": "model", "profile": trained.profile_source}
        if trained.exact is not None:  # an exact network has no parameters
            tensors |= exact_tensors(trained.exact.network)
            description |= {"kind": "exact model", "coding": trained.exact.coding.to_dict()}
    if isinstance(trained, TrainedCoding) and trained.exact is not None:
        tensors |= exact_tensors(trained.exact.network)
        description |= {"kind": "exact coding model", "coding": {"calls": trained.exact.calls}}
    write_tensors(path, tensors, description, compressed="coding" in description)


def load_model(path: Path | str, device: torch.device | str = "cpu") -> TrainedModel:
    """The model of a run's folder or of a model file, exact or not.

    >>> from ardm import checkpoint, pretrained
    >>> checkpoint.load_model(pretrained.bundled_models()["text"]).model.num_variables
    250
    """
    trained = load_any(path, device)
    if not isinstance(trained, TrainedModel):
        raise other_kind_error(path, trained.config)
    return trained


def load_any(path: Path | str, device: torch.device | str = "cpu") -> AnyTrained:
    """The model of a run's folder or of a model file: an ARDM, exact or not, or a baseline.

    >>> from ardm import checkpoint, pretrained
    >>> checkpoint.load_any(pretrained.bundled_models()["text"]).config.method.name
    'ardm'
    """
    path, tensors, description = _read_model(path)
    with _naming_errors(path):
        return _trained(tensors, description, device)


def load_profile(path: Path | str) -> Profile:
    """The loss profile of a run's folder or of a model file, without building its network; all is read for its hash."""
    return load_profile_and_source(path)[0]


def load_profile_and_source(path: Path | str) -> tuple[Profile, ProfileSource]:
    """The loss profile of a run's folder or of a model file, and whether it was measured.

    >>> from ardm import checkpoint, pretrained
    >>> checkpoint.load_profile_and_source(pretrained.bundled_models()["text"])[1]
    'measured on held-out data'
    """
    path, tensors, description = _read_model(path)
    with _naming_errors(path):
        config = RunConfig.from_dict(description["config"])
        if config.method.is_ardm:
            profile = profile_from_tensors("profile", tensors)
            return profile, _profile_source(profile, config, description)
    raise other_kind_error(path, config)


def _read_model(path: Path | str) -> tuple[Path, dict[str, Tensor], dict[str, Any]]:
    path = Path(path)
    path = path / MODEL_FILE if path.is_dir() else path
    return path, *read_tensors(path, "model", "exact model", "coding model", "exact coding model", "baseline")


@contextmanager
def _naming_errors(path: Path) -> Iterator[None]:
    """Turn errors about a file's content into a CheckpointError that names the file."""
    try:
        yield
    except (KeyError, TypeError, RuntimeError, ValueError, OverflowError) as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"{path} does not describe a model this version can build: {reason}") from error


def other_kind_error(path: Path | str, config: RunConfig) -> CheckpointError:
    """The error for a model of another method where an ARDM is needed."""
    name = config.method.name
    if config.method.is_coding:
        return CheckpointError(
            f"{path} holds a coding model, which goes through texts in strands and from left to right alone; for this, "
            "train an order-agnostic model: ardm train without --coding"
        )
    return CheckpointError(f"{path} holds a baseline ({name}), not an ARDM; ardm eval and ardm sample take baselines")


def _trained(tensors: dict[str, Tensor], description: dict[str, Any], device: torch.device | str) -> AnyTrained:
    config = RunConfig.from_dict(description["config"])
    alphabet = Alphabet(characters=description["alphabet"]) if isinstance(config.data, TextData) else None
    num_classes = description["num_classes"] if alphabet is None else alphabet.num_classes
    _check_medium(config.data, description)
    kinds = (
        ("model", "exact model")
        if config.method.is_ardm
        else ("coding model", "exact coding model")
        if config.method.is_coding
        else ("baseline",)
    )
    if description["kind"] not in kinds:
        raise ValueError(f"its kind is {description['kind']}, but its method is {config.method.name}")
    facts = {name: description[name] for name in ("step", "data_title", "data_fingerprint")}
    facts |= {"config": config, "alphabet": alphabet, "sample_rate": description.get("sample_rate")}
    if description["kind"] == "exact coding model":
        part = _load_exact_coding(config, num_classes, alphabet, tensors, description, device)
        parametrization = build_parametrization(config.depth, num_classes)
        coding_model = CodingModel(part.network, parametrization, config.data.shape).to(device).eval()
        return TrainedCoding(model=coding_model, exact=part, **facts)
    exact = None
    if description["kind"] == "exact model":
        parametrization = build_parametrization(config.depth, num_classes)
        exact = _load_exact(config, parametrization, alphabet, tensors, description, device)
        model: ARDM | CodingModel | Baseline = ARDM(exact.network, parametrization, config.data.shape)
    else:
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn before they are overwritten
            model = build_model(config, num_classes)
        weights = {n.removeprefix("weights/"): w.float() for n, w in tensors.items() if n.startswith("weights/")}
        model.load_state_dict(weights)
    model = model.to(device).eval()
    if isinstance(model, CodingModel):
        return TrainedCoding(model=model, **facts)
    if not isinstance(model, ARDM):
        return TrainedBaseline(model=model, **facts)
    profile = profile_from_tensors("profile", tensors)
    source = _profile_source(profile, config, description)
    return TrainedModel(model=model, profile=profile, profile_source=source, exact=exact, **facts)


def _profile_source(profile: Profile, config: RunConfig, description: dict[str, Any]) -> ProfileSource:
    """The origin of a profile, as its file states it.

    Older files say nothing: if they were written before the last step, an average has an observation for every item
    of every step, and other profiles come from the last evaluation.
    """
    step, train = description["step"], config.train
    if "profile" in description:
        if description["profile"] not in PROFILE_SOURCES:
            raise ValueError(f"its profile is {description['profile']!r}, expected one of {', '.join(PROFILE_SOURCES)}")
        return PROFILE_SOURCES[PROFILE_SOURCES.index(description["profile"])]
    if step >= train.steps:
        return MEASURED
    is_average = int(profile.counts.sum()) == step * train.batch_size
    return AVERAGED if is_average else MEASURED if step % train.eval_every == 0 else MEASURED_EARLIER


def _check_medium(data: DataConfig, description: dict[str, Any]) -> None:
    """Raise an error unless classes, alphabet and sample rate fit the medium; nothing in a file is trusted."""
    alphabet, rate = description.get("alphabet"), description.get("sample_rate")
    has_alphabet = isinstance(data, TextData) and data.kind != "bytes"
    if isinstance(alphabet, str) != has_alphabet or not (alphabet is None or isinstance(alphabet, str)):
        raise ValueError(f"its alphabet does not fit data of kind {data.kind}")
    if (isinstance(rate, int) and rate > 0) != isinstance(data, SoundData):
        raise ValueError(f"its sample rate does not fit data of kind {data.kind}")
    if data.medium in NUM_CLASSES and description["num_classes"] != NUM_CLASSES[data.medium]:
        raise ValueError(
            f"it has {description['num_classes']} classes, expected {NUM_CLASSES[data.medium]} for {data.medium}"
        )


def exact_part(
    config: dict[str, Any],
    shape: Shape,
    classes: int | Alphabet,
    sample_rate: int | None,
    network: ExactNetwork,
    coding: CodingPlan,
) -> ExactPart:
    """The exact part of a model, with the identity that network, coding plan and meaning of classes determine.

    `config` is the one in the file: fields that a later version adds must not change the identity of old models.
    """
    facts = {"network": config["network"], "depth": config["depth"], "shape": shape, "kind": config["data"]["kind"]}
    facts["classes"] = classes.characters if isinstance(classes, Alphabet) else classes
    facts |= {"sample_rate": sample_rate, "coding": coding.to_dict()}
    identity = bytes.fromhex(_hash(exact_tensors(network), facts))
    return ExactPart(network=network, coding=coding, identity=identity)


def exact_coding_part(
    config: dict[str, Any], alphabet: Alphabet | None, network: ExactCodingNetwork, calls: int
) -> ExactCodingPart:
    """The exact part of a coding model, with its identity; `config` is the one in the file."""
    facts = {"network": config["network"], "depth": config["depth"], "kind": config["data"]["kind"]}
    facts |= {"method": "coding", "shape": [network.core.max_length], "coding": {"calls": calls}}
    facts["classes"] = None if alphabet is None else alphabet.characters
    identity = bytes.fromhex(_hash(exact_tensors(network), facts))
    return ExactCodingPart(network=network, calls=calls, identity=identity)


def exact_tensors(network: ExactNetwork | ExactCodingNetwork) -> dict[str, Tensor]:
    """The tensors of an exact network's file: its integers, scales and self-test."""
    tensors = {f"exact/{name}": value.cpu() for name, value in network.core.state_dict().items()}
    return tensors | {f"test/{f.name}": getattr(network.test, f.name) for f in fields(network.test)}


def _load_exact(
    config: RunConfig,
    parametrization: Parametrization,
    alphabet: Alphabet | None,
    tensors: dict[str, Tensor],
    description: dict[str, Any],
    device: torch.device | str,
) -> ExactPart:
    core = build_exact_core(config, parametrization)
    _check_exact_tensors(tensors, core, SelfTest)
    test = SelfTest(**{f.name: tensors[f"test/{f.name}"] for f in fields(SelfTest)})
    test.check(parametrization.depth.num_values, parametrization.depth.num_stages, config.data.shape)
    core.load_state_dict({n.removeprefix("exact/"): t for n, t in tensors.items() if n.startswith("exact/")})
    check_bounds(core)
    network = ExactNetwork(core.to(device), OutputUnits.of(parametrization), test)
    network.operations(torch.zeros(1, device=device).device)  # raises on a machine that computes wrongly
    coding = _load_coding(description["coding"])
    coding.check(parametrization.depth.num_stages, math.prod(config.data.shape))
    classes, rate = alphabet or parametrization.depth.num_classes, description.get("sample_rate")
    return exact_part(description["config"], config.data.shape, classes, rate, network, coding)


def _load_exact_coding(
    config: RunConfig,
    num_classes: int,
    alphabet: Alphabet | None,
    tensors: dict[str, Tensor],
    description: dict[str, Any],
    device: torch.device | str,
) -> ExactCodingPart:
    parametrization = build_parametrization(config.depth, num_classes)
    core = build_exact_coding_core(config, parametrization)
    _check_exact_tensors(tensors, core, CodingTest)
    test = CodingTest(**{f.name: tensors[f"test/{f.name}"] for f in fields(CodingTest)})
    test.check(parametrization.depth.num_values, config.data.num_variables)
    core.load_state_dict({n.removeprefix("exact/"): t for n, t in tensors.items() if n.startswith("exact/")})
    check_bounds(core)
    network = ExactCodingNetwork(core.to(device), OutputUnits.of(parametrization), test)
    network.operations(torch.zeros(1, device=device).device)  # raises on a machine that computes wrongly
    calls = description["coding"]["calls"]
    if list(description["coding"]) != ["calls"] or type(calls) is not int or calls < 1:
        raise ValueError(f"its coding must be a positive number of calls, got {description['coding']}")
    return exact_coding_part(description["config"], alphabet, network, calls)


def _check_exact_tensors(tensors: dict[str, Tensor], core: nn.Module, test: type[SelfTest | CodingTest]) -> None:
    """Raise an error if loading would cast, drop or miss a tensor, which the identity would not reveal."""
    expected = {f"exact/{name}": value for name, value in core.state_dict().items()}
    named = {name for name in tensors if name.startswith(("exact/", "test/"))}
    for name in sorted(named ^ {*expected, *(f"test/{f.name}" for f in fields(test))}):
        raise ValueError(f"tensor {name} is {'unknown' if name in named else 'missing'}")
    for name, value in expected.items():
        if (kind := _kind_of(tensors[name])) != _kind_of(value):
            raise ValueError(f"tensor {name} is {kind}, expected {_kind_of(value)}")


def _kind_of(tensor: Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}"


def _load_coding(values: dict[str, Any]) -> CodingPlan:
    """The coding plan of a model file; unknown entries, which the identity would not cover, raise a ValueError."""
    plan = CodingPlan.from_dict(values)
    known = plan.to_dict()
    parts = [(values, known), *zip(values["schedules"], known["schedules"], strict=True)]
    for name in sorted(name for part, own in parts for name in part.keys() - own.keys()):
        raise ValueError(f"its coding has an unknown entry {name}")
    return plan


def profile_tensors(name: str, profile: Profile) -> dict[str, Tensor]:
    """The tensors that represent a profile in a file."""
    return {f"{name}/bits": profile.bits, f"{name}/counts": profile.counts}


def profile_from_tensors(name: str, tensors: dict[str, Tensor]) -> Profile:
    """The profile that `profile_tensors` wrote."""
    return Profile(bits=tensors[f"{name}/bits"], counts=tensors[f"{name}/counts"])


def write_tensors(
    path: Path, tensors: dict[str, Tensor], description: dict[str, Any], *, compressed: bool = False
) -> None:
    """Write tensors and a JSON description to a file, atomically."""
    tensors = _apart({name: t.detach().cpu().contiguous() for name, t in tensors.items()})
    header = description | {"format": "ardm", "format_version": FORMAT_VERSION, "ardm": __version__}
    header["hash"] = _hash(tensors, header)
    metadata = {"ardm": json.dumps(header)}
    if compressed:
        write_file(path, gzip.compress(bytes_of_tensors(tensors, metadata), mtime=0))
    else:
        with written_whole(path) as temporary:
            _save_plain(tensors, temporary, metadata)


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, with copies of those that share memory with an earlier one: safetensors refuses tied weights."""
    seen: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        result[name] = tensor.clone() if place in seen else tensor
        seen.add(place)
    return result


def _save_plain(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    try:
        save_file(tensors, path, metadata=metadata)
    except SafetensorError as error:  # the system's error number is only in its text
        if found := re.search(r"\(os error (\d+)\)", str(error)):
            number = int(found[1])
            raise OSError(number, os.strerror(number)) from error
        raise


def read_tensors(path: Path, *kinds: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The checked tensors and description of a file of one of the given kinds."""
    if not path.is_file():
        raise CheckpointError(f"there is no {kinds[0]} at {path}; give a run's folder or a {MODEL_FILE} file")
    try:
        read = _read_compressed if is_gzip(path) else _read_plain
        tensors, metadata = read(path)
    except (SafetensorError, OSError, EOFError, zlib.error) as error:
        raise CheckpointError(f"{path} is damaged or not a safetensors file ({error})") from None
    if "ardm" not in metadata:
        raise CheckpointError(
            f"{path} is a safetensors file but not one of ardm's (hf:FOLDER is a masked model's folder)"
        )
    try:
        description = dict(json.loads(metadata["ardm"]))
    except (ValueError, TypeError):
        raise CheckpointError(f"{path} is damaged: its description cannot be read") from None
    version, writer = description.get("format_version"), description.get("ardm")
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format version {version}, expected {FORMAT_VERSION}; it was written by ardm {writer}; "
            "upgrade if that is newer than this one"
        )
    if description.pop("hash", None) != _hash(tensors, description):
        raise CheckpointError(f"{path} is damaged: its content does not match its hash")
    if description["kind"] not in kinds:
        raise CheckpointError(f"{path} is of kind {description['kind']}, expected {kinds[0]}")
    return tensors, description


def read_kind(path: Path) -> str | None:
    """The kind of content that an uncompressed file of this package describes, unchecked; None for other files."""
    try:
        with safe_open(path, framework="pt") as file:
            return json.loads((file.metadata() or {})["ardm"])["kind"]
    except (SafetensorError, OSError, KeyError, ValueError, TypeError):
        return None


def _read_plain(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


def _read_compressed(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    inflated = zlib.decompressobj(wbits=GZIP_WBITS)
    content = inflated.decompress(path.read_bytes(), MAX_INFLATED_BYTES)
    if not inflated.eof:
        if inflated.unconsumed_tail:
            raise CheckpointError(f"{path} inflates to more than {MAX_INFLATED_BYTES:,} bytes")
        raise EOFError("it is truncated")
    if inflated.unused_data:
        raise EOFError("there is data after its end")
    tensors = tensors_from_bytes(content)
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]  # safetensors reads no metadata from bytes
    return tensors, json.loads(header).get("__metadata__") or {}


def _hash(tensors: dict[str, Tensor], description: dict[str, Any]) -> str:
    digest = hashlib.blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        t = tensors[name]
        digest.update(f"{name} {_kind_of(t)}".encode())
        digest.update(t.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
