"""Figures of plans, with matplotlib (the `plots` extra)."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from ardm.data.corpus import spread
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


def plan_figure(losses: Float[np.ndarray, "S D"], plan: Plan, warning: str = "") -> "Figure":
    """The paper's Figure 3: the loss of each step, with one call per step and with calls that steps share.

    A warning is written above the picture.
    """
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
        label_steps(axes, num_stages, num_steps)
    if plan.full_bits > 0:
        left.set_ylim(0, 1.05 * losses.max())  # stairs are means, which may hide the highest step
    figure.legend(
        [bits, lost],
        ["with a call for each step (areas are bits)", f"lost by sharing calls: {plan.lost_share:.2%}"],
        loc="outside lower center",
        ncols=2,
        frameon=False,
    )
    return figure


def draw_plan(losses: Float[np.ndarray, "S D"], plan: Plan, path: Path, warning: str = "") -> None:
    """Write the figure of a plan to a file."""
    check_image_path(path)
    save_figure(plan_figure(losses, plan, warning), path)


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure, which a notebook shows whether or not pyplot was imported; its size is in inches."""
    require_matplotlib()
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        """A figure with the picture that notebooks ask for."""

        def _repr_png_(self) -> bytes:
            picture = BytesIO()
            self.savefig(picture, format="png", dpi=100)
            return picture.getvalue()

    return ShownFigure(figsize=(width, height), layout="constrained")


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


def label_steps(axes: "Axes", num_stages: int, num_steps: int) -> None:
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
    starts = np.arange(num_stages)[:, None] * num_steps + spread(num_stairs, num_steps)  # (S, stairs)
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
