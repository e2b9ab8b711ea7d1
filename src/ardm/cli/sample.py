"""ardm sample and ardm infill."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ardm.cli.common import (
    Device,
    OutputPath,
    OwnOrder,
    Seed,
    progress,
    require_calls,
    require_positive,
    warn_about_profile,
)
from ardm.cli.masked import AnyMaskedFlags, MaskedFlags, infill_masked, sample_masked
from ardm.errors import UsageError
from ardm.masked import is_masked
from ardm.names import ScheduleKind

if TYPE_CHECKING:
    from ardm.codec.format.options import OrderChoice
    from ardm.library.model import Model
    from ardm.media.medium import GappedItem, Medium
    from ardm.runtime.device import Runtime
    from ardm.tasks.draw import Drawn, DrawOptions
    from ardm.tasks.load import LoadedBaseline, LoadedCoding, LoadedModel


@dataclass(frozen=True, kw_only=True)
class SamplerFlags:
    """Flags of `ardm sample` and `ardm infill`."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """A run's folder, a model file, or a masked language model: hf:NAME or hf:FOLDER."""
    n: Annotated[int, tyro.conf.arg(name="num", aliases=["-n"])] = 1
    """Number of samples."""
    calls: int | None = None
    """Network calls per sample; fewer are faster but less accurate. Default: one per variable, or per step of a D3PM
    (only an absorbing D3PM can take another number)."""
    schedule: ScheduleKind = "planned"
    """How --calls are spread over the steps."""
    order: OwnOrder = None
    temperature: float = 1.0
    """Below 1 sharpens the distribution; 1 samples from the model itself."""
    top_p: float = 1.0
    """Draw only from the likeliest classes that together have this probability; 1 draws from all."""
    chain: bool = False
    """Show each item as it is filled in: lines of text, or a row of images or spectrograms."""
    batch_size: int = 64  # BATCH_SIZE of `ardm.sample`, whose import takes a second
    """Samples drawn together; another size uses different random draws."""
    seed: Seed = 0
    output: OutputPath = None
    """Write to this file: a PNG of one image or a grid of several; a WAV of sound (several: s-1.wav and so on) or a PNG
    of its spectrogram. Text and JSON go to the screen by default."""
    device: Device = None
    no_compile: bool = False
    """Do not compile the network first, even for many calls (CUDA only)."""
    json: bool = False
    """Print JSON, with lists of integers for everything except characters."""
    masked: AnyMaskedFlags = field(default_factory=MaskedFlags)

    def check(self) -> None:
        """Raise a UsageError for flags that make no sense."""
        require_positive(num=self.n, calls=self.calls, temperature=self.temperature, top_p=self.top_p)
        require_positive(batch_size=self.batch_size)
        if self.top_p > 1:
            raise UsageError(f"--top-p must be at most 1, got {self.top_p}")
        if self.json and self.output is not None:
            from ardm.data.image_files import IMAGE_SUFFIXES
            from ardm.data.sound_files import SOUND_SUFFIXES

            if self.output.suffix.lower() in SOUND_SUFFIXES | IMAGE_SUFFIXES:
                advice = "give a name that ends in .json, or leave out --json"
                raise UsageError(f"--json writes JSON: {advice}; got {self.output.name}")

    def check_output(self, medium: "Medium", num_calls: int) -> int:
        """The number of states to show of each item; a UsageError if they cannot be written to the output."""
        from ardm.tasks.draw import states_to_show

        num_states = states_to_show(num_calls, medium.num_states) if self.chain else 1
        medium.check_output(self.output, self.n * num_states, as_json=self.json)
        return num_states

    def run(self) -> None:
        """Sample and write, alone or in several processes that share the batches."""
        self.check()
        if is_masked(self.model):
            self.run_masked()
            return
        self.masked.check_unused(self.model)
        from ardm.runtime.device import Runtime
        from ardm.runtime.team import joined_team

        runtime = Runtime.choose(self.device, compile=not self.no_compile)
        with joined_team(runtime.device) as team:
            self.run_on(replace(runtime, team=team))

    def run_on(self, runtime: "Runtime") -> None:
        """Sample in this process."""
        raise NotImplementedError

    def run_masked(self) -> None:
        """Sample from a masked language model."""
        raise NotImplementedError

    def options(self, num_states: int, order: "str | OrderChoice") -> "DrawOptions":
        """The flags that say how items are drawn, and the order that they are drawn in."""
        from ardm.tasks.draw import DrawOptions

        return DrawOptions(
            num_items=self.n,
            order=order,
            temperature=self.temperature,
            top_p=self.top_p,
            batch_size=self.batch_size,
            seed=self.seed,
            num_states=num_states,
        )

    def draw(self, loaded: "LoadedModel | Model", medium: "Medium", gaps: "GappedItem | None" = None) -> None:
        """Draw items of an ARDM, or fill the gaps of one, and write them."""
        from ardm.codec.format.options import OrderChoice
        from ardm.tasks.draw import draw
        from ardm.tasks.fill import fill
        from ardm.tasks.plan import default_order, make_schedule

        model = loaded.ardm
        require_calls(self.calls, model.num_stages)
        order = self.order or default_order(loaded.trained, for_gaps=gaps is not None)
        ignores_plan = order in ("strands", OrderChoice(name="strands"))
        if self.calls is not None and self.schedule == "planned" and not ignores_plan:
            warn_about_profile(loaded)
        steps = () if gaps is None else gaps.steps(model.num_stages)
        schedule = make_schedule(loaded, self.calls, self.schedule, *steps)
        verb = partial(draw, loaded, schedule) if gaps is None else partial(fill, loaded, gaps, schedule)
        self.write(verb, schedule.num_calls, medium, loaded.runtime, order, gaps)

    def write(
        self,
        draw: "Callable[[DrawOptions], Drawn]",
        num_calls: int,
        medium: "Medium",
        runtime: "Runtime",
        order: "str | OrderChoice" = "random",
        gaps: "GappedItem | None" = None,
    ) -> None:
        """Draw this process's batches, showing progress, and write all items from the first process."""
        from ardm.media.medium import Samples

        options = self.options(self.check_output(medium, num_calls), order)
        with progress("sampling", num_calls * len(runtime.team.share_of(len(options.sizes())))) as advance:
            drawn = draw(replace(options, on_call=partial(advance, 1)))
        if runtime.team.is_first:
            length = None if gaps is None else gaps.length
            chains = [[state[i, :length] for state in drawn.states] for i in range(self.n)]
            samples = Samples(chains=chains, shape=drawn.shape, calls=drawn.calls, is_chain=self.chain)
            medium.write(samples, self.output, as_json=self.json)


