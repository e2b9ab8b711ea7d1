"""Tiny masked models with random weights, from the configuration classes of transformers, and their probabilities.

The oracle below asks the raw network: it lays out the special tokens by hand, and knows nothing of ARDMs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import permutations, product
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from torch import Tensor, nn

import ardm
from ardm.library.masked import MaskedModel

Item = tuple[int, ...]
Order = Sequence[int]
BERT_TOKENS = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "A", "C", "G", "[unused1]")
ESM_TOKENS = ("<cls>", "<pad>", "<eos>", "<unk>", "A", "C", "G", "<null_1>", "<mask>")
ROBERTA_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "A", "C", "G", "madeupword0000", "<mask>")
SIZES = {
    "vocab_size": 9,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 26,
    "initializer_range": 0.5,
}
"""Sizes of all networks, with weights so large that the probabilities are far from uniform."""
DIMENSIONS = 3


class Timed(nn.Module):
    """A network that is given the share of hidden tokens, too, and no attention mask."""

    def __init__(self, network: nn.Module, sharpness: float = 2.0) -> None:
        super().__init__()
        self.network, self.sharpness = network, sharpness

    def forward(self, input_ids: Tensor, timesteps: Tensor) -> Tensor:
        return self.network(input_ids).logits * (1 + self.sharpness * timesteps[:, None, None])


class Shifted(nn.Module):
    """A network of a type whose logits are those of the next token."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.config = network, SimpleNamespace(model_type="Dream", max_position_embeddings=26)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> tuple[Tensor]:
        return (self.network(input_ids, attention_mask=attention_mask).logits,)


class Alone(nn.Module):
    """A network without an attention mask: a transformer that sees all places, those of padding included."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
        return {"logits": self.network(input_ids).logits}


def random_network(kind: str, seed: int = 0, **options: Any) -> nn.Module:
    """A network of `transformers` for masked language modelling, such as that of "Bert", with random weights."""
    config = getattr(transformers, f"{kind}Config")(**SIZES | options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return getattr(transformers, f"{kind}ForMaskedLM")(config).double().eval()


def bert(**options: Any) -> nn.Module:
    """A BERT for `BERT_TOKENS`."""
    return random_network("Bert", pad_token_id=0, **options)


def esm(**options: Any) -> nn.Module:
    """An ESM-2 for `ESM_TOKENS`, with token dropout."""
    facts = {"position_embedding_type": "rotary", "token_dropout": True, "emb_layer_norm_before": False}
    return random_network("Esm", pad_token_id=1, mask_token_id=8, **facts | options)


def modern_bert() -> nn.Module:
    """A ModernBERT for `BERT_TOKENS`, with a local and a global layer."""
    special = {"pad_token_id": 0, "cls_token_id": 1, "bos_token_id": 1, "sep_token_id": 2, "eos_token_id": 2}
    return random_network("ModernBert", **special, local_attention=4, global_attn_every_n_layers=2)


@dataclass(frozen=True)
class MaskedCase:
    """A network with its tokens, and everything that can be enumerated about three places with three tokens."""

    network: nn.Module
    names: tuple[str, ...] = BERT_TOKENS
    is_shifted: bool = False
    takes_time: bool = False

    @cached_property
    def vocabulary(self) -> ardm.Vocabulary:
        return ardm.Vocabulary(self.names)

    def model(self, **options: Any) -> MaskedModel:
        """The model of the library for sequences of three tokens."""
        return ardm.wrap(self.network, self.vocabulary, **{"length": DIMENSIONS} | options)

    @property
    def mask(self) -> int:
        return next(number for number, name in enumerate(self.names) if "mask" in name.lower())

    @property
    def ordinary(self) -> list[int]:
        """The numbers of A, C and G."""
        return [self.names.index(letter) for letter in "ACG"]

    def items(self) -> list[Item]:
        """The numbers of the tokens of every sequence of three."""
        return list(product(self.ordinary, repeat=DIMENSIONS))

    def text(self, item: Item) -> str:
        return "".join(self.names[number] for number in item)

    def probs(self, states: Sequence[Item]) -> Tensor:
        """The probabilities of A, C and G at every place of states of the same length, from the raw network."""
        start, end = (self.names.index(pair) for pair in self._around)
        ids = torch.tensor([[start, *state, end] for state in states])
        shares = (ids == self.mask).sum(1) / (ids.shape[1] - 2)  # in float32
        with torch.no_grad():
            output = self.network(ids, shares) if self.takes_time else self.network(ids)
        logits = output if isinstance(output, Tensor) else output[0] if self.is_shifted else output["logits"]
        first = 0 if self.is_shifted else 1
        return logits[:, first : first + ids.shape[1] - 2, self.ordinary].softmax(-1)

    @property
    def _around(self) -> tuple[str, str]:
        return {"[": ("[CLS]", "[SEP]"), "<": (self.names[0], self.names[2])}[self.names[0][0]]

    @cached_property
    def _all_probs(self) -> dict[Item, list[list[float]]]:
        states = list(product([self.mask, *self.ordinary], repeat=DIMENSIONS))
        return dict(zip(states, self.probs(states).tolist(), strict=True))

    def log2_prob(self, x: Item, groups: Sequence[Order], known: Order = ()) -> float:
        """log2 p(x at the places of the groups | x at the known ones), the places of a group at once."""
        state, total = [x[place] if place in known else self.mask for place in range(len(x))], 0.0
        for group in groups:
            probs = self._all_probs[tuple(state)]
            for place in group:
                total += math.log2(probs[place][self.ordinary.index(x[place])])
                state[place] = x[place]
        return total

    def in_order(self, x: Item, order: Order, known: Order = ()) -> float:
        """log2 p(x at the places of an order | x at the known ones)."""
        return self.log2_prob(x, [[place] for place in order], known)

    def mean_bits(self, x: Item) -> float:
        """The bound: the mean over all orders of -log2 p(x | order)."""
        return -sum(self.in_order(x, order) for order in ORDERS) / len(ORDERS)


ORDERS = list(permutations(range(DIMENSIONS)))
CASES: dict[str, Callable[[], MaskedCase]] = {
    "bert": cache(lambda: MaskedCase(bert())),
    "roberta": cache(lambda: MaskedCase(random_network("Roberta", pad_token_id=1), ROBERTA_TOKENS)),
    "albert": cache(lambda: MaskedCase(random_network("Albert", pad_token_id=0, embedding_size=8))),
    "modernbert": cache(lambda: MaskedCase(modern_bert())),
    "esm": cache(lambda: MaskedCase(esm(), ESM_TOKENS)),
    "shifted": cache(lambda: MaskedCase(Shifted(bert(seed=1)), is_shifted=True)),
    "timed": cache(lambda: MaskedCase(Timed(bert(seed=2)), takes_time=True)),
    "alone": cache(lambda: MaskedCase(Alone(bert(seed=3)))),
}
