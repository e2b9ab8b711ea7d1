"""Kills, full disks, damaged files, lost numbers and signals: a run goes on to the same bits, or says why not."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from faulty import fill_disk, fsync_with
from launched import PATIENCE, ByTorchrun, Training, environment, is_alive, killed_after_the_test, wait_until
from test_train import CPU, assert_same_state, metrics, train
from tiny import TEXT, tiny_config, tiny_corpus

from ardm.checkpoint import load_model, read_tensors
from ardm.cli.main import main
from ardm.cli.train import interrupts
from ardm.errors import ArdmError, CheckpointError
from ardm.names import MODEL_FILE
from ardm.runtime.launch import END_BY_SIGNAL
from ardm.train.loop import run_training
from ardm.train.metrics import METRICS_FILE
from ardm.train.run_folder import DAMAGED_STATE_FILE, PREVIOUS_STATE_FILE, STATE_FILE, restore_state
from ardm.train.trainer import Trainer

FULL = os.strerror(errno.ENOSPC)
SLOW = pytest.mark.slow


def assert_same_run(a: Path, b: Path) -> None:
    """The same state, model and metrics to the bit, and nothing half-written."""
    assert_same_state(a, b)
    kinds = ("model", "baseline")
    (first, about), (second, about_second) = (read_tensors(folder / MODEL_FILE, *kinds) for folder in (a, b))
    assert about == about_second
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert metrics(a) == metrics(b)
    assert not list(b.glob(".*.partial"))


def state_step(folder: Path) -> int:
    """The step of the last state, which must be whole."""
    return read_tensors(folder / STATE_FILE, "training state")[1]["step"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The tiny run without any trouble."""
    folder = tmp_path_factory.mktemp("untroubled")
    train(tiny_config(), tiny_corpus(folder), folder / "run")
    return folder / "run"


# Kills


class Killed(BaseException):
    """What stands for a kill."""


def kill_at(monkeypatch, name: str, count: int) -> None:
    """End whatever runs at the writing of a file, as a kill does: nothing of it is cleaned up."""

    def kill() -> None:
        raise Killed

    monkeypatch.setattr("ardm.runtime.files.os.fsync", fsync_with(kill, name, count))
    monkeypatch.setattr("ardm.runtime.files.Path.unlink", lambda *args, **kwargs: None)


@pytest.mark.parametrize(
    ("name", "count"),
    [("config.json", 1), *((name, count) for name in (STATE_FILE, MODEL_FILE) for count in (1, 2, 5))]
    + [(PREVIOUS_STATE_FILE, count) for count in (1, 4)],
)
def test_a_run_killed_while_it_writes_loses_nothing(name, count, tmp_path, monkeypatch, whole):
    config, corpus = tiny_config(), tiny_corpus(tmp_path)
    with monkeypatch.context() as patch:
        kill_at(patch, name, count)
        with pytest.raises(Killed):
            train(config, corpus, tmp_path / "killed")
        assert list((tmp_path / "killed").glob(".*.partial"))
    is_there = (tmp_path / "killed" / STATE_FILE).exists()
    train(config, corpus, tmp_path / "killed", resume=is_there)
    assert_same_run(whole, tmp_path / "killed")


# A full disk


@pytest.mark.parametrize("name", [STATE_FILE, PREVIOUS_STATE_FILE, MODEL_FILE, "config.json"])
def test_a_full_disk_is_said_and_the_run_goes_on_later(name, tmp_path, monkeypatch, whole):
    config, corpus, folder = tiny_config(), tiny_corpus(tmp_path), tmp_path / "run"
    train(config, corpus, folder, stop_at=8)
    with monkeypatch.context() as patch:
        patch.setattr("ardm.runtime.files.os.fsync", fsync_with(fill_disk, name, 1))
        with pytest.raises(OSError, match=f"{name} cannot be written: {FULL}$"):
            train(config, corpus, folder, resume=True)
    assert state_step(folder) == (12 if name == MODEL_FILE else 8)  # a model is written after its state
    train(config, corpus, folder, resume=True)
    assert_same_run(whole, folder)


