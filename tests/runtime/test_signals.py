"""Signals are raised where nothing swallows them."""

import os
import signal
import subprocess
import sys

import pytest

BEGINNING = """
import os, signal, sys, time
from ardm.runtime.signals import Terminated, ignore_signals, raise_signals
raise_signals()
"""
PLACES = {
    "anywhere": "os.kill(os.getpid(), NUMBER)",
    "in an import that swallows it": "import swallowing; assert swallowing.is_whole",
    "where nothing can be raised": "import dying; dying.Dying()",
}
SWALLOWING = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.NAME)
    time.sleep(0.1)
    is_whole = True
except BaseException:
    is_whole = False
"""
DYING = """
import os, signal
class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.NAME)
"""


def run(script: str, **how: object) -> str:
    done = subprocess.run([sys.executable, "-c", BEGINNING + script], capture_output=True, text=True, timeout=60, **how)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("place", PLACES)
def test_a_signal_is_raised(place, name, tmp_path):
    for module, text in (("swallowing", SWALLOWING), ("dying", DYING)):
        (tmp_path / f"{module}.py").write_text(text.replace("NAME", name))
    statement = PLACES[place].replace("NUMBER", str(int(getattr(signal, name))))
    script = f"""
try:
    {statement}
    time.sleep(30)
except KeyboardInterrupt as raised:
    print(type(raised).__name__)
"""
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    assert run(script, env=environment) == {"SIGTERM": "Terminated\n", "SIGINT": "KeyboardInterrupt\n"}[name]


def test_what_was_ignored_stays_so():
    script = "os.kill(os.getpid(), signal.SIGINT); time.sleep(0.1); print('goes on')"
    assert run(script, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) == "goes on\n"
    both = "ignore_signals(); [os.kill(os.getpid(), n) for n in (signal.SIGINT, signal.SIGTERM)]; print('goes on')"
    assert run(both) == "goes on\n"
