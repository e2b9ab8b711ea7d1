"""ardm eval."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ardm.cli.common import (
    BatchSize,
    Device,
    Order,
    OutputPath,
    Seed,
    facts_of,
    hardware,
    progress,
    require_calls,
    require_positive,
    warn_about_profile,
)
from ardm.cli.masked import AnyMaskedDataFlags, MaskedDataFlags, evaluate_masked
from ardm.errors import UsageError
from ardm.masked import is_masked
from ardm.names import ScheduleKind, Split
from ardm.runtime.files import check_writable, to_json, write_output

if TYPE_CHECKING:
    from torch import Tensor

    from ardm.likelihood import Estimate
    from ardm.runtime.device import Runtime
    from ardm.tasks.load import AnyLoaded


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Score data: its bits under a model, with a 95% interval.

    By default this is the bound over random orders; with --order, the exact bits in that order; with --calls, the bits
    for that number of calls; with --diffusion-steps, the bound of a D3PM. A baseline is scored by its own method:
    the bound of its diffusion steps, the bits in its order, or their mean over random orders. A text shorter than an
    item is scored with the rest of the item hidden. A coding model has exact bits, from left to right or in --calls.
    """

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """A run's folder, a model file, or a masked language model: hf:NAME or hf:FOLDER."""
    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATA")]
    """The text8 or CIFAR-10 folder, Speech Commands, or a file or folder of your own; for a masked language model a
    file of sequences."""
    order: Order = "random"
    calls: int | None = None
    """Network calls per item; by default one per variable."""
    schedule: ScheduleKind = "planned"
    """How --calls are spread over the steps. A plan suits random and spread-out orders, but not raster; strands ignore
    it, since each call takes a variable of every strand."""
    diffusion_steps: int | None = None
    """Score an order-agnostic ARDM or an absorbing D3PM as an absorbing D3PM with this many steps."""
    split: Split | None = None
    """Split to score. Default: test for a published set or the data the model was trained on, all for other data."""
    items: int | None = 1000
    """Number of items to score, evenly spread over the split (None for all)."""
    passes: int | None = None
    """Passes over the items; more make the bound's interval narrower. Default: as many as the network needs to see at
    least 128 rows, so 1 for 128 items or more. With --calls, a text shorter than an item is scored in one random order
    per pass, by default in one."""
    profile: Path | None = None
    """Write the measured loss profile (bits, S x D) to this .npy or .json file (bound only)."""
    pseudo: bool = False
    """Give the pseudo-log-likelihood of a masked language model, too, which is not a probability."""
    masked: AnyMaskedDataFlags = field(default_factory=MaskedDataFlags)
    batch_size: BatchSize = 64
    seed: Seed = 0
    device: Device = None
    json: bool = False
    """Print JSON, with everything that the number depends on."""
    output: OutputPath = None
    """Write to this file instead of the screen."""

    def run(self) -> None:
        """Score and print."""
        require_positive(items=self.items, passes=self.passes, batch_size=self.batch_size, calls=self.calls)
        require_positive(diffusion_steps=self.diffusion_steps)
        if self.profile is not None and (self.order != "random" or self.calls is not None):
            raise UsageError("--profile is measured by the bound: leave out --order and --calls")
        if self.profile is not None and self.profile.suffix not in (".npy", ".json"):
            raise UsageError(f"a profile file ends in .npy or .json, got {self.profile.name}")
        check_writable(self.profile)
        check_writable(self.output)
        if is_masked(self.model):
            evaluate_masked(self)
            return
        self.masked.check_unused(self.model)
        if self.pseudo:
            raise UsageError("--pseudo is for masked language models (hf:NAME)")
        from ardm.runtime.device import Runtime
        from ardm.runtime.team import joined_team

        runtime = Runtime.choose(self.device)
        with joined_team(runtime.device) as team:
            self._evaluate(replace(runtime, team=team))

    def _evaluate(self, runtime: "Runtime") -> None:
        from ardm.likelihood import Bound
        from ardm.media import medium_of
        from ardm.tasks.load import load_any
        from ardm.tasks.plan import write_profile
        from ardm.tasks.score import items_to_score

        loaded = load_any(self.model, runtime)
        scored, trained = self._scored(loaded), loaded.trained
        x, title = items_to_score(trained, self.data, self.split, self.items)
        if self.profile is not None and x.shape[1] < trained.model.num_variables:
            raise UsageError("--profile is measured on whole items, and this text is shorter: leave it out")
        estimate = self._estimate(scored, x)
        if not runtime.team.is_first:
            return
        if self.profile is not None and isinstance(estimate, Bound):
            write_profile(self.profile, estimate.profile)
        if self.json:
            record = estimate.to_dict() | {"variables_per_item": x.shape[1], "data": title, "seed": self.seed}
            facts = {"model": facts_of(trained), "hardware": hardware(runtime.device)}
            write_output(self.output, to_json(record | facts))
            return
        interval = ""
        if math.isfinite(estimate.half_width):
            interval = f" ± {estimate.half_width:.4f}"
        elif isinstance(estimate, Bound) and math.isfinite(estimate.draws_half_width):
            interval = f" ± {estimate.draws_half_width:.4f} (over random draws)"
        figure = f"{estimate.bits_per_dim:.4f}{interval} {medium_of(trained).unit}"
        write_output(self.output, f"{figure}\n{estimate.estimator}; {title}".encode())

    def _scored(self, loaded: "AnyLoaded") -> "AnyLoaded":
        """The model, as a D3PM if diffusion steps are given; a UsageError for flags that a baseline cannot use."""
        from ardm.tasks.load import LoadedBaseline, LoadedCoding, with_diffusion_steps

        num_steps = self.diffusion_steps
        if num_steps is not None:
            loaded = with_diffusion_steps(loaded, num_steps)
        chosen = (self.calls, self.schedule, self.order, self.profile)
        if isinstance(loaded, LoadedCoding) and self.profile is not None:
            raise UsageError("a coding model has no loss profile: leave out --profile")
        if isinstance(loaded, LoadedBaseline) and chosen != (None, "planned", "random", None):
            what = "a D3PM" if num_steps is not None else "a baseline"
            raise UsageError(
                f"{what} has no schedule, order or profile to choose: leave out --calls, --schedule, --order, --profile"
            )
        return loaded

    def _estimate(self, loaded: "AnyLoaded", x: "Tensor") -> "Estimate":
        from ardm.tasks.load import LoadedBaseline, LoadedCoding
        from ardm.tasks.plan import make_schedule
        from ardm.tasks.score import ScoreOptions, coding_calls, passes_for, score, score_coding

        num_variables, is_estimated = x.shape[1], self.order == "random" and self.calls is None
        passes = self.passes or (passes_for(len(x)) if is_estimated else 1)
        options = ScoreOptions(num_passes=passes, batch_size=self.batch_size, seed=self.seed)
        if isinstance(loaded, LoadedCoding):
            calls = coding_calls(None if self.order == "random" else self.order, self.calls)
            with progress("bits", len(x)) as advance:
                return score_coding(loaded, x, calls, replace(options, on_batch=advance))
        if isinstance(loaded, LoadedBaseline) or is_estimated:
            with progress("bits" if isinstance(loaded, LoadedBaseline) else "bound", passes * len(x)) as advance:
                return score(loaded, x, options=replace(options, on_batch=advance))
        require_calls(self.calls, loaded.ardm.num_stages)
        if self.calls is not None and self.schedule == "planned" and self.order != "strands":
            warn_about_profile(loaded)
        schedule = make_schedule(loaded, self.calls, self.schedule, last_step=num_variables)
        kind = "" if self.order == "strands" else f"{self.schedule} schedule, "
        name = "one variable per call" if self.calls is None else f"{kind}{schedule.num_calls} calls"
        with progress("calls", schedule.num_calls * len(loaded.runtime.team.share_of(len(x)))) as advance:
            return score(loaded, x, schedule, self.order, name, replace(options, on_batch=advance))
