"""The notebooks show what they print, call what exists, and run as they stand."""

import json
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest
from documents import ROOT, load_script

import ardm
from ardm.cli.main import parse

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
MAX_BYTES = 1_500_000
"""Of all notebooks together, with their pictures."""


def cells(path: Path, kind: str) -> list[dict]:
    """The cells of a kind, `code` or `markdown`."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def source(path: Path) -> str:
    """The code of a notebook."""
    return "\n".join("".join(cell["source"]) for cell in cells(path, "code"))


def test_there_are_five():
    assert len(NOTEBOOKS) == 5
    assert sum(path.stat().st_size for path in NOTEBOOKS) < MAX_BYTES


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_was_run_in_order_without_an_error(path):
    code = cells(path, "code")
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    kinds = {output["output_type"] for cell in code for output in cell["outputs"]}
    assert kinds <= {"stream", "display_data", "execute_result"}
    assert not [output for cell in code for output in cell["outputs"] if output.get("name") == "stderr"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_that_print_have_outputs(path):
    for cell in cells(path, "code"):
        text = "".join(cell["source"])
        if re.search(r"^\s*print\(|^!|^show\(|\.plot\(", text, re.MULTILINE):
            assert cell["outputs"], text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_of_the_machine_is_kept(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(?:home|root|tmp|work|Users)/|iopub|\"version\": \"3", text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_names_of_the_library_exist(path):
    names = re.findall(r"\bardm\.(\w+)", source(path))
    assert names
    for name in names:
        assert hasattr(ardm, name) or name in ("ardm", "model"), name
    for name in re.findall(r"\bmodel\.(\w+)", source(path)):
        assert hasattr(ardm.MaskedModel, name) or hasattr(ardm.load("text"), name), name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_commands_can_be_given(path):
    for line in re.findall(r"^!ardm (.*)$", source(path), re.MULTILINE):
        parse(line.split(" | ")[0].split())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_lead_to_files(path):
    text = "\n".join("".join(cell["source"]) for cell in cells(path, "markdown"))
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    assert targets
    for target in targets:
        assert target.startswith("https://") or (path.parent / target).exists(), target


def runner() -> ModuleType:
    """The script that runs notebooks."""
    pytest.importorskip("nbclient", reason="running notebooks needs pip install 'ardm[dev]'")
    pytest.importorskip("ipykernel", reason="running notebooks needs pip install 'ardm[dev]'")
    return load_script("tools/run_notebooks.py")


def write_notebook(path: Path, *sources: str) -> Path:
    """A notebook with these cells of code, not yet run."""
    import nbformat

    made = [nbformat.v4.new_code_cell(text, id=f"cell-{number}") for number, text in enumerate(sources)]
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)
    return path


@pytest.mark.filterwarnings("default")
def test_a_run_keeps_outputs_and_nothing_else(tmp_path):
    script = runner()
    notebook = script.run_notebook(write_notebook(tmp_path / "some.ipynb", "print(1); print(2)", "3"))
    first, second = notebook.cells
    assert [output.text for output in first.outputs] == ["1\n2\n"]
    assert second.outputs[0].data["text/plain"] == "3"
    assert first.metadata == {}
    assert notebook.metadata.language_info == {"name": "python"}


def test_bars_are_kept_as_they_end():
    on_screen = runner().on_screen
    assert on_screen("1%\r99%\x1b[1m\ndone\n") == "99%\ndone\n"
    assert on_screen("\x1b[?25l\x1b[2Kbar\r\x1b[2Kbar 9%\n\x1b[1A\x1b[2Kend\n") == "end\n"
    assert on_screen("one\r\ntwo\r\n") == "one\ntwo\n"


@pytest.mark.filterwarnings("default")
def test_an_error_in_a_cell_is_raised(tmp_path):
    script = runner()
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        script.run_notebook(write_notebook(tmp_path / "some.ipynb", "1 / 0"))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    examples = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", examples)
    (tmp_path / "runs").mkdir()
    shutil.copy(ROOT / "runs" / "masked_sources.py", tmp_path / "runs")
    runner().run_notebook(examples / "notebooks" / path.name)
