"""Plans of the library warn about losses that were not measured with the model's own weights."""

import re

import pytest
import torch
from torch import nn

import ardm
from ardm.names import AVERAGED, MEASURED


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(3, 8), nn.Linear(8, 2))

    def forward(self, inputs, mask, stage, t):
        return self.layers(inputs)


@pytest.mark.parametrize(("valid", "source"), [(0.0, AVERAGED), (0.2, MEASURED)])
def test_the_warning_of_a_plan_goes_through_files_and_pictures(valid, source, tmp_path):
    model = ardm.order_agnostic(Net(), 2, shape=5)
    ardm.fit(model, torch.ones(50, 5).long(), steps=20, valid=valid, progress=False)
    ardm.save(model, tmp_path / "own.safetensors")
    for one in (model, ardm.load(tmp_path / "own.safetensors", "cpu", network=Net), model.for_shape((4,))):
        assert one.profile_source == source
        plan = one.plan(2)
        assert bool(plan.warning) == (source == AVERAGED)
        plan.plot(tmp_path / "plan.svg")
        comments = re.findall("<!-- (.*) -->", (tmp_path / "plan.svg").read_text())
        assert any("not measured: the losses are an average" in text for text in comments) == bool(plan.warning)
