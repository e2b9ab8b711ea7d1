"""The verbs of `Model` against enumerated table models, and against the commands."""

import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from invoke import output
from own_models import SOME_CASES, Conditional, around, other_table, small
from serving import with_profile
from table_model import CASES, assert_follows, groups_of
from tiny_exact import tiny_exact

import ardm
from ardm.checkpoint import save_model
from ardm.codec.format.options import OrderChoice
from ardm.conditionals import conditional_bits
from ardm.errors import DataError, UsageError
from ardm.library.items import items_of
from ardm.objective import sample_step_loss
from ardm.orders import NAMED_ORDERS
from ardm.schedule import uniform_schedule
from ardm.tasks.draw import DrawOptions, draw
from ardm.tasks.plan import make_schedule

each_case = pytest.mark.parametrize("name", SOME_CASES)
NAN = math.nan


def named(order, case):
    """An order of the same name in every stage, for the oracle."""
    return (tuple(NAMED_ORDERS[order]((case.num_variables,)).tolist()),) * case.num_stages


def bits_of(case, x, orders, groups=None):
    return -case.oracle.log_prob(x, orders, groups) / math.log(2)


# Scores


@each_case
@pytest.mark.parametrize("order", ["raster", "reverse"])
def test_scores_in_an_order_are_those_of_the_oracle(name, order):
    case, model = around(name)
    score = model.score(case.items(), order)
    assert score.bits == pytest.approx([bits_of(case, x, named(order, case)) for x in case.items()], rel=1e-12)
    assert (score.is_exact, score.draws_half_width) == (True, 0.0)
    assert score.bits_per_dim == pytest.approx(score.bits.mean() / case.num_variables)
    assert score.nats == pytest.approx(score.bits * math.log(2))


@each_case
def test_scores_with_calls_are_those_of_the_oracle(name):
    case, model = around(name)
    num_calls = case.num_stages + 1
    groups = groups_of(uniform_schedule(case.num_variables, num_calls, num_stages=case.num_stages))
    score = model.score(case.items(), "reverse", num_calls, schedule="uniform", batch_size=5)
    expected = [bits_of(case, x, named("reverse", case), groups) for x in case.items()]
    assert score.bits == pytest.approx(expected, rel=1e-12)
    assert score.estimator == f"exact, reverse order, uniform schedule of {num_calls} calls"


@each_case
@pytest.mark.parametrize("calls", [None, 3])
def test_scores_in_random_orders_are_unbiased(name, calls):
    case, model = around(name)
    x = case.items()[1]
    groups = None if calls is None else groups_of(uniform_schedule(3, calls, num_stages=case.num_stages))
    score = model.score([x] * 3000, calls=calls, schedule="uniform", passes=1, seed=3)
    error = abs(score.bits.mean() - case.mean_nats(x, groups) / math.log(2))
    assert error < 4 * score.bits.std() / math.sqrt(3000)
    assert not score.is_exact


def test_few_items_are_scored_in_many_passes():
    _, model = around("oa-2")
    assert model.score([[0, 1, 0]] * 10).estimator == "bound over random orders, single steps, 13 passes"
    assert model.score([[0, 1, 0]] * 300).estimator.endswith("1 pass")


@pytest.mark.parametrize("order", ["raster", "reverse"])
def test_scores_of_items_with_missing_values_are_marginals(order):
    """Each item has its own missing values, all subsets together."""
    case, model = around("oa-2")
    sequence = named(order, case)[0]
    items, expected = [], []
    for x, known in product(case.items(), list(product([False, True], repeat=3))[1:]):
        items.append([value if is_known else NAN for value, is_known in zip(x, known, strict=True)])
        observed = [d for d in sequence if known[d]]
        steps = [(t, t + 1) for t in range(len(observed))]
        expected.append(-case.oracle.stage_log_prob(x, 0, observed, steps) / math.log(2))
    score = model.score(np.array(items), order)
    assert score.bits == pytest.approx(expected, rel=1e-12)
    assert score.num_variables.tolist() == [3 - sum(map(math.isnan, item)) for item in items]


def test_bounds_of_items_with_missing_values_are_unbiased():
    case, model = around("oa-2")
    steps = [(0, 1), (1, 2)]
    values = [-case.oracle.stage_log_prob((1, 0, 1), 0, order, steps) for order in [(0, 2), (2, 0)]]
    score = model.score([[1.0, NAN, 1.0]] * 3000, passes=1)
    assert abs(score.bits.mean() - sum(values) / 2 / math.log(2)) < 4 * score.bits.std() / math.sqrt(3000)


