"""ardm sample and ardm infill."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ardm.cli.common import (
    OrderName,
    OutputPath,
    ScheduleName,
    load,
    load_any,
    make_orders_and_schedule,
    make_schedule,
    progress,
    require_positive,
    with_diffusion_steps,
)
from ardm.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from ardm.checkpoint import TrainedBaseline, TrainedModel
    from ardm.media.medium import GappedItem, Medium
    from ardm.model import ARDM
    from ardm.orders import Shape
    from ardm.runtime.team import Team
    from ardm.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class SamplerFlags:
    """Flags of everything that samples."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """A run's folder or a model file."""
    n: Annotated[int, tyro.conf.arg(name="num", aliases=["-n"])] = 1
    """How many samples."""
    calls: int | None = None
    """Network calls for a sample; by default one for each variable (of a D3PM: one for each step; only one with the
    absorbing process may have others)."""
    schedule: ScheduleName = "planned"
    """How --calls are spread over the steps."""
    order: OrderName = "random"
    temperature: float = 1.0
    """Below 1 sharpens the distribution; 1 samples from the model itself."""
    top_p: float = 1.0
    """Keep only the likeliest classes with this much probability; 1 keeps all."""
    chain: bool = False
    """Show items as they are filled in: lines of text, a row of images or spectrograms for each."""
    batch_size: int = 64  # BATCH_SIZE of `ardm.sample`, whose import takes a second
    """Samples drawn together; another size draws other samples."""
    seed: int = 0
    output: OutputPath = None
    """Write to this file: a PNG for images, with a grid for several; a WAV for sound (for several s-1.wav and so on),
    or a PNG for its picture. Text and JSON go to the screen without one."""
    device: str | None = None
    no_compile: bool = False
    """Run the network as it is, even for so many calls that compiling it first takes less time (CUDA only)."""
    json: bool = False
    """JSON instead; lists of integers for anything but characters."""

    def check(self) -> None:
        """A usage error for flags that make no sense."""
        require_positive(num=self.n, calls=self.calls, temperature=self.temperature, top_p=self.top_p)
        require_positive(batch_size=self.batch_size)
        if self.top_p > 1:
            raise UsageError(f"--top-p must be at most 1, got {self.top_p}")
        if self.json:
            check_json_path(self.output)

    def num_shown(self, medium: "Medium") -> int:
        """How many items are written, at most."""
        return self.n * (medium.num_states if self.chain else 1)

    def run(self) -> None:
        """Sample and show, alone or in several processes that share the batches out."""
        self.check()
        from ardm.runtime.device import Runtime
        from ardm.runtime.team import joined_team

        with joined_team(Runtime.choose(self.device).device) as team:
            self.run_in(team)

    def run_in(self, team: "Team") -> None:
        """This process's part of it."""
        raise NotImplementedError

    def draw(self, trained: "TrainedModel", gaps: "GappedItem | None", team: "Team") -> None:
        """Draw the samples and show them."""
        from ardm.media import medium_of
        from ardm.media.medium import steps_to_fill
        from ardm.nn.recorded import for_many_calls
        from ardm.parametrizations import LogisticMixtureParametrization

        model, medium = trained.model, medium_of(trained)
        if self.top_p < 1 and isinstance(model.parametrization, LogisticMixtureParametrization):
            raise UsageError("top-p needs a list of classes, which mixtures of logistics have not; use --temperature")
        steps = steps_to_fill(gaps, model.num_variables, model.num_stages)
        schedule = make_schedule(trained, self.calls, self.schedule, *steps)
        length = gaps.length if gaps else model.num_variables
        how: Any = {"num_items": self.n, "batch_size": self.batch_size, "compiles": not self.no_compile}
        with for_many_calls(model, num_calls=schedule.num_calls, **how) as called:
            self.show(
                medium,
                model.shape,
                lambda count, generator: self._states(called, schedule, count, generator, gaps),
                team,
                num_calls=schedule.num_calls,
                length=length,
            )

    def show(
        self,
        medium: "Medium",
        shape: "Shape",
        states_of: "Callable[[int, torch.Generator], Iterator[Callable[[], Tensor]]]",
        team: "Team",
        *,
        num_calls: int,
        length: int,
    ) -> None:
        """Draw batches, of which `states_of` gives the values after each call, and write them up to a length.

        Values are functions, called for the states that are shown: to look at a state is to wait for the device.
        """
        from ardm.media.medium import Samples
        from ardm.sample import batch_sizes

        shown = spread(num_calls, medium.num_states) if self.chain else [num_calls - 1]
        sizes = batch_sizes(self.n, self.batch_size)
        batches = team.share_of(len(sizes))
        drawn: list[tuple[int, list[np.ndarray]]] = []
        with progress("sampling", num_calls * len(batches)) as advance:
            for batch in batches:
                states: list[np.ndarray] = []
                for call, state in enumerate(states_of(sizes[batch], self._generator(batch))):
                    states += [state()[:, :length].cpu().numpy()] if call in shown else []
                    advance(1)
                drawn.append((batch, states))
        by_batch = zip(sizes, team.all_gather_in_order(drawn), strict=True)
        chains = [[state[i] for state in states] for size, states in by_batch for i in range(size)]
        samples = Samples(chains=chains, shape=shape, calls=[call + 1 for call in shown], is_chain=self.chain)
        if team.is_first:
            medium.write(samples, self.output, as_json=self.json)

    def _generator(self, batch: int) -> "torch.Generator":
        from ardm.runtime.device import Runtime
        from ardm.sample import batch_generator

        return batch_generator(self.seed, batch, Runtime.choose(self.device).device)

    def _states(
        self,
        model: "ARDM",
        schedule: "Schedule",
        count: int,
        generator: "torch.Generator",
        gaps: "GappedItem | None",
    ) -> "Iterator[Callable[[], Tensor]]":
        """The values of a batch after each call, as they are shown."""
        from ardm.sample import sample_chain

        orders, schedule = make_orders_and_schedule(self.order, schedule, count, model.shape, generator)
        given = None if gaps is None else gaps.given(count, orders.device)
        orders = orders if gaps is None else gaps.sorted(orders)
        chain = sample_chain(
            model, orders, schedule, generator, given=given, temperature=self.temperature, top_p=self.top_p
        )
        for step in chain:
            yield partial(step.shown, model.depth)


