"""From a trained model to an exact one: rounding, self-test, and the order and schedules that code best."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ardm.build import build_exact_core
from ardm.checkpoint import TrainedModel, exact_part
from ardm.codec.batching import Batching
from ardm.codec.calls import Items
from ardm.codec.coding_plan import CodingPlan, orders_and_schedule
from ardm.codec.format.options import OrderChoice
from ardm.codec.items import ItemCodec
from ardm.exact.network import ExactNetwork, SelfTest
from ardm.exact.operations import TorchOperations, float_product
from ardm.exact.outputs import OutputUnits
from ardm.exact.quantise import observe, quantise
from ardm.likelihood import bound
from ardm.model import ARDM
from ardm.objective import Corrupted, sample_corruption
from ardm.planner import plan
from ardm.profile import LossArray
from ardm.schedule import Schedule, cosine_schedule, full_schedule, uniform_schedule

CALIBRATION_BATCH = 16
REACHES = (1.0, 0.8, 0.65, 0.5)
"""Parts of the peaks of activations that are tried for bytes to reach to."""
REACH_PASSES = 2
"""Passes over the items that bits are measured in."""
TEST_ITEMS = 3
TEST_OUTPUTS = 32
BUDGETS = (5, 10, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000, 10_000)
"""Numbers of calls for which an exact model has schedules, as far as they fit, besides its own and one a variable."""
ScheduleKind = Literal["planned", "uniform", "cosine"]
SCHEDULE_KINDS: tuple[ScheduleKind, ...] = get_args(ScheduleKind)
"""Kinds of schedules that are tried: the planner knows losses in random orders, and other orders may want another."""
PSEUDORANDOM_SEEDS = 4
"""Random orders that are tried."""
OnStep = Callable[[int], None]


def export_model(
    trained: TrainedModel,
    calibration: Int[Tensor, "N D"],
    validation: Int[Tensor, "M D"],
    losses: LossArray,
    *,
    num_calls: int,
    order: OrderChoice | None = None,
    seed: int = 0,
    on_step: OnStep = lambda rows: None,
) -> TrainedModel:
    """An exact model; items of the training data set its scales.

    Held-out ones choose its order, unless it is given, and in that order its kind of schedule.
    """
    device = next(trained.model.parameters()).device
    generator = torch.Generator(device).manual_seed(seed)
    network = exact_network(trained, calibration.to(device), generator)
    planned = make_schedules(losses, num_calls)
    default = max(i for i, schedule in enumerate(planned) if i == 0 or schedule.num_calls <= num_calls)
    parametrization, shape = trained.model.parametrization, trained.model.shape

    def bits(order: OrderChoice, schedule: Schedule, items: Int[Tensor, "N D"]) -> float:
        coding = orders_and_schedule(order, shape, schedule)
        codec = ItemCodec(network, parametrization, shape, *coding, device=device)
        return float(codec.measure(Items.of(items), Batching(on_batch=on_step)).sum())

    order = order or best_order(lambda order, items: bits(order, planned[default], items), validation)
    # Strands keep only the numbers of calls of a schedule.
    kinds = SCHEDULE_KINDS[:1] if order.name == "strands" else SCHEDULE_KINDS
    families = [make_schedules(losses, num_calls, kind) for kind in kinds]
    schedules = best_family(families, lambda family: bits(order, family[default], validation))
    coding = CodingPlan(order=order, schedules=schedules, default=default)
    classes = trained.alphabet or parametrization.depth.num_classes
    exact = exact_part(trained.config.to_dict(), shape, classes, trained.sample_rate, network, coding)
    return replace(trained, model=ARDM(network, parametrization, shape), exact=exact)


def best_order(bits: Callable[[OrderChoice, Tensor], float], items: Int[Tensor, "N D"]) -> OrderChoice:
    """The candidate of the fewest bits: all are tried on some items, the better half of them on as many again, ..."""
    totals = dict.fromkeys(candidate_orders(), 0.0)
    for part in rounds(items):
        totals = {order: total + bits(order, part) for order, total in totals.items()}
        better = sorted(totals, key=totals.__getitem__)[: -(-len(totals) // 2)]
        totals = {order: totals[order] for order in better}
    return next(iter(totals))


def best_family(
    families: Sequence[tuple[Schedule, ...]], bits: Callable[[tuple[Schedule, ...]], float]
) -> tuple[Schedule, ...]:
    """The family of schedules of the fewest bits; a single one is not measured."""
    return families[0] if len(families) == 1 else min(families, key=bits)


def rounds(items: Int[Tensor, "N D"]) -> list[Int[Tensor, "P D"]]:
    """The items in a part for each halving of the candidates; few items make fewer rounds."""
    num_rounds = math.ceil(math.log2(len(candidate_orders())))
    return [part for part in items.tensor_split(num_rounds) if len(part)]


def num_tried(items: Int[Tensor, "N D"]) -> int:
    """How many items the search for an order codes, each counted as often as it is coded; that for schedules aside."""
    counts = [len(candidate_orders())]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // 2))
    return sum(count * len(part) for count, part in zip(counts, rounds(items), strict=False))


def candidate_orders() -> list[OrderChoice]:
    """The orders that an export tries."""
    named = [OrderChoice(name=name) for name in ("raster", "spaced", "strands", "halton")]
    return named + [OrderChoice(name="pseudorandom", seed=seed) for seed in range(PSEUDORANDOM_SEEDS)]


def make_schedules(losses: LossArray, num_calls: int, kind: ScheduleKind = "planned") -> tuple[Schedule, ...]:
    """Schedules of a kind for rising budgets, `num_calls` among them, and one call a variable at the end."""
    num_stages, num_variables = losses.shape
    most = num_stages * num_variables

    def schedule(calls: int) -> Schedule:
        if kind == "planned":
            return plan(losses, calls).schedule
        make = uniform_schedule if kind == "uniform" else cosine_schedule
        return make(num_variables, calls, num_stages=num_stages)

    budgets = [calls for calls in sorted({*BUDGETS, num_calls}) if num_stages <= calls < most]
    return (*map(schedule, budgets), full_schedule(num_variables, num_stages=num_stages))


def exact_network(
    trained: TrainedModel,
    calibration: Int[Tensor, "N D"],
    generator: torch.Generator,
    reaches: Sequence[float] = REACHES,
) -> ExactNetwork:
    """The network in exact form, scaled by what its layers reach on corrupted items, with the reach of fewest bits.

    Bits are measured on the same items with the same draws for every reach; a single one is not measured.
    """
    model = trained.model
    observations = observe(model, corruptions(model, calibration, generator))
    units = OutputUnits.of(model.parametrization)

    def rounded(reach: float) -> ExactNetwork:
        core = build_exact_core(trained.config, model.parametrization)
        quantise(copy.deepcopy(model.network).cpu(), core, replace(observations, reach=reach), units)
        test = make_test(model, core, calibration[:TEST_ITEMS], generator)
        return ExactNetwork(core.to(calibration.device), units, test)

    def bits(network: ExactNetwork) -> float:
        exact = ARDM(network, model.parametrization, model.shape)
        draws = torch.Generator(calibration.device).manual_seed(0)  # the same for all
        return bound(exact, calibration, draws, num_passes=REACH_PASSES, batch_size=CALIBRATION_BATCH).bits_per_dim

    return min(map(rounded, reaches), key=bits) if len(reaches) > 1 else rounded(reaches[0])


def corruptions(model: ARDM, items: Int[Tensor, "N D"], generator: torch.Generator) -> Iterator[Corrupted]:
    """Items at random steps, in batches."""
    for x in items.split(CALIBRATION_BATCH):
        yield sample_corruption(model.depth, x, generator)


def make_test(model: ARDM, core: torch.nn.Module, items: Int[Tensor, "N D"], generator: torch.Generator) -> SelfTest:
    """Some items at random steps, and what float64 arithmetic on a CPU gives for some of their variables."""
    c = sample_corruption(model.depth, items, generator)
    shape = (-1, *model.shape)
    where = torch.from_numpy(np.arange(TEST_OUTPUTS) * model.num_variables // TEST_OUTPUTS).expand(len(items), -1)
    inputs, mask, stage = c.inputs.view(shape).cpu(), c.mask.view(shape).cpu(), c.stage.cpu()
    outputs = core(inputs, mask, stage, where, TorchOperations(float_product(torch.float64), torch.float64))
    return SelfTest(inputs=inputs, mask=mask, stage=stage, where=where.contiguous(), outputs=outputs)
