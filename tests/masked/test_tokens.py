"""Tokens: how texts are split and put together, which tokens are special, and one clear line for what does not fit."""

import pytest
import torch
from tiny_masked import BERT_TOKENS, ESM_TOKENS
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import BertTokenizer, EsmTokenizer, PreTrainedTokenizerFast

from ardm.errors import ArdmError, CheckpointError, DataError, UsageError
from ardm.masked.tokens import Tokens, Vocabulary, usual_pattern

AMINO = "LAGVSERTIDPKQNFYMHWCXBUZO.-"
ESM2 = ("<cls>", "<pad>", "<eos>", "<unk>", *AMINO, "<null_1>", "<mask>")
"""The tokens of ESM-2, in their places."""
SMILES = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "C", "Cl", "c", "1", "O", "=", "(", ")", "[nH]", "%12")
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "the", "cat", "##s", ".", "sat")


def tokenizer_file(folder, names):
    path = folder / "vocab.txt"
    path.write_text("\n".join(names), encoding="utf-8")
    return str(path)


@pytest.fixture
def words(tmp_path):
    return BertTokenizer(tokenizer_file(tmp_path, WORDS))


@pytest.fixture
def esm2(tmp_path):
    return EsmTokenizer(tokenizer_file(tmp_path, ESM2))


# Vocabularies


@pytest.mark.parametrize(
    ("names", "text", "parts"),
    [
        (BERT_TOKENS, "GA_C", ["G", "A", "[MASK]", "C"]),
        (BERT_TOKENS, "A[MASK]C", ["A", "[MASK]", "C"]),
        (ESM_TOKENS, "GA<mask>_", ["G", "A", "<mask>", "<mask>"]),
        (SMILES, "ClC(=O)c%121[nH]_", ["Cl", "C", "(", "=", "O", ")", "c", "%12", "1", "[nH]", "[MASK]"]),
        (SMILES, "[CLS]C[SEP]", ["[CLS]", "C", "[SEP]"]),
    ],
)
def test_texts_are_split_as_their_tokens_say(names, text, parts):
    vocabulary = Vocabulary(names)
    assert vocabulary.encode(text) == [names.index(part) for part in parts]
    assert vocabulary.decode(vocabulary.encode(text)) == text.replace("[MASK]", "_").replace("<mask>", "_")


def test_a_pattern_of_ones_own():
    names = ["[MASK]", "AC", "GT", "A"]
    vocabulary = Vocabulary(names, "[ACGT]{2}|A")
    assert vocabulary.encode("ACGTA_") == [1, 2, 3, 0]
    assert Vocabulary(names).split_by("[ACGT]{2}").encode("GTAC") == [2, 1]
    with pytest.raises(UsageError, match=r"the pattern '\(' is not a regular expression"):
        Vocabulary(names, "(").encode("A")
    with pytest.raises(UsageError, match="say how texts are split into these tokens: pattern="):
        Vocabulary(names).encode("A")


def test_a_pattern_that_matches_nothing_ends_in_an_error():
    with pytest.raises(DataError, match="unknown token 'a' at position 1"):
        Vocabulary(["[MASK]", "A", "a"], "[A-Z]*").encode("Aa")


def test_patterns_are_guessed_from_ordinary_tokens():
    assert usual_pattern(["the", "##re"]) is None
    assert usual_pattern([]) is None
    assert Vocabulary(ESM2).is_letters
    assert Vocabulary(SMILES).is_smiles
    assert not Vocabulary(WORDS).is_letters


@pytest.mark.parametrize(
    ("names", "text", "error"),
    [
        (ESM2, "MKJ", "unknown residue 'J' at position 2"),
        (ESM2, "MK<unk>", "unknown residue '<unk>' at position 2"),
        (SMILES, "CN", "unknown token 'N' at position 1"),
        (SMILES, "C!", "unknown token '!' at position 1"),
        (["<mask>", *"abcxyz"], "ab c", "unknown token ' ' at position 2"),
        (["A", "C"], "A_", "unknown token '_' at position 1"),
    ],
)
def test_unknown_parts_are_told_with_their_place(names, text, error):
    with pytest.raises(DataError, match=error):
        Vocabulary(names).encode(text)


def test_a_vocabulary_file_is_read_line_by_line(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("<mask>\r\n \r\nä\r\n".encode())
    assert Vocabulary.from_file(path).tokens == ("<mask>", " ", "ä")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CheckpointError, match="is not a list of tokens"):
        Vocabulary.from_file(path)
    with pytest.raises(CheckpointError, match="is not a list of tokens"):
        Vocabulary.from_file(tmp_path / "none.txt")


# Special tokens


def test_special_and_reserved_tokens_of_a_vocabulary():
    tokens = Tokens.of(Vocabulary(ESM_TOKENS))
    assert (tokens.mask, tokens.pad, tokens.start, tokens.end, tokens.unit) == (8, 1, (0,), (2,), "base")
    assert tokens.special == {0, 1, 2, 3, 7, 8}
    assert tokens.num_around == 2
    plain = Tokens.of(Vocabulary(["x", "y", "<mask>"]))
    assert (plain.start, plain.end, plain.pad, plain.unit) == ((), (), 2, "character")
    assert Vocabulary(["<mask>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-"]).unit == "residue"


def test_masks_and_special_tokens_of_other_names():
    vocabulary = Vocabulary(["?", "a", "b", "|"], mask="?", special=["|"])
    tokens = Tokens.of(vocabulary)
    assert (tokens.mask, tokens.special) == (0, {0, 3})
    assert (tokens.encode("a_b|"), tokens.decode([1, 0, 3])) == ([1, 0, 2, 3], "a_|")


