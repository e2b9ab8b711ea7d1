"""Draw items: in any order, with any schedule, from nothing or around what is known.

All programs of this package use it. Processes share the batches; each batch has its own generator, so it does not
matter which process draws it. Only the states to keep are copied to the host, because a copy waits for the device.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ardm import coding
from ardm.baselines import methods
from ardm.codec.format.options import OrderChoice
from ardm.errors import UsageError
from ardm.media.medium import GappedItem
from ardm.model import ARDM, Context
from ardm.names import Shape
from ardm.nn.recorded import recorded
from ardm.parametrizations import LogisticMixtureParametrization
from ardm.runtime.device import Runtime
from ardm.sample import BATCH_SIZE, batch_generator, batch_sizes, sample_chain
from ardm.schedule import Schedule
from ardm.tasks.load import LoadedBaseline, LoadedCoding, ModelOnDevice
from ardm.tasks.plan import make_orders, make_schedule

FEW_CALLS = 8
"""Up to this many calls, a chain shows the state after each."""
States = Int[np.ndarray, "N D"]
"""Classes of N items; a variable that a one-stage model has not revealed has class K."""
ReadState = Callable[[], Tensor]
"""Returns the state of a batch after a call, on the device."""


@dataclass(frozen=True, kw_only=True)
class DrawOptions:
    """How many items to draw, how, and callbacks for progress."""

    num_items: int = 1
    order: str | OrderChoice = "random"
    temperature: float = 1.0
    """Below 1 sharpens the distribution; 1 samples from the model itself."""
    top_p: float = 1.0
    """Draw only from the likeliest classes that together have this probability; 1 draws from all."""
    particles: int = 1
    """Particles of each filled item, for models of several stages: see `conditionals.fill_particles`."""
    batch_size: int = BATCH_SIZE
    """Items, or particles, drawn together; another size uses different random draws."""
    seed: int = 0
    num_states: int = 1
    """States of a chain to keep, the last of which is the item; 1 keeps the items alone."""
    on_call: Callable[[], None] = lambda: None
    """Called after each call of the network."""
    on_state: Callable[[int, States], None] = lambda call, states: None
    """Called with the number of calls made and each state that is kept."""

    def sizes(self) -> list[int]:
        """The number of items of each batch."""
        return batch_sizes(self.num_items, max(1, self.batch_size // self.particles))


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """Drawn items, and the intermediate states that led to them."""

    states: Sequence[States]
    """The last ones are the items."""
    calls: Sequence[int]
    """The number of calls made when each state was reached."""
    shape: Shape
    seconds: float

    @property
    def samples(self) -> States:
        """The classes of each item."""
        return self.states[-1]


DEFAULTS = DrawOptions()


def draw(
    loaded: ModelOnDevice | LoadedBaseline,
    schedule: Schedule | None = None,
    options: DrawOptions = DEFAULTS,
    gaps: GappedItem | None = None,
    context: Context = None,
) -> Drawn:
    """Items drawn from a model, by default with one variable per call. With gaps, the rest of each item is given.

    A conditional model needs a context with a row for each item. A baseline is sampled as it was trained: schedule,
    order, temperature and top-p are ignored.

    >>> import ardm
    >>> from ardm.tasks.draw import DrawOptions, draw
    >>> from ardm.tasks.load import load
    >>> drawn = draw(load("text"), ardm.uniform_schedule(250, 5), DrawOptions(num_items=2, num_states=3))
    >>> drawn.calls, drawn.samples.shape
    ([1, 3, 5], (2, 250))
    """
    runtime = loaded.runtime
    if isinstance(loaded, LoadedBaseline):
        baseline = loaded.trained.model
        with runtime.autocast():
            start = partial(_baseline_chain, baseline)
            return draw_batches(start, baseline.num_calls, baseline.shape, runtime, options)
    model = loaded.ardm
    if options.top_p < 1 and isinstance(model.parametrization, LogisticMixtureParametrization):
        raise UsageError("top-p needs a list of classes, which logistic mixtures lack; use the temperature")
    schedule = schedule or make_schedule(loaded)
    kwargs: Any = {"num_items": options.num_items, "batch_size": options.batch_size, "compiles": runtime.compile}
    with runtime.autocast(), recorded(model, num_calls=schedule.num_calls, **kwargs) as called:
        start = partial(chain, called, schedule, options=options, gaps=gaps)
        return draw_batches(start, schedule.num_calls, model.shape, runtime, options, context)


def draw_coding(loaded: LoadedCoding, calls: int | None = None, options: DrawOptions = DEFAULTS) -> Drawn:
    """Texts drawn from a coding model: in strands with this many calls, or from left to right."""
    model, runtime = loaded.trained.model, loaded.runtime
    num_calls = model.num_variables if calls is None else min(calls, model.num_variables)

    def start(num_items: int, generator: torch.Generator) -> Iterator[ReadState]:
        sampling: Any = {"calls": calls, "temperature": options.temperature, "top_p": options.top_p}
        return (state.cpu for state in coding.sample_chain(model, num_items, generator, **sampling))

    with runtime.autocast():
        return draw_batches(start, num_calls, model.shape, runtime, options)


def _baseline_chain(model: methods.Baseline, num_items: int, generator: torch.Generator) -> Iterator[ReadState]:
    return (state.cpu for state in methods.sample_chain(model, num_items, generator))


def chain(
    model: ARDM,
    schedule: Schedule,
    num_items: int,
    generator: torch.Generator,
    options: DrawOptions = DEFAULTS,
    gaps: GappedItem | None = None,
    context: Context = None,
) -> Iterator[ReadState]:
    """The state of a batch after each call."""
    orders, schedule = make_orders(options.order, schedule, num_items, model.shape, generator)
    given = None
    if gaps is not None:
        orders, given = gaps.sorted(orders), gaps.given(num_items, generator.device)
    sampling: Any = {"given": given, "context": context, "temperature": options.temperature, "top_p": options.top_p}
    for step in sample_chain(model, orders, schedule, generator, **sampling):
        yield partial(step.shown, model.depth)


def keep_states(readers: Iterable[ReadState], calls: Sequence[int], options: DrawOptions = DEFAULTS) -> list[States]:
    """The states of a batch after the given calls; no call is made after the last of them."""
    kept: list[States] = []
    for call, read in enumerate(islice(readers, calls[-1]), start=1):
        if call in calls:
            kept.append(read().cpu().numpy())
            options.on_state(call, kept[-1])
        options.on_call()
    return kept


def states_to_show(num_calls: int, usual: int) -> int:
    """How many states of a chain to show: all of them after few calls, else as many as usual.

    >>> from ardm.tasks.draw import states_to_show
    >>> states_to_show(6, usual=5), states_to_show(250, usual=5)
    (6, 5)
    """
    return num_calls if num_calls <= max(FEW_CALLS, usual) else usual


def calls_to_keep(num_calls: int, num_states: int) -> list[int]:
    """The calls after which states are kept: the first, the last and some between; for a single state, the last.

    >>> from ardm.tasks.draw import calls_to_keep
    >>> calls_to_keep(250, 5)
    [1, 63, 125, 187, 250]
    """
    if num_states == 1:
        return [num_calls]
    return sorted({1 + (num_calls - 1) * i // (num_states - 1) for i in range(num_states)})


def draw_batches(
    start: Callable[..., Iterator[ReadState]],
    num_calls: int,
    shape: Shape,
    runtime: Runtime,
    options: DrawOptions,
    context: Context = None,
) -> Drawn:
    """Items drawn batch by batch; `start` gives the states of a batch after each of its calls."""
    started, team = time.perf_counter(), runtime.team
    calls, sizes = calls_to_keep(num_calls, options.num_states), options.sizes()

    def draw_batch(batch: int) -> list[States]:
        own = {} if context is None else {"context": context.split(sizes)[batch]}
        readers = start(sizes[batch], batch_generator(options.seed, batch, runtime.device), **own)
        return keep_states(readers, calls, options)

    batches = team.all_gather_in_order([(batch, draw_batch(batch)) for batch in team.share_of(len(sizes))])
    states = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    return Drawn(states=states, calls=calls, shape=shape, seconds=time.perf_counter() - started)