def test_intervals_over_draws_hold():
    """Of 40 estimates of one item, about 2 are farther from the truth than half an interval."""
    case, model = around("oa-2")
    x, truth = (1, 0, 1), case.mean_nats((1, 0, 1)) / math.log(2) / 3
    scores = [model.score([x], passes=32, seed=seed) for seed in range(40)]
    assert all(score.half_width == math.inf for score in scores)
    far = sum(abs(score.bits_per_dim - truth) > score.draws_half_width for score in scores)
    assert 0 < far <= 8


def test_intervals_over_items_weigh_longer_items_more():
    """An item of another length does not widen the interval if its bits per character are the same."""
    network = other_table()
    torch.nn.init.zeros_(network.table)
    model = ardm.order_agnostic(network, 2, 3)
    score = model.score([[0.0, 1.0, NAN], [0.0, 1.0, 1.0]], "raster")
    assert score.bits.tolist() == pytest.approx([2.0, 3.0])
    assert score.half_width == pytest.approx(0.0)


def text_model():
    trained = with_profile(tiny_exact("text"))
    return ardm.Model(trained.model, items_of(trained), profile=trained.profile, trained=trained)


def chunk_bits(model, piece, target, given):
    """-log2 p(target | given) of places of a piece of text, in raster order."""
    classes = torch.zeros(1, 16, dtype=torch.long)
    classes[0, : len(piece)] = torch.from_numpy(model.items.alphabet.encode(piece.encode()).astype(np.int64))
    place = torch.arange(16)
    target, given = (sum((place >= a) & (place < b) for a, b in ranges).bool() for ranges in (target, given))
    return conditional_bits(model.ardm, classes, target, given, place).bits.item()


def test_a_long_text_costs_the_sum_of_its_windows():
    """Of 40 characters: 16 alone, 12 between given neighbours, 12 alone (docs of `ardm.codec.windows`)."""
    model, text = text_model(), ("the cat sat on the mat and the hat sat on" * 2)[:40]
    expected = (
        chunk_bits(model, text[:16], [(0, 16)], [(0, 0)])
        + chunk_bits(model, text[14:30], [(2, 14)], [(0, 2), (14, 16)])
        + chunk_bits(model, text[28:], [(0, 12)], [(0, 0)])
    )
    score = model.score([text, "cat"], "raster")
    assert score.bits == pytest.approx([expected, chunk_bits(model, "cat", [(0, 3)], [(0, 0)])], rel=1e-6)
    assert score.num_variables.tolist() == [40, 3]
    assert score.unit == "bits/char"
    assert model.score(text, "raster").bits[0] == pytest.approx(expected, rel=1e-6)


def test_calls_beyond_a_short_text_are_not_needed():
    model = text_model()
    assert model.score(["cat"], "raster", 99).bits == pytest.approx(model.score(["cat"], "raster").bits)


# Samples


@each_case
def test_samples_follow_the_oracle(name):
    case, model = around(name)
    draws = torch.from_numpy(model.sample(8000, order="reverse", seed=1, batch_size=3000))
    places = case.num_classes ** torch.arange(2, -1, -1)
    counts = (draws * places).sum(1).bincount(minlength=len(case.items()))
    assert_follows(counts, [math.exp(case.oracle.log_prob(x, named("reverse", case))) for x in case.items()])


def test_infilling_follows_the_conditional():
    case, model = around("oa-2")
    draws = torch.from_numpy(model.infill([NAN, 1.0, NAN], n=8000, order="raster", batch_size=3000))
    assert draws[:, 1].tolist() == [1] * 8000
    counts = (draws[:, 0] * 2 + draws[:, 2]).bincount(minlength=4)
    sequence, steps = (1, 0, 2), [(1, 2), (2, 3)]
    pairs = product(range(2), repeat=2)
    assert_follows(counts, [math.exp(case.oracle.stage_log_prob((a, 1, b), 0, sequence, steps)) for a, b in pairs])


def test_an_item_without_any_value_can_be_filled():
    _, model = around("oa-2")
    assert model.infill([NAN] * 3, n=4, seed=2).tolist() == model.sample(4, seed=2).tolist()


@each_case
def test_chains_end_in_the_items_of_sample(name):
    _, model = around(name)
    chain = model.chain(5, states=3, seed=9)
    assert len(chain.states) == len(chain.calls) == 3
    assert chain.states[-1].tolist() == model.sample(5, seed=9).tolist()


# Contexts


def conditional():
    """A model of two labels, and for each label a model of its network alone."""
    networks = [CASES["oa-2"]().model.network, other_table()]
    return ardm.order_agnostic(Conditional(networks), 2, 3), [ardm.order_agnostic(n, 2, 3) for n in networks]


