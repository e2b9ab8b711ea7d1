"""Files of every format version decode, in every setting, to what they were made from (`tests/golden/make.py`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ardm
from ardm.checkpoint import load_model
from ardm.codec.batching import Batching
from ardm.codec.format.archive import ArchiveReader
from ardm.codec.format.short import is_short
from ardm.compression.content_codec import CodecSet, ContentCodec
from ardm.media.contents import value_of
from golden.make import digest

GOLDEN = Path(__file__).parents[2] / "golden"
VERSIONS = sorted(path for path in GOLDEN.iterdir() if (path / "digests.json").exists())
FILES = [(version, path.name) for version in VERSIONS for path in sorted(version.glob("*.ardm"))]
SETTINGS = {
    "native, 2 threads": {"OMP_NUM_THREADS": "2"},
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "NUMBA_CPU_NAME": "haswell"},
    "SSE4": {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default", "NUMBA_CPU_NAME": "generic"},
    "plain int8": {"ARDM_EXACT": "int8"},
    "float32": {"ARDM_EXACT": "float32"},
    "float64": {"ARDM_EXACT": "float64"},
}


def digests(version: Path) -> dict[str, str]:
    """What each golden file restores to."""
    return json.loads((version / "digests.json").read_text())


def model_of(version: Path, name: str) -> Path:
    """The model that a golden file was made with."""
    return version / f"{name.removesuffix('.ardm').split('-')[0]}.model"


def order_of(name: str) -> str | None:
    """The order that a golden file was made in, if not the model's own."""
    return "strands" if name.endswith("-strands.ardm") else None


def check(version: Path, name: str, batch_size: int | None = None) -> None:
    """Restore a golden file, and compress what it restores to the same bytes again, unless they are shorter now."""
    data, model = (version / name).read_bytes(), model_of(version, name)
    value = ardm.decompress(data, model, batch_size=batch_size)
    assert digest(value) == digests(version)[name]
    again = ardm.compress(model, value, batch_size=batch_size, order=order_of(name))
    assert again == data or (is_short(again) and len(again) < len(data))


@pytest.mark.parametrize(("version", "name"), FILES, ids=[f"{version.name} {name}" for version, name in FILES])
def test_golden_files_decode(version, name):
    for batch_size in (1, 7, 64):
        check(version, name, batch_size)


@pytest.mark.parametrize("version", VERSIONS, ids=[version.name for version in VERSIONS])
def test_golden_archives_decode(version):
    models = CodecSet([ContentCodec(load_model(version / "text.model"))])
    with (version / "texts.ardma").open("rb") as file:
        reader = ArchiveReader(file)
        restored = models.decode([reader.read(name) for name in reader.listings], Batching())
    found = {name: value_of(one) for name, one in zip(reader.listings, restored, strict=True)}
    assert found == json.loads((version / "texts.json").read_text())


@pytest.mark.parametrize("setting", SETTINGS)
def test_golden_files_decode_in_every_setting(setting, tmp_path):
    folders = os.pathsep.join(map(str, (GOLDEN.parent, GOLDEN.parent / "helpers")))
    environment = os.environ | SETTINGS[setting] | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": folders}
    command = [sys.executable, str(Path(__file__))]
    subprocess.run(command, env=environment, check=True, timeout=300)


if __name__ == "__main__":
    for version, name in FILES:
        check(version, name)
