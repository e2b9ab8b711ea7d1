"""Density estimation: order-agnostic ARDMs on thirteen binary data sets, beside trees and published figures.

    python runs/density.py DATA [SETS...] --minutes M --out table.jsonl

DATA holds a folder for each set with SET.train.data, SET.valid.data and SET.test.data: a row of 0 and 1 per line,
separated by commas. Each set is trained for the steps of its recipe, or for M minutes if that is less. The test split
is read once, for the last line of a set: the mean log-likelihood of its rows in nats,

    bound      averaged over R random orders outside the logarithm,
    ensemble   of the uniform mixture of the same R orders: their average inside the logarithm,

both exact, with one variable per call. Recipes were chosen on validation rows alone (docs/LOG.md). A set that is
already in the output file is measured anew and replaces its line; the table shows all lines of the file.
"""

import argparse
import json
import math
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor, nn

import ardm

Z_95 = 1.959964
SMOOTHINGS = (0.001, 0.01, 0.03, 0.1, 0.3, 0.5, 1.0, 2.0, 4.0)
"""Pseudo-counts of each cell that the baselines choose from, on validation rows."""
BATCH_SIZE = 1024
"""Rows of a call when scoring."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a set is trained and scored."""

    width: int = 512
    blocks: int = 2
    linear: bool = False
    """Whether each logit has a linear function of the known values beside what the blocks give."""
    dropout: float = 0.0
    steps: int = 4000
    batch_size: int = 256
    learning_rate: float = 2e-3
    cross_entropy_weight: float = 4.0
    members: int = 1
    """Networks, trained apart, whose logits are averaged: one model in the end."""
    orders: int = 8
    """Random orders that the test rows are scored in."""


RECIPES = {
    "nltcs": Recipe(width=256, steps=1500, orders=16),
    "plants": Recipe(cross_entropy_weight=2.0),
    "baudio": Recipe(width=384, dropout=0.1, steps=1500),
    "jester": Recipe(width=384, dropout=0.1, steps=1500),
    "bnetflix": Recipe(width=384, dropout=0.1, steps=1500),
    "accidents": Recipe(cross_entropy_weight=8.0),
    "pumsb_star": Recipe(cross_entropy_weight=8.0),
    "dna": Recipe(
        width=256, blocks=1, linear=True, dropout=0.2, steps=3000, batch_size=128, learning_rate=5e-3, members=2
    ),
    "mushrooms": Recipe(width=256, steps=8000, batch_size=128, learning_rate=3e-3),
    "nips": Recipe(width=256, blocks=1, dropout=0.5, steps=600, batch_size=64, members=3, orders=4),
    "bbc": Recipe(width=64, blocks=0, dropout=0.2, steps=900, batch_size=128, members=3, orders=4),
    "moviereview": Recipe(width=256, blocks=1, dropout=0.5, steps=900, batch_size=128, orders=4),
    "voting": Recipe(width=256, blocks=1, dropout=0.3, steps=1500, batch_size=128, orders=4),
}


@dataclass(frozen=True, kw_only=True)
class Published:
    """Mean test log-likelihoods in nats from papers, as recalled: none was looked up again for this table."""

    eonade: float | None = None
    """EoNADE with 16 orders (Uria, Murray and Larochelle 2014, Table 2)."""
    best: float | None = None
    method: str = ""


HCLT = "HCLT (Liu and Van den Broeck 2021, Table 2)"
BEST_CIRCUIT = "best circuit listed by Correia et al. 2023, Table 1"
PUBLISHED = {
    "nltcs": Published(best=-5.99, method=HCLT),
    "plants": Published(best=-11.84, method=BEST_CIRCUIT),
    "baudio": Published(best=-39.39, method=BEST_CIRCUIT),
    "jester": Published(best=-51.29, method=BEST_CIRCUIT),
    "bnetflix": Published(best=-55.71, method=BEST_CIRCUIT),
    "accidents": Published(best=-26.74, method=HCLT),
    "pumsb_star": Published(best=-22.15, method=BEST_CIRCUIT),
    "dna": Published(eonade=-82.31, best=-79.05, method=HCLT),
    "mushrooms": Published(eonade=-9.69, best=-9.55, method="DARN (Germain et al. 2015, Table 3)"),
    "nips": Published(eonade=-272.39, best=-272.39, method="EoNADE"),
    "bbc": Published(best=-229.21, method=BEST_CIRCUIT),
}


