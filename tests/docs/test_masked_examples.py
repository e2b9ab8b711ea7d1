"""The examples about other people's loops: a plan's counts are what each call unmasks, and the prompt stays."""

import importlib.util
import itertools

import pytest
import torch
from documents import ROOT
from tiny_masked import BERT_TOKENS, bert

import ardm

MASK = BERT_TOKENS.index("[MASK]")


def example(name):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


planned_generate = example("planned_generate")


class Recorder(torch.nn.Module):
    """A network that keeps what it was called with."""

    def __init__(self, network, liked=()):
        super().__init__()
        self.network, self.liked, self.inputs = network, list(liked), []

    def forward(self, input_ids):
        self.inputs.append(input_ids.clone())
        output = self.network(input_ids)
        output.logits[..., self.liked] += 20.0
        return output


@pytest.mark.parametrize("remasking", ["random", "low_confidence"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("counts", [[1, 2, 4, 3], [10], [1] * 10])
def test_each_call_unmasks_the_planned_number_of_tokens(remasking, temperature, counts):
    network, generator = Recorder(bert()), torch.Generator().manual_seed(0)
    prompt = torch.tensor([[1, 5, 6, 7], [1, 7, 7, 5], [5, 5, 5, 5]])
    options = {"temperature": temperature, "remasking": remasking, "generator": generator}
    result = planned_generate.generate(network, prompt, counts, MASK, **options)
    states = [*network.inputs, result]
    assert len(network.inputs) == len(counts)
    assert [(state == MASK).sum(1).tolist() for state in states] == [
        [sum(counts[i:])] * 3 for i in range(len(counts) + 1)
    ]
    for before, after in itertools.pairwise(states):
        assert torch.equal(after[:, :4], prompt)
        was_known = before != MASK
        assert torch.equal(before[was_known], after[was_known]), "a token that was unmasked changed"


def test_masks_are_never_drawn_even_where_the_network_likes_them():
    prompt = torch.tensor([[1, 5]] * 4)
    for temperature in (0.0, 1.0):
        network = Recorder(bert(), liked=[MASK])
        assert not (planned_generate.generate(network, prompt, [3, 4], MASK, temperature) == MASK).any()


def test_the_most_confident_places_come_first():
    network, prompt = Recorder(bert()), torch.tensor([[1, 5, 6]])
    result = planned_generate.generate(network, prompt, [2, 2], MASK, 0.0, "low_confidence")
    with torch.no_grad():
        logits = network.network(network.inputs[0]).logits[0]
    logits[:, MASK] = -torch.inf
    best = logits.softmax(-1).max(-1)
    chosen = (3 + best.values[3:].topk(2).indices).sort().values
    assert ((network.inputs[1] != network.inputs[0])[0]).nonzero()[:, 0].tolist() == chosen.tolist()
    assert result[0, chosen].tolist() == best.indices[chosen].tolist()


def test_random_places_and_draws_follow_the_generator():
    prompt = torch.tensor([[1, 5]] * 6)
    first, again, other = (
        planned_generate.generate(bert(), prompt, [2, 4], MASK, generator=torch.Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_plan_for_the_tail_fits_the_loop():
    model = ardm.wrap(bert().float(), ardm.Vocabulary(BERT_TOKENS), length=12)
    model.measure(["ACGACGACGACG", "CCGGAACCGGAA"], passes=30)
    counts = model.for_shape((9,)).plan(4).schedule.counts
    assert (len(counts), sum(counts), min(counts) >= 1) == (4, 9, True)
    prompt = torch.tensor([model.tokens.encode("ACG")])
    assert planned_generate.generate(model.network, prompt, counts, model.tokens.mask).shape == (1, 12)


def test_the_loop_takes_at_most_forty_lines():
    lines = (ROOT / "examples" / "planned_generate.py").read_text().splitlines()
    last_import = max(i for i, line in enumerate(lines) if line.startswith(("import ", "from ")))
    [end] = [i for i, line in enumerate(lines) if line.startswith("def tiny_model")]
    assert 10 < end - last_import - 1 <= 40


def test_the_example_runs(capsys):
    planned_generate.main(planned_generate.tiny_model(steps=3), calls=6)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ", 1)[0] for line in lines] == ["equal", "equal", "planned", "planned"]
    for line in lines:
        assert "of 200 repeat their word" in line


def test_the_scheduler_of_diffusers_takes_the_planned_counts():
    pytest.importorskip("diffusers")
    scheduler = example("diffusers_scheduler").PlannedScheduler([1, 2, 5])
    assert scheduler.get_num_transfer_tokens(8, 3).tolist() == [1, 2, 5]
    with pytest.raises(ValueError, match="planned 3 calls for 8 tokens"):
        scheduler.get_num_transfer_tokens(8, 4)


def test_the_adapter_for_the_evaluation_harness_gives_conditional_probabilities():
    pytest.importorskip("lm_eval")
    model = ardm.wrap(bert(), ardm.Vocabulary(BERT_TOKENS), length=8)
    nats, is_greedy = example("lm_eval_adapter").ArdmLM(model).continued("ACG", "GA")
    bits = model.conditional(["ACGGA"], [3, 4]).bits.item()
    assert nats == pytest.approx(-bits * 0.6931471805599453)
    assert isinstance(is_greedy, bool)
