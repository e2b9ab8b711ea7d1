"""The medium of masked language models: sequences of any length in, lines of text out."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ardm.data.alphabet import check_utf8
from ardm.errors import UsageError
from ardm.masked.tokens import HIDDEN
from ardm.media.medium import Medium, Samples
from ardm.media.text.gaps import ranges_in
from ardm.media.text.medium import read_input, write_chains
from ardm.names import Shape
from ardm.runtime.files import check_writable, to_json, write_output


class SequenceMedium(Medium):
    """The sequences of a masked language model."""

    num_states = 5

    def __init__(self, decode: Callable[[Sequence[int]], str], shape: Shape) -> None:
        self.decode, self.own_shape = decode, shape

    def shape(self, size: str | None) -> Shape:
        """A number of tokens, or the model's own."""
        if size is None:
            return self.own_shape
        if not size.isdecimal() or int(size) < 1:
            raise UsageError(f"--size is a number of tokens for a masked language model, got {size}")
        return (int(size),)

    def check_output(self, path: Path | None, count: int, *, as_json: bool) -> None:
        """Raise a UsageError unless the file can be written."""
        check_writable(path)

    def write(self, samples: Samples, path: Path | None, *, as_json: bool) -> None:
        """Write a line for each sequence, or a block of lines for each chain; hidden tokens are shown as _."""
        chains = [[self.decode(state.tolist()) for state in chain] for chain in samples.chains]
        if samples.is_chain:
            write_chains(chains, samples, path, as_json)
            return
        texts = [chain[-1] for chain in chains]
        write_output(
            path,
            to_json({"calls": samples.calls[-1], "samples": texts}) if as_json else "\n".join(texts).encode(),
        )


def read_sequence(source: str, mask: str | None) -> tuple[str, list[tuple[int, int]] | None]:
    """A user's text, and the ranges of tokens to hide if --mask has any; else its gaps are marked with _."""
    content = read_input(source)
    check_utf8(content, "the text")
    text, ranges = content.decode(), None if mask is None else ranges_in(mask)
    return text if mask is None or ranges else text.replace(mask, HIDDEN), ranges
