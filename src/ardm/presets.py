"""Presets: functions that return the complete configuration of a run."""

from collections.abc import Callable
from dataclasses import replace

from ardm.config import DataConfig, RunConfig, TrainConfig
from ardm.nn import PaperTransformerConfig, TransformerConfig


def text8_paper() -> RunConfig:
    """The paper's text8 model: 12 layers, 768 wide, AdamW at a constant rate, 3 million steps (App. C)."""
    return RunConfig(
        preset="text8-paper",
        data=DataConfig(kind="text8"),
        network=PaperTransformerConfig(),
        train=TrainConfig(
            steps=3_000_000,
            batch_size=512,
            learning_rate=5e-4,
            warmup_steps=5000,
            betas=(0.9, 0.99),
            weight_decay=1e-3,
            clip_norm=0.25,
            ema_decay=0.995,
            cross_entropy_weight=1e-4,
        ),
    )


def text8() -> RunConfig:
    """Our text8 model, chosen for bits reached in minutes of one H200."""
    return RunConfig(
        preset="text8",
        data=DataConfig(kind="text8"),
        network=TransformerConfig(num_layers=12, width=512, head_width=128),
        train=TrainConfig(
            steps=29_000,
            batch_size=256,
            learning_rate=2e-3,
            muon_rate=0.02,
            betas=(0.9, 0.95),
            warmup_steps=100,
            decay_fraction=0.5,
            ema_decay=0.998,
            cross_entropy_weight=6.0,
            eval_items=2048,
            eval_every=500,
            checkpoint_every=2000,
        ),
    )


def text8_small() -> RunConfig:
    """A text8 model that trains on a laptop's CPU in minutes."""
    return RunConfig(
        preset="text8-small",
        data=DataConfig(kind="text8"),
        network=TransformerConfig(num_layers=4, width=128, head_width=32),
        train=TrainConfig(
            steps=2000,
            batch_size=16,
            learning_rate=3e-3,
            muon_rate=0.02,
            betas=(0.9, 0.95),
            warmup_steps=20,
            decay_fraction=0.5,
            ema_decay=0.99,
            cross_entropy_weight=6.0,
            eval_every=500,
            checkpoint_every=250,
            log_every=20,
        ),
    )


def text() -> RunConfig:
    """A user's own text as characters (its own alphabet); small enough for a CPU."""
    return replace(text8_small(), preset="text", data=DataConfig(kind="characters"))


def raw_bytes() -> RunConfig:
    """A user's own files as raw bytes (K = 256); small enough for a CPU."""
    return replace(text8_small(), preset="bytes", data=DataConfig(kind="bytes"))


PRESETS: dict[str, Callable[[], RunConfig]] = {
    "text8-paper": text8_paper,
    "text8": text8,
    "text8-small": text8_small,
    "text": text,
    "bytes": raw_bytes,
}
