"""Table models: every conditional is arbitrary, and every probability can be enumerated.

The oracle below is written from Alg. 1 and 3 in plain Python. It shares nothing with the package but the
table of logits: no masks, ranks, levels or log-sum-exps.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise, permutations, product

import torch
from torch import Tensor, nn

from ardm.depth import BaseDepthMap, DepthMap, absorbing
from ardm.model import ARDM
from ardm.parametrizations import DataParametrization, DirectParametrization, Parametrization
from ardm.schedule import Schedule, full_schedule, uniform_schedule

Item = tuple[int, ...]
Orders = tuple[tuple[int, ...], ...]
Groups = Sequence[Sequence[tuple[int, int]]]
Decay = Callable[[int, int], int]
"""decay(k, i) is the value of data class k at level i."""
Children = Callable[[Sequence[float], int, int], dict[int, float]]
"""children(logits, parent, stage) are the probabilities of the next values of one variable."""


class TableNetwork(nn.Module):
    """A network with its own logits for every (stage, mask, inputs); it insists on the right step."""

    def __init__(self, num_stages: int, num_values: int, num_variables: int, num_outputs: int) -> None:
        super().__init__()
        self.num_values = num_values
        generator = torch.Generator().manual_seed(num_stages + 10 * num_values + 100 * num_outputs)
        shape = (num_stages, 2**num_variables, num_values**num_variables, num_variables, num_outputs)
        self.table = nn.Parameter(1.5 * torch.randn(shape, generator=generator, dtype=torch.float64))

    def forward(self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor) -> Tensor:
        assert torch.equal(t, mask.sum(1)), "t must count the revealed variables"
        places = torch.arange(inputs.shape[1])
        return self.table[stage, (mask * 2**places).sum(1), (inputs * self.num_values**places).sum(1)]


class Oracle:
    """Probabilities of a table model by plain loops; `orders` and `groups` have an entry for each stage."""

    def __init__(self, network: TableNetwork, decay: Decay, children: Children) -> None:
        self.decay = decay
        self._children = children
        self._table = network.table.tolist()
        self._num_values = network.num_values
        self.next_probs = cache(self._next_probs)

    def _next_probs(self, state: Item, known: tuple[bool, ...], stage: int, variable: int) -> dict[int, float]:
        """The distribution of a variable's next value in a state of which some variables are known."""
        row = sum(value * self._num_values**place for place, value in enumerate(state))
        column = sum(2**place for place, is_known in enumerate(known) if is_known)
        return self._children(self._table[stage][column][row][variable], state[variable], stage)

    def log_prob(self, x: Item, orders: Orders, groups: Groups | None = None) -> float:
        """log p(x | orders) in nats, one variable at a time or in groups."""
        steps = [(t, t + 1) for t in range(len(x))]
        return math.fsum(
            self.stage_log_prob(x, stage, order, steps if groups is None else groups[stage])
            for stage, order in enumerate(orders)
        )

    def stage_log_prob(self, x: Item, stage: int, order: Sequence[int], groups: Sequence[tuple[int, int]]) -> float:
        """log p(x^(s+1) | x^(s)); variables before the first group are known, those after the last never."""
        state = [self.decay(value, stage) for value in x]
        fine = [self.decay(value, stage + 1) for value in x]
        known = [False] * len(x)
        for variable in order[: groups[0][0]]:
            state[variable], known[variable] = fine[variable], True
        total = 0.0
        for start, stop in groups:
            before = tuple(state), tuple(known)
            for variable in order[start:stop]:
                total += math.log(self.next_probs(*before, stage, variable)[fine[variable]])
                state[variable], known[variable] = fine[variable], True
        return total


@dataclass(frozen=True)
class Case:
    """A table model with its oracle and everything that can be enumerated about it."""

    model: ARDM
    oracle: Oracle
    num_classes: int
    num_variables: int
    num_stages: int

    def items(self) -> list[Item]:
        """Every item."""
        return list(product(range(self.num_classes), repeat=self.num_variables))

    def stage_orders(self) -> list[tuple[int, ...]]:
        """Every order of one stage."""
        return list(permutations(range(self.num_variables)))

    def all_orders(self) -> list[Orders]:
        """Every combination of orders of the stages."""
        return list(product(self.stage_orders(), repeat=self.num_stages))

    def schedules(self) -> Iterator[Schedule]:
        """Every schedule from the first step to the last."""
        steps = range(1, self.num_variables)
        starts = [(0, *rest) for size in range(self.num_variables) for rest in combinations(steps, size)]
        for each in product(starts, repeat=self.num_stages):
            yield Schedule(starts=each, num_steps=self.num_variables)

    def full_schedule(self) -> Schedule:
        """One variable a call."""
        return full_schedule(self.num_variables, num_stages=self.num_stages)

    def grouped_schedule(self) -> Schedule:
        """Two calls for each stage; one for the last of several."""
        num_calls = max(2, 2 * self.num_stages - 1)
        return uniform_schedule(self.num_variables, num_calls, num_stages=self.num_stages)

    def component_nats(self, x: Item, stage: int, t: int) -> float:
        """L_{s,t}: the mean over orders of -log p of the variable revealed at step t."""
        steps = [(t, t + 1)]
        values = [-self.oracle.stage_log_prob(x, stage, order, steps) for order in self.stage_orders()]
        return math.fsum(values) / len(values)

    def mean_nats(self, x: Item, groups: Groups | None = None) -> float:
        """The mean over all orders of -log p(x | orders)."""
        values = [-self.oracle.log_prob(x, orders, groups) for orders in self.all_orders()]
        return math.fsum(values) / len(values)


