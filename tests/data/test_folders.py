"""Folders of files are split by names alone."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ardm.data.folders import split_folder
from ardm.data.images import load_images
from ardm.data.sound_files import write_wav
from ardm.data.sounds import load_sounds
from ardm.data.text import load_own_text
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
    with pytest.raises(DataError, match="0.wav is a file; a folder of sounds is needed, give the one that holds it"):
        split_folder(tmp_path / "few" / "0.wav", {".wav"}, "sounds")


def test_few_files_are_all_test_where_they_are_only_scored(tmp_path):
    fill(tmp_path / "few", 2)
    splits = split_folder(tmp_path / "few", {".wav"}, "sounds", to_score=True)
    assert (splits.train, splits.valid, [f.name for f in splits.test]) == ([], [], ["0.wav", "1.WAV"])
    with pytest.raises(DataError, match="few has 0 pictures; at least 1 is needed"):
        split_folder(tmp_path / "few", {".png"}, "pictures", to_score=True)
    fill(tmp_path / "many", 45)
    for to_score in (False, True):
        splits = split_folder(tmp_path / "many", {".wav"}, "sounds", to_score=to_score)
        assert [len(splits.train), len(splits.valid), len(splits.test)] == [41, 2, 2]


def test_hidden_files_are_left_out(tmp_path):
    folder = tmp_path / ".data"  # what lies above does not matter
    fill(folder, 3)
    for hidden in ("._0.wav", ".trash/0.wav", "sub/.trash/deep/0.wav", "__pycache__/0.wav"):
        (folder / hidden).parent.mkdir(parents=True, exist_ok=True)
        (folder / hidden).touch()
    splits = split_folder(folder, {".wav"}, "sounds")
    assert sorted(f.name for f in [*splits.train, *splits.valid, *splits.test]) == ["0.wav", "1.WAV", "2.wav"]


def test_the_folder_that_one_is_in_has_a_title(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for i in range(3):
        write_wav(Path(f"{i}.wav"), np.zeros(4, np.int16), 8000)
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(f"{i}.png")
    corpora = [load_sounds(Path()), load_images(Path(), 1), load_own_text(Path(), "bytes")]
    assert [corpus.title for corpus in corpora] == [tmp_path.name] * 3
