"""A tiny text model that trains in a second, for tests of the loop, the files and the command line."""

from dataclasses import replace

from ardm.config import DepthConfig, RunConfig, TextData, TrainConfig
from ardm.data.text import TextCorpus, load_own_text
from ardm.nn import TransformerConfig

TEXT = "the cat sat on the mat and the rat sat on the hat. " * 60


def tiny_config(**train: object) -> RunConfig:
    """A run of 12 steps on items of 16 characters."""
    config = RunConfig(
        preset="text",
        data=TextData(kind="characters", num_variables=16),
        network=TransformerConfig(num_layers=1, width=32, head_width=16),
        train=TrainConfig(
            steps=12,
            batch_size=8,
            learning_rate=3e-3,
            muon_rate=0.02,
            warmup_steps=2,
            decay_fraction=0.5,
            cross_entropy_weight=1.0,
            eval_items=4,
            eval_every=5,
            checkpoint_every=4,
            log_every=3,
        ),
    )
    return replace(config, train=replace(config.train, **train))


def tiny_upscale_config() -> RunConfig:
    """The same as an upscale model with binary digits."""
    return replace(tiny_config(), depth=DepthConfig(base=2))


def tiny_corpus(tmp_path) -> TextCorpus:
    """A corpus with its own alphabet."""
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return load_own_text(path, "characters")
