"""Write the golden files of a format version: tiny exact models, files compressed with them, and what they restore.

    PYTHONPATH=tests/helpers python tests/golden/make.py tests/golden/1

Files that are there stay as they are: a version may gain files, and none ever changes.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tiny_exact import tiny_exact

from ardm.checkpoint import TrainedModel, load_model, save_model
from ardm.codec.batching import Batching
from ardm.codec.format.archive import ArchiveWriter
from ardm.codec.format.options import OrderChoice
from ardm.codec.format.short import SHORT_VERSION, is_short
from ardm.codec.format.single import write_single
from ardm.compression.content_codec import ContentCodec
from ardm.media.contents import content_of
from ardm.orders import random_stage_orders
from ardm.sample import sample_items
from ardm.schedule import full_schedule

GRIDS = {
    "colour": (1, 1),
    "grey": (1, 1),
    "sound": (1, 30),
    "text": (1, 20),
    "bytes": (1, 40),
    "logistic": (1, 6),
    "companded": (1, 6),
    "upscaled": (3, 2),
    "staged": (1, 8),
    "mixed": (1, 8),
    "wavenet": (1, 6),
}
"""The kinds of models, and how many samples a value has below and beside each other."""


def drawn_value(kind: str, trained: TrainedModel) -> str | bytes | np.ndarray:
    """Something that the model finds likely: its own samples, one after the other."""
    model, generator = trained.model, torch.Generator().manual_seed(11)
    rows, columns = GRIDS[kind]
    orders = random_stage_orders(rows * columns, model.num_stages, model.num_variables, generator)
    schedule = full_schedule(model.num_variables, num_stages=model.num_stages)
    classes = sample_items(model, orders, schedule, generator, temperature=0.5).numpy()
    if trained.alphabet is not None:
        content = trained.alphabet.decode(classes.ravel())
        return content if trained.alphabet.characters is None else content.decode()
    if trained.sample_rate is not None:
        return (classes.ravel() - 2**15).astype(np.int16)
    height, width, channels = model.shape
    tiles = classes.reshape(rows, columns, *model.shape).swapaxes(1, 2).astype(np.uint8)
    pixels = tiles.reshape(rows * height, columns * width, channels)
    return pixels if channels == 3 else pixels[:, :, 0]


def digest(value: str | bytes | np.ndarray) -> str:
    """A hash of a restored value."""
    content = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else value.tobytes()
    return hashlib.sha256(content).hexdigest()


def golden_files(kind: str, trained: TrainedModel, value: str | bytes | np.ndarray) -> Iterator[tuple[str, bytes]]:
    """The compressed files of a value by their names: a single one, a short one where there is one, one in strands."""
    codec = ContentCodec(trained)
    (entry,) = codec.encode([codec.place(content_of(value, trained.sample_rate))], codec.options(), Batching())
    yield f"{kind}.ardm", write_single(entry)
    if is_short(codec.file_of(entry)):
        yield f"{kind}-short-{SHORT_VERSION}.ardm", codec.file_of(entry)
    if kind == "staged":
        options = codec.options(order=OrderChoice(name="strands"))
        (entry,) = codec.encode([codec.place(content_of(value))], options, Batching())
        yield f"{kind}-strands.ardm", write_single(entry)


def write_archive(path: Path, trained: TrainedModel, text: str) -> None:
    """An archive of texts, coded and raw."""
    codec = ContentCodec(trained)
    texts = {"whole.txt": text, "parts/first.txt": text[:10], "parts/other.txt": "(" * 40, "empty.txt": ""}
    entries = codec.encode([codec.place(content_of(part)) for part in texts.values()], codec.options(), Batching())
    with path.open("w+b") as file, ArchiveWriter.create(file, codec.options()) as writer:
        for name, entry in zip(texts, entries, strict=True):
            writer.add(name, entry)
    path.with_suffix(".json").write_text(json.dumps(texts, indent=2) + "\n")


def main(folder: Path) -> None:
    """Write what is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    told = folder / "digests.json"
    digests = json.loads(told.read_text()) if told.exists() else {}
    for kind in GRIDS:
        model = folder / f"{kind}.model"
        if not model.exists():
            save_model(model, tiny_exact(kind))
        trained = load_model(model)
        value = drawn_value(kind, trained)
        for name, data in golden_files(kind, trained, value):
            digests[name] = digest(value)
            if not (folder / name).exists():
                (folder / name).write_bytes(data)
        if kind == "text" and not (folder / "texts.ardma").exists():
            write_archive(folder / "texts.ardma", trained, value)
    told.write_text(json.dumps(digests, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
