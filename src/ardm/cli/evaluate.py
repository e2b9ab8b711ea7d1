"""ardm eval."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import tyro

from ardm.cli.common import (
    OrderName,
    OutputPath,
    ScheduleName,
    facts_of,
    hardware,
    items_to_score,
    load_any,
    make_orders_and_schedule,
    make_schedule,
    progress,
    require_positive,
    with_diffusion_steps,
)
from ardm.errors import UsageError
from ardm.runtime.files import check_writable, written_whole
from ardm.runtime.output import to_json, write_output

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from ardm.baselines.methods import Baseline
    from ardm.checkpoint import AnyTrained, TrainedModel
    from ardm.likelihood import Estimate
    from ardm.runtime.team import Team


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Bits of data under a model, with a 95% interval.

    By default the bound over random orders. With --order, the exact bits of that order; with --calls, of a
    schedule with as many calls; with --diffusion-steps, the bound of a D3PM. A baseline has its own bits: the bound of
    its steps of diffusion, or those of its order, or their mean over random orders.
    """

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """A run's folder or a model file."""
    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATA")]
    """The text8 or CIFAR-10 folder, Speech Commands, or a file or folder of your own."""
    order: OrderName = "random"
    calls: int | None = None
    """Network calls for an item; by default one for each variable."""
    schedule: ScheduleName = "planned"
    """How --calls are spread over the steps. A plan suits random and spread-out orders; raster groups cost more, and
    strands have no use for one: each call takes a variable of every strand."""
    diffusion_steps: int | None = None
    """Score an order-agnostic ARDM as a D3PM with the absorbing process and this many steps; such a D3PM with other
    steps than it was trained with."""
    split: Literal["train", "valid", "test", "all"] | None = None
    """By default the test split of a published set or of the data the model was trained on, and all of any other."""
    items: int | None = 1000
    """Items to score, spread over the split (None for all)."""
    passes: int = 1
    """Passes of the bound."""
    profile: Path | None = None
    """Write the measured loss profile (bits, S x D) to this .npy or .json file (bound only)."""
    batch_size: int = 64
    seed: int = 0
    device: str | None = None
    json: bool = False
    """JSON, with what the figure depends on."""
    output: OutputPath = None
    """Write to this file instead of the screen."""

    def run(self) -> None:
        """Score and print."""
        require_positive(items=self.items, passes=self.passes, batch_size=self.batch_size, calls=self.calls)
        require_positive(diffusion_steps=self.diffusion_steps)
        self._check_profile()
        check_writable(self.output)
        from ardm.runtime.device import Runtime
        from ardm.runtime.team import joined_team

        with joined_team(Runtime.choose(self.device).device) as team:
            self._evaluate(team)

    def _evaluate(self, team: "Team") -> None:
        import torch

        from ardm.media import medium_of

        trained, device, autocast = load_any(self.model, self.device)
        baseline = self._baseline(trained)
        items, title = items_to_score(trained, self.data, self.split, self.items)
        x, generator = torch.from_numpy(items).to(device), torch.Generator(device).manual_seed(self.seed)
        with autocast():
            if baseline is None:
                estimate = self._estimate(cast("TrainedModel", trained), x, generator, team)
            else:
                estimate = self._baseline_estimate(baseline, x, generator, team)
        if not team.is_first:
            return
        if self.json:
            record = estimate.to_dict() | {"data": title, "seed": self.seed}
            write_output(self.output, to_json(record | {"model": facts_of(trained), "hardware": hardware(device)}))
            return
        interval = f" ± {estimate.half_width:.4f}" if math.isfinite(estimate.half_width) else ""
        figure = f"{estimate.bits_per_dim:.4f}{interval} {medium_of(trained).unit}"
        write_output(self.output, f"{figure}\n{estimate.estimator}; {title}".encode())

    def _baseline(self, trained: "AnyTrained") -> "Baseline | None":
        """The baseline to score, which an ARDM may be taken for; None to score an ARDM."""
        from ardm.checkpoint import TrainedModel

        num_steps = self.diffusion_steps
        baseline = None if isinstance(trained, TrainedModel) else trained.model
        if num_steps is not None:
            baseline = with_diffusion_steps(trained.model, num_steps)
        chosen = (self.calls, self.schedule, self.order, self.profile)
        if baseline is not None and chosen != (None, "planned", "random", None):
            what = "a D3PM" if num_steps is not None else "a baseline"
            raise UsageError(
                f"{what} has no schedule, order or profile to choose: leave out --calls, --schedule, --order, --profile"
            )
        return baseline

    def _baseline_estimate(
        self, model: "Baseline", x: "Tensor", generator: "torch.Generator", team: "Team"
    ) -> "Estimate":
        from ardm.baselines.methods import score

        with progress("bits", self.passes * len(x)) as advance:
            how: Any = {"num_passes": self.passes, "batch_size": self.batch_size, "on_batch": advance}
            return score(model, x, generator, **how, team=team)

    def _check_profile(self) -> None:
        if self.profile is None:
            return
        if self.order != "random" or self.calls is not None:
            raise UsageError("--profile is measured by the bound: leave out --order and --calls")
        if self.profile.suffix not in PROFILE_SUFFIXES:
            raise UsageError(f"a profile file ends in .npy or .json, got {self.profile.name}")
        check_writable(self.profile)

    def _estimate(self, trained: "TrainedModel", x: "Tensor", generator: "torch.Generator", team: "Team") -> "Estimate":
        from ardm.likelihood import bound, exact_bits, mean_bits, schedule_bits_bound

        model = trained.model
        if self.order == "random" and self.calls is None:
            with progress("bound", self.passes * len(x)) as advance:
                how: Any = {"batch_size": self.batch_size, "on_batch": advance, "team": team}
                result = bound(model, x, generator, num_passes=self.passes, **how)
            if self.profile is not None and team.is_first:
                write_profile(self.profile, result.profile.observed_bits().cpu().numpy())
            return result
        schedule = make_schedule(trained, self.calls, self.schedule)
        kind = self._kind(schedule.num_calls)
        with progress("calls", schedule.num_calls * len(team.share_of(len(x)))) as advance:
            how = {"batch_size": self.batch_size, "on_batch": advance, "team": team}
            if self.order == "random":
                name = f"bound over random orders, {kind}"
                bits = schedule_bits_bound(model, x, schedule, generator, **how)
            else:
                name = f"exact, {self.order} order, {kind}"
                orders, schedule = make_orders_and_schedule(self.order, schedule, len(x), model.shape, generator)
                bits = exact_bits(model, x, orders, schedule, **how)
        return mean_bits(bits, model.num_variables, name, is_exact=self.order != "random")

    def _kind(self, num_calls: int) -> str:
        """How calls are spread, in words."""
        if self.calls is None:
            return "one variable a call"
        how = "" if self.order == "strands" else f"{self.schedule} schedule, "
        return f"{how}{num_calls} calls"


PROFILE_SUFFIXES = (".npy", ".json")


def write_profile(path: Path, bits: "np.ndarray") -> None:
    """Write a profile as .npy (NaN where there is no observation) or .json (null)."""
    import numpy as np

    if path.suffix == ".json":
        write_output(path, to_json([[None if np.isnan(b) else b for b in stage] for stage in bits.tolist()]))
        return
    with written_whole(path) as temporary, temporary.open("wb") as file:
        np.save(file, bits)
