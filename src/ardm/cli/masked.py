"""Masked language models on the command line: their flags, and how commands use them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ardm.cli.common import hardware, progress, warn_about_source
from ardm.errors import UsageError
from ardm.masked import is_masked
from ardm.names import MEASURED, ScheduleKind
from ardm.runtime.files import to_json, write_output
from ardm.runtime.launch import num_launched

if TYPE_CHECKING:
    from ardm.apps.report.calls import Row
    from ardm.cli.evaluate import Evaluate
    from ardm.cli.report import ReportCalls
    from ardm.cli.sample import Infill, Sample
    from ardm.library.masked import MaskedModel
    from ardm.library.scores import Score
    from ardm.masked.sequences import Sequences

FileFormat = Literal["auto", "fasta", "smiles", "lines", "text"]
MASKED_UNUSED = "is not for masked language models: leave it out"
BUDGETS = (40, 20, 10)
"""Numbers of calls in a report, where the longest sequence takes more."""


@dataclass(frozen=True, kw_only=True)
class MaskedFlags:
    """Flags for masked language models (hf:NAME or hf:FOLDER)."""

    trust_remote_code: bool = False
    """Run the code that comes with the model; without this flag none of it runs."""
    pickled: bool = False
    """Read weights from pytorch_model.bin, as tensors only, where there are no safetensors."""
    tokenizer: Path | None = None
    """Folder or name of another model whose tokenizer is used, as GPT-2's is for MDLM."""
    losses: Path | None = None
    """Plan --calls from this loss profile, which `ardm eval --profile` wrote; a folder that ardm wrote has its own."""
    pattern: str | None = None
    """Split texts into tokens by this pattern: letters, smiles, a regular expression, or tokenizer."""
    unit: str | None = None
    """Name of a token in figures, such as residue."""
    window: int | None = None
    """Most tokens that the network sees at once; longer sequences are scored in windows."""
    mask_id: int | None = None
    """Number of the mask token."""
    start_id: int | None = None
    """Number of a token put before every sequence."""
    shifted: bool | None = None
    """Whether the logits at a place are those of the next token, as Dream's are."""
    time: str | None = None
    """Name of the network's argument for the share of hidden tokens; "none" if it takes none."""
    token_dropout: bool | None = None
    """ESM-2: False leaves out its scaling of embeddings, which is 54-fold where all of 120 residues are hidden."""

    def check_unused(self, model: Path | None) -> None:
        """Raise a UsageError if a flag is given for a model of another kind."""
        if model is not None and is_masked(model):
            return
        given = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        if given:
            raise UsageError(f"--{given[0].replace('_', '-')} is for masked language models (hf:NAME)")

    def load(self, source: Path, device: str | None) -> "MaskedModel":
        """The model, with the profile of --losses."""
        if num_launched() > 1:
            raise UsageError("masked language models run in one process: start the command without torchrun")
        from ardm.library.masked import load_masked
        from ardm.profile import Profile
        from ardm.tasks.plan import read_profile

        names = ("pattern", "unit", "window", "mask_id", "start_id", "shifted", "token_dropout")
        options = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.time is not None:
            options["time"] = False if self.time == "none" else self.time
        trust: Any = {"trust_remote_code": self.trust_remote_code, "pickled": self.pickled, "tokenizer": self.tokenizer}
        losses = None if self.losses is None else read_profile(self.losses)
        model = load_masked(source, device, **trust, **options)
        if losses is not None:
            model.profile, model.profile_source = Profile.of_bits(losses), MEASURED
        return model


@dataclass(frozen=True, kw_only=True)
class MaskedDataFlags(MaskedFlags):
    """Flags for masked language models (hf:NAME or hf:FOLDER) and their files of sequences."""

    format: FileFormat = "auto"
    """How a file holds sequences: FASTA, SMILES (the first word of each line), one a line, or the whole file as a text;
    by default FASTA if it begins with >, SMILES if it is named so, else one a line."""

    def read(self, path: Path, limit: int | None = None) -> "Sequences":
        """Sequences of a file, evenly spread over it, with a title that says which they are."""
        from ardm.data.corpus import spread
        from ardm.masked.sequences import Sequences, read_sequences

        found = read_sequences(path, self.format)
        total = len(found.texts)
        count = total if limit is None else min(limit, total)
        texts, names = ([part[number] for number in spread(count, total)] for part in (found.texts, found.names))
        title = f"{count} of {total} sequence{'s' * (total > 1)} of {path.name}"
        return Sequences(texts=texts, names=names, title=title)


