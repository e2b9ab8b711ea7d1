"""Export a trained model as an exact one: quantisation, a self-test, and the best order and schedules."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from ardm import coding
from ardm.build import build_exact_coding_core, build_exact_core
from ardm.checkpoint import TrainedCoding, TrainedModel, exact_coding_part, exact_part
from ardm.codec.batching import Batching
from ardm.codec.calls import Items
from ardm.codec.coding_plan import CodingPlan, orders_and_schedule
from ardm.codec.format.options import OrderChoice
from ardm.codec.items import ItemCodec
from ardm.coding import CodingModel
from ardm.data.corpus import Corpus, spread
from ardm.exact.backends import SelfTest
from ardm.exact.coding_network import CodingTest, ExactCodingNetwork, full_pass
from ardm.exact.coding_transformer import ExactCodingTransformer
from ardm.exact.network import ExactNetwork
from ardm.exact.operations import TorchOperations, float_product
from ardm.exact.outputs import OutputUnits
from ardm.exact.quantise import calibrate, calibrate_coding, quantise
from ardm.likelihood import bound
from ardm.model import ARDM
from ardm.names import ScheduleKind, Shape
from ardm.objective import sample_corruption
from ardm.planner import schedule_of_kind
from ardm.profile import LossArray
from ardm.schedule import Schedule, full_schedule
from ardm.strands import characters_before, strand_layout

CALIBRATION_BATCH = 16
CLIPS = (1.0, 0.8, 0.65, 0.5)
"""Fractions of activation peaks at which clamping is tried."""
CLIP_PASSES = 2
"""Passes over the items that measure the bits of each clip."""
COST_PASSES = 4
"""Passes over the items that measure the cost of rounding."""
TEST_ITEMS = 3
TEST_OUTPUTS = 32
TEST_TEXTS = 2
"""Texts of a coding model's self-test."""
TEST_STRANDS = (24, 3)
"""Lengths of their strands."""
CALL_BUDGETS = (5, 10, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000, 10_000)
"""Numbers of calls of an exact model's schedules, where they fit, besides its default and one call per variable."""
SCHEDULE_KINDS: tuple[ScheduleKind, ...] = ("planned", "uniform", "cosine")
"""Kinds of schedules to try: planned ones are best for random orders, but perhaps not for the model's own order."""
PSEUDORANDOM_SEEDS = 4
"""Number of pseudorandom orders to try."""
OnStep = Callable[[int], None]


def choose_items(
    corpus: Corpus, shape: Shape, num_calibrating: int, num_held_out: int
) -> tuple[Int[Tensor, "N D"], Int[Tensor, "M D"]]:
    """Training items, spread evenly, that calibrate scales, and the first held-out ones, that orders are tried on."""
    train = corpus.items("train", shape)
    chosen = train[spread(num_calibrating, len(train))], corpus.items("valid", shape)[:num_held_out].copy()
    return torch.from_numpy(chosen[0]).long(), torch.from_numpy(chosen[1]).long()


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
    """The exact form of a model, with scales calibrated on items of the training data.

    Held-out items choose its order, unless one is given, and then its kind of schedule.
    """
    device = next(trained.model.parameters()).device
    generator = torch.Generator(device).manual_seed(seed)
    network = exact_network(trained, calibration.to(device), generator)
    planned = make_schedules(losses, num_calls)
    default = max(i for i, schedule in enumerate(planned) if i == 0 or schedule.num_calls <= num_calls)
    parametrization, shape = trained.model.parametrization, trained.model.shape

    def bits(order: OrderChoice, schedule: Schedule, items: Int[Tensor, "N D"]) -> float:
        plan = orders_and_schedule(order, shape, schedule)
        codec = ItemCodec(network, parametrization, shape, *plan, device=device)
        return float(codec.measure(Items.of(items), Batching(on_batch=on_step)).sum())

    order = order or best_order(lambda order, items: bits(order, planned[default], items), validation)
    # With strands, only a schedule's numbers of calls matter.
    kinds = SCHEDULE_KINDS[:1] if order.name == "strands" else SCHEDULE_KINDS
    families = [make_schedules(losses, num_calls, kind) for kind in kinds]
    schedules = families[0]
    if len(families) > 1:
        schedules = min(families, key=lambda family: bits(order, family[default], validation))
    coding_plan = CodingPlan(order=order, schedules=schedules, default=default)
    classes = trained.alphabet or parametrization.depth.num_classes
    exact = exact_part(trained.config.to_dict(), shape, classes, trained.sample_rate, network, coding_plan)
    return replace(trained, model=ARDM(network, parametrization, shape), exact=exact)


