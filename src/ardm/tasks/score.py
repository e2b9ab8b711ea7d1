"""Score items: their bits under a model, with an interval."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ardm import coding
from ardm.baselines import methods
from ardm.checkpoint import AnyTrained
from ardm.data.corpus import spread
from ardm.data.text import TextCorpus
from ardm.errors import UsageError
from ardm.likelihood import (
    ALONE,
    Estimate,
    Processes,
    bound,
    exact_bits,
    mean_bits,
    partial_bound,
    passes_in_words,
    schedule_bits_bound,
    variable_bits,
)
from ardm.media import medium_of
from ardm.model import ARDM, Context
from ardm.names import Split
from ardm.orders import given_first
from ardm.schedule import Schedule
from ardm.tasks.draw import States
from ardm.tasks.load import LoadedBaseline, LoadedCoding, LoadedModel
from ardm.tasks.plan import make_orders, make_schedule

ROWS_TO_SCORE = 128
"""Rows of a bound over a few items, which are scored in several passes."""


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """How items are scored, and a callback for progress."""

    num_passes: int = 1
    """Passes over the items, for a bound that is estimated from single steps."""
    batch_size: int = 64
    seed: int = 0
    on_batch: Callable[[int], None] = lambda count: None
    """Called with the number of rows of each batch; a row is one item in one pass or in one call."""


DEFAULTS = ScoreOptions()


def score(
    loaded: LoadedModel | LoadedBaseline,
    x: Int[Tensor, "N D"],
    schedule: Schedule | None = None,
    order: str = "random",
    schedule_name: str | None = None,
    options: ScoreOptions = DEFAULTS,
) -> Estimate:
    """The mean bits of items with an interval over them.

    In random orders this is a bound; without a schedule it is estimated from single steps and has the measured profile.
    In any other order it is exact, by default with one variable per call. A baseline has its own way to score items,
    which ignores schedule and order. The estimate names the schedule by its number of calls, or by `schedule_name`.
    Items shorter than the model's are scored as marginals by a model of one stage, their other variables hidden.

    >>> import ardm, torch
    >>> from ardm.tasks.load import load
    >>> from ardm.tasks.score import score
    >>> items = torch.zeros(2, 250, dtype=torch.int64)
    >>> score(load("text"), items, ardm.uniform_schedule(250, 2), "raster").estimator
    'exact, raster order, 2 calls'
    """
    runtime = loaded.runtime
    x, generator = x.to(runtime.device), torch.Generator(runtime.device).manual_seed(options.seed)
    kwargs: Any = {"batch_size": options.batch_size, "on_batch": options.on_batch, "team": runtime.team}
    if x.shape[1] < loaded.trained.model.num_variables:
        return _score_marginals(loaded, x, schedule, order, schedule_name, generator, options)
    with runtime.autocast():
        if isinstance(loaded, LoadedBaseline):
            return methods.score(loaded.trained.model, x, generator, num_passes=options.num_passes, **kwargs)
        model = loaded.ardm
        if order == "random" and schedule is None:
            return bound(model, x, generator, num_passes=options.num_passes, **kwargs)
        schedule = schedule or make_schedule(loaded)
        bits = bits_under_schedule(model, x, schedule, order, generator, **kwargs)
    name = "bound over random orders" if order == "random" else f"exact, {order} order"
    name = f"{name}, {schedule_name or f'{schedule.num_calls} calls'}"
    return mean_bits(bits, model.num_variables, name, is_exact=order != "random")


def score_coding(
    loaded: LoadedCoding, x: Int[Tensor, "N n"], calls: int | None = None, options: ScoreOptions = DEFAULTS
) -> Estimate:
    """The mean bits of texts of one length, exact, under a coding model: in strands, or from left to right."""
    runtime, x = loaded.runtime, x.to(loaded.runtime.device)
    kwargs: Any = {"batch_size": options.batch_size, "on_batch": options.on_batch, "team": runtime.team}
    with runtime.autocast():
        return coding.score(loaded.trained.model, x, calls=calls, **kwargs)


def coding_calls(order: str | None, calls: int | None) -> int | None:
    """The calls per window of a coding model from a user's order and calls: None from left to right.

    Without an order, a number of calls means strands. Other orders raise a UsageError.

    >>> from ardm.tasks.score import coding_calls
    >>> coding_calls(None, 50), coding_calls("raster", None)
    (50, None)
    """
    if order not in (None, "raster", "strands"):
        raise UsageError(
            f"a coding model goes through texts in strands or in raster order, not in the order {order}; for other "
            "orders, train an order-agnostic model: ardm train without --coding"
        )
    if order == "raster" and calls is not None:
        raise UsageError(
            "from left to right a coding model takes a call per character: leave out the calls or the order"
        )
    if order == "strands" and calls is None:
        raise UsageError("strands need a number of calls: each takes a character of every strand")
    return calls


def _score_marginals(
    loaded: LoadedModel | LoadedBaseline,
    x: Int[Tensor, "N n"],
    schedule: Schedule | None,
    order: str,
    schedule_name: str | None,
    generator: torch.Generator,
    options: ScoreOptions,
) -> Estimate:
    """The estimate of `score` for items shorter than the model's."""
    (num_items, num_variables), num_passes = x.shape, options.num_passes
    if isinstance(loaded, LoadedBaseline) or loaded.ardm.num_stages > 1:
        raise UsageError(
            f"only an order-agnostic ARDM scores items of fewer variables than its own: got {num_variables}, "
            f"expected {loaded.trained.model.num_variables}"
        )
    model, is_random = loaded.ardm, order == "random"
    x = torch.nn.functional.pad(x, (0, model.num_variables - num_variables))
    scored = torch.arange(model.num_variables, device=x.device).expand_as(x) < num_variables
    given = torch.zeros_like(scored)
    kwargs: Any = {"batch_size": options.batch_size, "on_batch": options.on_batch, "team": loaded.runtime.team}
    with loaded.runtime.autocast():
        if is_random and schedule is None:
            found = partial_bound(model, x, scored, given, generator, num_passes=num_passes, **kwargs)
            bits = found.item_bits[None]
            name = f"bound over random orders, single steps, {passes_in_words(num_passes)}"
        else:
            schedule = schedule or make_schedule(loaded, last_step=num_variables)
            num_draws = num_passes if is_random else 1
            x, scored, given = (values.repeat(num_draws, 1) for values in (x, scored, given))
            bits = bits_under_schedule(model, x, schedule, order, generator, scored=scored, given=given, **kwargs)
            bits = bits.view(num_draws, num_items)
            drawn = f"bound, mean over {num_draws} random order{'s' * (num_draws > 1)}"
            name = (
                f"{drawn if is_random else f'exact, {order} order'}, {schedule_name or f'{schedule.num_calls} calls'}"
            )
    return mean_bits(bits.mean(0), num_variables, f"{name}, the other variables hidden", is_exact=not is_random)


