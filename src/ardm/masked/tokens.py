"""Tokens of masked models: how texts become their numbers, and which of the numbers are special.

Special tokens are never hidden and never predicted. Those that surround every sequence, such as [CLS] and [SEP], are
no variables at all; others that stand within a text are given.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ardm.errors import CheckpointError, DataError, UsageError

HIDDEN = "_"
"""Mark of a hidden token in texts."""
SMILES = (
    r"\%\([0-9]{3}\)|\[[^\]]+\]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\||\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$"
    r"|\%[0-9]{2}|[0-9]"
)
"""Tokens of SMILES and reaction SMILES: atoms, bonds, branches and rings (Schwaller et al., 2018)."""
PATTERNS = {"letters": r".", "smiles": SMILES}
"""Ways to split a text into tokens, by name."""
RESERVED = re.compile(
    r"\[unused\d+\]|<unused\d+>|<null_\d+>|madeupword\d+|<extra_id_\d+>|<\|reserved_(special_)?token_\d+\|>"
)
"""Tokens that no text can give: places kept free in a vocabulary."""
AMINO_ACIDS, BASES = frozenset("ACDEFGHIKLMNPQRSTVWY"), frozenset("ACGTUN")
STARTS, ENDS = ("[CLS]", "<cls>", "<s>", "<bos>"), ("[SEP]", "<eos>", "</s>")
MAX_BEYOND = 1024
"""How far beyond the tokens of a tokenizer the number of a mask may lie."""
MASKS, PADS, UNKNOWNS = ("[MASK]", "<mask>"), ("[PAD]", "<pad>"), ("[UNK]", "<unk>")
SPECIALS = (*STARTS, *ENDS, *MASKS, *PADS, *UNKNOWNS)


@runtime_checkable
class Coder(Protocol):
    """Texts as lists of token numbers, and back."""

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's tokens, without those around it; a DataError for what has none."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens."""


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The tokens of a masked model.

    >>> from ardm.masked.tokens import Tokens, Vocabulary
    >>> tokens = Tokens.of(Vocabulary(["[PAD]", "[CLS]", "[SEP]", "[MASK]", "A", "C"]))
    >>> tokens.encode("CA_A"), tokens.mask, tokens.start, tokens.unit
    ([5, 4, 3, 4], 3, (1,), 'character')
    """

    coder: Coder
    names: Sequence[str]
    """The text of each token, by its number."""
    mask: int
    """The token that stands for a hidden one."""
    pad: int
    """The token that fills the places after a shorter sequence."""
    special: frozenset[int]
    """Tokens that are never hidden and never predicted."""
    start: tuple[int, ...] = ()
    """Tokens before every sequence."""
    end: tuple[int, ...] = ()
    """Tokens after every sequence."""
    unit: str = "token"
    """The name of a token in figures, such as "residue"."""

    @classmethod
    def of(cls, tokenizer: Any, *, pattern: str | None = None, mask_id: int | None = None) -> "Tokens":
        """The tokens of a `Vocabulary` or of a tokenizer of `transformers`.

        The pattern splits texts into tokens: "letters", "smiles", a regular expression, or "tokenizer" for the
        tokenizer's own way. By default a vocabulary of letters is split into letters, one of SMILES as those.
        """
        if isinstance(tokenizer, Tokens):
            return tokenizer
        if isinstance(tokenizer, Vocabulary):
            return tokenizer.split_by(pattern).to_tokens(mask_id)
        if not hasattr(tokenizer, "convert_ids_to_tokens"):
            raise UsageError(
                f"a tokenizer is one of transformers or an ardm.Vocabulary, got {type(tokenizer).__name__}"
            )
        return _of_transformers(tokenizer, pattern, mask_id)

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's tokens; the mark _ and the mask's own name stand for hidden ones."""
        return self.coder.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens; a hidden one (the mask, or a number beyond the tokens) is shown as _."""
        if isinstance(self.coder, Vocabulary):
            return self.coder.decode([self.mask if i >= len(self.names) else i for i in ids])
        parts, run = [], list[int]()
        for i in ids:
            if i == self.mask or i >= len(self.names):
                parts += [self.coder.decode(run), HIDDEN] if run else [HIDDEN]
                run = []
            else:
                run.append(i)
        return "".join([*parts, self.coder.decode(run) if run else ""])

    @property
    def num_around(self) -> int:
        """The number of tokens around every sequence."""
        return len(self.start) + len(self.end)


@dataclass(frozen=True)
class Vocabulary:
    """A list of tokens that a pattern splits texts into, for models without a tokenizer of their own.

    The pattern is "letters", "smiles" or a regular expression; by default it is chosen by what the tokens are. Special
    tokens are found by their usual names, such as [CLS] or <mask>.

    >>> import ardm
    >>> vocabulary = ardm.Vocabulary(["<pad>", "<mask>", "C", "Cl", "O", "=", "(", ")"], "smiles")
    >>> vocabulary.encode("ClC(=O)"), vocabulary.decode([2, 5, 4])
    ([3, 2, 6, 5, 4, 7], 'C=O')
    """

    tokens: Sequence[str]
    pattern: str | None = None
    mask: str | None = field(default=None, kw_only=True)
    """The mask's name, if it is not one of the usual."""
    special: Iterable[str] = field(default=(), kw_only=True)
    """More special tokens than those with the usual names."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        object.__setattr__(self, "special", tuple(self.special))
        if len(self._numbers) < len(self.tokens):
            twice = next(token for number, token in enumerate(self.tokens) if self._numbers[token] != number)
            raise UsageError(f"the tokens of a vocabulary must differ, but there are two of {twice!r}")

    @classmethod
    def from_file(cls, path: str | Path, pattern: str | None = None) -> "Vocabulary":
        """The tokens in a file with one a line, such as vocab.txt."""
        try:
            lines = Path(path).read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{path} is not a list of tokens: {error}") from None
        return cls([line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)], pattern)

    def split_by(self, pattern: str | None) -> "Vocabulary":
        """This vocabulary with another pattern; None leaves it as it is."""
        return self if pattern is None or pattern == "tokenizer" else replace(self, pattern=pattern)

    @property
    def is_letters(self) -> bool:
        """Whether texts are split into single characters."""
        return (self.pattern or self._usual_pattern) == "letters"

    @property
    def is_smiles(self) -> bool:
        """Whether texts are split into the tokens of SMILES."""
        return (self.pattern or self._usual_pattern) == "smiles"

    @property
    def mask_name(self) -> str | None:
        """The name of the mask."""
        return self.mask or self._first(MASKS)

    @property
    def special_names(self) -> list[str]:
        """The names of special and of reserved tokens."""
        usual = {*SPECIALS, *self.special, self.mask_name}
        return [name for name in self.tokens if name in usual or RESERVED.fullmatch(name)]

    @property
    def _usual_pattern(self) -> str | None:
        special = {*self.special_names}
        return usual_pattern([name for name in self.tokens if name not in special])

    def _first(self, names: Sequence[str]) -> str | None:
        return next((name for name in names if name in self._numbers), None)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.tokens)}

    @cached_property
    def _regex(self) -> "re.Pattern[str]":
        pattern = self.pattern or self._usual_pattern
        if pattern is None:
            raise UsageError("say how texts are split into these tokens: pattern= letters, smiles or an expression")
        names = [re.escape(name) for name in self.special_names]
        try:
            return re.compile("|".join([*names, HIDDEN, PATTERNS.get(pattern, pattern)]), re.DOTALL)
        except re.error as error:
            raise UsageError(f"the pattern {pattern!r} is not a regular expression: {error}") from None

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's tokens; _ stands for the mask."""
        ids, place = [], 0
        while place < len(text):
            match = self._regex.match(text, place)
            part = match[0] if match and match[0] else text[place]
            name = self.mask_name or part if part == HIDDEN and HIDDEN not in self._numbers else part
            if not match or not match[0] or name not in self._numbers or name in UNKNOWNS:
                kind = self.unit if self.unit != "character" else "token"
                raise DataError(f"unknown {kind} {name!r} at position {place} (from 0): the model has no such token")
            ids.append(self._numbers[name])
            place += len(part)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens; the mask is shown as _."""
        return "".join(HIDDEN if self.tokens[i] == self.mask_name else self.tokens[i] for i in ids)

    @property
    def unit(self) -> str:
        """The name of a token in figures: a residue of proteins, a base of DNA or RNA, a character or a token."""
        if not self.is_letters:
            return "token"
        letters = {*self.tokens} - {*self.special_names}
        return "residue" if letters >= AMINO_ACIDS else "base" if {*"ACG"} <= letters <= BASES else "character"

    def to_tokens(self, mask_id: int | None = None) -> Tokens:
        """These tokens, with the special ones by their usual names."""
        if mask_id is not None:
            check_mask(mask_id, len(self.tokens))
            return replace(self, mask=self.tokens[mask_id]).to_tokens()
        if self.mask_name not in self._numbers:
            raise no_mask()
        mask = self._numbers[self.mask_name]
        ids = {name: self._numbers[name] for name in self.special_names}
        first, last, pad = (self._first(names) for names in (STARTS, ENDS, PADS))
        start, end = (() if name is None else (ids[name],) for name in (first, last))
        fill = mask if pad is None else ids[pad]
        special = frozenset({*ids.values(), mask})
        return Tokens(
            coder=self, names=self.tokens, mask=mask, pad=fill, special=special, start=start, end=end, unit=self.unit
        )


def usual_pattern(names: Sequence[str]) -> str | None:
    """The name of the pattern that fits ordinary tokens: letters, SMILES, or neither.

    >>> from ardm.masked.tokens import usual_pattern
    >>> usual_pattern(["A", "C"]), usual_pattern(["C", "Cl", "(", ")", "="]), usual_pattern(["the", "##re"])
    ('letters', 'smiles', None)
    """
    if names and all(len(name) == 1 for name in names):
        return "letters"
    is_smiles = {"C", "Cl", "(", ")", "="} <= {*names} and all(re.fullmatch(SMILES, name) for name in names)
    return "smiles" if is_smiles else None


def no_mask() -> CheckpointError:
    """The error about a model without a mask."""
    return CheckpointError("this model has no mask token, so it is no masked model; name one with mask_id= if it has")


def check_mask(mask_id: int, num_tokens: int) -> None:
    """Raise a UsageError unless a mask is the number of a token."""
    if not 0 <= mask_id < num_tokens:
        raise UsageError(f"the mask must be one of the tokens 0..{num_tokens - 1}, got mask_id={mask_id}")


@dataclass(frozen=True)
class TokenizerCoder:
    """The coder of a tokenizer of `transformers`."""

    tokenizer: Any
    mask: int
    name: str | None
    """The mask's name; None if the tokenizer does not know the mask."""
    unknown: int | None

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's tokens; a DataError for a part that the tokenizer does not know."""
        if self.name is not None:
            ids: list[int] = self.tokenizer.encode(text.replace(HIDDEN, self.name), add_special_tokens=False)
        else:
            parts = [self.tokenizer.encode(part, add_special_tokens=False) for part in text.split(HIDDEN)]
            ids = parts[0] + [number for part in parts[1:] for number in (self.mask, *part)]
        if self.unknown in ids:
            known = self.decode(ids[: ids.index(self.unknown)])
            raise DataError(f"the tokenizer has no token for a part of {text!r}, after {known!r}")
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        return str(self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))


