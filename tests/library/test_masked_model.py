"""Masked models on sequences of different lengths, against a bare loop over the raw network, one sequence at a time."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from tiny_masked import BERT_TOKENS, CASES, ESM_TOKENS, ORDERS, esm
from torch import nn

import ardm
from ardm.errors import DataError, UsageError
from ardm.likelihood import student_95

each_case = pytest.mark.parametrize("name", CASES)
TEXTS = ["ACGACGGACA", "GGACGCAAC", "CCCACAGA", "GACGA", "ACGG", "C"]
"""The first three share a batch, as do the next two, so that some are padded."""


def numbers(case, text):
    return tuple(case.names.index(letter) for letter in text)


def bits_in_order(case, text, order, known=()):
    """-log2 p(text at the places of an order | text at the known ones), from the raw network alone."""
    x, seen = numbers(case, text), [*known]
    states = []
    for place in order:
        states.append(tuple(token if i in seen else case.mask for i, token in enumerate(x)))
        seen.append(place)
    probs = case.probs(states)
    return -sum(math.log2(probs[i, place, case.ordinary.index(x[place])]) for i, place in enumerate(order))


def raster_bits(case, text):
    return bits_in_order(case, text, range(len(text)))


def pseudo_bits(case, text):
    """The bits of each token given all others, added up."""
    everywhere = range(len(text))
    return sum(bits_in_order(case, text, [place], [i for i in everywhere if i != place]) for place in everywhere)


def test_the_sequences_share_batches():
    sizes = [rows.lengths.tolist() for rows in CASES["bert"]().model().items.rows(TEXTS)]
    assert sizes == [[10, 9, 8], [5, 4], [1]]


# Scores


@each_case
def test_padded_sequences_have_the_bits_of_each_alone(name):
    case = CASES[name]()
    model = case.model()
    together = model.score(TEXTS, order="raster")
    assert together.num_variables.tolist() == [len(text) for text in TEXTS]
    assert together.bits.tolist() == pytest.approx([raster_bits(case, text) for text in TEXTS], rel=1e-9)
    backwards = model.score(TEXTS[::-1], order="reverse", batch_size=2)
    expected = [bits_in_order(case, text, range(len(text))[::-1]) for text in TEXTS[::-1]]
    assert backwards.bits.tolist() == pytest.approx(expected, rel=1e-9)


@each_case
def test_padding_is_not_seen(name):
    """Whatever stands beyond the end of an item changes none of its logits."""
    network = CASES[name]().model().ardm.network
    lengths, low, high = torch.tensor([10, 7, 3]), min(CASES[name]().ordinary), max(CASES[name]().ordinary)
    first, second = (torch.full((3, 10), number) for number in (low, high))
    inside = torch.arange(10) < lengths[:, None]
    inputs = [torch.where(inside, first, other) for other in (first, second)]
    facts = (torch.ones(3, 10).bool(), torch.zeros(3).long(), lengths)
    with torch.no_grad():
        one, other = (network(values, *facts, lengths)[inside] for values in inputs)
        alone = [network(first[i : i + 1, :size], *facts)[0] for i, size in enumerate(lengths.tolist())]
    assert torch.equal(one, other)
    torch.testing.assert_close(one, torch.cat(alone), rtol=1e-9, atol=1e-9)


@each_case
def test_the_bound_of_sequences_of_different_lengths(name):
    case, texts = CASES[name](), ["ACG", "GA", "C"]
    score = case.model().score([text for text in texts for _ in range(600)], passes=2)
    found = score.bits.reshape(3, 600)
    means = [np.mean([bits_in_order(case, text, order) for order in permutations(range(len(text)))]) for text in texts]
    wide = 4 * found.std(1) / math.sqrt(600)
    assert np.all(abs(found.mean(1) - means) <= wide + 1e-9)
    assert wide.max() < 1.1


def test_the_size_of_texts_in_characters():
    vocabulary = ardm.Vocabulary(["[MASK]", "AC", "G", "é"], "AC|[Gé]")
    case = CASES["alone"]()
    model = ardm.wrap(case.network, vocabulary)
    score = model.score(["ACGé", "G"])
    assert score.num_variables.tolist() == [3, 1]
    assert {unit: size.tolist() for unit, size in score.sizes.items()} == {"character": [4, 1], "byte": [5, 1]}
    assert score.bits_per("byte") == pytest.approx(score.bits.sum() / 6)
    assert CASES["bert"]().model().score("ACG").sizes == {}


def test_special_tokens_within_a_text_are_given(tmp_path):
    case = CASES["bert"]()
    model = case.model()
    found = model.score(["A[SEP]CG", "ACG"], order="raster")
    assert found.num_variables.tolist() == [3, 3]
    separator, x = case.names.index("[SEP]"), numbers(case, "ACG")
    states = [tuple(x[:n] + (case.mask,) * (3 - n)) for n in range(3)]
    states = [(state[0], separator, *state[1:]) for state in states]
    probs = case.probs(states)
    places = (0, 2, 3)
    expected = -sum(math.log2(probs[i, places[i], case.ordinary.index(x[i])]) for i in range(3))
    assert found.bits.tolist() == pytest.approx([expected, raster_bits(case, "ACG")], rel=1e-9)
    assert model.pseudo_score("A[SEP]CG").num_variables.tolist() == [3]


# Pseudo-log-likelihoods


@each_case
@pytest.mark.parametrize("batch_size", [3, 64])
def test_pseudo_log_likelihoods(name, batch_size):
    case, seen = CASES[name](), []
    found = case.model().pseudo_score(TEXTS, batch_size=batch_size, on_batch=seen.append)
    assert found.bits.tolist() == pytest.approx([pseudo_bits(case, text) for text in TEXTS], rel=1e-9)
    assert found.num_variables.tolist() == [len(text) for text in TEXTS]
    assert found.bits_per_dim == pytest.approx(found.bits.sum() / sum(map(len, TEXTS)))
    assert (sum(seen), max(seen) <= batch_size) == (sum(map(len, TEXTS)), True)
    assert str(found).endswith("6 items; pseudo-log-likelihood, which is not a probability")


# Variants


def log_ratio(case, wild, variant, order):
    """log2 p(variant) / p(wild type) at the places of an order, given the others."""
    known = [place for place in range(len(wild)) if place not in order]
    return bits_in_order(case, wild, order, known) - bits_in_order(case, variant, order, known)


def mean_log_ratio(case, wild, variant):
    """Its mean over all orders of the places that differ."""
    places = [place for place in range(len(wild)) if wild[place] != variant[place]]
    return np.mean([log_ratio(case, wild, variant, order) for order in permutations(places)])


@each_case
def test_variants_at_up_to_three_places_are_the_mean_over_all_orders(name):
    case = CASES[name]()
    wild, variants = "ACGACG", ["ACGACG", "ACGCCG", "GCGACA", "CCAACA"]
    found = case.model().variants(wild, variants)
    expected = [0.0, *(mean_log_ratio(case, wild, variant) for variant in variants[1:])]
    assert found.log2_ratio.tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert found.half_width.tolist() == [0.0] * 4
    assert found.num_places.tolist() == [0, 1, 2, 3]
    back = [-case.model().variants(variant, wild).log2_ratio[0] for variant in variants]
    assert back == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_orders_of_a_variant_differ():
    case = CASES["bert"]()
    ratios = [log_ratio(case, "ACGACG", "CCAACA", order) for order in permutations([0, 2, 5])]
    assert np.ptp(ratios) > 0.01


def test_variants_at_many_places_are_the_mean_over_random_orders():
    case = CASES["bert"]()
    wild, variant, model = "ACGACG", "CAAGGC", CASES["bert"]().model()
    exact = model.variants(wild, variant, orders=720)
    assert exact.half_width.tolist() == [0.0]
    found = [model.variants(wild, variant, orders=20, seed=seed) for seed in range(12)]
    ratios, half_widths = (np.array([getattr(one, name)[0] for one in found]) for name in ("log2_ratio", "half_width"))
    assert len({*ratios}) == 12
    assert (abs(ratios - exact.log2_ratio[0]) <= half_widths).sum() >= 10
    assert ratios.mean() == pytest.approx(exact.log2_ratio[0], abs=4 * ratios.std() / math.sqrt(12))
    every = [log_ratio(case, wild, variant, order) for order in permutations(range(6))]
    assert exact.log2_ratio[0] == pytest.approx(np.mean(every), rel=1e-9)
    usual = student_95(19) * np.std(every) / math.sqrt(20)
    assert np.median(half_widths) == pytest.approx(usual, rel=0.3)
    assert model.variants(wild, variant, orders=20, seed=3).log2_ratio[0] == ratios[3]


def test_substitutions_in_words():
    model, wild = CASES["esm"]().model(), "ACGACG"
    whole = model.variants(wild, ["CCGACG", "CCGACA", "CCGACA"])
    named = model.variants(wild, ["A1C", "A1C:G6A", "A1C, G6A"])
    assert named.log2_ratio.tolist() == whole.log2_ratio.tolist()
    assert str(named).splitlines()[1].endswith("± 0.000 bits at 2 places")
    for wrong, message in [
        ("C1A", "C1A: the wild type has A at position 1, not C"),
        ("A7C", "A7C: the wild type has positions 1 to 6, not 7"),
        ("A0C", "A0C: the wild type has positions 1 to 6, not 0"),
        ("A1T", "the variant A1T is neither substitutions of known tokens, such as A23G, nor a sequence of them"),
        ("A1_", "the variant A1_ is neither substitutions"),
        ("A1<eos>", "the variant A1<eos> is neither substitutions"),
        ("A1C:A1G", "A1C:A1G: a position is named twice"),
        ("ACG", "a variant has as many tokens as the wild type, 6; got 3"),
        ("ACGAC_", "the variant has a hidden token"),
    ]:
        with pytest.raises(DataError, match=message):
            model.variants(wild, wrong)
    with pytest.raises(UsageError, match="this model takes 1 to 24 tokens at once"):
        model.variants("ACGCA" * 5, "A1C")
    with pytest.raises(UsageError, match="orders must be at least 2, got 1"):
        model.variants(wild, "A1C", orders=1)
    with pytest.raises(DataError, match="expected at least one sequence, got none"):
        model.variants(wild, [])


def test_a_variant_of_smiles_is_no_substitution():
    model = ardm.wrap(Tokenwise(9), ardm.Vocabulary(["<mask>", "C", "Cl", "[13C]", "O", "=", "(", ")", "N"]))
    assert model.variants("CC", ["C[13C]", "C2Cl"]).num_places.tolist() == [1, 1]


class Tokenwise(nn.Module):
    """A network with logits from each token and the mean of all."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.values, self.logits = nn.Embedding(size, 8), nn.Linear(8, size)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        values = self.values(input_ids)
        return self.logits(values + values.mean(1, keepdim=True))


