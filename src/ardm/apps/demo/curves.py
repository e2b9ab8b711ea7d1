"""The loss profile and the schedule as a drawing that scales with the page."""

import numpy as np
from jaxtyping import Float, Int

from ardm.apps.report.figures import grouped_losses, stair_edges, stair_heights
from ardm.planner import Plan

WIDTH, HEIGHT = 1000, 300
"""Units of the drawing, which the page stretches."""


def plan_drawing(losses: Float[np.ndarray, "S D"], plan: Plan) -> tuple[str, float]:
    """The paper's Figure 3 as SVG, and the bits at its upper edge.

    Areas are bits: of a call for each step in front, behind it what is lost where steps share calls.
    """
    num_stages, num_steps = losses.shape
    edges = stair_edges(num_stages, num_steps)
    heights, shared = (stair_heights(one, edges) for one in (losses, grouped_losses(losses, plan)))
    most = max(float(max(heights.max(), shared.max())), 1e-9)
    curves = [("lost", shared), ("loss", heights)]
    areas = "".join(f'<path class="{name}" d="{_area(edges, one / most)}"/>' for name, one in curves)
    between = [WIDTH * stage / num_stages for stage in range(1, num_stages)]
    lines = "".join(f'<path class="between" d="M{x:g} 0V{HEIGHT}"/>' for x in between)
    frame = f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"'
    return f'<svg class="curve" {frame} role="img" aria-label="Loss of each step">{areas}{lines}</svg>', most


def _area(edges: Int[np.ndarray, "N"], heights: Float[np.ndarray, "_"]) -> str:
    """The outline of stairs, as a path; those of one height are one."""
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
