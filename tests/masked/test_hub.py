"""Folders of masked models: written and read again, by ardm and by transformers; one clear line for what is damaged."""

import json
import math
import pickle

import numpy as np
import pytest
import torch
import transformers
from masked_folders import NETWORKS, SMILES, WORDS, masked_folder, same_weights
from safetensors.torch import load_file, save_file
from tiny_masked import BERT_TOKENS, DIMENSIONS, Shifted, Timed, bert, random_network
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import ardm
from ardm.errors import ArdmError, CheckpointError, UsageError
from ardm.masked import FACTS_FILE, is_masked
from ardm.masked.hub import load_pretrained, read_facts, save_pretrained, saved_profile
from ardm.masked.tokens import Vocabulary
from ardm.names import MEASURED

each_kind = pytest.mark.parametrize("kind", NETWORKS)
TEXTS = ["ACG", "GGCA", "CC", "GATTACA".replace("T", "C")]


def raster(model, texts=TEXTS):
    """The exact bits of texts from left to right."""
    return model.score(texts, order="raster").bits


def in_one_line(error, message):
    """A context that expects an error with this text, in one line."""
    return pytest.raises(error, match=rf"\A(?=[^\n]*{message})[^\n]+\Z")


def changed_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# Round trips


@each_kind
def test_a_folder_of_transformers_is_read_with_its_list_of_tokens(tmp_path, kind):
    folder = masked_folder(tmp_path / "model", kind)
    make, names = NETWORKS[kind]
    found = load_pretrained(f"hf:{folder}")
    assert same_weights(found.network, make().float())
    assert not found.network.training
    assert found.tokenizer == Vocabulary(names)
    assert found.facts == {}
    model = ardm.load(f"hf:{folder}")
    np.testing.assert_array_equal(raster(model), raster(ardm.wrap(make().float(), Vocabulary(names))))


@each_kind
def test_a_saved_model_is_the_same_for_ardm_and_for_transformers(tmp_path, kind):
    model = ardm.load(f"hf:{masked_folder(tmp_path / 'model', kind)}")
    ardm.save(model, tmp_path / "saved")
    for name in (tmp_path / "saved", f"hf:{tmp_path / 'saved'}"):
        assert is_masked(name)
        again = ardm.load(name)
        assert same_weights(again.network, model.network)
        np.testing.assert_array_equal(raster(again), raster(model))
        assert again.sample(3, seed=5) == model.sample(3, seed=5)
        assert repr(again) == repr(model)
    own = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "saved")
    assert type(own) is type(model.network)
    assert same_weights(own, model.network)


def test_options_and_profile_survive(tmp_path):
    folder = masked_folder(tmp_path / "model")
    options = {"length": 7, "window": 9, "unit": "letter", "start_id": 4}
    model = ardm.load(f"hf:{folder}", **options)
    model.measure(TEXTS, passes=8)
    ardm.save(model, tmp_path / "saved")
    again = ardm.load(tmp_path / "saved")
    assert (again.shape, again.items.window, again.items.unit, again.tokens.start) == ((7,), 9, "bits/letter", (4,))
    assert torch.equal(again.profile.bits, model.profile.bits)
    assert torch.equal(again.profile.counts, model.profile.counts)
    assert again.profile_source == model.profile_source
    assert again.plan(3).schedule == model.plan(3).schedule
    np.testing.assert_array_equal(raster(again), raster(model))
    assert ardm.load(tmp_path / "saved", window=8, length=5).items.window == 8, "what the caller says comes first"


def test_a_model_that_was_not_measured_has_no_profile_afterwards(tmp_path):
    ardm.save(ardm.load(f"hf:{masked_folder(tmp_path / 'model')}"), tmp_path / "saved")
    assert saved_profile(read_facts(tmp_path / "saved"), "saved") is None
    with pytest.raises(UsageError, match="nothing to plan from"):
        ardm.load(tmp_path / "saved").plan(3)


def test_shifted_logits_survive(tmp_path):
    model = ardm.load(f"hf:{masked_folder(tmp_path / 'model')}", shifted=True)
    ardm.save(model, tmp_path / "saved")
    again = ardm.load(tmp_path / "saved")
    assert again.ardm.network.is_shifted
    np.testing.assert_array_equal(raster(again), raster(model))
    assert abs(raster(again) - raster(ardm.load(tmp_path / "saved", shifted=False))).min() > 0.01


@pytest.mark.parametrize("is_on", [True, False])
def test_token_dropout_survives(tmp_path, is_on):
    model = ardm.load(f"hf:{masked_folder(tmp_path / 'model', 'esm')}", token_dropout=is_on)
    ardm.save(model, tmp_path / "saved")
    again = ardm.load(tmp_path / "saved")
    assert again.network.esm.embeddings.token_dropout is is_on
    assert again.network.config.token_dropout is is_on
    np.testing.assert_array_equal(raster(again), raster(model))


