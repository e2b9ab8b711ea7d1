"""Real masked models and real sequences, out of packages on PyPI that are fetched by name, without dependencies.

    python runs/masked_sources.py DIR
    python runs/masked_sources.py DIR --only sapiens heavy    # a small model and its sequences: 54 MB

DIR/antiberty, sapiens, rxnmapper and rxnfp are models (`hf:DIR/antiberty`), with their weights as safetensors. They are
read from the packages' pickled files by a reader that makes tensors and plain values only; no code of a package runs.
DIR/heavy-test.txt and so on have a sequence a line:

- heavy-test: 100 heavy chains of named therapeutic antibodies (test data of antpack, GPL-3.0; variable domains cut out
  by their last motif) and 100 human ones (abnativ's reference test set, CC BY-NC-SA 4.0, from OAS)
- heavy-train: 20,000 others of abnativ's
- reactions-test: 100 reactions of the test split of Schneider 50k (USPTO, in drfp, MIT) and 100 of the Golden set of
  reactions from the literature (in synrbl, MIT)
- reactions-train: 20,000 of Schneider 50k, none of them in the test, of tokens that the models know

Only these scripts are part of ardm: the data is fetched, and its licences are its owners'. rxnmapper and rxnfp were
trained on patents, and have probably seen the reactions of Schneider's set.
"""

import argparse
import csv
import gzip
import hashlib
import io
import json
import random
import re
import shutil
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urljoin

import torch
from safetensors.torch import save_file
from torch import Tensor

from ardm.masked.tokens import SMILES

T = TypeVar("T", str, tuple[str, str])
INDEX = "https://pypi.org/simple/"
SEED = 0
NUM_TEST, NUM_TRAIN = 100, 20_000
HEAVY_END = re.compile(r"W[GASR][A-Z]G[A-Z]{4}VS[SAP]")
"""The motif that ends the variable domain of a heavy chain."""
HEAVY_END_FROM, HEAVY_END_TO = 85, 150
RESIDUES = re.compile("[ACDEFGHIKLMNPQRSTVWY]+")
FAIRSEQ_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
FAIRSEQ_LAYER = {
    "self_attn.q_proj": "attention.self.query",
    "self_attn.k_proj": "attention.self.key",
    "self_attn.v_proj": "attention.self.value",
    "self_attn.out_proj": "attention.output.dense",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "final_layer_norm": "output.LayerNorm",
}
"""Parts of a layer of fairseq's RoBERTa, and of that of transformers."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A file of a package on PyPI."""

    name: str
    file: str
    sha256: str


ANTIBERTY = Package(
    name="antiberty",
    file="antiberty-0.1.3-py3-none-any.whl",
    sha256="30d910992b190013871bac49cdc032e01a19339f7d2b958ab99b0eb44638352a",
)
SAPIENS = Package(
    name="sapiens",
    file="sapiens-1.0.3-py3-none-any.whl",
    sha256="afc82b1ea323d7d156d98ca9b39453889289c0f21a559fbd0a4ef825004de9b8",
)
RXNMAPPER = Package(
    name="rxnmapper",
    file="rxnmapper-0.4.3-py3-none-any.whl",
    sha256="27876a4286881aafd286fd6f24a6a56a4ca6ba22d68e035a0ea120106c541ba5",
)
RXNFP = Package(
    name="rxnfp",
    file="rxnfp-0.1.0-py3-none-any.whl",
    sha256="c5c1e818add6f34539a6b29bc680c47c9e7311e9383d1b34ce901481e34b58cf",
)
ANTPACK = Package(
    name="antpack",
    file="antpack-0.3.8.6.1.tar.gz",
    sha256="569d4f318c9381ea468c31110178229fde648a3ee50b64ea1b58ce61ee79146d",
)
ABNATIV = Package(
    name="abnativ",
    file="abnativ-2.0.9.tar.gz",
    sha256="c889769af94bee6680ae7b593f0be78fc7694ed04cf22eeae0c56cd480a86593",
)
DRFP = Package(
    name="drfp",
    file="drfp-0.3.7.tar.gz",
    sha256="be841e38316e8f5d42325d706941979288911cf4b701a904db555a4e95977af7",
)
SYNRBL = Package(
    name="synrbl",
    file="synrbl-1.0.6.tar.gz",
    sha256="f3f030edbb8fcb5fd34c72762ff0a371182346c54c0682febc80b13fd9311d7d",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made: dict[str, tuple[str, Callable[[Path], None]]] = {
        "antiberty": ("antiberty", antiberty),
        "sapiens": ("sapiens", sapiens),
        "rxnmapper": ("rxnmapper", rxnmapper),
        "rxnfp": ("rxnfp", rxnfp),
        "heavy": ("heavy-test.txt", heavy_chains),
        "reactions": ("reactions-test.txt", reactions),
    }
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=made, default=list(made), metavar="NAME", help=", ".join(made))
    flags = parser.parse_args()
    for file, make in (made[name] for name in flags.only):
        if not (flags.folder / file).exists():
            make(flags.folder)
            print(flags.folder / file)


