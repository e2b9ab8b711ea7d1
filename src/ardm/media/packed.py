"""Packed data sets in place of the originals, for models and presets that they suit."""

from pathlib import Path

from ardm.config import DataConfig, SoundData, TextData
from ardm.data.alphabet import Alphabet
from ardm.data.corpus import Corpus
from ardm.data.packed.corpora import PackedImages, PackedSounds, PackedText
from ardm.data.packed.description import KINDS, Medium, Pack, PackedKind, open_pack
from ardm.errors import UsageError


def packed_kind(path: Path) -> PackedKind:
    """The kind of a packed data set."""
    return open_pack(path).about.kind


def packed_name(path: Path) -> str:
    """The name of that kind on the command line, which is a preset's as well."""
    return {kind: name for name, kind in KINDS.items()}[packed_kind(path)]


def load_packed(data: DataConfig, path: Path) -> Corpus:
    """The packed data set to train on, which must be of the kind that a configuration names."""
    pack = open_pack(path)
    if pack.about.kind != data.kind:
        names = {kind: name for name, kind in KINDS.items()}
        found, wanted = names[pack.about.kind], names[data.kind]
        raise UsageError(f"{path} is a packed data set of {found}, and the preset is for {wanted}")
    if isinstance(data, TextData):
        return PackedText(pack=pack)
    if isinstance(data, SoundData):
        return PackedSounds(pack=pack, window=data.num_variables, augmentation=data.augmentation)
    check_channels(pack, data.channels)
    return PackedImages(pack=pack, augmentation=data.augmentation, holds_out=data.holds_out)


def packed_text(path: Path, alphabet: Alphabet) -> PackedText:
    """A packed text for a model to score, in the model's alphabet."""
    pack = open_suited(path, "text")
    if pack.about.alphabet != alphabet:
        raise UsageError(f"{path} was packed with another alphabet than the model's; give the text itself")
    return PackedText(pack=pack)


def packed_images(path: Path, channels: int, *, holds_out: bool) -> PackedImages:
    """Packed images for a model to score."""
    pack = open_suited(path, "images")
    check_channels(pack, channels)
    return PackedImages(pack=pack, holds_out=holds_out or pack.about.kind != "cifar10")


def packed_sounds(path: Path, num_samples: int) -> PackedSounds:
    """Packed sounds for a model to score."""
    return PackedSounds(pack=open_suited(path, "sound"), window=num_samples)


def open_suited(path: Path, medium: Medium) -> Pack:
    """A packed data set of a medium."""
    pack = open_pack(path)
    if pack.about.medium != medium:
        raise UsageError(f"{path} is a packed data set of {pack.about.medium}, and the model is for {medium}")
    return pack


def check_channels(pack: Pack, channels: int) -> None:
    """A usage error for grey images and a model of colour, or the reverse."""
    if pack.about.channels != channels:
        raise UsageError(
            f"{pack.folder} was packed with {pack.about.channels} channels, and {channels} are needed; "
            f"pack it with --channels {channels}"
        )
