"""Muon against the singular value decomposition and a slow reference."""

import pytest
import torch
from tiny import tiny_config

from ardm.build import build_model
from ardm.runtime.team import ALONE, Team
from ardm.train.optim import Muon, is_hidden_matrix, orthogonalise, orthogonalise_together
from ardm.train.trainer import make_optimizers


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 12, 40), (2, 40, 12)])
def test_orthogonalise_sets_singular_values_near_one(shape, generator):
    matrices = torch.randn(shape, generator=generator)
    result = orthogonalise(matrices)
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    singular = torch.linalg.svdvals(result)
    assert singular.min() > 0.6
    assert singular.max() < 1.3
    nearest = left @ right
    alignment = (result * nearest).sum((1, 2)) / (result.norm(dim=(1, 2)) * nearest.norm(dim=(1, 2)))
    assert (alignment > 0.98).all()


def test_muon_updates_all_matrices_of_a_shape_as_one_by_one(generator):
    start = [torch.randn(8, 4, generator=generator) for _ in range(3)] + [torch.randn(4, 4, generator=generator)]
    together = [torch.nn.Parameter(p.clone()) for p in start]
    apart = [torch.nn.Parameter(p.clone()) for p in start]
    optimizers = [Muon(together, lr=0.1), *(Muon([p], lr=0.1) for p in apart)]
    for _ in range(3):
        for a, b in zip(together, apart, strict=True):
            a.grad = torch.randn(a.shape, generator=generator)
            b.grad = a.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for a, b in zip(together, apart, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_muon_momentum_scale_and_decay():
    parameter = torch.nn.Parameter(torch.ones(4, 2))
    optimizer = Muon([parameter], lr=0.5, momentum=0.9, weight_decay=0.1)
    parameter.grad = torch.eye(4, 2)
    optimizer.step()
    update = orthogonalise((torch.eye(4, 2) * (0.1 + 0.9 * 0.1))[None])[0]  # lerp(g, 0.1 g, 0.9)
    expected = torch.ones(4, 2) * (1 - 0.05) - 0.5 * 2**0.5 * update
    assert torch.allclose(parameter.detach(), expected, atol=1e-5)
    assert torch.allclose(optimizer.state[parameter]["momentum"], torch.eye(4, 2) * 0.1)


def test_a_stack_is_updated_matrix_by_matrix(generator):
    start = torch.randn(3, 4, 4, generator=generator)
    stack, apart = torch.nn.Parameter(start.clone()), [torch.nn.Parameter(m.clone()) for m in start]
    optimizers = Muon([stack], lr=0.1), Muon(apart, lr=0.1)
    stack.grad = torch.randn(3, 4, 4, generator=generator)
    for matrix, gradient in zip(apart, stack.grad, strict=True):
        matrix.grad = gradient.clone()
    for optimizer in optimizers:
        optimizer.step()
    assert torch.allclose(stack, torch.stack([*apart]), atol=1e-6)


@pytest.mark.parametrize(("count", "size"), [(6, 2), (7, 3), (1, 4), (5, 4)])
def test_processes_orthogonalise_a_part_each(count, size, generator, monkeypatch):
    """The last ones may have fewer, or none."""
    matrices, parts = torch.randn(count, 6, 4, generator=generator), []

    def gathered(team, part):
        parts.append(part)
        return torch.cat(parts) if len(parts) == size else part.new_zeros(count, 6, 4)

    monkeypatch.setattr(Team, "all_gather_rows", gathered)
    results = [orthogonalise_together(matrices, Team(rank, size)) for rank in range(size)]
    assert {len(part) for part in parts} == {-(-count // size)}
    torch.testing.assert_close(results[-1], orthogonalise(matrices))
    assert torch.equal(orthogonalise_together(matrices, ALONE), orthogonalise(matrices))


def test_muon_of_a_team_computes_for_its_part(generator, monkeypatch):
    """As a trainer makes it: half of the matrices of each shape, of two processes."""
    counts = []
    monkeypatch.setattr(Team, "all_gather_rows", lambda team, part: torch.cat([part, part]))
    monkeypatch.setattr("ardm.train.optim.orthogonalise", lambda matrices: counts.append(len(matrices)) or matrices)
    config = tiny_config()
    model = build_model(config, 27)
    matrices = [p for n, p in model.named_parameters() if is_hidden_matrix(n, p)]
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    for team in (ALONE, Team(1, 2)):
        make_optimizers(config, model, team)[1].step()
    shapes = {m.shape: sum(p.shape == m.shape for p in matrices) * m[..., 0, 0].numel() for m in matrices}
    assert counts == [*shapes.values(), *(-(-count // 2) for count in shapes.values())]


def test_only_matrices_inside_blocks_are_hidden():
    matrix, vector = torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2))
    assert is_hidden_matrix("network.blocks.0.expand.weight", matrix)
    assert is_hidden_matrix("network.blocks.0.attention.query_key_value", torch.nn.Parameter(torch.ones(3, 2, 2)))
    assert not is_hidden_matrix("network.blocks.0.norm.weight", vector)
    assert not is_hidden_matrix("network.blocks.0.depthwise.weight", matrix)
    assert not is_hidden_matrix("network.head.weight", matrix)
    assert not is_hidden_matrix("network.embedding", matrix)
