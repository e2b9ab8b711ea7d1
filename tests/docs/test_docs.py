"""The documents agree with the software: commands can be given, examples run, and the site builds."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from documents import README, ROOT, all_blocks, blocks, command_names, commands, load_script, run, spans
from PIL import Image
from tiny import TEXT

import ardm
from ardm import pretrained
from ardm.cli.main import parse
from ardm.errors import UsageError
from ardm.library import model as model_module

NOT_CHECKED = {"LOG.md", "format.md", "network.md"}
"""The log tells what was; the formats hold no commands."""
DOCUMENTS = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in NOT_CHECKED),
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
        if span.startswith("ardm ") and not span.endswith("--help"):
            (arguments,) = commands(span.removeprefix("ardm ").replace("PRESET", "text8"))
            complaint = complaint_about(arguments)
            assert not complaint or complaint.startswith("Missing"), span
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


def test_links_to_sections_lead_to_headings():
    """The site checks its own; those of the README and of files in the root are checked here."""
    for document in DOCUMENTS[:3]:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]*)\)", document.read_text(encoding="utf-8")):
            page = document.parent / target if target else document
            assert anchor in headings(page), f"{document.name}: {target}#{anchor}"


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_paths_in_code_lead_to_files():
    """Paths from the root of the repository; the log tells what was, and patterns and runs/out may match nothing."""
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
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
    model = (tmp_path / "api" / "model" / "index.html").read_text(encoding="utf-8")
    assert 'id="ardm.Model.infill"' in model
    for copied in ("models/text", "contributing", "changelog", "notebooks/your-own-table"):
        assert (tmp_path / copied / "index.html").exists()
    report = (tmp_path / "comparisons" / "report" / "index.html").read_text(encoding="utf-8")
    assert "OA-ARDM" in report
    assert (tmp_path / "comparisons" / "loss-text8-oa.png").exists()
    notebook = (tmp_path / "notebooks" / "your-own-table" / "index.html").read_text(encoding="utf-8")
    pictures = re.findall(r'<img [^>]*src="([^"]+\.png)"', notebook)
    assert len(pictures) >= 3
    assert all((tmp_path / "notebooks" / "your-own-table" / name).exists() for name in pictures)


def test_the_plan_of_larger_runs_is_up_to_date():
    scale_plan, text = load_script("runs/scale_plan.py"), (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    for plan in (scale_plan.imagenet64(), scale_plan.enwik9()):
        assert "\n".join(scale_plan.report(plan)) in text, "run python runs/scale_plan.py"


def test_every_public_name_is_on_a_page():
    shown = re.findall(r"^::: ardm\.(\S+)$", "\n".join(page.read_text(encoding="utf-8") for page in pages()), re.M)
    assert {*shown} >= {name for name in ardm.__all__ if isinstance(getattr(ardm, name), type | FunctionType)}
    assert len({*shown}) == len(shown)


@pytest.mark.parametrize("page", ["index.md", "library.md", "masked-models.md", "own-networks.md"])
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("photo.png").write_bytes((ROOT / "examples" / "cat.png").read_bytes())
    exec(compile("".join(blocks(ROOT / "docs" / page, "python")), page, "exec"), {})


def test_pages_with_examples_are_run():
    having = {
        document.name for document in DOCUMENTS if document.parent == ROOT / "docs" and blocks(document, "python")
    }
    assert having == {"index.md", "library.md", "masked-models.md", "own-networks.md", "tutorial.md"}


def pages() -> list[Path]:
    """The pages of the reference, in the order of the site."""
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


def test_the_table_of_verbs_agrees_with_the_code():
    rows = table(ROOT / "docs" / "library.md", "| command | method | function |")
    assert "infill" in " ".join(command for command, *_ in rows)
    promised = {
        (command, name) for command, methods, *_ in rows_of(model_module.__doc__ or "") for name in called(methods)
    }
    for command, methods, functions, _ in rows:
        assert not command or command.strip("`").removeprefix("ardm ") in command_names(), command
        assert {(command, name) for name in called(methods)} <= promised, command
        for name in called(methods):
            assert callable(getattr(ardm.Model, name)), name
        for name in called(functions):
            assert callable(getattr(ardm, name)), name


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


def table(page: Path, header: str) -> list[list[str]]:
    """The cells of the table of a page whose header begins like this."""
    return rows_of(page.read_text(encoding="utf-8").split(header)[1].split("\n\n")[0])


def rows_of(text: str) -> list[list[str]]:
    """The cells of the rows of a Markdown table, below its ruler."""
    lines = [line for line in text.splitlines()[1:] if line.startswith("|")]
    ruler = next(number for number, line in enumerate(lines) if set(line) <= set("|- "))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[ruler + 1 :]]


def called(cell: str) -> set[str]:
    """The names that a cell gives behind a dot: of methods of a model, or of functions of the package."""
    return {*re.findall(r"`(?:model|ardm)\.(\w+)", cell)}


def complaint_about(arguments: list[str]) -> str:
    """What the command line says of arguments that it does not accept."""
    try:
        parse(arguments)
    except UsageError as error:
        return str(error)
    return ""
