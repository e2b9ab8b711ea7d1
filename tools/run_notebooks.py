"""Run the notebooks of `examples/notebooks` and write their outputs into them.

    python tools/run_notebooks.py                      # all of them, or those that are named
    python tools/run_notebooks.py FOLDER/any-order-text.ipynb

Nothing of the machine is kept: neither times nor paths nor the version of Python.
"""

import os
import re
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"
SECONDS_PER_CELL = 600
CONTROL = re.compile(r"(\x1b\[[?\d;]*[A-Za-z]|[\r\n])")
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def run_notebook(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a fresh run in its own folder; an error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    # `ardm` is the command beside this Python, whether or not its environment is active.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    client = NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    return cleaned(notebook)


def cleaned(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook without metadata of the run, its streams of text joined as a reader sees them."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
    return notebook


def joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Outputs of a cell, with neighbouring pieces of one stream as a single piece."""
    result: list[nbformat.NotebookNode] = []
    for output in outputs:
        is_stream = output.output_type == "stream"
        if is_stream and result and result[-1].output_type == "stream" and result[-1].name == output.name:
            result[-1].text += output.text
        else:
            result.append(output)
    for output in result:
        if output.output_type == "stream":
            output.text = on_screen(output.text)
        elif "image/png" in output.data:
            output.data.pop("image/jpeg", None)  # the same picture
    return result


def on_screen(text: str) -> str:
    """The lines that a terminal shows in the end; bars of progress overwrite themselves, and colours are left out.

    >>> on_screen("1%\\r99%\\x1b[1m\\ndone\\n")
    '99%\\ndone\\n'
    """
    rows, row, column = [""], 0, 0
    for piece in CONTROL.split(text):
        if piece == "\n":
            row, column = row + 1, 0
            rows += [""] * (row == len(rows))
        elif piece == "\r":
            column = 0
        elif piece.startswith("\x1b") and piece.endswith("A"):
            row = max(0, row - int(piece[2:-1] or 1))
        elif piece.startswith("\x1b") and piece.endswith("K"):
            rows[row] = ""
        elif not piece.startswith("\x1b"):
            rows[row] = rows[row][:column].ljust(column) + piece + rows[row][column + len(piece) :]
            column += len(piece)
    return "\n".join(rows)


def main(names: list[str]) -> None:
    """Run notebooks in place and print how long each took."""
    for path in [Path(name) for name in names] or sorted(NOTEBOOKS.glob("*.ipynb")):
        begun = time.monotonic()
        notebook = run_notebook(path)
        nbformat.write(notebook, path)
        print(f"{path.name}: {time.monotonic() - begun:.0f} seconds, {path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
