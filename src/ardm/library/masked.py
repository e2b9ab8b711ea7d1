"""`ardm.wrap`: masked language models as ARDMs, with a method for every command."""

import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor, nn

from ardm.checkpoint import TrainedModel
from ardm.conditionals import conditional_bits
from ardm.depth import absorbing
from ardm.errors import DataError, UsageError
from ardm.library.items import AnyShape, Rows, as_shape
from ardm.library.model import Model, TrainingRows
from ardm.library.scores import Score, ScoreHow, ratio_half_width
from ardm.library.sequences import PADDING, SequenceItems
from ardm.likelihood import partial_bound, student_95
from ardm.masked.hub import SAVED_OPTIONS, load_pretrained, profile_facts, save_pretrained, saved_profile
from ardm.masked.network import (
    PROBE_LENGTH,
    MaskedNetwork,
    Time,
    arguments_of,
    as_it_is,
    is_shifted_type,
    probed_classes,
    time_argument,
)
from ardm.masked.tokens import Tokens, Vocabulary
from ardm.model import ARDM, Context, evaluating
from ardm.parametrizations import DataParametrization
from ardm.profile import Profile
from ardm.runtime.device import Runtime
from ardm.runtime.files import check_writable_folder
from ardm.tasks.score import passes_for

USUAL_LENGTH, USUAL_WINDOW = 128, 512
"""Tokens of a sampled sequence, and the most that a network sees, where nothing else is known."""
MUTATION = re.compile(r"([^\d:,\s]+)(\d+)([^\d:,\s]+)")
"""A substitution such as A23G: the token, its position from 1, and the new token."""
NUM_ORDERS = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class PseudoScore:
    """Pseudo-log-likelihoods, in bits: see `MaskedModel.pseudo_score`."""

    bits: Float64[np.ndarray, "N"]
    """The sum of each sequence's bits of one token given all others."""
    num_variables: Int[np.ndarray, "N"]
    half_width: float
    """Half the 95% interval of `bits_per_dim` over the sequences; infinite for a single one."""
    unit: str

    @property
    def bits_per_dim(self) -> float:
        """Bits of all sequences over their tokens."""
        return float(self.bits.sum() / self.num_variables.sum())

    @property
    def figure(self) -> str:
        """The mean with its interval and its unit."""
        interval = f" ± {self.half_width:.4f}" if math.isfinite(self.half_width) else ""
        return f"{self.bits_per_dim:.4f}{interval} {self.unit}"

    def __str__(self) -> str:
        """The mean with its interval, and what it is not."""
        count = len(self.bits)
        return f"{self.figure}, {count} item{'s' * (count > 1)}; pseudo-log-likelihood, which is not a probability"


@dataclass(frozen=True, kw_only=True, eq=False)
class VariantScore:
    """log2 p(variant | rest) - log2 p(wild type | rest) at the places where they differ: see `MaskedModel.variants`."""

    log2_ratio: Float64[np.ndarray, "N"]
    """Positive where the model prefers the variant."""
    half_width: Float64[np.ndarray, "N"]
    """Half the 95% interval over orders; 0 where all orders of the places are averaged."""
    num_places: Int[np.ndarray, "N"]

    def __str__(self) -> str:
        """A line for each variant."""
        lines = zip(self.log2_ratio, self.half_width, self.num_places, strict=True)
        return "\n".join(f"{ratio:+.3f} ± {half:.3f} bits at {n} place{'s' * int(n > 1)}" for ratio, half, n in lines)


