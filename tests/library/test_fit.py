"""`ardm.fit`: learning, resuming, every form of data, and the state that it leaves."""

import math
import time

import numpy as np
import pytest
import torch
from own_models import Labelled, Small, as_users_call, small
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import ardm
from ardm.errors import ArdmError, CheckpointError, DataError, UsageError
from ardm.library.fit import Batches, FitConfig, Fitting, _seed, _split

QUICK = {"progress": False, "learning_rate": 0.05, "batch_size": 16}
BITS = torch.randint(2, (200, 5), generator=torch.Generator().manual_seed(0))
BITS[:, 1:] = BITS[:, :1]
"""Five copies of a random bit: an item has one bit of information, 0.2 bits/dim."""


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


# Learning


def test_a_trivial_distribution_is_learned():
    model = small()
    fitted = ardm.fit(model, BITS, steps=300, **QUICK)
    assert fitted.steps == 300
    assert fitted.valid_bits < 0.3
    assert model.score(BITS[:50], passes=20).bits_per_dim < 0.27
    assert np.ptp(model.sample(50), axis=1).mean() < 0.2


def test_the_model_is_left_ready():
    model = small(dropout=0.1)
    ardm.fit(model, BITS, steps=20, **QUICK)
    assert not any(module.training for module in model.modules())
    assert all(p.grad is None for p in model.parameters())
    assert (model.profile.counts > 0).all()
    assert int(model.profile.counts.sum()) == 20  # 20 held-out items once each: 4 D observations
    assert model.plan(2).schedule.num_calls == 2
    assert model.sample(2, calls=2).shape == (2, 5)


def test_the_history_has_each_evaluation():
    fitted = ardm.fit(small(), BITS, steps=10, eval_every=4, **QUICK)
    assert [record["step"] for record in fitted.history] == [4, 8, 10]
    assert all(set(record) == {"step", "seconds", "bits", "valid_bits"} for record in fitted.history)
    assert fitted.valid_bits == min(record["valid_bits"] for record in fitted.history)
    assert 0 < fitted.history[0]["seconds"] <= fitted.seconds


def test_without_held_out_data_the_last_weights_are_kept():
    fitted = ardm.fit(model := small(), BITS, valid=0, steps=10, eval_every=4, **QUICK)
    assert all("valid_bits" not in record for record in fitted.history)
    assert math.isnan(fitted.valid_bits)
    assert (model.profile.counts.sum() > 0).item()
    short = small()
    ardm.fit(short, BITS, valid=0, steps=10, eval_every=10, **QUICK)
    assert same(weights(model), weights(short))


@pytest.mark.parametrize("keep_best", [True, False])
def test_the_best_weights_are_kept(keep_best):
    """The held-out items are the opposite of the training data, so that every step is for the worse."""
    fitted = ardm.fit(
        small(),
        torch.zeros(40, 5).long(),
        valid=torch.ones(40, 5).long(),
        keep_best=keep_best,
        steps=60,
        eval_every=20,
        ema_decay=0.0,
        **QUICK,
    )
    bits = [record["valid_bits"] for record in fitted.history]
    assert bits == sorted(bits)
    assert fitted.valid_bits == bits[0 if keep_best else -1]


def test_kept_weights_give_the_held_out_bits():
    model = small(dropout=0.5)
    valid = BITS[:60]
    fitted = ardm.fit(model, BITS[60:], valid=valid, steps=30, **QUICK)
    assert model.score(valid, passes=400).bits_per_dim == pytest.approx(fitted.valid_bits, abs=0.1)


def test_dropout_is_off_in_evaluation():
    """With dropout of everything, training sees only biases; held-out items are scored with the whole network."""
    seen = []

    class Watched(Small):
        def forward(self, inputs, mask, stage, t):
            seen.append((self.dropout.training, torch.is_grad_enabled()))
            return super().forward(inputs, mask, stage, t)

    ardm.fit(ardm.order_agnostic(Watched(dropout=0.5), 2, 5), BITS, steps=4, eval_every=2, **QUICK)
    assert {training for training, has_gradient in seen if has_gradient} == {True}
    assert {training for training, has_gradient in seen if not has_gradient} == {False}


