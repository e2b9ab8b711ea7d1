"""The README's code runs: the library's example and the command line's as they stand, on small data of our own.

Commands that need published data or a GPU are only parsed (`test_docs.py`).
"""

import re
import wave
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from documents import README, ROOT, blocks, commands, run, spans
from PIL import Image
from tiny import TEXT, tiny_config, tiny_corpus

from ardm.cli.main import Command
from ardm.runtime.device import Runtime
from ardm.train.loop import run_training
from ardm.train.trainer import Trainer

HOMES = {
    "train text": "text",
    "train images": "images",
    "train audio": "audio",
    "models": "images",
    "export run": "images",
}
"""The paragraphs of the block of commands, by how they begin, and the data that they are run with, in this order."""
ONLY_PARSED = {"serve my.model"}
"""It runs until it is stopped; test_serve.py does so."""


def test_the_library_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    trainer = Trainer(tiny_config(), tiny_corpus(tmp_path), Runtime.choose("cpu"))
    run_training(trainer, tmp_path / "run")
    Path("more.txt").write_text(TEXT)
    exec(compile("".join(blocks(README, "python")), "README.md", "exec"), {})
    bits, text = capsys.readouterr().out.splitlines()
    assert bits.startswith("tensor([")
    assert len(text) == trainer.model.num_variables


@pytest.mark.parametrize("medium", ["text", "images", "audio"])
def test_the_commands_run(medium, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    {"text": write_texts, "images": write_images, "audio": write_sounds}[medium]()
    for start, words in paragraphs().items():
        if HOMES.get(start) == medium:
            for command in words:
                run(command)
    if medium == "images":
        restored, original = Image.open("restored/photo.png"), Image.open("photo.png")
        assert restored.tobytes() == original.tobytes()


def test_every_paragraph_of_commands_is_known():
    assert {*paragraphs()} == {*HOMES, *ONLY_PARSED}


def test_make_has_the_targets():
    makefile = (ROOT / "Makefile").read_text()
    for block in blocks(README, "sh"):
        for program, *targets in commands(block):
            assert program != "make" or all(re.search(rf"^{t}:", makefile, re.MULTILINE) for t in targets)


def test_all_commands_are_listed():
    names = [subcommand.name for kind in get_args(Command) for subcommand in kind.__metadata__]
    assert " ".join(names) in spans(README)


def paragraphs() -> dict[str, list[list[str]]]:
    """The commands of each paragraph of the block of commands, by the words that it begins with."""
    (block,) = (b for b in blocks(README, "sh") if b.startswith("ardm train text "))
    found = [commands(paragraph) for paragraph in block.split("\n\n")]
    return {" ".join(words[0][1:3]): words for words in found}


def write_texts() -> None:
    """A folder of texts and one more."""
    Path("my-texts").mkdir()
    for name in ("my-texts/1.txt", "my-texts/2.txt", "more.txt"):
        Path(name).write_text(TEXT)


def write_images() -> None:
    """A folder of images and a photo of another size."""
    Path("my-images").mkdir()
    for i in range(6):
        picture(i, 12).save(f"my-images/{i}.png")
    picture(6, 26).save("photo.png")


def picture(seed: int, size: int) -> Image.Image:
    """Colours that change slowly, with some noise."""
    y, x, channel = np.indices((size, size, 3))
    noise = np.random.default_rng(seed).integers(0, 8, y.shape)
    return Image.fromarray((3 * y + 5 * x + 40 * channel + noise).astype(np.uint8))


def write_sounds() -> None:
    """A folder of short sounds and a clip."""
    Path("my-sounds").mkdir()
    for name in ("my-sounds/1.wav", "my-sounds/2.wav", "my-sounds/3.wav", "clip.wav"):
        with wave.open(name, "wb") as file:
            file.setparams((1, 2, 400, 0, "NONE", "not compressed"))
            file.writeframes((1000 * np.sin(np.arange(240) / 5)).astype("<i2").tobytes())
