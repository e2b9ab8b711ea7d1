"""The tour on the page of the command line runs as it stands, on small data of our own.

Other commands of the page need trained runs, published data or a GPU; they are only parsed (`test_docs.py`).
"""

import wave
from pathlib import Path

import numpy as np
import pytest
from documents import ROOT, blocks, command_names, commands, run, spans
from PIL import Image
from tiny import TEXT

PAGE = ROOT / "docs" / "command-line.md"
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


@pytest.mark.parametrize("medium", ["text", "images", "audio"])
def test_the_tour_runs(medium, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    {"text": write_texts, "images": write_images, "audio": write_sounds}[medium]()
    for start, words in paragraphs().items():
        if HOMES.get(start) == medium:
            for command in words:
                run(command)
    if medium == "images":
        restored, original = Image.open("restored/photo.png"), Image.open("photo.png")
        assert restored.tobytes() == original.tobytes()


def test_every_paragraph_of_the_tour_is_known():
    assert {*paragraphs()} == {*HOMES, *ONLY_PARSED}


def test_all_commands_are_listed():
    assert " ".join(command_names()) in spans(PAGE)


def test_every_command_has_an_example():
    _tour, *examples = (commands(block) for block in blocks(PAGE, "sh"))
    assert {words[1] for block in examples for words in block} == {*command_names()}


def paragraphs() -> dict[str, list[list[str]]]:
    """The commands of each paragraph of the tour, by the words that it begins with."""
    found = [commands(paragraph) for paragraph in blocks(PAGE, "sh")[0].split("\n\n")]
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