# Sequences longer than the window


LONG = "ACGACGGACACCGATGACGA".replace("T", "C")
"""Windows of 8 over its 20 tokens are 0..7, then 6..13 and 12..19, both given their first two."""


@each_case
def test_long_sequences_are_scored_in_windows_that_see_the_text_before(name):
    case = CASES[name]()
    model = case.model(window=8)
    expected = raster_bits(case, LONG[:8])
    expected += sum(bits_in_order(case, part, range(2, 8), known=[0, 1]) for part in (LONG[6:14], LONG[12:]))
    score = model.score([LONG, "ACG"], order="raster")
    assert score.num_variables.tolist() == [20, 3]
    assert score.bits.tolist() == pytest.approx([expected, raster_bits(case, "ACG")], rel=1e-9)


@pytest.mark.parametrize("name", ["bert", "alone"])
def test_pseudo_log_likelihoods_in_windows(name):
    case = CASES[name]()
    expected = pseudo_bits(case, LONG[:8])
    for part in (LONG[6:14], LONG[12:]):
        expected += sum(bits_in_order(case, part, [i], [j for j in range(8) if j != i]) for i in range(2, 8))
    found = case.model(window=8).pseudo_score([LONG, "ACG"])
    assert found.num_variables.tolist() == [20, 3]
    assert found.bits.tolist() == pytest.approx([expected, pseudo_bits(case, "ACG")], rel=1e-9)