@dataclass(frozen=True, kw_only=True)
class Splits:
    """The rows of a set."""

    train: Int[Tensor, "N D"]
    valid: Int[Tensor, "M D"]

    @property
    def num_variables(self) -> int:
        """The number of columns D."""
        return self.train.shape[1]


class Block(nn.Module):
    """A residual layer: h + W2 gelu(W1 norm(h)), the identity at first."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        last = nn.Linear(width, width)
        nn.init.zeros_(last.weight)
        self.layers = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.GELU("tanh"), nn.Dropout(dropout), last
        )

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.layers(hidden)


class ResidualNetwork(nn.Module):
    """A multilayer perceptron from the known values, and which they are, to a logit for each variable.

    Its matrices are multiplied in bfloat16. At first it gives the frequencies of the training rows.
    """

    def __init__(self, recipe: Recipe, frequencies: Tensor) -> None:
        super().__init__()
        num_variables = len(frequencies)
        self.first = nn.Linear(2 * num_variables, recipe.width)
        self.progress = nn.Linear(2, recipe.width)
        self.dropout = nn.Dropout(recipe.dropout)
        self.blocks = nn.Sequential(*(Block(recipe.width, recipe.dropout) for _ in range(recipe.blocks)))
        self.norm = nn.LayerNorm(recipe.width)
        self.last = nn.Linear(recipe.width, num_variables)
        nn.init.normal_(self.last.weight, std=0.1 * recipe.width**-0.5)
        nn.init.zeros_(self.last.bias)
        self.linear = nn.Linear(2 * num_variables, num_variables, bias=False) if recipe.linear else None
        if self.linear is not None:
            nn.init.zeros_(self.linear.weight)
        self.register_buffer("logits", frequencies.logit())

    def forward(self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor) -> Tensor:
        with torch.autocast(inputs.device.type, torch.bfloat16):
            logits = self._logits(torch.cat([mask, mask & (inputs == 1)], 1).float(), t / mask.shape[1])
        logits = logits.float() + self.logits
        return torch.stack([torch.zeros_like(logits), logits], -1)

    def _logits(self, known: Tensor, share: Tensor) -> Tensor:
        left = 1 - share + 2 / known.shape[1]
        hidden = self.first(known) + self.progress(torch.stack([share, left.log()], 1))
        hidden = self.blocks(self.dropout(hidden))
        logits = self.last(self.dropout(self.norm(hidden)))
        return logits if self.linear is None else logits + self.linear(known)


class AverageNetwork(nn.Module):
    """The mean of the outputs of several networks."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, inputs: Tensor, mask: Tensor, stage: Tensor, t: Tensor) -> Tensor:
        return torch.stack([network(inputs, mask, stage, t) for network in self.networks]).mean(0)


def train(splits: Splits, recipe: Recipe, minutes: float, seed: int) -> ardm.Model:
    """A model of the training rows; each of its networks keeps the weights that do best on validation rows."""
    frequencies = (splits.train.sum(0) + 1) / (len(splits.train) + 2)
    networks = []
    for member in range(recipe.members):
        torch.manual_seed(seed + member)
        network = ResidualNetwork(recipe, frequencies)
        model = ardm.order_agnostic(network, num_classes=2, shape=splits.num_variables)
        ardm.fit(
            model,
            splits.train,
            valid=splits.valid,
            steps=recipe.steps,
            minutes=minutes / recipe.members,
            batch_size=recipe.batch_size,
            learning_rate=recipe.learning_rate,
            cross_entropy_weight=recipe.cross_entropy_weight,
            seed=seed + member,
            progress=False,
        )
        networks.append(network)
    return ardm.order_agnostic(AverageNetwork(networks), num_classes=2, shape=splits.num_variables).eval()


def log_likelihoods(model: ardm.Model, x: Int[Tensor, "N D"], num_orders: int, seed: int) -> Float64[Tensor, "R N"]:
    """log p(x | order) in nats of each row in each of R random orders, which all rows share."""
    generator = torch.Generator().manual_seed(seed)
    orders = ardm.random_stage_orders(num_orders, 1, x.shape[1], generator)
    schedule = ardm.full_schedule(x.shape[1])
    bits = [
        ardm.exact_bits(model.ardm, x, order.expand(len(x), 1, -1), schedule, batch_size=BATCH_SIZE) for order in orders
    ]
    return -math.log(2) * torch.stack(bits)