def test_training_is_a_function_of_the_seed():
    first, again, other = small(dropout=0.3), small(dropout=0.3), small(dropout=0.3)
    before = torch.random.get_rng_state()
    for model, seed in ((first, 1), (again, 1), (other, 2)):
        ardm.fit(model, BITS, steps=10, seed=seed, **QUICK)
    assert same(weights(first), weights(again))
    assert not same(weights(first), weights(other))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_minutes_end_a_training_with_an_evaluation():
    fitted = ardm.fit(small(), BITS, minutes=0.005, eval_every=10**6, **QUICK)
    assert [record["step"] for record in fitted.history] == [fitted.steps]
    assert fitted.seconds >= 0.3


def test_progress_goes_to_standard_error(capsys):
    ardm.fit(small(), BITS, steps=10, batch_size=16)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1].startswith("step 10 of 10, ")
    assert "held out" in printed.err


# Forms of data


class Pairs(Dataset):
    """Items with their contexts, or alone."""

    def __init__(self, *parts):
        self.parts = parts

    def __len__(self):
        return len(self.parts[0])

    def __getitem__(self, index):
        values = tuple(part[index] for part in self.parts)
        return values if len(values) > 1 else values[0]


FORMS = {
    "tensor": BITS,
    "uint8": BITS.byte(),
    "bool": BITS.bool(),
    "float": BITS.float(),
    "array": BITS.numpy(),
    "uint16": BITS.numpy().astype(np.uint16),
    "list": BITS.tolist(),
    "tuple of one": (BITS,),
    "dataset": Pairs(BITS),
    "dataset of lists": Pairs([np.array(item) for item in BITS.tolist()]),
    "tensor dataset": TensorDataset(BITS),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_data_gives_the_same_training(form):
    model, expected = small(), small()
    ardm.fit(expected, BITS, steps=5, **QUICK)
    ardm.fit(model, FORMS[form], steps=5, **QUICK)
    assert same(weights(model), weights(expected))


@pytest.mark.parametrize("data", [Pairs(BITS), TensorDataset(BITS)])
def test_loaders_have_their_own_batches(data):
    loader = DataLoader(data, batch_size=64, shuffle=True)
    model = small()
    fitted = ardm.fit(
        model, loader, valid=DataLoader(data, batch_size=50), steps=60, progress=False, learning_rate=0.05
    )
    assert fitted.valid_bits < 0.5
    assert int(model.profile.counts.sum()) == 200  # of the held-out items
    assert math.isnan(ardm.fit(small(), loader, steps=3, progress=False).valid_bits)


@pytest.mark.parametrize("form", ["pair", "arrays", "dataset", "tensor dataset", "loader"])
def test_contexts_come_with_items(form):
    """Items are copies of their label."""
    labels = torch.arange(200) % 2
    items = labels[:, None].expand(-1, 5).contiguous()
    data = {
        "pair": (items, labels),
        "arrays": (items.numpy(), labels.tolist()),
        "dataset": Pairs(items, labels.tolist()),
        "tensor dataset": TensorDataset(items, labels),
        "loader": DataLoader(TensorDataset(items, labels), batch_size=16),
    }[form]
    model = ardm.order_agnostic(Labelled(), 2, 5)
    valid = data if form == "loader" else 0.2
    fitted = ardm.fit(model, data, valid=valid, steps=80, **(QUICK | {"learning_rate": 0.1}))
    assert fitted.valid_bits < 0.2
    assert model.sample(4, context=[0, 1, 1, 0]).mean(1).round().tolist() == [0, 1, 1, 0]
    assert (model.profile.counts.sum() > 0).item()


def test_missing_values_are_learned_around():
    """The first copy is always missing in one half of the items, the last in the other."""
    items = BITS.double()
    items[::2, 0], items[1::2, 4] = math.nan, math.nan
    model = small()
    fitted = ardm.fit(model, items, steps=200, **QUICK)
    assert fitted.valid_bits < 0.4  # 0.25 at best
    assert fitted.history[-1]["bits"] == pytest.approx(fitted.valid_bits, abs=0.2)
    assert model.infill([1, math.nan, 1, 1, math.nan], n=20).mean() > 0.9


def test_items_held_out_are_not_trained_on():
    config = FitConfig(steps=1, batch_size=7)
    train, valid = _split(torch.arange(50)[:, None], 0.2, config)
    held_out = torch.cat([batch.x for batch in valid.once()]).flatten().tolist()
    batches = train.after(0)
    trained = [set(torch.cat([next(batches).x for _ in range(5)]).flatten().tolist()) for _ in range(2)]
    assert len(held_out) == 10
    assert all(len(epoch) == 35 and not epoch & set(held_out) for epoch in trained)
    assert trained[0] != trained[1]


def test_batches_continue_from_any_step():
    batches = Batches((torch.arange(20), None), np.arange(20), 6, 3)
    iterator = batches.after(0)
    all_of_them = [next(iterator).x.tolist() for _ in range(8)]
    for step in range(8):
        assert next(batches.after(step)).x.tolist() == all_of_them[step]


# Resuming


class Interrupting(Dataset):
    """Raises KeyboardInterrupt, as Ctrl-C does, once so many items have been read."""

    def __init__(self, after):
        self.left = after

    def __len__(self):
        return len(BITS)

    def __getitem__(self, index):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return BITS[index]


@pytest.mark.parametrize("after", [1, 100, 400, 700])
@pytest.mark.parametrize("optimizer", [None, lambda p: torch.optim.SGD(p, lr=0.1), torch.optim.Adagrad])
def test_an_interrupted_training_continues_to_the_bit(after, optimizer, tmp_path):
    options = {"steps": 40, "eval_every": 7, "optimizer": optimizer, **QUICK}
    whole = small(dropout=0.3)
    expected = ardm.fit(whole, BITS, **options)
    stopped = ardm.fit(small(dropout=0.3), Interrupting(after), folder=tmp_path, **options)
    assert stopped.steps < 40
    model = small(dropout=0.3)
    fitted = ardm.fit(model, Interrupting(0), folder=tmp_path, **options)
    assert same(weights(model), weights(whole))
    assert torch.equal(model.profile.bits, whole.profile.bits)
    assert [{**record, "seconds": 0} for record in fitted.history] == [
        {**record, "seconds": 0} for record in expected.history
    ]
    assert fitted.valid_bits == expected.valid_bits


def test_an_interrupted_training_keeps_what_it_has_learned():
    """No evaluation has come, but the weights are not those of the beginning."""
    model = small()
    fitted = ardm.fit(model, Interrupting(16 * 150), steps=1000, eval_every=10**6, **QUICK)
    assert 100 < fitted.steps < 1000
    assert fitted.valid_bits < 0.7
    assert len(fitted.history) == 1
    assert not model.training
    assert (model.profile.counts.sum() > 0).item()


def test_a_finished_training_is_read_again(tmp_path):
    first, again = small(), small(seed=1)
    fitted = ardm.fit(first, BITS, steps=10, folder=tmp_path, **QUICK)
    assert ardm.fit(again, BITS, steps=10, folder=tmp_path, **QUICK).history == fitted.history
    assert same(weights(first), weights(again))
    assert ardm.fit(again, BITS, steps=20, folder=tmp_path, **QUICK).steps == 20


def test_tied_weights_are_saved(tmp_path):
    class Tied(Small):
        def __init__(self):
            super().__init__()
            self.other = self.layer

    for steps in (5, 10):
        assert ardm.fit(ardm.order_agnostic(Tied(), 2, 5), BITS, steps=steps, folder=tmp_path, **QUICK).steps == steps


def test_another_training_or_network_is_refused(tmp_path):
    ardm.fit(small(), BITS, steps=2, folder=tmp_path, **QUICK)
    with pytest.raises(UsageError, match="had another learning_rate, seed; choose another folder"):
        ardm.fit(small(), BITS, steps=4, folder=tmp_path, **(QUICK | {"learning_rate": 0.1, "seed": 1}))
    with pytest.raises(CheckpointError, match="is of another network: size mismatch for network.embedding.weight"):
        ardm.fit(small(width=9), BITS, steps=4, folder=tmp_path, **QUICK)
    (tmp_path / "fit.safetensors").write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match="is damaged or not a safetensors file"):
        ardm.fit(small(), BITS, steps=4, folder=tmp_path, **QUICK)