LABELS = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1] * 2)
ALL_BITS = list(product(range(2), repeat=3))


@pytest.mark.parametrize("order", ["raster", "reverse"])
def test_every_context_has_a_distribution_of_its_own(order):
    model, own = conditional()
    items = ALL_BITS * 2
    score = model.score(items, order, context=[0] * 8 + [1] * 8, batch_size=7)
    for rows, other in zip((slice(8), slice(8, 16)), own, strict=True):
        assert (2.0 ** -score.bits[rows]).sum() == pytest.approx(1, abs=1e-12)
        assert score.bits[rows] == pytest.approx(other.score(ALL_BITS, order).bits)
    assert abs(score.bits[:8] - score.bits[8:]).min() > 0.01


@pytest.mark.parametrize("calls", [None, 2])
def test_contexts_stay_with_their_items_in_random_orders(calls):
    """Labels alternate and batches are small: items times calls, and items times passes, are rows."""
    model, own = conditional()
    x, labels = ALL_BITS[5], [0, 1, 1] * 1000
    score = model.score([x] * 3000, calls=calls, schedule="uniform", context=labels, passes=2, batch_size=999)
    for label in range(2):
        bits = score.bits[np.array(labels) == label]
        alone = own[label].score([x] * 3000, calls=calls, schedule="uniform", passes=2).bits
        spread = math.hypot(bits.std() / math.sqrt(len(bits)), alone.std() / math.sqrt(3000))
        assert abs(bits.mean() - alone.mean()) < 4 * spread


def test_contexts_stay_with_items_of_which_values_are_missing():
    model, own = conditional()
    items = [[value if d != n % 3 else NAN for d, value in enumerate(x)] for n, x in enumerate(ALL_BITS * 2)]
    mixed = model.score(items, "raster", context=LABELS)
    expected = [own[int(label)].score([item], "raster").bits[0] for item, label in zip(items, LABELS, strict=True)]
    assert mixed.bits == pytest.approx(expected)


def test_the_loss_of_a_batch_is_the_mean_over_its_contexts():
    """Draws depend on the generator alone, so one label for all gives the losses to choose from."""
    model, _ = conditional()
    x = torch.tensor(ALL_BITS * 2)
    losses = [
        sample_step_loss(model.ardm, x, torch.Generator().manual_seed(4), context=torch.full((16,), label)).bits_per_dim
        for label in range(2)
    ]
    mixed = model.loss(x, context=LABELS, generator=torch.Generator().manual_seed(4))
    assert mixed.item() == pytest.approx(torch.where(LABELS == 0, *losses).mean().item())


def test_samples_follow_their_contexts():
    model, own = conditional()
    labels = torch.tensor([0, 1, 1] * 3000)
    places = torch.tensor([4, 2, 1])
    draws = torch.from_numpy(model.sample(9000, order="raster", context=labels, batch_size=2000))
    for label in range(2):
        counts = (draws[labels == label] * places).sum(1).bincount(minlength=8)
        assert_follows(counts, (2.0 ** -own[label].score(ALL_BITS, "raster").bits).tolist())


def test_infilling_follows_its_contexts():
    model, own = conditional()
    labels = torch.tensor([0, 1, 1] * 3000)
    draws = torch.from_numpy(model.infill([1, 0, 0], [1, 2], n=9000, order="raster", context=labels, batch_size=2000))
    for label in range(2):
        chosen = draws[labels == label]
        probs = 2.0 ** -own[label].score(ALL_BITS, "raster").bits[4:]
        counts = (chosen[:, 1] * 2 + chosen[:, 2]).bincount(minlength=4)
        assert_follows(counts, (probs / probs.sum()).tolist())


# Training


def test_the_loss_is_the_bound_on_average():
    case, model = around("base2-3-direct")
    losses = torch.stack([model.loss(torch.tensor(case.items() * 20)) for _ in range(40)])
    truth = math.fsum(map(case.mean_nats, case.items())) / math.log(2) / 3 / len(case.items())
    assert abs(losses.mean().item() - truth) < 4 * losses.std().item() / math.sqrt(40)


def test_the_loss_can_add_the_cross_entropy():
    _, model = around("oa-2")
    x = torch.tensor(ALL_BITS)
    plain, half, whole = (
        model.loss(x, cross_entropy_weight=weight, generator=torch.Generator().manual_seed(1)).item()
        for weight in (0.0, 0.5, 1.0)
    )
    assert whole - plain == pytest.approx(2 * (half - plain))
    assert plain < half


