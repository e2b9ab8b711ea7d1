"""Shapes are checked in every call of the package, tests draw from one seeded generator and leave nothing running."""

import collections
import os
import signal
import sys

import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook

if not torch.cuda.is_available():  # TorchDynamo cannot compile through the checks
    install_import_hook("ardm", "beartype.beartype")
    os.environ["TRITON_INTERPRET"] = "1"  # GPU kernels run on the CPU; read when Triton is imported
torch.set_num_threads(1)
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

for number, handler in {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}.items():
    if signal.getsignal(number) is signal.SIG_IGN:  # in a background job of a script; children would inherit it
        signal.signal(number, handler)


@pytest.fixture
def generator() -> torch.Generator:
    """A generator with a fixed seed, a fresh one for each test."""
    return torch.Generator().manual_seed(20211005)


@pytest.fixture(autouse=True)
def _nothing_left_running():
    """Processes that a failed test has left behind are killed, and their pipes closed."""
    yield
    if launched := sys.modules.get("launched"):
        launched.kill_leftovers()


def pytest_terminal_summary(terminalreporter) -> None:
    """One line for each reason why tests were skipped."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = collections.Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}")