def test_a_vocabulary_of_ones_own_survives(tmp_path):
    vocabulary = Vocabulary(["?", "AC", "G", "!", "A", "C"], "AC|[ACG!]", mask="?", special=["!"])
    model = ardm.wrap(bert(vocab_size=6).float(), vocabulary, length=4)
    ardm.save(model, tmp_path / "saved")
    again = ardm.load(tmp_path / "saved")
    assert again.tokens == model.tokens
    assert again.tokens.encode("ACG!CA_") == [1, 2, 3, 5, 4, 0]
    np.testing.assert_array_equal(raster(again, ["ACG", "GAC!C"]), raster(model, ["ACG", "GAC!C"]))


@pytest.mark.parametrize(
    ("names", "text", "unit"), [(SMILES, "ClC(=O)c1", "bits/token"), (BERT_TOKENS, "ACG", "bits/base")]
)
def test_lists_of_smiles_and_of_letters(tmp_path, names, text, unit):
    model = ardm.load(f"hf:{masked_folder(tmp_path / 'model', names=names, vocab_size=len(names))}")
    assert model.items.unit == unit
    assert model.tokens.decode(model.tokens.encode(text)) == text


@pytest.mark.parametrize("has_own_files", [False, True])
def test_a_tokenizer_of_words(tmp_path, has_own_files):
    folder = masked_folder(tmp_path / "model", names=WORDS, vocab_size=len(WORDS))
    if has_own_files:
        transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
        (folder / "vocab.txt").unlink()
    model = ardm.load(f"hf:{folder}")
    texts = ["the cats sat.", "the € cat"]
    assert model.tokens.encode("the cats _") == [5, 6, 7, 4]
    assert model.score(texts).num_variables.tolist() == [5, 3]
    ardm.save(model, tmp_path / "saved")
    again = ardm.load(tmp_path / "saved")
    np.testing.assert_array_equal(raster(again, texts), raster(model, texts))
    own = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert own("the cats")["input_ids"] == [2, 5, 6, 7, 3]


def test_a_tokenizer_that_was_built_in_memory(tmp_path):
    names = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4, "re": 5, "turn": 6, "s": 7, "and": 8}
    built = Tokenizer(models.WordLevel(names, unk_token="<unk>"))
    built.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    built.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    special = {"bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>", "pad_token": "<pad>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=built, unk_token="<unk>", **special)
    folder = tmp_path / "model"
    random_network("Roberta", pad_token_id=1).float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    model = ardm.load(f"hf:{folder}")
    assert (model.tokens.start, model.tokens.end, model.tokens.mask) == ((0,), (2,), 4)
    assert model.infill("re _ s", n=3, calls=1)[0].startswith("re")
    ardm.save(model, tmp_path / "saved")
    np.testing.assert_array_equal(
        raster(ardm.load(tmp_path / "saved"), ["re turn s", "and"]), raster(model, ["re turn s", "and"])
    )


def test_only_networks_and_tokenizers_of_transformers_are_saved_in_folders(tmp_path):
    names = Vocabulary(BERT_TOKENS)
    for network in (Timed(bert()), Shifted(bert())):
        with in_one_line(UsageError, "only a network of transformers can be saved in a folder"):
            ardm.save(ardm.wrap(network, names, length=DIMENSIONS), tmp_path / "saved")
    with in_one_line(UsageError, r"only a tokenizer of transformers or an ardm.Vocabulary can be saved"):
        save_pretrained(tmp_path / "saved", bert(), object(), {})
    (tmp_path / "file").write_text("x")
    with in_one_line(UsageError, "is a file, but a folder is needed"):
        ardm.save(ardm.wrap(bert(), names), tmp_path / "file")


# Pickles and remote code


def pickled(folder):
    """The folder with its weights in pytorch_model.bin instead."""
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def test_pickled_weights_are_read_only_if_the_user_says_so(tmp_path):
    folder = masked_folder(tmp_path / "model")
    before = raster(ardm.load(f"hf:{folder}"))
    pickled(folder)
    with in_one_line(CheckpointError, r"its weights are pickled \(.bin\); --pickled reads them, as tensors only"):
        ardm.load(f"hf:{folder}")
    np.testing.assert_array_equal(raster(ardm.load(f"hf:{folder}", pickled=True)), before)


class Writes:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("is_zip", [False, True])
def test_a_malicious_pickle_runs_nothing(tmp_path, is_zip):
    folder, target = pickled(masked_folder(tmp_path / "model")), tmp_path / "written"
    values = {"bert.embeddings.word_embeddings.weight": Writes(target)}
    if is_zip:
        torch.save(values, folder / "pytorch_model.bin")
    else:
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(values))
    for options in ({"pickled": True}, {"pickled": True, "trust_remote_code": True}):
        with in_one_line(
            CheckpointError, "its pickled weights are damaged or hold more than tensors, and are not read"
        ):
            ardm.load(f"hf:{folder}", **options)
    with in_one_line(CheckpointError, "its weights are pickled"):
        ardm.load(f"hf:{folder}")
    assert not target.exists()


