"""ardm eval."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ardm.commands.common import (
    OrderName,
    ScheduleName,
    load,
    make_orders,
    make_schedule,
    print_json,
    progress,
    require_positive,
    text_items,
)
from ardm.errors import UsageError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ardm.checkpoint import TrainedModel
    from ardm.likelihood import Estimate


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Bits of data under a model, with a 95% interval.

    By default the bound over random orders. With --order, the exact bits of that order; with --calls, of a
    schedule with as many calls.
    """

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """A run's folder or a model file."""
    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATA")]
    """The text8 folder, or a file or folder of text."""
    order: OrderName = "random"
    calls: int | None = None
    """Network calls for an item; by default one for each variable."""
    schedule: ScheduleName = "planned"
    """How --calls are spread over the steps."""
    split: Literal["train", "valid", "test", "all"] | None = None
    """By default the test split of the data the model was trained on, and all of any other."""
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
    """Print JSON."""

    def run(self) -> None:
        """Score and print."""
        require_positive(items=self.items, passes=self.passes, batch_size=self.batch_size, calls=self.calls)
        import torch

        trained, device, autocast = load(self.model, self.device)
        items, title = text_items(trained, self.data, self.split, self.items)
        x, generator = torch.from_numpy(items).to(device), torch.Generator(device).manual_seed(self.seed)
        with autocast():
            estimate = self._estimate(trained, x, generator)
        if self.json:
            print_json({k: v for k, v in asdict(estimate).items() if k != "profile"} | {"data": title})
            return
        unit = "bits/byte" if trained.alphabet.characters is None else "bits/char"
        print(f"{estimate.bits_per_dim:.4f} ± {estimate.half_width:.4f} {unit}")
        print(f"{estimate.estimator}; {title}")

    def _estimate(self, trained: "TrainedModel", x: "Tensor", generator: "torch.Generator") -> "Estimate":
        from ardm.likelihood import bound, exact_bits, mean_bits, schedule_bits_bound

        model = trained.model
        if self.order == "random" and self.calls is None:
            with progress("bound", self.passes * len(x)) as advance:
                result = bound(
                    model, x, generator, num_passes=self.passes, batch_size=self.batch_size, on_batch=advance
                )
            if self.profile is not None:
                write_profile(self.profile, result.profile.bits.cpu().numpy())
            return result
        if self.profile is not None:
            raise UsageError("--profile is measured by the bound: leave out --order and --calls")
        schedule = make_schedule(trained, self.calls, self.schedule)
        kind = f"{self.schedule} schedule, {schedule.num_calls} calls" if self.calls else "one variable a call"
        with progress("calls", schedule.num_calls * len(x)) as advance:
            if self.order == "random":
                name = f"bound over random orders, {kind}"
                bits = schedule_bits_bound(model, x, schedule, generator, batch_size=self.batch_size, on_batch=advance)
            else:
                name = f"exact, {self.order} order, {kind}"
                orders = make_orders(self.order, len(x), model.num_stages, model.num_variables, generator)
                bits = exact_bits(model, x, orders, schedule, batch_size=self.batch_size, on_batch=advance)
        return mean_bits(bits, model.num_variables, name)


def write_profile(path: Path, bits: "object") -> None:
    """Write a profile as .npy or .json."""
    import json

    import numpy as np

    from ardm.checkpoint import written_whole

    if path.suffix not in {".npy", ".json"}:
        raise UsageError(f"a profile file ends in .npy or .json, got {path.name}")
    values = np.asarray(bits)
    with written_whole(path) as temporary:
        if path.suffix == ".json":
            temporary.write_text(json.dumps(values.tolist()) + "\n")
        else:
            with temporary.open("wb") as file:
                np.save(file, values)
