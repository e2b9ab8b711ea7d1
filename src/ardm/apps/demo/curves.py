"""The loss of each step, and its cost in a schedule, as outlines for a drawing."""

import numpy as np
from jaxtyping import Float, Int

from ardm.apps.report.figures import grouped_losses, stair_edges, stair_heights
from ardm.planner import Plan

WIDTH, HEIGHT = 1000, 300
"""Units of the drawing, which the page stretches."""


def plan_outlines(losses: Float[np.ndarray, "S D"], plan: Plan) -> tuple[str, str, float]:
    """The paper's Figure 3 as two SVG paths, and the bits at the upper edge; areas are bits.

    The first path has the costs where steps share calls, the second one, in front of it, the losses with a call each.
    """
    edges = stair_edges(*losses.shape)
    heights, shared = (stair_heights(one, edges) for one in (losses, grouped_losses(losses, plan)))
    top = max(float(heights.max()), float(shared.max()), 1e-9)
    return _outline(edges, shared / top), _outline(edges, heights / top), top


def _outline(edges: Int[np.ndarray, "N"], heights: Float[np.ndarray, "_"]) -> str:
    """The outline of stairs as a path, with neighbours of equal height merged."""
    path, last = [f"M0 {HEIGHT}"], ""
    for stop, height in zip(edges[1:] / edges[-1], heights, strict=True):
        y = f"V{HEIGHT * (1 - height):.4g}"
        if y == last:
            path.pop()
        else:
            path.append(y)
        path.append(f"H{WIDTH * stop:.6g}")
        last = y
    return "".join([*path, f"V{HEIGHT}Z"])
