"""The loop: it learns and resumes to the bit."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
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

from ardm.build import build_parametrization
from ardm.checkpoint import load_model, load_profile_and_source, read_tensors, write_tensors
from ardm.config import DepthConfig, TrainConfig
from ardm.data.corpus import PieceSampler
from ardm.errors import ArdmError, CheckpointError, UsageError
from ardm.likelihood import bound
from ardm.names import AVERAGED, MEASURED, MEASURED_EARLIER
from ardm.objective import corrupt, sample_step_loss, step_loss
from ardm.orders import NAMED_ORDERS, random_orders, strands
from ardm.runtime.device import Runtime
from ardm.train.loop import final_draws, run_training, stopped_draws
from ardm.train.run_folder import PREVIOUS_STATE_FILE, STATE_FILE, restore_state, save_state
from ardm.train.trainer import Trainer, step_seed

CPU = Runtime(device=torch.device("cpu"))


def train(config, corpus, folder: Path, *, resume: bool = False, stop_at: int | None = None) -> Trainer:
    trainer = Trainer(config, corpus, CPU)
    if resume:
        restore_state(trainer, folder)
    run_training(trainer, folder, stop=lambda: trainer.step == stop_at)
    return trainer


def assert_same_state(a: Path, b: Path) -> None:
    (first, about), (second, about_second) = (read_tensors(p / STATE_FILE, "training state") for p in (a, b))
    assert {**about, "seconds": 0} == {**about_second, "seconds": 0}
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


def metrics(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in {"seconds", "variables_per_second"}} for line in lines]


def tiny_ordered_config():
    """A run that trains for one order from its fifth step on."""
    config = tiny_config()
    return replace(config, train=replace(config.train, order="raster", order_fraction=1 - 4 / config.train.steps))


def tiny_sharded_config():
    """A run that takes its batches in four parts."""
    return tiny_config(num_shards=4)


@pytest.mark.parametrize("make_config", [tiny_config, tiny_upscale_config, tiny_ordered_config, tiny_sharded_config])
@pytest.mark.parametrize("stop_at", [3, 4, 7])
def test_a_resumed_run_is_identical_to_the_bit(tmp_path, make_config, stop_at):
    config, corpus = make_config(), tiny_corpus(tmp_path)
    train(config, corpus, tmp_path / "whole")
    train(config, corpus, tmp_path / "parts", stop_at=stop_at)
    train(config, corpus, tmp_path / "parts", resume=True)
    assert_same_state(tmp_path / "whole", tmp_path / "parts")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "parts")


@pytest.mark.parametrize(
    ("config", "corpus"),
    [
        (tiny_image_config(), random_images()),
        (tiny_image_config(DepthConfig(base=4)), random_images()),
        (tiny_sound_config(), random_sounds()),
        (tiny_sound_config(DepthConfig(base=16, parametrization="direct")), random_sounds()),
    ],
    ids=["images", "upscaled images", "sound", "upscaled sound"],
)
def test_images_and_sound_resume_to_the_bit(tmp_path, config, corpus):
    train(config, corpus, tmp_path / "whole")
    train(config, corpus, tmp_path / "parts", stop_at=6)
    train(config, corpus, tmp_path / "parts", resume=True)
    assert_same_state(tmp_path / "whole", tmp_path / "parts")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "parts")


def test_a_run_from_before_a_field_was_added_goes_on(tmp_path):
    config, corpus, folder = tiny_config(), tiny_corpus(tmp_path), tmp_path / "run"
    train(config, corpus, folder, stop_at=4)
    tensors, description = read_tensors(folder / STATE_FILE, "training state")
    description["config"]["depth"] = {"base": None, "parametrization": "data"}
    write_tensors(folder / STATE_FILE, tensors, description)
    assert train(config, corpus, folder, resume=True).step == config.train.steps


def test_a_run_stopped_while_it_measures_is_saved_and_goes_on(tmp_path):
    corpus, folder = tiny_corpus(tmp_path), tmp_path / "run"
    trainer = Trainer(tiny_config(), corpus, CPU)
    wanted, made = [], []

    def on_profile(num_observations: int) -> Callable[[int], None]:
        wanted.append(num_observations)
        return made.append

    run_training(trainer, folder, stop=lambda: bool(wanted), on_profile=on_profile)
    assert (trainer.step, trainer.finished, wanted) == (12, False, [final_draws(trainer), stopped_draws(trainer)])
    assert len(made) == 1 + stopped_draws(trainer) // trainer.config.train.batch_size  # whose passes share batches
    assert (load_model(folder).step, load_model(folder).profile_source) == (12, MEASURED)
    assert train(tiny_config(), corpus, folder, resume=True).finished
    train(tiny_config(), corpus, tmp_path / "whole")
    assert_same_state(tmp_path / "whole", folder)


@pytest.mark.parametrize("stop_at", [3, 7])  # before and after an evaluation
def test_a_run_that_is_stopped_measures_its_profile_and_keeps_its_state(tmp_path, stop_at):
    config, corpus, folder = tiny_config(), tiny_corpus(tmp_path), tmp_path / "run"
    trainer = train(config, corpus, folder, stop_at=stop_at)
    trained, (tensors, description) = load_model(folder), read_tensors(folder / STATE_FILE, "training state")
    assert (trained.step, trained.profile_source) == (stop_at, MEASURED)
    draws = torch.Generator().manual_seed(config.seed)
    passes = stopped_draws(trainer) // 4
    expected = bound(trainer.averaged, trainer.eval_items, draws, num_passes=passes, batch_size=8).profile
    assert torch.equal(trained.profile.bits, expected.bits)
    assert not torch.equal(trained.profile.bits, trainer.profile.bits)
    assert torch.equal(tensors["profile/bits"], trainer.profile.bits)
    assert description["measured_step"] == (None if stop_at == 3 else 5)
    assert ("measured_profile/bits" in tensors) == (stop_at == 7)


def test_a_profile_that_is_not_measured_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("ardm.train.loop.STOP_SECONDS", 0)
    config, corpus = tiny_config(), tiny_corpus(tmp_path)
    for stop_at, source in ((3, AVERAGED), (7, MEASURED_EARLIER)):
        trainer = train(config, corpus, tmp_path / str(stop_at), stop_at=stop_at)
        trained = load_model(tmp_path / str(stop_at))
        assert trained.profile_source == source
        assert torch.equal(trained.profile.bits, (trainer.measured_profile or trainer.profile).bits)
        assert load_profile_and_source(tmp_path / str(stop_at))[1] == source
        path = tmp_path / str(stop_at) / "model.safetensors"
        tensors, description = read_tensors(path, "model")
        del description["profile"]  # as older versions wrote it
        write_tensors(path, tensors, description)
        assert load_profile_and_source(path)[1] == source
    assert load_model(train(config, corpus, tmp_path / "whole") and tmp_path / "whole").profile_source == MEASURED


def test_an_evaluation_at_the_last_step_describes_the_model(tmp_path):
    trainer = trainer_of(tmp_path)
    trainer.step = 5
    trainer.evaluate()
    assert trainer.trained_model().profile_source == MEASURED
    trainer.step = 6
    assert trainer.trained_model().profile_source == MEASURED_EARLIER


def test_a_time_limit_includes_measuring_the_profile(tmp_path, monkeypatch):
    """A step of eight items takes a second, and so do sixteen losses without gradients."""
    now, made, step = [0.0], [], Trainer.train_step
    monkeypatch.setattr("ardm.train.loop.time.perf_counter", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    def on_profile(num_observations: int) -> Callable[[int], None]:
        made.append(num_observations)
        return lambda count: wait(count / 16)

    trainer = trainer_of(tmp_path, steps=10_000, eval_every=1000, checkpoint_every=1000)
    monkeypatch.setattr(trainer, "train_step", lambda: (wait(1.0), step(trainer))[1])
    for limit, uncounted in ((100.0, 0), (120.0, 4)):  # the second goes on from the state before the first measured
        run_training(trainer, tmp_path / "run", max_seconds=limit, on_profile=on_profile)
        assert limit - 2 < now[0] - uncounted <= limit
        assert load_model(tmp_path / "run").profile_source == MEASURED
    assert made == [stopped_draws(trainer)] * 2
    before = trainer.step
    run_training(trainer, tmp_path / "run", max_seconds=60.0, on_profile=on_profile)  # its time is over
    assert trainer.step == before
    assert load_model(tmp_path / "run").profile_source == MEASURED


def test_a_second_signal_ends_the_measuring(tmp_path):
    def on_profile(num_observations: int) -> Callable[[int], None]:
        raise KeyboardInterrupt

    trainer = trainer_of(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_training(trainer, tmp_path / "run", stop=lambda: trainer.step == 3, on_profile=on_profile)
    trained = load_model(tmp_path / "run")
    assert (trained.step, trained.profile_source) == (3, AVERAGED)


def trainer_of(tmp_path: Path, **train: object) -> Trainer:
    return Trainer(tiny_config(**train), tiny_corpus(tmp_path), CPU)


def test_the_profile_takes_a_tenth_of_the_training(tmp_path):
    num_draws = [final_draws(trainer_of(tmp_path, steps=steps)) for steps in (1, 18, 1000)]
    assert num_draws == [8, 18 * 8 // 3, 4 * 16]
    many = trainer_of(tmp_path, steps=1000, eval_items=9)
    assert final_draws(many) == 8 * len(many.eval_items) == 72
    upscale = Trainer(replace(tiny_upscale_config(), train=many.config.train), tiny_corpus(tmp_path), CPU)
    assert final_draws(upscale) == upscale.model.num_stages * 4 * 16


def test_a_short_training_is_measured_on_some_of_the_items(tmp_path):
    trainer, wanted, made = trainer_of(tmp_path, steps=1, batch_size=2, eval_items=9), [], []

    def on_profile(num_observations: int) -> Callable[[int], None]:
        wanted.append(num_observations)
        return made.append

    run_training(trainer, tmp_path / "run", on_profile=on_profile)
    assert (wanted, sum(made), int(trainer.measured_profile.counts.sum())) == ([8], 8, 8)
    assert len(trainer.eval_items) == 9
    assert load_model(tmp_path / "run").step == 1


def test_the_last_part_of_a_run_trains_for_an_order(tmp_path, monkeypatch):
    config = tiny_config()
    config = replace(config, train=replace(config.train, steps=8, order="spaced", order_fraction=0.25))
    seen = []

    def see(model, x, generator, rank):
        seen.append(None if rank is None else rank.tolist())
        return sample_step_loss(model, x, generator, rank)

    monkeypatch.setattr("ardm.train.trainer.sample_step_loss", see)
    trainer = Trainer(config, tiny_corpus(tmp_path), CPU)
    for _ in range(8):
        trainer.train_step()
    rank = NAMED_ORDERS["spaced"](config.data.shape).argsort().tolist()
    assert seen == [None] * 6 + [[rank] * config.train.batch_size] * 2
    trainer = Trainer(replace(config, train=replace(config.train, order="strands")), trainer.corpus, CPU)
    trainer.step = 6
    trainer.train_step()
    assert len(set(map(tuple, seen[-1]))) > 1  # strands of many lengths
    (num_variables,) = config.data.shape
    some = {tuple(strands(num_variables, length).argsort().tolist()) for length in range(1, num_variables + 1)}
    assert set(map(tuple, seen[-1])) <= some
    trainer = Trainer(replace(config, train=replace(config.train, order_share=0.5)), trainer.corpus, CPU)
    trainer.step = 6
    trainer.train_step()
    half = config.train.batch_size // 2
    assert seen[-1][:half] == [rank] * half
    assert all(sorted(other) == sorted(rank) != other != rank for other in seen[-1][half:])
    with pytest.raises(ValueError, match="the order must be one of raster, .*, got zigzag"):
        replace(config.train, order="zigzag")


def test_another_seed_gives_another_run(tmp_path):
    corpus = tiny_corpus(tmp_path)
    a = train(tiny_config(), corpus, tmp_path / "a")
    b = train(replace(tiny_config(), seed=1), corpus, tmp_path / "b")
    assert not torch.equal(a.model.network.embedding, b.model.network.embedding)


def test_it_learns_and_leaves_what_it_says(tmp_path):
    trainer = train(tiny_config(steps=100, eval_every=50), tiny_corpus(tmp_path), tmp_path / "run")
    valid = [m["valid_bits"] for m in metrics(tmp_path / "run") if "valid_bits" in m]
    assert valid[-1] < 3 < torch.tensor(16.0).log2()
    names = {p.name.split(".")[0] for p in (tmp_path / "run").iterdir()}
    assert names == {"config", "state", "model", "metrics", "events"}
    loaded = load_model(tmp_path / "run")
    assert torch.equal(loaded.model.network.embedding, trainer.averaged.network.embedding)
    assert loaded.profile.counts.sum() == 4 * 16  # passes over four held-out items until each step is met four times
    assert (trainer.profile.counts.sum()) == 100 * 8


def test_resuming_needs_the_same_run(tmp_path):
    config, corpus, folder = tiny_config(), tiny_corpus(tmp_path), tmp_path / "run"
    train(config, corpus, folder, stop_at=4)
    with pytest.raises(UsageError, match="a different seed, batch size; resume it with the same"):
        restore_state(Trainer(replace(tiny_config(batch_size=4), seed=3), corpus, CPU), folder)
    other = replace(corpus, classes=corpus.classes[::-1].copy())
    with pytest.raises(CheckpointError, match="other data"):
        restore_state(Trainer(config, other, CPU), folder)
    with pytest.raises(UsageError, match="already at step 4; give more --steps"):
        restore_state(Trainer(tiny_config(steps=3), corpus, CPU), folder)
    longer = Trainer(tiny_config(steps=20, eval_every=50), corpus, CPU)
    restore_state(longer, folder)
    assert longer.step == 4


def test_a_finished_run_is_left_alone_and_a_longer_one_goes_on(tmp_path):
    corpus, folder = tiny_corpus(tmp_path), tmp_path / "run"
    train(tiny_config(), corpus, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    train(tiny_config(), corpus, folder, resume=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert train(tiny_config(steps=14), corpus, folder, resume=True).step == 14


def test_a_loss_that_is_not_finite_before_anything_is_saved(tmp_path):
    trainer = Trainer(tiny_config(log_every=1), tiny_corpus(tmp_path), CPU)
    with torch.no_grad():
        trainer.model.network.head.bias.fill_(float("nan"))
    with pytest.raises(ArdmError, match="the loss is nan at step 1; nothing had been saved before"):
        run_training(trainer, tmp_path / "run")


def test_a_model_without_its_state_is_not_resumed(tmp_path):
    corpus, folder = tiny_corpus(tmp_path), tmp_path / "run"
    train(tiny_config(steps=2), corpus, folder)
    (folder / STATE_FILE).unlink()
    (folder / PREVIOUS_STATE_FILE).unlink(missing_ok=True)
    with pytest.raises(CheckpointError, match="holds a model but no training state to resume from; --init"):
        train(tiny_config(steps=4), corpus, folder, resume=True)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    trainer, folder = Trainer(tiny_config(log_every=1), tiny_corpus(tmp_path), CPU), tmp_path / "run"
    run_training(trainer, folder, stop=lambda: trainer.step == 4)
    before = (folder / STATE_FILE).read_bytes()
    with torch.no_grad():
        trainer.model.network.head.bias.fill_(float("nan"))
    with pytest.raises(ArdmError, match="the loss is nan at step 5; the last good state is kept"):
        run_training(trainer, folder)
    with pytest.raises(ArdmError, match="the weights are no longer finite at step 5"):
        save_state(trainer, folder)
    assert (folder / STATE_FILE).read_bytes() == before


def test_weights_that_are_not_finite_are_not_saved_between_logs(tmp_path):
    trainer, folder = Trainer(tiny_config(log_every=100), tiny_corpus(tmp_path), CPU), tmp_path / "run"
    run_training(trainer, folder, stop=lambda: trainer.step == 3)
    with torch.no_grad():
        trainer.model.network.head.bias.fill_(float("nan"))
    with pytest.raises(ArdmError, match="no longer finite at step 4"):
        run_training(trainer, folder)
    assert read_tensors(folder / STATE_FILE, "training state")[1]["step"] == 3


def test_rates_warm_up_hold_and_decay():
    config = TrainConfig(steps=100, batch_size=1, learning_rate=1.0, warmup_steps=9, decay_fraction=0.2)
    factors = [config.rate_factor(step) for step in range(100)]
    assert factors[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert set(factors[10:81]) == {1.0}
    assert factors[81:] == pytest.approx([(100 - i) / 20 for i in range(81, 100)])


def test_absurd_settings_are_refused():
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        TrainConfig(steps=1, batch_size=0, learning_rate=1e-3)
    with pytest.raises(ValueError, match=r"learning_rate must be positive and finite, got -1\.0"):
        TrainConfig(steps=1, batch_size=1, learning_rate=-1.0)
    with pytest.raises(ValueError, match="warmup_steps must not be negative, got -5"):
        TrainConfig(steps=1, batch_size=1, learning_rate=1e-3, warmup_steps=-5)
    with pytest.raises(
        ValueError, match="the logistic parametrization is for images and sound, .* leave it out for text"
    ):
        replace(tiny_config(), depth=DepthConfig(parametrization="logistic"))
    with pytest.raises(ValueError, match=r"the base must lie in 2\.\.4 for 5 classes, got 5"):
        build_parametrization(DepthConfig(base=5), 5)
    with pytest.raises(ArdmError, match="device 'tpu' is not supported"):
        Runtime.choose("tpu")


def test_crops_reach_both_ends(generator):
    crops = PieceSampler([np.arange(6)], (4,), torch.device("cpu")).draw(200, generator)
    assert {tuple(row) for row in crops.tolist()} == {(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5)}


class Repeated:
    """A sampler whose shards are parts of one batch, and a batch all of it."""

    def __init__(self, items: torch.Tensor) -> None:
        self.items, self.start = items, 0

    def draw(self, num_items: int, generator: torch.Generator) -> torch.Tensor:
        self.start, start = (self.start + num_items) % len(self.items), self.start
        return self.items[start : start + num_items]


def test_shards_add_up_to_a_batch(tmp_path, monkeypatch):
    """The same items and draws in one, two or four parts give the same gradients, losses and profile."""
    corpus = tiny_corpus(tmp_path)
    items = torch.from_numpy(corpus.items("train", (16,))[:8]).long()
    draws = iter(())

    def given_loss(model, x, generator, rank):
        stage, t, rank = (next(draws) for _ in range(3))
        return step_loss(model, corrupt(model.depth, x, stage, t, rank))

    monkeypatch.setattr("ardm.train.trainer.sample_step_loss", given_loss)
    drawn = torch.zeros(8).long(), torch.arange(8), random_orders(8, 16, torch.Generator().manual_seed(1))
    states = []
    for num_shards in (1, 2, 4):
        trainer = Trainer(tiny_config(num_shards=num_shards), corpus, CPU)
        trainer.sampler = Repeated(items)
        draws = iter([part for parts in zip(*(d.chunk(num_shards) for d in drawn), strict=True) for part in parts])
        metrics = trainer.train_step()
        states.append((metrics, trainer.model, trainer.profile))
    for metrics, model, profile in states[1:]:
        for name, value in metrics.items():
            torch.testing.assert_close(value, states[0][0][name])
        for a, b in zip(model.parameters(), states[0][1].parameters(), strict=True):
            torch.testing.assert_close(a, b)
        torch.testing.assert_close(profile.bits, states[0][2].bits)
        assert torch.equal(profile.counts, states[0][2].counts)


def test_shards_have_draws_of_their_own():
    seeds = {step_seed(seed, step, shard) for seed in (0, 1, 2) for step in (0, 1, 10**6) for shard in (0, 1, 255)}
    assert len(seeds) == 27
