"""Masked models by name: `hf:` and a folder, or a name on the Hugging Face hub.

A folder holds config.json, the weights, and a tokenizer or its vocab.txt. One that ardm wrote has ardm.json, too: the
loss profile and how the model is used.
"""

import json
import logging
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError
from torch import nn

from ardm.errors import CheckpointError, UsageError
from ardm.masked import FACTS_FILE, PREFIX
from ardm.masked.tokens import Vocabulary
from ardm.names import ProfileSource
from ardm.profile import Profile

SAVED_OPTIONS: dict[str, tuple[type, ...]] = {
    "length": (int,),
    "window": (int,),
    "unit": (str,),
    "pattern": (str,),
    "shifted": (bool,),
    "time": (str, bool),
    "mask_id": (int,),
    "start_id": (int,),
}
"""Options of `wrap` in a folder that ardm wrote, and their types."""


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A network of `transformers` with its tokenizer, and what ardm wrote beside it."""

    network: nn.Module
    tokenizer: Any
    facts: dict[str, Any] = field(default_factory=dict)


def load_pretrained(
    source: str | Path, *, trust_remote_code: bool = False, pickled: bool = False, tokenizer: str | Path | None = None
) -> Pretrained:
    """The masked model of `hf:FOLDER` or `hf:OWNER/NAME`.

    Code that comes with a model runs only with `trust_remote_code`. Weights are read from safetensors; with `pickled`
    those of pytorch_model.bin may be read too, by a reader that makes nothing but tensors. `tokenizer` is the folder or
    name of another model whose tokenizer serves, as GPT-2's does for MDLM.
    """
    name = str(source).removeprefix(PREFIX)
    transformers = _transformers()
    folder = Path(name)
    if not name or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"hf: is followed by a folder or a name on the Hugging Face hub, got {name!r}")
    facts = read_facts(folder)
    with _quiet(transformers), _one_line(name, is_local=folder.is_dir()):
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=trust_remote_code)
        _check_masked(transformers, config, name)
        how: dict[str, Any] = {"use_safetensors": None if pickled else True, "weights_only": True}
        network = _network(transformers, config, name, trust_remote_code, how)
        source_of_tokens = name if tokenizer is None else str(tokenizer).removeprefix(PREFIX)
        own = _tokenizer(transformers, source_of_tokens, trust_remote_code, facts if tokenizer is None else {})
    network.eval()
    return Pretrained(network=network, tokenizer=own, facts=facts)


def save_pretrained(folder: Path, network: nn.Module, tokenizer: Any, facts: dict[str, Any]) -> None:
    """Write a network of `transformers`, its tokenizer and ardm's facts, as `load_pretrained` reads them."""
    save: Any = getattr(network, "save_pretrained", None)
    if save is None:
        raise UsageError("only a network of transformers can be saved in a folder; save yours with torch.save")
    if not isinstance(tokenizer, Vocabulary) and not hasattr(tokenizer, "save_pretrained"):
        raise UsageError("only a tokenizer of transformers or an ardm.Vocabulary can be saved in a folder")
    folder.mkdir(parents=True, exist_ok=True)
    with _quiet(_transformers()):
        save(folder)
        if not isinstance(tokenizer, Vocabulary):
            tokenizer.save_pretrained(folder)
    if isinstance(tokenizer, Vocabulary):
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokenizer.tokens), encoding="utf-8")
        facts = facts | {"vocabulary": asdict(tokenizer)}  # vocab.txt has no place for the rest
    (folder / FACTS_FILE).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def profile_facts(profile: Profile, source: ProfileSource) -> dict[str, Any]:
    """A loss profile among the facts of a folder, as `saved_profile` reads it."""
    return {"profile": {"bits": profile.bits.tolist(), "counts": profile.counts.tolist(), "source": source}}


def saved_profile(facts: dict[str, Any], source: str | Path) -> tuple[Profile, ProfileSource] | None:
    """The loss profile among the facts of a folder, and where it comes from; None if it has none."""
    if (found := facts.get("profile")) is None:
        return None
    try:
        bits, counts = torch.tensor(found["bits"], dtype=torch.float64), torch.tensor(found["counts"])
        if (
            not bool((bits.isfinite() & (bits >= 0)).all())
            or bits.ndim != 2
            or bits.shape != counts.shape
            or found["source"] not in get_args(ProfileSource)
        ):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"the loss profile in {FACTS_FILE} of {source} is damaged") from None
    return Profile(bits=bits, counts=counts.long()), found["source"]


