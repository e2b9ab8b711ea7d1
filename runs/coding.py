"""Coding models trained for a number of seconds, measured, and written as small files.

    python runs/coding.py train text8 --data DIR --out FOLDER --seconds 480
    python runs/coding.py train bytes --data FILE --out FOLDER --seconds 540 --item-length 1024 --batch-size 64
    python runs/coding.py join FOLDER model.safetensors

`train` takes as many steps as fit: the learning rate rests at its peak for the first half of the time and then falls
linearly to zero when the time is up, whatever the speed. It writes FOLDER/model.json and FOLDER/weights-*.safetensors,
16-bit floats in files of at most 15 MiB, once a minute and at the end; then it prints exact bits per character on held
out items and writes them to FOLDER/results.json. `join` makes a model file of the parts, which `ardm.load` reads.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ardm import coding, presets
from ardm.build import build_model
from ardm.checkpoint import Trained, TrainedCoding, save_model
from ardm.coding import CodingModel
from ardm.config import RunConfig
from ardm.data.alphabet import Alphabet
from ardm.data.corpus import Corpus, compact_tensor, spread
from ardm.media import load_corpus
from ardm.runtime.device import Runtime
from ardm.train.trainer import Trainer

PART_BYTES = 15 * 2**20
"""Largest size of a file of weights."""
SAVE_SECONDS = 60.0
"""Seconds between writings of the weights."""
SPEED_STEPS = 20
"""Steps between measurements of the speed."""
REPORT_STEPS = 200
"""Steps between lines of progress."""
SHORT_ITEM = 250
"""Length of the items that every model is measured on, beside those that it was trained on."""


def configuration(options: argparse.Namespace) -> RunConfig:
    """The configuration of a run from the script's options."""
    config = presets.coding(presets.text8() if options.preset == "text8" else presets.raw_bytes())
    network = replace(
        config.network, num_layers=options.layers, width=options.width, head_width=options.head_width, kernel=7
    )
    train = replace(
        presets.text8().train,
        steps=10**9,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        muon_rate=options.muon_rate,
        weight_decay=options.weight_decay,
        warmup_steps=options.warmup,
        cross_entropy_weight=0.0,
        eval_items=options.eval_items,
    )
    data = replace(config.data, num_variables=options.item_length)
    return replace(config, data=data, network=network, train=train, seed=options.seed)


def train(options: argparse.Namespace) -> None:
    """Train for the given seconds, then measure."""
    started = time.perf_counter()
    runtime = Runtime.choose(options.device, compile=not options.no_compile)
    config = configuration(options)
    trainer = Trainer(config, load_corpus(config.data, options.data), runtime)
    options.out.mkdir(parents=True, exist_ok=True)
    size = sum(p.numel() for p in trainer.model.parameters())
    print(f"{size:,} parameters on {runtime.device}; ready after {time.perf_counter() - started:.0f} s", flush=True)
    for _ in timed_steps(trainer, started, options.seconds):
        save_parts(options.out, trainer)
    save_parts(options.out, trainer)
    results = measured(trainer, options.test_items) | {
        "steps": trainer.step,
        "parameters": size,
        "seconds": time.perf_counter() - started,
    }
    (options.out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results, indent=2))


def timed_steps(trainer: Trainer, started: float, seconds: float) -> Iterator[None]:
    """Train until the time is up; yields about once a minute.

    The number of steps is estimated anew all the time, so that the decay of the learning rate ends with the time.
    """
    warmup = trainer.config.train.warmup_steps
    lap_step, lap_time = 0, time.perf_counter()
    saved = time.perf_counter()
    while time.perf_counter() - started < seconds:
        metrics = trainer.train_step()
        if trainer.step % SPEED_STEPS:
            continue
        bits = float(metrics["bits"])  # waits for the device
        now = time.perf_counter()
        if trainer.step <= 2 * SPEED_STEPS:  # compiling takes long
            lap_step, lap_time = trainer.step, now
            print(f"step {trainer.step}: {bits:.4f} bits, {now - started:.0f} s", flush=True)
            continue
        step_seconds = (now - lap_time) / (trainer.step - lap_step)
        left = max(0, int((seconds - (now - started)) / step_seconds))
        settled = replace(trainer.config.train, steps=max(trainer.step + left, warmup + 1))
        trainer.config = replace(trainer.config, train=settled)
        if trainer.step % REPORT_STEPS == 0:
            rate = trainer.config.train.rate_factor(trainer.step)
            print(
                f"step {trainer.step} of {settled.steps}: {bits:.4f} bits, {1000 * step_seconds:.1f} ms a step, "
                f"rate {rate:.3f}, {now - started:.0f} s",
                flush=True,
            )
            lap_step, lap_time = trainer.step, now
        if now - saved > SAVE_SECONDS:
            saved = now
            yield
    trainer.config = replace(trainer.config, train=replace(trainer.config.train, steps=max(1, trainer.step)))
    print(f"{trainer.step} steps in {time.perf_counter() - started:.0f} s", flush=True)