WithoutName = tyro.conf.arg(name="")
AnyMaskedFlags = Annotated[MaskedFlags, WithoutName]
AnyMaskedDataFlags = Annotated[MaskedDataFlags, WithoutName]


def facts_of_masked(model: "MaskedModel", source: Path) -> dict[str, Any]:
    """The facts of a masked model, for `ardm info` and for records of its figures."""
    from ardm.masked.network import MaskedNetwork
    from ardm.tasks.plan import is_measured

    network, tokens = model.ardm.network, model.tokens
    assert isinstance(network, MaskedNetwork)
    return {
        "model": str(source),
        "kind": "masked language model",
        "network": type(model.network).__name__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens": len(tokens.names) - len(tokens.special),
        "special_tokens": [tokens.names[number] for number in sorted(tokens.special)][:20],
        "mask": tokens.names[tokens.mask],
        "before_sequences": " ".join(tokens.names[number] for number in tokens.start) or None,
        "after_sequences": " ".join(tokens.names[number] for number in tokens.end) or None,
        "window": model.items.window,
        "unit": tokens.unit,
        "logits": "of the next token" if network.is_shifted else "of the token at their place",
        "time_argument": network.time,
        "token_dropout": next((m.token_dropout for m in model.modules() if hasattr(m, "token_dropout")), None),
        "profile": model.profile_source if is_measured(model.profile) else "not measured",
    }


def evaluate_masked(flags: "Evaluate") -> None:
    """Run `ardm eval` for a masked model."""
    _check_unused_flags(flags, ("split", "diffusion_steps"))
    if flags.pseudo and (flags.order != "random" or flags.calls is not None):
        raise UsageError("--pseudo stands beside the bound: leave out --order and --calls")
    from ardm.tasks.plan import write_profile

    sequences = flags.masked.read(flags.data, flags.items)
    model = flags.masked.load(flags.model, flags.device)
    check_tokens(model, flags.data, sequences)
    texts, title = sequences.texts, sequences.title
    score = scored(model, texts, flags, flags.order, flags.calls, flags.schedule, flags.passes)
    if flags.profile is not None and score.profile is not None:
        write_profile(flags.profile, score.profile)
    pseudo = None
    if flags.pseudo:
        with progress("pseudo-log-likelihood", int(score.num_variables.sum())) as advance:
            pseudo = model.pseudo_score(texts, batch_size=flags.batch_size, on_batch=advance)
    if flags.json:
        facts = {"model": facts_of_masked(model, flags.model), "hardware": hardware(model.device)}
        record: dict[str, Any] = score.to_dict() | {"data": title, "seed": flags.seed} | facts
        if pseudo is not None:
            record["pseudo_log_likelihood"] = {"bits_per_dim": pseudo.bits_per_dim, "half_width": pseudo.half_width}
        write_output(flags.output, to_json(record))
        return
    lines = [score.figure, f"{score.estimator}; {title}"]
    if pseudo is not None:
        lines.append(f"{pseudo.figure} pseudo-log-likelihood, which is not a probability")
    write_output(flags.output, "\n".join(lines).encode())


def check_tokens(model: "MaskedModel", path: Path, sequences: "Sequences") -> None:
    """Raise a DataError that names the file and the sequence for the first token that the model does not know."""
    for text, name in zip(sequences.texts, sequences.names, strict=True):
        model.items.encode(text, f"{path.name}, {name}")


def scored(
    model: "MaskedModel",
    texts: Sequence[str],
    flags: "Evaluate | ReportCalls",
    order: str = "random",
    calls: int | None = None,
    schedule: ScheduleKind = "planned",
    passes: int | None = None,
) -> "Score":
    """The score of sequences, showing progress."""
    if calls is not None and schedule == "planned":
        warn_about_source(model.profile_source)
    options: Any = {"seed": flags.seed, "batch_size": flags.batch_size, "schedule": schedule, "passes": passes}
    with progress("scoring", model.num_rows(texts, order, calls, passes)) as advance:
        return model.score(texts, order, calls, **options, on_batch=advance)


