"""Figures. Needs matplotlib (the `plots` extra)."""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from ardm.errors import ArdmError, UsageError
from ardm.files import check_writable, written_whole
from ardm.schedule import Plan

IMAGE_SUFFIXES = (".png", ".svg", ".pdf")


def draw_plan(losses: Float[np.ndarray, "S D"], plan: Plan, path: Path) -> None:
    """The paper's Figure 3: the loss components, and the same with the steps of a call at one height."""
    check_image_path(path)
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ArdmError("plots need matplotlib: pip install 'ardm[plots]'") from None
    num_stages, num_steps = losses.shape
    steps = np.arange(num_stages * num_steps + 1)
    figure = Figure(figsize=(9, 3), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    left.stairs(losses.ravel(), steps, fill=True, color="#8da0cb")
    left.set_title(f"every call: {plan.full_bits / num_steps:.3f} bits a variable")
    right.stairs(grouped_losses(losses, plan).ravel(), steps, fill=True, color="#fc8d62")
    right.set_title(f"{plan.schedule.num_calls} calls: {plan.bits / num_steps:.3f} bits a variable")
    left.set_ylabel("loss component (bits)")
    for axes in (left, right):
        axes.set_xlabel("step")
        axes.set_xlim(0, steps[-1])
    with written_whole(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=150)


def check_image_path(path: Path) -> None:
    """A usage error for a path that no plot can be written to."""
    if path.suffix not in IMAGE_SUFFIXES:
        raise UsageError(f"a plot ends in {', '.join(IMAGE_SUFFIXES)}, got {path.name}")
    check_writable(path)


def grouped_losses(losses: Float[np.ndarray, "S D"], plan: Plan) -> Float[np.ndarray, "S D"]:
    """The loss that each step pays under the plan: that of the step its call begins with."""
    grouped = losses.copy()
    for stage in range(len(losses)):
        for start, stop in plan.schedule.groups(stage):
            grouped[stage, start:stop] = losses[stage, start]
    return grouped