def check_json_path(path: Path | None) -> None:
    """A usage error for a name that promises sound or an image where JSON will be written."""
    from ardm.data.image_files import IMAGE_SUFFIXES
    from ardm.data.sound_files import AUDIO_SUFFIXES

    if path is not None and path.suffix.lower() in AUDIO_SUFFIXES | IMAGE_SUFFIXES:
        raise UsageError(f"--json writes JSON: give a name that ends in .json, or leave out --json; got {path.name}")


def spread(num_calls: int, num_states: int) -> list[int]:
    """The calls of a chain to show: the first, the last and some between."""
    return sorted({(num_calls - 1) * i // (num_states - 1) for i in range(num_states)})


@dataclass(frozen=True, kw_only=True)
class Sample(SamplerFlags):
    """Draw samples from a model."""

    size: str | None = None
    """WIDTHxHEIGHT of images, such as 48x32, or seconds of sound; by default the size the model was trained on."""

    def run_in(self, team: "Team") -> None:
        """Sample and show."""
        trained, _, autocast = load_any(self.model, self.device)
        from ardm.checkpoint import TrainedBaseline
        from ardm.media import medium_of

        medium = medium_of(trained)
        medium.check_output(self.output, self.num_shown(medium), as_json=self.json)
        with autocast():
            if isinstance(trained, TrainedBaseline):
                self._draw_baseline(trained, team)
            else:
                self.draw(trained.for_shape(medium.shape(self.size)), None, team)

    def _draw_baseline(self, trained: "TrainedBaseline", team: "Team") -> None:
        """Draw samples of a baseline and show them."""
        from ardm.baselines.methods import sample_chain
        from ardm.media import medium_of

        if self.order != "random" or self.size is not None or self.top_p < 1 or self.temperature != 1:
            raise UsageError(
                "a baseline samples as it was trained: leave out --order, --size, --temperature and --top-p"
            )
        model = trained.model if self.calls is None else with_diffusion_steps(trained.model, self.calls)
        self.show(
            medium_of(trained),
            model.shape,
            lambda count, generator: (state.cpu for state in sample_chain(model, count, generator)),
            team,
            num_calls=model.num_calls,
            length=model.num_variables,
        )


@dataclass(frozen=True, kw_only=True)
class Infill(SamplerFlags):
    """Fill the gaps of a text, an image or a sound, given all the rest of it."""

    input: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="INPUT")]
    """A text file, - for standard input, or the text itself; an image or sound file of any size."""
    mask: str | None = None
    """What to fill. Text: a character that marks each gap (by default _), or ranges of positions such as 10:20,35:40
    (from 0). Images: a rectangle LEFT,TOP,RIGHT,BOTTOM in pixels, or a mask image, white where to fill; by default the
    image's transparent pixels. Sound: ranges of time in seconds such as 0.25:0.5."""

    def check(self) -> None:
        """A usage error for flags that make no sense."""
        super().check()
        if self.order == "strands":
            raise UsageError("strands are an order of whole items; gaps are filled in any other --order")

    def run_in(self, team: "Team") -> None:
        """Infill and show."""
        trained, _, autocast = load(self.model, self.device)
        from ardm.media import medium_of

        medium = medium_of(trained)
        medium.check_output(self.output, self.num_shown(medium), as_json=self.json)
        given = [Path(source).absolute() for source in (self.input, self.mask) if source is not None]
        if self.output is not None and self.output.absolute() in given:
            raise UsageError(f"{self.output} is the input or the mask itself; write to another file")
        gaps = medium.gapped_item(self.input, self.mask)
        with autocast():
            self.draw(trained.for_shape(gaps.shape), gaps, team)
