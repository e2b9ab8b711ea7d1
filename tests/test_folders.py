"""Folders of files are split by names alone."""

import pytest

from ardm.data.folders import split_folder
from ardm.errors import DataError


def fill(folder, count: int) -> None:
    folder.mkdir(parents=True)
    for i in range(count):
        (folder / f"{i}.{'WAV' if i % 2 else 'wav'}").touch()
    (folder / "notes.txt").touch()


def test_names_alone_decide_the_splits(tmp_path):
    fill(tmp_path / "a", 45)
    fill(tmp_path / "b" / "c", 45)
    splits, moved = (split_folder(tmp_path / name, {".wav"}, "sounds") for name in ("a", "b/c"))
    assert [len(splits.train), len(splits.valid), len(splits.test)] == [41, 2, 2]
    assert [f.name for f in moved.test] == [f.name for f in splits.test]
    everything = {f.name for part in (splits.train, splits.valid, splits.test) for f in part}
    assert everything == {f.name for f in (tmp_path / "a").iterdir()} - {"notes.txt"}


def test_folders_with_too_few_files_are_refused(tmp_path):
    fill(tmp_path / "few", 2)
    with pytest.raises(DataError, match="few has 2 sounds; at least 3 are needed"):
        split_folder(tmp_path / "few", {".wav"}, "sounds")
    with pytest.raises(DataError, match="there is no folder"):
        split_folder(tmp_path / "none", {".wav"}, "sounds")