def test_the_bound_in_windows_and_what_takes_no_windows():
    model = CASES["bert"]().model(window=8)
    assert model.score([LONG, "ACG"], passes=3).num_variables.tolist() == [20, 3]
    assert model.score([LONG], calls=4, schedule="uniform").num_variables.tolist() == [20]
    with pytest.raises(DataError, match="the sequence has 9 tokens; this model fills up to 8"):
        model.infill("ACGACGAC_")
    with pytest.raises(UsageError, match="this model takes 1 to 8 tokens at once"):
        model.sample(shape=9)


# Training


@each_case
def test_training_losses_are_those_of_the_bound(name):
    case, texts = CASES[name](), ["ACG", "GA", "C"]
    model, repeats = case.model(), 900
    rows = model.batch([text for text in texts for _ in range(repeats)])
    with torch.no_grad():
        losses = rows.losses(model.ardm, torch.Generator().manual_seed(0)).bits_per_dim * 3
    found = losses.view(3, repeats)
    means = [np.mean([bits_in_order(case, text, order) for order in permutations(range(len(text)))]) for text in texts]
    wide = 4 * found.std(1) / math.sqrt(repeats)
    assert bool(((found.mean(1) - torch.tensor(means)).abs() <= wide + 1e-9).all())
    assert float(wide.max()) < 1.1
    assert rows.share_scored == pytest.approx(6 / 9)


