"""The table of density estimation: its baselines and mixtures add up to one, and a set goes from file to line."""

import doctest
import importlib.util
import itertools
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from documents import ROOT

spec = importlib.util.spec_from_file_location("density", ROOT / "runs" / "density.py")
assert spec is not None
assert spec.loader is not None
density = importlib.util.module_from_spec(spec)
sys.modules["density"] = density  # dataclasses look their module up
spec.loader.exec_module(density)

EVERY_ROW = torch.tensor(list(itertools.product([0, 1], repeat=5)))


def chain(num_rows, seed=0):
    """Rows of a Markov chain over five variables, in the sequence 3, 0, 4, 1, 2."""
    random = np.random.default_rng(seed)
    x = np.zeros((num_rows, 5), np.int64)
    for before, after in itertools.pairwise([3, 3, 0, 4, 1, 2]):
        flips = random.random(num_rows) < (0.5 if before == after else 0.1)
        x[:, after] = x[:, before] ^ flips
    return torch.from_numpy(x)


@pytest.fixture
def quick(monkeypatch):
    """A recipe of a few steps under the name of a set."""
    recipe = density.Recipe(width=16, blocks=1, linear=True, steps=60, learning_rate=2e-2, members=2, orders=4)
    monkeypatch.setitem(density.RECIPES, "nltcs", recipe)
    return recipe


def test_its_examples():
    assert doctest.testmod(density).failed == 0


@pytest.mark.parametrize("baseline", [density.independence, density.chow_liu])
@pytest.mark.parametrize("smoothing", [0.01, 2.0])
def test_probabilities_of_a_baseline_add_up_to_one(baseline, smoothing):
    total = baseline(chain(200), EVERY_ROW, smoothing).exp().sum()
    assert float(total) == pytest.approx(1.0)


def test_the_tree_follows_the_chain():
    pairs = density._pair_frequencies(chain(5000), 0.1)
    edges = {frozenset(edge) for edge in density.spanning_tree(density._mutual_information(pairs))}
    assert edges == {frozenset(edge) for edge in [(3, 0), (0, 4), (4, 1), (1, 2)]}


def test_the_tree_gives_the_entropy_of_the_chain():
    flip = -(0.1 * np.log(0.1) + 0.9 * np.log(0.9))
    mean = density.chow_liu(chain(50_000), chain(50_000, seed=1), 0.1).mean()
    assert float(mean) == pytest.approx(-(np.log(2) + 4 * flip), abs=0.02)


def test_the_mixture_of_orders_adds_up_to_one_and_is_above_the_bound(quick):
    splits = density.Splits(train=chain(500), valid=chain(100, seed=1))
    model = density.train(splits, quick, minutes=1.0, seed=0)
    values = density.log_likelihoods(model, EVERY_ROW, 4, seed=0)
    assert values.exp().sum(1).tolist() == pytest.approx([1.0] * 4, abs=1e-3)
    assert float(density.mixture(values).exp().sum()) == pytest.approx(1.0, abs=1e-3)
    assert (density.mixture(values) >= values.mean(0)).all()


def test_an_average_of_networks_averages_logits(quick):
    networks = [density.ResidualNetwork(quick, torch.full((5,), share)) for share in (0.2, 0.6)]
    arguments = EVERY_ROW, EVERY_ROW < 2, torch.zeros(32).long(), torch.full((32,), 5)
    expected = (networks[0](*arguments) + networks[1](*arguments)) / 2
    assert torch.equal(density.AverageNetwork(networks)(*arguments), expected)


def test_the_network_does_not_see_hidden_values(quick):
    network = density.ResidualNetwork(replace(quick, dropout=0.0), torch.full((5,), 0.3))
    with torch.no_grad():
        network.last.weight.normal_()
        network.linear.weight.normal_()
    mask = torch.arange(5).expand(32, 5) < 2
    stage, t = torch.zeros(32).long(), torch.full((32,), 2)
    seen = [network(torch.where(mask, EVERY_ROW, hidden), mask, stage, t) for hidden in (1, 2)]
    assert torch.equal(*seen)


def test_a_line_from_files(quick, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "nltcs"
    folder.mkdir()
    for seed, (split, number) in enumerate({"train": 400, "valid": 60, "test": 80}.items()):
        np.savetxt(folder / f"nltcs.{split}.data", chain(number, seed).numpy(), fmt="%d", delimiter=",")
    out = tmp_path / "out" / "density.jsonl"
    monkeypatch.setattr("sys.argv", ["density.py", str(tmp_path), "nltcs", "--minutes", "1", "--out", str(out)])
    density.main()
    [record] = map(json.loads, out.read_text().splitlines())
    assert record["independence"] < record["bound"] <= record["ensemble"]
    assert record["test_rows"] == 80
    assert record["gain_over_chow_liu"] == pytest.approx(record["ensemble"] - record["chow_liu"])
    assert "| nltcs | 5 | 400 |" in capsys.readouterr().out


def test_a_figure_near_the_best_published_is_bold():
    record = {"set": "dna", "variables": 180, "train_rows": 1600, "independence": -100.0, "chow_liu": -90.0}
    record |= {"bound": -81.0, "half_width": 0.5, "recipe": {"orders": 8}}
    lines = [density.table([record | {"ensemble": value}]).splitlines()[2] for value in (-80.6, -80.7)]
    assert "**-80.60 ± 0.50 (R = 8)**" in lines[0]
    assert "**" not in lines[1]