def _case(
    depth: DepthMap, parametrization: Parametrization, num_variables: int, decay: Decay, children: Children
) -> Case:
    network = TableNetwork(depth.num_stages, depth.num_values, num_variables, parametrization.num_outputs)
    return Case(
        model=ARDM(network, parametrization, (num_variables,)),
        oracle=Oracle(network, decay, children),
        num_classes=depth.num_classes,
        num_variables=num_variables,
        num_stages=depth.num_stages,
    )


def _normalised(weights: dict[int, float]) -> dict[int, float]:
    total = math.fsum(weights.values())
    return {value: weight / total for value, weight in weights.items()}


def _data_children(decay: Decay) -> Children:
    def children(logits: Sequence[float], parent: int, stage: int) -> dict[int, float]:
        weights: dict[int, float] = {}
        for k, logit in enumerate(logits):
            if decay(k, stage) == parent:
                child = decay(k, stage + 1)
                weights[child] = weights.get(child, 0.0) + math.exp(logit)
        return _normalised(weights)

    return children


def _digit_children(num_classes: int, base: int, num_stages: int) -> Children:
    def children(logits: Sequence[float], parent: int, stage: int) -> dict[int, float]:
        scale = base ** (num_stages - 1 - stage)
        digits = [d for d in range(base) if parent + d * scale < num_classes]
        return _normalised({parent + d * scale: math.exp(logits[stage * base + d]) for d in digits})

    return children


def order_agnostic(num_classes: int, num_variables: int, value: int | None = None) -> Case:
    """One stage; masked variables hold `value`, or a class of their own."""
    depth = absorbing(num_classes, value)
    hidden = num_classes if value is None else value

    def decay(k: int, level: int) -> int:
        return k if level == 1 else hidden

    return _case(depth, DataParametrization(depth), num_variables, decay, _data_children(decay))


def upscale(num_classes: int, base: int, num_variables: int, *, direct: bool) -> Case:
    """Digits in base b, with either parametrization."""
    depth = BaseDepthMap(num_classes, base)
    num_stages = math.ceil(round(math.log(num_classes, base), 9))

    def decay(k: int, level: int) -> int:
        return k // base ** (num_stages - level) * base ** (num_stages - level)

    if direct:
        children = _digit_children(num_classes, base, num_stages)
        return _case(depth, DirectParametrization(depth), num_variables, decay, children)
    return _case(depth, DataParametrization(depth), num_variables, decay, _data_children(decay))


USER_MAPS = [[0, 0, 0, 0, 3, 0, 3], [0, 0, 6, 0, 4, 6, 0], [5, 5, 2, 2, 4, 0, 0]]
"""Five classes: 0 and 1 decay to the extra class 5, then with 2 and 3 to the extra class 6, then all to 3."""


def user_maps(num_variables: int) -> Case:
    """Three stages with maps of the user's own and two extra classes."""
    depth = DepthMap(USER_MAPS, num_classes=5)

    def decay(k: int, level: int) -> int:
        for stage in reversed(range(level, len(USER_MAPS))):
            k = USER_MAPS[stage][k]
        return k

    return _case(depth, DataParametrization(depth), num_variables, decay, _data_children(decay))


CASES: dict[str, Callable[[], Case]] = {
    "oa-2": cache(lambda: order_agnostic(2, 3)),
    "oa-3-in-data": cache(lambda: order_agnostic(3, 3, value=1)),
    "base2-4-data": cache(lambda: upscale(4, 2, 3, direct=False)),
    "base2-3-data": cache(lambda: upscale(3, 2, 3, direct=False)),
    "base2-4-direct": cache(lambda: upscale(4, 2, 3, direct=True)),
    "base2-3-direct": cache(lambda: upscale(3, 2, 3, direct=True)),
    "user-maps": cache(lambda: user_maps(2)),
}
ONE_STAGE = ["oa-2", "oa-3-in-data"]


def groups_of(schedule: Schedule) -> Groups:
    """The groups of each stage, from the starts alone."""
    return [list(pairwise((*starts, schedule.num_steps))) for starts in schedule.starts]


def assert_follows(counts: Tensor, probs: Sequence[float]) -> None:
    """Pearson's chi-square is within four standard deviations of its mean and no impossible class occurs."""
    expected = torch.tensor(probs, dtype=torch.float64) * counts.sum()
    possible = expected > 0
    assert counts[~possible].sum() == 0
    degrees = int(possible.sum()) - 1
    statistic = ((counts - expected)[possible].square() / expected[possible]).sum().item()
    assert statistic < degrees + 4 * math.sqrt(2 * degrees) + 4, (statistic, degrees)
