"""Flags of `ardm train`: the fields of a run's configuration, with the values that the other arguments imply."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import tyro

from ardm.config import MIXTURE_NAMES, MethodConfig, MethodName, RunConfig
from ardm.errors import UsageError
from ardm.masked import is_masked
from ardm.presets import PRESETS, coding, parametrization_with

if TYPE_CHECKING:
    from ardm.checkpoint import TrainedModel


@dataclass(frozen=True, kw_only=True)
class Start:
    """Starting point of a run, before the flags change it."""

    config: RunConfig
    is_new: bool = True
    initial: "TrainedModel | None" = None
    """The model of --init."""


def start_of(preset: str, arguments: Sequence[str]) -> Start:
    """The preset, the run to be resumed or the model of --init, as changed by --coding, --base and --method."""
    start = _saved_or_preset(preset, arguments)
    if is_coding(arguments):
        start = _as_coding(start, arguments)
    config, base = start.config, value_of("--base", arguments)
    method: Any = value_of("--method", arguments)
    try:
        if base.lstrip("+-").isdecimal():
            parametrization = parametrization_with(int(base), preset, config.depth.parametrization)
            config = replace(config, depth=replace(config.depth, base=int(base), parametrization=parametrization))
        if method in get_args(MethodName) and not MethodConfig(name=method).has_cross_entropy:
            config = replace(config, train=replace(config.train, cross_entropy_weight=0.0))
    except ValueError as error:
        raise UsageError(str(error)) from None
    return replace(start, config=config)


def _saved_or_preset(preset: str, arguments: Sequence[str]) -> Start:
    out, init = value_of("--out", arguments), value_of("--init", arguments)
    if "--resume" in arguments and out:
        from ardm.train.run_folder import read_config

        if (saved := read_config(Path(out))) is not None:
            if saved.preset != preset:
                raise UsageError(f"{out} holds a run of the preset {saved.preset}, not of {preset}")
            return Start(config=saved, is_new=False)
    config = PRESETS[preset]()
    if init in ("", "None"):
        return Start(config=config)
    if is_masked(init):
        raise UsageError(
            f"a masked language model is trained by: ardm train masked --init {init} --data FILE --out DIR"
        )
    from ardm.checkpoint import load_model

    initial = load_model(init)
    try:
        config = replace(config, network=initial.config.network, depth=initial.config.depth)
    except ValueError as error:
        raise UsageError(f"the preset {preset} cannot start from {init}: {error}") from None
    return Start(config=config, initial=initial)


def is_coding(arguments: Sequence[str]) -> bool:
    """Whether the arguments ask for a coding model."""
    return "--coding" in arguments or value_of("--method", arguments) == "coding"


def _as_coding(start: Start, arguments: Sequence[str]) -> Start:
    """The starting point for a coding model; a UsageError if it cannot be one."""
    if value_of("--method", arguments) not in ("", "coding"):
        raise UsageError("--coding is a method of its own: leave out --method")
    if start.initial is not None:
        raise UsageError("a coding model starts from random weights: leave out --init")
    if not start.is_new:
        if not start.config.method.is_coding:
            raise UsageError("this run does not train a coding model; resume it without --coding")
        return start
    try:
        return replace(start, config=coding(start.config))
    except ValueError as error:
        raise UsageError(f"--coding: {error}") from None


def preset_in(
    arguments: Sequence[str], switches: Collection[str], presets: Collection[str] = PRESETS.keys()
) -> str | None:
    """The preset that the arguments name; None if there is none. Switches are flags without a value."""
    previous = ""
    for word in arguments:
        is_value = previous.startswith("--") and "=" not in previous and flag_in(previous) not in switches
        if word in presets and not is_value:
            return word
        previous = word
    return None


def value_of(flag: str, arguments: Sequence[str]) -> str:
    """The last value given for a flag; an empty string if there is none."""
    found = ""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if flag_in(word) == flag:
            found = word.partition("=")[2] if "=" in word else following
    return found


def flag_in(word: str) -> str:
    """The flag of an argument such as --flag=value, with hyphens for underscores."""
    return word.partition("=")[0].replace("_", "-")


def check_together(config: RunConfig, arguments: Sequence[str]) -> None:
    """Raise a UsageError for a flag that has no effect together with the others."""
    given, method = {*map(flag_in, arguments)}, config.method
    has_order = config.train.order is not None or "--resume" in given
    no_order = "is for a run that trains for an order: give --order too"
    no_cross_entropy = f"must be left out: the method {method.name} has no cross-entropy besides its bits"
    no_noise = "is for D3PMs: give --method d3pm-absorbing, d3pm-uniform or d3pm-gaussian"
    no_mixture = "is for mixtures of logistics (sound without --base)"
    is_mixture = config.depth.parametrization in MIXTURE_NAMES
    for flag, has_effect, reason in (
        ("--order-fraction", has_order, no_order),
        ("--order-share", has_order, no_order),
        ("--cross-entropy-weight", method.has_cross_entropy, no_cross_entropy),
        ("--diffusion-steps", method.is_diffusion, no_noise),
        ("--min-log-scale", is_mixture, no_mixture),
        ("--num-components", is_mixture, no_mixture),
        ("--absorbing-value", config.depth.base is None, "is for order-agnostic models: leave out --base"),
    ):
        if flag in given and not has_effect:
            raise UsageError(f"{flag} {reason}")


def config_of_all_presets() -> type[RunConfig]:
    """The configuration class for --help: all presets' fields, the kinds that have each, and common defaults."""
    configs = [make() for make in PRESETS.values()]
    parts: list[Any] = [("preset", tyro.conf.Suppress[str], "")]
    for name in ("data", "network", "train", "depth", "method"):
        part = _merged(name, [getattr(config, name) for config in configs])
        parts.append((name, part, field(default=tyro.MISSING_NONPROP)))
    return make_dataclass("AnyConfig", parts, bases=(RunConfig,), frozen=True, kw_only=True)


def _merged(name: str, parts: Sequence[Any]) -> type:
    classes: list[Any] = list(dict.fromkeys(map(type, parts)))
    hints = {name: hint for cls in reversed(classes) for name, hint in get_type_hints(cls, include_extras=True).items()}
    merged: list[Any] = []
    for member in dict.fromkeys(member.name for cls in classes for member in fields(cls)):
        values = [getattr(part, member) for part in parts if member in part.__dataclass_fields__]
        owners = [cls for cls in classes if member in cls.__dataclass_fields__]
        kinds = "" if owners == classes else ", ".join(vars(cls).get("medium") or cls.kind for cls in owners) + "; "
        default = "{}" if values.count(values[0]) == len(values) else "the preset's"
        hint = tyro.conf.arg(help_behavior_hint=f"({kinds}default: {default})".format)
        merged.append((member, Annotated[hints[member], hint], values[0]))
    return make_dataclass(name, merged, bases=tuple(classes), frozen=True, kw_only=True)
