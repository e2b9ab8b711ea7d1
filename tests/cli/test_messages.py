"""Bad arguments get one line, without what --help says."""

import os
import re
import subprocess
import sys

import pytest
from invoke import fails


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("train", "Missing from ardm train: PRESET, --data PATH, --out PATH; see ardm train --help"),
        (
            "train text --nonsense",
            "Missing from ardm train: --data PATH, --out PATH. Unrecognized options: --nonsense; see ardm train --help",
        ),
        (
            "train text --data a --out b --stps 3",
            "unknown arguments --stps 3; perhaps you meant --steps; see ardm train --help",
        ),
        (
            "train text --data a --out b --stps 3 --dta x",
            "unknown arguments --stps 3 --dta x; perhaps you meant --steps and --data; see ardm train --help",
        ),
        ("bench train --preset text", "unknown arguments --preset text; perhaps you meant --presets; see ardm bench"),
        ("bench train --presets text --calls 3", "unknown arguments --calls 3; see ardm bench train --help"),
        ("report calls m d --scale paper", "unknown arguments --scale paper; see ardm report calls --help"),
        ("--steps 3 train text --data a --out b", "--steps goes after the name of the command: ardm train --steps"),
        ("--steps=3 train text --data a --out b", "--steps goes after the name of the command: ardm train --steps"),
        ("bench --json plan", "--json goes after the name of the command: ardm bench plan --json"),
        (f"bench plan {'long' * 40}", f"unknown arguments {'long' * 40}; see ardm bench plan --help"),
        ("report calls --nonsense", "Missing value for argument 'model'. Expected 1 values; see ardm report calls"),
        ("bench", "Missing subcommand. Expected one of {plan, train, call, sample, codec, data}; see ardm bench"),
        ("bench foo", "there is no ardm bench foo. Expected one of {plan, train, call, sample, codec, data}; see ardm"),
        ("foo", "there is no ardm foo. Expected one of {train, eval, sample, infill,"),
        ("data text8 --root x --shard-mib 1.5", "Error parsing --shard-mib: invalid literal for int() with base 10"),
        (
            "data text8 --root x --channels 2",
            "invalid choice '2' for argument '--channels'. Expected one of ('1', '3')",
        ),
        (
            "bench train --presets bytes text --base 1000",
            "bytes: the base must lie in 2..255 for 256 classes",
        ),
        ("bench train --presets text --base 1", "text: the base must be at least 2, got 1"),
    ],
)
def test_bad_arguments(arguments, line, capsys):
    status, told = fails(capsys, arguments.split())
    assert status == 2
    assert told.startswith(f"ardm: {line}")


def test_frames_in_any_encoding():
    """They are drawn with lines where these can be shown, and otherwise in ASCII."""
    for encoding in ("ascii", "utf-8"):
        environment = os.environ | {"PYTHONIOENCODING": encoding, "COLUMNS": "70"}
        command = [sys.executable, "-m", "ardm", "train"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr == "ardm: Missing from ardm train: PRESET, --data PATH, --out PATH; see ardm train --help\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            "train text --data a.txt b.txt --out r",
            "--data takes one file or folder, but 2 came (a shell expands *.txt): ",
        ),
        ("train --data a.txt b.txt text --out r", "--data takes one file or folder, but 2 came"),
        ("train text --data=a.txt b.txt --out r", "--data takes one file or folder, but 2 came"),
        ("eval m a.txt b.txt c.txt", "DATA takes one file or folder, but 3 came (a shell expands *.txt): "),
    ],
)
def test_several_files_where_one_is_taken(capsys, tmp_path, monkeypatch, arguments, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    for name in "abc":
        (tmp_path / "d" / f"{name}.txt").write_text(name)
    status, error = fails(capsys, re.sub(r"(?=\b\w\.txt)", "d/", arguments).split())
    assert status == 2
    assert error.startswith(f"ardm: {line}")
    assert "give the folder d, or join texts in one file; see ardm " in error


def test_other_unknown_words_are_no_files(capsys, tmp_path):
    assert "unknown arguments nothing.txt" in fails(capsys, ["eval", "m", str(tmp_path), "nothing.txt"])[1]
