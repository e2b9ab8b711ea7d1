"""The medium of text: files and gaps in, characters out."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ardm.checkpoint import AnyTrained
from ardm.codec.format.fields import BytesFields, TextFields
from ardm.config import TextData
from ardm.data.corpus import Corpus
from ardm.data.packed.corpora import PackedText
from ardm.data.packed.description import is_packed, open_kind, open_medium
from ardm.data.text import load_own_text, load_text8
from ardm.errors import UsageError
from ardm.media.medium import GappedItem, Medium, Samples
from ardm.media.text.gaps import parse_gaps
from ardm.media.text.layout import BytesLayout, TextLayout
from ardm.names import Shape
from ardm.runtime.files import check_writable, to_json, write_file, write_output


class TextMedium(Medium):
    """The characters or bytes of a text model."""

    data: TextData
    budgets = (250, 100, 50, 20, 10)
    num_states = 5
    orders = ("raster", "reverse", "spaced", "halton", "pseudorandom")

    def __init__(self, trained: AnyTrained) -> None:
        super().__init__(trained)
        assert trained.alphabet is not None
        self.alphabet, characters = trained.alphabet, trained.alphabet.characters
        self.is_bytes, (length,) = characters is None, self.own_shape
        self.unit = "bits/byte" if self.is_bytes else "bits/char"
        self.layout = BytesLayout() if characters is None else TextLayout(characters)
        self.item_fields = BytesFields(length=length) if self.is_bytes else TextFields(length=length)

    @staticmethod
    def load(data: TextData, path: Path) -> Corpus:
        """The text to train on."""
        if is_packed(path):
            return PackedText(pack=open_kind(path, data.kind))
        return load_text8(path) if data.kind == "text8" else load_own_text(path, data.kind)

    def corpus(self, path: Path) -> Corpus:
        """The text8 file if the model is for text8, or any text in the model's alphabet; either may be packed."""
        if is_packed(path):
            pack = open_medium(path, "text")
            if pack.about.alphabet != self.alphabet:
                raise UsageError(f"{path} was packed with a different alphabet from the model's; give the text itself")
            return PackedText(pack=pack)
        if self.data.kind == "text8" and (path.is_dir() or path.name == "text8"):
            return load_text8(path)
        return load_own_text(path, self.data.kind, self.alphabet)

    def shape(self, size: str | None) -> Shape:
        """The model's own shape; a text model has no other."""
        if size is not None:
            raise UsageError("--size is for images and sound; a text model has items of one length")
        return self.data.shape

    def gapped_item(self, source: str, mask: str | None) -> GappedItem:
        """A text file, standard input or the text itself, with gaps marked by a character or given as ranges."""
        return parse_gaps(read_input(source), "_" if mask is None else mask, self.alphabet, self.data.num_variables)

    def check_output(self, path: Path | None, count: int, *, as_json: bool) -> None:
        """Raise a UsageError unless the file can be written; text is printed without one."""
        check_writable(path)

    def write(self, samples: Samples, path: Path | None, *, as_json: bool) -> None:
        """Write lines of text, a block of lines per chain, or raw bytes to a file."""
        if samples.is_chain:
            write_chains(
                [[self.alphabet.show(state) for state in chain] for chain in samples.chains], samples, path, as_json
            )
        else:
            self._write_last([self.alphabet.decode(chain[-1]) for chain in samples.chains], samples, path, as_json)

    def _write_last(self, contents: Sequence[bytes], samples: Samples, path: Path | None, as_json: bool) -> None:
        if as_json:
            shown = [list(c) if self.is_bytes else c.decode() for c in contents]
            write_output(path, to_json({"calls": samples.calls[-1], "samples": shown}))
        elif self.is_bytes and path is not None:
            write_file(path, b"".join(contents))
        else:
            has_line_breaks = self.alphabet.characters is None or "\n" in self.alphabet.characters
            write_output(path, (b"\n---\n" if has_line_breaks else b"\n").join(contents))


def write_chains(chains: Sequence[Sequence[str]], samples: Samples, path: Path | None, as_json: bool) -> None:
    """Write the states of each sample as a block of lines, or all as JSON."""
    if as_json:
        calls = {"calls": samples.calls[-1], "state_calls": list(samples.calls)}
        write_output(path, to_json(calls | {"chains": chains}))
        return
    blocks = [
        "\n".join(f"call {calls:>4}  {text}" for calls, text in zip(samples.calls, chain, strict=True))
        for chain in chains
    ]
    write_output(path, "\n\n".join(blocks).encode())


def read_input(source: str) -> bytes:
    """The content of a file, of standard input, or the argument itself; a final line break is dropped."""
    if source == "-":
        content = sys.stdin.buffer.read()
    elif _names_a_file(source):
        content = Path(source).read_bytes()
    else:
        content = source.encode("utf-8", "surrogateescape")
    return content.removesuffix(b"\n")


def _names_a_file(source: str) -> bool:
    try:
        return Path(source).is_file()
    except (OSError, ValueError):  # too long for a path, or with a null character
        return False
