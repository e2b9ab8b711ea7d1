"""Files of sequences in every format, and one clear line for what is none."""

import pytest

from ardm.errors import DataError
from ardm.masked.sequences import read_sequences


def written(folder, name, text):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


FASTA = ">first one\r\nEVQL\r\nVE SG*\r\n\r\n; a comment\r\n>\r\nQV\r\n"


@pytest.mark.parametrize("name", ["two.fasta", "two.FA", "two.txt", "two"])
def test_fasta(tmp_path, name):
    found = read_sequences(written(tmp_path, name, FASTA))
    assert (found.texts, found.names, found.title) == (["EVQLVESG", "QV"], ["first one", "line 6"], name)


def test_a_byte_order_mark_is_no_part_of_a_sequence(tmp_path):
    assert read_sequences(written(tmp_path, "two", "\ufeff" + FASTA)).names[0] == "first one"
    assert read_sequences(written(tmp_path, "one", "\ufeffAC")).texts == ["AC"]


def test_lines(tmp_path):
    found = read_sequences(written(tmp_path, "a.txt", "the cat\n\n  sat on\x0cit \u2028here\n"))
    assert (found.texts, found.names) == (["the cat", "sat on\x0cit \u2028here"], ["line 1", "line 3"])


@pytest.mark.parametrize("name", ["a.smi", "a.smiles", "A.SMI", "a.ism"])
def test_the_first_word_of_each_line_of_smiles(tmp_path, name):
    found = read_sequences(written(tmp_path, name, "CCO ethanol\nC(=O)O\tformic acid\n\n"))
    assert (found.texts, found.names) == (["CCO", "C(=O)O"], ["line 1", "line 2"])


def test_a_reaction_that_begins_with_an_arrow_is_no_fasta(tmp_path):
    assert read_sequences(written(tmp_path, "a.rsmi", ">>CCO\n")).texts == [">>CCO"]


def test_a_format_of_ones_choice(tmp_path):
    path = written(tmp_path, "a.fasta", ">a b\nC\n")
    assert read_sequences(path, "lines").texts == [">a b", "C"]
    assert read_sequences(path, "smiles").texts == [">a", "C"]
    assert read_sequences(path, "text").texts == [">a b\nC"]
    assert read_sequences(str(path)).texts == ["C"]


@pytest.mark.parametrize(
    ("name", "content", "format", "error"),
    [
        ("a.fasta", "", "auto", "a.fasta has no sequence"),
        ("a.txt", " \n\n", "auto", "a.txt has no sequence"),
        ("a.txt", " \n\n", "text", "a.txt has no sequence"),
        ("a.fasta", ">a\n>b\nC\n", "auto", "the sequence a in .*a.fasta is empty"),
        ("a.fasta", ">a\nC\n>b\n", "auto", "the sequence b in .*a.fasta is empty"),
        ("a.fasta", ">a\n*\n", "auto", "the sequence a in .*a.fasta is empty"),
        ("a.fasta", "AC\n>a\nC\n", "auto", "a.fasta is not FASTA: line 1 comes before the first line that begins"),
        ("a.txt", b"AC\xff", "auto", "a.txt is not a text in UTF-8: byte 2 is not part of a character"),
    ],
)
def test_files_without_sequences_are_told_in_one_line(tmp_path, name, content, format, error):
    with pytest.raises(DataError, match=error) as caught:
        read_sequences(written(tmp_path, name, content), format)
    assert "\n" not in str(caught.value)


def test_folders_and_missing_files(tmp_path):
    with pytest.raises(DataError, match="is a folder; give one file of sequences"):
        read_sequences(tmp_path)
    with pytest.raises(DataError, match=r"there is no file .*none\.fasta"):
        read_sequences(tmp_path / "none.fasta")
