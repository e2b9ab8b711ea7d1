"""Text, images and sound: files, data sets, gaps and samples of each, and their layout for the codec."""

from collections.abc import Callable
from pathlib import Path

from ardm.checkpoint import AnyTrained
from ardm.config import DataConfig
from ardm.data.cifar10 import find_cifar10
from ardm.data.corpus import Corpus
from ardm.data.packed.description import is_packed, open_pack
from ardm.data.sc09 import find_sc09
from ardm.data.text import has_text8
from ardm.media.images.medium import ImageMedium
from ardm.media.medium import Medium
from ardm.media.sounds.medium import SoundMedium
from ardm.media.text.medium import TextMedium

MEDIA: dict[str, type[Medium]] = {"text": TextMedium, "images": ImageMedium, "sound": SoundMedium}
"""All media by the name that a data configuration gives them; add a new one here."""
PUBLISHED: dict[str, Callable[[Path], object]] = {"cifar10": find_cifar10, "sc09": find_sc09, "text8": has_text8}
"""Finds a published data set at a path, by its kind."""


def medium_of(trained: AnyTrained) -> Medium:
    """The medium of a model's items."""
    return MEDIA[trained.config.data.medium](trained)


def load_corpus(data: DataConfig, path: Path) -> Corpus:
    """The training data that a configuration names, read from its original files or from a packed data set."""
    return MEDIA[data.medium].load(data, path)


def has_corpus(data: DataConfig, path: Path) -> bool:
    """Whether the published data set that a configuration names is at a path; True if it names none."""
    if is_packed(path):
        return open_pack(path).about.kind == data.kind
    return data.kind not in PUBLISHED or bool(PUBLISHED[data.kind](path))
