"""ardm sample and ardm infill."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ardm.commands.common import (
    OrderName,
    OutputPath,
    ScheduleName,
    as_json,
    load,
    make_orders,
    make_schedule,
    progress,
    require_positive,
    write_file,
    write_output,
)
from ardm.errors import UsageError
from ardm.files import check_writable

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ardm.checkpoint import TrainedModel
    from ardm.data.gaps import GappedText
    from ardm.schedule import Schedule

CHAIN_ROWS = 5
"""States shown by --chain, the last one included."""


@dataclass(frozen=True, kw_only=True)
class SamplerFlags:
    """Flags of everything that samples."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """A run's folder or a model file."""
    n: Annotated[int, tyro.conf.arg(name="num", aliases=["-n"])] = 1
    """How many samples."""
    calls: int | None = None
    """Network calls for a sample; by default one for each variable."""
    schedule: ScheduleName = "planned"
    """How --calls are spread over the steps."""
    order: OrderName = "random"
    temperature: float = 1.0
    """Below 1 sharpens the distribution; 1 samples from the model itself."""
    top_p: float = 1.0
    """Keep only the likeliest classes with this much probability; 1 keeps all."""
    chain: bool = False
    """Show the text as it is filled in."""
    batch_size: int = 64
    """Samples drawn together; another size draws other samples."""
    seed: int = 0
    output: OutputPath = None
    """Write to this file instead of the screen; raw bytes, one sample after another, for a model of bytes."""
    device: str | None = None
    json: bool = False
    """JSON instead of text; lists of integers for a model of bytes."""

    def check(self) -> None:
        """A usage error for flags that make no sense."""
        require_positive(num=self.n, calls=self.calls, temperature=self.temperature, top_p=self.top_p)
        require_positive(batch_size=self.batch_size)
        check_writable(self.output)
        if self.top_p > 1:
            raise UsageError(f"--top-p must be at most 1, got {self.top_p}")

    def run_with(self, trained: "TrainedModel", device: "torch.device", text: "GappedText | None") -> None:
        """Draw the samples and show them."""
        import torch

        generator = torch.Generator(device).manual_seed(self.seed)
        first = int(text.known.sum()) if text else 0
        length = text.length if text else trained.model.num_variables
        last = length if trained.model.num_stages == 1 else trained.model.num_variables
        schedule = make_schedule(trained, self.calls, self.schedule, first, last)
        batches = [min(self.batch_size, self.n - done) for done in range(0, self.n, self.batch_size)]
        chains: list[list[np.ndarray]] = []
        with progress("sampling", schedule.num_calls * len(batches)) as advance:
            for count in batches:
                states: list[np.ndarray] = []
                for state in self._states(trained, schedule, count, generator, text):
                    states = [*states, state] if self.chain else [state]
                    advance(1)
                chains += [[state[i, :length] for state in states] for i in range(count)]
        self._show(trained, schedule, chains)

    def _states(
        self,
        trained: "TrainedModel",
        schedule: "Schedule",
        count: int,
        generator: "torch.Generator",
        text: "GappedText | None",
    ) -> "Iterator[np.ndarray]":
        """The values of a batch after each call, with K where a one-stage model has not revealed them."""
        import torch

        from ardm.sample import Given, given_first, sample_chain

        model, given = trained.model, None
        orders = make_orders(self.order, count, model.num_stages, model.num_variables, generator)
        if text is not None:
            values, known = (torch.from_numpy(a).to(orders.device) for a in (text.values, text.known))
            given = Given(values=values.expand(count, -1), mask=known.expand(count, -1))
            in_text = (torch.arange(model.num_variables, device=orders.device) < text.length).expand(count, -1)
            orders = given_first(given_first(orders, in_text), given.mask)  # what lies beyond the text comes last
        chain = sample_chain(
            model, orders, schedule, generator, given=given, temperature=self.temperature, top_p=self.top_p
        )
        for step in chain:
            hidden = step.values.masked_fill(~step.mask, trained.alphabet.num_classes)
            yield (step.values if model.num_stages > 1 else hidden).cpu().numpy()

    def _show(self, trained: "TrainedModel", schedule: "Schedule", chains: "list[list[np.ndarray]]") -> None:
        alphabet = trained.alphabet
        if self.chain:
            rows = [[(row, alphabet.show(chain[row])) for row in chain_rows(len(chain))] for chain in chains]
            if self.json:
                shown_rows = [[text for _, text in chain] for chain in rows]
                write_output(self.output, as_json({"calls": schedule.num_calls, "chains": shown_rows}))
                return
            shown = ["\n".join(f"call {row + 1:>4}  {text}" for row, text in chain) for chain in rows]
            write_output(self.output, "\n\n".join(shown).encode())
            return
        contents = [alphabet.decode(chain[-1]) for chain in chains]
        if self.json:
            samples = [list(c) if alphabet.characters is None else c.decode() for c in contents]
            write_output(self.output, as_json({"calls": schedule.num_calls, "samples": samples}))
        elif alphabet.characters is None and self.output is not None:
            write_file(self.output, b"".join(contents))
        else:
            has_line_breaks = alphabet.characters is None or "\n" in alphabet.characters
            write_output(self.output, (b"\n---\n" if has_line_breaks else b"\n").join(contents))


def chain_rows(num_calls: int) -> list[int]:
    """The calls of a chain to show: the first, the last and some between."""
    return sorted({(num_calls - 1) * i // (CHAIN_ROWS - 1) for i in range(CHAIN_ROWS)})


@dataclass(frozen=True, kw_only=True)
class Sample(SamplerFlags):
    """Draw samples from a model."""

    def run(self) -> None:
        """Sample and print."""
        self.check()
        trained, device, autocast = load(self.model, self.device)
        with autocast():
            self.run_with(trained, device, None)


@dataclass(frozen=True, kw_only=True)
class Infill(SamplerFlags):
    """Fill the gaps of a text, given all the rest of it."""

    input: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="INPUT")]
    """A text file, - for standard input, or the text itself."""
    mask: str = "_"
    """What to fill: a character that marks each gap, or ranges of positions such as 10:20,35:40 (from 0)."""

    def run(self) -> None:
        """Infill and print."""
        self.check()
        from ardm.data.gaps import parse_gaps

        trained, device, autocast = load(self.model, self.device)
        text = parse_gaps(read_input(self.input), self.mask, trained.alphabet, trained.model.num_variables)
        with autocast():
            self.run_with(trained, device, text)


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
