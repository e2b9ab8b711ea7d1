"""Autoregressive Diffusion Models: train, score, plan, sample and infill discrete data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ardm.checkpoint import load_model as load_model
    from ardm.compression.api import (
        compress as compress,
    )
    from ardm.compression.api import (
        decompress as decompress,
    )
    from ardm.likelihood import (
        bound as bound,
    )
    from ardm.likelihood import (
        conditional_bits as conditional_bits,
    )
    from ardm.likelihood import (
        exact_bits as exact_bits,
    )
    from ardm.likelihood import (
        mean_bits as mean_bits,
    )
    from ardm.likelihood import (
        schedule_bits_bound as schedule_bits_bound,
    )
    from ardm.model import ARDM as ARDM
    from ardm.orders import random_stage_orders as random_stage_orders
    from ardm.pretrained import load as load
    from ardm.profiles import monotone as monotone
    from ardm.sample import (
        Given as Given,
    )
    from ardm.sample import (
        given_first as given_first,
    )
    from ardm.sample import (
        sample_chain as sample_chain,
    )
    from ardm.sample import (
        sample_items as sample_items,
    )
    from ardm.schedule import (
        Schedule as Schedule,
    )
    from ardm.schedule import (
        cosine_schedule as cosine_schedule,
    )
    from ardm.schedule import (
        every_budget as every_budget,
    )
    from ardm.schedule import (
        full_schedule as full_schedule,
    )
    from ardm.schedule import (
        plan as plan,
    )
    from ardm.schedule import (
        uniform_schedule as uniform_schedule,
    )

__version__ = "0.1.0"

_HOMES = {
    "ARDM": "model",
    "Given": "sample",
    "Schedule": "schedule",
    "bound": "likelihood",
    "compress": "compression.api",
    "conditional_bits": "likelihood",
    "cosine_schedule": "schedule",
    "decompress": "compression.api",
    "every_budget": "schedule",
    "exact_bits": "likelihood",
    "full_schedule": "schedule",
    "given_first": "sample",
    "load": "pretrained",
    "load_model": "checkpoint",
    "mean_bits": "likelihood",
    "monotone": "profiles",
    "plan": "schedule",
    "random_stage_orders": "orders",
    "sample_items": "sample",
    "sample_chain": "sample",
    "schedule_bits_bound": "likelihood",
    "uniform_schedule": "schedule",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import ardm` and the command line start at once."""
    if name not in _HOMES:
        raise AttributeError(f"module 'ardm' has no attribute {name!r}")
    return getattr(import_module(f"ardm.{_HOMES[name]}"), name)