def test_a_full_disk_is_said_before_the_first_checkpoint(tmp_path, monkeypatch, capsys):
    (tmp_path / "text.txt").write_text(TEXT)
    words = ["train", "text", "--data", str(tmp_path / "text.txt"), "--out", str(tmp_path / "run"), "--steps", "1"]
    words += ["--item-length", "16", "--layers", "1", "--width", "32"]
    monkeypatch.setattr("ardm.runtime.files.os.fsync", fsync_with(fill_disk, "data.txt", 1))
    assert main(words) == 1
    line = f"ardm: {tmp_path / 'run' / 'data.txt'} cannot be written: {FULL}\n"
    assert capsys.readouterr().err.count(line) == 1


def test_a_full_disk_under_the_metrics(tmp_path, monkeypatch, whole):
    """/dev/full is a device that is always full."""
    config, corpus, folder = tiny_config(), tiny_corpus(tmp_path), tmp_path / "run"
    train(config, corpus, folder, stop_at=8)
    with monkeypatch.context() as patch:
        patch.setattr("ardm.train.metrics.METRICS_FILE", "full.jsonl")
        (folder / "full.jsonl").symlink_to("/dev/full")
        patch.setattr("ardm.train.metrics.drop_lines", lambda path, is_dropped: None)
        with pytest.raises(OSError, match=f"full.jsonl cannot be written: {FULL}$"):
            train(config, corpus, folder, resume=True)
    assert state_step(folder) == 8
    with (folder / METRICS_FILE).open("a") as file:
        file.write('{"step": 9, "bi')  # what a disk takes before it is full
    train(config, corpus, folder, resume=True)
    assert_same_run(whole, folder)


def test_a_full_disk_under_tensorboard(tmp_path, monkeypatch, capfd, whole):
    from tensorboard.summary.writer.record_writer import RecordWriter

    config, corpus, folder = tiny_config(), tiny_corpus(tmp_path), tmp_path / "run"
    train(config, corpus, folder, stop_at=8)
    with monkeypatch.context() as patch:
        patch.setattr(RecordWriter, "flush", lambda writer: fill_disk())
        with pytest.raises(OSError, match=f"TensorBoard's file in {folder} cannot be written: {FULL}$"):
            train(config, corpus, folder, resume=True)
    assert capfd.readouterr().err == ""  # no traceback of TensorBoard's thread
    assert state_step(folder) >= 8
    train(config, corpus, folder, resume=True)
    assert_same_run(whole, folder)


# Damaged files