class MaskedModel(Model):
    """A masked language model with a method for every command; `ardm.wrap` and `ardm.load("hf:...")` return one.

    >>> import ardm, torch
    >>> network = torch.nn.Sequential(torch.nn.Embedding(4, 8), torch.nn.Linear(8, 4))
    >>> network.forward = lambda input_ids: network[1](network[0](input_ids))
    >>> ardm.wrap(network, ardm.Vocabulary(["<mask>", "H", "C", "O"]), length=9)
    Model of sequences: 3 tokens, up to 512 at once, 68 parameters
    """

    items: SequenceItems

    def __init__(self, ardm: ARDM, items: SequenceItems, tokenizer: Any, **facts: Any) -> None:
        super().__init__(ardm, items, **facts)
        self.tokenizer = tokenizer

    @property
    def tokens(self) -> Tokens:
        """The tokens, with the special ones among them."""
        return self.items.tokens

    @property
    def network(self) -> nn.Module:
        """The masked model's own network."""
        assert isinstance(self.ardm.network, MaskedNetwork)
        return self.ardm.network.network

    def __repr__(self) -> str:
        number, ordinary = sum(p.numel() for p in self.parameters()), len(self.tokens.names) - len(self.tokens.special)
        return (
            f"Model of {self.items.title}: {ordinary} tokens, up to {self.items.window} at once, {number:,} parameters"
        )

    def for_shape(self, shape: AnyShape) -> "Model":
        """This model for sequences of another length, at most its window."""
        shape = as_shape(shape)
        if len(shape) != 1 or not 1 <= shape[0] <= self.items.window:
            raise UsageError(f"this model takes 1 to {self.items.window} tokens at once, got the shape {shape}")
        return super().for_shape(shape)

    def _around(self, ardm: ARDM) -> "MaskedModel":
        facts: Any = {"profile": self.profile, "profile_source": self.profile_source}
        return MaskedModel(ardm, self.items, self.tokenizer, **facts)

    def _context(self, context: Any, num_items: int, rows: Rows | None = None) -> Context:
        if context is not None:
            raise UsageError("a masked model takes no context; put what is given into the sequence")
        return None if rows is None or rows.lengths is None else rows.lengths.to(self.device)

    def _for_codec(self) -> TrainedModel:
        raise UsageError("a masked model does not compress: that takes an exact network, in integers")

    # Training

    def prepared(self, data: Any, valid: Any) -> tuple[Model, Any, Any]:
        """The model for the longest sequence, and sequences in arrays of tokens."""
        arrays = [
            part if part is None or isinstance(part, float | int) else self.items.encoded(part)
            for part in (data, valid)
        ]
        size = max(array.shape[1] for array in arrays if isinstance(array, np.ndarray))
        return self.for_shape((size,)), arrays[0], arrays[1]

    def batch(self, x: Any, context: Any = None) -> TrainingRows:
        """Sequences, or rows of tokens with -1 after the end of each, to train on."""
        ids = x if isinstance(x, np.ndarray) and x.dtype.kind == "i" else self.items.encoded(x)
        if ids.shape[1] > self.shape[0]:
            raise DataError(f"a batch to train this model on has up to {self.shape[0]} tokens, got {ids.shape[1]}")
        padded = np.pad(ids, ((0, 0), (0, self.shape[0] - ids.shape[1])), constant_values=PADDING)
        rows = torch.from_numpy(padded.astype(np.int64)).to(self.device)
        missing = rows == PADDING
        given = torch.isin(rows, torch.tensor(sorted(self.tokens.special), device=self.device))
        x = rows.masked_fill(missing, 0)
        return TrainingRows(x=x, missing=missing, given=given if bool(given.any()) else None, context=(~missing).sum(1))

    def measured_profile(self, batches: Sequence[TrainingRows], wanted: int, seed: int) -> Profile | None:
        """The loss profile from about this many observations, by the share of tokens that are revealed."""
        x, missing, lengths = (
            torch.cat([getattr(rows, name) for rows in batches]) for name in ("x", "missing", "context")
        )
        none = torch.zeros_like(missing)
        given = torch.cat([none[: len(rows.x)] if rows.given is None else rows.given for rows in batches])
        generator, passes = torch.Generator(self.device).manual_seed(seed), math.ceil(wanted / len(x))
        options: Any = {"context": lengths, "num_passes": passes}
        return partial_bound(self.ardm, x, ~missing & ~given, given, generator, **options).profile

    # Scores

    def score(self, items: Any, *args: Any, **options: Any) -> Score:
        """The bits of each sequence, as `Model.score` gives them, with its size in characters and bytes, too.

        With `calls`, sequences of fewer tokens take one call for each.
        """
        texts = self.items.texts(items)
        return replace(super().score(texts, *args, **options), sizes=self.items.sizes(texts))

    def num_rows(self, items: Any, order: str = "random", calls: int | None = None, passes: int | None = None) -> int:
        """The number of rows that the network sees to score items, for progress."""
        rows = self.items.rows(items)
        chosen = passes or passes_for(sum(len(part.x) for part in rows))
        how = ScoreHow(order=order, calls=calls, passes=chosen, schedule="planned", seed=0, batch_size=1)
        return sum(how.num_rows(part) for part in rows)

    def pseudo_score(
        self, items: Any, *, batch_size: int = 64, on_batch: Callable[[int], None] = lambda count: None
    ) -> PseudoScore:
        """The pseudo-log-likelihood: the bits of each token given all others, added up.

        It is not a probability, and mostly far below the bits of one: every token is guessed with all others in sight.

        >>> import ardm, torch
        >>> network = torch.nn.Sequential(torch.nn.Embedding(3, 8), torch.nn.Linear(8, 3))
        >>> network.forward = lambda input_ids: 0 * network[1](network[0](input_ids))
        >>> model = ardm.wrap(network, ardm.Vocabulary(["<mask>", "H", "T"]))
        >>> model.pseudo_score(["HHT", "TH"]).bits.round(3).tolist()
        [3.0, 2.0]
        """
        rows = self.items.rows(items)
        number = 1 + max(int(part.owner.max()) for part in rows)
        bits, variables = np.zeros(number), np.zeros(number, np.int64)
        for part in rows:
            found = self._pseudo_bits(part, batch_size, on_batch)
            np.add.at(bits, part.owner.numpy(), found.cpu().numpy())
            np.add.at(variables, part.owner.numpy(), part.num_scored.numpy())
        half_width = ratio_half_width(bits, variables)
        return PseudoScore(bits=bits, num_variables=variables, half_width=half_width, unit=self.items.unit)

    def _pseudo_bits(self, rows: Rows, batch_size: int, on_batch: Callable[[int], None]) -> Float64[Tensor, "R"]:
        ardm = self.for_shape(rows.shape).ardm
        x = rows.x.to(self.device)
        scored = (
            torch.ones_like(x, dtype=torch.bool) if rows.scored is None else rows.scored.to(self.device)
        ).nonzero()
        bits = torch.zeros(len(x), dtype=torch.float64, device=self.device)
        with torch.no_grad(), evaluating(ardm):
            for pairs in scored.split(batch_size):
                row, place = pairs.T
                inputs = x[row].scatter(1, place[:, None], self.tokens.mask)
                lengths = None if rows.lengths is None else rows.lengths.to(self.device)[row]
                mask = torch.ones_like(inputs, dtype=torch.bool).scatter(1, place[:, None], False)
                stage, t = torch.zeros_like(row), mask.sum(1)
                outputs = ardm.outputs(inputs, mask, stage, t, where=place[:, None], context=lengths)
                found = outputs.log_softmax(-1)[:, 0].gather(1, x[row, place][:, None])[:, 0]
                bits.index_add_(0, row, -found.double() / math.log(2))
                on_batch(len(row))
        return bits

    def variants(
        self, wild_type: str, variants: str | Sequence[str], *, orders: int = NUM_ORDERS, seed: int = 0
    ) -> VariantScore:
        """How much more probable each variant is than the wild type, given the tokens that they share.

        A variant is a sequence of the same length, or substitutions such as "A23G:T45S" (positions from 1). The joint
        probability of several places depends on the order in which a masked model reveals them; the score is the mean
        over random orders, the same for variant and wild type, with a Student interval. Where there are no more than
        `orders` orders of the places it is the exact mean over all of them.

        >>> import ardm, torch
        >>> network = torch.nn.Sequential(torch.nn.Embedding(3, 8), torch.nn.Linear(8, 3))
        >>> network.forward = lambda input_ids: 0 * network[1](network[0](input_ids))
        >>> model = ardm.wrap(network, ardm.Vocabulary(["<mask>", "H", "T"]))
        >>> print(model.variants("HHT", ["H1T", "H1T:H2T", "HTH"]))
        +0.000 ± 0.000 bits at 1 place
        +0.000 ± 0.000 bits at 2 places
        +0.000 ± 0.000 bits at 2 places
        """
        wild = self.items.encode(wild_type, "the wild type")
        texts = self.items.texts(variants)
        if orders < 2:
            raise UsageError(f"orders must be at least 2, got {orders}")
        found = [self._variant(wild, self._mutated(wild, text), orders, seed) for text in texts]
        ratio, half_width, num_places = (np.array(part) for part in zip(*found, strict=True))
        return VariantScore(log2_ratio=ratio, half_width=half_width, num_places=num_places)

    def _mutated(self, wild: Int[np.ndarray, "n"], variant: str) -> Int[np.ndarray, "n"]:
        """The tokens of a variant, which is a sequence or a list of substitutions."""
        found = self._substitutions(variant)
        if found is None:
            ids = self._encoded_variant(variant)
            if ids.shape != wild.shape:
                raise DataError(f"a variant has as many tokens as the wild type, {len(wild)}; got {len(ids)}")
            return ids
        ids = wild.copy()
        for old, place, new in found:
            if not 0 <= place < len(wild):
                raise DataError(f"{variant}: the wild type has positions 1 to {len(wild)}, not {place + 1}")
            if wild[place] != old:
                has, said = (self.tokens.decode([int(token)]) for token in (wild[place], old))
                raise DataError(f"{variant}: the wild type has {has} at position {place + 1}, not {said}")
            ids[place] = new
        if len({place for _, place, _ in found}) < len(found):
            raise DataError(f"{variant}: a position is named twice")
        return ids

    def _encoded_variant(self, variant: str) -> Int[np.ndarray, "n"]:
        try:
            return self.items.encode(variant, "the variant")
        except DataError:
            if MUTATION.search(variant):
                what = "neither substitutions of known tokens, such as A23G, nor a sequence of them"
                raise DataError(f"the variant {variant} is {what}") from None
            raise

    def _substitutions(self, variant: str) -> list[tuple[int, int, int]] | None:
        """The old token, the place from 0 and the new token of each substitution; None if they are not such."""
        matches = [MUTATION.fullmatch(part) for part in re.split(r"[:,\s]+", variant.strip())]
        found = []
        for match in matches:
            try:
                tokens = [self.items.encode(text) for text in match.group(1, 3)] if match else []
            except DataError:
                return None
            if not tokens or any(len(part) != 1 for part in tokens):
                return None
            assert match is not None
            found.append((int(tokens[0][0]), int(match[2]) - 1, int(tokens[1][0])))
        return found

    def _variant(
        self, wild: Int[np.ndarray, "n"], variant: Int[np.ndarray, "n"], num_orders: int, seed: int
    ) -> tuple[float, float, int]:
        """The mean log-ratio over orders, half its interval, and the number of places."""
        differs = np.flatnonzero(wild != variant)
        if not len(differs):
            return 0.0, 0.0, 0
        chosen, is_all = _orders_of(differs, num_orders, seed)
        rest = np.setdiff1d(np.arange(len(wild)), differs)
        orders = torch.tensor([[*rest, *order] for order in chosen], device=self.device)[:, None].repeat(2, 1, 1)
        x = torch.from_numpy(np.stack([variant] * len(chosen) + [wild] * len(chosen))).to(self.device)
        target = torch.from_numpy(wild != variant).to(self.device)
        ardm = self.for_shape(wild.shape).ardm
        bits = conditional_bits(ardm, x, target, ~target, orders).bits.view(2, len(chosen))
        ratio = (bits[1] - bits[0]).double().cpu().numpy()
        half = 0.0 if is_all else student_95(len(ratio) - 1) * float(ratio.std(ddof=1)) / math.sqrt(len(ratio))
        return float(ratio.mean()), half, len(differs)


