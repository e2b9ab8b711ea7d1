"""ardm train masked: fine-tune a masked language model at all shares of hidden tokens."""

import math
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ardm.cli.common import Device, Seed, progress, require_positive
from ardm.cli.masked import AnyMaskedDataFlags, MaskedDataFlags, check_tokens
from ardm.errors import UsageError
from ardm.masked import FACTS_FILE, PREFIX, is_masked
from ardm.runtime.files import check_writable_folder

if TYPE_CHECKING:
    from ardm.library.masked import MaskedModel
    from ardm.library.scores import Score

PRESET = "masked"
STATE_FILE = "fit.safetensors"
MAX_HELD_OUT = 500
"""Most sequences held out where no file of them is given, and most that are scored before and after."""
MAX_COMPARED = 128
"""Most held-out sequences by which the best weights are chosen."""
SHARES = (0.9, 0.75, 0.5, 0.25, 0.1)
"""Shares of hidden tokens at which the losses before and after are printed."""


@dataclass(frozen=True, kw_only=True)
class TrainMasked:
    """Fine-tune a masked language model (--init hf:NAME) on sequences, at all shares of hidden tokens (Alg. 2).

    Masked models are mostly trained with 15% of their tokens hidden, and poor where more are. The folder that is
    written is read by ardm and by transformers; profile-before.json and profile-after.json are the losses of each step,
    on sequences that were held out.
    """

    preset: tyro.conf.Positional[Annotated[Literal["masked"], tyro.conf.arg(metavar="PRESET")]]
    """masked"""
    init: Path
    """The model to start with: hf:NAME, hf:FOLDER, or a folder that this command wrote."""
    data: Path
    """A file of sequences to train on."""
    out: Path
    """Folder of the fine-tuned model: a new one, or with --resume that of an earlier run."""
    valid: Path | None = None
    """A file of held-out sequences; by default every tenth of the data is held out, up to 500."""
    resume: bool = False
    """Continue a training that was stopped, given the same flags again."""
    steps: int | None = None
    """Training steps."""
    minutes: float | None = None
    """Stop training after this many minutes; measuring takes a little longer."""
    batch_size: int = 32
    learning_rate: float = 2e-4
    weight_decay: float = 0.01
    seed: Seed = 0
    device: Device = None
    masked: AnyMaskedDataFlags = field(default_factory=MaskedDataFlags)

    def run(self) -> None:
        """Train, showing progress, and write the model."""
        require_positive(steps=self.steps, minutes=self.minutes, batch_size=self.batch_size)
        require_positive(learning_rate=self.learning_rate)
        if self.steps is None and self.minutes is None:
            raise UsageError("say how long to train: --steps or --minutes")
        if not is_masked(self.init):
            raise UsageError(f"--init is a masked language model (hf:NAME or hf:FOLDER), got {self.init}")
        self._check_out()
        files = [(path, self.masked.read(path)) for path in (self.data, self.valid) if path is not None]
        model = self.masked.load(self.init, self.device)
        for path, sequences in files:
            check_tokens(model, path, sequences)
        self._train(model, *self._parts([sequences.texts for _, sequences in files]))

    def _check_out(self) -> None:
        check_writable_folder(self.out)
        names = {path.name for path in self.out.iterdir()} if self.out.is_dir() else set()
        if names and not self.resume:
            raise UsageError(f"--out {self.out} holds files; choose a new folder, or continue with --resume")
        if names and STATE_FILE not in names:
            raise UsageError(f"--out {self.out} holds no training to continue")

    def _parts(self, texts: list[list[str]]) -> tuple[list[str], list[str]]:
        """Sequences to train on, and those held out, of the files' texts."""
        train, *valid = texts
        if valid:
            return train, valid[0]
        every = max(10, -(-len(train) // MAX_HELD_OUT))
        if len(train) < every:
            raise UsageError(f"{len(train)} sequences are too few to hold some out; give --valid")
        return [text for number, text in enumerate(train) if number % every], train[::every]

    def _train(self, model: "MaskedModel", train: list[str], valid: list[str]) -> None:
        from ardm.library.files import save
        from ardm.library.fit import fit
        from ardm.tasks.plan import write_profile

        scored = valid[:MAX_HELD_OUT]
        print(f"{len(train)} sequences to train on, {len(valid)} held out", file=sys.stderr)
        before = self._measured(model, scored)
        how: Any = {"steps": self.steps, "minutes": self.minutes, "batch_size": self.batch_size, "seed": self.seed}
        how |= {"learning_rate": self.learning_rate, "weight_decay": self.weight_decay, "ema_decay": 0.99}
        fit(model, train, valid=valid[:MAX_COMPARED], folder=self.out, **how)
        after = self._measured(model, scored)
        median = statistics.median_low(min(len(model.items.encode(text)), model.items.window) for text in scored)
        save(model.for_shape(median), self.out)
        for name, score in (("before", before), ("after", after)):
            assert score.profile is not None
            write_profile(self.out / f"profile-{name}.json", score.profile)
        print("\n".join(comparison(before, after)))
        print(f"{PREFIX}{self.out} ({FACTS_FILE}, profile-before.json, profile-after.json)")

    def _measured(self, model: "MaskedModel", texts: list[str]) -> "Score":
        with progress("measuring", model.num_rows(texts)) as advance:
            return model.measure(texts, seed=self.seed, on_batch=advance)


def comparison(before: "Score", after: "Score") -> list[str]:
    """Lines that compare the bits of held-out sequences before and after, in all and by the share that is hidden."""
    lines = [f"held out: {before.figure} before, {after.figure} after"]
    profiles = [score.profile for score in (before, after)]
    for share in SHARES:
        found = [loss_at(profile.observed_bits()[0].tolist(), share) for profile in profiles if profile is not None]
        shown = ["-" if value is None else f"{value:.3f}" for value in found]
        lines.append(f"  {share:.0%} hidden: {shown[0]} before, {shown[1]} after")
    return lines


def loss_at(bits: list[float], share: float) -> float | None:
    """The mean of the losses that were measured around a share of hidden tokens; None without any.

    >>> from ardm.cli.train_masked import loss_at
    >>> loss_at([4.0, 3.0, 2.0, 1.0], 0.75)
    3.0
    """
    size, centre = len(bits), round((1 - share) * len(bits))
    around = bits[max(0, centre - size // 20) : centre + size // 20 + 1]
    known = [value for value in around if not math.isnan(value)]
    return sum(known) / len(known) if known else None