def best_order(bits: Callable[[OrderChoice, Tensor], float], items: Int[Tensor, "N D"]) -> OrderChoice:
    """The candidate order with the fewest bits, by successive halving on parts of the items."""
    totals = dict.fromkeys(candidate_orders(), 0.0)
    for part in halving_parts(items):
        totals = {order: total + bits(order, part) for order, total in totals.items()}
        better = sorted(totals, key=totals.__getitem__)[: -(-len(totals) // 2)]
        totals = {order: totals[order] for order in better}
    return next(iter(totals))


def halving_parts(items: Int[Tensor, "N D"]) -> list[Int[Tensor, "P D"]]:
    """The items in parts, one per halving of the candidate orders; fewer if there are too few items."""
    num_rounds = math.ceil(math.log2(len(candidate_orders())))
    return [part for part in items.tensor_split(num_rounds) if len(part)]


def num_tried(items: Int[Tensor, "N D"]) -> int:
    """The number of items that the search for an order codes, counting repetitions."""
    counts = [len(candidate_orders())]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // 2))
    return sum(count * len(part) for count, part in zip(counts, halving_parts(items), strict=False))


def num_rows(items: Int[Tensor, "N D"], num_calls: int, order: OrderChoice | None) -> int:
    """The rows that the search for an order, unless one is given, and for a kind of schedule evaluates."""
    return num_calls * ((0 if order else num_tried(items)) + len(SCHEDULE_KINDS) * len(items))


def rounding_cost(
    trained: TrainedModel, exact: TrainedModel, items: Int[Tensor, "N D"], seed: int
) -> tuple[float, float]:
    """The bound in bits per variable of a model and of its exact form, with the same random draws."""
    items = items.to(next(trained.model.parameters()).device)
    before, after = (_mean_bound(one.model, items, COST_PASSES, seed) for one in (trained, exact))
    return before, after


def _mean_bound(model: ARDM, items: Int[Tensor, "N D"], num_passes: int, seed: int) -> float:
    draws = torch.Generator(items.device).manual_seed(seed)
    return bound(model, items, draws, num_passes=num_passes, batch_size=CALIBRATION_BATCH).bits_per_dim


def candidate_orders() -> list[OrderChoice]:
    """The orders to try."""
    named = [OrderChoice(name=name) for name in ("raster", "spaced", "strands", "halton")]
    return named + [OrderChoice(name="pseudorandom", seed=seed) for seed in range(PSEUDORANDOM_SEEDS)]


def make_schedules(losses: LossArray, num_calls: int, kind: ScheduleKind = "planned") -> tuple[Schedule, ...]:
    """Schedules of a kind for rising budgets that include `num_calls`, and one with a call per variable."""
    num_stages, num_variables = losses.shape
    budgets = [c for c in sorted({*CALL_BUDGETS, num_calls}) if num_stages <= c < num_stages * num_variables]
    schedules = (schedule_of_kind(kind, losses, calls) for calls in budgets)
    return (*schedules, full_schedule(num_variables, num_stages=num_stages))


def exact_network(
    trained: TrainedModel,
    calibration: Int[Tensor, "N D"],
    generator: torch.Generator,
    clips: Sequence[float] = CLIPS,
) -> ExactNetwork:
    """The exact form of the network, calibrated on corrupted items, with the clip that gives the fewest bits.

    Bits are measured on the same items with the same draws for every clip; a single clip is not measured.
    """
    model = trained.model
    batches = (sample_corruption(model.depth, x, generator) for x in calibration.split(CALIBRATION_BATCH))
    ranges = calibrate(model, batches)
    units = OutputUnits.of(model.parametrization)

    def rounded(clip: float) -> ExactNetwork:
        core = build_exact_core(trained.config, model.parametrization)
        quantise(copy.deepcopy(model.network).cpu(), core, replace(ranges, clip=clip), units)
        test = make_test(model, core, calibration[:TEST_ITEMS], generator)
        return ExactNetwork(core.to(calibration.device), units, test)

    def bits(network: ExactNetwork) -> float:
        return _mean_bound(ARDM(network, model.parametrization, model.shape), calibration, CLIP_PASSES, seed=0)

    return min(map(rounded, clips), key=bits) if len(clips) > 1 else rounded(clips[0])


def export_coding(
    trained: TrainedCoding,
    calibration: Int[Tensor, "N D"],
    *,
    calls: int,
    seed: int = 0,
    clips: Sequence[float] = CLIPS,
    on_step: OnStep = lambda rows: None,
) -> TrainedCoding:
    """The exact form of a coding model, with scales calibrated on items of the training data.

    Of several clips, the one that gives these items the fewest bits is taken.
    """
    model, device = trained.model, next(trained.model.parameters()).device
    generator = torch.Generator(device).manual_seed(seed)
    calibration = calibration.to(device)
    batches = ((x, model.draw_layout(len(x), generator)) for x in calibration.split(CALIBRATION_BATCH))
    ranges = calibrate_coding(model, batches)
    units = OutputUnits.of(model.parametrization)

    def rounded(clip: float) -> ExactCodingNetwork:
        core = build_exact_coding_core(trained.config, model.parametrization)
        quantise(copy.deepcopy(model.network).cpu(), core, replace(ranges, clip=clip), units)
        return ExactCodingNetwork(core.to(device), units, make_coding_test(core, calibration[:TEST_TEXTS].cpu()))

    def bits(network: ExactCodingNetwork) -> float:
        exact = CodingModel(network, model.parametrization, model.shape)
        return coding.score(exact, calibration, calls=calls, batch_size=1, on_batch=on_step).bits_per_dim

    network = min(map(rounded, clips), key=bits) if len(clips) > 1 else rounded(clips[0])
    part = exact_coding_part(trained.config.to_dict(), trained.alphabet, network, calls)
    return replace(trained, model=CodingModel(network, model.parametrization, model.shape), exact=part)


def coding_cost(
    trained: TrainedCoding, exact: TrainedCoding, items: Int[Tensor, "N D"], calls: int
) -> tuple[float, float]:
    """The exact bits per character of a coding model and of its exact form."""
    items = items.to(next(trained.model.parameters()).device)
    before, after = (coding.score(one.model, items, calls=calls, batch_size=4) for one in (trained, exact))
    return before.bits_per_dim, after.bits_per_dim


def make_coding_test(core: ExactCodingTransformer, items: Int[Tensor, "N D"]) -> CodingTest:
    """A self-test: texts in strands of several lengths, with some characters' outputs computed in float64 on a CPU."""
    num_items, length = items.shape
    lengths = torch.tensor([min(length, strand) for strand in TEST_STRANDS])[
        torch.arange(num_items) % len(TEST_STRANDS)
    ]
    where = torch.tensor(spread(TEST_OUTPUTS, length)).expand(num_items, -1).contiguous()
    ops = TorchOperations(float_product(torch.float64), torch.float64)
    layout = strand_layout(length, torch.full_like(lengths, length), lengths)
    outputs = full_pass(core, characters_before(items, layout.num_before, core.start), layout, ops)
    chosen = outputs.take_along_dim(where[..., None], 1)
    return CodingTest(inputs=items, lengths=lengths, where=where, outputs=chosen)


def make_test(model: ARDM, core: torch.nn.Module, items: Int[Tensor, "N D"], generator: torch.Generator) -> SelfTest:
    """A self-test: items at random steps, with some variables' outputs computed in float64 on a CPU."""
    c = sample_corruption(model.depth, items, generator)
    shape = (-1, *model.shape)
    where = torch.tensor(spread(TEST_OUTPUTS, model.num_variables)).expand(len(items), -1)
    inputs, mask, stage = c.inputs.view(shape).cpu(), c.mask.view(shape).cpu(), c.stage.cpu()
    outputs = core(inputs, mask, stage, where, TorchOperations(float_product(torch.float64), torch.float64))
    return SelfTest(inputs=inputs, mask=mask, stage=stage, where=where.contiguous(), outputs=outputs)