def mixture(values: Float64[Tensor, "R N"]) -> Float64[Tensor, "N"]:
    """The logarithm of the mean over orders.

    >>> import torch
    >>> mixture(torch.tensor([[0.5], [0.25]]).log()).exp().tolist()
    [0.375]
    """
    return values.logsumexp(0) - math.log(len(values))


def half_width(values: Float64[Tensor, "N"]) -> float:
    """Half the 95% interval of the mean over rows."""
    return Z_95 * float(values.std()) / len(values) ** 0.5


Baseline = Callable[[Int[Tensor, "N D"], Int[Tensor, "M D"], float], Float64[Tensor, "M"]]


def independence(train: Int[Tensor, "N D"], x: Int[Tensor, "M D"], smoothing: float) -> Float64[Tensor, "M"]:
    """log p(x) in nats under independent variables with smoothed frequencies.

    >>> import torch
    >>> independence(torch.tensor([[0, 1], [1, 1]]), torch.tensor([[0, 1]]), 1.0).exp().tolist()
    [0.375]
    """
    ones = (train.double().sum(0) + smoothing) / (len(train) + 2 * smoothing)
    return torch.where(x == 1, ones.log(), (-ones).log1p()).sum(1)


def chow_liu(train: Int[Tensor, "N D"], x: Int[Tensor, "M D"], smoothing: float) -> Float64[Tensor, "M"]:
    """log p(x) in nats under the tree of the largest mutual information (Chow and Liu 1968), smoothed.

    >>> import torch
    >>> copies = torch.tensor([[0, 0], [1, 1]])
    >>> chow_liu(copies, copies, 0.0).exp().tolist()
    [0.5, 0.5]
    """
    pairs = _pair_frequencies(train, smoothing)
    own = pairs.diagonal(dim1=2, dim2=3)  # the pair of a variable with itself holds its frequencies
    ones = own[1, 1] + own[0, 1]
    nats = torch.where(x[:, 0] == 1, ones[0].log(), (-ones[0]).log1p())
    for parent, child in spanning_tree(_mutual_information(pairs)):
        joint = pairs[:, :, parent, child]
        conditional = (joint / joint.sum(1, keepdim=True)).log()
        nats = nats + conditional[x[:, parent], x[:, child]]
    return nats


def _pair_frequencies(train: Int[Tensor, "N D"], smoothing: float) -> Float64[Tensor, "2 2 D D"]:
    """Smoothed frequencies of the values of each pair of variables."""
    one = train.double()
    values = torch.stack([1 - one, one])
    counts = torch.einsum("ani,bnj->abij", values, values)
    return (counts + smoothing) / (len(train) + 4 * smoothing)


def _mutual_information(pairs: Float64[Tensor, "2 2 D D"]) -> Float64[Tensor, "D D"]:
    product = pairs.sum(1, keepdim=True) * pairs.sum(0, keepdim=True)
    return torch.where(pairs > 0, pairs * (pairs / product).log(), 0.0).sum((0, 1))


def spanning_tree(weights: Float64[Tensor, "D D"]) -> Iterable[tuple[int, int]]:
    """The edges (parent, child) of the spanning tree of the largest weight, from variable 0 (Prim).

    >>> import torch
    >>> list(spanning_tree(torch.tensor([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])))
    [(0, 2), (2, 1)]
    """
    best, parent = weights[0].clone(), torch.zeros(len(weights), dtype=torch.long)
    outside = torch.ones(len(weights), dtype=torch.bool)
    outside[0] = False
    while outside.any():
        child = int(best.masked_fill(~outside, -math.inf).argmax())
        yield int(parent[child]), child
        outside[child] = False
        closer = weights[child] > best
        best, parent = torch.where(closer, weights[child], best), torch.where(closer, child, parent)


def tuned(baseline: Baseline, splits: Splits) -> float:
    """The smoothing that does best on validation rows."""
    return max(SMOOTHINGS, key=lambda s: float(baseline(splits.train, splits.valid, s).mean()))