@pytest.mark.parametrize("name", ["bert", "esm", "alone"])
def test_fitting_sequences_of_different_lengths(name):
    case = CASES[name]()
    state = {key: value.clone() for key, value in case.network.state_dict().items()}
    model, texts = case.model(length=5), [letter * size for letter in "ACG" for size in (2, 4, 7)] * 8
    before = model.score(texts, passes=4).bits_per_dim
    fitted = ardm.fit(model, texts, steps=40, learning_rate=1e-2, batch_size=16, progress=False)
    after = model.score(texts, passes=4)
    model.network.load_state_dict(state)  # the cases are shared
    assert model.shape == (5,)
    assert after.bits_per_dim < 0.6 * before
    assert fitted.valid_bits == pytest.approx(after.bits_per_dim, abs=0.8)
    assert model.profile.bits.shape == (1, 7)
    assert model.profile_source == "measured on held-out data"
    assert bool(model.profile.counts.all())


def test_long_sequences_are_cut_to_train_on_them():
    model = CASES["bert"]().model(window=8)
    encoded = model.items.encoded([LONG, "A[SEP]"])
    assert encoded.shape == (4, 8)
    assert [int((row >= 0).sum()) for row in encoded] == [8, 8, 4, 2]
    rows = model.for_shape((8,)).batch(encoded)
    assert rows.context.tolist() == [8, 8, 4, 2]
    assert rows.given.nonzero().tolist() == [[3, 1]]


# Profiles


@each_case
def test_the_measured_profile_is_the_loss_of_each_step(name):
    case, texts = CASES[name](), ["ACG", "CCA", "GAC"]
    model = case.model()
    score = model.measure(texts, passes=600)
    expected = np.zeros(3)
    for text in texts:
        for order in ORDERS:
            for t in range(3):
                rest = order[t:]
                each = [bits_in_order(case, text, [place], order[:t]) for place in rest]
                expected[t] += np.mean(each) / (len(ORDERS) * len(texts))
    assert model.profile_source == "measured on held-out data"
    assert score.profile is model.profile
    assert model.profile.counts.sum().item() == 1800
    np.testing.assert_allclose(model.profile.bits[0], expected, rtol=0.1)
    assert model.plan(2).schedule.num_calls == 2


def test_the_profile_of_sequences_of_different_lengths_goes_by_the_share_that_is_revealed():
    model = CASES["bert"]().model(window=20)
    model.measure(["ACGACGACGA", "ACG", "C"] * 20, passes=10)
    assert model.profile.bits.shape == (1, 10)
    for size in (4, 20):
        assert model.for_shape((size,)).plan(3).schedule.num_steps == size
    assert len(model.sample(1, calls=3, shape=15)[0]) == 15