@dataclass(frozen=True, kw_only=True)
class Sample(SamplerFlags):
    """Draw samples from a model."""

    size: str | None = None
    """WIDTHxHEIGHT of images, such as 48x32, seconds of sound, or the tokens of a masked language model's sequence; by
    default the size the model was trained on."""

    def run_on(self, runtime: "Runtime") -> None:
        """Sample and write."""
        from ardm.media import medium_of
        from ardm.tasks.load import LoadedBaseline, LoadedCoding, load_any

        loaded = load_any(self.model, runtime)
        medium = medium_of(loaded.trained)
        if isinstance(loaded, LoadedBaseline):
            self._draw_baseline(loaded, medium)
        elif isinstance(loaded, LoadedCoding):
            self._draw_coding(loaded, medium)
        else:
            self.draw(loaded.for_shape(medium.shape(self.size)), medium)

    def run_masked(self) -> None:
        """Sample from a masked language model and write."""
        sample_masked(self)

    def _draw_coding(self, loaded: "LoadedCoding", medium: "Medium") -> None:
        from ardm.tasks.draw import draw_coding
        from ardm.tasks.score import coding_calls

        calls, length = coding_calls(self.order, self.calls), loaded.trained.model.num_variables
        num_calls = length if calls is None else min(calls, length)
        self.write(partial(draw_coding, loaded, calls), num_calls, medium, loaded.runtime)

    def _draw_baseline(self, loaded: "LoadedBaseline", medium: "Medium") -> None:
        from ardm.tasks.draw import draw
        from ardm.tasks.load import with_diffusion_steps

        if self.order not in (None, "random") or self.size is not None or self.top_p < 1 or self.temperature != 1:
            raise UsageError(
                "a baseline samples as it was trained: leave out --order, --size, --temperature and --top-p"
            )
        if self.calls is not None:
            loaded = with_diffusion_steps(loaded, self.calls)
        self.write(partial(draw, loaded, None), loaded.trained.model.num_calls, medium, loaded.runtime)


@dataclass(frozen=True, kw_only=True)
class Infill(SamplerFlags):
    """Fill the gaps of a text, an image or a sound, given the rest of it."""

    input: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="INPUT")]
    """A text file, - for standard input, or the text itself; an image or sound file of any size."""
    mask: str | None = None
    """Places to fill. Text: a character that marks each gap (by default _), or ranges of positions such as 10:20,35:40
    (from 0). Images: a rectangle LEFT,TOP,RIGHT,BOTTOM in pixels, or a mask image (white is filled); by default the
    image's transparent pixels. Sound: ranges of time in seconds such as 0.25:0.5."""
    particles: int = 1
    """For models of several stages, such as that of images: candidates for each sample, which are weighed after each
    stage by how well the known values fit them. 1 is fast and ignores the weights; 16 follow the rest more closely and
    take some 20 to 35 times as long. --batch-size counts particles, which share batches."""

    def check(self) -> None:
        """Raise a UsageError for flags that make no sense."""
        super().check()
        require_positive(particles=self.particles)
        if self.order == "strands":
            raise UsageError("strands order whole items only; choose another --order to fill gaps")

    def run_on(self, runtime: "Runtime") -> None:
        """Infill and write."""
        from ardm.media import medium_of
        from ardm.tasks.load import load

        loaded = load(self.model, runtime)
        medium = medium_of(loaded.trained)
        inputs = [Path(source).absolute() for source in (self.input, self.mask) if source is not None]
        if self.output is not None and self.output.absolute() in inputs:
            raise UsageError(f"{self.output} is the input or the mask itself; write to another file")
        gaps = medium.gapped_item(self.input, self.mask)
        flags = self
        if self.particles > 1 and loaded.ardm.num_stages == 1:
            flags = replace(self, particles=1)
            if runtime.team.is_first:
                print("this model has one stage, so that its samples are exact without --particles", file=sys.stderr)
        flags.draw(loaded.for_shape(gaps.shape), medium, gaps)

    def run_masked(self) -> None:
        """Fill the gaps of a sequence by a masked language model and write."""
        infill_masked(self)

    def options(self, num_states: int, order: "str | OrderChoice") -> "DrawOptions":
        """The flags that say how gaps are filled, and the order that they are filled in."""
        return replace(super().options(num_states, order), particles=self.particles)
