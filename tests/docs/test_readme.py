"""The README is short, and its code runs: the library's example and the commands as they stand, on a small text."""

import re
from pathlib import Path

from documents import README, ROOT, blocks, commands, run
from tiny import TEXT

MAX_LINES = 150


def test_it_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_the_library_examples_run(capsys):
    exec(compile("".join(blocks(README, "python")), "README.md", "exec"), {})
    assert (
        capsys.readouterr()
        .out.splitlines()[0]
        .endswith("bits/char, 1 item; exact, raster order, one variable per call")
    )


def test_the_commands_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my-texts").mkdir()
    for name in ("my-texts/1.txt", "my-texts/2.txt", "more.txt"):
        Path(name).write_text(TEXT)
    (block,) = (b for b in blocks(README, "sh") if b.startswith("ardm train text "))
    for command in commands(block):
        if command[1] != "serve":  # runs until it is stopped; test_serve.py does so
            run(command)
    assert Path("back/more.txt").read_text() == TEXT


def test_make_has_the_targets():
    makefile = (ROOT / "Makefile").read_text()
    targets = [targets for block in blocks(README, "sh") for program, *targets in commands(block) if program == "make"]
    assert ["test"] in targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for each in targets for target in each)
