"""Plots of schedules, losses and transition matrices, with matplotlib (the `plots` extra)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from ardm.errors import ArdmError, UsageError
from ardm.planner import Plan
from ardm.runtime.files import check_writable, written_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IMAGE_SUFFIXES = (".png", ".svg", ".pdf")
BLUE, ORANGE = "#8da0cb", "#fc8d62"
MAX_STAIRS = 2000
"""Maximum number of stairs of a curve: several per pixel. Drawing time grows faster than their number."""
SMOOTH_STAIRS = 400
"""Maximum number of stairs of a measured profile: few, so that each averages over many observations."""


def draw_plan(losses: Float[np.ndarray, "S D"], plan: Plan, path: Path, warning: str = "") -> None:
    """Draw the paper's Figure 3: the loss of each step, with one call per step and with calls that steps share.

    A warning is written above the picture.
    """
    check_image_path(path)
    figure = new_figure(8.0, 3.5)
    if warning:
        figure.suptitle(warning, fontsize="medium", color="firebrick")
    num_stages, num_steps = losses.shape
    edges = stair_edges(num_stages, num_steps)
    left, right = figure.subplots(1, 2, sharey=True)
    left.set_title(f"{losses.size:,} calls: {plan.full_bits / num_steps:.3f} bits per variable")
    left.set_ylabel("loss of a step (bits)")
    right.set_title(f"{plan.schedule.num_calls:,} calls: {plan.bits / num_steps:.3f} bits per variable")
    lost = right.stairs(stair_heights(grouped_losses(losses, plan), edges), edges, fill=True, color=ORANGE)
    for axes in (left, right):
        bits = axes.stairs(stair_heights(losses, edges), edges, fill=True, color=BLUE)
        axes.set_xlim(0, edges[-1])
        _label_steps(axes, num_stages, num_steps)
    if plan.full_bits > 0:
        left.set_ylim(0, 1.05 * losses.max())  # stairs are means, which may hide the highest step
    figure.legend(
        [bits, lost],
        ["with a call for each step (areas are bits)", f"lost by sharing calls: {plan.lost_share:.2%}"],
        loc="outside lower center",
        ncols=2,
        frameon=False,
    )
    save_figure(figure, path)


def draw_losses(losses: Float[np.ndarray, "S D"], path: Path) -> None:
    """Draw the paper's figure of loss components: S times the loss of each step, so that the mean is bits per variable.

    NaN marks losses that have not been observed; they are interpolated.
    """
    figure = new_figure(5.0, 3.2)
    num_stages, num_steps = losses.shape
    edges = stair_edges(num_stages, num_steps, max_stairs=SMOOTH_STAIRS)
    heights = loss_heights(losses)
    axes = figure.subplots()
    axes.set_title(f"{heights.mean():.3f} bits per variable")
    axes.set_ylabel("loss of a step (bits)" if num_stages == 1 else f"loss of a step (bits) x {num_stages}")
    axes.stairs(stair_heights(heights, edges), edges, fill=True, color=BLUE)
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0)
    _label_steps(axes, num_stages, num_steps)
    save_figure(figure, path)


def loss_heights(losses: Float[np.ndarray, "S D"]) -> Float[np.ndarray, "S D"]:
    """S times the losses, interpolated where they were not observed."""
    num_stages, num_steps = losses.shape
    steps = np.arange(num_steps)
    seen = [~np.isnan(stage) for stage in losses]
    filled = [np.interp(steps, steps[one], stage[one]) for stage, one in zip(losses, seen, strict=True)]
    return num_stages * np.stack(filled)


def draw_matrices(matrices: Sequence[Float[np.ndarray, "V V"]], path: Path) -> None:
    """Draw transition matrices: a row for each parent, a column for each child, ones coloured."""
    from matplotlib.colors import ListedColormap

    figure = new_figure(2.6 * len(matrices), 2.9)
    panels = figure.subplots(1, len(matrices), squeeze=False)[0]
    panels[0].set_ylabel("parent")
    for stage, (axes, matrix) in enumerate(zip(panels, matrices, strict=True), start=1):
        axes.pcolormesh(matrix, cmap=ListedColormap(["white", BLUE]), edgecolors="lightgrey", linewidth=0.5)
        axes.set_title(f"$P^{{({stage})}}$")
        axes.set_aspect("equal")
        axes.invert_yaxis()
        axes.set_xlabel("child")
        for set_ticks in (axes.set_xticks, axes.set_yticks):
            set_ticks(np.arange(len(matrix)) + 0.5, map(str, range(len(matrix))), fontsize=6)
    save_figure(figure, path)


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure; its size is in inches."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def require_matplotlib() -> None:
    """Raise an ArdmError if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ArdmError("plots need matplotlib: pip install 'ardm[plots]'") from None


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure to a file, which is replaced at the end."""
    with written_whole(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=150)


def _label_steps(axes: "Axes", num_stages: int, num_steps: int) -> None:
    """Label the axis with steps or, for several stages, with stages and lines between them."""
    if num_stages == 1:
        axes.set_xlabel("step (variables revealed before it)")
        return
    axes.set_xlabel(f"stage, of {num_steps:,} steps each")
    axes.set_xticks((np.arange(num_stages) + 0.5) * num_steps, [str(stage + 1) for stage in range(num_stages)])
    axes.tick_params(axis="x", length=0)
    for stage in range(1, num_stages):
        axes.axvline(stage * num_steps, color="black", linewidth=0.6, linestyle=(0, (4, 4)))


def check_image_path(path: Path) -> None:
    """Raise a UsageError if no plot can be written to this path."""
    if path.suffix not in IMAGE_SUFFIXES:
        raise UsageError(f"a plot's name must end in {', '.join(IMAGE_SUFFIXES)}; got {path.name}")
    check_writable(path)


def stair_edges(num_stages: int, num_steps: int, max_stairs: int = MAX_STAIRS) -> Int[np.ndarray, "N"]:
    """The steps at which stairs begin, and the end of the last one: all steps, or evenly spread ones if too many."""
    num_stairs = min(num_steps, max(1, max_stairs // num_stages))
    within = np.arange(num_stairs) * num_steps // num_stairs
    starts = np.arange(num_stages)[:, None] * num_steps + within  # (S, stairs)
    return np.append(starts.ravel(), num_stages * num_steps)


def stair_heights(losses: Float[np.ndarray, "S D"], edges: Int[np.ndarray, "N"]) -> Float[np.ndarray, "_"]:
    """The mean loss between edges, so that areas remain bits."""
    return np.asarray(np.add.reduceat(losses.ravel(), edges[:-1]) / np.diff(edges))


def grouped_losses(losses: Float[np.ndarray, "S D"], plan: Plan) -> Float[np.ndarray, "S D"]:
    """The loss of each step under the plan, which is that of the first step of its call."""
    grouped = losses.copy()
    for stage in range(len(losses)):
        for start, stop in plan.schedule.groups(stage):
            grouped[stage, start:stop] = losses[stage, start]
    return grouped