# ESM-2's token dropout


def test_token_dropout_can_be_switched():
    ids = torch.tensor([[0, *[8] * 120, 2]])
    network = esm()
    model = ardm.wrap(network, ardm.Vocabulary(ESM_TOKENS), token_dropout=True, window=120)
    with torch.no_grad():
        scaled = network.esm.embeddings(ids, attention_mask=torch.ones_like(ids))
        plain = network.esm.embeddings.word_embeddings(ids)
    factor = (scaled[0, 0] / plain[0, 0]).mean().item()
    assert factor == pytest.approx(0.88 / (2 / 122), rel=1e-5)
    assert round(factor) == 54
    text = "ACG" * 4
    on = model.score(text, order="raster").bits
    own = ardm.wrap(esm(), ardm.Vocabulary(ESM_TOKENS))
    assert own.score(text, order="raster").bits == on, "as it was trained, by default"
    off = ardm.wrap(network, ardm.Vocabulary(ESM_TOKENS), token_dropout=False)
    assert not network.config.token_dropout
    bare = esm(token_dropout=False)
    with torch.no_grad():
        bare.esm.embeddings.word_embeddings.weight[8] = 0
    expected = ardm.wrap(bare, ardm.Vocabulary(ESM_TOKENS)).score(text, order="raster").bits
    assert off.score(text, order="raster").bits == pytest.approx(expected, rel=1e-12)
    assert abs(expected - on).min() > 0.1
    with pytest.raises(UsageError, match="this network has no token dropout, which is ESM-2's"):
        ardm.wrap(CASES["bert"]().network, ardm.Vocabulary(BERT_TOKENS), token_dropout=False)


class Weighted(nn.Module):
    """A network that returns its weights themselves, for every item the same."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(1, 9, 4))
        self.shift = nn.Parameter(torch.zeros(()))

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.weights[:, : input_ids.shape[1]].expand(len(input_ids), -1, -1)


def test_weights_are_never_overwritten():
    network = Weighted()
    before = network.weights.detach().clone()
    model = ardm.wrap(network, ardm.Vocabulary(["<mask>", "A", "C", "G"]), window=9)
    model.pseudo_score(["ACG"])
    model.score(["ACG", "ACGACG"], order="raster")
    assert torch.equal(network.weights, before)


class OfOneLength(nn.Module):
    """A network of sequences of exactly five tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.values, self.layer = nn.Embedding(4, 8), nn.Linear(40, 20)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.layer(self.values(input_ids).flatten(1)).view(-1, 5, 4)


def test_a_network_of_one_length():
    vocabulary = ardm.Vocabulary(["<mask>", "A", "C", "G"])
    with pytest.raises(ValueError, match="a network of one length only needs length= and window="):
        ardm.wrap(OfOneLength(), vocabulary)
    model = ardm.wrap(OfOneLength(), vocabulary, length=5, window=5)
    texts = ["".join("ACG"[number // 3**place % 3] for place in range(5)) for number in range(3**5)]
    bits = model.score(texts, order="raster").bits
    assert np.exp2(-bits).sum() == pytest.approx(1)


def test_a_time_of_ones_own_is_not_saved(tmp_path):
    model = CASES["timed"]().model()
    own = ardm.wrap(model.network, model.tokenizer, time_of=torch.sqrt)
    with pytest.raises(UsageError, match="a model with a time_of= of its own cannot be saved"):
        ardm.save(own, tmp_path / "own")


def test_the_average_of_the_losses_is_by_the_share_that_is_revealed():
    """The losses of shorter sequences stand at the steps of the longest, by the share of their tokens."""
    short, long = ["ACG"], ["ACGACGACGACG"]
    model = ardm.wrap(Tokenwise(4), ardm.Vocabulary(["<mask>", "A", "C", "G"]), length=12)
    rows = model.for_shape((12,)).batch(short * 2000 + long * 2000)
    with torch.no_grad():
        t = rows.losses(model.for_shape((12,)).ardm, torch.Generator().manual_seed(0)).t
    assert sorted(set(t[:2000].tolist())) == [0, 4, 8]
    assert sorted(set(t[2000:].tolist())) == list(range(12))
