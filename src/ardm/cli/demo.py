"""ardm demo."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ardm.apps.demo import COMPRESSED, REPORT, RESTORED
from ardm.cli.common import Device
from ardm.errors import UsageError
from ardm.runtime.files import check_writable_folder, to_json, write_file

if TYPE_CHECKING:
    from ardm.apps.demo.coding import Row

MODELS = ("images", "text", "audio")
"""Bundled models in the order of the report."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Compress, restore, fill gaps and draw samples with the bundled models, and write a report.

    It takes a few minutes on 2 cores. FOLDER/report.html is a single page that needs no other file; FOLDER/compressed
    and FOLDER/restored hold the files.
    """

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FOLDER")] = Path("ardm-demo")
    """Folder to write the report and the files to."""
    examples: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Folder of small images, texts (.txt) and 16-bit sounds to use instead of the repository's examples."""
    force: bool = False
    """Replace the report and the files of an earlier demo."""
    seed: int = 0
    """Seed of the samples and the filled gaps."""
    device: Device = None
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Run the demo, write the report and print the table."""
        self._check()
        from ardm.apps.demo.models import find_examples, load_demo_models
        from ardm.apps.demo.page import report_page
        from ardm.apps.demo.results import run_demo
        from ardm.apps.demo.tables import blocks_of, notes_of, screen_table
        from ardm.compression.sources import BUNDLED_SUFFIXES

        log = _clocked()
        suffixes = {name: BUNDLED_SUFFIXES[name] for name in MODELS}
        models, left_out = load_demo_models(find_examples(self.examples), suffixes, self.device)
        for line in left_out:
            log(line)
        results = run_demo(models, left_out, self.output, self.seed, log)
        report = self.output / REPORT
        write_file(report, report_page(results).encode())
        blocks, notes = blocks_of(results), notes_of(results)
        if self.json:
            files = [{"file": block.title, "codecs": list(map(_facts, block.rows))} for block in blocks]
            print(to_json({"report": str(report), "files": files, "left_out": left_out, "notes": notes}).decode())
            return
        print(screen_table(blocks))
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        print(f"All files were restored and are identical. Report: {report}")

    def _check(self) -> None:
        check_writable_folder(self.output)
        for name in () if self.force else (REPORT, COMPRESSED, RESTORED):
            if (self.output / name).exists():
                raise UsageError(f"{self.output / name} already exists; --force replaces what the demo writes")


def _clocked() -> Callable[[str], None]:
    """A function that prints a line after the number of seconds since this call."""
    started = time.monotonic()
    return lambda line: print(f"{time.monotonic() - started:4.0f} s  {line}", file=sys.stderr, flush=True)


def _facts(row: "Row") -> dict[str, Any]:
    return {
        "codec": row.codec,
        "bytes": row.num_bytes,
        "bits_per_variable": row.bits,
        "encode_seconds": row.encode_seconds,
        "decode_seconds": row.decode_seconds,
    }