def _orders_of(places: Int[np.ndarray, "m"], number: int, seed: int) -> tuple[list[tuple[int, ...]], bool]:
    """All orders of places, if there are at most this many, or a number of random ones; and whether these are all."""
    if len(places) <= 20 and math.factorial(len(places)) <= number:
        return list(itertools.permutations(places.tolist())), True
    generator = np.random.default_rng(seed)
    return [tuple(generator.permutation(places).tolist()) for _ in range(max(2, number))], False


def wrap(
    network: nn.Module,
    tokenizer: Any,
    *,
    length: int | None = None,
    window: int | None = None,
    pattern: str | None = None,
    unit: str | None = None,
    mask_id: int | None = None,
    start_id: int | None = None,
    shifted: bool | None = None,
    time: str | bool | None = None,
    time_of: Time = as_it_is,
    token_dropout: bool | None = None,
) -> MaskedModel:
    """A masked language model as an order-agnostic ARDM, for everything that `Model` can do.

    The network is one of `transformers`, or a module `(input_ids[, attention_mask]) -> logits`; the tokenizer one of
    `transformers`, or an `ardm.Vocabulary`. What follows is found by the network's configuration unless it is given:

    - `length`, the tokens of a sequence that is sampled (128, if the network takes as many), and `window`, the most
      that it sees at once
    - `pattern`, how texts are split: "letters", "smiles", an expression, or "tokenizer" for its own way
    - `unit`, the name of a token in figures, such as "residue"
    - `mask_id` and `start_id`, the numbers of the mask and of a first token
    - `shifted`, whether logits are those of the next token, as Dream's are; the first token is then never hidden
    - `time`, the name of the argument that takes the share of hidden tokens, after `time_of`; False if there is none
    - `token_dropout`, for ESM-2: as it was trained, the network scales its embeddings by 0.88 / (share of visible
      tokens), by 54 if all of 120 residues are hidden. False leaves that out, and zeroes the mask's embedding instead.

    >>> import ardm, torch
    >>> class Net(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layers = torch.nn.Sequential(torch.nn.Embedding(5, 8), torch.nn.Linear(8, 5))
    ...     def forward(self, input_ids):
    ...         return self.layers(input_ids)
    >>> model = ardm.wrap(Net(), ardm.Vocabulary(["<mask>", "A", "C", "G", "T"]))
    >>> score = model.score(["ACGT", "GATTACA"], order="raster")
    >>> score.unit, score.num_variables.tolist()
    ('bits/base', [4, 7])
    """
    if not isinstance(network, nn.Module):
        raise UsageError(f"a network is a torch.nn.Module, got {type(network).__name__}")
    config = getattr(network, "config", None)
    own_mask = mask_id if mask_id is not None else _mask_of(tokenizer, config)
    tokens = Tokens.of(tokenizer, pattern=pattern, mask_id=own_mask)
    tokens = replace(tokens, unit=unit or tokens.unit)
    is_shifted = is_shifted_type(network) if shifted is None else shifted
    if start_id is not None and not 0 <= start_id < len(tokens.names):
        raise UsageError(
            f"the first token must be one of the tokens 0..{len(tokens.names) - 1}, got start_id={start_id}"
        )
    if (start := start_id if start_id is not None else _start_of(tokens, tokenizer, is_shifted)) is not None:
        tokens = replace(tokens, start=(start,), special=tokens.special | {start})
    argument = time_argument(network) if time is None or time is True else time or None
    if argument is not None and argument not in arguments_of(network):
        raise UsageError(
            f"the network has no argument {argument!r} for the time; it has {', '.join(arguments_of(network))}"
        )
    facts: Any = {"is_shifted": is_shifted, "time": argument, "time_of": time_of}
    if token_dropout is not None:
        _set_token_dropout(network, tokens, token_dropout)
    largest = _window_of(network, tokenizer, tokens) if window is None else window
    if (places := _num_positions(network)) is not None and largest > (most := places - tokens.num_around):
        raise UsageError(f"the window must lie in 1..{most}, since the network has {places} positions; got {largest}")
    if largest < 1:
        raise UsageError(f"the window must be positive, got {largest}")
    if length is not None and not 1 <= length <= largest:
        raise UsageError(f"the length must lie in 1..{largest}, which this network sees at once, got {length}")
    probe = largest if window is not None and length == window else min(PROBE_LENGTH, largest)
    num_logits = probed_classes(MaskedNetwork(network, tokens, len(tokens.names), **facts), probe)
    shape = (length or min(USUAL_LENGTH, largest),)
    num_classes = max(num_logits, len(tokens.names))
    masked = MaskedNetwork(network, tokens, num_classes, **facts)
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    ardm = ARDM(masked, DataParametrization(absorbing(num_classes, tokens.mask)), shape).to(device)
    return MaskedModel(ardm, SequenceItems(shape, tokens, largest), tokenizer)


