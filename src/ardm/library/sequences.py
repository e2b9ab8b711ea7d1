"""Sequences of any length, as strings, for masked models: rows of tokens, those of similar lengths together."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int, Integer

from ardm.errors import DataError
from ardm.library.items import Items, Rows, places
from ardm.masked.tokens import HIDDEN, Tokens, Vocabulary
from ardm.media.medium import GappedItem
from ardm.names import Shape

MAX_PADDING = 0.2
"""Rows share a shape if the shortest lacks at most this share of the longest."""
CONTEXT_PART = 4
"""A window of a long sequence is given at least a quarter of itself from the text before."""
PADDING = -1
"""Stands for no token at the end of rows in arrays of encoded sequences."""
Piece = tuple[int, np.ndarray, np.ndarray]
"""A sequence, or a window of it: its number, its tokens, and which of them are given."""


def windows(size: int, window: int) -> Iterator[tuple[int, int, int]]:
    """The windows of a longer sequence: where each starts, what the ones before have scored, and where it stops.

    Every window but the first is given the end of the text before it, at least a quarter of a window.

    >>> from ardm.library.sequences import windows
    >>> list(windows(20, 8))
    [(0, 0, 8), (6, 8, 14), (12, 14, 20)]
    """
    done = 0
    while done < size:
        start = max(0, min(done - window // CONTEXT_PART, size - window))
        stop = min(start + window, size)
        yield start, done, stop
        done = stop


class SequenceItems(Items):
    """Texts (str) of any length as tokens; longer ones than the model takes are cut into windows."""

    title = "sequences"

    def __init__(self, shape: Shape, tokens: Tokens, window: int) -> None:
        super().__init__(shape)
        self.tokens, self.window, self.unit = tokens, window, f"bits/{tokens.unit}"
        self._special = np.array(sorted(tokens.special))

    def texts(self, items: Any) -> list[str]:
        """One text or several as a list."""
        texts = [items] if isinstance(items, str) else list(items) if isinstance(items, Iterable) else [items]
        if not texts:
            raise DataError("expected at least one sequence, got none")
        for text in texts:
            if not isinstance(text, str):
                raise DataError(f"a sequence is a str, got {type(text).__name__}")
        return texts

    def encode(self, text: str, name: str = "the sequence") -> Int[np.ndarray, "n"]:
        """The tokens of a text, none of them hidden."""
        ids = self._encode(text, name)
        if (ids == self.tokens.mask).any():
            raise DataError(f"{name} has a hidden token ({HIDDEN}), which has no probability; infill fills it")
        if np.isin(ids, self._special).all():
            raise DataError(f"{name} has no token but special ones")
        return ids

    def _encode(self, text: str, name: str) -> Int[np.ndarray, "n"]:
        try:
            ids = np.array(self.tokens.encode(text), dtype=np.int64)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        if not len(ids):
            raise DataError(f"{name} is empty")
        return ids

    def rows(self, items: Any) -> list[Rows]:
        """Sequences by length: rows of similar lengths share a shape, where they stand in the order they came in."""
        texts = self.texts(items)
        pieces = [piece for owner, text in enumerate(texts) for piece in self._pieces(owner, text, len(texts))]
        pieces.sort(key=lambda piece: -len(piece[1]))
        found, bucket = [], list[Piece]()
        for piece in pieces:
            if bucket and len(piece[1]) < (1 - MAX_PADDING) * len(bucket[0][1]):
                found.append(self._bucket(bucket))
                bucket = []
            bucket.append(piece)
        return [*found, self._bucket(bucket)]

    def _pieces(self, owner: int, text: str, count: int) -> Iterable[Piece]:
        ids = self.encode(text, "the sequence" if count == 1 else f"sequence {owner}")
        if len(ids) <= self.window:
            yield owner, ids, np.isin(ids, self._special)
            return
        for start, done, stop in windows(len(ids), self.window):
            part = ids[start:stop]
            given = (np.arange(start, stop) < done) | np.isin(part, self._special)
            if not given.all():
                yield owner, part, given

    def _bucket(self, pieces: Sequence[Piece]) -> Rows:
        owners, ids, marks = zip(*sorted(pieces, key=lambda piece: piece[0]), strict=True)
        sizes = np.array([len(own) for own in ids])
        size = int(sizes.max())
        x, given = (np.stack([np.pad(own, (0, size - len(own))) for own in part]) for part in (ids, marks))
        inside = np.arange(size) < sizes[:, None]
        is_whole = bool(inside.all() and not given.any())
        return Rows(
            x=torch.from_numpy(x),
            shape=(size,),
            owner=torch.tensor(owners),
            scored=None if is_whole else torch.from_numpy(inside & ~given),
            given=torch.from_numpy(given) if given.any() else None,
            lengths=torch.from_numpy(sizes),
        )

    def encoded(self, items: Any) -> Int[np.ndarray, "N D"]:
        """Sequences to train on in one array, -1 after the end of each; long ones are cut into several."""
        texts = self.texts(items)
        whole = [self.encode(text, f"sequence {number}") for number, text in enumerate(texts)]
        ids = [ids[start : start + self.window] for ids in whole for start in range(0, len(ids), self.window)]
        ids = [part for part in ids if not np.isin(part, self._special).all()]
        array = np.full((len(ids), max(map(len, ids))), PADDING)
        for row, part in zip(array, ids, strict=True):
            row[: len(part)] = part
        return array

    def sizes(self, items: Any) -> dict[str, Int[np.ndarray, "N"]]:
        """The size of each text in characters and, if that is another, in bytes; nothing where tokens are letters."""
        texts, coder = self.texts(items), self.tokens.coder
        if isinstance(coder, Vocabulary) and coder.is_letters:
            return {}
        characters, num_bytes = (np.array([len(part) for part in parts]) for parts in (texts, map(str.encode, texts)))
        return {"character": characters} | ({} if (characters == num_bytes).all() else {"byte": num_bytes})

    def own_shapes(self, rows: Rows) -> list[Shape]:
        """The length of each sequence."""
        return super().own_shapes(rows) if rows.lengths is None else [(int(n),) for n in rows.lengths]

    def gaps(self, item: Any, mask: Any = None) -> GappedItem:
        """A text with gaps at its marks _, or where a mask of tokens says; special tokens are never gaps."""
        if not isinstance(item, str):
            raise DataError(f"a sequence is a str, got {type(item).__name__}")
        ids = self._encode(item, "the sequence")
        if len(ids) > self.window:
            raise DataError(f"the sequence has {len(ids)} tokens; this model fills up to {self.window}")
        is_gap = ids == self.tokens.mask
        if mask is not None:
            is_gap = is_gap | places(mask, ids.shape, "mask")
        is_gap = is_gap & ((ids == self.tokens.mask) | ~np.isin(ids, self._special))
        if not is_gap.any():
            raise DataError(f"nothing to fill: mark each gap with {HIDDEN}, or give a mask")
        return GappedItem(values=np.where(is_gap, 0, ids), known=~is_gap, shape=ids.shape, length=len(ids))

    def places(self, which: Any, shape: Shape, name: str) -> Bool[np.ndarray, "n"]:
        """The tokens that a user names."""
        return places(which, shape, name)

    def shown(self, classes: Integer[np.ndarray, "N D"], shape: Shape, length: int | None = None) -> list[str]:
        """Texts; a hidden token is shown as _."""
        return [self.tokens.decode(row[:length].tolist()) for row in classes]
