"""What the processes of a team share beside training: the same answers and bytes as of one process."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from invoke import fails, output
from launched import Forked
from PIL import Image
from test_methods import CASES, CPU, corpus_of
from tiny_exact import SAMPLE_RATE, hashing_model

import ardm
from ardm.baselines.methods import score
from ardm.cli.main import main
from ardm.codec.batching import Batching
from ardm.codec.items import ItemCodec
from ardm.compression import content_codec
from ardm.compression.content_codec import ContentCodec
from ardm.compression.workers import Workers, even_ranges
from ardm.data.sound_files import wav_file
from ardm.media.contents import content_of
from ardm.runtime.team import Team
from ardm.train.trainer import Trainer

GOLDEN = Path(__file__).parents[1] / "golden" / "1"


@dataclass(frozen=True, kw_only=True)
class ThreadTeam(Team):
    """Threads in the place of processes."""

    barrier: threading.Barrier
    lists: list[list] = field(default_factory=list)

    def all_gather(self, values):
        self.lists[self.rank] = list(values)
        self.barrier.wait(60)
        all_gather = [value for part in self.lists for value in part]
        self.barrier.wait(60)  # nobody's next values before all have read these
        return all_gather

    def scatter(self, values):
        return self.all_gather(values or [])[self.rank]

    def gather(self, value):
        values = self.all_gather([value])
        return values if self.is_first else []


def thread_teams(size: int) -> list[ThreadTeam]:
    barrier, lists = threading.Barrier(size), [[] for _ in range(size)]
    return [ThreadTeam(rank=rank, size=size, barrier=barrier, lists=lists) for rank in range(size)]


@pytest.mark.parametrize("case", ["d3pm-absorbing", "d3pm-uniform", "permuted", "causal", "images, gaussian"])
def test_a_team_scores_baselines_as_one(case, tmp_path):
    config = CASES[case]()
    trainer = Trainer(config, corpus_of(config, tmp_path), CPU)
    x = trainer.eval_items.repeat(3, 1)
    calls: list[list[int]] = [[] for _ in range(4)]

    def scored(**how):
        rank = how["team"].rank + 1 if "team" in how else 0
        generator = torch.Generator().manual_seed(1)
        how |= {"num_passes": 2, "batch_size": 4, "on_batch": calls[rank].append}
        return score(trainer.averaged, x, generator, **how)

    alone = scored()
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda team: scored(team=team), thread_teams(3)))
    assert together == [alone] * 3
    assert calls[0] == calls[1] == calls[2] == calls[3]


@given(st.lists(st.integers(1, 9), max_size=40), st.integers(1, 9))
def test_parts_are_even(sizes, count):
    parts = even_ranges(sizes, count)
    assert len(parts) == count
    assert [place for part in parts for place in part] == list(range(len(sizes)))
    shares = [sum(sizes[place] for place in part) for part in parts]
    assert max(shares, default=0) <= sum(sizes) / count + max(sizes, default=0)


def test_every_process_codes_a_part(monkeypatch):
    contents = [content_of("abc d" * length) for length in range(12, 18)]
    windows = {"encode": Counter(), "decode": Counter()}

    def spied(method):
        def code(codec, values, sizes, *arguments):
            windows[method.__name__][threading.get_ident()] += sum(sizes)
            return method(codec, values, sizes, *arguments)

        return code

    def restored(codec):
        return codec.decode(codec.encode(list(map(codec.place, contents)), codec.options(), Batching()), Batching())

    def work(team):
        workers = Workers(team, lambda path: ContentCodec(hashing_model("text")))
        return workers.run_on_leader(lambda workers: restored(workers.codec(Path("a.model"))))

    monkeypatch.setattr(content_codec, "coded_or_raw", lambda entry, *_: entry)  # coded even where that is longer
    for name in windows:
        monkeypatch.setattr(ItemCodec, name, spied(getattr(ItemCodec, name)))
    assert restored(ContentCodec(hashing_model("text"))) == contents
    alone = {name: counts.pop(threading.get_ident()) for name, counts in windows.items()}
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, thread_teams(3))) == [contents, None, None]
    for name, counts in windows.items():
        assert counts.total() == alone[name]
        assert len(counts) == 3
        assert min(counts.values()) > alone[name] / 6


def make_files(folder: Path, kind: str) -> None:
    """Parts of what the golden model of a kind drew, so that it codes the longer ones, and a file that is none."""
    (folder / "below").mkdir(parents=True)
    drawn = ardm.decompress((GOLDEN / f"{kind}.ardm").read_bytes(), GOLDEN / f"{kind}.model")
    for number in range(1, 6):
        place, part = folder / ("below" if number % 2 else "") / f"file{number}", drawn[: len(drawn) * number // 5]
        if kind == "upscaled":
            Image.fromarray(part).save(f"{place}.png")
        elif kind == "sound":
            place.with_suffix(".wav").write_bytes(wav_file(part[:, None], SAMPLE_RATE))
        else:
            place.with_suffix(".txt").write_text(part, encoding="utf-8")
    bad = {"upscaled": "bad.png", "sound": "bad.wav", "text": "bad.txt"}[kind]
    (folder / bad).write_bytes(b"\xff\xfe\xfd")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def without_seconds(table: str) -> list[list[str]]:
    return [line.split()[:-1] for line in table.splitlines()]


@pytest.mark.parametrize("kind", ["upscaled", "text"])
def test_two_processes_compress_and_restore_as_one(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_files(tmp_path / "files", kind)
    how = ["--model", str(GOLDEN / f"{kind}.model"), "--batch-size", "7"]
    assert main(["compress", "files", *how, "-o", "one"]) == 1
    alone = capsys.readouterr()
    assert alone.out.count("(stored)") <= 3
    ended = Forked.start(["compress", "files", *how, "-o", "two"], 2).end()
    assert contents(tmp_path / "one") == contents(tmp_path / "two") != {}
    assert (ended.status, ended.said) == (1, alone.err)
    assert without_seconds(ended.output) == without_seconds(alone.out)
    longest = next((tmp_path / "two").rglob("file5*"))
    longest.write_bytes(longest.read_bytes()[:-1])
    assert main(["decompress", "two", *how, "-o", "back one"]) == 1
    alone = capsys.readouterr()
    ended = Forked.start(["decompress", "two", *how, "-o", "back two"], 2).end()
    assert contents(tmp_path / "back one") == contents(tmp_path / "back two") != {}
    assert (ended.status, ended.said) == (1, alone.err)


def test_three_processes_make_the_same_archive(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_files(tmp_path / "files", "sound")
    how = ["--model", str(GOLDEN / "sound.model"), "-o"]
    words = ["compress", "files", *how]
    assert main([*words, "one.ardma"]) == 1
    assert capsys.readouterr().out.count("(stored)") <= 3
    ended = Forked.start([*words, "three.ardma"], 3).end()
    assert ended.line.startswith("ardm: files/bad.wav is neither a WAV nor a FLAC file")
    assert Path("one.ardma").read_bytes() == Path("three.ardma").read_bytes()
    output(capsys, ["decompress", "three.ardma", *how, "one"])
    ended = Forked.start(["decompress", "three.ardma", *how, "three"], 3).end()
    assert ended.status == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "three") != {}
    # What the first process finds wrong ends all, with its one line.
    ended = Forked.start(["decompress", "three.ardma", "--model", "files/bad.wav", "-o", "three"], 3).end()
    assert ended.status == 1
    assert ended.line.startswith("ardm: ")


def test_other_commands_are_for_one_process(monkeypatch, capsys):
    numbers = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name, value in numbers.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("ardm.cli.main.elect_reporter", lambda: True)
    for command in (
        ["models"],
        ["export", "run", "-o", "a.model"],
        ["plan", "run", "--calls", "3"],
        ["serve", "a.model"],
    ):
        line = f"ardm: ardm {command[0]} is for one process: start it without torchrun\n"
        assert fails(capsys, command) == (2, line)


def test_a_cluster_may_set_some_of_the_variables(monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    assert "images" in output(capsys, ["models"])