def damages(content: bytes, num_flips: int) -> list[bytes]:
    """A file cut short in each of its regions, with single bits flipped anywhere, and overwritten in parts."""
    draw, length = random.Random(0), len(content)
    cuts = [content[:end] for end in (0, 1, 7, 8, 9, 300, length // 4, length // 2, length - 1)]
    header = 8 + int.from_bytes(content[:8], "little")
    places = [*range(0, 16), *(draw.randrange(8, header) for _ in range(num_flips))]
    places += [draw.randrange(header, length) for _ in range(num_flips)]
    flips = [content[:i] + bytes([content[i] ^ 1 << draw.randrange(8)]) + content[i + 1 :] for i in places]
    return [*cuts, *flips, bytes(length), content + b"\0"]


def test_every_damage_is_noticed(tmp_path):
    folder = tmp_path / "run"
    train(tiny_config(), tiny_corpus(tmp_path), folder, stop_at=2)
    for name, kind in ((STATE_FILE, "training state"), (MODEL_FILE, "model")):
        content = (folder / name).read_bytes()
        for damaged in damages(content, num_flips=150):
            (folder / name).write_bytes(damaged)
            with pytest.raises(CheckpointError, match=name):
                read_tensors(folder / name, kind)


def test_a_damaged_state_gives_way_to_the_one_before(tmp_path, whole):
    config, corpus, folder = tiny_config(), tiny_corpus(tmp_path), tmp_path / "run"
    train(config, corpus, folder, stop_at=10)
    states = [folder / name for name in (STATE_FILE, PREVIOUS_STATE_FILE, DAMAGED_STATE_FILE)]
    newest, previous = (state.read_bytes() for state in states[:2])
    for damaged in damages(newest, num_flips=3):
        states[0].write_bytes(damaged)
        states[1].write_bytes(previous)
        trainer = Trainer(config, corpus, CPU)
        said = restore_state(trainer, folder)
        assert said.startswith(f"{states[0]} ")
        assert said.endswith("; the previous state, of step 8, is used")
        assert "\n" not in said
        assert trainer.step == 8
        assert states[0].read_bytes() == previous  # the good one took its place, or the next save would lose it
        assert states[2].read_bytes() == damaged
    train(config, corpus, folder, resume=True)
    assert_same_run(whole, folder)


def test_two_damaged_states_are_left_as_they_are(tmp_path):
    config, corpus, folder = tiny_config(), tiny_corpus(tmp_path), tmp_path / "run"
    train(config, corpus, folder, stop_at=10)
    states = [folder / name for name in (STATE_FILE, PREVIOUS_STATE_FILE)]
    contents = [state.read_bytes()[:-1] for state in states]
    for state, content in zip(states, contents, strict=True):
        state.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"^no training state is left to resume from: {states[0]} .*{states[1]} "):
        restore_state(Trainer(config, corpus, CPU), folder)
    assert [state.read_bytes() for state in states] == contents
    states[1].unlink()
    with pytest.raises(CheckpointError, match="damaged"):
        restore_state(Trainer(config, corpus, CPU), folder)
    assert states[0].read_bytes() == contents[0]


def test_a_damaged_or_missing_model_is_written_again(tmp_path):
    config, corpus, folder = tiny_config(), tiny_corpus(tmp_path), tmp_path / "run"
    train(config, corpus, folder)
    content = (folder / MODEL_FILE).read_bytes()
    for damaged in (content[:-5], b""):
        (folder / MODEL_FILE).write_bytes(damaged)
        train(config, corpus, folder, resume=True)
        assert (folder / MODEL_FILE).read_bytes() == content
    (folder / MODEL_FILE).unlink()
    train(config, corpus, folder, resume=True)
    assert (folder / MODEL_FILE).read_bytes() == content


def test_metrics_without_a_state_are_kept(tmp_path, capsys):
    folder, data = tmp_path / "run", tmp_path / "text.txt"
    data.write_text(TEXT)
    folder.mkdir()
    words = ["train", "text", "--data", str(data), "--out", str(folder), "--steps", "1", "--item-length", "16"]
    words += ["--layers", "1", "--width", "32", "--resume"]
    for number in (1, 2):
        (folder / METRICS_FILE).write_text(f'{{"step": {number}, "bits": 1}}\n')
        assert main(words) == 0
        aside = folder / f"metrics.before-{number}.jsonl"
        line = f"no training state is left in {folder}, so a new run begins; old metrics are in {aside}\n"
        assert capsys.readouterr().err.count(line) == 1
        assert json.loads(aside.read_text())["step"] == number
        assert [line["step"] for line in metrics(folder)] == [1, 1]
        for state in folder.glob("*.safetensors"):
            state.unlink()


# Numbers that are none


def test_a_loss_that_is_not_finite_stops_the_run_which_goes_on_later(tmp_path, whole):
    trainer, folder = Trainer(tiny_config(), tiny_corpus(tmp_path), CPU), tmp_path / "run"
    run_training(trainer, folder, stop=lambda: trainer.step == 4)
    before = (folder / STATE_FILE).read_bytes()
    with torch.no_grad():
        trainer.model.network.head.bias.fill_(float("nan"))
    with pytest.raises(ArdmError, match="the loss is nan at step 6; the last good state is kept"):
        run_training(trainer, folder)
    assert (folder / STATE_FILE).read_bytes() == before
    train(tiny_config(), trainer.corpus, folder, resume=True)
    assert_same_run(whole, folder)


# All of it, to processes of their own


def pair(tmp_path: Path, **how: object) -> tuple[Training, Training]:
    """A training that is left in peace and one that is not."""
    whole, troubled = (Training(folder=tmp_path / name, **how) for name in ("whole", "troubled"))
    whole.finish()
    return whole, troubled


@pytest.mark.parametrize("num_processes", [1, 2])
def test_one_of_several_that_fails_is_not_ended_before_it_has_said_why(num_processes, monkeypatch):
    """By the SIGTERM that torchrun sends when another has ended."""
    monkeypatch.setattr("ardm.cli.train.num_launched", lambda: num_processes)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(RuntimeError, match="another is gone"), interrupts():
            raise RuntimeError("another is gone")
        after = signal.getsignal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert after == (before if num_processes == 1 else signal.SIG_IGN)


@pytest.mark.parametrize("num_processes", [1, 2])
def test_a_run_that_meets_everything_ends_as_if_nothing_had_been(num_processes, tmp_path):
    whole, troubled = pair(tmp_path, num_processes=num_processes, flags=["--log-every", "5"])
    folder, last = troubled.folder, num_processes - 1
    assert troubled.fail(f"full:0:{STATE_FILE}:3") == f"ardm: {folder / STATE_FILE} cannot be written: {FULL}"
    assert state_step(folder) == 10
    limit = sum((folder / name).stat().st_size for name in (MODEL_FILE, STATE_FILE)) // 2
    line = f"ardm: {folder / STATE_FILE} cannot be written: {os.strerror(errno.EFBIG)}"
    assert troubled.fail(f"limit:0:{limit}") == line
    assert state_step(folder) == 10
    assert troubled.fail(f"nan:{last}:7").startswith("ardm: the loss is nan at step 20; the last good state is kept")
    assert state_step(folder) == 15
    (folder / STATE_FILE).write_bytes((folder / STATE_FILE).read_bytes()[:-9])
    ended = troubled.start(f"kill:0:{STATE_FILE}:2").end()
    assert "the previous state, of step 10, is used\n" in ended.said
    assert ended.status == -signal.SIGKILL
    if num_processes > 1:
        assert ended.line.startswith(
            "ardm (process 1): another of the 2 processes has ended or cannot be reached, and the others cannot"
        )
    assert state_step(folder) == 15
    ended = troubled.start(f"term:{last}:3").end()
    assert ended.status == 1
    assert (
        ended.line == f"ardm: stopped at step {state_step(folder)}, which is saved in {folder}; continue with --resume"
    )
    troubled.finish()
    assert_same_run(whole.folder, folder)


@pytest.mark.parametrize(("num_processes", "num_kills"), [(2, 2), *(pytest.param(n, 15, marks=SLOW) for n in (1, 2))])
def test_any_process_is_killed_at_any_moment(num_processes, num_kills, tmp_path):
    draw = random.Random(0)
    whole, killed = pair(tmp_path, num_processes=num_processes, steps=50 * num_kills, checkpoint_every=4)
    for _ in range(num_kills):
        launched = killed.start_to_save()
        time.sleep(draw.uniform(0, 0.3))
        os.kill(launched.workers[draw.randrange(num_processes)], signal.SIGKILL)
        launched.end()
        assert state_step(killed.folder) > 0
        load_model(killed.folder)
    (killed.folder / f".{STATE_FILE}.123.partial").write_bytes(b"half")
    killed.finish()
    assert_same_run(whole.folder, killed.folder)


def test_torchrun_is_terminated_and_killed(tmp_path):
    """Its processes save and leave; those that it can tell nothing any more as well."""
    folder = tmp_path / "run"
    training = Training(folder=folder, num_processes=2, steps=100_000, checkpoint_every=50, launch=ByTorchrun)
    for number in (signal.SIGTERM, signal.SIGKILL):
        launched = training.start_to_save()
        saved = state_step(folder)
        launched.process.send_signal(number)
        ended = launched.end()
        assert ended.status == {signal.SIGTERM: 1, signal.SIGKILL: -signal.SIGKILL}[number]
        assert (
            ended.line
            == f"ardm: stopped at step {state_step(folder)}, which is saved in {folder}; continue with --resume"
        )
        assert state_step(folder) >= saved


def test_torchrun_is_killed_before_its_processes_meet(tmp_path):
    """They do not look for it for half an hour."""
    launched = Training(folder=tmp_path / "run", num_processes=2, launch=ByTorchrun).start()
    launched.process.kill()
    assert launched.end().line == "ardm: torchrun ended before its processes had connected"


@pytest.mark.slow
@pytest.mark.parametrize("num_processes", [2, 3])
def test_any_process_of_torchrun_is_killed_at_any_moment(num_processes, tmp_path):
    """Workers and torchrun itself, from their start on, by SIGKILL and SIGTERM."""
    draw = random.Random(num_processes)
    flags = ["--batch-size", str(3 * num_processes), "--shards", str(num_processes)]
    whole, killed = pair(
        tmp_path, num_processes=num_processes, steps=1000, checkpoint_every=3, launch=ByTorchrun, flags=flags
    )
    for _ in range(12):
        launched = killed.start()
        time.sleep(draw.uniform(0, 12))
        number = draw.choice([*launched.workers.values(), launched.process.pid])
        if is_alive(number):
            os.kill(number, draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        launched.end()
    killed.finish()
    assert_same_run(whole.folder, killed.folder)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 700 kB, where one may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=700k", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mounted, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize(
    ("num_processes", "rooms"),
    [(2, [100_000]), *(pytest.param(n, range(8_000, 440_000, 48_000), marks=SLOW) for n in (1, 2))],
)
def test_a_disk_that_is_full_for_real(small_disk, tmp_path, num_processes, rooms):
    """What is full first depends on the room: a state, the model, the metrics or TensorBoard's file."""
    how = {"num_processes": num_processes, "steps": 40, "checkpoint_every": 10, "flags": ["--log-every", "1"]}
    whole = Training(folder=tmp_path / "whole", **how)
    whole.finish()
    for room in rooms:
        full = Training(folder=small_disk / f"run{room}", **how)
        (small_disk / "text.txt").write_text(TEXT)
        (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free - room))
        line = full.fail("none")
        assert f"{full.folder}" in line
        assert line.endswith(f" cannot be written: {FULL}")
        (small_disk / "ballast").unlink()
        full.finish()
        assert_same_run(whole.folder, full.folder)
        shutil.rmtree(full.folder)