# Packages


def fetched(folder: Path, package: Package) -> Path:
    """The package's file, fetched from PyPI unless it is there, and checked."""
    path = folder / "packages" / package.file
    if not path.exists():
        page_address = f"{INDEX}{package.name}/"
        with urllib.request.urlopen(page_address) as page:
            links = re.findall(r'href="([^"#]+)', page.read().decode())
        link = next((link for link in links if link.endswith(f"/{package.file}")), None)
        if link is None:
            raise SystemExit(f"{page_address} has no {package.file}")
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with urllib.request.urlopen(urljoin(page_address, link)) as response, part.open("wb") as file:
            shutil.copyfileobj(response, file)
        part.rename(path)
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != package.sha256:
            raise SystemExit(f"{path} is not the file that these scripts were written for; remove it and try again")
    return path


def member(path: Path, name: str) -> bytes:
    """A file in a package whose path ends like this."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.read(next(n for n in wheel.namelist() if n.endswith(name)))
    with tarfile.open(path) as archive:
        found = archive.extractfile(next(m for m in archive if m.name.endswith(name)))
        assert found is not None
        return gzip.decompress(found.read()) if name.endswith(".gz") else found.read()


# Models


def antiberty(folder: Path) -> None:
    """AntiBERTy: BERT of antibody sequences (Ruffolo et al., 2021; MIT)."""
    wheel = fetched(folder, ANTIBERTY)
    config, weights = (f"AntiBERTy_md_smooth/{name}" for name in ("config.json", "pytorch_model.bin"))
    kept = ("bert.embeddings.", "bert.encoder.", "cls.predictions.")
    _write(folder / "antiberty", wheel, config, weights, "trained_models/vocab.txt", kept, "BertForMaskedLM", "bert")


def rxnfp(folder: Path) -> None:
    """rxnfp's pretrained BERT of reactions (Schwaller et al., 2021; MIT)."""
    parts = (f"bert_pretrained/{name}" for name in ("config.json", "pytorch_model.bin", "vocab.txt"))
    kept = ("bert.embeddings.", "bert.encoder.", "cls.predictions.")
    _write(folder / "rxnfp", fetched(folder, RXNFP), *parts, kept, "BertForMaskedLM", "bert")


def rxnmapper(folder: Path) -> None:
    """RXNMapper's ALBERT of reactions (Schwaller et al., 2021; MIT)."""
    parts = (f"albert_heads_8_uspto_all_1310k/{name}" for name in ("config.json", "pytorch_model.bin", "vocab.txt"))
    kept = ("albert.embeddings.", "albert.encoder.", "predictions.")
    _write(folder / "rxnmapper", fetched(folder, RXNMAPPER), *parts, kept, "AlbertForMaskedLM", "albert")


def sapiens(folder: Path) -> None:
    """Sapiens' RoBERTa of human heavy chains (Prihoda et al., 2022; MIT), from fairseq's layout into transformers'."""
    wheel = fetched(folder, SAPIENS)
    with torch.serialization.safe_globals([argparse.Namespace]):
        saved = torch.load(io.BytesIO(member(wheel, "v1/checkpoint_vh.pt")), map_location="cpu", weights_only=True)
    letters = [line.split()[0] for line in member(wheel, "v1/dict.txt").decode().splitlines()]
    tokens, args = [*FAIRSEQ_SPECIALS, *letters, "<mask>"], saved["args"]
    config = {
        "architectures": ["RobertaForMaskedLM"],
        "model_type": "roberta",
        "vocab_size": len(tokens),
        "hidden_size": args.encoder_embed_dim,
        "intermediate_size": args.encoder_ffn_embed_dim,
        "num_hidden_layers": args.encoder_layers,
        "num_attention_heads": args.encoder_attention_heads,
        "max_position_embeddings": args.max_positions + 2,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
    }
    weights = dict(_of_transformers(saved["model"]))
    weights["roberta.embeddings.token_type_embeddings.weight"] = torch.zeros(1, args.encoder_embed_dim)
    _save(folder / "sapiens", config, weights, "".join(f"{token}\n" for token in tokens))


def _of_transformers(weights: dict[str, Tensor]) -> Iterable[tuple[str, Tensor]]:
    """fairseq's weights by the names of transformers."""
    encoder, head = "decoder.sentence_encoder.", "decoder.lm_head."
    names = {
        f"{encoder}embed_tokens.": "roberta.embeddings.word_embeddings.",
        f"{encoder}embed_positions.": "roberta.embeddings.position_embeddings.",
        f"{encoder}emb_layer_norm.": "roberta.embeddings.LayerNorm.",
        f"{head}dense.": "lm_head.dense.",
        f"{head}layer_norm.": "lm_head.layer_norm.",
    }
    for name, tensor in weights.items():
        if (match := re.fullmatch(rf"{re.escape(encoder)}layers\.(\d+)\.(.*)\.(weight|bias)", name)) is not None:
            yield f"roberta.encoder.layer.{match[1]}.{FAIRSEQ_LAYER[match[2]]}.{match[3]}", tensor
        elif name == f"{head}weight":
            yield "lm_head.decoder.weight", tensor
        elif name == f"{head}bias":
            yield "lm_head.bias", tensor
            yield "lm_head.decoder.bias", tensor.clone()
        else:
            start = next((start for start in names if name.startswith(start)), None)
            if start is not None:
                yield names[start] + name.removeprefix(start), tensor