def load_masked(
    source: str | Path,
    device: str | None = None,
    *,
    trust_remote_code: bool = False,
    pickled: bool = False,
    tokenizer: str | Path | None = None,
    **options: Any,
) -> MaskedModel:
    """The masked model of `hf:FOLDER` or `hf:OWNER/NAME`; other options are those of `wrap`."""
    if unknown := sorted({*options} - {*inspect.signature(wrap).parameters}):
        raise UsageError(f"{unknown[0]}= is no option of a masked model; see ardm.wrap")
    found = load_pretrained(source, trust_remote_code=trust_remote_code, pickled=pickled, tokenizer=tokenizer)
    known = {name: found.facts[name] for name in SAVED_OPTIONS if found.facts.get(name) is not None}
    model = wrap(found.network, found.tokenizer, **(known | options))
    if (saved := saved_profile(found.facts, source)) is not None:
        model.profile, model.profile_source = saved
    return model.to(Runtime.choose(device, compile=False).device)


def save_masked(model: MaskedModel, folder: Path) -> None:
    """Write a masked model into a folder, from which `hf:FOLDER` and `transformers` load it."""
    check_writable_folder(folder)
    network = model.ardm.network
    assert isinstance(network, MaskedNetwork)
    if network.time_of is not as_it_is:
        raise UsageError(
            "a model with a time_of= of its own cannot be saved, since functions are not; save its network"
        )
    tokens, coder = model.tokens, model.tokens.coder
    pattern = coder.pattern if isinstance(coder, Vocabulary) else "tokenizer"
    start = tokens.start[0] if len(tokens.start) == 1 else None
    options = (model.shape[0], model.items.window, tokens.unit, pattern, network.is_shifted, network.time or False)
    facts: dict[str, Any] = dict(zip(SAVED_OPTIONS, (*options, tokens.mask, start), strict=True))
    if bool(model.profile.counts.any()):
        facts |= profile_facts(model.profile, model.profile_source)
    save_pretrained(folder, model.network, model.tokenizer, facts)