# Wrong arguments


class Stream(IterableDataset):
    def __iter__(self):
        return iter(BITS)


def loader_of(count, **options):
    return DataLoader(TensorDataset(BITS[:count]), **options)


@pytest.mark.parametrize(
    ("data", "options", "text"),
    [
        (BITS, {}, "say how long to train: steps= or minutes="),
        (BITS, {"steps": 0}, "steps must be positive, got 0"),
        (BITS, {"minutes": -1.0}, "minutes must be positive, got -1.0"),
        (BITS, {"steps": 2, "batch_size": 0}, "batch_size must be positive, got 0"),
        (BITS, {"steps": 2, "learning_rate": math.nan}, "learning_rate must be positive, got nan"),
        (BITS, {"steps": 2, "weight_decay": -1.0}, "weight_decay must be 0 or more, got -1.0"),
        (BITS, {"steps": 2, "seed": -1}, "seed must be 0 or more, got -1"),
        (BITS, {"steps": 2, "ema_decay": 1.0}, r"ema_decay must lie in \[0, 1\), got 1.0"),
        (BITS, {"steps": 2, "valid": 1.5}, r"valid must be data or a fraction in \[0, 1\), got 1.5"),
        (BITS[:1], {"steps": 2, "valid": 0.9}, "1 items are too few to hold 90% out; give valid=0 or more data"),
        (BITS[:0], {"steps": 2}, "there is no item to train on"),
        ([], {"steps": 2}, "there is no item to train on"),
        (BITS[:, :4], {"steps": 2}, r"expected items of shape \(5,\), one or a stack of them, got shape \(\d+, 4\)"),
        (BITS + 1, {"steps": 2}, r"has the value 2 at variable \d, whose classes are 0\.\.1"),
        (BITS + 0.5, {"steps": 2}, r"expected whole numbers, got [01]\.5; round or bin"),
        (BITS * math.nan, {"steps": 2}, r"every value of item \d+ is missing \(NaN\); leave such items out"),
        ((BITS, BITS, BITS), {"steps": 2}, "data is items, or a pair of items and contexts; got a tuple of 3"),
        ((BITS, BITS[:3]), {"steps": 2}, "expected a context with a row for each of 200 items, got 3 rows"),
        ((BITS, 3), {"steps": 2}, "expected a context with a row for each of 200 items, got a single number"),
        ((BITS, BITS), {"steps": 2}, "this network takes no context"),
        (Pairs(BITS, BITS, BITS), {"steps": 2}, "a Dataset or DataLoader gives items, or pairs .*; got 3 parts"),
        (Stream(), {"steps": 2}, "a Dataset without a length cannot be shuffled; give a DataLoader of it"),
        (loader_of(3, batch_size=5, drop_last=True), {"steps": 2}, "the DataLoader gives no batch"),
        (BITS, {"steps": 2, "valid": loader_of(3, batch_size=5, drop_last=True)}, "the held-out data has no item"),
        (BITS, {"steps": 2, "valid": BITS[:0]}, "there is no item to train on"),
        (["a text", "another"], {"steps": 2}, "expected whole numbers, got <U7|expected items of shape"),
        (7, {"steps": 2}, "there is no item to train on"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(data, options, text):
    model = small()
    with as_users_call(), pytest.raises(ArdmError, match=text) as caught:
        ardm.fit(model, data, progress=False, **options)
    assert "\n" not in str(caught.value)


def test_a_conditional_network_needs_contexts():
    with pytest.raises(UsageError, match="this network takes a context"):
        ardm.fit(ardm.order_agnostic(Labelled(), 2, 5), BITS, steps=2, progress=False)


def test_exact_models_and_networks_without_parameters_are_refused():
    with pytest.raises(UsageError, match="an exact model cannot be trained"):
        ardm.fit(ardm.load("text"), BITS, steps=2)
    with pytest.raises(UsageError, match="the network has no parameter to train"):
        ardm.fit(ardm.order_agnostic(Small().requires_grad_(False), 2, 5), BITS, steps=2)


def test_a_loss_that_is_not_finite_ends_the_training_and_leaves_the_best_weights():
    model = small()
    start = weights(model)
    with pytest.raises(ArdmError, match="the loss is nan at step 4; start again with a lower rate"):
        ardm.fit(model, BITS, steps=20, eval_every=4, progress=False, learning_rate=1e30)
    assert same(weights(model), start)


def test_a_class_that_appears_late_is_told():
    with pytest.raises(DataError, match="whose classes are"):
        ardm.fit(small(), torch.cat([BITS, BITS + 1]), steps=60, progress=False)


def test_a_training_stopped_within_its_first_evaluation_keeps_its_weights(monkeypatch):
    model, calls = small(), iter(range(100))
    evaluate = Fitting._valid_bits

    def interrupted(self):
        if next(calls) == 0:
            raise KeyboardInterrupt
        return evaluate(self)

    monkeypatch.setattr(Fitting, "_valid_bits", interrupted)
    before = weights(model)
    fitted = ardm.fit(model, BITS, steps=100, eval_every=20, **QUICK)
    assert fitted.steps == 20
    assert fitted.valid_bits == fitted.history[-1]["valid_bits"]
    assert not same(before, weights(model))


def test_evaluations_are_spread_over_the_steps():
    fitted = ardm.fit(small(), BITS, steps=60, **QUICK)
    assert [record["step"] for record in fitted.history] == list(range(3, 61, 3))


def test_dropout_and_the_objective_draw_apart():
    assert _seed(3, 7, 0) != _seed(3, 7, 1)
    assert _seed(3, 7, 0) != _seed(3, 8, 0) != _seed(4, 8, 0)


def test_a_folder_belongs_to_its_data_and_its_steps(tmp_path):
    ardm.fit(small(), BITS, steps=4, folder=tmp_path, **QUICK)
    with pytest.raises(UsageError, match="was on other data; choose another folder"):
        ardm.fit(small(), 1 - BITS, steps=8, folder=tmp_path, **QUICK)
    with pytest.raises(UsageError, match="is already at step 4; give more steps or another folder"):
        ardm.fit(small(), BITS, steps=2, folder=tmp_path, **QUICK)


def test_arguments_that_fit_does_not_have():
    with pytest.raises(UsageError, match="fit has no argument lr; it has steps, minutes"):
        ardm.fit(small(), BITS, lr=0.1)
    with as_users_call(), pytest.raises(UsageError, match="give a function that makes the optimizer"):
        ardm.fit(small(), BITS, steps=1, optimizer=torch.optim.SGD(small().parameters(), lr=0.1))


def test_slow_evaluations_take_a_small_part_of_a_training_by_time(monkeypatch):
    evaluate = Fitting._valid_bits

    def slowly(self):
        time.sleep(0.2)
        return evaluate(self)

    monkeypatch.setattr(Fitting, "_valid_bits", slowly)
    fitted = ardm.fit(small(), BITS, minutes=0.03, **QUICK)  # twenty would take 4 s
    assert len(fitted.history) <= 5
    assert fitted.history[-1]["step"] == fitted.steps
