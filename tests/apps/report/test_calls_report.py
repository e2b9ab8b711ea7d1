"""The tables of bits against orders and calls."""

import math

import torch
from table_model import order_agnostic

from ardm.apps.report.calls import Row, markdown
from ardm.likelihood import bound, mean_bits


def exact_row(order: str, schedule: str, calls: int, bits: float) -> Row:
    estimate = mean_bits(torch.tensor([bits, bits]), 1, "exact", is_exact=True)
    return Row(order=order, schedule=schedule, calls=calls, estimate=estimate)


def test_one_variable_per_call_is_the_first_budget(generator):
    """All schedules in random orders share its number; fixed orders have one only if it was scored."""
    model = order_agnostic(2, 3).model
    estimate = bound(model, torch.zeros(4, 3, dtype=torch.long), generator, num_passes=4)
    orders = [
        Row(order="random", schedule="one variable per call", calls=3, estimate=estimate),
        exact_row("raster", "one variable per call", 3, 1.5),
    ]
    budgets = [
        exact_row(o, s, 2, 1.75)
        for o, s in (("random", "planned"), ("random", "uniform"), ("raster", "planned"), ("halton", "planned"))
    ]
    lines = markdown(orders, budgets, "bits").split("\n")
    number = f"{estimate.bits_per_dim:.3f} ± {estimate.half_width:.3f}"
    assert lines[2] == f"| random | {number} | bound, ± {estimate.draws_half_width:.3f} from its draws |"
    assert lines[-2] == f"| 3 | {number} | {number} | 1.500 ± 0.000 |  |"
    assert lines[-1] == "| 2 | 1.750 ± 0.000 | 1.750 ± 0.000 | 1.750 ± 0.000 | 1.750 ± 0.000 |"
    assert math.isfinite(estimate.draws_half_width)
    whole = [exact_row("random", "planned", 3, 1.25)]
    assert markdown(orders, whole, "bits").split("\n")[-1] == "| 3 | 1.250 ± 0.000 |"
