"""Presets: functions that return the complete configuration of a run."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from ardm.config import (
    MIXTURE_NAMES,
    DepthConfig,
    ImageData,
    MethodConfig,
    PaperTransformerConfig,
    PaperUNetConfig,
    PaperWaveNetConfig,
    ParametrizationName,
    RunConfig,
    SoundData,
    TextData,
    TrainConfig,
    TransformerConfig,
    UNetConfig,
)


def _fast(**fields: Any) -> TrainConfig:
    """Training settings chosen for the bits they reach in minutes on one H200 (docs/LOG.md)."""
    common: dict[str, Any] = {"muon_rate": 0.02, "betas": (0.9, 0.95), "warmup_steps": 100, "decay_fraction": 0.5}
    return TrainConfig(**common | {"ema_decay": 0.998} | fields)


def _small(**fields: Any) -> TrainConfig:
    """Training settings that take minutes on a laptop's CPU."""
    common = {"warmup_steps": 20, "ema_decay": 0.99, "eval_every": 500, "checkpoint_every": 250, "log_every": 20}
    return _fast(**common | fields)


def text8_paper() -> RunConfig:
    """The paper's text8 model: 12 layers, 768 wide, AdamW at a constant rate, 3 million steps (App. C)."""
    train = TrainConfig(
        steps=3_000_000,
        batch_size=512,
        learning_rate=5e-4,
        warmup_steps=5000,
        betas=(0.9, 0.99),
        weight_decay=1e-3,
        clip_norm=0.25,
        ema_decay=0.995,
        cross_entropy_weight=1e-4,
    )
    return RunConfig(preset="text8-paper", data=TextData(kind="text8"), network=PaperTransformerConfig(), train=train)


def text8() -> RunConfig:
    """A text8 model, chosen for the bits it reaches in minutes on one H200."""
    times = {"eval_items": 2048, "eval_every": 500, "checkpoint_every": 2000}
    return RunConfig(
        preset="text8",
        data=TextData(kind="text8"),
        network=TransformerConfig(num_layers=12, width=512, head_width=128),
        train=_fast(steps=29_000, batch_size=256, learning_rate=2e-3, cross_entropy_weight=6.0, **times),
    )


def text8_small() -> RunConfig:
    """A text8 model that trains on a laptop's CPU in minutes."""
    return RunConfig(
        preset="text8-small",
        data=TextData(kind="text8"),
        network=TransformerConfig(num_layers=4, width=128, head_width=32, kernel=7),
        train=_small(steps=2000, batch_size=16, learning_rate=3e-3, cross_entropy_weight=6.0),
    )


def text() -> RunConfig:
    """Your own text as characters (its own alphabet); small enough for a CPU."""
    return replace(text8_small(), preset="text", data=TextData(kind="characters"))


def raw_bytes() -> RunConfig:
    """Your own files as raw bytes (K = 256); small enough for a CPU."""
    return replace(text8_small(), preset="bytes", data=TextData(kind="bytes"))


def cifar10_paper() -> RunConfig:
    """The paper's CIFAR-10 model: 32 + 32 ResBlocks of 256 channels at full resolution, Adam, 3000 epochs (App. C).

    An order-agnostic model hides sub-pixels as 128; with a base, they decay to 0.
    """
    return RunConfig(
        preset="cifar10-paper",
        data=ImageData(kind="cifar10", augmentation="flips and turns", holds_out=False),
        network=PaperUNetConfig(),
        depth=DepthConfig(absorbing_value=128),
        train=TrainConfig(
            steps=1_170_000,
            batch_size=128,
            learning_rate=1e-4,
            betas=(0.9, 0.999),
            clip_norm=100.0,
            ema_decay=0.9999,
            cross_entropy_weight=1e-3,
        ),
    )


def cifar10() -> RunConfig:
    """A CIFAR-10 model, chosen for the bits it reaches in minutes on one H200."""
    times = {"eval_items": 1000, "eval_every": 1000, "checkpoint_every": 2000}
    return RunConfig(
        preset="cifar10",
        data=ImageData(kind="cifar10", augmentation="flips"),
        network=UNetConfig(widths=(192, 384), depths=(6, 6), kernel=3),
        train=_fast(steps=36_000, batch_size=256, learning_rate=5e-3, **times),
    )


