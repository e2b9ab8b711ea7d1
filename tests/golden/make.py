"""Write the golden files of a format version: tiny exact models, files compressed with them, and what they restore.

    PYTHONPATH=tests python tests/golden/make.py tests/golden/1

Run once for a version; its files never change afterwards.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import torch

import ardm
from ardm.checkpoint import TrainedModel, save_model
from ardm.orders import random_stage_orders
from ardm.sample import sample_items
from ardm.schedule import full_schedule
from tiny_exact import tiny_exact

NUM_WINDOWS = {"colour": 1, "grey": 1, "sound": 30, "text": 20, "bytes": 40}


def drawn_value(kind: str, trained: TrainedModel) -> str | bytes | np.ndarray:
    """Something that the model finds likely: its own samples, one after the other."""
    model, generator = trained.model, torch.Generator().manual_seed(11)
    orders = random_stage_orders(NUM_WINDOWS[kind], model.num_stages, model.num_variables, generator)
    schedule = full_schedule(model.num_variables, num_stages=model.num_stages)
    classes = sample_items(model, orders, schedule, generator, temperature=0.5).numpy()
    if kind in ("text", "bytes"):
        assert trained.alphabet is not None
        content = trained.alphabet.decode(classes.ravel())
        return content if kind == "bytes" else content.decode()
    if kind == "sound":
        return (classes.ravel() - 2**15).astype(np.int16)
    pixels = classes[0].reshape(model.shape).astype(np.uint8)
    return pixels if kind == "colour" else pixels[:, :, 0]


def digest(value: str | bytes | np.ndarray) -> str:
    """A hash of a restored value."""
    content = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else value.tobytes()
    return hashlib.sha256(content).hexdigest()


def main(folder: Path) -> None:
    """Write everything."""
    folder.mkdir(parents=True)
    digests = {}
    for kind in NUM_WINDOWS:
        trained = tiny_exact(kind)
        value = drawn_value(kind, trained)
        data = ardm.compress(trained, value)
        save_model(folder / f"{kind}.model", trained)
        (folder / f"{kind}.ardm").write_bytes(data)
        digests[kind] = digest(value)
        print(kind, len(data), "bytes")
    (folder / "digests.json").write_text(json.dumps(digests, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