def bits_under_schedule(
    model: ARDM,
    x: Int[Tensor, "N D"],
    schedule: Schedule,
    order: str,
    generator: torch.Generator,
    *,
    scored: Bool[Tensor, "N D"] | None = None,
    given: Bool[Tensor, "N D"] | None = None,
    context: Context = None,
    batch_size: int = 64,
    on_batch: Callable[[int], None] = lambda count: None,
    team: Processes = ALONE,
) -> Float[Tensor, "N"]:
    """The bits of each item, or of its scored variables, under a schedule: exact in a named order, else an estimate.

    In random orders the values estimate the bound on average over orders, without bias. For parts of items, the
    schedule begins after the given variables and ends with the scored ones: see `part_bits`.

    >>> import ardm, torch
    >>> from ardm.tasks.load import load
    >>> from ardm.tasks.score import bits_under_schedule
    >>> model, x = load("text").ardm, torch.zeros(1, 250, dtype=torch.int64)
    >>> bits_under_schedule(model, x, ardm.uniform_schedule(250, 2), "raster", torch.Generator()).shape
    torch.Size([1])
    """
    kwargs: Any = {"context": context, "batch_size": batch_size, "on_batch": on_batch, "team": team}
    if order == "random" and scored is None:
        return schedule_bits_bound(model, x, schedule, generator, **kwargs)
    orders, schedule = make_orders(order, schedule, len(x), model.shape, generator)
    if scored is None:
        return exact_bits(model, x, orders, schedule, **kwargs)
    given = torch.zeros_like(scored) if given is None else given
    return part_bits(model, x, scored, given, orders, schedule, **kwargs)