def test_losses_draw_from_the_seed_of_pytorch():
    _, model = around("oa-2")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        losses = [model.loss(torch.tensor(ALL_BITS)).item() for _ in range(2)]
        torch.manual_seed(5)
        assert model.loss(torch.tensor(ALL_BITS)).item() == losses[0] != losses[1]


def test_training_takes_items_of_the_models_shape_alone():
    model = text_model()
    with pytest.raises(DataError, match=r"items of shape \(16,\); cut larger ones"):
        model.loss(["the cat sat on the mat"])
    assert model.loss(["the cat"]).item() > 0


# Verbs and commands


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A tiny exact text model with a profile, and its file."""
    path = tmp_path_factory.mktemp("saved") / "tiny.model"
    save_model(path, with_profile(tiny_exact("text")))
    return ardm.load(path), path


@pytest.mark.parametrize("order", ["random", "raster", "strands"])
def test_sample_draws_what_the_command_prints(saved, order, capsys):
    model, path = saved
    flags = ["-n", "3", "--calls", "4", "--order", order, "--seed", "5", "--batch-size", "2", "--temperature", "0.7"]
    printed = json.loads(output(capsys, ["sample", str(path), "--json", *flags]))["samples"]
    assert model.sample(3, 4, order, seed=5, batch_size=2, temperature=0.7) == printed


@pytest.mark.parametrize("calls", [6, 9])
def test_chain_has_the_states_that_the_command_prints(saved, calls, capsys):
    model, path = saved
    flags = ["-n", "2", "--calls", str(calls), "--seed", "1", "--batch-size", "1", "--chain", "--json"]
    flags += ["--temperature", "0.7", "--top-p", "0.9"]
    printed = json.loads(output(capsys, ["sample", str(path), *flags]))
    chain = model.chain(2, calls, seed=1, batch_size=1, temperature=0.7, top_p=0.9)
    assert chain.calls == printed["state_calls"]
    assert len(chain.calls) == (calls if calls <= 8 else 5)
    assert [texts[0] for texts in chain.states][:-1] == printed["chains"][0][:-1]


@pytest.mark.parametrize("own", ["raster", "strands"])
def test_an_exact_model_draws_in_its_own_order_by_default(saved, own, tmp_path, capsys):
    trained = saved[0].trained
    coding = replace(trained.exact.coding, order=OrderChoice(name=own))
    save_model(tmp_path / "own.model", replace(trained, exact=replace(trained.exact, coding=coding)))
    model, path = ardm.load(tmp_path / "own.model", "cpu"), str(tmp_path / "own.model")
    flags, how = ["-n", "3", "--calls", "4", "--json", "--device", "cpu"], {"n": 3, "calls": 4}
    printed = json.loads(output(capsys, ["sample", path, *flags]))["samples"]
    assert printed == model.sample(**how) == model.sample(**how, order=own) != model.sample(**how, order="random")
    for_gaps, other = ("random", "raster") if own == "strands" else ("raster", "random")
    text = "_" * 14
    printed = json.loads(output(capsys, ["infill", path, text, *flags]))["samples"]
    assert printed == model.infill(text, **how) == model.infill(text, **how, order=for_gaps)
    assert printed != model.infill(text, **how, order=other)


@pytest.mark.parametrize("calls", [None, 2])
def test_infill_draws_what_the_command_prints(saved, calls, capsys):
    model, path = saved
    flags = ["-n", "3", "--seed", "5", "--order", "random", "--json"] + (
        [] if calls is None else ["--calls", str(calls)]
    )
    printed = json.loads(output(capsys, ["infill", str(path), "the c_t s__", *flags]))["samples"]
    assert model.infill("the c_t s__", n=3, calls=calls, order="random", seed=5) == printed
    assert all(len(text) == 11 and text.startswith("the c") for text in printed)


@pytest.mark.parametrize(
    ("order", "calls", "passes"),
    [("raster", None, 2), ("reverse", 3, 2), ("random", None, 2), ("random", None, None), ("random", 4, 2)],
)
def test_score_gives_what_the_command_prints(saved, order, calls, passes, tmp_path, capsys):
    model, path = saved
    text = "the cat sat on the mat and the rat sat on the hat"[:48]
    (tmp_path / "text.txt").write_text(text)
    flags = ["--order", order, "--seed", "3", "--split", "all", "--json"]
    flags += [] if passes is None else ["--passes", str(passes)]
    flags += [] if calls is None else ["--calls", str(calls)]
    printed = json.loads(output(capsys, ["eval", str(path), str(tmp_path / "text.txt"), *flags]))
    items = [text[start : start + 16] for start in range(0, 48, 16)]
    score = model.score(items, order, calls, passes=passes, seed=3)
    assert score.bits_per_dim == pytest.approx(printed["bits_per_dim"], rel=1e-6)
    assert score.is_exact == printed["is_exact"]
    if score.is_exact:
        assert score.half_width == pytest.approx(printed["half_width"], rel=1e-6)


def test_plan_gives_what_the_command_prints(saved, capsys, tmp_path):
    model, path = saved
    printed = json.loads(output(capsys, ["plan", str(path), "--calls", "5", "--json"]))
    plan = model.plan(5)
    assert [list(starts) for starts in plan.schedule.starts] == printed["starts"]
    assert plan.bits == printed["bits"]
    plan.plot(tmp_path / "plan.svg")
    assert "5 calls" in (tmp_path / "plan.svg").read_text()


def test_compress_writes_the_file_of_the_command(saved, tmp_path, capsys):
    model, path = saved
    text = "the cat sat on the mat " * 4
    (tmp_path / "text.txt").write_text(text)
    flags = ["--model", str(path), "--calls", "6", "-o", str(tmp_path / "text.ardm")]
    output(capsys, ["compress", str(tmp_path / "text.txt"), *flags])
    data = (tmp_path / "text.ardm").read_bytes()
    assert model.compress(tmp_path / "text.txt", calls=6) == data
    assert model.decompress(data) == model.decompress(model.compress(text, calls=6)) == text


def test_an_exact_models_own_order_is_the_default(saved):
    model, _ = saved
    options = DrawOptions(num_items=2, order=model.trained.exact.coding.order, seed=1)
    drawn = draw(model, make_schedule(model, 4), options)
    assert model.sample(2, 4, seed=1) == model.items.shown(drawn.samples, (16,))
    assert model.sample(2, 4, seed=1) != model.sample(2, 4, "random", seed=1)


# Wrong arguments


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: m.sample(0), "n must be positive, got 0"),
        (lambda m: m.sample(2, 1), "calls must be at least 2, one for each stage; got 1"),
        (lambda m: m.sample(order="left"), r"the order must be one of random, raster, .*, got 'left'"),
        (lambda m: m.sample(batch_size=0), "batch_size must be positive, got 0"),
        (lambda m: m.sample(temperature=0.0), "the temperature must be positive and finite, got 0.0"),
        (lambda m: m.sample(top_p=1.5), r"top-p must lie in \(0, 1\], got 1.5"),
        (lambda m: m.chain(states=0), "states must be positive, got 0"),
        (lambda m: m.score([[0, 0, 0]], "left"), r"the order must be one of random, raster, .*, got 'left'"),
        (lambda m: m.score([[0, 0, 0]], passes=0), "passes must be positive, got 0"),
        (lambda m: m.score([[0, 0, 0]], calls=-1), "calls must be positive, got -1"),
        (lambda m: m.infill([0, 0, 0], [1], order="strands"), "strands order whole items only"),
        (lambda m: m.infill([0, 0, 0], [1], n=0), "n must be positive, got 0"),
        (lambda m: m.infill([0, 0, 0], [1], particles=0), "particles must be positive, got 0"),
        (lambda m: m.sample(shape=(2, 2)), r"expected a shape like \(3,\), got \(2, 2\)"),
        (lambda m: m.conditional([0, 0, 0], [1], order="foo"), "the order must be one of random, raster"),
        (lambda m: m.sample(calls=3), "nothing to plan from: this model's losses have not been measured"),
        (lambda m: m.plan(3), "nothing to plan from: this model's losses have not been measured"),
        (lambda m: m.compress("text"), "only an exact model compresses"),
        (lambda m: m.decompress(b""), "only an exact model compresses"),
        (lambda m: m.score([[0, 0, NAN]], "raster"), "an upscale model scores whole items only"),
        (lambda m: m.score([[0, 0, NAN]]), "parts of items need a one-stage model; this one has 2 stages"),
        (lambda m: m.loss(torch.tensor([[0, 0, NAN]])), "an upscale model sees the coarse digits of all variables"),
        (lambda m: m.sample(context=[1]), "this network takes no context; give its forward"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(call, text):
    _, model = around("base2-4-data")
    with pytest.raises(ValueError, match=text) as caught:
        call(model)
    assert "\n" not in str(caught.value)


def test_a_short_text_in_strands_is_refused():
    with pytest.raises(UsageError, match="strands need whole items"):
        text_model().score("cat", "strands")


def test_a_model_says_what_it_is():
    assert repr(small()) == "Model of tokens: 5 variables, 2 classes, 1 stage, 434 parameters"
    assert repr(around("base2-4-data")[1]).startswith("Model of tokens: 3 variables, 4 classes, 2 stages, ")
