"""ardm sample and ardm infill."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ardm.commands.common import (
    OrderName,
    OutputPath,
    ScheduleName,
    load,
    make_orders,
    make_schedule,
    print_json,
    progress,
    require_positive,
    write_output,
)
from ardm.errors import DataError, UsageError

if TYPE_CHECKING:
    import numpy as np

    from ardm.checkpoint import TrainedModel

CHAIN_ROWS = 5
"""States shown by --chain, the last one included."""


@dataclass(frozen=True, kw_only=True)
class SamplerFlags:
    """Flags of everything that samples."""

    n: Annotated[int, tyro.conf.arg(name="num", aliases=["-n"])] = 1
    """How many samples."""
    calls: int | None = None
    """Network calls for a sample; by default one for each variable."""
    schedule: ScheduleName = "planned"
    order: OrderName = "random"
    temperature: float = 1.0
    """Below 1 sharpens the distribution; 1 samples from the model itself."""
    top_p: float = 1.0
    """Keep only the likeliest classes with this much probability; 1 keeps all."""
    chain: bool = False
    """Show the text as it is filled in."""
    seed: int = 0
    output: OutputPath = None
    """Write to this file instead of the screen."""
    device: str | None = None
    json: bool = False
    """Print JSON."""

    def draw(self, trained: "TrainedModel", device: Any, known: Any = None) -> "list[list[np.ndarray]]":
        """The states after each call, for each sample; `known` holds classes, -1 where unknown, -2 where left out."""
        import torch

        from ardm.sample import Given, given_first, sample_chain

        require_positive(num=self.n, calls=self.calls, temperature=self.temperature, top_p=self.top_p)
        if self.top_p > 1:
            raise UsageError(f"--top-p must be at most 1, got {self.top_p}")
        model, generator = trained.model, torch.Generator(device).manual_seed(self.seed)
        orders = make_orders(self.order, self.n, model.num_stages, model.num_variables, generator)
        given, first, last = None, 0, model.num_variables
        if known is not None:
            values = torch.from_numpy(known).to(device).expand(self.n, -1)
            given = Given(values=values, mask=values >= 0)
            first, last = int((known >= 0).sum()), int((known > LEFT_OUT).sum())
            orders = given_first(_left_out_last(orders, values), given.mask)
        schedule = make_schedule(trained, self.calls, self.schedule, first, last)
        steps = sample_chain(
            model, orders, schedule, generator, given=given, temperature=self.temperature, top_p=self.top_p
        )
        states = []
        with progress("sampling", schedule.num_calls) as advance:
            for step in steps:
                hidden = step.values.masked_fill(~step.mask, trained.alphabet.num_classes)
                states.append((step.values if model.num_stages > 1 else hidden).cpu().numpy())
                advance(1)
        return [[state[i] for state in states] for i in range(self.n)]

    def show(self, trained: "TrainedModel", chains: "list[list[np.ndarray]]") -> None:
        """Print or write the samples, with their chains if asked for."""
        alphabet = trained.alphabet
        if self.json:
            samples = [alphabet.decode(chain[-1]).decode("utf-8", "replace") for chain in chains]
            print_json({"samples": samples, "calls": len(chains[0])})
        elif self.chain:
            parts = []
            for chain in chains:
                rows = [(len(chain) - 1) * i // (CHAIN_ROWS - 1) for i in range(CHAIN_ROWS)]
                lines = [f"call {row + 1:>4}  {alphabet.show(chain[row])}" for row in sorted(set(rows))]
                parts.append("\n".join(lines))
            write_output(self.output, "\n\n".join(parts))
        else:
            texts = [alphabet.decode(chain[-1]).decode("utf-8", "replace") for chain in chains]
            write_output(self.output, "\n".join(texts))


LEFT_OUT = -2
UNKNOWN = -1


def _left_out_last(orders: Any, values: Any) -> Any:
    """Orders with the variables that are left out (beyond the end of a short text) moved to the end."""
    left_out = (values == LEFT_OUT)[:, None].expand_as(orders).gather(-1, orders)
    return orders.gather(-1, left_out.long().argsort(dim=-1, stable=True))


@dataclass(frozen=True, kw_only=True)
class Sample(SamplerFlags):
    """Draw samples from a model."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """A run's folder or a model file."""

    def run(self) -> None:
        """Sample and print."""
        trained, device, autocast = load(self.model, self.device)
        with autocast():
            self.show(trained, self.draw(trained, device))


@dataclass(frozen=True, kw_only=True)
class Infill(SamplerFlags):
    """Fill the gaps of a text, given all the rest of it."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """A run's folder or a model file."""
    input: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="INPUT")]
    """A text file, - for standard input, or the text itself."""
    mask: str = "_"
    """What to fill: a character that marks each gap, or ranges of positions such as 10:20,35:40 (from 0)."""

    def run(self) -> None:
        """Infill and print."""
        trained, device, autocast = load(self.model, self.device)
        known = known_classes(trained, read_input(self.input), self.mask)
        length = int((known > LEFT_OUT).sum())
        with autocast():
            chains = self.draw(trained, device, known)
        self.show(trained, [[state[:length] for state in chain] for chain in chains])


def read_input(source: str) -> str:
    """The text of a file, of standard input, or the argument itself; a final line break is dropped."""
    try:
        if source == "-":
            text = sys.stdin.read()
        else:
            text = Path(source).read_text() if len(source) < 1024 and Path(source).is_file() else source
    except UnicodeDecodeError:
        raise DataError(f"{source} is not UTF-8 text") from None
    return text.removesuffix("\n")


def known_classes(trained: "TrainedModel", text: str, mask: str) -> "np.ndarray":
    """Classes of a text for an item of D variables: -1 in the gaps, -2 beyond the text's end."""
    import numpy as np

    num_variables = trained.config.data.num_variables
    symbols = list(text.encode("utf-8")) if trained.alphabet.characters is None else list(text)
    if not 0 < len(symbols) <= num_variables:
        raise DataError(f"the text has {len(symbols)} characters; this model takes 1 to {num_variables}")
    gaps = gap_positions(symbols, mask)
    if not gaps.any():
        raise UsageError(f"nothing to fill: the text has no {mask!r}; mark gaps with it or give --mask ranges")
    known = np.full(num_variables, LEFT_OUT)
    known[: len(symbols)][gaps] = UNKNOWN
    kept = np.flatnonzero(~gaps)
    if len(kept):
        content = bytes(symbols[i] for i in kept) if isinstance(symbols[0], int) else "".join(symbols[i] for i in kept)
        content = content if isinstance(content, bytes) else content.encode()
        known[kept] = trained.alphabet.encode(content, "the text")
    return known


def gap_positions(symbols: list[Any], mask: str) -> "np.ndarray":
    """True at each position to fill."""
    import numpy as np

    gaps = np.zeros(len(symbols), bool)
    if re.fullmatch(r"\d+:\d+(,\d+:\d+)*", mask):
        for part in mask.split(","):
            start, stop = map(int, part.split(":"))
            if not 0 <= start < stop <= len(symbols):
                raise UsageError(f"--mask range {part} does not lie within the text's {len(symbols)} characters")
            gaps[start:stop] = True
        return gaps
    if len(mask) != 1:
        raise UsageError(f"--mask must be one character or ranges such as 10:20,35:40, got {mask!r}")
    marker = ord(mask) if isinstance(symbols[0], int) else mask
    return np.array([symbol == marker for symbol in symbols])
