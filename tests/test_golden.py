"""Files of every format version decode, in every setting, to what they were made from (`tests/golden/make.py`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ardm
from golden.make import digest

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = sorted(path for path in GOLDEN.iterdir() if (path / "digests.json").exists())
FILES = [(version, kind) for version in VERSIONS for kind in json.loads((version / "digests.json").read_text())]
SETTINGS = {
    "native, 2 threads": {"OMP_NUM_THREADS": "2"},
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "NUMBA_CPU_NAME": "haswell"},
    "SSE4": {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default", "NUMBA_CPU_NAME": "generic"},
    "plain int8": {"ARDM_EXACT": "int8"},
    "float32": {"ARDM_EXACT": "float32"},
    "float64": {"ARDM_EXACT": "float64"},
}


def check(version: Path, kind: str, batch_size: int | None = None) -> None:
    """Restore a golden file, and compress what it restores to the same bytes again."""
    data, model = (version / f"{kind}.ardm").read_bytes(), version / f"{kind}.model"
    value = ardm.decompress(data, model, batch_size=batch_size)
    assert digest(value) == json.loads((version / "digests.json").read_text())[kind]
    assert ardm.compress(model, value, batch_size=batch_size) == data


@pytest.mark.parametrize(("version", "kind"), FILES, ids=[f"{version.name} {kind}" for version, kind in FILES])
def test_golden_files_decode(version, kind):
    for batch_size in (1, 7, 64):
        check(version, kind, batch_size)


@pytest.mark.parametrize("setting", SETTINGS)
def test_golden_files_decode_in_every_setting(setting, tmp_path):
    environment = os.environ | SETTINGS[setting] | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(GOLDEN.parent)}
    command = [sys.executable, str(Path(__file__))]
    subprocess.run(command, env=environment, check=True, timeout=300)


if __name__ == "__main__":
    for version, kind in FILES:
        check(version, kind)
