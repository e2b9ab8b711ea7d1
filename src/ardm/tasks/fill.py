"""Fill the gaps of an item, given the rest of it."""

from ardm.media.medium import GappedItem
from ardm.model import Context
from ardm.schedule import Schedule
from ardm.tasks.draw import DEFAULTS, Drawn, DrawOptions, draw
from ardm.tasks.load import ModelOnDevice
from ardm.tasks.plan import make_schedule


def fill(
    loaded: ModelOnDevice,
    gaps: GappedItem,
    schedule: Schedule | None = None,
    options: DrawOptions = DEFAULTS,
    context: Context = None,
) -> Drawn:
    """Items with the gaps filled, of any size that the network takes; by default with one variable per call.

    >>> from ardm.media import medium_of
    >>> from ardm.tasks.fill import fill
    >>> from ardm.tasks.load import load
    >>> model = load("text")
    >>> filled = fill(model, medium_of(model.trained).gapped_item("the c_t s_t", None))
    >>> model.trained.alphabet.decode(filled.samples[0][:5])
    b'the c'
    """
    loaded = loaded.for_shape(gaps.shape)
    schedule = schedule or make_schedule(loaded, None, "planned", *gaps.steps(loaded.ardm.num_stages))
    return draw(loaded, schedule, options, gaps, context)