def part_bits(
    model: ARDM,
    x: Int[Tensor, "N D"],
    scored: Bool[Tensor, "N D"],
    given: Bool[Tensor, "N D"],
    orders: Int[Tensor, "N 1 n"],
    schedule: Schedule,
    **kwargs: Any,
) -> Float[Tensor, "N"]:
    """-log2 p(x_A | x_B) of each item with A = scored and B = given, exact for its order; other variables stay hidden.

    B is revealed first, then A, each in the sequence of the item's order, which may lack the last variables if they are
    hidden. The schedule runs from step |B| to |A| + |B|, and the model must have one stage. Other arguments are those
    of `likelihood.exact_bits`.

    >>> import ardm, torch
    >>> from ardm.tasks.load import load
    >>> from ardm.tasks.score import part_bits
    >>> model, x, d = load("text").ardm, torch.zeros(1, 250, dtype=torch.int64), torch.arange(250)[None]
    >>> bits = part_bits(model, x, d < 3, d > 250, torch.arange(3).view(1, 1, 3), ardm.full_schedule(3))
    >>> bits.shape, bool(bits > 0)
    (torch.Size([1]), True)
    """
    last = torch.arange(orders.shape[2], model.num_variables, device=x.device).expand(*orders.shape[:2], -1)
    orders = given_first(given_first(torch.cat([orders, last], dim=2), scored), given)
    return exact_bits(model, torch.where(scored | given, x, 0), orders, schedule, **kwargs)


def passes_for(num_rows: int) -> int:
    """The passes of a bound over a few items, in which the network sees at least 128 rows.

    >>> from ardm.tasks.score import passes_for
    >>> passes_for(1), passes_for(100), passes_for(1000)
    (128, 2, 1)
    """
    return max(1, math.ceil(ROWS_TO_SCORE / num_rows))


def bits_by_variable(
    loaded: LoadedModel,
    items: States,
    orders: Int[Tensor, "N S D"],
    schedule: Schedule,
    options: ScoreOptions = DEFAULTS,
) -> Float[Tensor, "N D"]:
    """The exact bits that each variable adds; 0 for those that the schedule leaves out, which may have class K."""
    model, x = loaded.ardm, torch.from_numpy(items).to(orders.device)
    x = torch.where(x < model.num_classes, x, 0)
    with loaded.runtime.autocast():
        return variable_bits(model, x, orders, schedule, batch_size=options.batch_size, on_batch=options.on_batch)


def items_to_score(
    trained: AnyTrained, path: Path, split: Split | None = None, limit: int | None = None
) -> tuple[Int[Tensor, "N D"], str]:
    """Items to score, spread evenly over a split, and a title that says which they are.

    Without `split`, they come from the test split of a published data set or of the data that the model was trained
    on, and from all of any other data. A single image or sound has no splits; a text is split by position. A text that
    is shorter than an item is one item of its own length, for `score` to score as a marginal.
    """
    corpus = medium_of(trained).corpus(path)
    if split is None:
        seen = (trained.data_fingerprint, *trained.config.initial_data)
        split = "test" if corpus.is_published or corpus.fingerprint in seen else "all"
    if split == "all" and isinstance(corpus, TextCorpus) and len(corpus.classes) < trained.model.num_variables:
        short = f"{corpus.title}, shorter than an item of {trained.model.num_variables}"
        return torch.from_numpy(corpus.classes.astype("int64"))[None], f"{len(corpus.classes)} characters of {short}"
    items = corpus.items(split, trained.model.shape)
    count = len(items) if limit is None else min(limit, len(items))
    is_one_file = path.is_file() and trained.config.data.medium != "text"
    of_split = "" if is_one_file else ", the whole data" if split == "all" else f", {split} split"
    chosen = torch.from_numpy(items[spread(count, len(items))].astype("int64"))
    return chosen, f"{count} of {len(items)} items of {corpus.title}{of_split}"