class Stopwatch:
    """Seconds since it was made, on the clock and of this process's work; on a shared machine they differ."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def seconds(self) -> dict[str, int]:
        """Both numbers, rounded."""
        clock, process = self._start
        return {"clock": round(time.perf_counter() - clock), "cpu": round(time.process_time() - process)}


def measure(data: Path, name: str, minutes: float, seed: int) -> dict[str, Any]:
    """Train on a set and score its test rows: a line of the output."""
    recipe = RECIPES[name]
    splits = Splits(train=read(data, name, "train"), valid=read(data, name, "valid"))
    smoothings = {baseline: tuned(baseline, splits) for baseline in (independence, chow_liu)}
    start = Stopwatch()
    model = train(splits, recipe, minutes, seed)
    training = start.seconds()
    valid_bits = model.score(splits.valid, passes=8, batch_size=BATCH_SIZE, seed=seed).nats.mean()
    test = read(data, name, "test")
    start = Stopwatch()
    values = log_likelihoods(model, test, recipe.orders, seed)
    scoring = start.seconds()
    ensemble = mixture(values)
    tree = chow_liu(splits.train, test, smoothings[chow_liu])
    return {
        "set": name,
        "variables": splits.num_variables,
        "train_rows": len(splits.train),
        "test_rows": len(test),
        "independence": float(independence(splits.train, test, smoothings[independence]).mean()),
        "chow_liu": float(tree.mean()),
        "valid_bound": -float(valid_bits),
        "bound": float(values.mean()),
        "ensemble": float(ensemble.mean()),
        "half_width": half_width(ensemble),
        "gain_over_chow_liu": float((ensemble - tree).mean()),
        "gain_half_width": half_width(ensemble - tree),
        "recipe": asdict(recipe),
        "seed": seed,
        "minutes_limit": minutes,
        "training_seconds": training,
        "scoring_seconds": scoring,
        "threads": torch.get_num_threads(),
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
    }


def read(data: Path, name: str, split: str) -> Int[Tensor, "N D"]:
    """The rows of a split."""
    rows = np.loadtxt(data / name / f"{name}.{split}.data", delimiter=",", dtype=np.int64, ndmin=2)
    return torch.from_numpy(rows)


def table(records: Iterable[dict[str, Any]]) -> str:
    """The records as a Markdown table, in nats per row."""
    lines = [
        "| set | D | rows | independence | Chow-Liu | ARDM, bound | ARDM, R orders | EoNADE | best published |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for r in records:
        known = PUBLISHED.get(r["set"], Published())
        best = f"{known.best:.2f}, {known.method}" if known.best is not None else ""
        eonade = f"{known.eonade:.2f}" if known.eonade is not None else ""
        close = known.best is not None and r["ensemble"] >= known.best * 1.02
        ours = f"{r['ensemble']:.2f} ± {r['half_width']:.2f} (R = {r['recipe']['orders']})"
        numbers = [f"{r[key]:.2f}" for key in ("independence", "chow_liu", "bound")]
        cells = [r["set"], r["variables"], r["train_rows"], *numbers, f"**{ours}**" if close else ours, eonade, best]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join([*lines, "", "Bold: within 2% of the best published figure, or above it."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("sets", nargs="*", metavar="SETS", help=f"by default all: {', '.join(RECIPES)}")
    parser.add_argument("--minutes", type=float, default=5.0, help="training time of a set at most; default 5")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/out/density.jsonl"), help="a JSON line for each set")
    flags = parser.parse_args()
    if unknown := [name for name in flags.sets if name not in RECIPES]:
        parser.error(f"unknown sets {', '.join(unknown)}; known are {', '.join(RECIPES)}")
    records = {}
    if flags.out.exists():
        records = {record["set"]: record for record in map(json.loads, flags.out.read_text().splitlines())}
    flags.out.parent.mkdir(parents=True, exist_ok=True)
    for name in flags.sets or RECIPES:
        records[name] = measure(flags.data, name, flags.minutes, flags.seed)
        in_order = [records[known] for known in RECIPES if known in records]
        flags.out.write_text("".join(json.dumps(record) + "\n" for record in in_order))
        print(table([records[name]]).splitlines()[2], flush=True)
    print(table(records[name] for name in RECIPES if name in records))


if __name__ == "__main__":
    main()