def test_a_mask_by_its_number_is_shown_and_read_as_a_gap():
    tokens = Tokens.of(Vocabulary(["?", "a", "b"]), mask_id=0)
    assert (tokens.encode("a_?"), tokens.decode([1, 0]), tokens.special) == ([1, 0, 0], "a_", {0})
    for number in (3, -1):
        with pytest.raises(UsageError, match=rf"the mask must be one of the tokens 0..2, got mask_id={number}"):
            Tokens.of(Vocabulary(["?", "a", "b"]), mask_id=number)


def test_what_has_no_mask_is_refused(words):
    for names in ([*"ab"], ["[PAD]", "a"]):
        with pytest.raises(CheckpointError, match="this model has no mask token, so it is no masked model"):
            Tokens.of(Vocabulary(names))
    with pytest.raises(CheckpointError, match="no mask token"):
        Tokens.of(Vocabulary(["a", "b"], mask="c"))
    words.mask_token = None
    with pytest.raises(CheckpointError, match="no mask token"):
        Tokens.of(words)
    with pytest.raises(UsageError, match=r"a tokenizer is one of transformers or an ardm.Vocabulary, got list"):
        Tokens.of(["A"])


def test_numbers_beyond_the_tokens_are_hidden_ones(words):
    for tokens in (Tokens.of(Vocabulary(ESM_TOKENS)), Tokens.of(words)):
        assert tokens.decode([len(tokens.names)]) == "_"


# Tokenizers of transformers


def test_a_tokenizer_of_words(words):
    tokens = Tokens.of(words)
    assert (tokens.mask, tokens.pad, tokens.start, tokens.end, tokens.unit) == (4, 0, (2,), (3,), "token")
    assert tokens.special == {0, 1, 2, 3, 4, 5}
    assert tokens.encode("The cats sat.") == [6, 7, 8, 10, 9]
    assert tokens.encode("the _ sat") == [6, 4, 10]
    assert tokens.decode([6, 7, 8, 10]) == "the cats sat"
    assert tokens.decode([6, 4, 10]) == "the_sat"
    with pytest.raises(DataError, match="the tokenizer has no token for a part of 'the dog', after 'the'"):
        tokens.encode("the dog")


def test_a_mask_that_the_tokenizer_does_not_name(words):
    words.mask_token = None
    tokens = Tokens.of(words, mask_id=4)
    assert tokens.encode("the _ [MASK]") == [6, 4, 4]
    with pytest.raises(UsageError, match=r"the mask must be one of the tokens 0.*, got mask_id=-1"):
        Tokens.of(words, mask_id=-1)


def test_a_tokenizer_of_letters_is_split_into_letters(esm2):
    tokens = Tokens.of(esm2)
    own = Tokens.of(Vocabulary(ESM2))
    for name in ("mask", "pad", "special", "start", "end", "unit"):
        assert getattr(tokens, name) == getattr(own, name), name
    assert tokens.encode("MK_L") == own.encode("MK_L") == [20, 15, 32, 4]
    assert tokens.encode("MKL") == esm2.encode("MKL", add_special_tokens=False)
    assert Tokens.of(esm2, pattern="tokenizer").encode("MK_L") == [20, 15, 32, 4]


def test_the_tokens_around_a_sequence_where_the_tokenizer_does_not_know_its_own(tmp_path):
    """The first ordinary token is no text of its own: its letters are unknown."""
    tokens = Tokens.of(BertTokenizer(tokenizer_file(tmp_path, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##s"])))
    assert (tokens.start, tokens.end) == ((2,), (3,))


def test_every_error_is_one_line():
    for wrong in (lambda: Vocabulary(ESM2).encode("J\nM"), lambda: Tokens.of(object())):
        with pytest.raises(ArdmError) as caught:
            wrong()
        assert "\n" not in str(caught.value)


def test_tokens_survive_a_round_trip():
    tokens, generator = Tokens.of(Vocabulary(SMILES)), torch.Generator().manual_seed(0)
    ordinary = [number for number in range(len(SMILES)) if number not in tokens.special]
    for _ in range(50):
        ids = [ordinary[i] for i in torch.randint(len(ordinary), (9,), generator=generator)]
        text = tokens.decode(ids)
        assert tokens.decode(tokens.encode(text)) == text


def test_a_mask_that_the_tokenizer_does_not_know():
    """MDLM's mask is the number after GPT-2's tokens."""
    backend = Tokenizer(WordLevel({"<unk>": 0, "a": 1, "b": 2}, unk_token="<unk>"))
    backend.pre_tokenizer = Split("", "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
    tokens = Tokens.of(tokenizer, mask_id=4, pattern="tokenizer")
    assert tokens.encode("a_b_") == [1, 4, 2, 4]
    assert (len(tokens.names), tokens.mask, tokens.special) == (5, 4, {0, 3, 4})
    assert tokens.decode([1, 4, 2]) == "a_b"
    with pytest.raises(UsageError, match=r"the mask must be one of the tokens 0..1026, got mask_id=2000"):
        Tokens.of(tokenizer, mask_id=2000)


def test_special_tokens_that_were_added_are_never_predicted(words):
    words.add_tokens([AddedToken("<|padding|>", special=True), AddedToken("ordinary")])
    tokens = Tokens.of(words)
    assert {tokens.names[number] for number in tokens.special} >= {"<|padding|>", "[MASK]"}
    assert "ordinary" in {name for number, name in enumerate(tokens.names) if number not in tokens.special}


def test_a_vocabulary_has_no_token_twice():
    with pytest.raises(UsageError, match="the tokens of a vocabulary must differ, but there are two of 'H'"):
        Vocabulary(["<mask>", "H", "O", "H"])
