"""Alphabets, text8 and the user's own files."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ardm.data import text as text_module
from ardm.data.alphabet import BYTES, Alphabet, alphabet_of
from ardm.data.text import TextCorpus, load_own_text, load_text8, text_files
from ardm.errors import DataError


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_text_survives_its_own_alphabet(text):
    content = text.encode()
    alphabet = alphabet_of(content, "x")
    classes = alphabet.encode(content)
    assert alphabet.decode(classes) == content
    assert classes.max() == alphabet.num_classes - 1


@given(st.binary(min_size=1))
def test_bytes_survive(content):
    assert BYTES.decode(BYTES.encode(content)) == content


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_str_is_encoded_as_its_bytes_are(text):
    content = text.encode()
    for alphabet in (BYTES, alphabet_of(content, "x")):
        assert alphabet.encode(text).tolist() == alphabet.encode(content).tolist()


def test_a_str_that_no_file_holds_is_refused():
    for alphabet in (BYTES, Alphabet(characters="ab")):
        with pytest.raises(DataError, match=r"notes is not Unicode text \(character 1 is the surrogate '\\udc80'\)"):
            alphabet.encode("a\udc80", "notes")
    with pytest.raises(DataError, match="the text is empty"):
        Alphabet(characters="ab").encode("")


def test_a_text_holds_no_values_beyond_its_alphabet():
    for value in (-1, 2):
        with pytest.raises(ValueError, match=r"values must lie in 0\.\.1, got"):
            TextCorpus(title="t", alphabet=Alphabet(characters="ab"), classes=np.array([0, value]), num_held_out=0)


def test_unknown_characters_are_named():
    alphabet = Alphabet(characters="abc ")
    with pytest.raises(DataError, match=r"notes: character 'é' at position 2 is not in the model's alphabet 'abc '"):
        alphabet.encode("abé".encode(), "notes")
    with pytest.raises(DataError, match=r"character '\\n' at position 3"):
        alphabet.encode(b"abc\n")


def test_damaged_and_empty_text_is_refused():
    with pytest.raises(DataError, match=r"not UTF-8 text \(byte 1 is 0xff\)"):
        alphabet_of(b"a\xff", "x")
    with pytest.raises(DataError, match="x is empty"):
        alphabet_of(b"", "x")
    with pytest.raises(DataError, match="5000 different characters"):
        alphabet_of("".join(map(chr, range(0x4E00, 0x4E00 + 5000))).encode(), "x")


def test_hidden_variables_show_as_underscores():
    assert Alphabet(characters="ab\n").show(np.array([0, 1, 2, 3])) == "ab _"
    assert BYTES.show(np.array([65, 7, 256])) == "A·_"


def fake_text8(tmp_path: Path, monkeypatch, content: bytes) -> Path:
    known = {len(content): ("text8 (fake)", hashlib.md5(content).hexdigest())}
    monkeypatch.setattr(text_module, "TEXT8_FILES", known)
    monkeypatch.setattr(text_module, "TEXT8_HOLD_OUT", 10)
    (tmp_path / "text8").write_bytes(content)
    return tmp_path / "text8"


def test_text8_splits_lie_at_the_end(tmp_path, monkeypatch):
    content = (b"abcdefghij" * 10)[:-20] + b"k" * 10 + b"z" * 10
    path = fake_text8(tmp_path, monkeypatch, content)
    for place in (tmp_path, path):
        corpus = load_text8(place)
        assert corpus.alphabet.decode(corpus.split("train")) == content[:-20]
        assert corpus.alphabet.decode(corpus.split("valid")) == b"k" * 10
        assert corpus.alphabet.decode(corpus.split("test")) == b"z" * 10
        assert len(corpus.split("all")) == 100


def test_text8_problems_are_told(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="there is no text8 file at .*ardm data text8"):
        load_text8(tmp_path)
    path = fake_text8(tmp_path, monkeypatch, b"hello world " * 10)
    path.write_bytes(b"hello")
    with pytest.raises(DataError, match="has 5 bytes, but text8 has 120"):
        load_text8(path)
    path.write_bytes(b"hellO world " * 10)
    with pytest.raises(DataError, match="is damaged"):
        load_text8(path)


def test_items_are_whole_and_in_order():
    corpus = TextCorpus(title="t", alphabet=BYTES, classes=np.arange(23, dtype=np.uint8), num_held_out=4)
    assert corpus.items("train", (7,)).tolist() == [list(range(7)), list(range(7, 14))]
    assert corpus.items("test", (4,)).tolist() == [[19, 20, 21, 22]]
    with pytest.raises(DataError, match="the valid split has 4 characters, too few for an item of 5"):
        corpus.items("valid", (5,))


def test_own_text_from_files_and_folders(tmp_path):
    (tmp_path / "b.txt").write_text("world")
    (tmp_path / "a.txt").write_text("hello ")
    (tmp_path / ".hidden").write_text("no")
    assert b"".join(file.read_bytes() for file in text_files(tmp_path)) == b"hello world"
    assert load_own_text(tmp_path, "characters").alphabet.characters == " dehlorw"
    assert load_own_text(tmp_path / "b.txt", "bytes").alphabet is BYTES
    with pytest.raises(DataError, match="there is no file or folder"):
        text_files(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty is empty"):
        text_files(tmp_path / "empty")


def test_fingerprints_tell_texts_apart(tmp_path):
    corpora = []
    for name, content in (("a", "abab"), ("b", "abba"), ("c", "abab")):
        (tmp_path / name).write_text(content)
        corpora.append(load_own_text(tmp_path / name, "characters"))
    assert corpora[0].fingerprint == corpora[2].fingerprint != corpora[1].fingerprint


@pytest.mark.skipif("ARDM_DATA" not in os.environ, reason="set ARDM_DATA to a folder with the real text8")
def test_the_real_text8():
    corpus = load_text8(Path(os.environ["ARDM_DATA"]))
    assert corpus.title.startswith("text8")
    assert corpus.alphabet.decode(corpus.split("train")[:21]) == b" anarchism originated"
    assert len(corpus.items("test", (250,))) == len(corpus.items("valid", (250,))) == 20_000