def read_facts(source: str | Path) -> dict[str, Any]:
    """The facts that ardm wrote beside a masked model; empty for a folder or a name without them."""
    path = Path(str(source).removeprefix(PREFIX)) / FACTS_FILE
    if not path.is_file():
        return {}
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    if not isinstance(facts, dict):
        raise CheckpointError(f"{path} is damaged: expected an object")
    for name, kinds in SAVED_OPTIONS.items():
        if (value := facts.get(name)) is not None and type(value) not in kinds:
            raise CheckpointError(f"{path} is damaged: its {name} is {value!r}")
    return facts


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise UsageError("hf: models need transformers: pip install 'ardm[hf]'") from None
    return transformers


def _check_masked(transformers: Any, config: Any, name: str) -> None:
    """Raise a CheckpointError for a configuration of a model that predicts only the next token."""
    architectures = " ".join(config.architectures or [])
    is_causal = any(word in architectures for word in ("CausalLM", "LMHead")) and "MaskedLM" not in architectures
    known = type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING
    if getattr(config, "is_decoder", False) or (is_causal and not known):
        what = architectures or config.model_type
        raise CheckpointError(f"{name} is a causal language model ({what}); ardm wraps masked ones")
    if not known and "auto_map" not in config.to_dict():
        raise CheckpointError(f"{name} is no masked language model: transformers has none of type {config.model_type}")


def _network(transformers: Any, config: Any, name: str, trust: bool, how: dict[str, Any]) -> nn.Module:
    """The network with its weights; a CheckpointError if the folder has no weights for its head."""
    auto_map = getattr(config, "auto_map", None) or {}
    is_own = trust and "AutoModelForMaskedLM" not in auto_map and "AutoModel" in auto_map
    loader = transformers.AutoModel if is_own else transformers.AutoModelForMaskedLM
    network, info = loader.from_pretrained(
        name, config=config, trust_remote_code=trust, output_loading_info=True, **how
    )
    if missing := sorted(info["missing_keys"]):
        raise CheckpointError(f"{name} has no weights for {missing[0]}, so it cannot predict hidden tokens")
    return network


def _tokenizer(transformers: Any, name: str, trust: bool, facts: dict[str, Any]) -> Any:
    """The tokenizer of a model, or its list of tokens if these are letters or SMILES, or ardm wrote it."""
    folder = Path(name)
    listed = folder / "vocab.txt"
    if "vocabulary" in facts:
        try:
            return Vocabulary(**facts["vocabulary"])
        except TypeError:
            raise CheckpointError(f"the vocabulary in {FACTS_FILE} of {name} is damaged") from None
    if listed.is_file():
        vocabulary = Vocabulary.from_file(listed, facts.get("pattern"))
        has_own = any((folder / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json"))
        if vocabulary.is_letters or vocabulary.is_smiles:
            return vocabulary
        if not has_own:
            return transformers.BertTokenizer(str(listed))
    return transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=trust)


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """A context without the progress bars and warnings of `transformers`."""
    log, hub = transformers.utils.logging, logging.getLogger("huggingface_hub")
    level, hub_level, had_bars = log.get_verbosity(), hub.level, log.is_progress_bar_enabled()
    log.set_verbosity(logging.ERROR)
    hub.setLevel(logging.ERROR)
    log.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(level)
        hub.setLevel(hub_level)
        if had_bars:
            log.enable_progress_bar()


@contextmanager
def _one_line(name: str, *, is_local: bool) -> Iterator[None]:
    """Errors of `transformers`, which fill a screen, in one line."""
    try:
        yield
    except (CheckpointError, UsageError):
        raise
    except Exception as error:  # what `transformers` or a model's own code raises, which is anything
        text = " ".join(str(error).split())
        if "trust_remote_code" in text:
            reason = "it comes with code of its own, which runs only if you trust it: --trust-remote-code"
        elif "safetensors" in text and is_local and any(Path(name).glob("*.bin")):
            reason = "its weights are pickled (.bin); --pickled reads them, as tensors only"
        elif isinstance(error, pickle.UnpicklingError):
            reason = "its pickled weights are damaged or hold more than tensors, and are not read"
        elif isinstance(error, SafetensorError):
            reason = f"its weights are damaged: {text}"
        elif "ignore_mismatched_sizes" in text:
            reason = "its weights do not fit its config.json"
        elif not is_local and any(word in text for word in ("Hub", "connect", "huggingface.co", "Repo id")):
            reason = "there is no such folder, and the Hugging Face hub gave no such model"
        else:
            reason = text[:200] or type(error).__name__
        raise CheckpointError(f"cannot load hf:{name}: {reason}") from error
