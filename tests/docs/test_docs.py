"""The documents agree with the software: commands can be given, examples run, and the site builds."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from documents import README, ROOT, all_blocks, blocks, commands, run, spans
from PIL import Image
from tiny import TEXT

import ardm
from ardm import pretrained
from ardm.cli.main import parse
from ardm.errors import UsageError

DOCUMENTS = [
    README,
    *(ROOT / "docs" / name for name in ("index.md", "tutorial.md", "serve.md", "scale.md", "architecture.md")),
    *sorted((ROOT / "docs" / "api").glob("*.md")),
    *(path.with_suffix(pretrained.CARD_SUFFIX) for path in pretrained.bundled_models().values()),
]
MADE_WITH_THE_SITE = {"comparisons/report.md"}
OTHER_PROGRAMS = {"make", "pip", "python", "git", "cd", "sh"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_can_be_given(document):
    for block in blocks(document, "sh"):
        for program, *arguments in commands(block):
            assert program in {"ardm", "torchrun", *OTHER_PROGRAMS}
            if program == "torchrun":
                parse(arguments[arguments.index("ardm") + 1 :])
            elif program == "ardm":
                parse(arguments)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_inside_lines_exist(document):
    """What is left out of them is known from the text, but what they do say must be right."""
    for span in spans(document):
        if span.startswith("ardm ") and span != "ardm --help":
            (arguments,) = commands(span.removeprefix("ardm ").replace("PRESET", "text8"))
            complaint = complaint_about(arguments)
            assert not complaint or complaint.startswith("Missing from"), span
            assert "Unrecognized" not in complaint, span


def test_a_wrong_flag_or_name_would_be_noticed():
    for line in ("train text8 --data D --out R --stpes 3", "train cifar --data D --out R", "evaluate RUN D"):
        with pytest.raises(UsageError):
            parse(line.split())


def test_links_lead_to_files():
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            is_found = target.startswith("https://") or (document.parent / target).exists()
            assert is_found or target in MADE_WITH_THE_SITE, f"{document.name}: {target}"


def test_paths_in_code_lead_to_files():
    """Paths from the root of the repository; the log tells what was, and patterns and runs/out may match nothing."""
    for document in DOCUMENTS:
        text = "" if document.name == "LOG.md" else document.read_text(encoding="utf-8")
        for path in re.findall(r"`((?:docs|examples|runs|src|tests|tools)/[\w./-]+)`", text):
            assert path.startswith("runs/out") or (ROOT / path).exists(), f"{document.name}: {path}"


def git_reads_the_repository() -> bool:
    """Whether git is installed and finds a commit here; it refuses the folder of another user."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return shutil.which("git") is not None and subprocess.run(command, capture_output=True, timeout=60).returncode == 0


@pytest.mark.skipif(not git_reads_the_repository(), reason="needs git and a repository that it trusts")
def test_the_house_is_counted():
    script = str(ROOT / "tools" / "count_house.py")
    table = subprocess.run(
        [sys.executable, script, "HEAD"], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    assert re.search(r"^\| lines of src/ \| [\d,]+ \| [\d,]+ \|$", table, re.MULTILINE)


def test_the_site_builds(tmp_path):
    """A broken link, an unknown name or a page outside the navigation fails."""
    pytest.importorskip("mkdocstrings", reason="the site needs pip install 'ardm[docs]'")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "api" / "bits" / "index.html").read_text(encoding="utf-8")
    assert 'id="ardm.bound"' in page
    assert "&gt;&gt;&gt;" in page
    assert "<blockquote>" not in page
    report = (tmp_path / "comparisons" / "report" / "index.html").read_text(encoding="utf-8")
    assert "OA-ARDM" in report
    assert (tmp_path / "comparisons" / "loss-text8-oa.png").exists()


def test_the_plan_of_larger_runs_is_up_to_date():
    scale_plan, text = load_script("runs/scale_plan.py"), (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    for plan in (scale_plan.imagenet64(), scale_plan.enwik9()):
        assert "\n".join(scale_plan.report(plan)) in text, "run python runs/scale_plan.py"


def test_every_public_name_is_on_a_page():
    shown = re.findall(r"^::: ardm\.(\S+)$", "\n".join(page.read_text(encoding="utf-8") for page in pages()), re.M)
    assert {*shown} >= {*ardm.__all__} - {"__version__"}
    assert len({*shown}) == len(shown)


def pages() -> list[Path]:
    """The pages about the library, in the order of the site."""
    names = re.findall(r"api/\w+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert {ROOT / "docs" / name for name in names} == {*(ROOT / "docs" / "api").glob("*.md")}
    return [ROOT / "docs" / name for name in names]


def test_the_examples_of_the_library_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("more.txt").write_text(TEXT)
    images = ROOT / "examples"
    run(["ardm", "train", "text", "--data", "more.txt", "--out", "run"])
    run(["ardm", "train", "images", "--data", str(images), "--out", "images"])
    run(["ardm", "export", "images", "-o", "my.model", "--order", "halton", "--calls", "10"])
    Path("photo.png").write_bytes((images / "cat.png").read_bytes())
    capsys.readouterr()
    examples = [code for page in pages() for code in blocks(page, "python")]
    exec(compile("".join(examples), "docs/api", "exec"), {})
    assert "damaged" in capsys.readouterr().out.splitlines()[-1]


def test_the_tutorial_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_ships()
    Path("my-texts").mkdir()
    for name in ("my-texts/1.txt", "more.txt"):
        Path(name).write_text(TEXT)
    for language, block in all_blocks(ROOT / "docs" / "tutorial.md"):
        if language == "python":
            exec(compile(block, "tutorial.md", "exec"), {})
        for command in commands(block) if language == "sh" else []:
            run(command)
    assert Image.open("restored/new-images/ship-000.png").tobytes() == Image.open("new-images/ship-000.png").tobytes()


def write_ships() -> None:
    """A file like that of CIFAR-10's test images, with 26 ships and something else."""
    labels = np.array([8] * 26 + [0], np.uint8)
    pixels = np.arange(27 * 3072).reshape(27, -1) // 100 % 256
    Path("cifar-10-batches-bin").mkdir()
    np.column_stack([labels, pixels]).astype(np.uint8).tofile("cifar-10-batches-bin/test_batch.bin")


def complaint_about(arguments: list[str]) -> str:
    """What the command line says of arguments that it does not accept."""
    try:
        parse(arguments)
    except UsageError as error:
        return str(error)
    return ""


def load_script(path: str) -> ModuleType:
    """A script of the repository, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for their module there
    spec.loader.exec_module(module)
    return module