REMOTE = """
from pathlib import Path
Path({target!r}).write_text("ran")
from transformers import BertForMaskedLM
class OwnModel(BertForMaskedLM):
    pass
"""


def test_code_of_a_model_runs_only_if_the_user_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    folder, target = masked_folder(tmp_path / "model"), tmp_path / "written"
    (folder / "own_code.py").write_text(REMOTE.format(target=str(target)))
    auto = {"AutoModelForMaskedLM": "own_code.OwnModel"}
    changed_config(folder, auto_map=auto, architectures=["OwnModel"])
    plain = ardm.load(f"hf:{folder}")  # a BERT by its configuration, so that transformers' own code can do
    assert type(plain.network) is transformers.BertForMaskedLM
    changed_config(folder, model_type="own_type", auto_map=auto | {"AutoConfig": "own_code.OwnConfig"})
    with in_one_line(
        CheckpointError, "it comes with code of its own, which runs only if you trust it: --trust-remote-code"
    ):
        ardm.load(f"hf:{folder}")
    assert not target.exists()
    changed_config(folder, model_type="bert", auto_map=auto)
    trusted = ardm.load(f"hf:{folder}", trust_remote_code=True)
    assert target.read_text() == "ran"
    assert type(trusted.network).__name__ == "OwnModel"
    np.testing.assert_array_equal(raster(trusted), raster(plain))


# What cannot be loaded


def test_a_causal_model_is_refused(tmp_path):
    config = transformers.GPT2Config(vocab_size=9, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    with in_one_line(CheckpointError, r"is a causal language model \(GPT2LMHeadModel\); ardm wraps masked ones"):
        ardm.load(f"hf:{tmp_path}")
    changed_config(tmp_path, architectures=None)
    with in_one_line(CheckpointError, "is no masked language model: transformers has none of type gpt2"):
        ardm.load(f"hf:{tmp_path}")


def test_a_decoder_is_refused(tmp_path):
    folder = masked_folder(tmp_path / "model")
    changed_config(folder, is_decoder=True)
    with in_one_line(CheckpointError, "is a causal language model"):
        ardm.load(f"hf:{folder}")


def test_a_model_without_weights_for_its_head_is_refused(tmp_path):
    folder = masked_folder(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if not name.startswith("cls.")}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with in_one_line(CheckpointError, r"has no weights for cls\.predictions.*, so it cannot predict hidden tokens"):
        ardm.load(f"hf:{folder}")


def test_a_model_without_a_mask_is_refused(tmp_path):
    folder = masked_folder(tmp_path / "model", names=["[PAD]", "[CLS]", "[SEP]", *"ACGT"])
    with in_one_line(CheckpointError, "this model has no mask token, so it is no masked model"):
        ardm.load(f"hf:{folder}")


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ((*BERT_TOKENS[:5], *"ACDEFGHIKLMN"), "the tokenizer does not fit: .* 17 tokens"),
        (("[PAD]", "[CLS]", "[SEP]", "[MASK]", "A"), "expected at least two tokens that are not special, got 1"),
        (("[PAD]", "[MASK]"), "the tokenizer has no token but special ones; its vocabulary is missing or empty"),
        ((), "the tokenizer has no token but special ones; its vocabulary is missing or empty"),
    ],
)
def test_tokenizers_that_do_not_fit_are_refused(tmp_path, names, error):
    with in_one_line(ArdmError, error):
        ardm.load(f"hf:{masked_folder(tmp_path / 'model', names=names or ['[PAD]'])}")


def test_a_tokenizer_with_other_tokens_does_not_split_the_text(tmp_path):
    model = ardm.load(f"hf:{masked_folder(tmp_path / 'model')}")
    with in_one_line(ArdmError, "sequence 1: unknown base 'T' at position 2"):
        model.score(["ACG", "GAT"])


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    folder = masked_folder(tmp_path / "model")
    (folder / "vocab.txt").unlink()
    with in_one_line(CheckpointError, "the tokenizer has no token but special ones; its vocabulary is missing"):
        ardm.load(f"hf:{folder}")


def cut_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-50])


def empty_pickle(folder):
    (pickled(folder) / "pytorch_model.bin").write_bytes(b"")


