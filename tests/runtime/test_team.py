"""Several processes that train one model, by Gloo on CPUs: the same result as one process, whatever their number."""

import json
import signal
import sys
from pathlib import Path

import pytest
import torch
from invoke import output
from launched import ByTorchrun, Ended
from tiny import TEXT

from ardm.checkpoint import load_model, read_tensors
from ardm.cli.main import main
from ardm.runtime.signals import raise_signals
from ardm.runtime.team import ALONE, LostProcessError, Team, joined_team
from ardm.train.run_folder import STATE_FILE

SIZES = {"batch-size": 8, "item-length": 16, "layers": 1, "width": 32, "head-width": 16, "kernel": 1}
FLAGS = [word for flag, value in SIZES.items() for word in (f"--{flag}", str(value))]


def arguments(folder: Path, *flags: str) -> list[str]:
    """Those of a tiny training to a folder, on the text beside it."""
    data = folder.parent / "text.txt"
    data.write_text(TEXT)
    return ["train", "text", "--data", str(data), "--out", str(folder), *FLAGS, *flags]


def in_two(words: list[str]) -> Ended:
    """A program in two processes."""
    return ByTorchrun.run(words, 2).end()


def run_in_two(words: list[str]) -> Ended:
    """A command of ours in two processes."""
    return in_two(["-m", "ardm", *words])


def train_in_two(folder: Path, *flags: str) -> Ended:
    """The training in two processes."""
    return run_in_two(arguments(folder, *flags))


def train_in_one(folder: Path, *flags: str) -> None:
    """The training in this process, in shards as if in two."""
    assert main(arguments(folder, "--shards", "2", *flags)) == 0


def bits(folder: Path) -> list[float]:
    """All the numbers that a run logged."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    names = ("bits", "cross_entropy", "gradient_norm", "valid_bits")
    return [line[name] for line in lines for name in names if name in line]


def assert_alike(a: Path, b: Path) -> None:
    """The same weights, averages, momenta, profile and numbers, to float tolerance."""
    (first, _), (second, _) = (read_tensors(folder / STATE_FILE, "training state") for folder in (a, b))
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=2e-4, atol=2e-5, msg=name)
    assert bits(a) == pytest.approx(bits(b), rel=1e-4)


LOGGED = ["--log-every", "1", "--eval-every", "4"]


def test_two_processes_train_as_one_and_the_first_speaks_and_writes(tmp_path):
    train_in_one(tmp_path / "one", "--steps", "9", *LOGGED)
    output = train_in_two(tmp_path / "two", "--steps", "9", "--resume", *LOGGED)  # nothing is there to resume
    assert output.status == 0, output.said
    assert_alike(tmp_path / "one", tmp_path / "two")
    assert output.output.count("done at step 9") == 1
    assert output.said.count("9 steps of 8 items in 2 shards across 2 processes on cpu") == 1
    assert len((tmp_path / "two" / "metrics.jsonl").read_text().splitlines()) == 9 + 3
    assert load_model(tmp_path / "two").config.train.num_shards == 2
    assert not list((tmp_path / "two").glob("*.partial"))


def test_a_run_moves_between_numbers_of_processes(tmp_path):
    for folder in (tmp_path / "one", tmp_path / "moved"):
        train_in_one(folder, "--steps", "3")
    train_in_one(tmp_path / "one", "--steps", "6", "--resume")
    output = train_in_two(tmp_path / "moved", "--steps", "6", "--resume")
    assert "resumed at step 3 of 6" in output.said
    for folder in (tmp_path / "one", tmp_path / "moved"):
        train_in_one(folder, "--steps", "9", "--resume")
    assert_alike(tmp_path / "one", tmp_path / "moved")


def test_a_run_begun_by_one_process_goes_on_in_two_with_other_shards(tmp_path):
    assert main(arguments(tmp_path / "run", "--steps", "2")) == 0
    refused = train_in_two(tmp_path / "run", "--steps", "4", "--resume")
    assert refused.said.count("2 processes cannot share a batch evenly with --shards 1: give --shards 2") == 1
    output = train_in_two(tmp_path / "run", "--steps", "4", "--resume", "--shards", "2")
    assert output.status == 0, output.said
    assert main(arguments(tmp_path / "run", "--steps", "5", "--resume", "--shards", "1")) == 0


def test_a_run_moves_to_processes_that_share_weights_out_and_back(tmp_path):
    for folder in (tmp_path / "one", tmp_path / "moved"):
        train_in_one(folder, "--steps", "3", *LOGGED)
    train_in_one(tmp_path / "one", "--steps", "6", "--resume", *LOGGED)
    output = train_in_two(tmp_path / "moved", "--fsdp", "--steps", "6", "--resume", *LOGGED)
    assert output.status == 0, output.said
    assert "across 2 processes that shard the weights on cpu" in output.said
    assert_alike(tmp_path / "one", tmp_path / "moved")
    assert (tmp_path / "moved" / "model.safetensors").stat().st_size == (
        tmp_path / "one" / "model.safetensors"
    ).stat().st_size
    train_in_one(tmp_path / "moved", "--steps", "9", "--resume")


def test_weights_in_pieces_train_like_whole_ones(tmp_path):
    done = in_two([str(Path(__file__).parents[1] / "helpers" / "sharing_worker.py"), str(tmp_path)])
    assert done.status == 0, done.said


LEAVING = """
import torch
import torch.distributed as dist
from ardm.runtime.launch import exit_process

