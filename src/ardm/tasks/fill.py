"""Fill the gaps of an item, given the rest of it."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ardm.conditionals import fill_particles
from ardm.media.medium import GappedItem
from ardm.model import ARDM, Context
from ardm.names import ScheduleKind
from ardm.nn.recorded import recorded
from ardm.sample import chain_to
from ardm.schedule import Schedule
from ardm.tasks.draw import DEFAULTS, Drawn, DrawOptions, ReadState, draw, draw_batches
from ardm.tasks.load import ModelOnDevice
from ardm.tasks.plan import Profiled, is_measured, make_orders, make_schedule


def fill(
    loaded: ModelOnDevice,
    gaps: GappedItem,
    schedule: Schedule | None = None,
    options: DrawOptions = DEFAULTS,
    context: Context = None,
) -> Drawn:
    """Items with the gaps filled, of any size that the network takes; by default with one variable per call.

    Draws of a one-stage model follow p(gaps | the rest) exactly. Those of a model of several stages approximate it,
    better with more particles.

    >>> from ardm.media import medium_of
    >>> from ardm.tasks.fill import fill
    >>> from ardm.tasks.load import load
    >>> model = load("text")
    >>> filled = fill(model, medium_of(model.trained).gapped_item("the c_t s_t", None))
    >>> model.trained.alphabet.decode(filled.samples[0][:5])
    b'the c'
    """
    loaded = loaded.for_shape(gaps.shape)
    model, runtime = loaded.ardm, loaded.runtime
    schedule = schedule or make_schedule(loaded, None, "planned", *gaps.steps(model.num_stages))
    if options.particles == 1 or model.num_stages == 1 or schedule.first_step == 0:
        return draw(loaded, schedule, replace(options, particles=1), gaps, context)
    rows = options.num_items * options.particles, max(options.batch_size, options.particles)
    kwargs: Any = {"num_items": rows[0], "batch_size": rows[1], "compiles": runtime.compile}
    with runtime.autocast(), recorded(model, num_calls=schedule.num_calls, **kwargs) as called:
        start = partial(_particle_chain, called, with_known(loaded, schedule), schedule, options, gaps)
        quiet = replace(options, on_call=lambda: None)  # the filter itself reports its calls
        return draw_batches(start, schedule.num_calls, model.shape, runtime, quiet, context)


def _particle_chain(
    model: ARDM,
    whole: Schedule,
    schedule: Schedule,
    options: DrawOptions,
    gaps: GappedItem,
    num_items: int,
    generator: torch.Generator,
    context: Context = None,
) -> Iterator[ReadState]:
    """The states of a batch that is filled with particles, all computed before the first."""
    orders, _ = make_orders(options.order, whole, num_items, model.shape, generator)
    orders, given = gaps.sorted(orders), gaps.given(num_items, generator.device)
    sampling: Any = {"temperature": options.temperature, "top_p": options.top_p, "on_call": options.on_call}
    sampling |= {"context": context, "particles": options.particles}
    items = fill_particles(model, orders, whole, generator, given=given, **sampling)
    for step in chain_to(model.depth, items, orders, schedule):
        yield partial(step.shown, model.depth)


def with_known(model: Profiled, schedule: Schedule) -> Schedule:
    """The schedule of gaps after one of the known variables, which are weighed in as many calls of the network.

    >>> import ardm
    >>> from ardm.tasks.fill import with_known
    >>> from ardm.tasks.load import load
    >>> with_known(load("text"), ardm.uniform_schedule(250, 3, first_step=100)).calls
    (6,)
    """
    kind: ScheduleKind = "planned" if is_measured(model.profile) else "uniform"
    known = make_schedule(model, schedule.num_calls, kind, 0, schedule.first_step)
    starts = zip(known.starts, schedule.starts, strict=True)
    return replace(schedule, starts=tuple(first + second for first, second in starts))
