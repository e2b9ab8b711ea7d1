"""Score items: their bits under a model, with an interval."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ardm.baselines import methods
from ardm.checkpoint import AnyTrained
from ardm.data.corpus import spread
from ardm.data.text import TextCorpus
from ardm.errors import UsageError
from ardm.likelihood import ALONE, Estimate, Processes, bound, exact_bits, mean_bits, schedule_bits_bound, variable_bits
from ardm.media import medium_of
from ardm.model import ARDM
from ardm.names import Split
from ardm.schedule import Schedule
from ardm.tasks.draw import States
from ardm.tasks.load import LoadedBaseline, LoadedModel
from ardm.tasks.plan import make_orders, make_schedule


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
    Items shorter than the model's are scored as marginals by a model of one stage: see `marginal_bits`.

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
        if order == "random":
            bits, name = schedule_bits_bound(model, x, schedule, generator, **kwargs), "bound over random orders"
        else:
            orders, schedule = make_orders(order, schedule, len(x), model.shape, generator)
            bits, name = exact_bits(model, x, orders, schedule, **kwargs), f"exact, {order} order"
        name = f"{name}, {schedule_name or f'{schedule.num_calls} calls'}"
        return mean_bits(bits, model.num_variables, name, is_exact=order != "random")


def _score_marginals(
    loaded: LoadedModel | LoadedBaseline,
    x: Int[Tensor, "N n"],
    schedule: Schedule | None,
    order: str,
    words: str | None,
    generator: torch.Generator,
    options: ScoreOptions,
) -> Estimate:
    """The estimate of `score` for items shorter than the model's."""
    (num_items, num_variables), is_random = x.shape, order == "random"
    if isinstance(loaded, LoadedBaseline) or loaded.ardm.num_stages > 1:
        raise UsageError(
            f"only an order-agnostic ARDM scores items of fewer variables than its own: got {num_variables}, "
            f"expected {loaded.trained.model.num_variables}"
        )
    schedule = schedule or make_schedule(loaded, last_step=num_variables)
    num_draws = options.num_passes if is_random else 1
    orders, schedule = make_orders(order, schedule, num_draws * num_items, (num_variables,), generator)
    with loaded.runtime.autocast():
        bits = marginal_bits(
            loaded.ardm,
            x.repeat(num_draws, 1),
            orders,
            schedule,
            batch_size=options.batch_size,
            on_batch=options.on_batch,
            team=loaded.runtime.team,
        )
    calls = words or f"{schedule.num_calls} calls"
    drawn = f"mean over {num_draws} random order{'s' * (num_draws > 1)}" if is_random else f"exact, {order} order"
    name = f"{'bound, ' * is_random}{drawn}, {calls}, the other variables hidden"
    return mean_bits(bits.view(num_draws, num_items).mean(0), num_variables, name, is_exact=not is_random)


def marginal_bits(
    model: ARDM,
    x: Int[Tensor, "N n"],
    orders: Int[Tensor, "N 1 n"],
    schedule: Schedule,
    *,
    batch_size: int = 64,
    on_batch: Callable[[int], None] = lambda count: None,
    team: Processes = ALONE,
) -> Float[Tensor, "N"]:
    """-log2 p of the first n variables of each item, exact for its order of them; the others stay hidden.

    The schedule has n steps. With orders drawn at random, the mean over them estimates the bound on the bits of the
    mixture over all orders, without bias. The model must have one stage (see `likelihood.conditional_bits`).

    >>> import ardm, torch
    >>> from ardm.tasks.load import load
    >>> from ardm.tasks.score import marginal_bits
    >>> model, x = load("text").ardm, torch.zeros(1, 3, dtype=torch.int64)
    >>> bits = marginal_bits(model, x, torch.arange(3).view(1, 1, 3), ardm.full_schedule(3))
    >>> bits.shape, bool(bits > 0)
    (torch.Size([1]), True)
    """
    absent = torch.arange(x.shape[1], model.num_variables, device=x.device).expand(len(x), 1, -1)
    whole = torch.cat([x, x.new_zeros(absent.shape)[:, 0]], dim=1)
    how: Any = {"batch_size": batch_size, "on_batch": on_batch, "team": team}
    return exact_bits(model, whole, torch.cat([orders, absent], dim=2), schedule, **how)


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
