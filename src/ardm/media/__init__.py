"""Text, images and sound beyond their items: files to score, gaps to fill, samples to show. One medium a file."""

from collections.abc import Callable
from pathlib import Path

from ardm.checkpoint import AnyTrained
from ardm.config import DataConfig, SoundData, TextData
from ardm.data.cifar10 import has_cifar10, load_cifar10
from ardm.data.corpus import Corpus
from ardm.data.images import load_image_folder
from ardm.data.packed.description import is_packed
from ardm.data.sc09 import has_sc09, load_sc09
from ardm.data.sounds import load_audio_folder
from ardm.data.text import has_text8, load_text
from ardm.media.images.medium import ImageMedium
from ardm.media.medium import Medium
from ardm.media.packed import load_packed, packed_kind
from ardm.media.sounds.medium import SoundMedium
from ardm.media.text.medium import TextMedium


def medium_of(trained: AnyTrained) -> Medium:
    """The medium of a model's items."""
    if isinstance(trained.config.data, TextData):
        return TextMedium(trained)
    return SoundMedium(trained) if isinstance(trained.config.data, SoundData) else ImageMedium(trained)


def load_corpus(data: DataConfig, path: Path) -> Corpus:
    """The data set to train on that a configuration names, as it was published or collected, or packed."""
    if is_packed(path):
        return load_packed(data, path)
    if isinstance(data, TextData):
        return load_text(path, data.kind)
    if isinstance(data, SoundData):
        if data.kind == "sc09":
            return load_sc09(path, data.augmentation)
        return load_audio_folder(path, data.num_variables, data.augmentation)
    if data.kind == "cifar10":
        return load_cifar10(path, data.augmentation, holds_out=data.holds_out)
    return load_image_folder(path, data.channels, data.augmentation)


def has_corpus(data: DataConfig, path: Path) -> bool:
    """Whether the published data set that a configuration names lies at a path; if it names none, anything will do."""
    if is_packed(path):
        return packed_kind(path) == data.kind
    published: dict[str, Callable[[Path], bool]] = {"cifar10": has_cifar10, "sc09": has_sc09, "text8": has_text8}
    return data.kind not in published or published[data.kind](path)
