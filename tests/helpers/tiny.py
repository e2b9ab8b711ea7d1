"""Tiny models that train in a second, for tests of the loop, the files and the command line."""

from dataclasses import replace

import numpy as np

from ardm.config import (
    DepthConfig,
    ImageData,
    RunConfig,
    SoundData,
    TextData,
    TrainConfig,
    TransformerConfig,
    UNetConfig,
)
from ardm.data.corpus import Corpus
from ardm.data.images import ImageCorpus
from ardm.data.sounds import SoundCorpus
from ardm.data.text import TextCorpus, load_own_text

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


def tiny_image_config(depth: DepthConfig = DepthConfig()) -> RunConfig:  # noqa: B008
    """The same for images of 4 x 6 pixels."""
    network = UNetConfig(widths=(8, 12), depths=(1, 1), kernel=3)
    data = ImageData(kind="images", height=4, width=6, augmentation="flips and turns")
    return replace(tiny_config(), preset="images", data=data, network=network, depth=depth)


def tiny_sound_config(depth: DepthConfig = DepthConfig(parametrization="companded")) -> RunConfig:  # noqa: B008
    """The same for sounds of 20 samples."""
    network = UNetConfig(widths=(8, 12), depths=(1, 1), kernel=3)
    data = SoundData(kind="audio", num_variables=20)
    return replace(tiny_config(), preset="audio", data=data, network=network, depth=depth)


def random_images() -> Corpus:
    """Images larger than the items."""
    train, valid, test = map(list, np.random.default_rng(0).integers(0, 256, (3, 5, 7, 9, 3), dtype=np.uint8))
    return ImageCorpus(title="random", train=train, valid=valid, test=test, augmentation="flips and turns")


def random_sounds() -> Corpus:
    """Sounds longer than the items."""
    clips = np.random.default_rng(0).normal(0, 1000, (3, 5, 50)).astype(np.int16)
    train, valid, test = map(list, clips)
    return SoundCorpus(title="random", train=train, valid=valid, test=test, sample_rate=8000)
