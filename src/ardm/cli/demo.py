"""ardm demo."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ardm.apps.demo import COMPRESSED, REPORT, RESTORED
from ardm.cli.compress import boxed_suffixes
from ardm.errors import UsageError
from ardm.runtime.files import check_writable_folder, write_file
from ardm.runtime.output import to_json

if TYPE_CHECKING:
    from ardm.apps.demo.tables import Block

MODELS = ("images", "text", "audio")
"""In the box, as they are shown in turn."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Show what the models in the box do: compress, restore, fill gaps, draw samples, and write a report of it.

    It takes a few minutes on 2 cores. FOLDER/report.html needs nothing beside it; FOLDER/compressed and FOLDER/restored
    hold the files.
    """

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FOLDER")] = Path("ardm-demo")
    """Where the report and the files go."""
    examples: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Small images, texts (.txt) and 16-bit sounds to show it with; by default those of the repository."""
    force: bool = False
    """Replace the report and the files of an earlier demo."""
    seed: int = 0
    device: str | None = None
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Do it all; print the table and where the report is."""
        self._check()
        from ardm.apps.demo.exhibits import find_examples, find_exhibition
        from ardm.apps.demo.page import report_page
        from ardm.apps.demo.show import run_show
        from ardm.apps.demo.tables import blocks_of, notes_of, screen_table

        say = _telling()
        suffixes = {name: boxed_suffixes()[name] for name in MODELS}
        exhibition = find_exhibition(find_examples(self.examples), suffixes, self.device)
        for line in exhibition.left_out:
            say(line)
        show = run_show(exhibition, self.output, self.seed, say)
        write_file(self.output / REPORT, report_page(show).encode())
        blocks, notes = blocks_of(show), notes_of(show)
        if self.json:
            told = {"left_out": list(show.left_out), "notes": notes}
            print(to_json({"report": str(self.output / REPORT), "files": list(map(_plain, blocks))} | told).decode())
            return
        print(screen_table(blocks))
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        print(f"All files were restored and are identical. Report: {self.output / REPORT}")

    def _check(self) -> None:
        check_writable_folder(self.output)
        for name in () if self.force else (REPORT, COMPRESSED, RESTORED):
            if (self.output / name).exists():
                raise UsageError(f"{self.output / name} is there already; --force replaces what the demo writes")


def _telling() -> Callable[[str], None]:
    started = time.monotonic()
    return lambda line: print(f"{time.monotonic() - started:4.0f} s  {line}", file=sys.stderr, flush=True)


def _plain(block: "Block") -> dict[str, Any]:
    rows = [
        {
            "codec": row.codec,
            "bytes": row.num_bytes,
            "bits_per_variable": row.bits,
            "encode_seconds": row.encode_seconds,
            "decode_seconds": row.decode_seconds,
        }
        for row in block.rows
    ]
    return {"file": block.title, "codecs": rows}
