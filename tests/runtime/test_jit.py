"""Compiled functions work where nothing can be cached."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import ardm

SCRIPT = """
import numpy as np
from numba import njit

import ardm
from ardm.codec.frequencies import softmax_weights
from ardm.exact import kernels
from ardm.schedule import full_schedule

try:
    njit(kernels.rescale.py_func, cache=True)
except RuntimeError as error:
    assert "no locator available" in str(error), error
else:
    raise AssertionError("there is a place for a cache")
weights = softmax_weights(np.zeros((1, 4), np.int32), np.array([0]), np.array([4]), 4)
print(ardm.__file__, *weights[0])
"""


def test_functions_are_compiled_without_a_cache_where_none_can_be_written(tmp_path):
    # Root may write anywhere, but not below a file.
    package = tmp_path / "ardm"
    shutil.copytree(Path(ardm.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for directory in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (directory / "__pycache__").touch()
    nowhere = str(tmp_path / "file" / "below")
    (tmp_path / "file").touch()
    places = dict.fromkeys(("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"), nowhere) | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-B", "-W", "error", "-c", SCRIPT]
    result = subprocess.run(command, env=os.environ | places, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [str(package / "__init__.py"), *["4194304"] * 4]
