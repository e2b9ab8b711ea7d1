"""Models of the library around tiny networks of one's own."""

from collections.abc import Iterator
from contextlib import contextmanager

import jaxtyping
import torch
from table_model import CASES, Case, TableNetwork
from torch import Tensor, nn

import ardm
from ardm.library.model import Model

SOME_CASES = ["oa-2", "base2-4-data", "base2-3-data", "base2-4-direct", "base2-3-direct"]


def around(name: str) -> tuple[Case, Model]:
    """A table case, and the library's model around its network."""
    case = CASES[name]()
    network, classes, variables = case.model.network, case.num_classes, case.num_variables
    if case.num_stages == 1:
        return case, ardm.order_agnostic(network, classes, variables)
    return case, ardm.upscale(network, classes, 2, variables, parametrization=name.split("-")[2])


class Conditional(nn.Module):
    """A network for each label; rows of a batch with another label are answered by another network."""

    def __init__(self, networks: list[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor, label: Tensor) -> Tensor:
        assert label.shape == stage.shape, "a label for each row"
        outputs = torch.stack([network(inputs, mask, stage, t) for network in self.networks])
        return outputs[label, torch.arange(len(label))]


def other_table(num_variables: int = 3, num_classes: int = 2) -> TableNetwork:
    """A table network of one stage, unlike that of the case of its size."""
    network = TableNetwork(1, num_classes + 1, num_variables, num_classes)
    with torch.no_grad():
        network.table.copy_(network.table.flip(-1, 1))
    return network


class Small(nn.Module):
    """A network that learns: an embedding of all values, and a layer to the logits of all variables."""

    def __init__(self, num_classes: int = 2, num_variables: int = 5, width: int = 8, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_classes + 1, width)
        self.dropout = nn.Dropout(dropout)
        self.layer = nn.Linear(width * num_variables, num_variables * num_classes)

    def forward(self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor) -> Tensor:
        hidden = self.dropout(self.embedding(inputs.flatten(1)).flatten(1))
        return self.layer(hidden).view(*inputs.shape, -1)


class Labelled(Small):
    """The same with a label from which it computes as well."""

    def __init__(self, num_classes: int = 2, num_variables: int = 5, num_labels: int = 2) -> None:
        super().__init__(num_classes, num_variables)
        self.label = nn.Embedding(num_labels, num_variables * num_classes)

    def forward(self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor, label: Tensor) -> Tensor:
        return super().forward(inputs, mask, stage, t) + self.label(label).view(*inputs.shape, -1)


@contextmanager
def as_users_call() -> Iterator[None]:
    """A context without the type checks that tests run under, for arguments of a wrong type."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def small(dropout: float = 0.0, seed: int = 0, **options: int) -> Model:
    """An order-agnostic model of five bits around a network that learns."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ardm.order_agnostic(Small(dropout=dropout, **options), 2, 5)