def _of_transformers(tokenizer: Any, pattern: str | None, mask_id: int | None) -> Tokens:
    names = [str(name) for name in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
    mask = mask_id if mask_id is not None else tokenizer.mask_token_id
    if mask is None:
        raise no_mask()
    is_known = mask < len(names)
    beyond = range(len(names), mask + 1)  # MDLM's mask follows the tokens of a tokenizer that has none
    check_mask(mask, len(names) + MAX_BEYOND)
    names += [f"<unused{number}>" for number in beyond]
    reserved = {number for number, name in enumerate(names) if RESERVED.fullmatch(name)}
    added = getattr(tokenizer, "added_tokens_decoder", {})
    special = {*tokenizer.all_special_ids, mask, *(i for i, token in added.items() if token.special)} | reserved
    ordinary = [name for number, name in enumerate(names) if number not in special]
    if not ordinary:
        raise CheckpointError("the tokenizer has no token but special ones; its vocabulary is missing or empty")
    chosen = pattern or usual_pattern(ordinary) or "tokenizer"
    start, end = _around(tokenizer, special)
    fill = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else mask
    facts: dict[str, Any] = {"mask": mask, "pad": fill, "special": frozenset(special), "start": start, "end": end}
    if chosen == "tokenizer":
        name = names[mask] if is_known else None
        return Tokens(coder=TokenizerCoder(tokenizer, mask, name, tokenizer.unk_token_id), names=names, **facts)
    vocabulary = Vocabulary(names, chosen, mask=names[mask], special=[names[number] for number in special])
    return replace(vocabulary.to_tokens(mask), **facts)


def _around(tokenizer: Any, special: set[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tokens that a tokenizer puts before and after every sequence."""
    ordinary = next(i for i in range(len(tokenizer)) if i not in special)
    whole = tokenizer.encode(tokenizer.convert_ids_to_tokens(ordinary))
    around = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}  # it may not know its own token as a text
    inner = [place for place, number in enumerate(whole) if number not in around]
    if not inner:  # it leaves such a text out: the first special ones come before
        middle = (len(whole) + 1) // 2
        return tuple(whole[:middle]), tuple(whole[middle:])
    return tuple(whole[: inner[0]]), tuple(whole[inner[-1] + 1 :])
