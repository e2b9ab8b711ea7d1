"""Autoregressive Diffusion Models: train, score, plan, sample and infill discrete data."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ARDM": "model",
    "Given": "sample",
    "Schedule": "schedule",
    "bound": "likelihood",
    "conditional_bits": "likelihood",
    "cosine_schedule": "schedule",
    "every_budget": "schedule",
    "exact_bits": "likelihood",
    "full_schedule": "schedule",
    "given_first": "sample",
    "load_model": "checkpoint",
    "mean_bits": "likelihood",
    "monotone": "profiles",
    "plan": "schedule",
    "random_stage_orders": "sample",
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
