"""The labels and stairs of a plan's figure. SVG files keep each text in a comment."""

import numpy as np
import pytest

from ardm.library.plots import MAX_STAIRS, draw_plan, grouped_losses, plan_figure, stair_edges, stair_heights
from ardm.planner import plan


def texts(losses: np.ndarray, num_calls: int, path) -> str:
    draw_plan(losses, plan(losses, num_calls), path)
    return path.read_text()


def test_one_stage_is_labelled_by_steps(tmp_path):
    losses = np.array([[4.0, 3.0, 2.0, 1.0]])
    drawn = texts(losses, 2, tmp_path / "plan.svg")
    for text in (
        "4 calls: 2.500 bits per variable",
        "2 calls: 3.000 bits per variable",
        "lost by sharing calls: 20.00%",
        "step (variables revealed before it)",
        "loss of a step (bits)",
    ):
        assert f"<!-- {text} -->" in drawn


def test_a_notebook_gets_a_picture():
    losses = np.array([[4.0, 3.0, 2.0, 1.0]])
    assert plan_figure(losses, plan(losses, 2))._repr_png_().startswith(b"\x89PNG")


def test_stages_are_numbered(tmp_path):
    losses = np.linspace(2, 1, 24).reshape(3, 8)
    drawn = texts(losses, 6, tmp_path / "plan.svg")
    assert "<!-- stage, of 8 steps each -->" in drawn
    assert all(f"<!-- {stage} -->" in drawn for stage in (1, 2, 3))
    assert "step (variables" not in drawn


@pytest.mark.parametrize("losses", [np.zeros((1, 3)), np.ones((8, 16_000))], ids=["nothing", "sound"])
def test_extremes_can_be_drawn(losses, tmp_path):
    draw_plan(losses, plan(losses, 8 * len(losses) if losses.size > 3 else 2), tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_few_steps_have_a_stair_each():
    losses = np.linspace(2, 1, 24).reshape(3, 8)
    edges = stair_edges(3, 8)
    assert edges.tolist() == list(range(25))
    assert np.array_equal(stair_heights(losses, edges), losses.ravel())


@pytest.mark.parametrize(("num_stages", "num_steps"), [(8, 16_000), (1, 16_000), (16, 999), (3000, 2)])
def test_many_steps_share_stairs_of_the_same_area(num_stages, num_steps):
    losses = np.random.default_rng(0).random((num_stages, num_steps))
    edges = stair_edges(num_stages, num_steps)
    assert len(edges) - 1 <= max(MAX_STAIRS, num_stages)
    assert set(range(0, losses.size + 1, num_steps)) <= set(edges.tolist())
    widths = np.diff(edges)
    assert widths.min() >= 1
    areas = np.add.reduceat(
        stair_heights(losses, edges) * widths, np.searchsorted(edges, num_steps * np.arange(num_stages))
    )
    assert areas == pytest.approx(losses.sum(1))


def test_steps_of_a_call_pay_the_loss_of_its_first():
    losses = np.array([[4.0, 3.0, 2.0, 1.0]])
    assert grouped_losses(losses, plan(losses, 2)).tolist() == [[4.0, 4.0, 2.0, 2.0]]