dist.init_process_group("gloo")
group = dist.group.WORLD
for _ in range(100):
    dist.all_gather([torch.empty(100_000) for _ in range(2)], torch.ones(100_000), async_op=True)
dist.destroy_process_group()
exit_process(0)
"""


def test_a_process_that_leaves_is_not_aborted_by_tensors_still_under_way(tmp_path):
    (tmp_path / "leaving.py").write_text(LEAVING)
    done = in_two([str(tmp_path / "leaving.py")])
    assert done.status == 0, done.said


def test_weights_are_shared_out_by_torchrun_alone(tmp_path, capsys):
    assert main(arguments(tmp_path / "run", "--fsdp")) == 2
    assert "--fsdp shards weights across processes: start them with torchrun" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--passes", "3"], ["--calls", "5"], ["--order", "raster"]], ids=" ".join)
def test_two_processes_score_as_one(flags, tmp_path, capsys):
    train_in_one(tmp_path / "run", "--steps", "2")
    words = ["eval", str(tmp_path / "run"), str(tmp_path / "text.txt"), "--items", "7", "--batch-size", "3", "--json"]
    alone = json.loads(output(capsys, [*words, *flags]))
    together = run_in_two([*words, *flags])
    assert together.status == 0, together.said
    shared = json.loads(together.output)
    for name in ("bits_per_dim", "half_width"):
        assert shared.pop(name) == pytest.approx(alone.pop(name), rel=1e-5)
    alone.pop("draws_half_width", None), shared.pop("draws_half_width", None)
    assert shared == alone


def test_two_processes_sample_as_one(tmp_path, capsys):
    train_in_one(tmp_path / "run", "--steps", "2")
    words = ["sample", str(tmp_path / "run"), "-n", "5", "--batch-size", "2", "--calls", "4", "--chain"]
    alone = output(capsys, words)
    together = run_in_two(words)
    assert together.status == 0, together.said
    assert together.output == alone


def test_bad_usage_is_said_once(tmp_path):
    output = train_in_two(tmp_path / "run", "--shards", "3", "--batch-size", "9")
    assert output.status != 0
    assert output.said.count("ardm: 2 processes cannot share a batch evenly with --shards 3: give --shards") == 1
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_processes_that_do_not_share_a_folder_say_so(tmp_path, monkeypatch, capsys):
    """As on two machines with a folder of the same name each, of which one holds the run."""
    monkeypatch.setattr(Team, "all_gather", lambda self, values: [*values, not values[0]])
    (tmp_path / "text.txt").write_text(TEXT)
    command = ["train", "text", "--data", str(tmp_path / "text.txt"), "--out", str(tmp_path / "run"), "--device", "cpu"]
    assert main(command) == 2
    assert "give a folder that all machines share" in capsys.readouterr().err


def test_a_process_that_has_lost_another_is_not_ended_before_it_has_said_so(monkeypatch):
    """By the SIGTERM that torchrun sends to those that are left."""
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "localhost", "MASTER_PORT": store.port}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    raise_signals()
    try:
        with pytest.raises(LostProcessError, match="closed by peer"), joined_team(torch.device("cpu")):
            raise RuntimeError("[gloo/pair.cc:1] closed by peer")
        assert [signal.getsignal(number) for number in before] == [signal.SIG_IGN] * 2
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        torch.distributed.destroy_process_group()


def test_a_lost_process_is_told_in_a_line():
    reason = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [::1]:4000\nmore"
    told = str(LostProcessError(2, reason))
    assert "cannot continue without it (Connection closed by peer [::1]:4000); resume training" in told


def test_a_process_alone_is_a_team():
    assert list(ALONE.share_of(3)) == [0, 1, 2]
    assert ALONE.any(True)
    assert not ALONE.any(False)
    assert ALONE.all_gather([1, 2]) == [1, 2]
    assert [list(Team(rank, 2).share_of(5)) for rank in (0, 1)] == [[0, 2, 4], [1, 3]]