def no_weights(folder):
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda folder: (folder / "config.json").write_text("{"), "is not a valid JSON file"),
        (lambda folder: (folder / "config.json").write_text("[]"), "cannot load hf:"),
        (lambda folder: (folder / "config.json").unlink(), "cannot load hf:"),
        (lambda folder: changed_config(folder, hidden_size="x"), "Field 'hidden_size' expected int"),
        (lambda folder: changed_config(folder, hidden_size=32), "its weights do not fit its config.json"),
        (lambda folder: changed_config(folder, num_attention_heads=3), "not a multiple of the number of attention"),
        (lambda folder: changed_config(folder, model_type="no_such_type"), "model type `no_such_type`"),
        (cut_weights, "its weights are damaged: "),
        (empty_pickle, "cannot load hf:.*: EOFError"),
        (no_weights, "no file named model.safetensors"),
    ],
)
def test_damaged_folders_are_told_in_one_line(tmp_path, damage, error):
    folder = masked_folder(tmp_path / "model")
    damage(folder)
    with in_one_line(CheckpointError, error):
        ardm.load(f"hf:{folder}", pickled=True)


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ("{", "ardm.json is damaged: Expecting property name"),
        ("[]", "ardm.json is damaged: expected an object"),
        (b"\xff", "ardm.json is damaged: 'utf-8' codec"),
        ({"profile": {"bits": 3}}, "the loss profile in ardm.json of .* is damaged"),
        ({"profile": {"bits": [[1.0]], "counts": [[1, 2]], "source": "x"}}, "the loss profile in ardm.json"),
        ({"profile": {"bits": [[-1.0]], "counts": [[1]], "source": MEASURED}}, "the loss profile in ardm.json"),
        ({"profile": {"bits": [[math.nan]], "counts": [[1]], "source": MEASURED}}, "the loss profile in ardm.json"),
        ({"profile": 3}, "the loss profile in ardm.json"),
        ({"length": "x"}, "ardm.json is damaged: its length is 'x'"),
        ({"window": 2.5}, "ardm.json is damaged: its window is 2.5"),
        ({"mask_id": True}, "ardm.json is damaged: its mask_id is True"),
        ({"unit": 3}, "ardm.json is damaged: its unit is 3"),
        ({"pattern": 3}, "ardm.json is damaged: its pattern is 3"),
        ({"time": 3}, "ardm.json is damaged: its time is 3"),
        ({"start_id": 300}, r"the first token must be one of the tokens 0..8, got start_id=300"),
        ({"window": 25}, r"the window must lie in 1..24, since the network has 26 positions; got 25"),
        ({"window": 0}, "the window must be positive, got 0"),
        ({"length": 25}, r"the length must lie in 1..24, which this network sees at once, got 25"),
        ({"time": "hour"}, "the network has no argument 'hour' for the time; it has input_ids, attention_mask"),
        ({"vocabulary": 3}, "the vocabulary in ardm.json of .* is damaged"),
        ({"vocabulary": {"letters": "ACG"}}, "the vocabulary in ardm.json of .* is damaged"),
    ],
)
def test_damaged_facts_are_told_in_one_line(tmp_path, facts, error):
    folder = masked_folder(tmp_path / "model")
    content = facts if isinstance(facts, str | bytes) else json.dumps(facts)
    (folder / FACTS_FILE).write_bytes(content if isinstance(content, bytes) else content.encode())
    with in_one_line(ArdmError, error):
        ardm.load(folder)


def test_names_with_nothing_behind_them(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with in_one_line(UsageError, "hf: is followed by a folder or a name on the Hugging Face hub, got ''"):
        ardm.load("hf:")
    (tmp_path / "file").write_text("x")
    with in_one_line(UsageError, "hf: is followed by a folder or a name on the Hugging Face hub, got '.*file'"):
        ardm.load(f"hf:{tmp_path / 'file'}")
    for name in (tmp_path / "none", "no-such-owner/no-such-model", "no-such-model"):
        with in_one_line(CheckpointError, "there is no such folder, and the Hugging Face hub gave no such model"):
            ardm.load(f"hf:{name}")
    assert capfd.readouterr().err == ""
    assert not is_masked(tmp_path)
    assert read_facts("hf:no-such-owner/no-such-model") == {}


def test_the_tokenizer_of_another_model(tmp_path):
    model = ardm.load(f"hf:{masked_folder(tmp_path / 'own')}")
    for path in (tmp_path / "own").glob("vocab.txt"):
        path.unlink()
    with pytest.raises(ArdmError):
        ardm.load(f"hf:{tmp_path / 'own'}")
    masked_folder(tmp_path / "other", seed=1)
    again = ardm.load(f"hf:{tmp_path / 'own'}", tokenizer=tmp_path / "other")
    assert again.score(["ACG"], order="raster").bits.tolist() == model.score(["ACG"], order="raster").bits.tolist()
    with pytest.raises(UsageError, match="colour= is no option of a masked model; see ardm.wrap"):
        ardm.load(f"hf:{tmp_path / 'own'}", tokenizer=tmp_path / "other", colour=3)