@pytest.mark.parametrize(("number", "num_threads"), [(signal.SIGTERM, 2), (signal.SIGINT, 1)])
def test_a_process_that_waits_for_the_others_heeds_signals(number, num_threads, tmp_path):
    """Where another does not come, as at first between machines. Other threads may get the signal."""
    process = start_to_wait(tmp_path, {"OMP_NUM_THREADS": str(num_threads)})
    started = time.monotonic()
    process.send_signal(number)
    said, status = END_BY_SIGNAL[number]
    assert process.communicate(timeout=PATIENCE)[1] == f"ardm: {said}\n"
    assert process.returncode == status
    assert time.monotonic() - started < 15  # PyTorch alone would wait for 30 seconds


def test_a_process_that_waits_ignores_what_it_was_told_to_ignore(tmp_path):
    process = start_to_wait(tmp_path, {}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    assert process.poll() is None
    process.terminate()
    assert process.communicate(timeout=PATIENCE)[1] == "ardm: terminated\n"


def start_to_wait(folder: Path, variables: dict[str, str], **how: Any) -> subprocess.Popen[str]:
    """One of two processes, that waits for the other."""
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    (folder / "text.txt").write_text(TEXT)
    words = ["train", "text", "--data", str(folder / "text.txt"), "--out", str(folder / "run"), "--device", "cpu"]
    process = killed_after_the_test(
        subprocess.Popen(
            [sys.executable, "-m", "ardm", *words],
            env=os.environ | environment(0, 2, store.port) | variables,
            stderr=subprocess.PIPE,
            text=True,
            **how,
        )
    )
    process.store = store  # where it waits
    wait_until(lambda: store.num_keys() > 0)
    time.sleep(0.5)
    return process
