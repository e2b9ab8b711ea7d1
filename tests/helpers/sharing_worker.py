"""Run by torchrun: trains models of several kinds with weights whole and in pieces, and stops where these differ."""

import sys
from dataclasses import replace
from pathlib import Path

import torch
from tiny import (
    random_images,
    random_sounds,
    tiny_config,
    tiny_corpus,
    tiny_image_config,
    tiny_sound_config,
    tiny_upscale_config,
)

from ardm.config import DepthConfig, MethodConfig, RunConfig
from ardm.data.corpus import Corpus
from ardm.runtime.device import Runtime
from ardm.runtime.launch import exit_process
from ardm.runtime.team import joined_team
from ardm.train.trainer import Trainer

NUM_STEPS = 3


def cases(folder: Path) -> list[tuple[RunConfig, Corpus]]:
    """Runs of all media, networks of two kinds, and baselines."""
    folder.mkdir()
    text = tiny_corpus(folder)
    return [
        (tiny_upscale_config(), text),
        (replace(tiny_config(), method=MethodConfig(name="permuted")), text),
        (replace(tiny_config(), method=MethodConfig(name="d3pm-uniform", num_steps=5)), text),
        (tiny_image_config(DepthConfig(base=16)), random_images()),
        (tiny_sound_config(), random_sounds()),
    ]


def check(config: RunConfig, corpus: Corpus, runtime: Runtime) -> None:
    """Two trainings alike, one of them with about half of the weights in each of two processes."""
    config = replace(config, train=replace(config.train, num_shards=4))
    kept, shared = (Trainer(config, corpus, replace(runtime, shards_weights=shares)) for shares in (False, True))
    for _ in range(NUM_STEPS):
        torch.testing.assert_close(kept.train_step(), shared.train_step(), rtol=1e-4, atol=1e-5)
    for a, b in zip(kept.averaged.parameters(), shared.whole_average().parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    sizes = [sum(local.numel() for local in local_parameters(trainer)) for trainer in (kept, shared)]
    assert sizes[1] < 0.6 * sizes[0], sizes


def local_parameters(trainer: Trainer) -> list[torch.Tensor]:
    """What this process holds."""
    return [p.to_local() if hasattr(p, "to_local") else p for p in trainer.model.parameters()]


if __name__ == "__main__":
    runtime = Runtime.choose("cpu")
    with joined_team(runtime.device) as team:
        for config, corpus in cases(Path(sys.argv[1]) / f"process-{team.rank}"):
            check(config, corpus, replace(runtime, team=team))
    exit_process(0)