def cifar10_small() -> RunConfig:
    """A CIFAR-10 model that trains on a laptop's CPU in minutes."""
    return RunConfig(
        preset="cifar10-small",
        data=ImageData(kind="cifar10", augmentation="flips"),
        network=UNetConfig(widths=(48, 96), depths=(2, 2), kernel=3),
        train=_small(steps=2000, batch_size=16, learning_rate=2e-2, eval_items=256),
    )


def images() -> RunConfig:
    """Your own images, in crops of 32 x 32; small enough for a CPU."""
    return replace(cifar10_small(), preset="images", data=ImageData(kind="images"))


def sc09_paper() -> RunConfig:
    """The paper's SC09 model: a WaveNet of 36 blocks of 256 channels, mixtures of logistics, 1 million steps (App. C).

    An order-agnostic model hides samples as 32768, silence; with a base, they decay to 0.
    """
    return RunConfig(
        preset="sc09-paper",
        data=SoundData(kind="sc09"),
        network=PaperWaveNetConfig(),
        depth=DepthConfig(parametrization="logistic", num_components=30, absorbing_value=2**15),
        train=TrainConfig(
            steps=1_000_000,
            batch_size=256,
            learning_rate=1e-4,
            warmup_steps=15_000,
            betas=(0.9, 0.999),
            clip_norm=1000.0,
            ema_decay=0.995,
            cross_entropy_weight=1e-4,
        ),
    )


def sc09() -> RunConfig:
    """An SC09 model, chosen for the bits it reaches in minutes on one H200."""
    times = {"eval_items": 200, "eval_every": 500, "checkpoint_every": 1000}
    return RunConfig(
        preset="sc09",
        data=SoundData(kind="sc09"),
        network=UNetConfig(widths=(128, 256, 384, 512), depths=(2, 2, 2, 4), kernel=9),
        depth=DepthConfig(parametrization="companded"),
        train=_fast(steps=10_000, batch_size=32, learning_rate=1e-3, **times),
    )


def sc09_wavenet() -> RunConfig:
    """The paper's WaveNet at the size and rates of the preset sc09, for comparing causal networks."""
    train = replace(sc09().train, batch_size=16)
    return replace(sc09(), preset="sc09-wavenet", network=PaperWaveNetConfig(num_blocks=24), train=train)


def sc09_small() -> RunConfig:
    """An SC09 model that trains on a laptop's CPU in minutes."""
    return RunConfig(
        preset="sc09-small",
        data=SoundData(kind="sc09"),
        network=UNetConfig(widths=(24, 48, 64), depths=(1, 1, 2), kernel=9),
        depth=DepthConfig(parametrization="companded"),
        train=_small(steps=1000, batch_size=4, learning_rate=3e-3, eval_items=64, eval_every=250),
    )


def audio() -> RunConfig:
    """Your own 16-bit sounds in windows of 16,000 samples; small enough for a CPU."""
    return replace(sc09_small(), preset="audio", data=SoundData(kind="audio"))


def coding(config: RunConfig) -> RunConfig:
    """A preset's coding model: the same size and steps, with a convolution within strands and a little weight decay."""
    if not isinstance(config.network, TransformerConfig):
        raise ValueError(f"a coding model is for text and needs a transformer, not a {config.network.kind}")
    train = replace(config.train, weight_decay=0.03, cross_entropy_weight=0.0)
    method, network = MethodConfig(name="coding"), replace(config.network, kernel=7)
    return replace(config, network=network, train=train, method=method)


_TEXT = (text8_paper, text8, text8_small, text, raw_bytes)
_IMAGES = (cifar10_paper, cifar10, cifar10_small, images)
_SOUND = (sc09_paper, sc09, sc09_wavenet, sc09_small, audio)
PRESETS: dict[str, Callable[[], RunConfig]] = {make().preset: make for make in (*_TEXT, *_IMAGES, *_SOUND)}
if TYPE_CHECKING:
    PresetName = str
else:
    PresetName = Literal[*PRESETS]


def parametrization_with(base: object, preset: str, parametrization: ParametrizationName) -> ParametrizationName:
    """A preset's parametrization once it has a base: direct, except for the paper's text and images."""
    is_direct = parametrization in MIXTURE_NAMES or not preset.endswith("-paper")
    return "direct" if base is not None and is_direct else parametrization
