"""Small data sets of every kind on disk, and packed, for tests of what reads them."""

import hashlib
from pathlib import Path

import numpy as np
from PIL import Image
from test_images import write_cifar10
from test_sounds import write_speech_commands

from ardm.config import DataConfig, ImageData, SoundData, TextData
from ardm.data.packed.packing import open_source, pack
from ardm.data.sound_files import wav_file

SHARD_BYTES = 101
"""Small and prime, so that items of every kind lie across borders of shards."""

CONFIGURATIONS: dict[str, DataConfig] = {
    "text": TextData(kind="characters", num_variables=7),
    "many characters": TextData(kind="characters", num_variables=7),
    "bytes": TextData(kind="bytes", num_variables=7),
    "text8": TextData(kind="text8", num_variables=7),
    "images": ImageData(kind="images", height=4, width=3, augmentation="flips"),
    "grey images": ImageData(kind="images", height=4, width=4, channels=1, augmentation="flips and turns"),
    "cifar10": ImageData(kind="cifar10", augmentation="flips"),
    "all of cifar10": ImageData(kind="cifar10", holds_out=False),
    "audio": SoundData(kind="audio", num_variables=20, augmentation="flips"),
    "sc09": SoundData(kind="sc09", num_variables=12_000),
}
"""What is trained on, by the data set's name."""


def write_data(name: str, folder: Path, monkeypatch) -> Path:
    """A small data set."""
    random = np.random.default_rng(0)
    folder.mkdir()
    if name in ("text", "bytes", "many characters"):
        return write_texts(folder, first=0x3B1 if name == "text" else 0x1000, random=random)
    if name == "text8":
        return write_text8(folder, monkeypatch)
    if name.endswith("images"):
        for i in range(24):
            height, width = random.integers(3, 9, 2)
            size = (height, width) if name.startswith("grey") else (height, width, 3)
            Image.fromarray(random.integers(0, 256, size, dtype=np.uint8)).save(folder / f"{i}.png")
    elif name == "audio":
        for i in range(24):
            frames = random.normal(0, 9000, (10 + 4 * i, 1 + i % 2)).astype(np.int16)
            (folder / f"{i}.wav").write_bytes(wav_file(frames, 8000))
    elif name == "sc09":
        write_speech_commands(folder / "speech_commands")
    else:
        monkeypatch.setattr("ardm.data.cifar10.NUM_HELD_OUT", 3)
        write_cifar10(folder, monkeypatch, "bin")
    return folder


def write_texts(folder: Path, first: int, random: np.random.Generator) -> Path:
    """Two files of characters of one to four bytes, an empty one and a hidden one."""
    alphabet = [*"ab \n😀", *map(chr, range(first, first + (300 if first > 0xFFF else 3)))]
    for file in ("a.txt", "deeper/b.txt"):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text("".join(random.choice(alphabet, 700)), encoding="utf-8", newline="")
    (folder / "c.txt").write_bytes(b"")
    (folder / ".hidden").write_bytes(b"\xff")
    return folder


def write_text8(folder: Path, monkeypatch) -> Path:
    """Something shorter that is known by its md5."""
    content = b"the quick brown fox jumps over " * 20
    known = {len(content): ("text8 (fake)", hashlib.md5(content).hexdigest())}
    monkeypatch.setattr("ardm.data.text.TEXT8_FILES", known)
    monkeypatch.setattr("ardm.data.text.TEXT8_HOLD_OUT", 70)
    (folder / "text8").write_bytes(content)
    return folder


def packed(data: DataConfig, original: Path, folder: Path, shard_bytes: int = SHARD_BYTES) -> Path:
    """The data set in a packed folder."""
    source = open_source(data.kind, original, channels=getattr(data, "channels", 3))
    pack(source, folder, shard_bytes=shard_bytes)
    return folder
