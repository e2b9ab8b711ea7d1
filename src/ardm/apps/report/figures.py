"""Plots of schedules, losses and transition matrices, with matplotlib (the `plots` extra)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ardm.library.plots import BLUE, label_steps, new_figure, save_figure, stair_edges, stair_heights

SMOOTH_STAIRS = 400
"""Maximum number of stairs of a measured profile: few, so that each averages over many observations."""


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
    label_steps(axes, num_stages, num_steps)
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
