"""ardm export."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ardm.cli.common import CODING_ORDERS, Device, Seed, progress, require_calls, require_positive
from ardm.config import CODING_CALLS
from ardm.errors import UsageError

if TYPE_CHECKING:
    from ardm.checkpoint import TrainedCoding

DEFAULT_CALLS = {"text": 100, "images": 100, "sound": 500}


@dataclass(frozen=True, kw_only=True)
class Export:
    """Make an exact model for `ardm compress` from a run: integers that agree on every machine, and the best order."""

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """A run's folder or a model file."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """File to write the exact model to."""
    data: Path | None = None
    """The data that the run was trained on; by default where the run found it."""
    calls: int | None = None
    """Network calls per item that the exact model makes by default, at most one per variable; 100, or 500 for sound."""
    order: Annotated[str | None, tyro.conf.arg(help=f"{CODING_ORDERS}; by default the one that codes best.")] = None
    items: int = 64
    """Number of training items that calibrate the scales of activations."""
    valid_items: int = 8
    """Number of held-out items on which orders and kinds of schedules are compared."""
    seed: Seed = 0
    device: Device = None

    def run(self) -> None:
        """Round the network, choose order and schedules, write the file, and print what rounding costs."""
        require_positive(items=self.items, valid_items=self.valid_items, calls=self.calls)
        from ardm.checkpoint import save_model
        from ardm.codec.coding_plan import parse_order
        from ardm.export import COST_PASSES, choose_items, export_model, num_rows, rounding_cost
        from ardm.media import load_corpus
        from ardm.tasks.load import LoadedCoding, LoadedModel, load, load_any
        from ardm.tasks.plan import planning_losses, profile_warning

        order = None if self.order is None else parse_order(self.order)
        loaded = load_any(self.run_folder, self.device)
        if isinstance(loaded, LoadedCoding):
            self._export_coding(loaded.trained)
            return
        trained = loaded.trained if isinstance(loaded, LoadedModel) else load(self.run_folder, self.device).trained
        if trained.exact is not None:
            raise UsageError(f"{self.run_folder} is already an exact model")
        calls = self.calls or DEFAULT_CALLS[trained.config.data.medium]
        require_calls(calls, trained.model.num_stages)
        corpus = load_corpus(trained.config.data, self._data_path())
        calibrating, held_out = choose_items(corpus, trained.model.shape, self.items, self.valid_items)
        with progress("trying orders and schedules", num_rows(held_out, calls, order)) as advance:
            how: Any = {"num_calls": calls, "order": order, "seed": self.seed, "on_step": advance}
            exact = export_model(trained, calibrating, held_out, planning_losses(trained), **how)
        save_model(self.output, exact)
        part = exact.exact
        assert part is not None
        schedule = part.coding.schedules[part.coding.default]
        print(f"{self.output}: {self.output.stat().st_size:,} bytes, model {part.identity.hex()}")
        print(f"codes in {schedule.num_calls} calls, {part.coding.order.name} order")
        before, after = rounding_cost(trained, exact, held_out, self.seed)
        cost = f"{before:.4f} to {after:.4f} bits per variable, {100 * (after / before - 1):+.2f}%"
        print(f"rounding: {cost} (bound, {COST_PASSES} passes over {len(held_out)} held-out items)")
        if warning := profile_warning(trained.profile_source):
            print(f"its planned schedules are not the best: {warning}")

    def _export_coding(self, trained: "TrainedCoding") -> None:
        """Write the exact form of a coding model."""
        from ardm.checkpoint import save_model
        from ardm.export import CLIPS, choose_items, coding_cost, export_coding
        from ardm.media import load_corpus

        if self.order not in (None, "strands"):
            raise UsageError("a coding model goes through texts in strands: leave out --order")
        if trained.exact is not None:
            raise UsageError(f"{self.run_folder} is already an exact model")
        calls = self.calls or CODING_CALLS
        corpus = load_corpus(trained.config.data, self._data_path())
        calibrating, held_out = choose_items(corpus, trained.model.shape, self.items, self.valid_items)
        with progress("trying roundings", len(CLIPS) * len(calibrating)) as advance:
            exact = export_coding(trained, calibrating, calls=calls, seed=self.seed, on_step=advance)
        save_model(self.output, exact)
        assert exact.exact is not None
        print(f"{self.output}: {self.output.stat().st_size:,} bytes, model {exact.exact.identity.hex()}")
        print(f"codes in {exact.exact.calls} calls, strands order")
        before, after = coding_cost(trained, exact, held_out, calls)
        cost = f"{before:.4f} to {after:.4f} bits per character, {100 * (after / before - 1):+.2f}%"
        print(f"rounding: {cost} ({len(held_out)} held-out items)")

    def _data_path(self) -> Path:
        from ardm.train.run_folder import read_data_path

        path = self.data or read_data_path(self.run_folder)
        if path is None:
            raise UsageError(f"{self.run_folder} does not say where its data is; give it with --data")
        return path
