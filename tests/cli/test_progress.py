"""Progress of long commands where stderr is no terminal: few lines, and none from what is soon done."""

import math
import sys

import pytest
from rich.progress import ProgressSample, Task, TaskID
from tiny import TEXT

from ardm.cli import common
from ardm.cli.common import progress, progress_line
from ardm.cli.main import main
from ardm.cli.train import StepLines, time_left_column


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The seconds that have passed, to be set by a test."""
    now = [0.0]
    monkeypatch.setattr(common.time, "monotonic", lambda: now[0])
    return now


def test_there_is_a_line_each_half_minute(capsys, clock):
    with progress("calls", 400, "scoring 2 items") as advance:
        for _ in range(400):
            clock[0] += 1
            advance(1)
    opening, *lines = capsys.readouterr().err.splitlines()
    assert opening == "scoring 2 items"
    assert len(lines) == 400 // 30
    assert lines[0] == "calls: 30 of 400 (7%), about 7 min left"
    assert lines[-1] == "calls: 390 of 400 (97%), about 1 min left"


def test_slow_steps_have_a_line_each_but_for_the_last(capsys, clock):
    with progress("calls", 3000) as advance:
        for _ in range(3):
            clock[0] += 100
            advance(1000)
    assert capsys.readouterr().err.splitlines() == [progress_line("calls", n, 3000, n / 10) for n in (1000, 2000)]


def test_the_beginning_promises_nothing():
    assert progress_line("calls", 9, 1000, 60.0) == "calls: 9 of 1,000 (0%)"
    assert progress_line("calls", 10, 1000, 60.0) == "calls: 10 of 1,000 (1%), about 99 min left"


@pytest.mark.parametrize("total", [0, 1000])
def test_what_is_soon_done_is_done_in_silence(capsys, total):
    with progress("calls", total) as advance:
        advance(total)
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar_and_no_lines(capsys, clock, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("calls", 2, "scoring 2 items") as advance:
        clock[0] += 100
        advance(1)
    error = capsys.readouterr().err
    assert "scoring" not in error
    assert "min left" not in error


def test_training_and_the_table_of_calls_tell_what_they_do(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(common, "SECONDS_PER_LINE", 0)
    (tmp_path / "t.txt").write_text(TEXT)
    flags = ["--item-length", "16", "--layers", "1", "--width", "32", "--steps", "4", "--batch-size", "8"]
    assert main(["train", "text", "--data", str(tmp_path / "t.txt"), "--out", str(tmp_path / "run"), *flags]) == 0
    error = capsys.readouterr().err
    assert "measuring the loss profile in" in error
    assert "loss profile: 8 of " in error
    flags = [
        "--items",
        "3",
        "--calls",
        "99",
        "16",
        "4",
        "--orders",
        "halton",
        "--planned-in",
        "raster",
        "--passes",
        "5",
    ]
    assert main(["report", "calls", str(tmp_path / "run"), str(tmp_path / "t.txt"), *flags]) == 0
    opening, *lines = capsys.readouterr().err.splitlines()
    total = 3 * (5 + 16 + 4 * (16 + 4))  # items x (passes, one order, four columns of two budgets)
    assert opening.startswith("scoring 3 of ")
    assert opening.endswith(f"items of t.txt, test split; orders: 2, budgets: 2, network calls: {total}")
    assert all(f" of {total} (" in line for line in lines)
    assert lines[0].startswith("calls: 15 of ")  # the bound, whose passes share a batch
    assert lines[-1].startswith(f"calls: {total - 12} of ")  # the last schedule's are not told: all is done


def test_training_tells_its_steps_soon_and_then_each_half_minute(clock):
    lines, told = StepLines(0, 1000, math.inf), []
    for step in range(1, 1001):
        clock[0] += 0.5
        if step == 40:
            lines.bits = 2.5
        told += [line] if (line := lines.after(step)) else []
    assert told[:2] == [
        "step 20 of 1,000: 2.0 steps/s, about 9 min left",
        "step 80 of 1,000: 2.500 bits, 2.0 steps/s, about 8 min left",
    ]
    assert len(told) == 1 + (500 - 10) // 30


def test_the_time_that_is_left_respects_the_time_limit(clock):
    lines = StepLines(0, 1000, deadline=100.0)
    clock[0] = 50
    assert lines.after(5) == "step 5 of 1,000: 10.0 s per step, about 50 s left"
    lines = StepLines(0, 1000, deadline=1e6)
    clock[0] = 100
    assert lines.after(999) == "step 999 of 1,000: 20.0 steps/s, about 1 s left"


@pytest.mark.parametrize(("deadline", "shown"), [(math.inf, "0:01:39"), (1000.0, "0:01:39"), (30.0, "0:00:29")])
def test_so_does_the_bar(clock, deadline, shown):
    task = Task(TaskID(0), "training", total=100, completed=0, _get_time=lambda: clock[0])
    task.start_time = 0
    for second in (0, 1):
        task._progress.append(ProgressSample(second, 1))
    task.completed, clock[0] = 1, 1.0
    assert time_left_column(deadline).render(task).plain == shown


def test_training_without_a_terminal_is_not_silent(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("ardm.cli.train.FIRST_LINE_SECONDS", 0)
    monkeypatch.setattr("ardm.cli.train.SECONDS_PER_LINE", 0)
    (tmp_path / "t.txt").write_text(TEXT)
    flags = ["--item-length", "16", "--layers", "1", "--width", "32", "--steps", "4", "--batch-size", "8"]
    flags += ["--log-every", "1"]
    assert main(["train", "text", "--data", str(tmp_path / "t.txt"), "--out", str(tmp_path / "run"), *flags]) == 0
    steps = [line for line in capsys.readouterr().err.splitlines() if line.startswith("step ") and " left" in line]
    assert [line.split(":")[0] for line in steps] == ["step 1 of 4", "step 2 of 4", "step 3 of 4"]
    assert " bits, " in steps[1]
