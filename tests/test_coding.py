"""Coding models: probabilities by enumeration, nothing leaks, and calls that continue equal one pass."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ardm.coding import CodingModel, sample_chain, score
from ardm.config import TransformerConfig
from ardm.depth import absorbing
from ardm.nn.coding_transformer import CodingTransformer
from ardm.parametrizations import DataParametrization
from ardm.strands import strand_calls, uniform_layout, window_calls

CONFIG = TransformerConfig(num_layers=2, width=16, head_width=8, mlp_ratio=2, kernel=3)
CPU = torch.device("cpu")


def build(num_classes: int, length: int, config: TransformerConfig = CONFIG) -> CodingModel:
    """A model in float64 whose weights are all drawn, as those that begin at zero would hide what lies before."""
    parametrization = DataParametrization(absorbing(num_classes))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = CodingTransformer(config, num_values=num_classes + 1, num_outputs=num_classes)
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
    return CodingModel(network, parametrization, (length,)).double()


def all_texts(num_classes: int, length: int) -> Tensor:
    return torch.tensor([*itertools.product(range(num_classes), repeat=length)])


@pytest.mark.parametrize("kernel", [1, 3, 7])
@pytest.mark.parametrize(("num_classes", "length"), [(2, 6), (3, 4), (3, 5)])
def test_probabilities_sum_to_one(num_classes: int, length: int, kernel: int) -> None:
    model, x = build(num_classes, length, replace(CONFIG, kernel=kernel)), all_texts(num_classes, length)
    for window, calls in itertools.product(range(1, length + 1), range(1, length + 1)):
        bits = model.bits(x, calls=calls, window=window)
        assert (-bits * math.log(2)).exp().sum().item() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("window", [5, 12])
@pytest.mark.parametrize("length", [1, 2, 3, 5, 12])
def test_hidden_characters_do_not_leak_and_others_matter(window: int, length: int) -> None:
    model, x = build(3, 12), torch.randint(0, 3, (1, 12))
    layout = uniform_layout(1, 12, window, length, CPU)
    outputs, rank = model.outputs(x, layout), layout.rank[0]
    for position in range(12):
        changed = x.clone()
        changed[0, position] = (x[0, position] + 1) % 3
        differs = (model.outputs(changed, layout) != outputs).any(-1)[0]
        assert not differs[rank <= rank[position]].any()
        follower = position + 1  # it sees the character, unless it begins a strand
        if follower < 12 and layout.num_before[0, follower] > 0:
            assert differs[rank >= rank[follower]].all()


def test_characters_of_one_call_do_not_see_each_other() -> None:
    model, x = build(3, 12), torch.randint(0, 3, (1, 12))
    layout = uniform_layout(1, 12, 12, 4, CPU)
    outputs = model.outputs(x, layout)
    for call in strand_calls(12, 12, 4, CPU):
        changed = x.clone()
        changed[:, call.positions] = (x[:, call.positions] + 1) % 3
        assert torch.equal(model.outputs(changed, layout)[:, call.positions], outputs[:, call.positions])


@pytest.mark.parametrize("kernel", [1, 3, 7])
@pytest.mark.parametrize(("window", "length"), [(12, 12), (12, 4), (12, 5), (5, 2), (5, 5), (4, 3)])
def test_every_split_into_continuations_equals_one_pass(window: int, length: int, kernel: int) -> None:
    model, x = build(3, 12, replace(CONFIG, kernel=kernel)), torch.randint(0, 3, (2, 12))
    layout = uniform_layout(2, 12, window, length, CPU)
    expected = model.outputs(x, layout)
    ends = range(1, 12)
    splits = [[], [1], [7], [3, 4], [*ends], [2, 9, 11]]
    for split in splits:
        memory, found = model.new_memory(2), torch.zeros_like(expected)
        before = torch.where(layout.num_before > 0, x.roll(1, 1), model.start)
        for start, stop in itertools.pairwise([0, *split, 12]):
            where = layout.order[0, start:stop]
            found[:, where] = model.network.advance(before[:, where], where, layout.num_before[0, where], memory)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("window", "length"), [(12, 12), (12, 4), (5, 2), (4, 3)])
def test_calls_and_windows_equal_one_pass(window: int, length: int) -> None:
    model, x = build(3, 12), torch.randint(0, 3, (2, 12))
    expected = model.outputs(x, uniform_layout(2, 12, window, length, CPU))
    for calls in (strand_calls(12, window, length, CPU), window_calls(12, window, length, CPU)):
        memory, found = model.new_memory(2), torch.zeros_like(expected)
        for call in calls:
            found[:, call.positions] = model.continued(x, call, memory)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_long_texts_see_what_is_kept() -> None:
    model, x = build(3, 8), torch.randint(0, 3, (2, 28))
    bits = model.bits(x, calls=2)
    assert model.default_window(28) == 4
    whole = CodingModel(model.network, model.parametrization, (32,))  # keeps all of them
    assert not torch.allclose(bits, whole.bits(x, calls=2, window=4))
    first = model.bits(x[:, :8], calls=2, window=4)
    torch.testing.assert_close(whole.bits(x[:, :8], calls=2, window=4), first)
    changed = x.clone()
    changed[:, 0] = (x[:, 0] + 1) % 3
    memory, other = model.new_memory(2), model.new_memory(2)
    for call in window_calls(28, 4, 2, CPU):
        for kept in (memory, other):
            kept.forget_before(call.window_start - model.kept_before(4))
        found = model.continued(x, call, memory), model.continued(changed, call, other)
        # the attention and the convolution of each layer carry what they have seen one window further
        is_far = call.window_start > model.kept_before(4) * 2 * CONFIG.num_layers
        assert torch.equal(*found) == is_far, call.window_start


def test_long_texts_with_all_kept_equal_one_pass() -> None:
    model, x = build(3, 8), torch.randint(0, 3, (2, 20))
    wide = CodingModel(model.network, model.parametrization, (40,))
    memory, bits = wide.new_memory(2), torch.zeros(2, dtype=torch.float64)
    for call in window_calls(20, 6, 3, CPU):
        memory.forget_before(call.window_start - wide.kept_before(6))
        bits -= wide.log_probs(wide.continued(x, call, memory), x[:, call.positions]).sum(1) / math.log(2)
    torch.testing.assert_close(bits, wide.bits(x, calls=3, window=6))


@pytest.mark.parametrize("calls", [1, 2, 3, None])
def test_samples_follow_the_distribution(calls: int | None, generator: torch.Generator) -> None:
    model, x = build(2, 3), all_texts(2, 3)
    *_, drawn = sample_chain(model, 20_000, generator, calls=calls)
    found = (drawn * torch.tensor([4, 2, 1])).sum(1).bincount(minlength=8) / 20_000
    expected = (-model.bits(x, calls=calls) * math.log(2)).exp().detach()
    assert (found - expected).abs().max() < 0.015


def test_states_of_a_chain(generator: torch.Generator) -> None:
    model = build(3, 7)
    hidden = [int((x == 3).sum()) for x in sample_chain(model, 2, generator, calls=3, length=10, window=5)]
    assert hidden == [16, 12, 10, 6, 2, 0]


def test_scores_are_means(generator: torch.Generator) -> None:
    model, x = build(3, 6), torch.randint(0, 3, (5, 6))
    for calls in (2, None):
        estimate = score(model, x, calls=calls, batch_size=2)
        assert estimate.bits_per_dim == pytest.approx(model.bits(x, calls=calls).mean().item() / 6)
        assert estimate.is_exact


def test_gradients_reach_every_parameter(generator: torch.Generator) -> None:
    model = build(3, 40)
    model.losses(torch.randint(0, 3, (8, 40)), generator).bits_per_dim.mean().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_gradients_equal_those_of_indexing(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = build(3, 40), torch.randint(0, 3, (4, 40))
    layout = model.draw_layout(4, generator)

    def gradients() -> list[Tensor]:
        loss = model(x, layout).mean()
        return [*torch.autograd.grad(loss, [*model.parameters()])]

    own = gradients()
    plain = lambda x, rows, inverse: x.flatten(0, 1)[rows].view_as(x)  # noqa: E731
    monkeypatch.setattr("ardm.nn.coding_transformer.permute_rows", plain)
    for found, expected in zip(own, gradients(), strict=True):
        torch.testing.assert_close(found, expected)


def test_a_batch_can_be_overfitted(generator: torch.Generator) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = CodingTransformer(replace(CONFIG, width=32), num_values=4, num_outputs=3)
        x = torch.randint(0, 3, (4, 24))
    model = CodingModel(network, DataParametrization(absorbing(3)), (24,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(300):
        loss = model.losses(x, generator).bits_per_dim.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert model.bits(x, calls=None).mean() < 2 * math.log2(4)  # which of four texts it is costs two bits