def _mask_of(tokenizer: Any, config: Any) -> int | None:
    """The mask that a configuration names where the tokenizer has none."""
    if getattr(tokenizer, "mask_token_id", None) is not None or isinstance(tokenizer, Tokens):
        return None
    found = getattr(config, "mask_token_id", None)
    return found if isinstance(found, int) else None


def _start_of(tokens: Tokens, tokenizer: Any, is_shifted: bool) -> int | None:
    """A first token for a shifted model whose tokenizer puts none before a text."""
    if tokens.start or not is_shifted:
        return None
    names = ("bos_token_id", "cls_token_id", "eos_token_id")
    return next((found for name in names if (found := getattr(tokenizer, name, None)) is not None), None)


def _window_of(network: nn.Module, tokenizer: Any, tokens: Tokens) -> int:
    """The most tokens that a network sees at once, without the special ones around them."""
    config = getattr(network, "config", None)
    limits = list(_position_limits(network, config))
    if (most := getattr(tokenizer, "model_max_length", None)) and most < 2**20:
        limits.append(int(most))
    return min(limits, default=USUAL_WINDOW + tokens.num_around) - tokens.num_around


def _position_limits(network: nn.Module, config: Any) -> Iterator[int]:
    if (positions := _num_positions(network)) is not None:
        yield positions
    elif named := getattr(config, "max_position_embeddings", None) or getattr(config, "max_sequence_length", None):
        yield int(named)


def _num_positions(network: nn.Module) -> int | None:
    """The positions that a network has embeddings for; None if it has no table of them."""
    named = (module for name, module in network.named_modules() if name.endswith("position_embeddings"))
    table = next((module for module in named if isinstance(module, nn.Embedding)), None)
    if table is None:
        return None
    # RoBERTa and ESM count positions after that of padding
    return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)


def _set_token_dropout(network: nn.Module, tokens: Tokens, is_on: bool) -> None:
    """Switch ESM-2's token dropout; without it the mask's embedding is zero, as the network was trained to see it."""
    found: list[Any] = [module for module in network.modules() if hasattr(module, "token_dropout")]
    if not found:
        raise UsageError("this network has no token dropout, which is ESM-2's; leave out token_dropout=")
    config: Any = getattr(network, "config", None)
    if hasattr(config, "token_dropout"):
        config.token_dropout = is_on  # which is saved with the network
    for module in found:
        module.token_dropout = is_on
        if not is_on:
            with torch.no_grad():
                module.word_embeddings.weight[tokens.mask] = 0