def _write(
    folder: Path,
    wheel: Path,
    config: str,
    weights: str,
    vocabulary: str,
    kept: tuple[str, ...],
    architecture: str,
    model_type: str,
) -> None:
    """A folder of transformers from a wheel's files; of the weights those whose names begin like the kept ones."""
    own = json.loads(member(wheel, config)) | {"architectures": [architecture], "model_type": model_type}
    saved = torch.load(io.BytesIO(member(wheel, weights)), map_location="cpu", weights_only=True)
    tensors = {name: tensor.clone() for name, tensor in saved.items() if name.startswith(kept)}
    _save(folder, own, tensors, member(wheel, vocabulary).decode())


def _save(folder: Path, config: dict[str, Any], weights: dict[str, Tensor], vocabulary: str) -> None:
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    (part / "config.json").write_text(json.dumps(config, indent=1))
    (part / "vocab.txt").write_text(vocabulary)
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, part / "model.safetensors")
    part.rename(folder)


# Sequences


def heavy_chains(folder: Path) -> None:
    """Variable domains of heavy chains."""
    fasta = member(fetched(folder, ANTPACK), "tests/test_data/addtnl_test_data.fasta.gz").decode()
    records = [record.partition("\n") for record in fasta.split(">") if record]
    chains = ["".join(lines.split()) for name, _, lines in records if name.strip().endswith("_heavy")]
    therapeutic = _clean(filter(None, map(_variable, chains)))
    table = member(fetched(folder, ABNATIV), "percentiles/test_vh_v2_abnativ_seq_scores.csv").decode()
    human = _clean(row["input_seq"] for row in csv.DictReader(io.StringIO(table)))
    human = [chain for chain in human if chain not in set(therapeutic)]
    _write_sequences(folder, "heavy", therapeutic[:NUM_TEST] + human[:NUM_TEST], human[NUM_TEST:])


def _variable(chain: str) -> str | None:
    """The variable domain of a heavy chain; None if its end is not found."""
    end = HEAVY_END.search(chain[HEAVY_END_FROM:HEAVY_END_TO])
    return None if end is None else chain[: HEAVY_END_FROM + end.end()]


def _clean(chains: Iterable[str]) -> list[str]:
    """The different chains of the twenty residues, shuffled."""
    return _shuffled(chain for chain in chains if RESIDUES.fullmatch(chain))


def reactions(folder: Path) -> None:
    """Reactions as SMILES: reactants and reagents >> product."""
    table = member(fetched(folder, DRFP), "data/schneider50k.tsv").decode()
    rows = [(row["split"], row["rxn"]) for row in csv.DictReader(io.StringIO(table), delimiter="\t")]
    of_train = {reaction for split, reaction in rows if split == "train"}
    held_out = [reaction for split, reaction in _shuffled(rows) if split == "test" and reaction not in of_train]
    table = member(fetched(folder, SYNRBL), "Raw_data/Golden/Golden.csv").decode()
    golden = _shuffled(row["reactions"] for row in csv.DictReader(io.StringIO(table)))
    held_out = list(dict.fromkeys(held_out))
    test = held_out[:NUM_TEST] + [reaction for reaction in golden if reaction not in of_train][:NUM_TEST]
    rest = [reaction for reaction in _shuffled({*of_train, *held_out} - {*test}) if _is_known(reaction, folder)]
    _write_sequences(folder, "reactions", test, rest)


def _is_known(reaction: str, folder: Path) -> bool:
    """Whether the models of reactions know all tokens of a reaction, as far as they are there."""
    lists = (folder / name / "vocab.txt" for name in ("rxnmapper", "rxnfp"))
    tokens = re.findall(SMILES, reaction)
    return all({*tokens} <= _lines(path) for path in lists if path.exists())


@cache
def _lines(path: Path) -> frozenset[str]:
    return frozenset(path.read_text().splitlines())


def _shuffled(values: Iterable[T]) -> list[T]:
    """The different values in an order that the seed decides."""
    different = sorted(set(values))
    random.Random(SEED).shuffle(different)
    return different


def _write_sequences(folder: Path, name: str, test: list[str], train: list[str]) -> None:
    (folder / f"{name}-train.txt").write_text("".join(f"{line}\n" for line in train[:NUM_TRAIN]))
    (folder / f"{name}-test.txt").write_text("".join(f"{line}\n" for line in test))


if __name__ == "__main__":
    main()