def sample_masked(flags: "Sample") -> None:
    """Run `ardm sample` for a masked model."""
    from ardm.media.sequences import SequenceMedium

    model = flags.masked.load(flags.model, flags.device)
    medium = SequenceMedium(model.tokens.decode, model.shape)
    replace(flags, schedule=schedule_for(flags, model)).draw(model.for_shape(medium.shape(flags.size)), medium)


def schedule_for(flags: "Sample | Infill", model: "MaskedModel") -> ScheduleKind:
    """The chosen kind of schedule, but cosine instead of planned if the model has no losses to plan from."""
    from ardm.tasks.plan import is_measured

    if flags.calls is None or flags.schedule != "planned" or is_measured(model.profile):
        return flags.schedule
    reason = "this model's losses have not been measured (`ardm eval --profile` does, for --losses)"
    print(f"the schedule is cosine, not planned: {reason}", file=sys.stderr)
    return "cosine"


def infill_masked(flags: "Infill") -> None:
    """Run `ardm infill` for a masked model."""
    if flags.particles > 1:
        raise UsageError(f"--particles {MASKED_UNUSED}; its samples are exact without")
    from ardm.media.sequences import SequenceMedium, read_sequence

    model = flags.masked.load(flags.model, flags.device)
    text, mask = read_sequence(flags.input, flags.mask)
    gaps = model.items.gaps(text, mask)
    medium = SequenceMedium(model.tokens.decode, gaps.shape)
    replace(flags, schedule=schedule_for(flags, model)).draw(model.for_shape(gaps.shape), medium, gaps)


def report_masked(flags: "ReportCalls") -> None:
    """Run `ardm report calls` for a masked model."""
    _check_unused_flags(flags, ("split",))
    from ardm.apps.report.calls import Row, markdown
    from ardm.tasks.plan import is_measured

    sequences = flags.masked.read(flags.data, flags.items)
    model = flags.masked.load(flags.model, flags.device)
    check_tokens(model, flags.data, sequences)
    texts, title = sequences.texts, sequences.title
    longest = max(len(model.items.encode(text)) for text in texts)
    most = min(longest, model.items.window)
    budgets = [calls for calls in (BUDGETS if flags.calls is None else flags.calls) if calls < most]
    orders = ("raster", "reverse") if flags.orders is None else flags.orders

    def row(order: str, schedule: ScheduleKind, calls: int | None) -> "Row":
        score = scored(model, texts, flags, order, calls, schedule)
        name = "one variable per call" if calls is None else schedule
        return Row(order=order, schedule=name, calls=calls or longest, estimate=score.to_estimate())

    bound = scored(model, texts, flags, passes=flags.passes)
    own_profile = is_measured(model.profile)
    if not own_profile and bound.profile is not None:
        model.profile = bound.profile
    singles = [Row(order="random", schedule="one variable per call", calls=longest, estimate=bound.to_estimate())]
    singles += [row(order, "planned", None) for order in orders]
    rows = [
        row(order, schedule, calls)
        for calls in sorted(budgets, reverse=True)
        for order, schedule in [("random", s) for s in flags.schedules] + [(o, "planned") for o in flags.planned_in]
    ]
    with progress("pseudo-log-likelihood", int(bound.num_variables.sum())) as advance:
        pseudo = model.pseudo_score(texts, batch_size=flags.batch_size, on_batch=advance)
    note = "own" if own_profile else "measured on these sequences"
    if flags.json:
        tables = {"orders": [r.to_dict() for r in singles], "budgets": [r.to_dict() for r in rows]}
        not_probability = {"bits_per_dim": pseudo.bits_per_dim, "half_width": pseudo.half_width}
        facts = {"data": title, "profile": note, "pseudo_log_likelihood": not_probability}
        write_output(flags.output, to_json(facts | tables))
        return
    heading = f"{title}; {flags.model}, seed {flags.seed}; profile: {note}; longest sequence: {longest} tokens\n\n"
    table = markdown(singles, rows, model.items.unit)
    footer = f"\n\nPseudo-log-likelihood, which is not a probability: {pseudo.figure}"
    write_output(flags.output, (heading + table + footer).encode())


def masked_facts(source: Path, flags: MaskedFlags) -> dict[str, Any]:
    """The facts of a masked model for `ardm info`."""
    return facts_of_masked(flags.load(source, None), source)


def _check_unused_flags(flags: Any, names: Sequence[str]) -> None:
    for name in names:
        if getattr(flags, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} {MASKED_UNUSED}")
