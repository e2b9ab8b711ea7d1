"""Layers that several networks share: what is computed in another way for speed is the same."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from ardm.config import PaperTransformerConfig
from ardm.nn.layers import ReadOut, embed, gelu, linear, relu_of
from ardm.nn.paper_transformer import PaperBlock, run_blocks


@pytest.fixture(params=[False, True], ids=["as it stands", "as compiled"])
def compiling(request, monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: request.param)


def test_gelu_is_the_tanh_form(generator, compiling):
    x = 3 * torch.randn(50, generator=generator, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(gelu(x), F.gelu(x, approximate="tanh"))
    assert gradcheck(gelu, x)


def test_relu_of_a_layer_is_that_of_its_output(generator, compiling):
    layer = linear(6, 8).double()
    x = torch.randn(2, 3, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(relu_of(layer, x), F.relu(layer(x)))

    assert gradcheck(lambda x: relu_of(layer, x), x)
    way = torch.randn(2, 3, 8, generator=generator, dtype=torch.float64)
    ours, theirs = (torch.autograd.grad((y * way).sum(), layer.weight) for y in (relu_of(layer, x), F.relu(layer(x))))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("num_outputs", [1, 8, 27])
def test_few_outputs_are_those_of_a_linear_map(num_outputs, generator):
    head = ReadOut(16, num_outputs).double()
    x = torch.randn(3, 5, 16, generator=generator, dtype=torch.float64)
    ours, theirs = head(x), F.linear(x, head.weight, head.bias)
    torch.testing.assert_close(ours, theirs)
    for parameter in head.parameters():
        gradients = (torch.autograd.grad(y.sin().sum(), parameter, retain_graph=True) for y in (ours, theirs))
        torch.testing.assert_close(*gradients)


def test_embedding_takes_rows_of_the_table(generator):
    table = torch.randn(11, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    index = torch.randint(11, (3, 7), generator=generator)
    torch.testing.assert_close(embed(table, index), table[index])
    gradients = (torch.autograd.grad(y.sin().sum(), table) for y in (embed(table, index), table[index]))
    torch.testing.assert_close(*gradients)


def test_paper_blocks_add_up(generator):
    """Each adds what it makes of the norm of all before, attention first."""
    config = PaperTransformerConfig(num_layers=3, width=8, num_heads=2, mlp_width=16)
    blocks = [PaperBlock(config).double() for _ in range(3)]
    x = torch.randn(2, 5, 8, generator=generator, dtype=torch.float64)
    expected = x
    for block in blocks:
        seen = block.attention_norm(expected)
        parts = (part(seen).view(2, 5, 2, 4).transpose(1, 2) for part in (block.query, block.key, block.value))
        query, key, value = parts
        mixed = (query @ key.mT / 2).softmax(-1) @ value
        expected = expected + block.output(mixed.transpose(1, 2).reshape(2, 5, 8))
        hidden = F.gelu(block.expand(block.mlp_norm(expected)), approximate="tanh")
        expected = expected + block.contract(hidden)
    torch.testing.assert_close(run_blocks(blocks, x), expected)
