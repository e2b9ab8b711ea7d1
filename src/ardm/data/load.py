"""The data set that a configuration names."""

from pathlib import Path

from ardm.config import AudioData, DataConfig, TextData
from ardm.data.audio import load_audio_folder
from ardm.data.cifar10 import load_cifar10
from ardm.data.corpus import Corpus
from ardm.data.images import load_image_folder
from ardm.data.sc09 import load_sc09
from ardm.data.text import load_text


def load_corpus(data: DataConfig, path: Path) -> Corpus:
    """The corpus to train on."""
    if isinstance(data, TextData):
        return load_text(path, data.kind)
    if isinstance(data, AudioData):
        return load_sc09(path) if data.kind == "sc09" else load_audio_folder(path)
    if data.kind == "cifar10":
        return load_cifar10(path, data.augmentation)
    return load_image_folder(path, data.channels, data.augmentation)