def save_parts(folder: Path, trainer: Trainer) -> None:
    """Write the averaged weights as 16-bit floats in files of limited size, and their description."""
    trained, part, size, number = trainer.trained_model(), {}, 0, 1
    for name, parameter in trained.model.named_parameters():
        weights = parameter.detach().to("cpu", torch.float16).contiguous()
        if size + weights.nbytes > PART_BYTES:
            save_file(part, folder / f"weights-{number}.safetensors")
            part, size, number = {}, 0, number + 1
        part[name] = weights
        size += weights.nbytes
    save_file(part, folder / f"weights-{number}.safetensors")
    facts = {field.name: getattr(trained, field.name) for field in fields(Trained)}
    facts["alphabet"] = None if trained.alphabet is None else trained.alphabet.characters
    facts["config"] = trained.config.to_dict()
    facts |= {"num_classes": trained.model.num_classes, "parts": number}
    (folder / "model.json").write_text(json.dumps(facts, indent=2) + "\n")


@torch.no_grad()
def measured(trainer: Trainer, num_items: int) -> dict[str, Any]:
    """Exact bits per character of held-out and test items, for the averaged weights."""
    averaged, length = trainer.whole_average(), trainer.model.num_variables
    assert isinstance(averaged, CodingModel)
    results: dict[str, Any] = {}
    for split in ("valid", "test"):
        for item_length in sorted({min(SHORT_ITEM, length), length}):
            x = spread_items(trainer.corpus, split, item_length, num_items * SHORT_ITEM // item_length).to(
                trainer.runtime.device
            )
            model = CodingModel(averaged.network, averaged.parametrization, (item_length,))
            for calls in (10, 20, 50, 100, 200, None):
                with trainer.runtime.autocast():
                    estimate = coding.score(model, x, calls=calls, batch_size=trainer.config.train.shard_size)
                name = f"{split}, {item_length} characters, {'left to right' if calls is None else f'{calls} calls'}"
                results[name] = [round(estimate.bits_per_dim, 4), round(estimate.half_width, 4)]
                print(f"{name}: {estimate.bits_per_dim:.4f} +- {estimate.half_width:.4f}", flush=True)
    return results


def spread_items(corpus: Corpus, split: str, length: int, num_items: int) -> Tensor:
    """Items of a length, evenly spread over a split."""
    items = corpus.items(split, (length,))  # type: ignore[arg-type]
    return compact_tensor(items[spread(max(1, min(num_items, len(items))), len(items))]).long()


def join(options: argparse.Namespace) -> None:
    """Write the model file of a folder's parts."""
    facts = json.loads((options.folder / "model.json").read_text())
    weights: dict[str, Tensor] = {}
    for number in range(1, facts.pop("parts") + 1):
        weights |= load_file(options.folder / f"weights-{number}.safetensors")
    facts["config"] = RunConfig.from_dict(facts["config"])
    facts["alphabet"] = Alphabet(characters=facts["alphabet"])
    model = build_model(facts["config"], facts.pop("num_classes"))
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    assert isinstance(model, CodingModel)
    save_model(options.model, TrainedCoding(model=model, **facts))
    print(options.model)


def parser() -> argparse.ArgumentParser:
    """The script's arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train")
    training.set_defaults(run=train)
    training.add_argument("preset", choices=("text8", "bytes"))
    training.add_argument("--data", type=Path, required=True)
    training.add_argument("--out", type=Path, required=True)
    training.add_argument("--seconds", type=float, required=True)
    for name, value in (("layers", 8), ("width", 320), ("head-width", 64), ("item-length", 250), ("batch-size", 256)):
        training.add_argument(f"--{name}", type=int, default=value)
    for name, value in (("warmup", 100), ("eval-items", 2048), ("test-items", 4096), ("seed", 0)):
        training.add_argument(f"--{name}", type=int, default=value)
    for name, value in (("learning-rate", 2e-3), ("muon-rate", 0.02), ("weight-decay", 0.03)):
        training.add_argument(f"--{name}", type=float, default=value)
    training.add_argument("--device")
    training.add_argument("--no-compile", action="store_true")
    joining = commands.add_parser("join")
    joining.set_defaults(run=join)
    joining.add_argument("folder", type=Path)
    joining.add_argument("model", type=Path)
    return parser


if __name__ == "__main__":
    options = parser().parse_args()
    options.run(options)
